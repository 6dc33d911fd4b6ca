#include "stand_in_lt.h"

#include "stand_in_work.h"

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static size_t bytes_of(int type) {
  switch (type) {
    case TRI_LT_R_64F: return 8;
    case TRI_LT_R_32F: return 4;
    case TRI_LT_R_16BF: return 2;
    default: return 0;
  }
}

/* Sizes of a result with m rows and n columns, by columns, and sums of k terms. */
typedef struct sizes {
  uint64_t m, n, k;
} sizes;

static bool fits(const stand_in_lt_layout *layout) {
  return layout->rows > 0 && layout->columns > 0 && layout->ld >= (int64_t)layout->rows && bytes_of(layout->type) > 0;
}

static bool sizes_of(const stand_in_lt_product *p, sizes *out) {
  const stand_in_lt_description *d = p->description;
  const uint64_t a_rows = d->first_transposed ? p->a->columns : p->a->rows;
  const uint64_t a_columns = d->first_transposed ? p->a->rows : p->a->columns;
  const uint64_t b_rows = d->second_transposed ? p->b->columns : p->b->rows;
  const uint64_t b_columns = d->second_transposed ? p->b->rows : p->b->columns;
  *out = (sizes){p->d->rows, p->d->columns, a_columns};
  return fits(p->a) && fits(p->b) && fits(p->c) && fits(p->d) && a_rows == out->m && b_rows == out->k &&
         b_columns == out->n && p->c->rows == out->m && p->c->columns == out->n && p->c->ld == p->d->ld &&
         p->c->type == p->d->type;
}

/* The types that cuBLASLt's table has: no epilogue in fp64, no fp32 bias with a bf16 result. */
static bool has_types(const stand_in_lt_product *p, stand_in_lt_kind kind) {
  const stand_in_lt_description *d = p->description;
  const int in = p->a->type, out = p->d->type;
  if (p->b->type != in || (d->adds_bias && d->bias_type >= 0 && d->bias_type != out)) return false;
  switch (kind) {
    case STAND_IN_LT_64F: return in == TRI_LT_R_64F && out == TRI_LT_R_64F && d->scale == TRI_LT_R_64F && !d->adds_bias;
    case STAND_IN_LT_TF32: return in == TRI_LT_R_32F && out == TRI_LT_R_32F && d->scale == TRI_LT_R_32F;
    case STAND_IN_LT_32F:
      return d->scale == TRI_LT_R_32F && (in == TRI_LT_R_32F ? out == TRI_LT_R_32F : in == TRI_LT_R_16BF) &&
             out != TRI_LT_R_64F;
    case STAND_IN_LT_NONE: break;
  }
  return false;
}

static uint32_t hash_of(const stand_in_lt_product *p, stand_in_lt_kind kind) {
  const stand_in_lt_layout *all[] = {p->a, p->b, p->d};
  uint64_t words[16] = {(uint64_t)kind, p->description->first_transposed, p->description->second_transposed,
                        p->description->adds_bias};
  for (int i = 0; i < 3; i++) {
    words[4 + 4 * i] = (uint64_t)all[i]->type;
    words[5 + 4 * i] = all[i]->rows;
    words[6 + 4 * i] = all[i]->columns;
    words[7 + 4 * i] = (uint64_t)all[i]->ld;
  }
  uint64_t hash = 14695981039346656037u;
  for (int i = 0; i < 16; i++) hash = (hash ^ words[i]) * 1099511628211u;
  return (uint32_t)(hash >> 32) | 1u;
}

static size_t workspace_of(int variant) { return variant == 1 ? (size_t)4 << 20 : variant == 2 ? (size_t)1 << 20 : 0; }

bool stand_in_lt_algorithms(const stand_in_lt_product *product, stand_in_lt_kind kind,
                            const stand_in_lt_preference *preference, int version,
                            stand_in_lt_algorithm out[STAND_IN_LT_VARIANTS], size_t workspace[STAND_IN_LT_VARIANTS],
                            int *count) {
  sizes s;
  uint32_t alignment = 256;
  *count = 0;
  if (!sizes_of(product, &s) || !has_types(product, kind) || stand_in_number("refuses", 0) != 0) return false;
  for (int i = 0; i < TRI_GPU_LT_ADDRESSES; i++) {
    if (preference->alignments[i] < alignment) alignment = preference->alignments[i];
  }
  /* The best first: the one with the largest requirements. */
  for (int variant = STAND_IN_LT_VARIANTS - 1; variant >= 0; variant--) {
    const uint8_t wanted = variant == 2 ? 16 : 1;
    if (workspace_of(variant) > preference->workspace_bytes || wanted > alignment) continue;
    workspace[*count] = workspace_of(variant);
    out[(*count)++] = (stand_in_lt_algorithm){hash_of(product, kind), (uint16_t)version, (uint8_t)variant, wanted};
  }
  return *count > 0;
}

/* ---- the product ------------------------------------------------------------------------------------------------- */

static double get(int type, const void *at, uint64_t i) {
  uint32_t bits;
  uint16_t half;
  float value;
  if (type == TRI_LT_R_64F) return ((const double *)at)[i];
  if (type == TRI_LT_R_32F) return (double)((const float *)at)[i];
  memcpy(&half, (const char *)at + 2 * i, sizeof half);
  bits = (uint32_t)half << 16;
  memcpy(&value, &bits, sizeof value);
  return (double)value;
}

static void put(int type, void *at, uint64_t i, double value) {
  const float narrow = (float)value;
  uint32_t bits;
  memcpy(&bits, &narrow, sizeof bits);
  const uint16_t half = (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
  if (type == TRI_LT_R_64F) ((double *)at)[i] = value;
  if (type == TRI_LT_R_32F) ((float *)at)[i] = narrow;
  if (type == TRI_LT_R_16BF) memcpy((char *)at + 2 * i, &half, sizeof half);
}

static double round_to_tf32(double value) {
  float narrow = (float)value;
  uint32_t bits;
  memcpy(&bits, &narrow, sizeof bits);
  bits = (bits + 0xfffu + (bits >> 13 & 1u)) & 0xffffe000u;
  memcpy(&narrow, &bits, sizeof narrow);
  return (double)narrow;
}

/* The parameters of a queued product. */
typedef struct queued {
  stand_in_lt_description description;
  stand_in_lt_layout a, b, d;
  sizes s;
  stand_in_lt_kind kind;
  double alpha, beta;
  size_t workspace_bytes;
} queued;

static double term(const queued *q, const void *a, const void *b, uint64_t i, uint64_t j, uint64_t l) {
  const uint64_t lda = (uint64_t)q->a.ld, ldb = (uint64_t)q->b.ld;
  double x = get(q->a.type, a, q->description.first_transposed ? l + i * lda : i + l * lda);
  double y = get(q->b.type, b, q->description.second_transposed ? j + l * ldb : l + j * ldb);
  if (q->kind == STAND_IN_LT_TF32) {
    x = round_to_tf32(x);
    y = round_to_tf32(y);
  }
  return x * y;
}

enum { A, B, BIAS, D, WORKSPACE };

/* The workspace is its own from the first byte to the last. */
static void multiply(void *const operands[MOST_OPERANDS], const void *arguments) {
  queued q;
  memcpy(&q, arguments, sizeof q);
  if (operands[WORKSPACE] != NULL) memset(operands[WORKSPACE], 0xff, q.workspace_bytes);
  for (uint64_t j = 0; j < q.s.n; j++) {
    for (uint64_t i = 0; i < q.s.m; i++) {
      const uint64_t at = i + j * (uint64_t)q.d.ld;
      double sum = 0;
      for (uint64_t l = 0; l < q.s.k; l++) sum += term(&q, operands[A], operands[B], i, j, l);
      sum *= q.alpha;
      if (q.beta != 0) sum += q.beta * get(q.d.type, operands[D], at);
      if (q.description.adds_bias) sum += get(q.d.type, operands[BIAS], i);
      put(q.d.type, operands[D], at, sum);
    }
  }
}

static size_t extent(const stand_in_lt_layout *layout) {
  return ((layout->columns - 1) * (uint64_t)layout->ld + layout->rows) * bytes_of(layout->type);
}

static double scalar(int type, const void *at) { return get(type, at, 0); }

static bool is_aligned_to(const void *at, size_t bytes) { return (uintptr_t)at % bytes == 0; }

stand_in_lt_result stand_in_lt_multiply(const stand_in_lt_product *product, stand_in_lt_kind kind,
                                        const stand_in_lt_algorithm *algorithm, int version,
                                        const stand_in_lt_call *call) {
  const stand_in_lt_description *d = product->description;
  sizes s;
  if (!sizes_of(product, &s) || call->stream == NULL || (d->adds_bias && d->bias == NULL)) return STAND_IN_LT_INVALID;
  if (!has_types(product, kind)) return STAND_IN_LT_UNSUPPORTED;
  const size_t wanted = algorithm->alignment;
  if (algorithm->product != hash_of(product, kind) || algorithm->version != (uint16_t)version ||
      algorithm->variant >= STAND_IN_LT_VARIANTS || wanted == 0 ||
      call->workspace_bytes < workspace_of(algorithm->variant) || !is_aligned_to(call->workspace, 256) ||
      !is_aligned_to(call->a, wanted) || !is_aligned_to(call->b, wanted) || !is_aligned_to(call->d, wanted) ||
      call->c != call->d) {
    return STAND_IN_LT_INVALID;
  }
  const queued q = {*d,
                    *product->a,
                    *product->b,
                    *product->d,
                    s,
                    kind,
                    scalar(d->scale, call->alpha),
                    scalar(d->scale, call->beta),
                    call->workspace_bytes};
  const stand_in_operand operands[MOST_OPERANDS] = {
      [A] = {call->a, extent(product->a)},
      [B] = {call->b, extent(product->b)},
      [BIAS] = {d->adds_bias ? d->bias : NULL, s.m * bytes_of(product->d->type)},
      [D] = {call->d, extent(product->d)},
      [WORKSPACE] = {call->workspace, call->workspace_bytes}};
  return stand_in_call(call->stream, multiply, operands, &q, sizeof q) == 0 ? STAND_IN_LT_DONE : STAND_IN_LT_INVALID;
}
