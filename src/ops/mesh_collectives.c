/* Collectives between the ranks of a domain within a layer: one operation, and a table row for each use of it.
 *
 * A row names the collective that computes the output from the input, and the one that computes the input's gradient
 * from the output's. The two are each other's transpose. If every rank has the same rows, partial results of split
 * matrices are summed in one of the two directions ("f" and "g" of Megatron-LM, Shoeybi et al. 2019, figure 3):
 *
 *   nothing         y = x                                  all_reduce      dx = sum of the ranks' dy
 *   all_reduce      y = sum of the ranks' x                nothing         dx = dy
 *
 * If each rank has a slice of the rows (sequence parallelism, Korthikanti et al. 2022), rows are gathered, and sums are
 * scattered:
 *
 *   all_gather      y = all rows, of the ranks' slices     reduce_scatter  dx = this rank's slice of the sum of dy
 *   reduce_scatter  y = this rank's slice of the sum of x  all_gather      dx = all rows, of the slices of dy
 *
 * If every rank has the same rows and each takes a slice of them, nothing is summed:
 *
 *   nothing         y = this rank's slice of x             all_gather      dx = all rows, of the slices of dy
 *   all_gather      y = all rows, of the ranks' slices     nothing         dx = this rank's slice of dy */
#include "device/kernels.h"
#include "ops/ops.h"
#include "ops/run.h"

struct tri_mesh_collective {
  tri_op op;
  tri_domain domain;
  tri_collective forward, backward;
  bool cuts; /* whether the direction without communication takes a slice */
};

typedef struct mesh_collective {
  const tri_mesh_collective *row;
  int64_t width, all_rows;
  int64_t first_row, rows; /* rows of this rank's slice */
  const int64_t *begins;   /* [ranks + 1]: first element of each rank's slice; NULL if rows are not sliced */
} mesh_collective;

/* Returns whether the forward's output is a slice; `before`: whether its input is. */
static bool leaves_slices(const tri_mesh_collective *row, bool before) {
  if (row->cuts && row->forward == TRI_COLLECTIVE_NONE) return true;
  switch (row->forward) {
    case TRI_COLLECTIVE_NONE:
    case TRI_COLLECTIVE_ALL_TO_ALL:
    case TRI_COLLECTIVE_PASS:
    case TRI_COLLECTIVE_ALL_REDUCE: break;
    case TRI_COLLECTIVE_ALL_GATHER: return false;
    case TRI_COLLECTIVE_REDUCE_SCATTER: return true;
  }
  return before;
}

static tri_status op_mesh_collective_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                           tri_shape outputs[TRI_OP_OUTPUTS]) {
  const mesh_collective *at = call->attributes;
  outputs[0] = inputs[0];
  switch (at->row->forward) {
    case TRI_COLLECTIVE_NONE:
      if (at->row->cuts) outputs[0].rows = at->rows;
      break;
    case TRI_COLLECTIVE_ALL_TO_ALL:
    case TRI_COLLECTIVE_PASS:
    case TRI_COLLECTIVE_ALL_REDUCE: break;
    case TRI_COLLECTIVE_ALL_GATHER: outputs[0].rows = at->all_rows; break;
    case TRI_COLLECTIVE_REDUCE_SCATTER: outputs[0].rows = at->rows; break;
  }
  return TRI_OK;
}

static tri_status copy(tri_run *run, const tri_op_call *call, int64_t rows, const void *from, void *to) {
  const mesh_collective *at = call->attributes;
  if (from == to) return TRI_OK;
  TRI_KERNEL_CALL(run->queue, convert, rows * at->width, call->type, from, call->type, to);
  return TRI_OK;
}

static char *slice_of(const tri_op_call *call, void *all) {
  const mesh_collective *at = call->attributes;
  return (char *)all + (size_t)(at->first_row * at->width) * tri_dtype_bytes(call->type);
}

/* Copies `from` to `to`, or adds it to `to`. */
static tri_status leave(tri_run *run, const tri_op_call *call, int64_t rows, const void *from, void *to, bool adds) {
  const mesh_collective *at = call->attributes;
  if (!adds) return copy(run, call, rows, from, to);
  TRI_KERNEL_CALL(run->queue, add, call->type, tri_all_rows(rows), at->width, to, from, to);
  return TRI_OK;
}

/* Runs a collective. If `from` has all rows, it is reduced in place, even if the result is added to `to`, because
 * `from` is not read afterwards. */
static tri_status pass(tri_run *run, const tri_op_call *call, tri_collective collective, void *from, void *to,
                       bool adds) {
  const mesh_collective *at = call->attributes;
  int64_t rows = tri_run_rows(run, call);
  tri_domain domain = at->row->domain;
  switch (collective) {
    case TRI_COLLECTIVE_ALL_TO_ALL:
    case TRI_COLLECTIVE_PASS: break; /* no row of the table has it */
    case TRI_COLLECTIVE_NONE:
      if (at->row->cuts) return leave(run, call, at->rows, slice_of(call, from), to, adds);
      return leave(run, call, rows, from, to, adds);
    case TRI_COLLECTIVE_ALL_REDUCE:
      if (!adds) TRI_TRY(copy(run, call, rows, from, to));
      TRI_TRY(tri_run_all_reduce(run, domain, call->type, rows * at->width, adds ? from : to));
      return adds ? leave(run, call, rows, from, to, true) : TRI_OK;
    case TRI_COLLECTIVE_ALL_GATHER:
      TRI_TRY(copy(run, call, at->rows, from, slice_of(call, to)));
      return tri_run_all_gather(run, domain, call->type, at->begins, to);
    case TRI_COLLECTIVE_REDUCE_SCATTER:
      TRI_TRY(tri_run_reduce_scatter(run, domain, call->type, at->begins, from));
      return leave(run, call, at->rows, slice_of(call, from), to, adds);
  }
  return tri_fail_internal("no such collective");
}

static tri_status op_mesh_collective_forward(tri_run *run, const tri_op_call *call) {
  const mesh_collective *at = call->attributes;
  return pass(run, call, at->row->forward, run->slots[call->inputs[0]], run->slots[call->outputs[0]], false);
}

static tri_status op_mesh_collective_backward_input(tri_run *run, const tri_op_call *call) {
  const mesh_collective *at = call->attributes;
  return pass(run, call, at->row->backward, run->gradients[call->outputs[0]], run->gradients[call->inputs[0]],
              call->accumulate[0]);
}

static void op_mesh_collective_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const mesh_collective *at = call->attributes;
  tri_collective collective = TRI_COLLECTIVE_NONE;
  switch (pass) {
    case TRI_PASS_FORWARD: collective = at->row->forward; break;
    case TRI_PASS_BACKWARD_INPUT: collective = at->row->backward; break;
    case TRI_PASS_BACKWARD_WEIGHT: break;
  }
  double bytes = (double)(at->all_rows * at->width) * (double)tri_dtype_bytes(call->type);
  out->exchanges[0] = (tri_cost_exchange){.collective = collective, .domain = at->row->domain, .bytes = bytes};
}

/* Functions of the operations. A row of the table without slices, whose forward or backward needs no communication, may
 * run in place in both directions. It is `cheap` if recomputing its forward needs no communication. */
#define FUNCTIONS                                                                                                      \
  .shape = op_mesh_collective_shape, .forward = op_mesh_collective_forward,                                            \
  .backward_input = op_mesh_collective_backward_input, .cost = op_mesh_collective_cost

const tri_mesh_collective tri_copy_to_tensor = {
    {.name = "copy_to_tensor",
     .cheap = true,
     .in_place = true,
     .backward_in_place = true,
     .adds_gradients = 1u << 0,
     FUNCTIONS},
    TRI_DOMAIN_TENSOR,
    TRI_COLLECTIVE_NONE,
    TRI_COLLECTIVE_ALL_REDUCE,
    false,
};

const tri_mesh_collective tri_reduce_from_tensor = {
    {.name = "reduce_from_tensor", .in_place = true, .backward_in_place = true, FUNCTIONS},
    TRI_DOMAIN_TENSOR,
    TRI_COLLECTIVE_ALL_REDUCE,
    TRI_COLLECTIVE_NONE,
    false,
};

const tri_mesh_collective tri_gather_sequence = {
    {.name = "gather_sequence", .gathers_sequence = true, .adds_gradients = 1u << 0, FUNCTIONS},
    TRI_DOMAIN_TENSOR,
    TRI_COLLECTIVE_ALL_GATHER,
    TRI_COLLECTIVE_REDUCE_SCATTER,
    false,
};

const tri_mesh_collective tri_scatter_sequence = {
    {.name = "scatter_sequence", FUNCTIONS},
    TRI_DOMAIN_TENSOR,
    TRI_COLLECTIVE_REDUCE_SCATTER,
    TRI_COLLECTIVE_ALL_GATHER,
    false,
};

const tri_mesh_collective tri_own_slice = {
    {.name = "take_slice", .cheap = true, FUNCTIONS},
    TRI_DOMAIN_TENSOR,
    TRI_COLLECTIVE_NONE,
    TRI_COLLECTIVE_ALL_GATHER,
    true,
};

const tri_mesh_collective tri_join_slices = {
    {.name = "join_slices", FUNCTIONS}, TRI_DOMAIN_TENSOR, TRI_COLLECTIVE_ALL_GATHER, TRI_COLLECTIVE_NONE, true,
};

#undef FUNCTIONS

tri_status tri_op_mesh_collective(tri_op_list *list, const tri_mesh_collective *row, int32_t x, int32_t *out) {
  mesh_collective attributes = {
      .row = row, .width = list->slots[x].shape.width, .all_rows = list->batch * list->sequence};
  bool after = leaves_slices(row, list->sliced);
  tri_op_list_slice(list, row->domain, &attributes.first_row, &attributes.rows);
  if (after != list->sliced) TRI_TRY(tri_op_list_keep_slices(list, row->domain, attributes.width, &attributes.begins));
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, &row->op, &attributes, sizeof attributes, &call));
  call.inputs[0] = x;
  TRI_TRY(tri_op_list_append_first(list, &call, 1, out));
  list->sliced = after;
  return TRI_OK;
}
