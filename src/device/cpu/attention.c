/* Attention on the CPU device: checks the call, divides it into tasks and the workspace into the threads' scratch. The
 * tasks themselves are in kernels/attention_forward.h and attention_backward.h.
 *
 * Tasks are shared out as they come (dynamic), the largest first, and no task's result depends on another's; so a
 * result never depends on the number of threads, nor on how the work was cut:
 *  - forward: a key/value head, or where there are too few of them for the threads, parts of its query tiles; each part
 *    then packs the keys and values again, which costs a few percent.
 *  - backward: a key/value head, or where seven products on all threads take less time than five on few of them, tiles.
 */
#include "device/cpu/attention.h"

#include "base/status.h"

#include <omp.h>

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

static size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

static tri_status check(const tri_attention *call) {
  if (call->type != TRI_FP32 && call->type != TRI_BF16)
    return tri_fail(TRI_UNSUPPORTED, "attention on the cpu device takes fp32 or bf16, not %s; use device: reference",
                    tri_dtype_name(call->type));
  if (call->batch < 0 || call->queries < 0 || call->heads < 1 || call->head_dim < 1 || call->kv_heads < 1 ||
      call->heads % call->kv_heads != 0 || call->keys < call->queries || !(call->scale > 0))
    return tri_fail(TRI_INTERNAL,
                    "attention of batch %lld, %lld queries, %lld keys, %lld heads over %lld, head size %lld, scale %g "
                    "makes no sense: it needs queries <= keys, heads a multiple of kv_heads, scale > 0",
                    (long long)call->batch, (long long)call->queries, (long long)call->keys, (long long)call->heads,
                    (long long)call->kv_heads, (long long)call->head_dim, call->scale);
  return TRI_OK;
}

/* ---- how the work is cut ---- */

/* Whether the backward gives whole key/value heads to the threads: five products a tile of which the slowest thread
 * computes divide_up(heads, threads) heads' worth, against seven that divide evenly. */
static bool takes_whole_heads(const tri_attention *call, int64_t threads) {
  const int64_t tasks = call->batch * call->kv_heads;
  if (call->keys <= TRI_ATTENTION_TILE) return true;
  return divide_up(tasks, threads) * threads * 5 <= tasks * 7;
}

/* Into how many parts the forward cuts the query tiles of each key/value head. */
static int64_t forward_parts(const tri_attention *call, int64_t threads) {
  const int64_t tasks = call->batch * call->kv_heads;
  const int64_t units = call->heads / call->kv_heads * divide_up(call->queries, TRI_ATTENTION_TILE);
  if (tasks % threads == 0 || tasks >= 4 * threads) return 1;
  const int64_t parts = divide_up(4 * threads, tasks);
  return parts < units ? parts : units;
}

static size_t delta_bytes(const tri_attention *call) {
  return aligned((size_t)(call->batch * call->heads * call->queries) * sizeof(float));
}

tri_status tri_attention_workspace_with(const tri_attention_kernels *kernels, int threads, const tri_attention *call,
                                        size_t *bytes) {
  TRI_TRY(check(call));
  size_t forward = aligned(kernels->forward_scratch(call)) * (size_t)threads;
  size_t backward = aligned(kernels->backward_scratch(call, takes_whole_heads(call, threads))) * (size_t)threads;
  backward += delta_bytes(call);
  *bytes = forward > backward ? forward : backward;
  return TRI_OK;
}

tri_status tri_attention_forward_with(const tri_attention_kernels *kernels, int threads,
                                      const tri_attention_forward *job, void *workspace) {
  const tri_attention *call = job->call;
  TRI_TRY(check(call));
  const size_t scratch = aligned(kernels->forward_scratch(call));
  const int64_t tasks = call->batch * call->kv_heads, parts = forward_parts(call, threads);
  const int64_t units = call->heads / call->kv_heads * divide_up(call->queries, TRI_ATTENTION_TILE);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (int64_t i = 0; i < tasks * parts; i++) {
    /* Later queries see more keys: the last part first. */
    const int64_t part = parts - 1 - i / tasks, task = i % tasks;
    const int64_t first = units * part / parts, end = units * (part + 1) / parts;
    kernels->forward(job, task / call->kv_heads, task % call->kv_heads, first, end - first,
                     (char *)workspace + (size_t)omp_get_thread_num() * scratch);
  }
  return TRI_OK;
}

static void backward_in_heads(const tri_attention_kernels *kernels, const tri_attention_backward *job, void *scratch) {
  const tri_attention *call = job->call;
#pragma omp for schedule(dynamic, 1)
  for (int64_t i = 0; i < call->batch * call->kv_heads; i++)
    kernels->backward_whole(job, i / call->kv_heads, i % call->kv_heads, scratch);
}

/* The first keys are seen by most queries and the last queries see most keys: those tiles first. */
static void backward_in_tiles(const tri_attention_kernels *kernels, const tri_attention_backward *job, void *scratch) {
  const tri_attention *call = job->call;
  const int64_t kv_heads = call->batch * call->kv_heads, heads = call->batch * call->heads;
  const int64_t key_tiles = divide_up(call->keys, TRI_ATTENTION_TILE);
  const int64_t query_tiles = divide_up(call->queries, TRI_ATTENTION_TILE);
#pragma omp for schedule(dynamic, 1) nowait
  for (int64_t i = 0; i < key_tiles * kv_heads; i++) {
    const int64_t head = i % kv_heads;
    kernels->backward_keys(job, head / call->kv_heads, head % call->kv_heads, i / kv_heads, scratch);
  }
#pragma omp for schedule(dynamic, 1)
  for (int64_t i = 0; i < query_tiles * heads; i++) {
    const int64_t head = i % heads;
    kernels->backward_queries(job, head / call->heads, head % call->heads, query_tiles - 1 - i / heads, scratch);
  }
}

tri_status tri_attention_backward_with(const tri_attention_kernels *kernels, int threads,
                                       const tri_attention_backward *job_without_delta, void *workspace) {
  tri_attention_backward job = *job_without_delta;
  const tri_attention *call = job.call;
  TRI_TRY(check(call));
  job.delta = workspace;
  const bool whole = takes_whole_heads(call, threads);
  const size_t bytes = aligned(kernels->backward_scratch(call, whole));
#pragma omp parallel num_threads(threads)
  {
    char *scratch = (char *)workspace + delta_bytes(call) + (size_t)omp_get_thread_num() * bytes;
#pragma omp for schedule(static)
    for (int64_t i = 0; i < call->batch * call->heads; i++) kernels->delta(&job, i / call->heads, i % call->heads);
    if (whole)
      backward_in_heads(kernels, &job, scratch);
    else
      backward_in_tiles(kernels, &job, scratch);
  }
  return TRI_OK;
}
