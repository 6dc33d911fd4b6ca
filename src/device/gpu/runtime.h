/* Access to a GPU: a table of run-time calls with three implementations. Those for CUDA and HIP share the code in
 * runtime.c, and their differences are in vendor.h, cuda.c and hip.c. The third is for tests
 * (device/emulated/emulated.c). The code that calls the table is the same for all three (choice.c, inquiry.c, gpu.c,
 * queues.c, modules.c, image.c, timing.c, lt.c).
 *
 * An implementation opens its library when it is first needed, with dlopen and prototypes of its own. It reports a
 * failure in one message: the call, the driver's name of the error, and advice if there is any. It tracks no objects
 * except the kernels of a module: the caller releases each other object that it has created, in reverse order.
 *
 * Threads may call the functions at the same time, with two exceptions: the caller serialises calls that queue work in
 * one stream, and calls of module_function for one module. */
#ifndef TRI_DEVICE_GPU_RUNTIME_H
#define TRI_DEVICE_GPU_RUNTIME_H

#include "device/device.h"
#include "device/queue.h"

/* Objects that an implementation defines. */
typedef struct tri_gpu_context tri_gpu_context;   /* one GPU of this process */
typedef struct tri_gpu_stream tri_gpu_stream;     /* work in order */
typedef struct tri_gpu_event tri_gpu_event;       /* a place in a stream */
typedef struct tri_gpu_module tri_gpu_module;     /* compiled kernels */
typedef struct tri_gpu_function tri_gpu_function; /* one kernel of a module, released with the module */
typedef struct tri_gpu_graph tri_gpu_graph;       /* recorded work, which can be launched repeatedly */

/* Facts about a chip as its driver reports them; 0 and "": not reported. */
typedef struct tri_gpu_facts {
  char name[TRI_DEVICE_NAME_BYTES]; /* "NVIDIA H200" */
  char architecture[32]; /* target of the kernels' compiler: "sm_90a", "gfx90a"; "": kernels are not compiled */
  char driver[32];       /* version: "580.65.06 (CUDA 13.0)" */
  char bus[24];          /* PCI address: "0000:81:00.0" */
  int warp;              /* threads of a warp: 32 or 64 */
  int processors;
  double clock_hz, memory_clock_hz;
  int memory_bus_bits;
  size_t memory_bytes, l2_bytes;
  size_t shared_bytes;  /* maximum shared memory of a block, including the part that a kernel must request (opt-in) */
  int block_threads;    /* maximum threads of a block */
  tri_device_peer peer; /* libraries that may use peer_address */
} tri_gpu_facts;

/* Prints the architecture, processors, L2 cache and memory of a chip, without the facts that are not reported: "sm_90a,
 * 132 processors at 1.98 GHz, 60 MiB of L2 cache, memory at 3.20 GHz over 6144 bits". Returns text. */
const char *tri_gpu_describe_chip(const tri_gpu_facts *facts, char *text, size_t text_bytes);

typedef struct tri_gpu_grid {
  uint32_t x, y, z; /* blocks: x below 2^31, y and z below 2^16 */
} tri_gpu_grid;

/* A launch of a kernel. The arguments are one struct, which is copied when the launch is queued. */
typedef struct tri_gpu_launch_call {
  const char *name; /* name of the kernel, valid until the program ends: later error messages use it */
  tri_gpu_function *function;
  tri_gpu_grid grid;
  uint32_t threads;    /* threads of a block, along x */
  size_t shared_bytes; /* dynamic shared memory of a block, in addition to the memory that the kernel declares */
  const void *arguments;
  size_t argument_bytes;
} tri_gpu_launch_call;

/* The compiled kernels of one file for one type. `image` [bytes] is a compiler's output; NULL on the emulator, whose
 * kernels are part of this program. */
typedef struct tri_gpu_image {
  const char *module; /* "norm" */
  tri_dtype type;
  const void *image;
  size_t bytes;
} tri_gpu_image;

typedef struct tri_gpu_gemm_library tri_gpu_gemm_library; /* gemm.h */

typedef struct tri_gpu_runtime {
  const char *name;                     /* "CUDA", "HIP", "emulated" */
  const tri_gpu_gemm_library *products; /* the vendor's library of GEMMs; NULL: none */
  bool any_count;                       /* whether `gpus=N` in a device's name sets the number of GPUs (the emulator) */

  /* Counts the GPUs that this process may use; 0 with TRI_OK if there is no driver, or no GPU. Sets *why to a short
   * text that explains the count to a user who requested a GPU by name; it is valid until the program ends. */
  tri_status (*count)(int *out, const char **why);
  /* Checks `options`, the part of the device's name for this implementation, or "". Needs no GPU. NULL: the
   * implementation has no options. */
  tri_status (*check)(const char *options);
  tri_status (*open)(int ordinal, const char *options, tri_gpu_context **out);
  void (*close)(tri_gpu_context *context);
  tri_status (*facts)(tri_gpu_context *context, tri_gpu_facts *out);
  /* Makes this GPU current for the calling thread, before calls of the vendor's other libraries. May be NULL. */
  tri_status (*enter)(tri_gpu_context *context);
  /* Sets *out to the bytes of GPU memory that no process uses. */
  tri_status (*memory_free)(tri_gpu_context *context, size_t *out);

  /* Allocates zeroed memory. Fails with TRI_OUT_OF_MEMORY if it does not fit. */
  tri_status (*memory_create)(tri_gpu_context *context, size_t bytes, void **out);
  void (*memory_destroy)(tri_gpu_context *context, void *memory);
  /* Allocates page-locked host memory with undefined contents. Fails with TRI_OUT_OF_MEMORY if it does not fit. */
  tri_status (*host_create)(tri_gpu_context *context, size_t bytes, void **out);
  void (*host_destroy)(tri_gpu_context *context, void *memory);
  /* Returns the address at which another device-aware library of this process (MPI) accesses this device memory. */
  void *(*peer_address)(tri_gpu_context *context, void *memory);

  tri_status (*stream_create)(tri_gpu_context *context, tri_queue *queue, tri_gpu_stream **out);
  void (*stream_destroy)(tri_gpu_stream *stream); /* first waits for the stream's work */
  /* Returns the stream's handle for another library of the vendor, which will queue `work` in it ("matmul", for error
   * messages; valid until the program ends). The member is NULL if the vendor has no such library. */
  void *(*stream_handle)(tri_gpu_stream *stream, const char *work);
  tri_status (*copy)(tri_gpu_stream *stream, const tri_copy *copy);
  tri_status (*fill_zero)(tri_gpu_stream *stream, void *memory, size_t bytes);
  /* Works like tri_device_driver.undefine (device.h); may be NULL. */
  tri_status (*undefine)(tri_gpu_stream *stream, void *memory, size_t bytes);

  /* Creates an event; only a timed one can be used in event_seconds. Untimed events cost the GPU less. */
  tri_status (*event_create)(tri_gpu_context *context, bool timed, tri_gpu_event **out);
  void (*event_destroy)(tri_gpu_event *event);
  tri_status (*event_record)(tri_gpu_event *event, tri_gpu_stream *stream);
  tri_status (*stream_wait)(tri_gpu_stream *stream, const tri_gpu_event *event);
  /* Lets the host wait for an event. Fails if work that was queued before the event has failed; the message names the
   * newest kernel before the event. */
  tri_status (*event_wait)(const tri_gpu_event *event);
  /* Returns whether the work before the event has ended, or failed; does not wait. */
  bool (*event_passed)(const tri_gpu_event *event);
  /* Waits for `from`, then for `to`, and sets *out to the seconds between the two events by the GPU's own clock. */
  tri_status (*event_seconds)(const tri_gpu_event *from, const tri_gpu_event *to, double *out);

  tri_status (*module_load)(tri_gpu_context *context, const tri_gpu_image *image, tri_gpu_module **out);
  void (*module_unload)(tri_gpu_module *module);
  tri_status (*module_function)(tri_gpu_module *module, const char *name, tri_gpu_function **out);
  tri_status (*launch)(tri_gpu_stream *stream, const tri_gpu_launch_call *call);

  /* Record the work that is queued in the stream between begin and end, without running it. Launching the graph queues
   * all of this work. A graph_end must follow each graph_begin, because a recording stream runs nothing. */
  tri_status (*graph_begin)(tri_gpu_stream *stream);
  tri_status (*graph_end)(tri_gpu_stream *stream, tri_gpu_graph **out);
  tri_status (*graph_launch)(tri_gpu_graph *graph, tri_gpu_stream *stream);
  void (*graph_destroy)(tri_gpu_graph *graph);
} tri_gpu_runtime;

extern const tri_gpu_runtime tri_gpu_cuda, tri_gpu_hip;

#endif
