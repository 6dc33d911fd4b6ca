/* The ranks of a job, their groups, and communication between them.
 *
 * A run is one process (a "rank") or many that a launcher started; tri_comm_open finds out which and joins the job. The
 * ranks form a mesh (mesh.h), whose domains are groups. All communication between ranks goes through a group. Nothing
 * above this floor calls MPI.
 *
 * What every collective guarantees:
 *  - All ranks of the group call it, in the same order, with equal sizes; a group of one returns at once. (In an
 *    all-to-all a rank knows only its own sizes; sender and receiver of each part compare them.)
 *  - Sums are made in the order of the ranks, ((x0 + x1) + x2) + ..., for every element, whatever the size of the
 *    message and whichever function is called: all_reduce, and reduce_scatter followed by all_gather, give equal bits,
 *    on every rank and in every run. A group that spans nodes adds the ranks of each node in this order, and then the
 *    sums of the nodes in the order of their first ranks.
 *  - bf16 sums are made in fp32 and rounded once.
 *  - If a rank of the group is gone, or an MPI call fails, the status is TRI_COMM and the message names the group. */
#ifndef TRI_COMM_COMM_H
#define TRI_COMM_COMM_H

#include "base/status.h"
#include "device/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- the job ----------------------------------------------------------------------------------------------------- */

/* COLLECTIVE over the job. Joins the job that a launcher started (Open MPI's or MPICH's mpiexec, srun, flux run, PBS);
 * without a launcher this process stays alone and does not call MPI. Call it once in a process, before any thread is
 * started. */
tri_status tri_comm_open(void);
/* LOCAL, before or after tri_comm_open: whether this process was started without a launcher, or is the only rank. */
bool tri_comm_is_started_alone(void);
/* LOCAL, before or after tri_comm_open: the ranks that a launcher started, and which of them this process is, as the
 * launcher's variables say. 0 and 0 without a launcher; *size is 0 if it does not say how many. */
void tri_comm_launched(int64_t *size, int64_t *rank);
/* COLLECTIVE over the job. Ends a job in which no rank failed. */
void tri_comm_close(void);
/* LOCAL. Ends the whole job: every other rank is killed. Returns without doing anything if this rank is alone. */
void tri_comm_abort(int exit_status);
/* LOCAL. Called by a rank that failed: prints this thread's last failure (tri_log_failure), and ends the job with the
 * exit status for `status`. If the failure follows from another rank's, or its message is empty since another rank
 * prints it, first gives that rank time to end the job. Returns if this rank is alone. */
void tri_comm_fail(tri_status status);

/* LOCAL, as all functions up to tri_comm_library. */
int tri_comm_rank(void);      /* 0 when alone */
int tri_comm_size(void);      /* 1 when alone */
int tri_comm_num_nodes(void); /* number of nodes of the job; 1 when alone */
/* This rank's number among the ranks of its node, and how many they are. */
int tri_comm_local_rank(void);
int tri_comm_local_size(void);
/* The number of the node of any rank of the job: equal for ranks of one node. */
int tri_comm_node_of(int rank);
/* The MPI that the binary was built with: "Open MPI 4.1.4", "MPICH 4.0.2". */
const char *tri_comm_library(void);

/* ---- groups ------------------------------------------------------------------------------------------------------ */

typedef struct tri_group_impl tri_group_impl;
typedef struct tri_device_collectives tri_device_collectives; /* device_collectives.h */

/* Some ranks of the job, in order. Copied freely; tri_group_destroy once. */
typedef struct tri_group {
  const char *name;     /* of its domain: "tensor", "data", ...; for messages and timelines; outlives the group */
  int rank, size;       /* this rank's number in the group, and the number of ranks */
  tri_group_impl *impl; /* NULL if size is 1 */
  const tri_device_collectives *device; /* collectives of a device that the group has joined; NULL: none */
  void *member;                         /* this rank's handle for `device`; NULL if that is NULL */
} tri_group;

/* A group of this rank alone. */
tri_group tri_group_alone(const char *name);
/* All ranks of the job. */
tri_group tri_group_world(void);

/* COLLECTIVE over `parent`. Ranks with the same color form a group, ordered by key. Allocates the staging memory of the
 * group's collectives; they allocate none later. */
tri_status tri_group_split(const tri_group *parent, const char *name, int color, int key, tri_group *out);
/* LOCAL: does not wait for other ranks. MPI's part of the group is released at the end of the job. */
void tri_group_destroy(tri_group *group);
/* LOCAL. Bytes of staging memory that this rank holds for the group, the part shared with its node included. */
size_t tri_group_staging_bytes(const tri_group *group);

/* ---- collectives -------------------------------------------------------------------------------------------------
 *
 * All are COLLECTIVE over the group. `type` is fp32, bf16 or fp64. `begins` has size + 1 entries: part r of a buffer,
 * in elements, is [begins[r], begins[r + 1]); parts may be empty. Buffers are host memory, of any alignment of the
 * type. */

/* values[count] becomes the sum over the ranks. */
tri_status tri_all_reduce(const tri_group *group, tri_dtype type, int64_t count, void *values);
/* Part `rank` of values becomes the sum over the ranks of that part; the other parts are left undefined. */
tri_status tri_reduce_scatter(const tri_group *group, tri_dtype type, const int64_t *begins, void *values);
/* Every part r of values becomes rank r's part r. */
tri_status tri_all_gather(const tri_group *group, tri_dtype type, const int64_t *begins, void *values);
/* Each element of values[count] becomes its maximum over the ranks, or NaN if it is NaN on any rank. */
tri_status tri_all_maximum(const tri_group *group, tri_dtype type, int64_t count, void *values);
/* values[count] becomes the exact sum over the ranks. */
tri_status tri_all_sum_int64(const tri_group *group, int64_t count, int64_t *values);
/* data[bytes] becomes that of rank `root`. */
tri_status tri_broadcast(const tri_group *group, int root, size_t bytes, void *data);
/* all[size * bytes] gets every rank's `bytes` bytes, in order. */
tri_status tri_gather_bytes(const tri_group *group, size_t bytes, const void *mine, void *all);
tri_status tri_barrier(const tri_group *group);
/* Part s of `from` goes to rank s, and part r of `to` comes from rank r, also this rank's own part. Any type. `from`
 * and `to` have begins[size + 1] of their own; the part that rank r sends to rank s must be as long as s expects.
 * `from` and `to` must not overlap. TRI_INTERNAL: the lengths of this rank's own part differ, and nothing was started.
 */
tri_status tri_all_to_all(const tri_group *group, tri_dtype type, const int64_t *from_begins, const void *from,
                          const int64_t *to_begins, void *to);

/* ---- memory that the ranks of a node share ------------------------------------------------------------------------
 *
 * If the buffers of all ranks of a node lie in such memory, a collective of some size reads them in place, at about
 * twice the speed, and a request in the background needs fewer calls of tri_comm_progress on the other ranks
 * (in_place.c). The sums are the same, to the bit. */

/* COLLECTIVE over the job. Lets the ranks of this node read [memory, memory + bytes), and what else lies on its first
 * and last page. It must come from a private anonymous mapping, such as tri_device's memory. It keeps its contents and
 * stays ordinary memory, but loses huge pages if the system cannot share these. Ranks may give different sizes, also 0.
 * *shared is false, on all ranks of the node, if the system does not allow it. */
tri_status tri_comm_share(void *memory, size_t bytes, bool *shared);
/* COLLECTIVE over the job, in the order of tri_comm_share, before the memory is released; no collective may be under
 * way. */
void tri_comm_unshare(void *memory);

/* ---- in the background --------------------------------------------------------------------------------------------
 *
 * A request makes progress in each call of tri_comm_progress (the engine calls it between instructions) and in every
 * wait. The buffer belongs to the request until tri_request_wait returns. Requests of one group are finished in the
 * order in which they were started, on all ranks. The _start functions are COLLECTIVE over the group, but those of
 * messages are LOCAL.
 */

typedef struct tri_request tri_request; /* freed by tri_request_wait */

tri_status tri_reduce_scatter_start(const tri_group *group, tri_dtype type, const int64_t *begins, void *values,
                                    tri_request **out);
tri_status tri_all_reduce_start(const tri_group *group, tri_dtype type, int64_t count, void *values, tri_request **out);
tri_status tri_all_gather_start(const tri_group *group, tri_dtype type, const int64_t *begins, void *values,
                                tri_request **out);
tri_status tri_all_to_all_start(const tri_group *group, tri_dtype type, const int64_t *from_begins, const void *from,
                                const int64_t *to_begins, void *to, tri_request **out);

/* COLLECTIVE over the group: one step around a ring. `send` goes to rank `to`, and `receive` comes from rank `from`.
 * Every rank takes part, and the bytes that rank r sends to rank s must be as many as s expects from r. */
tri_status tri_ring_pass_start(const tri_group *group, int to, size_t send_bytes, const void *send, int from,
                               size_t receive_bytes, void *receive, tri_request **out);

/* LOCAL. Messages between two ranks of a group: matched by sender, receiver and tag, in order. */
tri_status tri_send_start(const tri_group *group, int to, int tag, size_t bytes, const void *data, tri_request **out);
tri_status tri_receive_start(const tri_group *group, int from, int tag, size_t bytes, void *data, tri_request **out);

/* LOCAL. Waits until the request is done, frees it, and sets *request to NULL; returns at once if it is NULL. */
tri_status tri_request_wait(tri_request **request);
/* LOCAL. Makes progress, and sets *done to whether the request is done. It still has to be waited for, unless NULL. */
tri_status tri_request_test(tri_request *request, bool *done);
/* LOCAL. Advances all requests of this rank as far as possible without waiting. */
tri_status tri_comm_progress(void);

/* ---- for a watchdog ---------------------------------------------------------------------------------------------- */

/* What this rank waits for. */
typedef struct tri_comm_wait {
  const char *operation; /* "all_reduce", "receive", ...; NULL: it does not wait, and the other members are not set */
  const char *group;
  uint64_t number; /* of the collective in its group, from 1; 0 for a message */
  size_t bytes;
  int behind;     /* the rank of the group that it waits for; -1: not known */
  double since_s; /* when the wait began, on tri_clock_s */
} tri_comm_wait;

/* LOCAL, from any thread. */
tri_comm_wait tri_comm_state(void);

#endif
