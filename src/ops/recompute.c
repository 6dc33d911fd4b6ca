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
  for (int32_t s = root; s >= 0; s = list->slots[s].next_in_memory) {
    const tri_slot *slot = &list->slots[s];
    if (slot->producer < range.first || slot->last_consumer >= range.end) return true;
  }
  return false;
}

static bool all_cheap(const tri_op_list *list, int32_t root) {
  for (int32_t s = root; s >= 0; s = list->slots[s].next_in_memory) {
    if (!list->calls[list->slots[s].producer].op->cheap) return false;
  }
  return true;
}

static bool is_kept(const tri_op_list *list, int32_t root) {
  for (int32_t s = root; s >= 0; s = list->slots[s].next_in_memory) {
    if (list->slots[s].kept) return true;
  }
  return false;
}

/* Whether all that uses the memory is made by calls that work on rows of experts. */
static bool all_experts(const tri_op_list *list, int32_t root) {
  for (int32_t s = root; s >= 0; s = list->slots[s].next_in_memory) {
    if (!list->calls[list->slots[s].producer].op->of_experts) return false;
  }
  return true;
}

static bool is_thrown_away(const tri_op_list *list, tri_recompute what, int32_t root) {
  switch (what) {
    case TRI_RECOMPUTE_NONE: return false;
    case TRI_RECOMPUTE_SELECTIVE: return all_cheap(list, root);
    case TRI_RECOMPUTE_EXPERTS: return all_experts(list, root);
    case TRI_RECOMPUTE_FULL: return true;
  }
  return false;
}

static void throw_away(tri_op_list *list, tri_call_range range, tri_recompute what) {
  for (int32_t c = range.first; c < range.end; c++) {
    for (int i = 0; i < TRI_OP_OUTPUTS; i++) {
      const int32_t s = list->calls[c].outputs[i];
      if (s < 0 || list->slots[s].memory_of != s) continue;
      if (!is_kept(list, s) || leaves(list, s, range) || !is_thrown_away(list, what, s)) continue;
      list->slots[s].recomputed = true;
    }
  }
}

/* From the end of the layer to its beginning: whatever makes a slot again needs its inputs, kept or made again too. */
static void find_calls_once(tri_op_list *list, tri_call_range range) {
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

static int64_t num_again(const tri_op_list *list, tri_call_range range) {
  int64_t count = 0;
  for (int32_t c = range.first; c < range.end; c++) count += list->calls[c].again;
  return count;
}

/* A call that runs again for one of its outputs writes the others too; what a later call has made in the memory of one
 * of these (a dropout of a norm, in place) has to be made again then, and so on. */
static void find_calls(tri_op_list *list, tri_call_range range) {
  int64_t before = -1;
  while (num_again(list, range) != before) {
    before = num_again(list, range);
    find_calls_once(list, range);
  }
}

void tri_op_list_recompute(tri_op_list *list, tri_recompute what, int64_t every) {
  switch (what) {
    case TRI_RECOMPUTE_NONE: return;
    case TRI_RECOMPUTE_SELECTIVE:
    case TRI_RECOMPUTE_EXPERTS: every = 1; break;
    case TRI_RECOMPUTE_FULL: break;
  }
  if (!list->training) return;
  for (int64_t c = 0; c < list->num_calls;) {
    tri_call_range range = tri_op_list_layer(list, c);
    int32_t layer = list->calls[c].layer;
    c = range.end;
    if (!list->calls[range.first].recomputable || layer % every != 0) continue;
    throw_away(list, range, what);
    find_calls(list, range);
  }
}
