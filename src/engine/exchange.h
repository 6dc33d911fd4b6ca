/* Collectives and messages on device memory.
 *
 * Where the host sees the device's memory they are those of comm.h, once the work queued before them is done. Where it
 * does not, values go through staging in host memory that the memory plan knows, piece by piece: while one piece is
 * added up, the next is on its way to the host and the one before on its way back, in a queue of their own. Where MPI
 * says that it reaches that memory itself, it does so, and the device adds (comm/device_aware.h). The sums are the
 * same, to the bit: a collective adds in the order of the ranks whatever its size.
 *
 * Results are there for what is queued behind the call, not for the host. */
#ifndef TRI_ENGINE_EXCHANGE_H
#define TRI_ENGINE_EXCHANGE_H

#include "comm/comm.h"
#include "comm/device_aware.h"

typedef struct tri_exchange tri_exchange;
typedef struct tri_exchange_request tri_exchange_request;

/* Bytes of staging if the host does not see the device's memory, beside a host copy of each stage buffer. */
enum { TRI_EXCHANGE_PIECE_BYTES = 1 << 22, TRI_EXCHANGE_STAGING_BYTES = 4 * TRI_EXCHANGE_PIECE_BYTES };

/* Bytes of device memory for sums if MPI reaches device memory; only all_maximum is staged then. */
enum { TRI_EXCHANGE_SUMS_BYTES = 2 * TRI_DEVICE_AWARE_SCRATCH_BYTES };

/* The transfer buffer: all buffers of all-to-alls and ring passes lie in it. Its copy in host memory has the same
 * offsets. */
typedef struct tri_exchange_region {
  void *device;
  void *host; /* NULL if the host sees the device's memory, or MPI reaches it */
  size_t bytes;
} tri_exchange_region;

typedef struct tri_exchange_memory {
  void *staging; /* TRI_EXCHANGE_STAGING_BYTES of tri_device_host_create's; NULL: the host sees the device's memory */
  void *sums;    /* TRI_EXCHANGE_SUMS_BYTES of device memory; NULL: MPI does not reach it */
  tri_exchange_region transfer; /* its host part is of tri_device_host_create, too; empty if no call needs it */
} tri_exchange_memory;

/* LOCAL. For the device's own queue. The memory stays the caller's. Release with tri_exchange_destroy. */
tri_status tri_exchange_create(tri_device *device, const tri_exchange_memory *memory, tri_exchange **out);
void tri_exchange_destroy(tri_exchange *exchange);

/* COLLECTIVE over the group, as the functions of these names in comm.h; values are device memory. */
tri_status tri_exchange_all_reduce(tri_exchange *x, const tri_group *group, tri_dtype type, int64_t count,
                                   void *values);
tri_status tri_exchange_all_maximum(tri_exchange *x, const tri_group *group, tri_dtype type, int64_t count,
                                    void *values);
tri_status tri_exchange_reduce_scatter(tri_exchange *x, const tri_group *group, tri_dtype type, const int64_t *begins,
                                       void *values);
tri_status tri_exchange_all_gather(tri_exchange *x, const tri_group *group, tri_dtype type, const int64_t *begins,
                                   void *values);

/* `from` and `to` do not overlap; on a staged device they lie in the transfer buffer. */
tri_status tri_exchange_all_to_all(tri_exchange *x, const tri_group *group, tri_dtype type, const int64_t *from_begins,
                                   const void *from, const int64_t *to_begins, void *to);

/* all[ranks * bytes], in host memory, gets every rank's `bytes` bytes of device memory, in order. Waits for them. */
tri_status tri_exchange_tell_all(tri_exchange *x, const tri_group *group, size_t bytes, const void *values, void *all);

/* In the background. `begins` stays until tri_exchange_wait has returned. */
tri_status tri_exchange_all_reduce_start(tri_exchange *x, const tri_group *group, tri_dtype type, int64_t count,
                                         void *values, tri_exchange_request **out);
tri_status tri_exchange_reduce_scatter_start(tri_exchange *x, const tri_group *group, tri_dtype type,
                                             const int64_t *begins, void *values, tri_exchange_request **out);
tri_status tri_exchange_all_gather_start(tri_exchange *x, const tri_group *group, tri_dtype type, const int64_t *begins,
                                         void *values, tri_exchange_request **out);

/* A message of device memory; `host` is as much of host memory, or NULL if the host sees the device's or MPI does.
 * Both belong to the request until it is waited for. */
tri_status tri_exchange_send_start(tri_exchange *x, const tri_group *group, int to, int tag, size_t bytes,
                                   const void *data, void *host, tri_exchange_request **out);
tri_status tri_exchange_receive_start(tri_exchange *x, const tri_group *group, int from, int tag, size_t bytes,
                                      void *data, void *host, tri_exchange_request **out);

/* COLLECTIVE over the group, in the background: this rank sends to one rank and receives from another, in a ring or in
 * any pattern in which every rank expects exactly what it is sent. On a staged device both buffers lie in the transfer
 * buffer. They belong to the transfer until it is waited for. The host waits for earlier queued work only if it sees
 * the memory. Several may be under way. */
typedef struct tri_exchange_pass {
  int to;
  size_t send_bytes;
  const void *send;
  int from;
  size_t receive_bytes;
  void *receive;
} tri_exchange_pass;
typedef struct tri_transfer tri_transfer;
tri_status tri_exchange_pass_start(tri_exchange *x, const tri_group *group, const tri_exchange_pass *pass,
                                   tri_transfer **out);
/* The same of an all-to-all. The begins stay until it is waited for, with tri_exchange_pass_wait. */
tri_status tri_exchange_all_to_all_start(tri_exchange *x, const tri_group *group, tri_dtype type,
                                         const int64_t *from_begins, const void *from, const int64_t *to_begins,
                                         void *to, tri_transfer **out);
/* NULL is a transfer that is done. *transfer becomes NULL. */
tri_status tri_exchange_pass_wait(tri_exchange *x, tri_transfer **transfer);

/* NULL is a request that is done. *request becomes NULL. */
tri_status tri_exchange_wait(tri_exchange_request **request);
/* Advances requests in the background, as far as possible without waiting. */
tri_status tri_exchange_progress(tri_exchange *x);

/* How often the host has waited for staging copies; waits for results are not counted. */
int64_t tri_exchange_waits(const tri_exchange *x);

#endif
