/* A device: memory of its own, queues of work (queue.h) and kernels (kernels.h).
 *
 * Nothing above this floor knows which device it runs on. Device memory is the device's own: the host passes on its
 * addresses and touches nothing behind them, unless info.host_access says that it may. */
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

/* Who can reach a device's memory beside the device: another library of this process, MPI first of all, by the address
 * that the driver's peer_address gives. */
typedef enum tri_device_peer {
  TRI_PEER_NONE, /* none, or not requested */
  TRI_PEER_HOST, /* any: it is host memory */
  TRI_PEER_CUDA, /* who knows CUDA's devices */
  TRI_PEER_ROCM, /* who knows HIP's */
} tri_device_peer;

typedef struct tri_device_info {
  char name[TRI_DEVICE_NAME_BYTES];   /* "cpu avx512", "reference" */
  int ordinal;                        /* which of the machine's devices of its kind */
  char place[TRI_DEVICE_PLACE_BYTES]; /* of one of several that the machine has: where it sits, else "" */
  char chip[TRI_DEVICE_CHIP_BYTES]; /* what its driver tells of the chip: "sm_90a, 132 processors at 1.98 GHz"; or "" */
  size_t memory_bytes;              /* that it can give, as far as is known or as a run allows; 0: not known */
  size_t total_bytes, taken_bytes;  /* where its memory is its own: all of it, and what others have taken; else 0 */
  int sharers;                      /* processes of this job that share it, this one too; 1 if it is not known */
  bool host_memory;                 /* its memory is the machine's, which others take from too */
  bool host_access;                 /* the host may read and write its memory while no queue does */
  tri_device_peer peer;             /* who reaches its memory beside it, if he says that he can */
  bool reached;                     /* the job's MPI does, on all ranks (engine/rank_device.h) */
  unsigned types;                   /* bit 1 << t for each type t of activations that it runs */
} tri_device_info;

/* What a kind of device does beside kernels. Empty functions: see there. */
typedef struct tri_device_driver {
  /* Zeroed memory aligned to at least 64 bytes, all pages touched (from the threads that will use them). */
  tri_status (*memory_create)(tri_device *device, size_t bytes, void **out);
  void (*memory_destroy)(tri_device *device, void *memory, size_t bytes);
  /* Bytes of its own memory that anybody can still take. Empty: it has none of its own. */
  tri_status (*memory_free)(tri_device *device, size_t *bytes);
  /* Where a peer finds device memory. Empty: nowhere. */
  void *(*peer_address)(tri_device *device, void *memory);
  /* Host memory that copies are fast from and to. Empty: any. */
  tri_status (*host_create)(tri_device *device, size_t bytes, void **out);
  void (*host_destroy)(tri_device *device, void *memory, size_t bytes);

  tri_status (*copy)(tri_queue *queue, const tri_copy *copy);
  /* What is in this device memory may be anything from here on. Empty: it stays. */
  tri_status (*undefine)(tri_queue *queue, void *memory, size_t bytes);
  /* Queues. All empty: a call has been done when it returns. */
  tri_status (*queue_create)(tri_queue *queue);
  void (*queue_destroy)(tri_queue *queue);
  tri_status (*mark)(tri_queue *queue, tri_device_event *out);
  tri_status (*wait)(tri_queue *queue, const tri_device_event *event);
  tri_status (*event_wait)(const tri_device_event *event);
  bool (*event_passed)(const tri_device_event *event);
  /* timing.h. Empty: by the host's clock. */
  tri_status (*time)(tri_queue *queue, tri_status (*work)(tri_queue *queue, void *context, int round), void *context,
                     int rounds, double *seconds);

  /* gemm_choices.h. Empty: there is nothing to choose. */
  void (*allow_tf32)(tri_device *device);
  void (*chooser)(tri_device *device, char *out);
  tri_status (*products_asked)(tri_device *device, char **out);
  tri_status (*products_choose)(tri_device *device, const char *products, bool timed, char **choices);
  tri_status (*products_take)(tri_device *device, const char *choices);

  void (*destroy)(tri_device *device); /* releases its state; may be empty */
} tri_device_driver;

struct tri_device {
  tri_device_info info;
  const tri_device_driver *driver;
  const tri_device_kernels *kernels;
  tri_device_description description;
  tri_queue *queue;                       /* in which the kernels of a step go */
  uint64_t num_queues;                    /* made so far */
  size_t memory_bytes, memory_peak_bytes; /* held through tri_device_memory_create now, and at most */
  size_t host_bytes, host_peak_bytes;     /* through tri_device_host_create */
  void *state;                            /* the kind's own */
};

/* What a process asks for. Ranks of a job do so through engine/rank_device.h. */
typedef struct tri_device_request {
  const char *name; /* as configured: "auto", "cpu", "gpu", "gpu:2,blocking", ...: docs/devices.md */
  int threads;      /* 0: all cores that this process may use */
  int place;        /* among the processes of the job on this machine: they take its GPUs in turn */
} tri_device_request;

/* Creates a device. "auto" takes a GPU if one can be used, and else the CPU, and says why not where one is visible. An
 * unknown name lists the known ones. Release with tri_device_destroy. */
tri_status tri_device_create_for(const tri_device_request *request, tri_device **out);
/* The same for a process that is alone. */
tri_status tri_device_create(const char *name, int threads, tri_device **out);
void tri_device_destroy(tri_device *device);

/* LOCAL. Whether it is a device's name, with options that there are. What only the machine can say is not asked. */
tri_status tri_device_check_name(const char *name);
/* LOCAL. Whether a device of this name runs these activations, without creating it. */
tri_status tri_device_check_type(const char *name, tri_dtype activations);

/* LOCAL. `sharers` processes, which have all created their devices, and none of which takes more memory meanwhile,
 * share this one: each may have an equal share of what others leave. Nothing if its memory is not its own. */
tri_status tri_device_share(tri_device *device, int sharers);

/* "NVIDIA H200 (GPU 0 at 0000:81:00.0)", "cpu avx512 with 8 threads". */
const char *tri_device_describe(const tri_device *device, char *text, size_t text_bytes);
/* Why it has not all of its memory to give, for messages: " (of 139.0 GiB; ...)", or "". */
const char *tri_device_taken(const tri_device_info *info, char *text, size_t text_bytes);

/* A run's limit: the device gives no more than this. 0: no limit. */
void tri_device_limit_memory(tri_device *device, size_t bytes);

/* Memory of the device and memory of the host, counted: the one way to either for all floors above. NULL is ignored. A
 * device that is given up while it counts memory as held says so. TRI_OUT_OF_MEMORY beyond the limit too. Memory is
 * zeroed, host memory may be anything. Work that uses either has been waited for before it is destroyed. */
tri_status tri_device_memory_create(tri_device *device, size_t bytes, void **out);
void tri_device_memory_destroy(tri_device *device, void *memory, size_t bytes);
tri_status tri_device_host_create(tri_device *device, size_t bytes, void **out);
void tri_device_host_destroy(tri_device *device, void *memory, size_t bytes);

/* LOCAL. Whether the device can train with these activations; the message names what it can. */
tri_status tri_device_supports(const tri_device *device, tri_dtype activations);

#endif
