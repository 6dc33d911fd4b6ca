/* Collectives and messages on device memory.
 *
 * A call is done in one of four ways, the first that is possible:
 * - by a device library that the group has joined (comm/device_collectives.h);
 * - if MPI can access device memory: MPI communicates it directly, and the device adds (comm/device_aware.h);
 * - if the host can access device memory: the functions of comm.h work on it, after the queued work is done;
 * - otherwise the values are *staged*, piece by piece, in host memory that is part of the memory plan. While one piece
 *   is reduced, the next one is copied to the host and the previous one back, in a separate queue.
 *
 * All ways give the same sums to the bit, because a collective adds in rank order. Results are ready for work that is
 * queued after the call, not for the host. */
#ifndef TRI_ENGINE_EXCHANGE_H
#define TRI_ENGINE_EXCHANGE_H

#include "comm/comm.h"
#include "comm/device_aware.h"

typedef struct tri_exchange tri_exchange;
typedef struct tri_exchange_request tri_exchange_request;

/* Bytes of host memory for staging if the host cannot access device memory, in addition to a host copy of each stage
 * buffer. */
enum { TRI_EXCHANGE_PIECE_BYTES = 1 << 22, TRI_EXCHANGE_STAGING_BYTES = 4 * TRI_EXCHANGE_PIECE_BYTES };

/* Bytes of device memory for sums if MPI can access device memory. In this case only all_maximum is staged. */
enum { TRI_EXCHANGE_SUMS_BYTES = 2 * TRI_DEVICE_AWARE_SCRATCH_BYTES };

/* The transfer buffer, which contains all buffers of all-to-alls and ring passes. Its copy in host memory has the same
 * offsets. */
typedef struct tri_exchange_region {
  void *device;
  void *host; /* NULL if the host or MPI can access device memory */
  size_t bytes;
} tri_exchange_region;

typedef struct tri_exchange_memory {
  void *staging; /* TRI_EXCHANGE_STAGING_BYTES from tri_device_host_create; NULL: the host can access device memory */
  void *sums;    /* TRI_EXCHANGE_SUMS_BYTES of device memory; NULL: MPI cannot access it */
  /* Memory of all-to-alls and passes; its host memory is from tri_device_host_create; empty: no such calls. */
  tri_exchange_region transfer;
} tri_exchange_memory;

/* LOCAL. Creates an exchange for the device's own queue. The caller owns *memory's buffers, which must outlive the
 * exchange. Release with tri_exchange_destroy. */
tri_status tri_exchange_create(tri_device *device, const tri_exchange_memory *memory, tri_exchange **out);
void tri_exchange_destroy(tri_exchange *exchange);

/* COLLECTIVE over the group. Do the same as the functions of these names in comm.h, with `values` in device memory. */
tri_status tri_exchange_all_reduce(tri_exchange *x, const tri_group *group, tri_dtype type, int64_t count,
                                   void *values);
tri_status tri_exchange_all_maximum(tri_exchange *x, const tri_group *group, tri_dtype type, int64_t count,
                                    void *values);
tri_status tri_exchange_reduce_scatter(tri_exchange *x, const tri_group *group, tri_dtype type, const int64_t *begins,
                                       void *values);
tri_status tri_exchange_all_gather(tri_exchange *x, const tri_group *group, tri_dtype type, const int64_t *begins,
                                   void *values);

/* COLLECTIVE over the group. Does the same as tri_all_to_all of comm.h, on device memory. `from` and `to` must not
 * overlap. On a staged device both must be in the transfer buffer. */
tri_status tri_exchange_all_to_all(tri_exchange *x, const tri_group *group, tri_dtype type, const int64_t *from_begins,
                                   const void *from, const int64_t *to_begins, void *to);

/* COLLECTIVE over the group. Gathers `bytes` bytes of device memory of every rank into all[ranks * bytes] in host
 * memory, in rank order, and waits for them. */
tri_status tri_exchange_gather_to_host(tri_exchange *x, const tri_group *group, size_t bytes, const void *values,
                                       void *all);

/* COLLECTIVE over the group. Start collectives in the background. `begins` must stay valid until tri_exchange_wait
 * returns. */
tri_status tri_exchange_all_reduce_start(tri_exchange *x, const tri_group *group, tri_dtype type, int64_t count,
                                         void *values, tri_exchange_request **out);
tri_status tri_exchange_reduce_scatter_start(tri_exchange *x, const tri_group *group, tri_dtype type,
                                             const int64_t *begins, void *values, tri_exchange_request **out);
tri_status tri_exchange_all_gather_start(tri_exchange *x, const tri_group *group, tri_dtype type, const int64_t *begins,
                                         void *values, tri_exchange_request **out);

/* Start a message from or to device memory. `host`: host memory of the same size, or NULL if the host or MPI can access
 * device memory. Both buffers belong to the request until tri_exchange_wait returns. */
tri_status tri_exchange_send_start(tri_exchange *x, const tri_group *group, int to, int tag, size_t bytes,
                                   const void *data, void *host, tri_exchange_request **out);
tri_status tri_exchange_receive_start(tri_exchange *x, const tri_group *group, int from, int tag, size_t bytes,
                                      void *data, void *host, tri_exchange_request **out);

/* A pass: a rank sends to one rank of the group and receives from another one. The ranks of the group may form a ring,
 * or any pattern in which every rank expects exactly the bytes that are sent to it. */
typedef struct tri_exchange_pass {
  int to;
  size_t send_bytes;
  const void *send;
  int from;
  size_t receive_bytes;
  void *receive;
} tri_exchange_pass;
typedef struct tri_transfer tri_transfer;
/* COLLECTIVE over the group. Starts a pass in the background. On a staged device both buffers must be in the transfer
 * buffer. They belong to the transfer until tri_exchange_pass_wait returns. The host waits for earlier queued work only
 * if it can access device memory. Several passes may be in progress. */
tri_status tri_exchange_pass_start(tri_exchange *x, const tri_group *group, const tri_exchange_pass *pass,
                                   tri_transfer **out);
/* COLLECTIVE over the group. Starts an all-to-all in the background. `from_begins` and `to_begins` must stay valid
 * until tri_exchange_pass_wait returns. */
tri_status tri_exchange_all_to_all_start(tri_exchange *x, const tri_group *group, tri_dtype type,
                                         const int64_t *from_begins, const void *from, const int64_t *to_begins,
                                         void *to, tri_transfer **out);
/* Waits for a transfer, and sets *transfer to NULL. Does nothing if *transfer is NULL. */
tri_status tri_exchange_pass_wait(tri_exchange *x, tri_transfer **transfer);

/* Waits for a request, and sets *request to NULL. Does nothing if *request is NULL. */
tri_status tri_exchange_wait(tri_exchange_request **request);
/* Advances background requests as far as possible without waiting. */
tri_status tri_exchange_progress(tri_exchange *x);

/* Returns how often the host has waited for staging copies so far. Waits for results of a step are not counted. */
int64_t tri_exchange_waits(const tri_exchange *x);

#endif
