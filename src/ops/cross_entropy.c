/* Output projection and cross entropy in one: loss = -sum over rows r of log(softmax(logits[r])[label[r]]). The logits
 * are h W^T, with a bias, a scale and a soft cap if the model has them (tri_logits).
 *
 * The logits of a large vocabulary are the largest tensor of a step, and not needed afterwards. So they are computed
 * for a chunk of rows at a time; if a backward follows, the chunk is overwritten by its own gradient and used for the
 * gradients of h and W at once, while it may still be in a cache. Only the gradient of h is kept for the backward; it
 * has the size of h. (The same idea as in Liger Kernel and "Cut Your Losses", arXiv 2411.09009.)
 *
 * Each row counts with its label's weight; rows with a negative label do not count. The gradient is that of the loss
 * times loss_scale = 1 / the sum of the label weights of the global batch, which is known before the forward, so that
 * micro-batches and ranks are simply summed.
 *
 * Other losses (tri_label_loss) multiply a row's gradient by a factor that is a function of the label's log-probability
 * and of columns of the batch. The factor is computed for each chunk after its statistics and before its gradient.
 *
 * If the factor depends on all labels of a completion, and of the other completion of a pair (device/completions.h,
 * tri_policy_has_sums), there are two passes. First the statistics of all chunks are computed; then the sums of
 * completions, over context ranks too, and each row's gradient factor; then the gradients, chunk by chunk from the last
 * one, whose logits are still in memory. The logits of the other chunks are computed a second time.
 *
 * A list of scores (tri_op_list.scores) has no backward, and needs the loss of each row: the losses are the call's
 * output.
 *
 * Under tensor parallelism a rank has a slice of the vocabulary and computes only the logits of that slice. The ranks
 * exchange three numbers a row: the maximum, the sum of exponentials and the label's logit; logits are never gathered.
 * The gradient of h is then a partial sum, which the operation before this one reduces.
 *
 * LoRA factors add to the logits of a chunk (lora_up.h); the gradient of their u is kept for the backward, like that of
 * h. */
#include "base/count.h"
#include "device/kernels.h"
#include "ops/lora_up.h"

/* Approximate bytes of the logits of a chunk: large enough for GEMMs at full speed, small in comparison to the rest of
 * a step. */
static const int64_t chunk_target_bytes = 128ll << 20;
enum { CHUNK_MIN_ROWS = 64 };

typedef struct cross_entropy {
  tri_weight weight; /* weight of this rank's slice of the vocabulary, stored as [V, C] */
  int64_t first_id;  /* first token id of the slice */
  int64_t slices;    /* number of slices of the vocabulary */
  tri_lora_up factors;
  tri_logit_form form;
  tri_label_loss_kind kind; /* kind of the loss; cross entropy in a list of scores */
  bool two_passes;
  tri_completions completions;   /* the completions of preferences */
  tri_policy_batch policy;       /* the completions of policy-gradient losses */
  int64_t context, context_rank; /* number of ranks that share the sequences; index of this rank among them */
} cross_entropy;

static bool has_bias(const tri_op_call *call) { return call->parameters[1] >= 0; }

/* Returns whether logits are scaled or capped. */
static bool has_form(const tri_op_call *call) {
  const cross_entropy *at = call->attributes;
  return at->form.scale != 1 || at->form.soft_cap > 0;
}

static int64_t padded_vocabulary(const cross_entropy *at) { return (at->weight.out + 15) / 16 * 16; }

static int64_t chunk_rows(const tri_op_call *call) {
  const cross_entropy *at = call->attributes;
  int64_t row_bytes = padded_vocabulary(at) * (int64_t)tri_dtype_bytes(tri_dtype_wide(call->type));
  int64_t rows = chunk_target_bytes / row_bytes / CHUNK_MIN_ROWS * CHUNK_MIN_ROWS;
  if (rows < CHUNK_MIN_ROWS) rows = CHUNK_MIN_ROWS;
  if (rows >= call->rows) return call->rows;
  int64_t chunks = (call->rows + rows - 1) / rows;
  return (call->rows + chunks - 1) / chunks;
}

/* The three GEMMs of one chunk. */
typedef struct chunk_products {
  tri_matmul logits, hidden, weight;
} chunk_products;

static chunk_products products_of(const tri_op_call *call, int64_t rows) {
  const cross_entropy *at = call->attributes;
  int64_t ld = padded_vocabulary(at);
  tri_dtype wide = tri_dtype_wide(call->type);
  /* The gradient is stored at the start of each row of logits, in the activations' type. */
  int64_t gradient_ld = ld * (int64_t)(tri_dtype_bytes(wide) / tri_dtype_bytes(call->type));
  chunk_products p = {
      .logits = tri_weight_gemm(call, &at->weight, TRI_DIRECTION_FORWARD, rows),
      .hidden = tri_weight_gemm(call, &at->weight, TRI_DIRECTION_BACKWARD, rows),
      .weight = tri_weight_gradient(call, &at->weight, rows),
  };
  p.logits.c_type = wide;
  p.logits.ldc = ld;
  p.logits.bias = has_bias(call);
  p.hidden.lda = gradient_ld;
  p.weight.lda = gradient_ld;
  return p;
}

/* Returns the description of a chunk's logits and their gradients for the GEMMs of LoRA factors. */
static tri_up_rows rows_of(const chunk_products *p) {
  return (tri_up_rows){p->logits.m, p->logits.ldc, p->hidden.lda, true};
}

/* Returns the address of row `first` of an input or output with `width` elements per row. */
static char *from_row(const tri_op_call *call, void *rows, int64_t width, int64_t first) {
  return (char *)rows + (size_t)(first * width) * tri_dtype_bytes(call->type);
}

/* Returns the address of row `first` of the factors' u, or of its gradient; NULL: no factors. */
static char *u_from(const tri_op_call *call, void *const *slots, int32_t slot, int64_t first) {
  const cross_entropy *at = call->attributes;
  return slot < 0 ? NULL : from_row(call, slots[slot], at->factors.b.in, first);
}

/* Returns whether the loss has an entropy bonus. */
static bool has_entropy(const cross_entropy *at) {
  switch (at->kind) {
    case TRI_LABEL_LOSS_CROSS_ENTROPY:
    case TRI_LABEL_LOSS_PREFERENCE: return false;
    case TRI_LABEL_LOSS_POLICY: break;
  }
  return at->policy.settings.entropy_coef != 0;
}

/* The call's workspace, in order: the logits of a chunk, then columns of one number per row of the chunk (with two
 * passes: per row of the micro-batch), then scratch of the GEMMs. */
typedef struct chunk_memory {
  char *logits, *maximum, *sum, *label_logit, *losses, *own_maximum, *spread, *scratch;
} chunk_memory;

/* The part of the workspace before chunk_memory, for losses other than cross entropy. log_probs, factors, row_losses,
 * entropy_slopes, entropy_means: one number per row; `whole`: log-probabilities per token of the whole sequences, if
 * context ranks share them; slopes: two numbers per pair; pair_losses: one number per pair; sums: a tri_policy_sums per
 * token of the whole sequences. */
typedef struct completions_memory {
  double *log_probs, *factors, *row_losses, *entropy_slopes, *entropy_means, *whole, *slopes, *pair_losses, *sums;
} completions_memory;

static int64_t num_pairs(const cross_entropy *at) { return at->completions.sequences * at->completions.pairs; }
static int64_t whole_rows(const cross_entropy *at) { return at->policy.sequences * at->policy.tokens; }

static bool is_cross_entropy(const cross_entropy *at) {
  switch (at->kind) {
    case TRI_LABEL_LOSS_CROSS_ENTROPY: return true;
    case TRI_LABEL_LOSS_PREFERENCE:
    case TRI_LABEL_LOSS_POLICY: break;
  }
  return false;
}

/* Returns the address of element `first` of a column; NULL if the column is NULL. */
static const double *column(const double *values, int64_t first) { return values == NULL ? NULL : values + first; }

static double *allocate_doubles(char *base, size_t *used, int64_t count) {
  char *at = base + *used;
  *used += tri_bytes_in_lines((size_t)count * sizeof(double));
  return (double *)(void *)at;
}

/* Sets the addresses in *out, from `base` on. Returns the bytes of the part. */
static size_t lay_out_completions(const tri_op_call *call, char *base, completions_memory *out) {
  const cross_entropy *at = call->attributes;
  size_t used = 0;
  *out = (completions_memory){0};
  if (is_cross_entropy(at)) return 0;
  out->log_probs = allocate_doubles(base, &used, call->rows);
  out->factors = allocate_doubles(base, &used, call->rows);
  out->row_losses = allocate_doubles(base, &used, call->rows);
  out->entropy_slopes = allocate_doubles(base, &used, has_entropy(at) ? call->rows : 0);
  out->entropy_means = allocate_doubles(base, &used, has_entropy(at) ? call->rows : 0);
  if (!at->two_passes) return used;
  out->whole = allocate_doubles(base, &used, at->context > 1 ? whole_rows(at) : 0);
  switch (at->kind) {
    case TRI_LABEL_LOSS_CROSS_ENTROPY: break;
    case TRI_LABEL_LOSS_PREFERENCE:
      out->slopes = allocate_doubles(base, &used, 2 * num_pairs(at));
      out->pair_losses = allocate_doubles(base, &used, num_pairs(at));
      break;
    case TRI_LABEL_LOSS_POLICY:
      out->sums = allocate_doubles(base, &used, whole_rows(at) * (int64_t)(sizeof(tri_policy_sums) / sizeof(double)));
      break;
  }
  return used;
}

static size_t lay_out(const tri_op_call *call, char *base, chunk_memory *out) {
  const cross_entropy *at = call->attributes;
  completions_memory first;
  const size_t before = lay_out_completions(call, base, &first);
  base += before;
  size_t wide = tri_dtype_bytes(tri_dtype_wide(call->type));
  size_t rows = (size_t)chunk_rows(call);
  size_t column = tri_bytes_in_lines((at->two_passes ? (size_t)call->rows : rows) * wide);
  size_t logits = tri_bytes_in_lines(rows * (size_t)padded_vocabulary(at) * wide);
  out->logits = base;
  out->maximum = base + logits;
  out->sum = out->maximum + column;
  out->label_logit = out->sum + column;
  out->losses = out->label_logit + column;
  out->own_maximum = out->losses + column;
  out->spread = out->own_maximum + column;
  out->scratch = out->spread + (has_entropy(at) ? column : 0);
  return before + logits + (has_entropy(at) ? 6 : 5) * column;
}

static tri_status op_cross_entropy_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                         tri_shape outputs[TRI_OP_OUTPUTS]) {
  outputs[0] = inputs[0];
  if (!call->training) outputs[0] = (tri_shape){inputs[0].rows, 1, tri_dtype_wide(inputs[0].type)};
  outputs[TRI_UP_U] = inputs[TRI_UP_U];
  return TRI_OK;
}

static tri_status chunk_needs(const tri_op_call *call, const tri_device_description *device, int64_t rows,
                              tri_op_memory *out) {
  const cross_entropy *at = call->attributes;
  chunk_products p = products_of(call, rows);
  TRI_TRY(tri_lora_up_memory(call, device, &at->factors, rows_of(&p), out));
  TRI_TRY(tri_weight_memory(call, device, &p.logits, TRI_DIRECTION_FORWARD, out));
  if (!call->training) return TRI_OK;
  TRI_TRY(tri_weight_memory(call, device, &p.hidden, TRI_DIRECTION_BACKWARD, out));
  for (int accumulate = 0; accumulate < 2; accumulate++) {
    p.weight.accumulate = accumulate == 1;
    size_t bytes = 0;
    TRI_TRY(device->matmul_workspace(device, &p.weight, &bytes));
    if (bytes > out->workspace_bytes) out->workspace_bytes = bytes;
  }
  return TRI_OK;
}

static tri_status op_cross_entropy_memory(const tri_op_call *call, const tri_device_description *device,
                                          tri_op_memory *out) {
  int64_t rows = chunk_rows(call);
  TRI_TRY(chunk_needs(call, device, rows, out));
  if (call->rows % rows != 0) TRI_TRY(chunk_needs(call, device, call->rows % rows, out));
  chunk_memory parts;
  static char origin[1];
  out->workspace_bytes += lay_out(call, origin, &parts);
  return TRI_OK;
}

static tri_status op_cross_entropy_prepare(tri_run *run, const tri_op_call *call) {
  chunk_products p = products_of(call, chunk_rows(call));
  TRI_TRY(tri_weight_prepare(run, call, &p.logits, TRI_DIRECTION_FORWARD));
  if (call->training) TRI_TRY(tri_weight_prepare(run, call, &p.hidden, TRI_DIRECTION_BACKWARD));
  return TRI_OK;
}

/* Combines the statistics of the vocabulary's slices into the statistics of the whole vocabulary. */
static tri_status join_slices(tri_run *run, const tri_op_call *call, int64_t rows, const chunk_memory *m) {
  const cross_entropy *at = call->attributes;
  tri_dtype wide = tri_dtype_wide(call->type);
  if (at->slices == 1) return TRI_OK;
  TRI_KERNEL_CALL(run->queue, convert, rows, wide, m->maximum, wide, m->own_maximum);
  TRI_TRY(tri_run_all_maximum(run, TRI_DOMAIN_TENSOR, wide, rows, m->maximum));
  TRI_KERNEL_CALL(run->queue, softmax_rescale, call->type, rows, m->own_maximum, m->maximum, m->sum);
  TRI_TRY(tri_run_all_reduce(run, TRI_DOMAIN_TENSOR, wide, rows, m->sum));
  return tri_run_all_reduce(run, TRI_DOMAIN_TENSOR, wide, rows, m->label_logit);
}

/* Computes the logits of this rank's slice for the chunk's rows of h, from row `first` on. */
static tri_status make_logits(tri_run *run, const tri_op_call *call, const chunk_products *p, int64_t first,
                              const chunk_memory *m) {
  const cross_entropy *at = call->attributes;
  const tri_matmul *gemm = &p->logits;
  const void *bias = has_bias(call) ? run->parameters[call->parameters[1]].value : NULL;
  const void *hidden = from_row(call, run->slots[call->inputs[0]], at->weight.in, first);
  TRI_TRY(tri_weight_multiply(run, call, gemm, TRI_DIRECTION_FORWARD, hidden, bias, m->logits, m->scratch));
  TRI_TRY(tri_lora_up_add(run, call, &at->factors, rows_of(p), u_from(call, run->slots, call->inputs[TRI_UP_U], first),
                          m->logits, m->scratch));
  if (!has_form(call)) return TRI_OK;
  TRI_KERNEL_CALL(run->queue, softmax_logits, call->type, gemm->m, at->weight.out, gemm->ldc, at->form, m->logits);
  return TRI_OK;
}

/* Computes the bias's gradient from the gradient of the logits, which has replaced the logits in memory. */
static tri_status add_bias_gradient(tri_run *run, const tri_op_call *call, int64_t rows, int64_t ld,
                                    const void *gradient) {
  const cross_entropy *at = call->attributes;
  if (!has_bias(call) || tri_op_is_frozen(call, 1)) return TRI_OK;
  tri_run_parameter *bias = &run->parameters[call->parameters[1]];
  TRI_KERNEL_CALL(run->queue, column_sum, call->type, tri_all_rows(rows), at->weight.out, ld, gradient, bias->gradient,
                  bias->gradient_written);
  bias->gradient_written = true;
  return TRI_OK;
}

/* Returns the address of a chunk's losses: in the output if the list has scores, else in scratch memory, because only
 * their sum is needed. */
static void *losses_of(const tri_run *run, const tri_op_call *call, int64_t first, const chunk_memory *m) {
  if (call->training || call->outputs[0] < 0) return m->losses;
  return (char *)run->slots[call->outputs[0]] + (size_t)first * tri_dtype_bytes(tri_dtype_wide(call->type));
}

/* Replaces the logits of a chunk by their gradient. A row's gradient is multiplied by its factor in `c` or, if that is
 * NULL, by the label's weight. */
static tri_status make_gradient(tri_run *run, const tri_op_call *call, int64_t first, const chunk_products *p,
                                const chunk_memory *m, const completions_memory *c) {
  const cross_entropy *at = call->attributes;
  const int64_t rows = p->logits.m;
  if (c != NULL && has_entropy(at)) {
    TRI_KERNEL_CALL(run->queue, softmax_gradient_entropy, call->type, rows, at->weight.out, p->logits.ldc, at->form,
                    m->logits, run->labels + first, c->factors + first, c->entropy_slopes + first,
                    c->entropy_means + first, at->first_id, m->maximum, m->sum, p->hidden.lda, m->logits);
    return TRI_OK;
  }
  TRI_KERNEL_CALL(run->queue, softmax_gradient, call->type, rows, at->weight.out, p->logits.ldc, at->form, m->logits,
                  run->labels + first, run->weights + first, c == NULL ? NULL : c->factors + first, at->first_id,
                  run->values, m->maximum, m->sum, p->hidden.lda, m->logits);
  return TRI_OK;
}

/* Computes the gradients of a chunk of rows from `first` on, whose logits are in memory. c NULL: cross entropy. */
static tri_status run_gradients(tri_run *run, const tri_op_call *call, int64_t first, const chunk_products *p,
                                const chunk_memory *m, const completions_memory *c) {
  const cross_entropy *at = call->attributes;
  const int64_t rows = p->logits.m;
  const char *hidden = from_row(call, run->slots[call->inputs[0]], at->weight.in, first);
  TRI_TRY(make_gradient(run, call, first, p, m, c));
  TRI_TRY(add_bias_gradient(run, call, rows, p->weight.lda, m->logits));
  char *gradient_hidden = from_row(call, run->slots[call->outputs[0]], at->weight.in, first);
  TRI_TRY(
      tri_weight_multiply(run, call, &p->hidden, TRI_DIRECTION_BACKWARD, m->logits, NULL, gradient_hidden, m->scratch));
  TRI_TRY(tri_lora_up_gradients(run, call, &at->factors, rows_of(p), m->logits,
                                u_from(call, run->slots, call->inputs[TRI_UP_U], first),
                                u_from(call, run->slots, call->outputs[TRI_UP_U], first), m->scratch));
  return tri_weight_accumulate(run, call, &at->weight, &p->weight, hidden, m->logits, m->scratch);
}

/* Computes the spread (softmax_spread) of a chunk's logits over the whole vocabulary, for an entropy bonus. */
static tri_status find_spread(tri_run *run, const tri_op_call *call, int64_t rows, const chunk_memory *m) {
  const cross_entropy *at = call->attributes;
  if (!has_entropy(at)) return TRI_OK;
  TRI_KERNEL_CALL(run->queue, softmax_spread, call->type, rows, at->weight.out, padded_vocabulary(at), m->logits,
                  m->maximum, m->spread);
  if (at->slices == 1) return TRI_OK;
  return tri_run_all_reduce(run, TRI_DOMAIN_TENSOR, tri_dtype_wide(call->type), rows, m->spread);
}

/* Adds the entropy bonus to the losses of rows from `first` on. `m`: statistics of these rows. */
static tri_status add_entropy(tri_run *run, const tri_op_call *call, int64_t first, int64_t rows, const chunk_memory *m,
                              const completions_memory *c) {
  const cross_entropy *at = call->attributes;
  if (!has_entropy(at)) return TRI_OK;
  TRI_KERNEL_CALL(run->queue, entropy_terms, call->type, rows, run->labels + first, run->weights + first,
                  at->policy.settings.entropy_coef, run->values, m->sum, m->spread, c->entropy_slopes + first,
                  c->entropy_means + first, c->row_losses + first);
  return TRI_OK;
}

/* Computes the log-probabilities of a chunk's labels, in run->log_probs if these are requested, then the losses and the
 * factors of the gradients. */
static tri_status find_chunk_factors(tri_run *run, const tri_op_call *call, int64_t first, int64_t rows,
                                     const chunk_memory *m, const completions_memory *c) {
  const cross_entropy *at = call->attributes;
  const int32_t *labels = run->labels + first, *places = run->global_rows == NULL ? NULL : run->global_rows + first;
  const int64_t shift = places == NULL ? first : 0; /* without places, row 0 of the chunk is row 0 of the columns */
  double *log_probs = (run->log_probs != NULL ? run->log_probs : c->log_probs) + first;
  TRI_KERNEL_CALL(run->queue, label_log_probs, call->type, rows, labels, NULL, m->maximum, m->sum, m->label_logit,
                  log_probs, NULL);
  if (!run->training) return TRI_OK;
  TRI_KERNEL_CALL(run->queue, policy_factors, &at->policy, rows, labels, places, run->segments + shift,
                  run->advantage + shift, run->normaliser + shift, column(run->old, shift), run->behaviour + shift,
                  column(run->reference, shift), NULL, log_probs, c->factors + first, c->row_losses + first);
  TRI_TRY(find_spread(run, call, rows, m));
  TRI_TRY(add_entropy(run, call, first, rows, m, c));
  TRI_KERNEL_CALL(run->queue, sum_doubles, rows, c->row_losses + first, run->loss_sum, first > 0);
  return TRI_OK;
}

/* Processes rows [first, first + rows): logits, losses, and, if a backward follows, all gradients. */
static tri_status run_chunk(tri_run *run, const tri_op_call *call, int64_t first, int64_t rows) {
  const cross_entropy *at = call->attributes;
  tri_queue *queue = run->queue;
  chunk_products p = products_of(call, rows);
  chunk_memory m;
  lay_out(call, run->workspace, &m);
  const int32_t *labels = run->labels + first;
  const float *weights = run->weights + first;
  void *losses = losses_of(run, call, first, &m);
  TRI_TRY(make_logits(run, call, &p, first, &m));
  TRI_KERNEL_CALL(queue, softmax_statistics, call->type, rows, at->weight.out, p.logits.ldc, m.logits, labels,
                  at->first_id, m.maximum, m.sum, m.label_logit);
  TRI_TRY(join_slices(run, call, rows, &m));
  if (!is_cross_entropy(at)) {
    completions_memory c;
    lay_out_completions(call, run->workspace, &c);
    TRI_TRY(find_chunk_factors(run, call, first, rows, &m, &c));
    return run->training ? run_gradients(run, call, first, &p, &m, &c) : TRI_OK;
  }
  TRI_KERNEL_CALL(queue, softmax_loss, call->type, rows, labels, weights, m.maximum, m.sum, m.label_logit, losses);
  TRI_KERNEL_CALL(queue, sum, call->type, rows, losses, run->loss_sum, first > 0);
  return run->training ? run_gradients(run, call, first, &p, &m, NULL) : TRI_OK;
}

/* ---- two passes -----------------------------------------------------------------------------------------------------
 */

/* Returns the workspace of a chunk of rows from `first` on. */
static chunk_memory memory_of_chunk(const tri_run *run, const tri_op_call *call, int64_t first) {
  const size_t into = (size_t)first * tri_dtype_bytes(tri_dtype_wide(call->type));
  chunk_memory m;
  lay_out(call, run->workspace, &m);
  m.maximum += into;
  m.sum += into;
  m.label_logit += into;
  m.spread += into;
  return m;
}

static tri_status make_chunk_logits(tri_run *run, const tri_op_call *call, int64_t first, int64_t rows) {
  const chunk_products p = products_of(call, rows);
  const chunk_memory m = memory_of_chunk(run, call, first);
  return make_logits(run, call, &p, first, &m);
}

static tri_status find_statistics(tri_run *run, const tri_op_call *call, int64_t first, int64_t rows) {
  const cross_entropy *at = call->attributes;
  const chunk_memory m = memory_of_chunk(run, call, first);
  TRI_TRY(make_chunk_logits(run, call, first, rows));
  TRI_KERNEL_CALL(run->queue, softmax_statistics, call->type, rows, at->weight.out, padded_vocabulary(at), m.logits,
                  run->labels + first, at->first_id, m.maximum, m.sum, m.label_logit);
  TRI_TRY(join_slices(run, call, rows, &m));
  return find_spread(run, call, rows, &m);
}

/* Computes the log-probabilities of this rank's labels, in run->log_probs if these are requested. */
static tri_status find_log_probs(tri_run *run, const tri_op_call *call, completions_memory *c) {
  const cross_entropy *at = call->attributes;
  const chunk_memory m = memory_of_chunk(run, call, 0);
  double *whole = at->context > 1 ? c->whole : NULL;
  if (run->log_probs != NULL) c->log_probs = run->log_probs;
  if (whole != NULL) TRI_KERNEL_CALL(run->queue, fill_zero, (size_t)whole_rows(at) * sizeof(double), whole);
  TRI_KERNEL_CALL(run->queue, label_log_probs, call->type, call->rows, run->labels, run->global_rows, m.maximum, m.sum,
                  m.label_logit, c->log_probs, whole);
  return TRI_OK;
}

/* Computes the factors and losses of preferences. The first context rank adds the losses of pairs, and each rank adds
 * the losses of its own labels. */
static tri_status find_preference_factors(tri_run *run, const tri_op_call *call, const completions_memory *c,
                                          const double *log_probs) {
  const cross_entropy *at = call->attributes;
  TRI_KERNEL_CALL(run->queue, completion_slopes, &at->completions, run->segments, log_probs, run->reference,
                  run->values, c->slopes, c->pair_losses);
  TRI_KERNEL_CALL(run->queue, label_factors, &at->completions, call->rows, run->labels, run->weights, run->global_rows,
                  run->segments, c->slopes, c->log_probs, run->values, c->factors, c->row_losses);
  TRI_KERNEL_CALL(run->queue, sum_doubles, call->rows, c->row_losses, run->loss_sum, false);
  if (at->context_rank == 0)
    TRI_KERNEL_CALL(run->queue, sum_doubles, num_pairs(at), c->pair_losses, run->loss_sum, true);
  return TRI_OK;
}

static tri_status find_policy_factors(tri_run *run, const tri_op_call *call, const completions_memory *c,
                                      const double *log_probs) {
  const cross_entropy *at = call->attributes;
  TRI_KERNEL_CALL(run->queue, policy_sums, &at->policy, run->segments, run->advantage, run->normaliser, run->old,
                  run->behaviour, run->reference, log_probs, c->sums);
  TRI_KERNEL_CALL(run->queue, policy_factors, &at->policy, call->rows, run->labels, run->global_rows, run->segments,
                  run->advantage, run->normaliser, run->old, run->behaviour, run->reference, c->sums, c->log_probs,
                  c->factors, c->row_losses);
  const chunk_memory m = memory_of_chunk(run, call, 0);
  TRI_TRY(add_entropy(run, call, 0, call->rows, &m, c));
  TRI_KERNEL_CALL(run->queue, sum_doubles, call->rows, c->row_losses, run->loss_sum, false);
  return TRI_OK;
}

/* Computes the loss and each row's gradient factor. */
static tri_status find_factors(tri_run *run, const tri_op_call *call, const completions_memory *c) {
  const cross_entropy *at = call->attributes;
  const double *log_probs = at->context > 1 ? c->whole : c->log_probs;
  if (at->context > 1) { /* one rank has each number, and the others have 0 in its place */
    TRI_TRY(tri_run_all_reduce(run, TRI_DOMAIN_CONTEXT_INNER, TRI_FP64, whole_rows(at), c->whole));
    TRI_TRY(tri_run_all_reduce(run, TRI_DOMAIN_CONTEXT_OUTER, TRI_FP64, whole_rows(at), c->whole));
  }
  switch (at->kind) {
    case TRI_LABEL_LOSS_CROSS_ENTROPY: break;
    case TRI_LABEL_LOSS_PREFERENCE: return find_preference_factors(run, call, c, log_probs);
    case TRI_LABEL_LOSS_POLICY: return find_policy_factors(run, call, c, log_probs);
  }
  return tri_fail_internal("cross entropy has no factors");
}

/* A row's gradient factor depends on the log-probabilities of its whole completion, so all chunks are computed before
 * the first gradient. Then the logits of each chunk but the last are computed again. */
static tri_status run_completions(tri_run *run, const tri_op_call *call) {
  const int64_t chunk = chunk_rows(call), chunks = (call->rows + chunk - 1) / chunk;
  completions_memory c;
  lay_out_completions(call, run->workspace, &c);
  for (int64_t i = 0; i < chunks; i++) {
    const int64_t first = i * chunk, left = call->rows - first;
    TRI_TRY(find_statistics(run, call, first, left < chunk ? left : chunk));
  }
  TRI_TRY(find_log_probs(run, call, &c));
  if (!run->training) {
    TRI_KERNEL_CALL(run->queue, fill_zero, sizeof *run->loss_sum, run->loss_sum);
    return TRI_OK;
  }
  TRI_TRY(find_factors(run, call, &c));
  for (int64_t i = chunks - 1; i >= 0; i--) {
    const int64_t first = i * chunk, left = call->rows - first, rows = left < chunk ? left : chunk;
    const chunk_products p = products_of(call, rows);
    const chunk_memory m = memory_of_chunk(run, call, first);
    if (i < chunks - 1) TRI_TRY(make_chunk_logits(run, call, first, rows));
    TRI_TRY(run_gradients(run, call, first, &p, &m, &c));
  }
  return TRI_OK;
}

static tri_status op_cross_entropy_forward(tri_run *run, const tri_op_call *call) {
  const cross_entropy *at = call->attributes;
  if (at->two_passes) return run_completions(run, call);
  if (!is_cross_entropy(at) && !run->training)
    TRI_KERNEL_CALL(run->queue, fill_zero, sizeof *run->loss_sum, run->loss_sum);
  int64_t chunk = chunk_rows(call);
  int64_t total = tri_run_rows(run, call);
  for (int64_t first = 0; first < total; first += chunk) {
    int64_t rows = total - first < chunk ? total - first : chunk;
    TRI_TRY(run_chunk(run, call, first, rows));
  }
  return TRI_OK;
}

/* Copies the gradients of h and of the factors' u from the outputs, into which the forward has written them. */
static tri_status op_cross_entropy_backward_input(tri_run *run, const tri_op_call *call) {
  const cross_entropy *at = call->attributes;
  TRI_KERNEL_CALL(run->queue, convert, tri_run_rows(run, call) * at->weight.in, call->type,
                  run->slots[call->outputs[0]], call->type, run->gradients[call->inputs[0]]);
  if (at->factors.b.in == 0) return TRI_OK;
  TRI_KERNEL_CALL(run->queue, convert, tri_run_rows(run, call) * at->factors.b.in, call->type,
                  run->slots[call->outputs[TRI_UP_U]], call->type, run->gradients[call->inputs[TRI_UP_U]]);
  return TRI_OK;
}

/* Returns the bytes per logit that a scale, a cap or the gradient of a bias reads and writes. */
static double copied_bytes(const tri_op_call *call) {
  const double wide = (double)tri_dtype_bytes(tri_dtype_wide(call->type));
  const bool sums = has_bias(call) && call->training && !tri_op_is_frozen(call, 1);
  return (has_form(call) ? 2.0 * wide : 0.0) + (sums ? (double)tri_dtype_bytes(call->type) : 0.0);
}

/* Returns the fraction of logits that are computed twice: all chunks but one with two passes, else 0. */
static double products_again(const tri_op_call *call) {
  const cross_entropy *at = call->attributes;
  if (!at->two_passes || !call->training) return 0;
  return 1.0 - (double)chunk_rows(call) / (double)call->rows;
}

/* Returns the bytes of log-probabilities that the context ranks reduce. */
static double whole_bytes(const tri_op_call *call) {
  const cross_entropy *at = call->attributes;
  return at->two_passes && call->training ? (double)whole_rows(at) * sizeof(double) : 0;
}

/* Sets the cost. If a backward follows, the forward computes the gradients too: three GEMMs of one size, or two if the
 * weight is frozen. The ranks of a tensor group reduce three numbers a row. A scale of the logits, a cap, and the
 * gradient of a bias each need one more pass over the logits. */
static void op_cross_entropy_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const cross_entropy *at = call->attributes;
  double rows = (double)call->rows, width = (double)at->weight.in, vocabulary = (double)at->weight.out;
  double element = (double)tri_dtype_bytes(call->type), products = !call->training             ? 1.0
                                                                   : tri_op_is_frozen(call, 0) ? 2.0
                                                                                               : 3.0;
  const double ranks = (double)at->factors.b.in,
               thin = call->training ? 3.0 : 1.0; /* rank of the factors, and number of GEMMs with B */
  products += products_again(call);
  if (pass == TRI_PASS_BACKWARD_INPUT) {
    out->bytes = 2.0 * rows * (width + ranks) * element;
    return;
  }
  *out = (tri_cost){
      .flops = 2.0 * rows * vocabulary * (products * width + (thin + products_again(call)) * ranks),
      .rows = rows,
      .inner = width,
      .columns = vocabulary,
      .products = 1,
      .bytes = products * (rows * width + rows * vocabulary + width * vocabulary) * element,
      .elements = rows * vocabulary,
      .form = TRI_GEMM_TRANSPOSED,
      .unpacked = call->weights_gathered,
      .vector_flops = rows * vocabulary * (16.0 + (at->form.soft_cap > 0 ? 20.0 : 0.0)),
      .copied = rows * vocabulary * (copied_bytes(call) + (ranks > 0 ? (thin + 1) * element : 0)),
      .exchanges =
          {{.collective = TRI_COLLECTIVE_ALL_REDUCE,
            .domain = TRI_DOMAIN_TENSOR,
            .bytes = 3.0 * rows * (double)tri_dtype_bytes(tri_dtype_wide(call->type))},
           {.collective = TRI_COLLECTIVE_ALL_REDUCE, .domain = TRI_DOMAIN_CONTEXT_INNER, .bytes = whole_bytes(call)},
           {.collective = TRI_COLLECTIVE_ALL_REDUCE, .domain = TRI_DOMAIN_CONTEXT_OUTER, .bytes = whole_bytes(call)}},
  };
}

static const tri_op op_cross_entropy = {
    .name = "cross_entropy",
    .keeps_outputs = 1u << 0 | 1u << TRI_UP_U,
    .makes_loss = true,
    .shape = op_cross_entropy_shape,
    .memory = op_cross_entropy_memory,
    .prepare = op_cross_entropy_prepare,
    .forward = op_cross_entropy_forward,
    .backward_input = op_cross_entropy_backward_input,
    .cost = op_cross_entropy_cost,
};

static bool has_two_passes(const cross_entropy *at) {
  switch (at->kind) {
    case TRI_LABEL_LOSS_CROSS_ENTROPY: return false;
    case TRI_LABEL_LOSS_PREFERENCE: return true;
    case TRI_LABEL_LOSS_POLICY: break;
  }
  return tri_policy_has_sums(&at->policy.settings) != 0;
}

tri_status tri_op_cross_entropy(tri_op_list *list, int64_t width, int64_t vocab_size, tri_logits logits,
                                const tri_label_loss *given, int32_t hidden, int32_t weight) {
  static const tri_label_loss plain = {.kind = TRI_LABEL_LOSS_CROSS_ENTROPY};
  const tri_label_loss *loss = given == NULL ? &plain : given;
  const void *at = NULL;
  cross_entropy attributes = {.weight = {width, 0, TRI_WEIGHT_OUT_IN},
                              .slices = tri_op_list_ranks(list, TRI_DOMAIN_TENSOR),
                              .form = {logits.scale, logits.soft_cap},
                              .kind = list->scores ? TRI_LABEL_LOSS_CROSS_ENTROPY : loss->kind,
                              .context = tri_op_list_ranks(list, TRI_DOMAIN_CONTEXT),
                              .context_rank = tri_op_list_rank(list, TRI_DOMAIN_CONTEXT)};
  attributes.completions = (tri_completions){
      .preference = loss->preference, .sequences = list->batch, .tokens = list->tokens, .pairs = list->tokens};
  attributes.policy = (tri_policy_batch){loss->policy, list->batch, list->tokens};
  attributes.two_passes = has_two_passes(&attributes);
  tri_op_share_of(list, vocab_size, &attributes.first_id, &attributes.weight.out);
  tri_op_call call = tri_op_call_of(&op_cross_entropy, NULL);
  TRI_TRY(tri_lora_up_of_head(list, width, attributes.weight.out, weight, hidden, &call, &attributes.factors));
  TRI_TRY(tri_op_list_keep(list, &attributes, sizeof attributes, &at));
  call.attributes = at;
  call.inputs[0] = hidden;
  call.parameters[0] = weight;
  call.parameters[1] = logits.bias;
  int32_t outputs[TRI_OP_OUTPUTS];
  const int kept =
      call.inputs[TRI_UP_U] < 0 ? 1 : 2; /* number of outputs in training, which keep the gradients of h and of u */
  return tri_op_list_append(list, &call, list->training ? kept : list->scores, outputs);
}
