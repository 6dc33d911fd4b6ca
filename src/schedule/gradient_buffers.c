/* Decides which gradients of activations share a buffer.
 *
 * The gradient of a slot is alive from the first call that writes it (a consumer of the slot, going backward) to the
 * last pass of the call that reads it (its producer). Two kinds of sharing save memory and copies:
 *
 * An operation that may work in place (`backward_in_place`) writes the gradient of its input over that of its output,
 * if no other gradient is alive in that buffer.
 *
 * In an addition y = x + branch, the gradients of x and branch are equal to that of y. The gradient of x takes over the
 * buffer of y's gradient. The gradient of branch may use this buffer, too, if no call adds to the gradient of x before
 * the producer of branch has read it: every other consumer of x must come before this producer in the list. This is the
 * case in a pre-norm block, where the norm that reads x is the first call of the branch. With a split backward, a
 * producer with weights reads the gradient of branch a second time, for the gradients of its weights. By then other
 * calls have added to the gradient of x, so the gradient of branch gets a buffer of its own. */
#include "base/memory.h"
#include "schedule/memory_plan.h"

typedef struct grouping {
  const tri_op_list *list;
  bool split_backward;
  int32_t *buffer_of;
  int32_t *alive; /* number of gradients in each buffer that have not been read yet [buffer] */
  int64_t num_buffers;
} grouping;

static void assign_buffer(grouping *g, int32_t slot, int32_t buffer) {
  g->buffer_of[slot] = buffer;
  g->alive[buffer]++;
}

static void assign_new_buffer(grouping *g, int32_t slot) { assign_buffer(g, slot, (int32_t)g->num_buffers++); }

/* Returns whether every consumer of `slot` but `call` comes before call `limit` in the list. */
static bool others_come_before(const tri_op_list *list, int32_t slot, int32_t call, int32_t limit) {
  for (int64_t c = limit; c <= list->slots[slot].last_consumer; c++) {
    if (c == call) continue;
    for (int i = 0; i < TRI_OP_INPUTS; i++) {
      if (list->calls[c].inputs[i] == slot) return false;
    }
  }
  return true;
}

/* Returns whether the gradients of both inputs of an addition may share a buffer (see above). */
static bool branch_may_share(const grouping *g, const tri_op_call *add) {
  int32_t x = add->inputs[0], branch = add->inputs[1];
  int32_t producer = g->list->slots[branch].producer;
  if (g->split_backward && tri_op_has_weights(&g->list->calls[producer])) return false;
  return others_come_before(g->list, x, add->index, producer) && g->list->slots[branch].last_consumer == add->index;
}

/* Assigns buffers to the gradients of a call's inputs. Calls are visited from the last to the first. */
static void visit(grouping *g, const tri_op_call *call) {
  int32_t y = call->outputs[0];
  int32_t above = y >= 0 ? g->buffer_of[y] : -1;
  if (above >= 0) g->alive[above]--;
  bool free_above = above >= 0 && g->alive[above] == 0;
  for (int i = 0; i < TRI_OP_INPUTS; i++) {
    int32_t x = call->inputs[i];
    if (x < 0 || !tri_op_has_inputs(call) || call->accumulate[i]) continue;
    if ((call->op->no_gradients >> i & 1u) != 0) continue;
    bool share = false;
    if (call->op->passes_gradient) {
      share = free_above && (i == 0 || (g->buffer_of[call->inputs[0]] == above && branch_may_share(g, call)));
    } else if (call->op->backward_in_place) {
      share = free_above && i == 0;
    }
    if (share) {
      assign_buffer(g, x, above);
    } else {
      assign_new_buffer(g, x);
    }
  }
}

tri_status tri_gradient_buffers(const tri_op_list *list, bool split_backward, int32_t *buffer_of,
                                int64_t *num_buffers) {
  grouping g = {.list = list, .split_backward = split_backward, .buffer_of = buffer_of};
  TRI_TRY(tri_alloc("gradient buffers", (size_t)list->num_slots + 1, sizeof *g.alive, &g.alive));
  for (int64_t s = 0; s < list->num_slots; s++) buffer_of[s] = -1;
  for (int64_t c = list->num_calls - 1; c >= 0; c--) visit(&g, &list->calls[c]);
  tri_free(g.alive);
  *num_buffers = g.num_buffers;
  return TRI_OK;
}
