/* Descriptions of kinds of devices that this machine does not have, for plans.
 *
 * Both kinds need weights in the type of the activations, in addition to the optimizer's wide ones: with bf16, a
 * copy for each layout that GEMMs read, with half the bytes of the wide weights. */
#include "device/description.h"

/* Workspace of a GEMM library, a round figure: NVIDIA's documentation of cuBLAS recommends 32 MiB on Hopper and 4 MiB
 * on earlier GPUs. */
static const size_t accelerator_workspace = (size_t)32 << 20;

static size_t weight_bytes(const tri_matmul *product) {
  return (size_t)product->k * (size_t)product->n * tri_dtype_bytes(product->a_type);
}

/* Sets the bytes of a packed weight: 0 if the wide type is the activations' type, because the weight is then read in
 * place. */
static tri_status narrow_packed(const tri_device_description *of, const tri_matmul *product, size_t *bytes) {
  (void)of;
  *bytes = tri_dtype_wide(product->a_type) == product->a_type ? 0 : weight_bytes(product);
  return TRI_OK;
}

/* Returns the scratch bytes of a weight that is not packed ahead, but narrowed before the GEMM. */
static size_t narrowed_bytes(const tri_matmul *product) {
  return product->b_type == product->a_type ? 0 : weight_bytes(product);
}

static tri_status accelerator_matmul(const tri_device_description *of, const tri_matmul *product, size_t *bytes) {
  (void)of;
  *bytes = accelerator_workspace + narrowed_bytes(product);
  return TRI_OK;
}

static tri_status cpu_matmul(const tri_device_description *of, const tri_matmul *product, size_t *bytes) {
  (void)of;
  *bytes = narrowed_bytes(product);
  return TRI_OK;
}

/* Sets the workspace of grouped GEMMs, with the narrowed weights of all groups. */
static tri_status accelerator_grouped(const tri_device_description *of, const tri_grouped_matmul *product,
                                      size_t *bytes) {
  (void)of;
  *bytes = accelerator_workspace + (size_t)product->groups * narrowed_bytes(&product->product);
  return TRI_OK;
}

static tri_status cpu_grouped(const tri_device_description *of, const tri_grouped_matmul *product, size_t *bytes) {
  (void)of;
  *bytes = (size_t)product->groups * narrowed_bytes(&product->product);
  return TRI_OK;
}

/* Sets the workspace of a flash kernel's backward (Dao 2023): the gradient of q accumulates in the wide type, a number
 * for each row of a head is computed first, and query heads that share keys and values have their own gradients, which
 * are summed. */
static tri_status flash_attention(const tri_device_description *of, const tri_attention *call, size_t *bytes) {
  (void)of;
  size_t wide = tri_dtype_bytes(tri_dtype_wide(call->type));
  size_t rows = (size_t)call->query_rows * (size_t)call->heads;
  size_t keys = (size_t)call->key_rows * (size_t)call->heads;
  *bytes = rows * (size_t)call->head_dim * wide + rows * wide;
  if (call->kv_heads != call->heads) *bytes += 2 * keys * (size_t)call->head_dim * tri_dtype_bytes(call->type);
  return TRI_OK;
}

/* Sets the workspace of attention in tiles, which stay in the caches of each thread: one number for each row of each
 * head. */
static tri_status tiled_attention(const tri_device_description *of, const tri_attention *call, size_t *bytes) {
  (void)of;
  *bytes = (size_t)call->query_rows * (size_t)call->heads * tri_dtype_bytes(tri_dtype_wide(call->type));
  return TRI_OK;
}

const tri_device_description tri_description_accelerator = {
    .threads = 1,
    .packs_plain = true,
    .queue_bytes = (size_t)32 << 20, /* for kernels in several stages, as for a GPU's queue (gpu/internal.h) */
    .matmul_workspace = accelerator_matmul,
    .matmul_packed = narrow_packed,
    .grouped_workspace = accelerator_grouped,
    .attention_workspace = flash_attention,
};

const tri_device_description tri_description_cpu = {
    .threads = 1,
    .matmul_workspace = cpu_matmul,
    .matmul_packed = narrow_packed,
    .grouped_workspace = cpu_grouped,
    .attention_workspace = tiled_attention,
};
