/* Attention by this program's own kernels: kernels/attention.c. */
#include "device/gpu/internal.h"

#include <stddef.h>

_Static_assert((int)ATTENTION_PAGE == (int)TRI_PAGE_ROWS, "kernels find a row's page");
_Static_assert(sizeof(attention_slice) == sizeof(tri_attention_slice) &&
                   offsetof(attention_slice, to) == offsetof(tri_attention_slice, to),
               "kernels read the list as it is");

/* The kernels for a call: narrow ones for heads that fit into ATTENTION_NARROW bytes, wide ones for longer heads. A row
 * of a tile of these kernels has `row_bytes` bytes, without the padding. */
typedef struct form {
  tri_gpu_kernel forward, queries, keys;
  int64_t row_bytes;
} form;

static form form_of(const tri_attention *call) {
  if (call->head_dim * (int64_t)tri_dtype_bytes(call->type) <= ATTENTION_NARROW) {
    return (form){TRI_GPU_KERNEL_attention_forward_narrow, TRI_GPU_KERNEL_attention_queries_narrow,
                  TRI_GPU_KERNEL_attention_keys_narrow, ATTENTION_NARROW};
  }
  return (form){TRI_GPU_KERNEL_attention_forward_wide, TRI_GPU_KERNEL_attention_queries_wide,
                TRI_GPU_KERNEL_attention_keys_wide, ATTENTION_WIDE};
}

/* Returns the number of chunks of a head; a tile holds one chunk at a time. */
static int64_t chunks_of(const tri_attention *call, const form *f) {
  const int64_t width = f->row_bytes / (int64_t)tri_dtype_bytes(call->type);
  return (call->head_dim + width - 1) / width;
}

/* Returns the bytes of shared memory for the fragment_scratch of all warps (fragment.h): tiles of 16 x 16 elements,
 * with rows padded by 16 bytes. 0 for bf16 in warps of 32 threads, which do not use it. */
static size_t scratch_bytes(const tri_queue *queue, tri_dtype type) {
  const tri_gpu *gpu = queue->device->state;
  if (type == TRI_BF16 && gpu->facts.warp == 32) return 0;
  return (size_t)ATTENTION_OWN / 16 * 16 * (16 * tri_dtype_bytes(type) + 16);
}

static size_t shared_bytes(const tri_queue *queue, const tri_attention *call, const form *f, int64_t rows) {
  return (size_t)(rows * (f->row_bytes + 16)) + ATTENTION_FOUND_BYTES + scratch_bytes(queue, call->type);
}

static tri_status check(const tri_attention *call) {
  TRI_TRY(tri_attention_check(call));
  if (call->query_rows <= INT32_MAX && call->key_rows <= INT32_MAX && call->num_slices <= INT32_MAX &&
      tri_gpu_type_bits(call->type) != 0)
    return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED,
                  "attention of %lld query rows on %lld key rows in %lld slices is more than slices say",
                  (long long)call->query_rows, (long long)call->key_rows, (long long)call->num_slices);
}

static attention_arguments arguments_of(const tri_attention *c, const tri_attention_slice *slices, const void *q,
                                        const void *k, const void *v) {
  /* Without slices or rows, the kernel gets no addresses of inputs, because those of empty arrays may be invalid. */
  const bool nothing = c->num_slices == 0 || c->key_rows == 0 || c->query_rows == 0;
  return (attention_arguments){.slices = nothing ? NULL : (const attention_slice *)(const void *)slices,
                               .q = nothing ? NULL : q,
                               .k = nothing ? NULL : k,
                               .v = nothing ? NULL : v,
                               .q_row = c->q_row,
                               .q_head = c->q_head,
                               .k_row = c->k_row,
                               .k_head = c->k_head,
                               .v_row = c->v_row,
                               .v_head = c->v_head,
                               .out_row = c->out_row,
                               .out_head = c->out_head,
                               .scale = c->scale,
                               .unit = c->soft_cap > 0 ? c->soft_cap : c->scale,
                               .share = c->soft_cap > 0 ? c->scale / c->soft_cap : 0,
                               .num_slices = nothing ? 0 : (int32_t)c->num_slices,
                               .query_rows = (int32_t)c->query_rows,
                               .key_rows = (int32_t)c->key_rows,
                               .heads = (int32_t)c->heads,
                               .group = (int32_t)(c->heads / c->kv_heads),
                               .head_dim = (int32_t)c->head_dim,
                               .out_is_wide = c->out_type != c->type,
                               .gradient_is_wide = c->gradient_type != c->type,
                               .merge = c->merge,
                               .accumulate = c->accumulate};
}

static int64_t tiles(int64_t rows) { return (rows + ATTENTION_OWN - 1) / ATTENTION_OWN; }

static tri_status launch_forward(tri_queue *queue, const tri_attention *call, const attention_arguments *arguments) {
  const form f = form_of(call);
  const tri_gpu_shape shape = {.x = tiles(call->query_rows),
                               .y = call->heads,
                               .shared_bytes = shared_bytes(queue, call, &f, ATTENTION_FORWARD_ROWS)};
  return tri_gpu_launch(queue, f.forward, call->type, shape, arguments, sizeof *arguments);
}

static tri_status gpu_attention_forward(tri_queue *queue, const tri_attention *call, const tri_attention_slice *slices,
                                        const void *q, const void *k, const void *v, void *out, void *log_sum_exp,
                                        void *workspace) {
  (void)workspace;
  TRI_TRY(check(call));
  attention_arguments arguments = arguments_of(call, slices, q, k, v);
  arguments.out = out;
  arguments.log_sum_exp = log_sum_exp;
  return launch_forward(queue, call, &arguments);
}

/* ---- pages: consecutive rows of all heads ------------------------------------------------------------------------ */

static tri_status gpu_append_keys(tri_queue *queue, const tri_attention *call, const int32_t *cache_rows, const void *k,
                                  const void *v, void *keys, void *values) {
  const int64_t width = call->kv_heads * call->head_dim;
  tri_row_copy copy = {.rows = tri_all_rows(call->query_rows),
                       .width = width,
                       .from_type = call->type,
                       .to_type = call->type,
                       .from_stride = call->k_row,
                       .to_stride = width};
  if (call->k_head != call->head_dim || call->v_head != call->head_dim)
    return tri_fail_internal("heads of keys that do not lie side by side");
  TRI_KERNEL_CALL(queue, copy_rows, &copy, NULL, k, cache_rows, keys);
  copy.from_stride = call->v_row;
  TRI_KERNEL_CALL(queue, copy_rows, &copy, NULL, v, cache_rows, values);
  return TRI_OK;
}

static tri_status gpu_attention_pages(tri_queue *queue, const tri_attention *call, const tri_attention_slice *slices,
                                      const int32_t *pages, const void *q, const void *keys, const void *values,
                                      void *out, void *workspace) {
  tri_attention dense = *call;
  (void)workspace;
  dense.k_row = dense.v_row = call->kv_heads * call->head_dim;
  dense.k_head = dense.v_head = call->head_dim;
  TRI_TRY(check(&dense));
  attention_arguments arguments = arguments_of(&dense, slices, q, keys, values);
  arguments.pages = pages;
  arguments.out = out;
  return launch_forward(queue, &dense, &arguments);
}

/* Queues the computation of sums[heads, query_rows]: the numbers D of kernels/attention_backward.h, in the wide type.
 */
static tri_status make_row_sums(tri_queue *queue, const tri_attention *c, const void *out, const void *gradient_out,
                                void *sums) {
  TRI_GPU_LAUNCH(
      attention_row_sums, c->type, tri_gpu_shape_of(c->query_rows * c->heads * 8, attention_row_sums_threads),
      .out = out, .gradient_out = gradient_out, .sums = sums, .rows = c->query_rows, .heads = c->heads,
      .row = c->out_row, .head = c->out_head, .head_dim = c->head_dim, .out_is_wide = c->out_type != c->type);
  return TRI_OK;
}

static tri_status gpu_attention_backward(tri_queue *queue, const tri_attention *call, const tri_attention_slice *slices,
                                         const void *q, const void *k, const void *v, const void *out,
                                         const void *log_sum_exp, const void *gradient_out, void *gradient_q,
                                         void *gradient_k, void *gradient_v, void *workspace) {
  TRI_TRY(check(call));
  const form f = form_of(call);
  attention_arguments arguments = arguments_of(call, slices, q, k, v);
  TRI_TRY(make_row_sums(queue, call, out, gradient_out, workspace));
  const bool queries = call->query_rows > 0, keys = call->key_rows > 0;
  arguments.log_sum_exp = queries ? (void *)(uintptr_t)log_sum_exp : NULL;
  arguments.gradient_out = queries ? gradient_out : NULL;
  arguments.sums = queries ? workspace : NULL;
  arguments.gradient_q = queries ? gradient_q : NULL;
  arguments.gradient_k = keys ? gradient_k : NULL;
  arguments.gradient_v = keys ? gradient_v : NULL;
  tri_gpu_shape shape = {.x = tiles(call->query_rows),
                         .y = call->heads,
                         .z = chunks_of(call, &f),
                         .shared_bytes = shared_bytes(queue, call, &f, ATTENTION_BACKWARD_ROWS)};
  TRI_TRY(tri_gpu_launch(queue, f.queries, call->type, shape, &arguments, sizeof arguments));
  shape.x = tiles(call->key_rows);
  shape.y = call->kv_heads;
  return tri_gpu_launch(queue, f.keys, call->type, shape, &arguments, sizeof arguments);
}

void tri_gpu_fill_attention(tri_device_kernels *out) {
  out->attention_forward = gpu_attention_forward;
  out->attention_backward = gpu_attention_backward;
  out->append_keys = gpu_append_keys;
  out->attention_pages = gpu_attention_pages;
}
