/* A GPU as its vendor's driver shows it: a table of run-time calls with three fillings. CUDA and HIP are written once,
 * in runtime.c, with what they differ in beside it (vendor.h, cuda.c, hip.c); the third is for tests,
 * emulated/emulated.c. Everything above it is written once, too (gpu.c, queues.c, modules.c, products.c and the
 * kernels' files).
 *
 * A filling opens its library when it is asked to, with dlopen and prototypes of its own. It says what failed in one
 * message: the call, the driver's word for the error, and what to do where that is known. It holds nothing but the
 * library's handles: the creator of an object releases it, in reverse order.
 *
 * Calls may come from several threads at once. */
#ifndef TRI_DEVICE_GPU_RUNTIME_H
#define TRI_DEVICE_GPU_RUNTIME_H

#include "device/device.h"
#include "device/queue.h"

/* Objects of the filling's own. */
typedef struct tri_gpu_context tri_gpu_context;   /* one GPU of this process */
typedef struct tri_gpu_stream tri_gpu_stream;     /* work in order */
typedef struct tri_gpu_event tri_gpu_event;       /* a place in a stream */
typedef struct tri_gpu_module tri_gpu_module;     /* compiled kernels */
typedef struct tri_gpu_function tri_gpu_function; /* one of them */
typedef struct tri_gpu_graph tri_gpu_graph;       /* recorded work, to be done again */

/* What a chip is, as the driver tells; 0 and "" are what it does not. */
typedef struct tri_gpu_facts {
  char name[TRI_DEVICE_NAME_BYTES]; /* "NVIDIA H200" */
  char architecture[32];            /* what kernels are compiled for: "sm_90a", "gfx90a"; "" if nothing is compiled */
  char driver[32];                  /* version: "580.65 (CUDA 13.0)" */
  char bus[24];                     /* PCI address: "0000:81:00.0" */
  int warp;                         /* threads that go in step: 32 or 64 */
  int processors;
  double clock_hz, memory_clock_hz;
  int memory_bus_bits;
  size_t memory_bytes, l2_bytes;
  size_t shared_bytes;  /* that one block may have at most, asked for */
  int block_threads;    /* at most */
  tri_device_peer peer; /* who may use peer_address */
} tri_gpu_facts;

/* "sm_90a, 132 processors at 1.98 GHz, 60 MiB of L2 cache, memory at 3.20 GHz over 6144 bits": what is known of it.
 * Returns text. */
const char *tri_gpu_describe_chip(const tri_gpu_facts *facts, char *text, size_t text_bytes);

typedef struct tri_gpu_grid {
  uint32_t x, y, z; /* blocks: x below 2^31, y and z below 2^16 */
} tri_gpu_grid;

/* A kernel as a filling is asked to run it. Its arguments are one struct, given by value: copied as it is queued. */
typedef struct tri_gpu_launch_call {
  const char *name; /* of the kernel */
  tri_gpu_function *function;
  tri_gpu_grid grid;
  uint32_t threads;    /* of a block, along x */
  size_t shared_bytes; /* of a block, beside what the kernel declares itself */
  const void *arguments;
  size_t argument_bytes;
} tri_gpu_launch_call;

/* Kernels of one file for one type, compiled. `image` is a compiler's output, or NULL if the kernels are part of
 * this program (the emulator). */
typedef struct tri_gpu_image {
  const char *module; /* "norm" */
  tri_dtype type;
  const void *image;
  size_t bytes;
} tri_gpu_image;

typedef struct tri_gpu_product_library tri_gpu_product_library; /* products.h */

typedef struct tri_gpu_runtime {
  const char *name;                        /* "CUDA", "HIP", "emulated" */
  const tri_gpu_product_library *products; /* the vendor's library of matrix products; NULL: there is none */
  bool any_count;                          /* `gpus=N` in a device's name asks for N of them, however many there are */

  /* How many there are that this process may use; 0 with TRI_OK if there is no driver, or no GPU. `*why` says in a
   * few words what was looked for and found, for who asked for a GPU by name; lives as long as the program. */
  tri_status (*count)(int *out, const char **why);
  /* `options` is what the device's name says to the filling itself, or ""; whether they make sense, without a GPU.
   * Empty: it has none. */
  tri_status (*check)(const char *options);
  tri_status (*open)(int ordinal, const char *options, tri_gpu_context **out);
  void (*close)(tri_gpu_context *context);
  tri_status (*facts)(tri_gpu_context *context, tri_gpu_facts *out);
  /* What this thread does next with another of the vendor's libraries is meant for this GPU. May be empty. */
  tri_status (*enter)(tri_gpu_context *context);
  /* Bytes that can still be taken on the GPU, other processes' taken off. */
  tri_status (*memory_free)(tri_gpu_context *context, size_t *out);

  tri_status (*memory_create)(tri_gpu_context *context, size_t bytes, void **out); /* zeroed; TRI_OUT_OF_MEMORY */
  void (*memory_destroy)(tri_gpu_context *context, void *memory);
  tri_status (*host_create)(tri_gpu_context *context, size_t bytes, void **out); /* page-locked */
  void (*host_destroy)(tri_gpu_context *context, void *memory);
  /* The address at which another library of this process that knows devices (MPI) reaches this device memory. */
  void *(*peer_address)(tri_gpu_context *context, void *memory);

  tri_status (*stream_create)(tri_gpu_context *context, tri_queue *queue, tri_gpu_stream **out);
  void (*stream_destroy)(tri_gpu_stream *stream); /* after what is in it */
  /* The stream as the vendor's libraries know it, for `work` ("matmul") that one of them is about to queue there.
   * Empty: no such libraries. */
  void *(*stream_handle)(tri_gpu_stream *stream, const char *work);
  tri_status (*copy)(tri_gpu_stream *stream, const tri_copy *copy);
  tri_status (*fill_zero)(tri_gpu_stream *stream, void *memory, size_t bytes);
  tri_status (*undefine)(tri_gpu_stream *stream, void *memory, size_t bytes); /* may be empty: device.h */

  /* `timed`: for event_seconds. A GPU has less to do for others. */
  tri_status (*event_create)(tri_gpu_context *context, bool timed, tri_gpu_event **out);
  void (*event_destroy)(tri_gpu_event *event);
  tri_status (*event_record)(tri_gpu_event *event, tri_gpu_stream *stream);
  tri_status (*stream_wait)(tri_gpu_stream *stream, const tri_gpu_event *event);
  tri_status (*event_wait)(const tri_gpu_event *event); /* the host; tells the faults of what was queued before it */
  bool (*event_passed)(const tri_gpu_event *event);
  /* Waits for both, in this order, and tells the seconds between them by the GPU's own clock. */
  tri_status (*event_seconds)(const tri_gpu_event *from, const tri_gpu_event *to, double *out);

  tri_status (*module_load)(tri_gpu_context *context, const tri_gpu_image *image, tri_gpu_module **out);
  void (*module_unload)(tri_gpu_module *module);
  tri_status (*module_function)(tri_gpu_module *module, const char *name, tri_gpu_function **out);
  tri_status (*launch)(tri_gpu_stream *stream, const tri_gpu_launch_call *call);

  /* What is queued between begin and end is recorded and not done; launching the graph queues all of it. */
  tri_status (*graph_begin)(tri_gpu_stream *stream);
  tri_status (*graph_end)(tri_gpu_stream *stream, tri_gpu_graph **out);
  tri_status (*graph_launch)(tri_gpu_graph *graph, tri_gpu_stream *stream);
  void (*graph_destroy)(tri_gpu_graph *graph);
} tri_gpu_runtime;

extern const tri_gpu_runtime tri_gpu_cuda, tri_gpu_hip;

#endif
