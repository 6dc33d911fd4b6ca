#include "timeline/instruction_event.h"

/* The words of the column `axis`. */
enum {
  AXIS_TENSOR = TRI_AXIS_TENSOR,
  AXIS_CONTEXT = TRI_AXIS_CONTEXT,
  AXIS_DATA = TRI_AXIS_DATA,
  AXIS_PIPELINE = TRI_AXIS_PIPELINE,
  AXIS_ALL = TRI_EVENT_NO_AXIS,
  AXIS_NONE = TRI_EVENT_NO_AXIS,
};

#define ENTRY(KIND, name, operands, completion, event, axis) {TRI_EVENT_##event, AXIS_##axis},
static const struct entry {
  tri_event_kind event;
  int axis;
} table[] = {TRI_INSTRUCTIONS(ENTRY)};
#undef ENTRY

tri_event_kind tri_instruction_event(tri_instruction_kind kind) { return table[kind].event; }
int tri_instruction_axis(tri_instruction_kind kind) { return table[kind].axis; }
