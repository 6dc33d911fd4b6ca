/* All kernels: kernels/NAME.h has a module's arguments and list, kernels/NAME.c the kernels, and NAME.c in this folder
 * the functions of device/kernels.h that launch them. A new module is added here in three places: the includes,
 * TRI_GPU_MODULES and TRI_GPU_KERNELS. */
#ifndef TRI_DEVICE_GPU_KERNEL_LIST_H
#define TRI_DEVICE_GPU_KERNEL_LIST_H

/* The emulator examines arguments word by word to find addresses (emulated.c), so a word must not mix a value with
 * uninitialised padding. Structs have a member `no_padding` in places where the compiler would insert padding, and
 * -Wpadded reports any other padding. */
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"
#include "device/gpu/kernels/attention.h"
#include "device/gpu/kernels/elements.h"
#include "device/gpu/kernels/embedding.h"
#include "device/gpu/kernels/factored.h"
#include "device/gpu/kernels/grouped.h"
#include "device/gpu/kernels/groups.h"
#include "device/gpu/kernels/logit_query.h"
#include "device/gpu/kernels/loss.h"
#include "device/gpu/kernels/low_rank.h"
#include "device/gpu/kernels/magnitude.h"
#include "device/gpu/kernels/matmul.h"
#include "device/gpu/kernels/matrices.h"
#include "device/gpu/kernels/nf4.h"
#include "device/gpu/kernels/norm.h"
#include "device/gpu/kernels/optimizer.h"
#include "device/gpu/kernels/products.h"
#include "device/gpu/kernels/quantised.h"
#include "device/gpu/kernels/router.h"
#include "device/gpu/kernels/sums.h"
#include "device/gpu/kernels/updates.h"
#pragma GCC diagnostic pop

/* M(NAME) for each module, and K(NAME, THREADS) for each kernel of all modules, in the order of the modules; THREADS:
 * threads of a block. */
#define TRI_GPU_MODULES(M)                                                                                             \
  M(elements)                                                                                                          \
  M(sums)                                                                                                              \
  M(norm)                                                                                                              \
  M(embedding)                                                                                                         \
  M(loss)                                                                                                              \
  M(optimizer)                                                                                                         \
  M(matmul)                                                                                                            \
  M(attention)                                                                                                         \
  M(products)                                                                                                          \
  M(groups)                                                                                                            \
  M(grouped) M(router) M(updates) M(matrices) M(factored) M(low_rank) M(quantised) M(nf4) M(logit_query) M(magnitude)
#define TRI_GPU_KERNELS(K)                                                                                             \
  TRI_GPU_KERNELS_elements(K) TRI_GPU_KERNELS_sums(K) TRI_GPU_KERNELS_norm(K) TRI_GPU_KERNELS_embedding(K)             \
      TRI_GPU_KERNELS_loss(K) TRI_GPU_KERNELS_optimizer(K) TRI_GPU_KERNELS_matmul(K) TRI_GPU_KERNELS_attention(K)      \
          TRI_GPU_KERNELS_products(K) TRI_GPU_KERNELS_groups(K) TRI_GPU_KERNELS_grouped(K) TRI_GPU_KERNELS_router(K)   \
              TRI_GPU_KERNELS_updates(K) TRI_GPU_KERNELS_matrices(K) TRI_GPU_KERNELS_factored(K)                       \
                  TRI_GPU_KERNELS_low_rank(K) TRI_GPU_KERNELS_quantised(K) TRI_GPU_KERNELS_nf4(K)                      \
                      TRI_GPU_KERNELS_logit_query(K) TRI_GPU_KERNELS_magnitude(K)

#define TRI_GPU_MODULE_VALUE_(name) TRI_GPU_MODULE_##name,
#define TRI_GPU_KERNEL_VALUE_(name, threads) TRI_GPU_KERNEL_##name,
/* Indices of the two lists. */
typedef int tri_gpu_module_name;
typedef int tri_gpu_kernel;
enum { TRI_GPU_MODULES(TRI_GPU_MODULE_VALUE_) };
enum { TRI_GPU_KERNELS(TRI_GPU_KERNEL_VALUE_) };

#define TRI_GPU_ONE_(...) +1
enum { TRI_GPU_NUM_MODULES = TRI_GPU_MODULES(TRI_GPU_ONE_), TRI_GPU_NUM_KERNELS = TRI_GPU_KERNELS(TRI_GPU_ONE_) };
enum { TRI_GPU_NUM_TYPES = 3 }; /* fp64, fp32, bf16 */

#endif
