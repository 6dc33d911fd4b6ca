#include "ops/recompute.h"

/* What stands before and behind a layer (stage_input, stage_output) may carry its number, and does not run again. */
static bool same_layer(const tri_op_call *a, const tri_op_call *b) {
  return a->layer == b->layer && a->recomputable == b->recomputable;
}

tri_call_range tri_op_list_layer(const tri_op_list *list, int64_t call) {
  const tri_op_call *at = &list->calls[call];
  tri_call_range range = {(int32_t)call, (int32_t)call + 1};
  while (range.first > 0 && same_layer(&list->calls[range.first - 1], at)) range.first--;
  while (range.end < list->num_calls && same_layer(&list->calls[range.end], at)) range.end++;
  return range;
}

/* Whether some call outside the range makes a slot in this memory, or reads one going forward. */
static bool leaves(const tri_op_list *list, int32_t root, tri_call_range range) {
  for (int64_t s = root; s < list->num_slots; s++) {
    const tri_slot *slot = &list->slots[s];
    if (slot->memory_of != root) continue;
    if (slot->producer < range.first || slot->last_consumer >= range.end) return true;
  }
  return false;
}

static bool all_cheap(const tri_op_list *list, int32_t root) {
  for (int64_t s = root; s < list->num_slots; s++) {
    const tri_slot *slot = &list->slots[s];
    if (slot->memory_of == root && !list->calls[slot->producer].op->cheap) return false;
  }
  return true;
}

static bool is_kept(const tri_op_list *list, int32_t root) {
  for (int64_t s = root; s < list->num_slots; s++) {
    if (list->slots[s].memory_of == root && list->slots[s].kept) return true;
  }
  return false;
}

static void throw_away(tri_op_list *list, tri_call_range range, bool cheap_only) {
  for (int32_t s = 0; s < list->num_slots; s++) {
    tri_slot *slot = &list->slots[s];
    if (slot->memory_of != s || slot->producer < range.first || slot->producer >= range.end) continue;
    if (!is_kept(list, s) || leaves(list, s, range) || (cheap_only && !all_cheap(list, s))) continue;
    slot->recomputed = true;
  }
}

/* From the end of the layer to its beginning: whatever makes a slot again needs its inputs, kept or made again too. */
static void find_calls(tri_op_list *list, tri_call_range range) {
  for (int32_t c = range.end - 1; c >= range.first; c--) {
    tri_op_call *call = &list->calls[c];
    for (int i = 0; i < TRI_OP_OUTPUTS; i++) {
      if (call->outputs[i] >= 0 && list->slots[list->slots[call->outputs[i]].memory_of].recomputed) call->again = true;
    }
    for (int i = 0; i < TRI_OP_INPUTS && call->again; i++) {
      if (call->inputs[i] < 0) continue;
      tri_slot *root = &list->slots[list->slots[call->inputs[i]].memory_of];
      bool inside = root->producer >= range.first;
      if (inside && !is_kept(list, root->memory_of)) root->recomputed = true;
      if (!inside) root->kept = true;
    }
    /* Its other outputs are written again too, and must not be written where something else lies. */
    for (int i = 0; i < TRI_OP_OUTPUTS && call->again; i++) {
      if (call->outputs[i] >= 0) list->slots[list->slots[call->outputs[i]].memory_of].recomputed = true;
    }
  }
}

void tri_op_list_recompute(tri_op_list *list, tri_recompute what, int64_t every) {
  bool cheap_only = false;
  switch (what) {
    case TRI_RECOMPUTE_NONE: return;
    case TRI_RECOMPUTE_SELECTIVE: every = 1, cheap_only = true; break;
    case TRI_RECOMPUTE_FULL: break;
  }
  if (!list->training) return;
  for (int64_t c = 0; c < list->num_calls;) {
    tri_call_range range = tri_op_list_layer(list, c);
    int32_t layer = list->calls[c].layer;
    c = range.end;
    if (!list->calls[range.first].recomputable || layer % every != 0) continue;
    throw_away(list, range, cheap_only);
    find_calls(list, range);
  }
}
