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
  TRI_PEER_NONE, /* no library, or access was not requested */
  TRI_PEER_HOST, /* all libraries, because the memory is host memory */
  TRI_PEER_CUDA, /* libraries that support CUDA */
  TRI_PEER_ROCM, /* libraries that support HIP */
} tri_device_peer;

typedef struct tri_device_info {
  char name[TRI_DEVICE_NAME_BYTES];   /* such as "cpu avx512" or "reference" */
  int ordinal;                        /* index among the machine's devices of this kind */
  char place[TRI_DEVICE_PLACE_BYTES]; /* bus address of a GPU, such as "0000:81:00.0"; "" for every other kind of device
                                       */
  char chip[TRI_DEVICE_CHIP_BYTES]; /* the driver's description, such as "sm_90a, 132 processors at 1.98 GHz"; or "" */
  size_t memory_bytes;              /* limit of the bytes that this process may allocate; 0: not known */
  size_t total_bytes,               /* bytes of the device's own memory; 0: it has no memory of its own */
      taken_bytes;                  /* bytes of the device's own memory that other processes and the driver use */
  int sharers;      /* number of processes of this job that share the device, this one included; 1: also if not known */
  bool host_memory; /* whether device memory is host memory */
  bool host_access; /* whether the host may read and write device memory while no queue does */
  tri_device_peer peer; /* libraries that can access device memory */
  bool reached;         /* whether the job's MPI can access device memory on all ranks (engine/rank_device.h) */
  unsigned types;       /* bit 1 << t for each supported type t of activations */
} tri_device_info;

/* The functions of a kind of device other than kernels. Comments give the meaning of a NULL function. */
typedef struct tri_device_driver {
  /* Allocates zeroed memory aligned to at least 64 bytes, with all pages touched (from the threads that will use
   * them). */
  tri_status (*memory_create)(tri_device *device, size_t bytes, void **out);
  void (*memory_destroy)(tri_device *device, void *memory, size_t bytes);
  /* Sets *bytes to the free bytes of the device's own memory. NULL: the device has no memory of its own. */
  tri_status (*memory_free)(tri_device *device, size_t *bytes);
  /* Returns the address of device memory for a peer. NULL: no peer can access it. */
  void *(*peer_address)(tri_device *device, void *memory);
  /* Allocates host memory for fast copies. NULL: ordinary memory is used. */
  tri_status (*host_create)(tri_device *device, size_t bytes, void **out);
  void (*host_destroy)(tri_device *device, void *memory, size_t bytes);

  tri_status (*copy)(tri_queue *queue, const tri_copy *copy);
  /* Queues the end of the validity of this memory's contents (tri_queue_mark_uninitialised). NULL: memory keeps its
   * contents. */
  tri_status (*undefine)(tri_queue *queue, void *memory, size_t bytes);
  /* Functions of queues. All NULL: work is complete when the call that queues it returns. */
  tri_status (*queue_create)(tri_queue *queue);
  void (*queue_destroy)(tri_queue *queue);
  tri_status (*mark)(tri_queue *queue, tri_device_event *out);
  tri_status (*wait)(tri_queue *queue, const tri_device_event *event);
  tri_status (*event_wait)(const tri_device_event *event);
  bool (*event_passed)(const tri_device_event *event);
  /* Measures work (timing.h). NULL: the host's clock is used. */
  tri_status (*time)(tri_queue *queue, tri_status (*work)(tri_queue *queue, void *context, int round), void *context,
                     int rounds, double *seconds);

  /* Functions of gemm_choices.h. All NULL: the device has nothing to choose. */
  void (*allow_tf32)(tri_device *device);
  void (*chooser)(tri_device *device, char *out);
  tri_status (*gemms_asked)(tri_device *device, char **out);
  tri_status (*gemms_choose)(tri_device *device, const char *products, bool timed, char **choices);
  tri_status (*gemms_read)(tri_device *device, const char *choices);

  void (*destroy)(tri_device *device); /* releases device->state; may be NULL */
} tri_device_driver;

struct tri_device {
  tri_device_info info;
  const tri_device_driver *driver;
  const tri_device_kernels *kernels;
  tri_device_description description;
  tri_queue *queue;      /* queue for the kernels of a step */
  uint64_t num_queues;   /* number of queues created so far */
  size_t memory_bytes,   /* bytes that are allocated through tri_device_memory_create */
      memory_peak_bytes; /* maximum of memory_bytes so far */
  size_t host_bytes,     /* bytes that are allocated through tri_device_host_create */
      host_peak_bytes;   /* maximum of host_bytes so far */
  void *state;           /* private to the kind of device */
};

/* The device that a process requests. Ranks of a job use engine/rank_device.h. */
typedef struct tri_device_request {
  const char *name; /* as configured: "auto", "cpu", "gpu", "gpu:2,blocking", ...: docs/devices.md */
  int threads;      /* number of threads; 0: as many as the cores that this process may use */
  int place; /* index among the processes of the job on this machine, which are assigned to its GPUs round robin */
} tri_device_request;

/* Creates a device and its queue. "auto" is a GPU if one can be used, else the CPU; if a GPU is visible but cannot
 * be used, a warning says why. Fails with TRI_BAD_CONFIG if the name is unknown or its options are wrong; the
 * message lists the known names. Release with tri_device_destroy. */
tri_status tri_device_create_for(const tri_device_request *request, tri_device **out);
/* Creates a device for a process that is not part of a job. */
tri_status tri_device_create(const char *name, int threads, tri_device **out);
void tri_device_destroy(tri_device *device);

/* LOCAL. Checks the name of a device and its options, without looking at the machine. Fails with TRI_BAD_CONFIG if
 * they are wrong. */
tri_status tri_device_check_name(const char *name);
/* LOCAL. Checks that a device of this name supports these activations, without creating it. Fails with
 * TRI_BAD_CONFIG if not. An unknown name is accepted here: tri_device_check_name refuses it. */
tri_status tri_device_check_type(const char *name, tri_dtype activations);

/* LOCAL. Sets info.sharers to the number of processes that use this device. If the device has memory of its own,
 * also sets info.memory_bytes to the bytes that this process has allocated plus an equal share of the free memory,
 * and info.taken_bytes. All sharers must have created the device, and must not allocate memory at the same time. */
tri_status tri_device_share(tri_device *device, int sharers);

/* Writes a description to `text`, such as "NVIDIA H200 (GPU 0 at 0000:81:00.0)" or "cpu avx512 with 8 threads". Returns
 * text. */
const char *tri_device_describe(const tri_device *device, char *text, size_t text_bytes);
/* Writes the reason why memory_bytes is less than total_bytes to `text`, for messages: " (of 139.0 GiB; ...)", or "".
 * Returns text. */
const char *tri_device_describe_reserved(const tri_device_info *info, char *text, size_t text_bytes);

/* Lowers the limit of the memory that can be allocated to `bytes`. 0, or more than the current limit: no effect. */
void tri_device_limit_memory(tri_device *device, size_t bytes);

/* Allocate and release memory of the device, and host memory for copies; all layers above use these, since they
 * count the bytes. Releasing NULL does nothing. Creating fails with TRI_OUT_OF_MEMORY if memory is short or, on the
 * device, if the limit info.memory_bytes would be exceeded. Device memory is zeroed, host memory need not be. Work
 * that uses the memory must be complete before it is released. tri_device_destroy reports memory that was not
 * released. */
tri_status tri_device_memory_create(tri_device *device, size_t bytes, void **out);
void tri_device_memory_destroy(tri_device *device, void *memory, size_t bytes);
tri_status tri_device_host_create(tri_device *device, size_t bytes, void **out);
void tri_device_host_destroy(tri_device *device, void *memory, size_t bytes);

/* LOCAL. Checks that the device supports training with these activations. Otherwise fails with TRI_UNSUPPORTED, and
 * a message that names the supported types. */
tri_status tri_device_supports(const tri_device *device, tri_dtype activations);

#endif
