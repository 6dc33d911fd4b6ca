/* Declarations that the files of the GPU devices share. */
#ifndef TRI_DEVICE_GPU_INTERNAL_H
#define TRI_DEVICE_GPU_INTERNAL_H

#include "device/gpu/kernel_list.h"
#include "device/gpu/runtime.h"
#include "device/kernels.h"
#include "device/timing.h"

#include <pthread.h>

typedef struct tri_gpu_modules tri_gpu_modules;
typedef struct tri_gpu_gemms tri_gpu_gemms; /* gemm.h */

/* A device's state. */
typedef struct tri_gpu {
  const tri_gpu_runtime *runtime;
  tri_gpu_context *context;
  tri_gpu_facts facts;
  tri_gpu_modules *modules;
  tri_gpu_gemms *products;
  tri_device_kernels kernels;
  bool blocking; /* whether the host waits for each kernel and each copy when it is queued */
} tri_gpu;

/* ---- modules.c --------------------------------------------------------------------------------------------------- */

tri_status tri_gpu_modules_create(tri_gpu *gpu, tri_gpu_modules **out);
void tri_gpu_modules_destroy(tri_gpu_modules *modules);
/* Sets *out to the kernel that is compiled for a type of activations. The first call for a module and a type loads the
 * module from the cache, or compiles it. Threads may call it at the same time. Fails with TRI_INTERNAL for a type that
 * activations do not have. */
tri_status tri_gpu_function_of(tri_gpu_modules *modules, tri_gpu_kernel kernel, tri_dtype type, tri_gpu_function **out);

/* Returns 64, 32 or 16, the value of TRI_GPU_TYPE with which a module is compiled for this type of activations; 0 for a
 * type that activations do not have. */
static inline int tri_gpu_type_bits(tri_dtype type) {
  switch (type) {
    case TRI_FP64: return 64;
    case TRI_FP32: return 32;
    case TRI_BF16: return 16;
    case TRI_INT32: break;
  }
  return 0;
}

const char *tri_gpu_kernel_name(tri_gpu_kernel kernel);
const char *tri_gpu_module_text(tri_gpu_module_name module); /* "elements", the base name of its files */

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

/* Returns the stream, for code that queues work in it directly. The next mark records a new event, which follows that
 * work. */
tri_gpu_stream *tri_gpu_stream_of(tri_queue *queue);
/* Sets whether the queue's work is being recorded into a graph (timing.c). A blocking device does not wait for recorded
 * work. */
void tri_gpu_queue_set_recording(tri_queue *queue, bool recording);

/* ---- timing.c ---------------------------------------------------------------------------------------------------- */

tri_status tri_gpu_queue_time(tri_queue *queue, tri_device_work *work, void *context, int rounds, double *seconds);

/* ---- launches (queues.c) ----------------------------------------------------------------------------------------- */

/* The shape of a launch: the grid in blocks, and the bytes of dynamic shared memory of a block. */
typedef struct tri_gpu_shape {
  int64_t x, y, z; /* number of blocks along each dimension; 0 in y or z counts as 1; if x is 0, nothing is launched */
  size_t shared_bytes;
} tri_gpu_shape;

/* Queues the kernel that is compiled for `type`. `arguments` is the kernel's struct NAME_arguments, which is copied.
 * Fails with TRI_UNSUPPORTED if the grid has more blocks than a launch may have (tri_gpu_grid). The message of any
 * failure names the kernel. */
tri_status tri_gpu_launch(tri_queue *queue, tri_gpu_kernel kernel, tri_dtype type, tri_gpu_shape shape,
                          const void *arguments, size_t argument_bytes);

/* Launches a kernel by its name, in functions that have a variable `queue` and return a tri_status: TRI_GPU_LAUNCH(add,
 * type, shape, .a = a). Returns from the function if the launch fails. */
#define TRI_GPU_LAUNCH(name, type, shape, ...)                                                                         \
  do {                                                                                                                 \
    const name##_arguments arguments_ = {__VA_ARGS__};                                                                 \
    TRI_TRY(tri_gpu_launch(queue, TRI_GPU_KERNEL_##name, type, shape, &arguments_, sizeof arguments_));                \
  } while (0)

/* Returns the blocks for `items` work items: enough for one item per thread, but at most 4096. A thread processes one
 * item at a time and advances by the number of threads of the grid. A kernel's result must not depend on the number of
 * blocks. */
tri_gpu_shape tri_gpu_shape_of(int64_t items, int threads);

/* Returns scratch memory of TRI_GPU_SCRATCH_BYTES, for kernels that work in several stages; NULL for a queue other than
 * the device's first one, which runs a step's kernels. The next kernel that uses it may overwrite all of it. */
enum { TRI_GPU_SCRATCH_BYTES = 32 << 20 };
void *tri_gpu_scratch(tri_queue *queue);

/* ---- the kernels of device/kernels.h, a file for each module ----------------------------------------------------- */

/* Each function fills in the table entries of its module. */
#define TRI_GPU_FILL_(name) void tri_gpu_fill_##name(tri_device_kernels *out);
TRI_GPU_MODULES(TRI_GPU_FILL_)
#undef TRI_GPU_FILL_

#endif
