/* Descriptions of kinds of devices that are not there, for plans.
 *
 * Both take weights in the type of the activations, beside the wide ones that the optimizer has: in bf16 that is half a
 * parameter more for each form that products read. */
#include "device/description.h"

/* What a library of matrix products wants: NVIDIA's documentation of cuBLAS recommends 32 MiB on Hopper and 4 MiB
 * before it. A round figure of such libraries. */
static const size_t accelerator_workspace = (size_t)32 << 20;

static size_t weight_bytes(const tri_matmul *product) {
  return (size_t)product->k * (size_t)product->n * tri_dtype_bytes(product->a_type);
}

/* The wide weight can be read as it is only where it has the activations' type. */
static tri_status narrow_packed(const tri_device_description *of, const tri_matmul *product, size_t *bytes) {
  (void)of;
  *bytes = tri_dtype_wide(product->a_type) == product->a_type ? 0 : weight_bytes(product);
  return TRI_OK;
}

/* A weight that is not packed ahead is narrowed on the way. */
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

/* The same of the weights of all groups. */
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

/* A flash kernel's backward (Dao 2023): the gradient of q is added up in the wide type, a number for each row of a head
 * is made before, and query heads that share keys and values make gradients of their own, which are added up. */
static tri_status flash_attention(const tri_device_description *of, const tri_attention *call, size_t *bytes) {
  (void)of;
  size_t wide = tri_dtype_bytes(tri_dtype_wide(call->type));
  size_t rows = (size_t)call->query_rows * (size_t)call->heads;
  size_t keys = (size_t)call->key_rows * (size_t)call->heads;
  *bytes = rows * (size_t)call->head_dim * wide + rows * wide;
  if (call->kv_heads != call->heads) *bytes += 2 * keys * (size_t)call->head_dim * tri_dtype_bytes(call->type);
  return TRI_OK;
}

/* Tiles that stay in the caches of each thread, and a number for each row of a head. */
static tri_status tiled_attention(const tri_device_description *of, const tri_attention *call, size_t *bytes) {
  (void)of;
  *bytes = (size_t)call->query_rows * (size_t)call->heads * tri_dtype_bytes(tri_dtype_wide(call->type));
  return TRI_OK;
}

const tri_device_description tri_description_accelerator = {
    .threads = 1,
    .packs_plain = true,
    .queue_bytes = (size_t)32 << 20, /* for kernels in several stages, as a GPU's queue has it here (gpu/internal.h) */
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
