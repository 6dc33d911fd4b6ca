#include "timeline/instruction_event.h"

#include "mesh/domain.h"

/* Values for the words of the column `domain`. */
enum {
  DOMAIN_REPLICAS = TRI_DOMAIN_REPLICAS,
  DOMAIN_LOSS = TRI_DOMAIN_LOSS,
  DOMAIN_TENSOR = TRI_DOMAIN_TENSOR,
  DOMAIN_PIPELINE = TRI_DOMAIN_PIPELINE,
  DOMAIN_ALL = TRI_NUM_DOMAINS,
  DOMAIN_NONE = TRI_NUM_DOMAINS,
};

#define ENTRY(KIND, name, operands, completion, event, domain) {TRI_EVENT_##event, DOMAIN_##domain},
static const struct entry {
  tri_event_kind event;
  int domain;
} table[] = {TRI_INSTRUCTIONS(ENTRY)};
#undef ENTRY

tri_event_kind tri_instruction_event(tri_instruction_kind kind) { return table[kind].event; }

int tri_instruction_axis(tri_instruction_kind kind) {
  int domain = table[kind].domain;
  return domain == TRI_NUM_DOMAINS ? (int)TRI_EVENT_NO_AXIS : (int)tri_domain_axis((tri_domain)domain);
}
