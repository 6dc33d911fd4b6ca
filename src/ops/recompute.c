#include "ops/recompute.h"

/* Returns whether two calls belong to the same layer. stage_input and stage_output may have the number of a layer, but
 * are not recomputed with it. */
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

/* Returns whether a call outside of the range writes one of the slots in the memory of slot `root`, or reads one in the
 * forward. */
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

bool tri_op_list_keeps(const tri_op_list *list, int32_t root) {
  for (int32_t s = root; s >= 0; s = list->slots[s].next_in_memory) {
    if (list->slots[s].kept) return true;
  }
  return false;
}

/* Returns whether all slots in the memory are outputs of calls that work on rows of experts. */
static bool all_experts(const tri_op_list *list, int32_t root) {
  for (int32_t s = root; s >= 0; s = list->slots[s].next_in_memory) {
    if (!list->calls[list->slots[s].producer].op->of_experts) return false;
  }
  return true;
}

static bool all_gathered(const tri_op_list *list, int32_t root) {
  for (int32_t s = root; s >= 0; s = list->slots[s].next_in_memory) {
    if (!list->calls[list->slots[s].producer].op->gathers_sequence) return false;
  }
  return true;
}

static bool is_thrown_away(const tri_op_list *list, const tri_recompute_choice *choice, int32_t layer, int32_t root) {
  if (choice->gathered && all_gathered(list, root)) return true;
  switch (choice->what) {
    case TRI_RECOMPUTE_NONE: return false;
    case TRI_RECOMPUTE_SELECTIVE: return all_cheap(list, root);
    case TRI_RECOMPUTE_EXPERTS: return all_experts(list, root);
    case TRI_RECOMPUTE_FULL: return layer % choice->every == 0;
  }
  return false;
}

static void throw_away(tri_op_list *list, tri_call_range range, const tri_recompute_choice *choice) {
  const int32_t layer = list->calls[range.first].layer;
  for (int32_t c = range.first; c < range.end; c++) {
    for (int i = 0; i < TRI_OP_OUTPUTS; i++) {
      const int32_t s = list->calls[c].outputs[i];
      if (s < 0 || list->slots[s].memory_of != s) continue;
      if (!tri_op_list_keeps(list, s) || leaves(list, s, range) || !is_thrown_away(list, choice, layer, s)) continue;
      list->slots[s].recomputed = true;
    }
  }
}

/* Marks the calls that recompute slots, from the end of the layer to its beginning, because a recomputed call needs
 * inputs that are kept or recomputed too. */
static void find_calls_once(tri_op_list *list, tri_call_range range) {
  for (int32_t c = range.end - 1; c >= range.first; c--) {
    tri_op_call *call = &list->calls[c];
    for (int i = 0; i < TRI_OP_OUTPUTS; i++) {
      if (call->outputs[i] >= 0 && list->slots[list->slots[call->outputs[i]].memory_of].recomputed)
        call->recompute = true;
    }
    for (int i = 0; i < TRI_OP_INPUTS && call->recompute; i++) {
      if (call->inputs[i] < 0) continue;
      tri_slot *root = &list->slots[list->slots[call->inputs[i]].memory_of];
      bool inside = root->producer >= range.first;
      if (inside && !tri_op_list_keeps(list, root->memory_of)) root->recomputed = true;
      if (!inside) root->kept = true;
    }
    /* The call writes its other outputs again too, and they must not overwrite other slots. */
    for (int i = 0; i < TRI_OP_OUTPUTS && call->recompute; i++) {
      if (call->outputs[i] >= 0) list->slots[list->slots[call->outputs[i]].memory_of].recomputed = true;
    }
  }
}

static int64_t num_again(const tri_op_list *list, tri_call_range range) {
  int64_t count = 0;
  for (int32_t c = range.first; c < range.end; c++) count += list->calls[c].recompute;
  return count;
}

/* Repeats find_calls_once until nothing changes. A call that is recomputed for one of its outputs writes the others
 * too; a later output in the memory of one of these (a dropout of a norm, in place) then has to be recomputed, and so
 * on. */
static void find_calls(tri_op_list *list, tri_call_range range) {
  int64_t before = -1;
  while (num_again(list, range) != before) {
    before = num_again(list, range);
    find_calls_once(list, range);
  }
}

static void find_in_layers(tri_op_list *list, const tri_recompute_choice *choice) {
  for (int64_t c = 0; c < list->num_calls;) {
    tri_call_range range = tri_op_list_layer(list, c);
    c = range.end;
    if (!list->calls[range.first].recomputable) continue;
    throw_away(list, range, choice);
    find_calls(list, range);
  }
}

/* Returns the slot that occupies a slot's memory when a call is recomputed: the last slot written there in the forward
 * or, if the memory is recomputed, the last one written since. -1: no slot. */
static int32_t content_at(const tri_op_list *list, const tri_op_call *reader, int32_t slot) {
  const int32_t root = list->slots[slot].memory_of;
  int32_t content = -1;
  for (int32_t s = root; s >= 0; s = list->slots[s].next_in_memory) {
    const tri_op_call *writer = &list->calls[list->slots[s].producer];
    const bool written = list->slots[root].recomputed
                             ? writer->recompute && writer->index < reader->index && same_layer(writer, reader)
                             : true;
    if (written) content = s;
  }
  return content;
}

static tri_status fail_lost(const tri_op_list *list, int32_t slot, const char *what) {
  const tri_op_call *producer = &list->calls[list->slots[slot].producer];
  return tri_fail_internal("recompute: what operation %d (%s) of layer %d made is %s", producer->index,
                           producer->op->name, producer->layer, what);
}

/* Returns whether the memory of an input has been overwritten when the call is recomputed. */
static bool is_overwritten(const tri_op_list *list, const tri_op_call *call, int input) {
  const int32_t slot = call->inputs[input];
  return call->recompute && slot >= 0 && content_at(list, call, slot) != slot;
}

/* Fails if a pinned slot is overwritten. */
static tri_status check_pinned(const tri_op_list *list) {
  for (int64_t c = 0; c < list->num_calls; c++) {
    const tri_op_call *call = &list->calls[c];
    for (int i = 0; i < TRI_OP_INPUTS; i++) {
      if (is_overwritten(list, call, i) && list->slots[call->inputs[i]].pinned)
        return fail_lost(list, call->inputs[i], "read again after it was overwritten");
    }
  }
  return TRI_OK;
}

/* Pins each input of a recomputed call whose memory would have been overwritten when the call is recomputed. Returns
 * whether any input was pinned. */
static bool pin_overwritten(tri_op_list *list) {
  bool found = false;
  for (int64_t c = 0; c < list->num_calls; c++) {
    const tri_op_call *call = &list->calls[c];
    for (int i = 0; i < TRI_OP_INPUTS; i++) {
      if (is_overwritten(list, call, i)) list->slots[call->inputs[i]].pinned = found = true;
    }
  }
  return found;
}

/* Checks that no call outside of its layer writes or reads the memory of a recomputed slot. */
static tri_status check_lives(const tri_op_list *list) {
  for (int32_t s = 0; s < list->num_slots; s++) {
    if (list->slots[s].memory_of != s || !list->slots[s].recomputed) continue;
    if (leaves(list, s, tri_op_list_layer(list, list->slots[s].producer)))
      return fail_lost(list, s, "read outside of it");
  }
  return TRI_OK;
}

tri_status tri_op_list_recompute(tri_op_list *list, const tri_recompute_choice *choice) {
  if (!list->training || (choice->what == TRI_RECOMPUTE_NONE && !choice->gathered)) return TRI_OK;
  for (bool found = true; found;) {
    find_in_layers(list, choice);
    TRI_TRY(check_pinned(list));
    found = pin_overwritten(list);
    if (found) tri_op_list_place(list);
  }
  return check_lives(list);
}
