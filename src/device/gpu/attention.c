/* Attention by kernels of our own: kernels/attention.c. */
#include "device/gpu/internal.h"

#include <stddef.h>

_Static_assert(sizeof(attention_slice) == sizeof(tri_attention_slice) &&
                   offsetof(attention_slice, causal) == offsetof(tri_attention_slice, causal),
               "kernels read the list as it is");

/* Two forms of the kernel: for heads that fit into a row of the tiles, and for such as take a longer one. */
typedef struct form {
  tri_gpu_kernel forward;
  int64_t row_bytes;
} form;

static form form_of(const tri_attention *call) {
  if (call->head_dim * (int64_t)tri_dtype_bytes(call->type) <= ATTENTION_NARROW)
    return (form){TRI_GPU_KERNEL_attention_forward_narrow, ATTENTION_NARROW};
  return (form){TRI_GPU_KERNEL_attention_forward_wide, ATTENTION_WIDE};
}

/* fragment.h: tiles of 16 x 16 elements, their rows 16 bytes further apart. */
static size_t scratch_bytes(const tri_queue *queue, tri_dtype type, size_t threads) {
  const tri_gpu *gpu = queue->device->state;
  if (type == TRI_BF16 && gpu->facts.warp == 32) return 0;
  return threads / (size_t)gpu->facts.warp * 16 * (16 * tri_dtype_bytes(type) + 16);
}

static size_t shared_bytes(const tri_queue *queue, const tri_attention *call, const form *f, int64_t rows) {
  return (size_t)(rows * (f->row_bytes + 16)) + ATTENTION_FOUND_BYTES +
         scratch_bytes(queue, call->type, attention_forward_wide_threads);
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
  const bool nothing = c->num_slices == 0 || c->key_rows == 0; /* an array of nothing is no address */
  return (attention_arguments){.slices = nothing ? NULL : (const attention_slice *)(const void *)slices,
                               .q = q,
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

static tri_status gpu_attention_forward(tri_queue *queue, const tri_attention *call, const tri_attention_slice *slices,
                                        const void *q, const void *k, const void *v, void *out, void *log_sum_exp,
                                        void *workspace) {
  (void)workspace;
  TRI_TRY(check(call));
  const form f = form_of(call);
  attention_arguments arguments = arguments_of(call, slices, q, k, v);
  arguments.out = out;
  arguments.log_sum_exp = log_sum_exp;
  const tri_gpu_shape shape = {.x = tiles(call->query_rows),
                               .y = call->heads,
                               .shared_bytes = shared_bytes(queue, call, &f, ATTENTION_FORWARD_ROWS)};
  return tri_gpu_launch(queue, f.forward, call->type, shape, &arguments, sizeof arguments);
}

void tri_gpu_fill_attention(tri_device_kernels *out) { out->attention_forward = gpu_attention_forward; }
