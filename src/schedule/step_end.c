#include "schedule/step_end.h"

bool tri_end_is_tied(const tri_end_place *place) { return place->tied_pair; }

/* What is reduced inside the backward has been summed there. */
bool tri_end_is_partial(const tri_end_place *place) {
  return place->bucket->partial && place->layout->tensor > 1 && !place->reduced;
}

bool tri_end_is_reduced(const tri_end_place *place) { return place->bucket->ranks > 1 && !place->reduced; }

bool tri_end_is_awaited(const tri_end_place *place) { return place->bucket->ranks > 1 && !place->waited; }

/* Values that are sharded between steps are gathered where a pass reads them. */
bool tri_end_is_gathered(const tri_end_place *place) {
  return place->layout->zero > 0 && place->bucket->ranks > 1 && !place->bucket->values_sharded;
}

const tri_step_end *tri_step_end_default(void) {
  static const tri_end_entry entries[] = {
      TRI_END_REDUCE,
      {TRI_CLIP, TRI_END_ONCE, NULL},
      {TRI_UPDATE, TRI_END_ONCE, NULL},
      TRI_END_GATHER,
  };
  static const tri_step_end end = {entries, (int64_t)(sizeof entries / sizeof entries[0])};
  return &end;
}
