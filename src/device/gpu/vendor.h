/* What the GPUs of NVIDIA and of AMD differ in, for runtime.c, which works both: a table with two fillings, in cuda.c
 * and hip.c, and the vendor's library, which cuda_driver.c and hip_driver.c open once in a process. */
#ifndef TRI_DEVICE_GPU_VENDOR_H
#define TRI_DEVICE_GPU_VENDOR_H

#include "device/gpu/calls.h"
#include "device/gpu/library.h"
#include "device/gpu/runtime.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct tri_gpu_vendor tri_gpu_vendor;

/* ---- the library ------------------------------------------------------------------------------------------------- */

typedef struct tri_gpu_driver {
  const tri_gpu_vendor *vendor;
  tri_gpu_calls calls;
  const char *path;
  int version;    /* as the library has it */
  char text[32];  /* "580.65.06 (CUDA 13.0)", "HIP 5.2.21153" */
  int count;      /* GPUs that this process may use */
  char why[1024]; /* why there are that many */
} tri_gpu_driver;

/* Opens the library; `ask` reads its version and counts the GPUs. Where there is no library, TRI_OK, and driver->why
 * has what was looked for. `table` is what `driver` is the beginning of. */
tri_status tri_gpu_driver_load(const tri_gpu_library *what, void *table, tri_gpu_driver *driver,
                               tri_status (*ask)(void));

/* A call of the library's has failed: tells its name for the error, and what to do where that is known. `of` is what it
 * happened to: "GPU 0 (NVIDIA H200)". */
tri_status tri_gpu_driver_failed(const tri_gpu_driver *driver, const char *of, const char *call, tri_gpu_enum error);

/* ---- what differs ------------------------------------------------------------------------------------------------ */

/* The vendor's numbers for what a device is asked. */
typedef struct tri_gpu_attributes {
  tri_gpu_enum warp, processors, clock_khz, memory_clock_khz, memory_bus_bits, l2_bytes, shared_bytes, block_threads;
} tri_gpu_attributes;

struct tri_gpu_vendor {
  const char *name;           /* "NVIDIA" */
  const char *processes_tool; /* the command that shows which processes hold a GPU's memory */
  tri_device_peer peer;
  bool keeps_image; /* the library goes on reading what a module was loaded from */
  tri_gpu_attributes attributes;
  tri_gpu_call_names call_names;
  const char *use_name; /* the call that `use` makes */

  /* The library, opened; with a count of 0 if there is none, or no GPU. A library that is there and does not work is a
   * failure, the same at each call. */
  tri_status (*driver)(const tri_gpu_driver **out);
  const char *(*advice)(tri_gpu_enum error); /* what an error means and what to do */
  /* Whether a GPU does not recover from it: what it has computed since is lost. Empty: the library itself returns such
   * an error again from every later call. */
  bool (*is_lasting)(tri_gpu_enum error);

  tri_gpu_enum (*use)(const tri_gpu_context *context); /* makes the GPU the calling thread's */
  tri_status (*find)(tri_gpu_context *context);        /* first: sets `device` */
  tri_status (*begin)(tri_gpu_context *context);       /* then, with a label: takes the GPU and creates `zeroing` */
  void (*end)(tri_gpu_context *context);               /* undoes `begin`; may be empty */
  tri_status (*architecture)(tri_gpu_context *context, char *out, size_t out_bytes);
  tri_status (*module_load)(tri_gpu_context *context, const tri_gpu_image *image, tri_gpu_module_handle *out);
  /* A kernel that was found, before its first launch; may be empty. */
  tri_status (*function_load)(tri_gpu_context *context, tri_gpu_function_handle function);
  tri_status (*launch)(tri_gpu_context *context, tri_gpu_stream_handle stream, const tri_gpu_launch_call *call);
};

extern const tri_gpu_vendor tri_gpu_nvidia, tri_gpu_amd;

/* ---- objects ----------------------------------------------------------------------------------------------------- */

struct tri_gpu_context {
  const tri_gpu_vendor *vendor;
  const tri_gpu_driver *driver;
  const tri_gpu_calls *calls;
  int ordinal;
  int device;                          /* as the calls know it */
  struct tri_cuda_context_object *own; /* CUDA's; NULL with HIP, which has none */
  tri_gpu_stream_handle zeroing;       /* of memory as it is made */
  atomic_size_t held;                  /* bytes */
  char label[128];                     /* "GPU 0 (NVIDIA H200)" */
  atomic_uint lasting; /* the error that it does not recover from; 0 before, and where the library keeps it */
  _Atomic(const char *) lasting_at; /* the call that told it */
};

struct tri_gpu_function {
  tri_gpu_module *module;
  tri_gpu_function *next;
  tri_gpu_function_handle own;
  size_t shared_bytes; /* that it may be asked for at most so far */
};

struct tri_gpu_module {
  tri_gpu_context *context;
  tri_gpu_module_handle own;
  void *image;          /* a copy, for a library that goes on reading it; or NULL */
  pthread_mutex_t lock; /* of the functions' shared_bytes */
  tri_gpu_function *functions;
};

/* ---- for the fillings -------------------------------------------------------------------------------------------- */

/* Makes the GPU this thread's, or tells again the error that it does not recover from. */
tri_status tri_gpu_use(tri_gpu_context *context);

/* A call on a GPU has failed. */
tri_status tri_gpu_call_failed(tri_gpu_context *context, const char *call, tri_gpu_enum error);

/* Makes the GPU this thread's, and does the call. */
#define TRI_GPU_CALL(context, name, ...)                                                                               \
  do {                                                                                                                 \
    TRI_TRY(tri_gpu_use(context));                                                                                     \
    const tri_gpu_enum error_ = (context)->calls->name(__VA_ARGS__);                                                   \
    if (error_ != 0) return tri_gpu_call_failed(context, (context)->vendor->call_names.name, error_);                  \
  } while (0)

/* What a device is asked; 0 if the library does not say. */
int tri_gpu_attribute(const tri_gpu_context *context, tri_gpu_enum which);

/* The first call that takes memory of the GPU found none: where another process has filled it, there is not even room
 * to begin. */
tri_status tri_gpu_full_at_first(const tri_gpu_context *context);

/* Whether a block may have as much shared memory as a launch asks for. */
tri_status tri_gpu_shared_check(const tri_gpu_context *context, const tri_gpu_launch_call *call);

#endif
