/* What the files of the GPU devices share. */
#ifndef TRI_DEVICE_GPU_INTERNAL_H
#define TRI_DEVICE_GPU_INTERNAL_H

#include "device/gpu/kernel_list.h"
#include "device/gpu/runtime.h"
#include "device/kernels.h"
#include "device/timing.h"

#include <pthread.h>

typedef struct tri_gpu_modules tri_gpu_modules;
typedef struct tri_gpu_products tri_gpu_products; /* products.h */

/* A device's state. */
typedef struct tri_gpu {
  const tri_gpu_runtime *runtime;
  tri_gpu_context *context;
  tri_gpu_facts facts;
  tri_gpu_modules *modules;
  tri_gpu_products *products;
  tri_device_kernels kernels;
  bool blocking; /* each kernel and each copy is waited for as it is queued */
} tri_gpu;

/* ---- modules.c --------------------------------------------------------------------------------------------------- */

tri_status tri_gpu_modules_create(tri_gpu *gpu, tri_gpu_modules **out);
void tri_gpu_modules_destroy(tri_gpu_modules *modules);
/* A kernel for a type of activations; its module is found or compiled, and loaded, the first time. */
tri_status tri_gpu_function_of(tri_gpu_modules *modules, tri_gpu_kernel kernel, tri_dtype type, tri_gpu_function **out);

/* 64, 32 or 16: what a module for this type is compiled with. 0 for what is not an activation's. */
int tri_gpu_type_bits(tri_dtype type);
const char *tri_gpu_kernel_name(tri_gpu_kernel kernel);
const char *tri_gpu_module_text(tri_gpu_module_name module); /* "elements": its files are of this name */

/* ---- queues.c ---------------------------------------------------------------------------------------------------- */

tri_status tri_gpu_queue_create(tri_queue *queue);
void tri_gpu_queue_destroy(tri_queue *queue);
tri_status tri_gpu_queue_mark(tri_queue *queue, tri_device_event *out);
tri_status tri_gpu_queue_wait(tri_queue *queue, const tri_device_event *event);
tri_status tri_gpu_queue_event_wait(const tri_device_event *event);
bool tri_gpu_queue_event_passed(const tri_device_event *event);
tri_status tri_gpu_queue_copy(tri_queue *queue, const tri_copy *copy);
tri_status tri_gpu_queue_undefine(tri_queue *queue, void *memory, size_t bytes);
tri_status tri_gpu_queue_fill_zero(tri_queue *queue, size_t bytes, void *out);

/* For who queues work in it past this file: marks that were made before do not stand for that. */
tri_gpu_stream *tri_gpu_stream_of(tri_queue *queue);

/* ---- timing.c ---------------------------------------------------------------------------------------------------- */

tri_status tri_gpu_queue_time(tri_queue *queue, tri_device_work *work, void *context, int rounds, double *seconds);

/* ---- launches (queues.c) ----------------------------------------------------------------------------------------- */

/* How a kernel is launched: blocks, and the shared memory of a block that the kernel does not declare itself. */
typedef struct tri_gpu_shape {
  int64_t x, y, z; /* y and z 0 are 1. No block at all: nothing is launched */
  size_t shared_bytes;
} tri_gpu_shape;

/* Queues a kernel of `type`'s module; `arguments` is its struct. */
tri_status tri_gpu_launch(tri_queue *queue, tri_gpu_kernel kernel, tri_dtype type, tri_gpu_shape shape,
                          const void *arguments, size_t argument_bytes);

/* The same by name, for the functions of the table, which have a `queue`: TRI_GPU_LAUNCH(add, type, shape, .a = a). */
#define TRI_GPU_LAUNCH(name, type, shape, ...)                                                                         \
  do {                                                                                                                 \
    const name##_arguments arguments_ = {__VA_ARGS__};                                                                 \
    TRI_TRY(tri_gpu_launch(queue, TRI_GPU_KERNEL_##name, type, shape, &arguments_, sizeof arguments_));                \
  } while (0)

/* Blocks for `items` pieces of work of which each thread takes one at a time, going on in strides of the grid: never so
 * many that the rest would be better off waiting. What a kernel computes must not depend on it. */
tri_gpu_shape tri_gpu_shape_of(int64_t items, int threads);

/* Scratch memory of the queue that kernels of a step go in, for kernels that work in several stages: the next kernel to
 * take it may write all of it. At most TRI_GPU_SCRATCH_BYTES. */
enum { TRI_GPU_SCRATCH_BYTES = 32 << 20 };
void *tri_gpu_scratch(tri_queue *queue);

/* ---- the kernels of device/kernels.h, a file for each module -------------------------------------------------------
 */

/* Each puts its module's functions into the table. */
#define TRI_GPU_FILL_(name) void tri_gpu_fill_##name(tri_device_kernels *out);
TRI_GPU_MODULES(TRI_GPU_FILL_)
#undef TRI_GPU_FILL_

#endif
