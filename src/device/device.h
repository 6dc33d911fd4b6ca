/* A device: memory, queues of work (queue.h) and kernels (kernels.h).
 *
 * Code above this layer does not depend on the kind of device. The host only passes on addresses of device memory; it
 * does not read or write this memory unless info.host_access allows it. */
#ifndef TRI_DEVICE_DEVICE_H
#define TRI_DEVICE_DEVICE_H

#include "base/status.h"
#include "device/description.h"
#include "device/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tri_device tri_device;
typedef struct tri_queue tri_queue;
typedef struct tri_device_event tri_device_event;
typedef struct tri_copy tri_copy;
typedef struct tri_device_kernels tri_device_kernels;

enum { TRI_DEVICE_NAME_BYTES = 64, TRI_DEVICE_PLACE_BYTES = 24, TRI_DEVICE_CHIP_BYTES = 128 };

/* The libraries of this process, above all MPI, that can access a device's memory by the address that the driver's
 * peer_address returns. */
typedef enum tri_device_peer {
  TRI_PEER_NONE, /* none, or not requested */
  TRI_PEER_HOST, /* all: it is host memory */
  TRI_PEER_CUDA, /* those that support CUDA */
  TRI_PEER_ROCM, /* those that support HIP */
} tri_device_peer;

typedef struct tri_device_info {
  char name[TRI_DEVICE_NAME_BYTES];   /* "cpu avx512", "reference" */
  int ordinal;                        /* number among the machine's devices of its kind */
  char place[TRI_DEVICE_PLACE_BYTES]; /* its bus address, if the machine has several; else "" */
  char chip[TRI_DEVICE_CHIP_BYTES];   /* from its driver: "sm_90a, 132 processors at 1.98 GHz"; or "" */
  size_t memory_bytes;                /* bytes that it can allocate, as far as known or as a run allows; 0: not known */
  size_t total_bytes, taken_bytes;    /* its own memory: all of it, and the part in use by other processes; else 0 */
  int sharers;                        /* processes of this job that share it, this one included; 1: not known */
  bool host_memory;                   /* its memory is that of the host */
  bool host_access;                   /* the host may read and write its memory while no queue does */
  tri_device_peer peer;               /* which libraries can access its memory */
  bool reached;                       /* the job's MPI is device-aware for it, on all ranks (engine/rank_device.h) */
  unsigned types;                     /* bit 1 << t for each type t of activations that it supports */
} tri_device_info;

/* The functions of a kind of device other than kernels. Comments give the meaning of a NULL function. */
typedef struct tri_device_driver {
  /* Allocates zeroed memory aligned to at least 64 bytes, with all pages touched (from the threads that will use
   * them). */
  tri_status (*memory_create)(tri_device *device, size_t bytes, void **out);
  void (*memory_destroy)(tri_device *device, void *memory, size_t bytes);
  /* Returns the bytes of its own memory that are free. NULL: it has no memory of its own. */
  tri_status (*memory_free)(tri_device *device, size_t *bytes);
  /* Returns the address of device memory for a peer. NULL: no peer can access it. */
  void *(*peer_address)(tri_device *device, void *memory);
  /* Allocates host memory for fast copies. NULL: ordinary memory. */
  tri_status (*host_create)(tri_device *device, size_t bytes, void **out);
  void (*host_destroy)(tri_device *device, void *memory, size_t bytes);

  tri_status (*copy)(tri_queue *queue, const tri_copy *copy);
  /* Queues that this device memory becomes undefined. NULL: it keeps its contents. */
  tri_status (*undefine)(tri_queue *queue, void *memory, size_t bytes);
  /* Queues. All NULL: work is complete when the call that queues it returns. */
  tri_status (*queue_create)(tri_queue *queue);
  void (*queue_destroy)(tri_queue *queue);
  tri_status (*mark)(tri_queue *queue, tri_device_event *out);
  tri_status (*wait)(tri_queue *queue, const tri_device_event *event);
  tri_status (*event_wait)(const tri_device_event *event);
  bool (*event_passed)(const tri_device_event *event);
  /* timing.h. NULL: by the host's clock. */
  tri_status (*time)(tri_queue *queue, tri_status (*work)(tri_queue *queue, void *context, int round), void *context,
                     int rounds, double *seconds);

  /* gemm_choices.h. NULL: nothing to choose. */
  void (*allow_tf32)(tri_device *device);
  void (*chooser)(tri_device *device, char *out);
  tri_status (*gemms_asked)(tri_device *device, char **out);
  tri_status (*gemms_choose)(tri_device *device, const char *products, bool timed, char **choices);
  tri_status (*gemms_read)(tri_device *device, const char *choices);

  void (*destroy)(tri_device *device); /* releases its state; may be NULL */
} tri_device_driver;

struct tri_device {
  tri_device_info info;
  const tri_device_driver *driver;
  const tri_device_kernels *kernels;
  tri_device_description description;
  tri_queue *queue;                       /* queue for the kernels of a step */
  uint64_t num_queues;                    /* number of queues created so far */
  size_t memory_bytes, memory_peak_bytes; /* bytes allocated through tri_device_memory_create now; the maximum so far */
  size_t host_bytes, host_peak_bytes;     /* the same through tri_device_host_create */
  void *state;                            /* private to the kind of device */
};

/* The device that a process requests. Ranks of a job use engine/rank_device.h. */
typedef struct tri_device_request {
  const char *name; /* as configured: "auto", "cpu", "gpu", "gpu:2,blocking", ...: docs/devices.md */
  int threads;      /* 0: all cores that this process may use */
  int place; /* number among the processes of the job on this machine, which are assigned to its GPUs round robin */
} tri_device_request;

/* Creates a device. "auto" is a GPU if one can be used, else the CPU; if a GPU is visible but cannot be used, it
 * reports why. The message for an unknown name lists the known ones. Release with tri_device_destroy. */
tri_status tri_device_create_for(const tri_device_request *request, tri_device **out);
/* The same for a process that is not part of a job. */
tri_status tri_device_create(const char *name, int threads, tri_device **out);
void tri_device_destroy(tri_device *device);

/* LOCAL. Checks the name of a device and its options, without looking at the machine. */
tri_status tri_device_check_name(const char *name);
/* LOCAL. Checks that a device of this name supports these activations, without creating it. */
tri_status tri_device_check_type(const char *name, tri_dtype activations);

/* LOCAL. Sets memory_bytes to an equal share of the free memory, since `sharers` processes use this device. All of them
 * must have created it, and must not allocate memory at the same time. Does nothing if it has no memory of its own. */
tri_status tri_device_share(tri_device *device, int sharers);

/* Prints "NVIDIA H200 (GPU 0 at 0000:81:00.0)", "cpu avx512 with 8 threads". Returns text. */
const char *tri_device_describe(const tri_device *device, char *text, size_t text_bytes);
/* Prints why memory_bytes is not all of its memory, for messages: " (of 139.0 GiB; ...)", or "". Returns text. */
const char *tri_device_describe_reserved(const tri_device_info *info, char *text, size_t text_bytes);

/* Lowers the limit of the memory that can be allocated to `bytes`. 0, or more than the current limit: no effect. */
void tri_device_limit_memory(tri_device *device, size_t bytes);

/* Allocate and release memory of the device, and host memory for copies; all layers above use these, since they count
 * the bytes. Releasing NULL does nothing. TRI_OUT_OF_MEMORY also beyond the limit. Device memory is zeroed, host memory
 * is not. Work that uses the memory must be complete before it is released. A device that is destroyed before its
 * memory reports that. */
tri_status tri_device_memory_create(tri_device *device, size_t bytes, void **out);
void tri_device_memory_destroy(tri_device *device, void *memory, size_t bytes);
tri_status tri_device_host_create(tri_device *device, size_t bytes, void **out);
void tri_device_host_destroy(tri_device *device, void *memory, size_t bytes);

/* LOCAL. Checks that the device supports training with these activations; the error message names the supported
 * ones. */
tri_status tri_device_supports(const tri_device *device, tri_dtype activations);

#endif
