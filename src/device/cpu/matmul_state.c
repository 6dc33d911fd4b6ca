/* The state of the GEMMs: oneDNN's engine, the plans made so far, and the CPU's measured speed.
 *
 * Whether bf16 GEMMs use bf16 instructions decides the order of summation, so a resumed run must decide as the first
 * one did. The measurement therefore uses the processor time of one thread, to which waiting for a core does not count,
 * and takes the best of many short turns of either kind. It need not be exact, because the CPUs differ by a factor of
 * four: the ratio of speeds with and without bf16 instructions is 0.5 on a Xeon without its matrix unit, 2 on Zen 4,
 * and higher with the matrix unit. */
#include "device/cpu/grouped.h"
#include "device/cpu/matmul_plan.h"

#include "base/memory.h"

#include <string.h>
#include <time.h>

tri_status tri_cpu_matmul_state_create(const tri_cpu_matmul_options *options, tri_cpu_matmul_state **out) {
  tri_cpu_matmul_state *state = NULL;
  tri_status status = TRI_OK;
  TRI_TRY(tri_alloc("the plans of matrix products", 1, sizeof *state, &state));
  state->options = *options;
  TRI_TRY_GOTO(tri_onednn_check(dnnl_engine_create(&state->engine, dnnl_cpu, 0), "an engine"), destroy);
  TRI_TRY_GOTO(
      tri_onednn_check(dnnl_stream_create(&state->stream, state->engine, dnnl_stream_default_flags), "a stream"),
      destroy);
  *out = state;
  return TRI_OK;
destroy:
  tri_cpu_matmul_state_destroy(state);
  return status;
}

/* ---- the cache --------------------------------------------------------------------------------------------------- */

bool tri_matmul_same(const tri_matmul *a, const tri_matmul *b) {
  return a->m == b->m && a->n == b->n && a->k == b->k && a->lda == b->lda && a->ldb == b->ldb && a->ldc == b->ldc &&
         a->a_type == b->a_type && a->b_type == b->b_type && a->c_type == b->c_type &&
         a->a_transposed == b->a_transposed && a->b_transposed == b->b_transposed && a->b_packed == b->b_packed &&
         a->generating == b->generating && a->accumulate == b->accumulate && a->bias == b->bias;
}

static uint64_t hash_of(const tri_matmul *p) {
  int64_t fields[] = {p->m,          p->n,      p->k,         p->lda,          p->ldb,          p->ldc,
                      p->a_type,     p->b_type, p->c_type,    p->a_transposed, p->b_transposed, p->b_packed,
                      p->accumulate, p->bias,   p->generating};
  uint64_t hash = 0;
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
    hash = (hash ^ (uint64_t)fields[i]) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash;
}

static void clear(tri_matmul_cache *cache) {
  for (int64_t i = 0; i < TRI_MATMUL_CACHE; i++) {
    struct tri_matmul_entry *entry = &cache->entries[i];
    if (entry->plan != NULL) tri_matmul_plan_release(entry->plan);
    if (entry->packing != NULL) tri_matmul_packing_release(entry->packing);
    tri_free(entry->plan);
    tri_free(entry->packing);
    *entry = (struct tri_matmul_entry){0};
  }
  cache->count = 0;
}

/* Returns the entry of the key, or the empty slot for it. At least a quarter of the slots is empty. */
static struct tri_matmul_entry *find_slot(tri_matmul_cache *cache, const tri_matmul *key, bool packing) {
  uint64_t place = hash_of(key) % TRI_MATMUL_CACHE;
  for (;; place = (place + 1) % TRI_MATMUL_CACHE) {
    struct tri_matmul_entry *entry = &cache->entries[place];
    if (entry->plan == NULL && entry->packing == NULL) return entry;
    if ((entry->packing != NULL) == packing && tri_matmul_same(&entry->key, key)) return entry;
  }
}

static struct tri_matmul_entry *place_for(tri_matmul_cache *cache, const tri_matmul *key, bool packing) {
  if (cache->count >= TRI_MATMUL_CACHE / 4 * 3) clear(cache);
  struct tri_matmul_entry *entry = find_slot(cache, key, packing);
  entry->key = *key;
  cache->count++;
  return entry;
}

tri_status tri_matmul_plan_find(tri_cpu_matmul_state *state, const tri_matmul *product, tri_matmul_plan **out) {
  tri_matmul key = *product;
  if (key.b_packed) key.ldb = 0; /* ldb of a packed b is ignored */
  tri_matmul_plan *plan = find_slot(&state->cache, &key, false)->plan;
  if (plan == NULL) {
    TRI_TRY(tri_alloc("the plan of a matrix product", 1, sizeof *plan, &plan));
    tri_status status = tri_matmul_plan_make(state, &key, plan);
    if (status != TRI_OK) {
      tri_free(plan);
      return status;
    }
    place_for(&state->cache, &key, false)->plan = plan;
  }
  *out = plan;
  return TRI_OK;
}

tri_status tri_matmul_packing_find(tri_cpu_matmul_state *state, const tri_matmul *product, tri_matmul_packing **out) {
  /* Rows, bias and accumulation do not affect b's layout. */
  tri_matmul key = *product;
  key.m = key.ldb = 0;
  key.bias = key.accumulate = false;
  key.b_packed = true;
  tri_matmul_packing *packing = find_slot(&state->cache, &key, true)->packing;
  if (packing == NULL) {
    TRI_TRY(tri_alloc("the layout of a packed matrix", 1, sizeof *packing, &packing));
    tri_status status = tri_matmul_packing_make(state, &key, packing);
    if (status != TRI_OK) {
      tri_matmul_packing_release(packing);
      tri_free(packing);
      return status;
    }
    place_for(&state->cache, &key, true)->packing = packing;
  }
  *out = packing;
  return TRI_OK;
}

void tri_cpu_matmul_state_destroy(tri_cpu_matmul_state *state) {
  if (state == NULL) return;
  clear(&state->cache);
  tri_grouped_plans_destroy(state->grouped);
  if (state->stream != NULL) dnnl_stream_destroy(state->stream);
  if (state->engine != NULL) dnnl_engine_destroy(state->engine);
  tri_free(state);
}

/* ---- bf16 instructions or fp32 ones ------------------------------------------------------------------------------ */

enum { TRIAL_M = 128, TRIAL_N = 512, TRIAL_K = 512, TRIAL_TURNS = 12 };

/* Cost of a widened GEMM relative to an fp32 one: it also converts, which costs about one sixteenth of a GEMM. */
static const double widened_cost = 1.06;

typedef struct trial {
  tri_onednn_primitive multiply;
  void *a, *b, *c, *scratch;
} trial;

static double thread_time_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void trial_destroy(trial *t) {
  tri_onednn_primitive_destroy(&t->multiply);
  tri_free(t->scratch);
  tri_free(t->c);
  tri_free(t->b);
  tri_free(t->a);
}

static tri_status trial_create(tri_cpu_matmul_state *state, trial *t) {
  tri_status status = TRI_OK;
  tri_onednn_layout a = {0}, b = {0}, c = {0};
  TRI_TRY_GOTO(tri_onednn_layout_strided(TRI_BF16, TRIAL_M, TRIAL_K, TRIAL_K, 1, &a), destroy);
  TRI_TRY_GOTO(tri_onednn_layout_any(TRI_BF16, TRIAL_K, TRIAL_N, &b), destroy);
  TRI_TRY_GOTO(tri_onednn_layout_strided(TRI_BF16, TRIAL_M, TRIAL_N, TRIAL_N, 1, &c), destroy);
  tri_onednn_product product = {.a = &a, .b = &b, .c = &c, .m = TRIAL_M, .n = TRIAL_N, .k = TRIAL_K};
  TRI_TRY_GOTO(tri_onednn_product_create(state->engine, &product, &t->multiply, NULL), destroy);
  TRI_TRY_GOTO(tri_alloc("a test matrix", (size_t)TRIAL_M * TRIAL_K, 4, &t->a), destroy);
  TRI_TRY_GOTO(tri_alloc("a test matrix", (size_t)TRIAL_K * TRIAL_N, 4, &t->b), destroy);
  TRI_TRY_GOTO(tri_alloc("a test matrix", (size_t)TRIAL_M * TRIAL_N, 4, &t->c), destroy);
  TRI_TRY_GOTO(tri_alloc("a test's memory", t->multiply.scratch_bytes, 1, &t->scratch), destroy);
destroy:
  tri_onednn_layout_destroy(&c);
  tri_onednn_layout_destroy(&b);
  tri_onednn_layout_destroy(&a);
  return status;
}

/* Sets *narrow_s and *wide_s to the shortest times of the bf16 primitive and of sgemm in fp32, measured in
 * alternating turns. */
static tri_status trial_run(tri_cpu_matmul_state *state, const trial *t, double *narrow_s, double *wide_s) {
  *narrow_s = *wide_s = 1e9;
  for (int turn = 0; turn < TRIAL_TURNS; turn++) {
    double start_s = thread_time_s();
    TRI_TRY(tri_onednn_product_run(state->stream, &t->multiply, t->a, t->b, NULL, t->c, t->scratch));
    double between_s = thread_time_s();
    TRI_TRY(tri_onednn_check(
        dnnl_sgemm('N', 'N', TRIAL_M, TRIAL_N, TRIAL_K, 1.0f, t->a, TRIAL_K, t->b, TRIAL_N, 0.0f, t->c, TRIAL_N),
        "a test product"));
    double end_s = thread_time_s();
    if (between_s - start_s < *narrow_s) *narrow_s = between_s - start_s;
    if (end_s - between_s < *wide_s) *wide_s = end_s - between_s;
  }
  return TRI_OK;
}

static tri_status measure(tri_cpu_matmul_state *state) {
  trial t = {0};
  double narrow_s = 0, wide_s = 0;
  state->options.bf16 = TRI_CPU_BF16_WIDENED;
  tri_status status = trial_create(state, &t);
  bool fast = status == TRI_OK && strncmp(t.multiply.implementation, "ref", 3) != 0 &&
              strncmp(t.multiply.implementation, "gemm", 4) != 0;
  if (fast) status = trial_run(state, &t, &narrow_s, &wide_s);
  trial_destroy(&t);
  if (status != TRI_OK) return status == TRI_UNSUPPORTED ? TRI_OK : status;
  if (!fast) return TRI_OK;
  state->bf16_ratio = wide_s / narrow_s;
  if (state->bf16_ratio * widened_cost > 1) state->options.bf16 = TRI_CPU_BF16_NATIVE;
  return TRI_OK;
}

tri_status tri_cpu_matmul_bf16(tri_cpu_matmul_state *state, bool *native, double *ratio) {
  if (state->options.bf16 == TRI_CPU_BF16_MEASURED) {
    int before = tri_matmul_enter(1);
    tri_status status = measure(state);
    tri_matmul_leave(before);
    TRI_TRY(status);
  }
  *native = state->options.bf16 == TRI_CPU_BF16_NATIVE;
  if (ratio != NULL) *ratio = state->bf16_ratio;
  return TRI_OK;
}

/* Products of pairs are not used on CPUs with a matrix unit, which compute them at half of the rate of fp32 products.
 */
tri_status tri_cpu_matmul_pairs(tri_cpu_matmul_state *state, bool *pairs) {
  bool native = false;
  TRI_TRY(tri_cpu_matmul_bf16(state, &native, NULL));
  *pairs = native && state->options.has_pairs && !tri_onednn_matrix_unit();
  return TRI_OK;
}
