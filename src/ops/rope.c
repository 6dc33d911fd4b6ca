/* Rotary position embedding (Su et al. 2021), in the half-split pairing of Llama: components d and d + D/2 of each q
 * and k head rotate by position * theta^(-2d/D), or by the angle of rope_scaling.h. The backward rotates back by the
 * same angle.
 *
 * If the angle depends on the length of the sequence, rows of the table below `prefill_tokens` are rotated as in a
 * sequence of that length: all of them in training. A token that is generated after a prompt is rotated as in a
 * sequence whose last token it is, and keys stay in the cache as they were rotated. transformers does the same.
 *
 * The list of divisors of longrope is chosen once for a table, by the number of its positions (in generation: prompt
 * and tokens to generate), so that queries and keys are always rotated consistently. transformers switches to the other
 * list at the token that exceeds the original length; for Phi-3 it then reprocesses the text so far, and for other
 * models it does not. */
#include "device/kernels.h"
#include "ops/attention.h"
#include "ops/ops.h"
#include "ops/run.h"

#include <math.h>

typedef struct rope {
  tri_heads heads;
  tri_rope_table table;
} rope;

typedef struct rope_constant {
  tri_rope_table table;
  tri_dtype type;
} rope_constant;

/* Returns the number of elements of a head that rotate. */
static int64_t rotated_elements(const tri_rope_table *table) {
  return table->rotary_dim == 0 ? table->head_dim : table->rotary_dim;
}

static double frequency(const tri_rope_table *table, int64_t position, int64_t pair) {
  int64_t length = position < table->prefill_tokens ? table->prefill_tokens : position + 1;
  if (table->scaling.type == TRI_ROPE_LONG) length = table->positions;
  return tri_rope_frequency(&table->scaling, table->theta, rotated_elements(table), length, pair);
}

/* Writes the table: cosines [positions, D/2], then sines. */
static void op_rope_fill(const void *attributes, void *host) {
  const rope_constant *at = attributes;
  int64_t half = rotated_elements(&at->table) / 2;
  int64_t count = at->table.positions * half;
  bool by_length = at->table.scaling.type == TRI_ROPE_DYNAMIC;
  double factor = tri_rope_attention_factor(&at->table.scaling);
  for (int64_t pair = 0; pair < half; pair++) {
    double rotate = frequency(&at->table, 0, pair);
    for (int64_t position = 0; position < at->table.positions; position++) {
      if (by_length && position >= at->table.prefill_tokens) rotate = frequency(&at->table, position, pair);
      double angle = (double)position * rotate;
      int64_t i = position * half + pair;
      tri_wide_set(tri_dtype_wide(at->type), host, i, factor * cos(angle));
      tri_wide_set(tri_dtype_wide(at->type), host, count + i, factor * sin(angle));
    }
  }
}

static bool same_table(const tri_rope_table *a, const tri_rope_table *b) {
  return a->positions == b->positions && a->prefill_tokens == b->prefill_tokens &&
         rotated_elements(a) == rotated_elements(b) && a->theta == b->theta &&
         tri_rope_scalings_equal(&a->scaling, &b->scaling);
}

static tri_status find_constant(tri_op_list *list, const tri_rope_table *table, int32_t *out) {
  for (int64_t i = 0; i < list->num_constants; i++) {
    const rope_constant *at = list->constants[i].attributes;
    if (list->constants[i].fill != op_rope_fill || !same_table(&at->table, table)) continue;
    *out = (int32_t)i;
    return TRI_OK;
  }
  rope_constant attributes = {*table, tri_dtype_wide(list->type)};
  tri_constant constant = {.fill = op_rope_fill};
  constant.bytes = (size_t)table->positions * (size_t)rotated_elements(table) * tri_dtype_bytes(attributes.type);
  TRI_TRY(tri_op_list_keep(list, &attributes, sizeof attributes, &constant.attributes));
  return tri_op_list_add_constant(list, &constant, out);
}

/* Rotates in place if the memory plan has placed the output over the input; else copies the rows first. */
static tri_status rotate(tri_run *run, const tri_op_call *call, const void *x, void *y, bool inverse) {
  const rope *at = call->attributes;
  int64_t rows = tri_run_rows(run, call);
  int64_t width = tri_attention_width(at->heads);
  int64_t positions = run->cache == NULL ? run->sequence : run->cache->positions;
  if (positions > at->table.positions) {
    return tri_fail(TRI_BAD_CONFIG, "position %ld is beyond the %ld that this program was made for", (long)positions,
                    (long)at->table.positions);
  }
  if (x != y) TRI_KERNEL_CALL(run->queue, convert, rows * width, call->type, x, call->type, y);
  const char *cosine = run->constants[call->constant];
  size_t half_bytes = (size_t)at->table.positions * (size_t)(rotated_elements(&at->table) / 2) *
                      tri_dtype_bytes(tri_dtype_wide(call->type));
  TRI_KERNEL_CALL(run->queue, rope, call->type, tri_all_rows(rows), width, at->heads.heads + at->heads.kv_heads,
                  at->heads.head_dim, rotated_elements(&at->table), run->positions, cosine, cosine + half_bytes,
                  inverse, y);
  return TRI_OK;
}

static tri_status op_rope_forward(tri_run *run, const tri_op_call *call) {
  return rotate(run, call, run->slots[call->inputs[0]], run->slots[call->outputs[0]], false);
}

static tri_status op_rope_backward_input(tri_run *run, const tri_op_call *call) {
  return rotate(run, call, run->gradients[call->outputs[0]], run->gradients[call->inputs[0]], true);
}

static void op_rope_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const rope *at = call->attributes;
  (void)pass;
  double elements =
      (double)call->rows * (double)(at->heads.heads + at->heads.kv_heads) * (double)rotated_elements(&at->table);
  tri_op_cost_of_elements(call, elements, 3.0, 2.0, out);
}

static const tri_op op_rope = {
    .name = "rope",
    .in_place = true,
    .backward_in_place = true,
    .shape = tri_op_same_shape,
    .forward = op_rope_forward,
    .backward_input = op_rope_backward_input,
    .cost = op_rope_cost,
};

tri_status tri_op_rope(tri_op_list *list, tri_heads heads, const tri_rope_table *table, int32_t qkv, int32_t *out) {
  int32_t constant = -1;
  TRI_TRY(find_constant(list, table, &constant));
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, &op_rope, &(rope){heads, *table}, sizeof(rope), &call));
  call.inputs[0] = qkv;
  call.constant = constant;
  return tri_op_list_append_first(list, &call, 1, out);
}
