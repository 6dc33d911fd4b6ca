/* Times of a device's kernels, by the work that queued them.
 *
 * While times are taken, the device's table of kernels is replaced by one whose entries measure the call of the
 * original entry. So nothing is slower when no times are taken. Devices whose kernels are complete when the call
 * returns can be measured (cpu, reference); a clock around the call of another device would measure only the queueing.
 */
#ifndef TRI_DEVICE_KERNEL_TIMES_H
#define TRI_DEVICE_KERNEL_TIMES_H

#include "device/device.h"

/* The calls of a kernel that have the same origin and, if it is a GEMM, the same shape. */
typedef struct tri_kernel_time {
  const char *kernel;           /* name in kernels.def */
  const char *operation, *pass; /* name and pass of the tri_origin; each may be NULL */
  bool of_call;       /* whether the origin is a call of a list; false: it is the instruction `operation` of a step */
  tri_matmul product; /* GEMM of a matmul or grouped_matmul, else all 0. With groups, m, in a gradient k, is the maximum
                         number of rows of all groups together */
  int64_t groups;     /* grouped_matmul: number of groups, else 0 */
  int64_t calls;
  double seconds;
  double flops; /* multiplications and additions of GEMMs and of attention's scores; 0: other kernels */
  double bytes; /* bytes read and written, each array once; 0: unknown, or a GEMM */
} tri_kernel_time;

typedef struct tri_kernel_times tri_kernel_times;

/* Prepares a measurement, which tri_kernel_times_begin begins. Fails with TRI_UNSUPPORTED if kernels may run after
 * the call that queues them. Release with tri_kernel_times_destroy before the device. */
tri_status tri_kernel_times_create(tri_device *device, tri_kernel_times **out);
void tri_kernel_times_destroy(tri_kernel_times *times);

/* Begin or continue a measurement; and pause it. Only calls on the device's own queue, device->queue, are measured.
 * No other thread may use the device's kernels meanwhile. */
void tri_kernel_times_begin(tri_kernel_times *times);
void tri_kernel_times_pause(tri_kernel_times *times);

/* Returns the times so far, [*count], in no particular order; they are valid until the next tri_kernel_times_begin. If
 * there are too many different shapes, calls of further shapes are added up in one entry for each kernel, without an
 * operation. */
const tri_kernel_time *tri_kernel_times_list(const tri_kernel_times *times, int64_t *count);

/* Return whether two GEMMs have the same shape, types and layout; and their order by these: below 0, 0 for the same,
 * or above 0. Leading dimensions, a bias and b_unpacked are not compared. */
bool tri_kernel_times_same_product(const tri_matmul *a, const tri_matmul *b);
int tri_kernel_times_compare_products(const tri_matmul *a, const tri_matmul *b);

#endif
