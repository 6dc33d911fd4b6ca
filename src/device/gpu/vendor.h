/* The differences between the GPUs of NVIDIA and of AMD, for runtime.c, which implements both: a table, which cuda.c
 * and hip.c fill, and the vendor's library, which cuda_driver.c and hip_driver.c open once in a process. */
#ifndef TRI_DEVICE_GPU_VENDOR_H
#define TRI_DEVICE_GPU_VENDOR_H

#include "device/gpu/calls.h"
#include "device/gpu/library.h"
#include "device/gpu/runtime.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- the library ------------------------------------------------------------------------------------------------- */

typedef struct tri_gpu_driver {
  const char *processes_tool;                /* the command that shows which processes hold a GPU's memory */
  const char *(*advice)(tri_gpu_enum error); /* returns a text with the meaning of an error and what the user can do */
  tri_gpu_calls calls;
  const char *path;
  int version;    /* version number as the library reports it */
  char text[32];  /* "580.65.06 (CUDA 13.0)", "HIP 5.2.21153" */
  int count;      /* GPUs that this process may use */
  char why[1024]; /* text for users that explains the count: which library and which GPUs were found */
} tri_gpu_driver;

/* Opens the library, and calls `ask`, which reads its version and counts the GPUs. If no usable library is found,
 * returns TRI_OK without calling `ask`, and driver->why has the error message of tri_gpu_library_open. `table` is the
 * struct that begins with `driver`. */
tri_status tri_gpu_driver_load(const tri_gpu_library *what, void *table, tri_gpu_driver *driver,
                               tri_status (*ask)(void));

/* Fails because a call of the library has failed: TRI_OUT_OF_MEMORY, or TRI_DEVICE_FAILED for all other errors. The
 * message has the library's name for the error, and advice. `of` names the object: "GPU 0 (NVIDIA H200)". */
tri_status tri_gpu_driver_failed(const tri_gpu_driver *driver, const char *of, const char *call, tri_gpu_enum error);

/* ---- differences ------------------------------------------------------------------------------------------------- */

/* The vendor's numbers of device attributes. */
typedef struct tri_gpu_attributes {
  tri_gpu_enum warp, processors, clock_khz, memory_clock_khz, memory_bus_bits, l2_bytes, shared_bytes, block_threads;
} tri_gpu_attributes;

typedef struct tri_gpu_vendor {
  const char *name; /* "NVIDIA" */
  tri_device_peer peer;
  bool keeps_image; /* whether the library reads the image of a module even after the module has been loaded */
  tri_gpu_attributes attributes;
  tri_gpu_call_names call_names;
  const char *use_name; /* name of the call that `use` makes */

  /* Opens the library. (*out)->count is 0 if there is no usable library or no GPU. If the library can be opened but its
   * version or its calls are at fault, fails, each time with the same error. */
  tri_status (*driver)(const tri_gpu_driver **out);
  /* Returns whether an error is unrecoverable: results of later work are undefined. NULL: the library itself returns
   * such an error from every later call. */
  bool (*is_lasting)(tri_gpu_enum error);

  tri_gpu_enum (*use)(const tri_gpu_context *context); /* makes the GPU current for the calling thread */
  tri_status (*find)(tri_gpu_context *context);        /* called first; sets `device` */
  tri_status (*begin)(tri_gpu_context *context); /* called after `find`, when `label` is set; initialises the GPU and
                                                    creates `zeroing` */
  void (*end)(tri_gpu_context *context);         /* undoes `begin`; may be NULL */
  tri_status (*architecture)(tri_gpu_context *context, char *out, size_t out_bytes);
  tri_status (*module_load)(tri_gpu_context *context, const tri_gpu_image *image, tri_gpu_module_handle *out);
  /* Prepares a kernel before its first launch; may be NULL. */
  tri_status (*function_load)(tri_gpu_context *context, tri_gpu_function_handle function);
  tri_status (*launch)(tri_gpu_context *context, tri_gpu_stream_handle stream, const tri_gpu_launch_call *call);
} tri_gpu_vendor;

extern const tri_gpu_vendor tri_gpu_nvidia, tri_gpu_amd;

/* ---- objects ----------------------------------------------------------------------------------------------------- */

struct tri_gpu_context {
  const tri_gpu_vendor *vendor;
  const tri_gpu_driver *driver;
  const tri_gpu_calls *calls;
  int ordinal;
  int device;                          /* device number for the calls */
  struct tri_cuda_context_object *own; /* CUDA's context; NULL with HIP */
  tri_gpu_stream_handle zeroing;       /* stream that zeroes new memory */
  atomic_size_t held;                  /* bytes of GPU memory that this process has allocated */
  char label[128];                     /* "GPU 0 (NVIDIA H200)" */
  atomic_uint lasting;                 /* first unrecoverable error; 0: none, or the library stores it itself */
  _Atomic(const char *) lasting_at;    /* name of the call that returned `lasting` */
};

struct tri_gpu_function {
  tri_gpu_module *module;
  tri_gpu_function *next;
  tri_gpu_function_handle own;
  size_t shared_bytes; /* maximum dynamic shared memory of a block that has been enabled so far (CUDA only) */
};

struct tri_gpu_module {
  tri_gpu_context *context;
  tri_gpu_module_handle own;
  void *image;          /* copy of the image (keeps_image), or NULL */
  pthread_mutex_t lock; /* protects the functions' shared_bytes */
  tri_gpu_function *functions;
};

/* ---- for the implementations ------------------------------------------------------------------------------------- */

/* Makes the GPU current for this thread. Fails with the stored unrecoverable error if there is one. */
tri_status tri_gpu_use(tri_gpu_context *context);

/* Stores an error so that later calls report it again. Only the first error is stored, and none if the vendor's library
 * itself repeats its errors (is_lasting is NULL). */
void tri_gpu_error_keep(tri_gpu_context *context, const char *call, tri_gpu_enum error);

/* Fails as tri_gpu_driver_failed does, because a call on a GPU has failed; stores the error if it is unrecoverable. */
tri_status tri_gpu_call_failed(tri_gpu_context *context, const char *call, tri_gpu_enum error);

/* Makes the GPU current for this thread, and calls a function of the library. Returns from the calling function if
 * either fails. */
#define TRI_GPU_CALL(context, name, ...)                                                                               \
  do {                                                                                                                 \
    TRI_TRY(tri_gpu_use(context));                                                                                     \
    const tri_gpu_enum error_ = (context)->calls->name(__VA_ARGS__);                                                   \
    if (error_ != 0) return tri_gpu_call_failed(context, (context)->vendor->call_names.name, error_);                  \
  } while (0)

/* Returns a device attribute; 0 if the library does not report it. */
int tri_gpu_attribute(const tri_gpu_context *context, tri_gpu_enum which);

/* Fails with TRI_OUT_OF_MEMORY because the GPU has no memory for the context: other processes may use all of it. */
tri_status tri_gpu_full_at_first(const tri_gpu_context *context);

/* Fails with TRI_UNSUPPORTED if a launch requests more dynamic shared memory than a block can have. */
tri_status tri_gpu_shared_check(const tri_gpu_context *context, const tri_gpu_launch_call *call);

#endif
