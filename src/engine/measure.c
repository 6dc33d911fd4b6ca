#include "engine/measure.h"

#include "base/memory.h"
#include "base/system.h"
#include "comm/agreement.h"
#include "device/kernels.h"
#include "engine/measure_internal.h"
#include "engine/peak.h"

#include <math.h>

tri_status tri_measure_peak(tri_measure *m, double *flops) {
  double own = 0, each;
  TRI_TRY(tri_barrier(m->world));
  TRI_TRY(tri_peak_flops(m->device, m->type, INFINITY, &own));
  each = own > 0 ? 1 / own : INFINITY;
  TRI_TRY(tri_all_maximum(m->world, TRI_FP64, 1, &each));
  *flops = 1 / each;
  return TRI_OK;
}

/* ---- GEMMs ------------------------------------------------------------------------------------------------------- */

/* A GEMM with several sets of operands, used in turn, so that operands come from memory as in a step. One operand is
 * the same in all turns, and stays in the caches if it fits: in a step the previous operation has just written it (x of
 * x W, dy of dy W^T and of x^T dy). */
typedef struct product {
  tri_matmul matmul;
  char *sets, *workspace, *plain; /* plain: the weight before packing */
  size_t a_bytes, b_bytes, c_bytes, set_bytes;
  int64_t num_sets;
} product;

static bool is_weight(const tri_matmul *p) { return !p->a_transposed; }

static tri_status multiply(tri_measure *m, const void *what) {
  const product *p = what;
  char *first = p->sets, *next = p->sets + (size_t)(m->turn % p->num_sets) * p->set_bytes;
  char *made_a = tri_measure_reserve(&first, p->a_bytes), *made_b = tri_measure_reserve(&first, p->b_bytes);
  char *a = tri_measure_reserve(&next, p->a_bytes), *b = tri_measure_reserve(&next, p->b_bytes);
  char *c = tri_measure_reserve(&next, p->c_bytes);
  bool weight = is_weight(&p->matmul);
  return m->device->kernels->matmul(m->device->queue, &p->matmul, weight ? made_a : a, weight ? b : made_b, NULL, c,
                                    p->workspace);
}

static bool adds(tri_gemm_form form) {
  switch (form) {
    case TRI_GEMM_PLAIN:
    case TRI_GEMM_TRANSPOSED:
    case TRI_GEMM_GRADIENT: return false;
    case TRI_PRODUCT_ADDED: break;
  }
  return true;
}

/* Returns a GEMM as ops/weight.c calls it, in the type m->type, but with gradients of weights in the wide type. The
 * caller sets b_packed and b_type for weights. */
static tri_matmul matmul_of(const tri_measure *m, const tri_measure_product *of) {
  tri_matmul p = {.m = of->rows,
                  .n = of->columns,
                  .k = of->inner,
                  .lda = of->inner,
                  .ldb = of->columns,
                  .ldc = of->columns,
                  .a_type = m->type,
                  .b_type = m->type,
                  .c_type = m->type};
  switch (of->form) {
    case TRI_GEMM_PLAIN: break;
    case TRI_GEMM_TRANSPOSED:
      p.b_transposed = true;
      p.ldb = of->inner;
      break;
    case TRI_GEMM_GRADIENT:
    case TRI_PRODUCT_ADDED:
      p.a_transposed = true;
      p.accumulate = adds(of->form);
      p.lda = of->rows;
      p.c_type = tri_dtype_wide(m->type);
      break;
  }
  return p;
}

/* Packs the weights of all sets; the weights are random values. */
static tri_status pack_sets(const tri_measure *m, const product *p) {
  for (int64_t i = 0; i < p->num_sets; i++) {
    char *next = p->sets + (size_t)i * p->set_bytes;
    tri_measure_reserve(&next, p->a_bytes);
    char *b = tri_measure_reserve(&next, p->b_bytes);
    TRI_TRY(m->device->kernels->matmul_pack(m->device->queue, &p->matmul, m->type, p->plain, b));
  }
  return TRI_OK;
}

/* Sets the operands of a GEMM whose b is packed or not as its description says, and times it. Sets *seconds to 0 if the
 * memory is not enough. */
static tri_status time_matmul(tri_measure *m, const tri_matmul *matmul, double *seconds) {
  const tri_device_description *device = &m->device->description;
  product p = {.matmul = *matmul};
  size_t packed = 0, scratch = 0;
  const size_t plain = (size_t)(matmul->k * matmul->n) * tri_dtype_bytes(m->type);
  *seconds = 0;
  if (matmul->b_packed) TRI_TRY(device->matmul_packed(device, matmul, &packed));
  TRI_TRY(device->matmul_workspace(device, matmul, &scratch));
  p.a_bytes = (size_t)(matmul->m * matmul->k) * tri_dtype_bytes(matmul->a_type);
  p.b_bytes = matmul->b_packed ? packed : (size_t)(matmul->k * matmul->n) * tri_dtype_bytes(matmul->b_type);
  p.c_bytes = (size_t)(matmul->m * matmul->n) * tri_dtype_bytes(tri_dtype_wide(m->type));
  p.set_bytes = (p.a_bytes + p.b_bytes + p.c_bytes) + (size_t)3 * TRI_MEASURE_ALIGNMENT;
  char *next = m->pool;
  p.workspace = tri_measure_reserve(&next, scratch);
  p.plain = tri_measure_reserve(&next, matmul->b_packed ? plain : 0);
  p.sets = next;
  p.num_sets = tri_measure_sets(m, next, p.set_bytes);
  if (p.num_sets == 0) return TRI_OK;
  if (matmul->b_packed) TRI_TRY(pack_sets(m, &p));
  return tri_measure_time(m, multiply, &p, seconds);
}

tri_status tri_measure_product_s(tri_measure *m, const tri_measure_product *of, double *seconds) {
  const tri_device_description *device = &m->device->description;
  tri_matmul matmul = matmul_of(m, of);
  size_t packed = 0;
  *seconds = 0;
  if (is_weight(&matmul)) TRI_TRY(device->matmul_packed(device, &matmul, &packed));
  if (of->passing && packed == 0) return TRI_OK; /* the same case as a weight that stays in memory */
  matmul.b_packed = packed > 0 && !of->passing;
  if (is_weight(&matmul) && !matmul.b_packed) matmul.b_type = tri_dtype_wide(m->type);
  return time_matmul(m, &matmul, seconds);
}

tri_status tri_measure_matmul_s(tri_measure *m, const tri_matmul *of, double *seconds) {
  tri_matmul matmul = *of;
  matmul.bias = false;
  matmul.lda = of->a_transposed ? of->m : of->k;
  matmul.ldb = of->b_transposed ? of->k : of->n;
  matmul.ldc = of->n;
  return time_matmul(m, &matmul, seconds);
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

typedef struct heads {
  tri_attention call;
  tri_attention_slice *slices;
  char *qkv, *out, *sums, *gradient, *gradient_qkv, *workspace;
} heads;

static tri_status attend_forward(tri_measure *m, const void *what) {
  const heads *h = what;
  size_t width = (size_t)(h->call.heads * h->call.head_dim) * tri_dtype_bytes(m->type);
  return m->device->kernels->attention_forward(m->device->queue, &h->call, h->slices, h->qkv, h->qkv + width,
                                               h->qkv + 2 * width, h->out, h->sums, h->workspace);
}

static tri_status attend_backward(tri_measure *m, const void *what) {
  const heads *h = what;
  size_t width = (size_t)(h->call.heads * h->call.head_dim) * tri_dtype_bytes(m->type);
  return m->device->kernels->attention_backward(m->device->queue, &h->call, h->slices, h->qkv, h->qkv + width,
                                                h->qkv + 2 * width, h->out, h->sums, h->gradient, h->gradient_qkv,
                                                h->gradient_qkv + width, h->gradient_qkv + 2 * width, h->workspace);
}

static tri_attention call_of(const tri_measure *m, const tri_measure_attention *of) {
  int64_t dim = of->head_dim, width = of->heads * dim;
  return (tri_attention){.type = m->type,
                         .out_type = m->type,
                         .gradient_type = m->type,
                         .heads = of->heads,
                         .kv_heads = of->heads,
                         .head_dim = dim,
                         .scale = 1.0 / sqrt((double)dim),
                         .query_rows = of->sequence,
                         .key_rows = of->sequence,
                         .q_row = 3 * width,
                         .q_head = dim,
                         .k_row = 3 * width,
                         .k_head = dim,
                         .v_row = 3 * width,
                         .v_head = dim,
                         .out_row = width,
                         .out_head = dim,
                         .num_slices = 1,
                         .most_queries = of->sequence,
                         .most_keys = of->sequence};
}

tri_status tri_measure_attention_s(tri_measure *m, const tri_measure_attention *of, double *seconds) {
  size_t element = tri_dtype_bytes(m->type), wide = tri_dtype_bytes(tri_dtype_wide(m->type)), scratch = 0;
  size_t cells = (size_t)(of->sequence * of->heads), elements = cells * (size_t)of->head_dim;
  char *next = m->pool;
  heads h = {.call = call_of(m, of)};
  const tri_attention_slice slice = tri_slice_causal(0, of->sequence, 0, of->sequence);
  *seconds = 0;
  h.qkv = tri_measure_reserve(&next, 3 * elements * element);
  h.gradient_qkv = tri_measure_reserve(&next, 3 * elements * element);
  h.out = tri_measure_reserve(&next, elements * element);
  h.gradient = tri_measure_reserve(&next, elements * element);
  h.sums = tri_measure_reserve(&next, cells * wide);
  h.slices = (tri_attention_slice *)(void *)tri_measure_reserve(&next, sizeof slice);
  TRI_TRY(m->device->description.attention_workspace(&m->device->description, &h.call, &scratch));
  h.workspace = tri_measure_reserve(&next, scratch);
  if (!tri_measure_fits(m, next)) return TRI_OK;
  TRI_TRY(tri_queue_upload_now(m->device->queue, h.slices, &slice, sizeof slice));
  TRI_TRY(attend_forward(m, &h)); /* the backward reads the output and the sums of the forward */
  switch (of->pass) {
    case TRI_PASS_FORWARD: return tri_measure_time(m, attend_forward, &h, seconds);
    case TRI_PASS_BACKWARD_INPUT: return tri_measure_time(m, attend_backward, &h, seconds);
    case TRI_PASS_BACKWARD_WEIGHT: break;
  }
  return TRI_OK;
}

/* ---- setup ------------------------------------------------------------------------------------------------------- */

/* Returns the bytes of the pool: a fifth of a rank's memory, between bounds. */
static size_t pool_bytes(const tri_device *device, int64_t ranks) {
  const bool host = device->info.host_memory;
  const double least = (double)((size_t)256 << 20), most = (double)((size_t)(host ? 1 : 4) << 30);
  double all = host ? (double)tri_system_memory_of_node() / (double)ranks : (double)device->info.memory_bytes;
  double share = all / 5;
  share = share < least ? least : share > most ? most : share;
  return (size_t)(share / TRI_MEASURE_ALIGNMENT) * TRI_MEASURE_ALIGNMENT;
}

tri_status tri_measure_create(const tri_measure_request *request, tri_measure **out) {
  tri_measure *m = NULL;
  void *pool = NULL;
  TRI_TRY(tri_device_supports(request->device, request->precision));
  TRI_TRY(tri_alloc("measurements", 1, sizeof *m, &m));
  *m = (tri_measure){.device = request->device,
                     .type = request->precision,
                     .world = request->world,
                     .each_s = request->each_s,
                     .pool_bytes = pool_bytes(request->device, request->world->size)};
  tri_status status = tri_device_memory_create(m->device, m->pool_bytes, &pool);
  m->pool = pool;
  if (status == TRI_OK) status = tri_measure_fill(m);
  if (status == TRI_OK) status = tri_measure_open_links(m);
  status = tri_common_status(m->world, status);
  if (status == TRI_OK) *out = m;
  if (status != TRI_OK) tri_measure_destroy(m);
  return status;
}

void tri_measure_destroy(tri_measure *m) {
  if (m == NULL) return;
  tri_measure_close_links(m);
  tri_device_memory_destroy(m->device, m->pool, m->pool_bytes);
  tri_free(m);
}
