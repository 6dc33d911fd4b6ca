/* Shapes, slices and costs that all kinds of attention share. */
#include "ops/attention.h"

#include <math.h>

int64_t tri_attention_width(tri_heads heads) {
  return tri_attention_query_width(heads) + tri_attention_key_width(heads);
}

int64_t tri_attention_query_width(tri_heads heads) { return heads.heads * heads.head_dim; }

int64_t tri_attention_key_width(tri_heads heads) { return 2 * heads.kv_heads * heads.head_dim; }

void *tri_attention_keys(const tri_op_call *call, tri_heads heads, void *qkv) {
  return (char *)qkv + (size_t)tri_attention_query_width(heads) * tri_dtype_bytes(call->type);
}

tri_attention tri_attention_of(const tri_op_call *call, tri_heads heads, tri_scores scores, int64_t rows) {
  const int64_t row = tri_attention_width(heads), head = heads.head_dim;
  return (tri_attention){
      .type = call->type,
      .out_type = call->type,
      .gradient_type = call->type,
      .heads = heads.heads,
      .kv_heads = heads.kv_heads,
      .head_dim = head,
      .scale = scores.scale > 0 ? scores.scale : 1.0 / sqrt((double)head),
      .soft_cap = scores.soft_cap,
      .query_rows = rows,
      .key_rows = rows,
      .q_row = row,
      .q_head = head,
      .k_row = row,
      .k_head = head,
      .v_row = row,
      .v_head = head,
      .out_row = heads.heads * head,
      .out_head = head,
      .num_slices = call->most_slices,
      .most_queries = call->sequence,
      .most_keys = call->sequence,
  };
}

const tri_attention_slice *tri_attention_set_slices(const tri_run *run, const tri_op_call *call, int64_t blocks,
                                                    int64_t block, tri_attention *p) {
  const int64_t list = call->window * blocks + block;
  p->num_slices = run->slice_begins[list + 1] - run->slice_begins[list];
  return run->slices + run->slice_begins[list];
}

tri_status tri_attention_shape(const tri_op_call *call, tri_heads heads, const tri_shape *input,
                               tri_shape outputs[TRI_OP_OUTPUTS]) {
  if (input->width != tri_attention_width(heads)) {
    return tri_fail_internal("attention takes width %ld and was given %ld", (long)tri_attention_width(heads),
                             (long)input->width);
  }
  outputs[0] = (tri_shape){input->rows, tri_attention_query_width(heads), call->type};
  outputs[1] = (tri_shape){input->rows, heads.heads, tri_dtype_wide(call->type)};
  return TRI_OK;
}

void tri_attention_cost(const tri_op_call *call, tri_heads heads, tri_scores scores, int64_t tokens, tri_pass pass,
                        tri_cost *out) {
  *out = (tri_cost){0};
  if (pass == TRI_PASS_BACKWARD_WEIGHT) return;
  double pairs = call->attention_fraction * (double)call->rows * ((double)tokens + 1.0) / 2.0;
  double width = (double)tri_attention_query_width(heads);
  double products = tri_pass_choose(pass, 2.0, 5.0, 0);
  out->flops = products * 2.0 * pairs * width;
  out->scores = pairs * (double)heads.heads;
  out->rows = (double)call->sequence;
  out->columns = (double)tokens;
  out->inner = (double)heads.head_dim;
  out->products = (double)call->rows / (double)call->sequence * (double)heads.heads;
  if (scores.soft_cap > 0) out->capped = out->scores * tri_pass_choose(pass, 16.0, 19.0, 0);
  out->vector_flops = out->scores * 8.0 + out->capped;
  double row = (double)tri_attention_width(heads) + width;
  out->bytes = (double)call->rows * row * (double)tri_dtype_bytes(call->type) * tri_pass_choose(pass, 1.0, 2.0, 0);
}
