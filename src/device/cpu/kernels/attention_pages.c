/* Attention in generation, on keys and values in pages (kernels.def: append_keys, attention_pages).
 *
 * A page of a key/value head is a tile of the kernel: its keys as columns, [head_dim, 64], and, in the array of values,
 * [64, head_dim]. One query and many use the same arithmetic: a score is a sum over d in order, with keys in the lanes;
 * a page rescales the sums to a new maximum once; and a page's values are added in the order of its keys. So a query's
 * result depends only on the query and on its keys: not on the other queries, the number of threads, or the pages that
 * hold the keys.
 *
 * A task processes some pairs of a query and a head, for the query heads that share a key/value head: a load from a
 * page serves several pairs at a time. */
#include "base/count.h"
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/vector.h"

#include <math.h>

enum {
  PAGE = TRI_PAGE_ROWS,
  PAIRS = 32,  /* pairs of a task */
  VECTORS = 4, /* vectors of keys, or of columns of values, that are processed at a time */
  KEYS = VECTORS * LANES,
#if TRI_VECTOR_BYTES == 64
  TOGETHER = 6, /* pairs that are processed with each vector while it is in a register */
#else
  TOGETHER = 2,
#endif
};

typedef struct paging {
  const tri_attention *call;
  const tri_attention_slice *slices;
  const int32_t *pages;
  const void *q, *keys, *values;
  void *out;
  int64_t tasks,   /* number of tasks of each part: slices times key/value heads */
      parts;       /* number of parts of the longest slice */
  char *workspace; /* scratch_of(call) bytes for each thread */
} paging;

/* Pairs [first, end) of a slice: pair p is query p / group of the slice, and head p % group of the query heads that
 * share `kv_head`. */
typedef struct task {
  const paging *job;
  const tri_attention_slice *slice;
  int64_t kv_head, group, first, end;
  int64_t pitch;  /* row distance of q and out: head_dim padded to whole vectors; the padding is 0 */
  float *q, *out; /* [pairs, pitch] */
  float *scores;  /* [pairs, PAGE] */
  float maximum[PAIRS], sum[PAIRS];
} task;

static int64_t pitch_of(const tri_attention *call) { return tri_divide_up(call->head_dim, LANES) * LANES; }

static size_t scratch_of(const tri_attention *call) {
  return (size_t)(PAIRS * (2 * pitch_of(call) + PAGE)) * sizeof(float);
}

/* ---- a page ------------------------------------------------------------------------------------------------------ */

/* Computes the range [*begin, *end) of the page's keys, which start at key `at`, that the pair attends to. */
static void seen_of(const task *t, int64_t pair, int64_t at, int64_t *begin, int64_t *end) {
  const tri_attention_slice *s = t->slice;
  const int64_t query = pair / t->group;
  *begin = tri_larger(0, query + s->from - at);
  *end = tri_smaller(PAGE, tri_smaller(s->keys, query + s->to + 1) - at);
}

/* Computes scores of `pairs` pairs, from row `row` of the scratch on, with `vectors` vectors of keys. */
INLINE void score_some(tri_dtype type, const task *t, int64_t row, int64_t pairs, int64_t keys, int64_t key,
                       int64_t vectors) {
  const int64_t depth = t->job->call->head_dim;
  vf sum[TOGETHER][VECTORS];
  for (int64_t r = 0; r < pairs; r++)
    for (int64_t v = 0; v < vectors; v++) sum[r][v] = (vf){0};
  for (int64_t d = 0; d < depth; d++) {
    vf k[VECTORS];
    for (int64_t v = 0; v < vectors; v++) k[v] = vf_load(type, t->job->keys, keys + d * PAGE + key + v * LANES);
    for (int64_t r = 0; r < pairs; r++)
      for (int64_t v = 0; v < vectors; v++)
        sum[r][v] = vf_fma(vf_splat(t->q[(row + r) * t->pitch + d]), k[v], sum[r][v]);
  }
  for (int64_t r = 0; r < pairs; r++)
    for (int64_t v = 0; v < vectors; v++) vf_store(TRI_FP32, t->scores, (row + r) * PAGE + key + v * LANES, sum[r][v]);
}

INLINE void score_rows(tri_dtype type, const task *t, int64_t first, int64_t end, int64_t keys, int64_t key,
                       int64_t vectors) {
  int64_t row = first;
  for (; row + TOGETHER <= end; row += TOGETHER) score_some(type, t, row, TOGETHER, keys, key, vectors);
  for (; row < end; row++) score_some(type, t, row, 1, keys, key, vectors);
}

/* Computes the scores of rows [first, end) of the scratch with the first `most` keys of a page; `most` is a multiple
 * of LANES. */
INLINE void score_page(tri_dtype type, const task *t, int64_t first, int64_t end, int64_t keys, int64_t most) {
  for (int64_t key = 0; key < most; key += KEYS) {
    switch ((most - key) / LANES) { /* constants, so that the sums stay in registers */
      case 1: score_rows(type, t, first, end, keys, key, 1); break;
      case 2: score_rows(type, t, first, end, keys, key, 2); break;
      case 3: score_rows(type, t, first, end, keys, key, 3); break;
      default: score_rows(type, t, first, end, keys, key, VECTORS);
    }
  }
}

/* Applies a soft cap c: replaces scores by tanh(scale score / c). The scale is then c. */
static void cap_scores(const tri_attention *call, float *scores, int64_t most) {
  const float factor = (float)(call->scale / call->soft_cap);
  for (int64_t j = 0; j < most; j += LANES)
    vf_store(TRI_FP32, scores, j, vf_tanh(vf_load(TRI_FP32, scores, j) * factor));
}

/* Replaces the scores of the keys [begin, end) by weights, and the others of the first `most` by 0. Returns the factor
 * that rescales the earlier sums. */
static float softmax_row(const task *t, int64_t row, int64_t begin, int64_t end, int64_t most) {
  const tri_attention *call = t->job->call;
  float *scores = t->scores + row * PAGE, *maximum = &((task *)(uintptr_t)t)->maximum[row];
  float *total = &((task *)(uintptr_t)t)->sum[row];
  const float unit = (float)(call->soft_cap > 0 ? call->soft_cap : call->scale), before = *maximum;
  if (call->soft_cap > 0) cap_scores(call, scores, most);
  for (int64_t j = 0; j < begin; j++) scores[j] = -INFINITY;
  for (int64_t j = end; j < most; j++) scores[j] = -INFINITY;
  vf highest = vf_splat(before), sum = {0};
  for (int64_t j = 0; j < most; j += LANES) highest = vf_max(highest, vf_load(TRI_FP32, scores, j));
  *maximum = vf_highest(highest);
  for (int64_t j = 0; j < most; j += LANES) {
    const vf weight = vf_exp((vf_load(TRI_FP32, scores, j) - *maximum) * unit);
    vf_store(TRI_FP32, scores, j, weight);
    sum += weight;
  }
  const float factor = vf_exp(vf_splat((before - *maximum) * unit))[0];
  *total = *total * factor + vf_sum(sum);
  return factor;
}

/* Multiplies rows of out by their factors and adds the values [begin, end) of the page times their weights: for
 * `vectors` vectors of columns from d on, or `some` columns of one. */
INLINE void add_some(tri_dtype type, const task *t, int64_t row, int64_t pairs, const float *factors, int64_t values,
                     int64_t begin, int64_t end, int64_t d, int64_t vectors, int64_t some) {
  const int64_t width = t->job->call->head_dim;
  vf out[TOGETHER][VECTORS];
  for (int64_t r = 0; r < pairs; r++)
    for (int64_t v = 0; v < vectors; v++)
      out[r][v] = vf_load(TRI_FP32, t->out, (row + r) * t->pitch + d + v * LANES) * factors[row + r];
  for (int64_t j = begin; j < end; j++) {
    vf value[VECTORS];
    for (int64_t v = 0; v < vectors; v++)
      value[v] = vf_get(type, t->job->values, values + j * width + d + v * LANES, some);
    for (int64_t r = 0; r < pairs; r++)
      for (int64_t v = 0; v < vectors; v++)
        out[r][v] = vf_fma(vf_splat(t->scores[(row + r) * PAGE + j]), value[v], out[r][v]);
  }
  for (int64_t r = 0; r < pairs; r++)
    for (int64_t v = 0; v < vectors; v++) vf_store(TRI_FP32, t->out, (row + r) * t->pitch + d + v * LANES, out[r][v]);
}

INLINE void add_rows(tri_dtype type, const task *t, int64_t row, int64_t pairs, const float *factors, int64_t values,
                     int64_t begin, int64_t end) {
  const int64_t width = t->job->call->head_dim;
  int64_t done = 0;
  for (; done + VECTORS * LANES <= width; done += VECTORS * LANES)
    add_some(type, t, row, pairs, factors, values, begin, end, done, VECTORS, LANES);
  FOR_VECTORS(d, some, done, width, { add_some(type, t, row, pairs, factors, values, begin, end, d, 1, some); });
}

/* Processes a page. The task's pairs that attend to any key of the page are adjacent, because queries ascend, and so do
 * the first and the last key of each query. */
INLINE void attend_page(tri_dtype type, task *t, int64_t at, int64_t base) {
  float factors[PAIRS];
  int64_t begin = 0, end = 0, first = t->first, last = t->end;
  for (; first < last; first++) {
    seen_of(t, first, at, &begin, &end);
    if (begin < end) break;
  }
  for (; last > first; last--) {
    seen_of(t, last - 1, at, &begin, &end);
    if (begin < end) break;
  }
  const int64_t most = tri_round_up(end, LANES); /* the last pair has the last key */
  score_page(type, t, first - t->first, last - t->first, base, most);
  for (int64_t pair = first; pair < last; pair++) {
    seen_of(t, pair, at, &begin, &end);
    factors[pair - t->first] = softmax_row(t, pair - t->first, begin, end, most);
  }
  for (int64_t pair = first; pair < last;) {
    int64_t whole = 0;
    for (; whole < TOGETHER && pair + whole < last; whole++) {
      seen_of(t, pair + whole, at, &begin, &end);
      if (end - begin < PAGE) break;
    }
    if (whole == TOGETHER) {
      add_rows(type, t, pair - t->first, TOGETHER, factors, base, 0, PAGE);
      pair += TOGETHER;
      continue;
    }
    seen_of(t, pair, at, &begin, &end);
    add_rows(type, t, pair - t->first, 1, factors, base, begin, end);
    pair++;
  }
}

/* ---- a task ------------------------------------------------------------------------------------------------------ */

INLINE void begin_rows(tri_dtype type, task *t) {
  const tri_attention *call = t->job->call;
  for (int64_t pair = t->first; pair < t->end; pair++) {
    const int64_t row = pair - t->first, head = t->kv_head * t->group + pair % t->group;
    const int64_t from = (t->slice->first_query + pair / t->group) * call->q_row + head * call->q_head;
    float *q = t->q + row * t->pitch;
    FOR_VECTORS(i, some, 0, call->head_dim, { vf_store(TRI_FP32, q, i, vf_get(type, t->job->q, from + i, some)); });
    memset(t->out + row * t->pitch, 0, (size_t)t->pitch * sizeof(float));
    t->maximum[row] = -INFINITY;
    t->sum[row] = 0;
  }
}

/* Writes the results; a query without keys gets 0. */
INLINE void end_rows(tri_dtype type, const task *t) {
  const tri_attention *call = t->job->call;
  for (int64_t pair = t->first; pair < t->end; pair++) {
    const int64_t row = pair - t->first, head = t->kv_head * t->group + pair % t->group;
    const int64_t to = (t->slice->first_query + pair / t->group) * call->out_row + head * call->out_head;
    const float factor = t->sum[row] == 0.0f ? 1.0f : 1.0f / t->sum[row];
    FOR_VECTORS(i, some, 0, call->head_dim,
                { vf_put(type, t->job->out, to + i, some, vf_load(TRI_FP32, t->out, row * t->pitch + i) * factor); });
  }
}

INLINE void attend(tri_dtype type, task *t) {
  const tri_attention *call = t->job->call;
  const tri_attention_slice *s = t->slice;
  const int64_t block = call->head_dim * PAGE, first_query = t->first / t->group, last_query = (t->end - 1) / t->group;
  const int64_t begin = tri_larger(0, first_query + s->from) / PAGE * PAGE,
                end = tri_smaller(s->keys, last_query + s->to + 1);
  begin_rows(type, t);
  for (int64_t at = begin; at < end; at += PAGE) {
    const int64_t page = t->job->pages[(s->first_key + at) / PAGE];
    attend_page(type, t, at, (page * call->kv_heads + t->kv_head) * block);
  }
  end_rows(type, t);
}

static void run_task(const paging *job, int64_t slice, int64_t kv_head, int64_t part, float *scratch) {
  const tri_attention *call = job->call;
  const tri_attention_slice *s = &job->slices[slice];
  const int64_t group = call->heads / call->kv_heads, pitch = pitch_of(call);
  if (s->keys == 0 || part * PAIRS >= s->queries * group) return;
  task t = {.job = job,
            .slice = s,
            .kv_head = kv_head,
            .group = group,
            .first = part * PAIRS,
            .end = tri_smaller(s->queries * group, (part + 1) * PAIRS),
            .pitch = pitch,
            .q = scratch,
            .out = scratch + PAIRS * pitch,
            .scores = scratch + 2 * PAIRS * pitch};
  if (call->type == TRI_BF16) {
    attend(TRI_BF16, &t);
  } else {
    attend(TRI_FP32, &t);
  }
}

/* Processes one task. Later queries have more keys, so the last part comes first. */
static void attend_task(const void *context, int64_t i, int worker) {
  const paging *job = context;
  const int64_t kv_heads = job->call->kv_heads, at = i % job->tasks, part = job->parts - 1 - i / job->tasks;
  run_task(job, at / kv_heads, at % kv_heads, part,
           (float *)(void *)(job->workspace + (size_t)worker * scratch_of(job->call)));
}

static tri_status attention_pages(tri_queue *queue, const tri_attention *call, const tri_attention_slice *slices,
                                  const int32_t *pages, const void *q, const void *keys, const void *values, void *out,
                                  void *workspace) {
  int64_t live = 0;
  TRI_TRY(tri_attention_slices_check(call, slices, &live));
  const paging job = {.call = call,
                      .slices = slices,
                      .pages = pages,
                      .q = q,
                      .keys = keys,
                      .values = values,
                      .out = out,
                      .tasks = live * call->kv_heads,
                      .parts = tri_divide_up(call->most_queries * (call->heads / call->kv_heads), PAIRS),
                      .workspace = workspace};
  tri_regions_run(REGIONS, job.tasks * job.parts, attend_task, &job);
  return TRI_OK;
}

/* ---- new keys ---------------------------------------------------------------------------------------------------- */

INLINE void append_row(tri_dtype type, const tri_attention *call, int64_t row, int64_t to, const void *k, const void *v,
                       void *keys, void *values) {
  const int64_t width = call->head_dim, page = to / PAGE, at = to % PAGE;
  const size_t element = tri_dtype_bytes(type);
  for (int64_t g = 0; g < call->kv_heads; g++) {
    const int64_t base = (page * call->kv_heads + g) * width * PAGE, from = row * call->k_row + g * call->k_head;
    for (int64_t d = 0; d < width; d++) {
      if (type == TRI_BF16) {
        ((uint16_t *)keys)[base + d * PAGE + at] = ((const uint16_t *)k)[from + d];
      } else {
        ((float *)keys)[base + d * PAGE + at] = ((const float *)k)[from + d];
      }
    }
    memcpy((char *)values + (size_t)(base + at * width) * element,
           (const char *)v + (size_t)(row * call->v_row + g * call->v_head) * element, (size_t)width * element);
  }
}

typedef struct appending {
  const tri_attention *call;
  const int32_t *cache_rows;
  const void *k, *v;
  void *keys, *values;
} appending;

enum { APPENDED = 16 }; /* rows of a chunk */

static void append_rows(const void *context, int64_t chunk, int worker) {
  const appending *job = context;
  const int64_t end = tri_smaller(job->call->query_rows, (chunk + 1) * APPENDED);
  (void)worker;
  for (int64_t r = chunk * APPENDED; r < end; r++) {
    if (job->call->type == TRI_BF16) {
      append_row(TRI_BF16, job->call, r, job->cache_rows[r], job->k, job->v, job->keys, job->values);
    } else {
      append_row(TRI_FP32, job->call, r, job->cache_rows[r], job->k, job->v, job->keys, job->values);
    }
  }
}

static tri_status append_keys(tri_queue *queue, const tri_attention *call, const int32_t *cache_rows, const void *k,
                              const void *v, void *keys, void *values) {
  const int64_t rows = call->query_rows;
  const appending job = {call, cache_rows, k, v, keys, values};
  tri_regions_run(rows * call->kv_heads * call->head_dim > TRI_ALONE ? REGIONS : NULL, tri_divide_up(rows, APPENDED),
                  append_rows, &job);
  return TRI_OK;
}

void TRI_KERNEL(table_attention_pages)(tri_device_kernels *table) {
  table->append_keys = append_keys;
  table->attention_pages = attention_pages;
}

size_t TRI_KERNEL(attention_pages_scratch)(const tri_attention *call) { return scratch_of(call); }
