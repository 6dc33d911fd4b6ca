/* Attention on the CPU device: checks the call, divides it into tasks and the workspace into the threads' scratch. The
 * tasks themselves are in kernels/attention_forward.h and attention_backward.h.
 *
 * Tasks are scheduled dynamically, the largest first, and no task's result depends on another's; so a result depends
 * neither on the number of threads nor on the division of the work:
 *  - forward: a task is a slice and key/value head, or, if these are too few for the threads, a part of its query
 *    tiles; each part then packs the keys and values again, which costs a few percent.
 *  - backward: a task is a slice and key/value head, or, if seven GEMMs on all threads take less time than five on
 *    few of them, a tile.
 *
 * If slices share queries or keys, the rows of q or of the keys are cut in tiles, and a task processes a tile through
 * all slices: each row has one writer. */
#include "device/cpu/attention.h"

#include "base/count.h"
#include "base/status.h"

#include <math.h>
#include <omp.h>
#include <string.h>

static tri_status check(const tri_attention *call) {
  if (call->type != TRI_FP32 && call->type != TRI_BF16)
    return tri_fail(TRI_UNSUPPORTED, "attention on the cpu device takes fp32 or bf16, not %s; use device: reference",
                    tri_dtype_name(call->type));
  return tri_attention_check(call);
}

/* ---- division of the work ---------------------------------------------------------------------------------------- */

static bool shares(const tri_attention *call) { return call->shares_queries || call->shares_keys; }

/* Returns whether a thread of the backward processes whole key/value heads. Whole heads take five GEMMs per tile, and
 * the slowest thread has tri_divide_up(heads, threads) heads; the alternative takes seven GEMMs per tile, which divide
 * evenly. */
static bool takes_whole_heads(const tri_attention *call, int64_t threads) {
  const int64_t tasks = call->shares_keys ? call->kv_heads : call->num_slices * call->kv_heads;
  if (call->shares_queries) return false;
  if (!call->shares_keys && call->most_keys <= TRI_ATTENTION_TILE) return true;
  return tri_divide_up(tasks, threads) * threads * 5 <= tasks * 7;
}

/* Returns whether takes_whole_heads holds for this number of slices or any smaller number. More slices than threads
 * need no test of their own, since it holds for as many slices as threads, whose work divides evenly. */
static bool may_take_whole_heads(const tri_attention *call, int64_t threads) {
  tri_attention fewer = *call;
  const int64_t most = tri_smaller(call->num_slices, threads);
  bool may = takes_whole_heads(call, threads);
  for (fewer.num_slices = 1; fewer.num_slices <= most && !may; fewer.num_slices++)
    may = takes_whole_heads(&fewer, threads);
  return may;
}

/* Returns the number of query tiles of a slice, for all heads that share a key/value head. */
static int64_t forward_units(const tri_attention *call, int64_t queries) {
  return call->heads / call->kv_heads * tri_divide_up(queries, TRI_ATTENTION_TILE);
}

/* Returns the number of parts into which the forward cuts the query tiles of each slice and key/value head. */
static int64_t forward_parts(const tri_attention *call, int64_t slices, int64_t threads) {
  const int64_t tasks = slices * call->kv_heads, units = forward_units(call, call->most_queries);
  if (tasks == 0 || tasks % threads == 0 || tasks >= 4 * threads) return 1;
  const int64_t parts = tri_divide_up(4 * threads, tasks);
  return parts < units ? parts : units;
}

static size_t delta_bytes(const tri_attention *call) {
  return tri_bytes_in_lines((size_t)(call->heads * call->query_rows) * sizeof(float));
}

tri_status tri_attention_workspace_with(const tri_attention_kernels *kernels, int threads, const tri_attention *call,
                                        size_t *bytes) {
  TRI_TRY(check(call));
  size_t forward = tri_bytes_in_lines(kernels->forward_scratch(call)) * (size_t)threads;
  size_t tiles = tri_bytes_in_lines(kernels->backward_scratch(call, false));
  size_t whole = may_take_whole_heads(call, threads) ? tri_bytes_in_lines(kernels->backward_scratch(call, true)) : 0;
  size_t backward = (whole > tiles ? whole : tiles) * (size_t)threads;
  backward += delta_bytes(call);
  *bytes = forward > backward ? forward : backward;
  return TRI_OK;
}

/* ---- rows that are in no slice ----------------------------------------------------------------------------------- */

/* Rows of some heads of an array, which are set to 0 (all bits). */
typedef struct head_array {
  void *base;
  tri_dtype type;
  int64_t row_stride, head_stride, heads, head_dim;
} head_array;

static void clear_rows(const head_array *at, int64_t first, int64_t end) {
  const size_t element = tri_dtype_bytes(at->type);
  for (int64_t row = first; row < end; row++)
    for (int64_t h = 0; h < at->heads; h++)
      memset((char *)at->base + (size_t)(row * at->row_stride + h * at->head_stride) * element, 0,
             (size_t)at->head_dim * element);
}

/* Finds the next gap between slices, which begins at *row and ends where the next slice with rows begins. Slices are
 * searched from index *i on, in ascending order. Returns the end of the gap. Sets *row to the end of the slice after
 * the gap, and *i to the index after that slice. */
static int64_t next_gap(const tri_attention_slice *slices, int64_t count, bool keys, int64_t rows, int64_t *i,
                        int64_t *row) {
  for (; *i < count; ++*i) {
    const tri_attention_slice *s = &slices[*i];
    if (s->queries == 0 || s->keys == 0) continue;
    const int64_t begin = keys ? s->first_key : s->first_query;
    *row = begin + (keys ? s->keys : s->queries);
    ++*i;
    return begin;
  }
  *row = rows;
  return rows;
}

static void clear_gaps(const tri_attention_slice *slices, int64_t count, bool keys, int64_t rows,
                       const head_array *array) {
  for (int64_t i = 0, row = 0, first = 0; first < rows; first = row) {
    const int64_t end = next_gap(slices, count, keys, rows, &i, &row);
    clear_rows(array, first, end);
  }
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* Sets the output of queries that are in no slice to 0, and their log_sum_exp to -infinity. */
static void forward_gaps(const tri_attention_forward *job) {
  const tri_attention *c = job->call;
  const head_array out = {job->out, c->out_type, c->out_row, c->out_head, c->heads, c->head_dim};
  clear_gaps(job->slices, job->num_slices, false, c->query_rows, &out);
  if (job->log_sum_exp == NULL) return;
  for (int64_t i = 0, row = 0, first = 0; first < c->query_rows; first = row) {
    const int64_t end = next_gap(job->slices, job->num_slices, false, c->query_rows, &i, &row);
    for (int64_t h = 0; h < c->heads; h++)
      for (int64_t r = first; r < end; r++) job->log_sum_exp[h * c->query_rows + r] = -INFINITY;
  }
}

static void forward_in_slices(const tri_attention_kernels *kernels, int threads, const tri_attention_forward *job,
                              char *workspace) {
  const tri_attention *call = job->call;
  const size_t scratch = tri_bytes_in_lines(kernels->forward_scratch(call));
  const int64_t tasks = job->num_slices * call->kv_heads, parts = forward_parts(call, job->num_slices, threads);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (int64_t i = 0; i < tasks * parts; i++) {
    /* Later queries have more keys, so the last part comes first. */
    const int64_t part = parts - 1 - i / tasks, slice = i % tasks / call->kv_heads;
    const int64_t units = job->slices[slice].keys == 0 ? 0 : forward_units(call, job->slices[slice].queries);
    const int64_t first = units * part / parts, end = units * (part + 1) / parts;
    if (first == end) continue;
    kernels->forward(job, slice, i % tasks % call->kv_heads, first, end - first,
                     workspace + (size_t)omp_get_thread_num() * scratch);
  }
}

static void forward_in_rows(const tri_attention_kernels *kernels, int threads, const tri_attention_forward *job,
                            char *workspace) {
  const tri_attention *call = job->call;
  const size_t scratch = tri_bytes_in_lines(kernels->forward_scratch(call));
  const int64_t tiles = tri_divide_up(call->query_rows, TRI_ATTENTION_TILE);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (int64_t i = 0; i < tiles * call->heads; i++) {
    const int64_t first = (tiles - 1 - i / call->heads) * TRI_ATTENTION_TILE;
    kernels->forward_rows(job, i % call->heads, first, tri_smaller(TRI_ATTENTION_TILE, call->query_rows - first),
                          workspace + (size_t)omp_get_thread_num() * scratch);
  }
}

tri_status tri_attention_forward_with(const tri_attention_kernels *kernels, int threads,
                                      const tri_attention_forward *given, void *workspace) {
  tri_attention_forward job = *given;
  TRI_TRY(check(job.call));
  TRI_TRY(tri_attention_slices_check(job.call, job.slices, &job.num_slices));
  if (job.call->shares_queries) {
    forward_in_rows(kernels, threads, &job, workspace);
    return TRI_OK;
  }
  if (!job.call->merge) forward_gaps(&job);
  forward_in_slices(kernels, threads, &job, workspace);
  return TRI_OK;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Clears the gradients of queries and keys that are in no slice. If slices share keys, the gradients of all keys are
 * written anyway. */
static void backward_gaps(const tri_attention_backward *job) {
  const tri_attention *c = job->call;
  const head_array q = {job->gradient_q, c->gradient_type, c->q_row, c->q_head, c->heads, c->head_dim};
  const head_array k = {job->gradient_k, c->gradient_type, c->k_row, c->k_head, c->kv_heads, c->head_dim};
  const head_array v = {job->gradient_v, c->gradient_type, c->v_row, c->v_head, c->kv_heads, c->head_dim};
  clear_gaps(job->slices, job->num_slices, false, c->query_rows, &q);
  if (c->shares_keys) return;
  clear_gaps(job->slices, job->num_slices, true, c->key_rows, &k);
  clear_gaps(job->slices, job->num_slices, true, c->key_rows, &v);
}

static void deltas(const tri_attention_kernels *kernels, const tri_attention_backward *job) {
  enum { ROWS = 256 };
  const tri_attention *call = job->call;
  const int64_t blocks = tri_divide_up(call->query_rows, ROWS);
#pragma omp for schedule(static)
  for (int64_t i = 0; i < blocks * call->heads; i++) {
    const int64_t first = i / call->heads * ROWS;
    kernels->delta(job, i % call->heads, first, tri_smaller(ROWS, call->query_rows - first));
  }
}

static void backward_in_heads(const tri_attention_kernels *kernels, const tri_attention_backward *job, void *scratch) {
  const int64_t heads = job->call->kv_heads;
  if (job->call->shares_keys) {
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < heads; i++) kernels->backward_shared(job, i, scratch);
    return;
  }
#pragma omp for schedule(dynamic, 1)
  for (int64_t i = 0; i < job->num_slices * heads; i++) {
    const tri_attention_slice *slice = &job->slices[i / heads];
    if (slice->queries > 0 && slice->keys > 0) kernels->backward_whole(job, i / heads, i % heads, scratch);
  }
}

/* The rows that are cut in tiles: all rows, which are processed through all slices, or the rows of one slice. */
typedef struct tile_range {
  int64_t begin, end; /* range of slices */
  int64_t first, count;
} tile_range;

static tile_range range_of(const tri_attention_backward *job, int64_t i, bool keys) {
  const tri_attention *call = job->call;
  const tri_attention_slice *s = &job->slices[i];
  if (shares(call)) return (tile_range){0, job->num_slices, 0, keys ? call->key_rows : call->query_rows};
  if (s->queries == 0 || s->keys == 0) return (tile_range){0};
  return (tile_range){i, i + 1, keys ? s->first_key : s->first_query, keys ? s->keys : s->queries};
}

/* Computes the gradients of k and v. The first keys have the most queries, so their tiles come first. */
static void backward_key_tiles(const tri_attention_kernels *kernels, const tri_attention_backward *job, void *scratch) {
  const tri_attention *call = job->call;
  const int64_t heads = (shares(call) ? 1 : job->num_slices) * call->kv_heads;
  const int64_t tiles = tri_divide_up(shares(call) ? call->key_rows : call->most_keys, TRI_ATTENTION_TILE);
#pragma omp for schedule(dynamic, 1) nowait
  for (int64_t i = 0; i < tiles * heads; i++) {
    const tile_range range = range_of(job, i % heads / call->kv_heads, true);
    const int64_t at = i / heads * TRI_ATTENTION_TILE, count = tri_smaller(TRI_ATTENTION_TILE, range.count - at);
    if (count > 0)
      kernels->backward_keys(job, range.begin, range.end, i % call->kv_heads, range.first + at, count, scratch);
  }
}

/* Computes the gradients of q. The last queries have the most keys, so their tiles come first. */
static void backward_query_tiles(const tri_attention_kernels *kernels, const tri_attention_backward *job,
                                 void *scratch) {
  const tri_attention *call = job->call;
  const int64_t heads = (shares(call) ? 1 : job->num_slices) * call->heads;
  const int64_t tiles = tri_divide_up(shares(call) ? call->query_rows : call->most_queries, TRI_ATTENTION_TILE);
#pragma omp for schedule(dynamic, 1)
  for (int64_t i = 0; i < tiles * heads; i++) {
    const tile_range range = range_of(job, i % heads / call->heads, false);
    const int64_t at = (tiles - 1 - i / heads) * TRI_ATTENTION_TILE;
    const int64_t count = tri_smaller(TRI_ATTENTION_TILE, range.count - at);
    if (count > 0)
      kernels->backward_queries(job, range.begin, range.end, i % call->heads, range.first + at, count, scratch);
  }
}

tri_status tri_attention_backward_with(const tri_attention_kernels *kernels, int threads,
                                       const tri_attention_backward *given, void *workspace) {
  tri_attention_backward job = *given;
  const tri_attention *call = job.call;
  TRI_TRY(check(call));
  TRI_TRY(tri_attention_slices_check(call, job.slices, &job.num_slices));
  job.delta = workspace;
  const bool whole = takes_whole_heads(call, threads);
  const size_t bytes = tri_bytes_in_lines(kernels->backward_scratch(call, whole));
  if (!call->accumulate && (whole || !shares(call)))
    backward_gaps(&job); /* in all other cases the tasks write all rows */
#pragma omp parallel num_threads(threads)
  {
    char *scratch = (char *)workspace + delta_bytes(call) + (size_t)omp_get_thread_num() * bytes;
    deltas(kernels, &job);
    if (whole) {
      backward_in_heads(kernels, &job, scratch);
    } else {
      backward_key_tiles(kernels, &job, scratch);
      backward_query_tiles(kernels, &job, scratch);
    }
  }
  return TRI_OK;
}
