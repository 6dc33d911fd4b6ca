/* Routers: kernels/router.c. */
#ifndef TRI_DEVICE_GPU_KERNELS_ROUTER_H
#define TRI_DEVICE_GPU_KERNELS_ROUTER_H

#include "device/gpu/kernels/threads.h"
#include "device/step_values.h"

#include <stdint.h>

#define TRI_GPU_KERNELS_router(K)                                                                                      \
  K(router_forward, 128)                                                                                               \
  K(router_backward, 128)                                                                                              \
  K(router_loads, 256)                                                                                                 \
  K(router_load_totals, 256)                                                                                           \
  K(router_balance, 256)                                                                                               \
  K(router_z_loss, 256)                                                                                                \
  K(router_not_finite, 256)                                                                                            \
  K(router_count, 256)
enum { TRI_GPU_KERNELS_router(TRI_GPU_THREADS) };

enum {
  ROUTER_EXPERTS = 1024, /* maximum number of experts: TRI_ROUTER_EXPERTS */
  ROUTER_CHOSEN = 64,    /* maximum number of chosen experts: TRI_ROUTER_CHOSEN */
  ROUTER_LOAD_ROWS = 32, /* rows whose scores a block of router_loads sums at a time */
  ROUTER_Z_ROWS = 64     /* rows whose loss a block sums */
};

/* Members of tri_router (base/router.h). */
typedef struct router_kind {
  int32_t experts, chosen, groups, kept_groups, best_of_group;
  int32_t sigmoid, quota, normalised;
  double scale;
} router_kind;

/* Each warp has `warp_bytes` of shared memory, a multiple of 16. Floating-point arrays are wide. */
typedef struct router_forward_arguments {
  const int32_t *labels;     /* may be NULL */
  const void *logits, *bias; /* bias may be NULL */
  int32_t *experts;
  void *weights;
  int64_t capacity, warp_bytes;
  const int32_t *count;
  router_kind kind;
} router_forward_arguments;

typedef struct router_backward_arguments {
  const void *logits;
  const int32_t *experts;
  const void *gradient_weights, *balance; /* balance may be NULL */
  const tri_step_values *values;
  void *gradient_logits;
  int64_t capacity, warp_bytes, first_row, sequence_rows;
  const int32_t *count;
  double z;
  router_kind kind;
} router_backward_arguments;

/* slabs[sequences, num_slabs, 2, experts]: for each slab of a sequence's rows, how often each expert is chosen, and the
 * sum of each expert's normalised scores. */
typedef struct router_loads_arguments {
  const void *logits;
  const int32_t *experts;
  void *slabs;
  int64_t capacity, first_row, sequence_rows, slab_rows, num_slabs;
  const int32_t *count;
  router_kind kind;
} router_loads_arguments;

/* loads[sequences, width] = the sums of slabs[sequences, num_slabs, width]. */
typedef struct router_load_totals_arguments {
  const void *slabs;
  void *loads;
  int64_t sequences, num_slabs, width;
} router_load_totals_arguments;

/* One block, and an element of `parts`, per sequence. loads[sequences, 2, experts]: counts and sums of scores; balance
 * [sequences, experts]. */
typedef struct router_balance_arguments {
  const tri_step_values *values;
  const void *loads;
  void *balance;
  double *parts;
  double coefficient;
  router_kind kind;
} router_balance_arguments;

/* parts[blocks]: loss of ROUTER_Z_ROWS rows each, z * token_scale times the sum of squares of log_sum_exp. */
typedef struct router_z_loss_arguments {
  const tri_step_values *values;
  const void *logits;
  const int32_t *experts;
  double *parts;
  int64_t capacity;
  const int32_t *count;
  double z;
  router_kind kind;
} router_z_loss_arguments;

/* Counts rows with a weight that is not finite, for each tile of kernels/groups.h: a row is counted in the tile that
 * has its first pair. */
typedef struct router_not_finite_arguments {
  const void *weights;
  int32_t *found;
  int64_t capacity, chosen;
  const int32_t *count;
} router_not_finite_arguments;

/* counts[block] += the sum of row `block` of tiles[blocks, tiles]. */
typedef struct router_count_arguments {
  const int32_t *tiles;
  int64_t *counts;
  int64_t capacity, chosen, stride; /* stride: distance between rows of tiles */
  const int32_t *count;
} router_count_arguments;

#endif
