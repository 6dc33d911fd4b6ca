/* Ranks that work together, and what passes between them.
 *
 * A run is one process (a "rank") or many that a launcher started; tri_comm_open finds out which and joins. The ranks
 * form a mesh (mesh.h), whose rows along each dimension are groups. Everything that passes between ranks passes through
 * a group. Nothing above this floor calls MPI.
 *
 * Promises of every collective:
 *  - All ranks of the group call it, in the same order, with equal sizes; a group of one returns at once. (Of an
 *    all_to_all a rank knows its own sizes alone; they are compared where they meet.)
 *  - Sums are made in the order of the ranks, ((x0 + x1) + x2) + ..., for every element, whatever the size of the
 *    message and whichever of the functions it is: all_reduce and reduce_scatter then all_gather give equal bits, on
 *    every rank and in every run. A group that spans nodes adds the ranks of each node so, and then the sums of the
 *    nodes in the order of their first ranks.
 *  - bf16 sums are made in fp32 and rounded once.
 *  - If a rank of the group is gone, or an MPI call fails, the status is TRI_COMM and names the group's dimension. */
#ifndef TRI_COMM_COMM_H
#define TRI_COMM_COMM_H

#include "base/status.h"
#include "device/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- the job ----------------------------------------------------------------------------------------------------- */

/* COLLECTIVE over the job. Joins the job that a launcher started (Open MPI's or MPICH's mpiexec, srun, flux run, PBS),
 * or stays alone without touching MPI where none did. Once in a process, before any thread is started. */
tri_status tri_comm_open(void);
/* Before or after it: whether this process was not started as a rank of a job, or is its only rank. */
bool tri_comm_is_started_alone(void);
/* COLLECTIVE. Ends a job whose ranks all came through. */
void tri_comm_close(void);
/* Ends the whole job from one rank that failed: every other rank is killed. Does nothing when alone. */
void tri_comm_abort(int exit_status);
/* LOCAL. The end of a rank that failed: says this thread's last failure (tri_log_failure), and ends the job with its
 * exit status. A rank whose failure follows from another's, or whose reason another tells (""), gives that one time to
 * end the job. Says its failure and comes back when alone. */
void tri_comm_fail(tri_status status);

int tri_comm_rank(void);      /* 0 when alone */
int tri_comm_size(void);      /* 1 when alone */
int tri_comm_num_nodes(void); /* LOCAL. That the job's ranks are on; 1 when alone */
/* Ranks on this rank's node, and its place among them. */
int tri_comm_local_rank(void);
int tri_comm_local_size(void);
/* A number for the node of any rank of the job: equal for ranks of one node. */
int tri_comm_node_of(int rank);
/* "Open MPI 4.1.4", "MPICH 4.0.2"; what the binary was built with. */
const char *tri_comm_library(void);

/* ---- groups ------------------------------------------------------------------------------------------------------ */

typedef struct tri_group_impl tri_group_impl;
typedef struct tri_device_collectives tri_device_collectives; /* device_collectives.h */

/* Some ranks of the job, in order. Copied freely; tri_group_destroy once. */
typedef struct tri_group {
  const char *name;     /* of its dimension: "tensor", "data", ...: for messages and timelines; outlives it */
  int rank, size;       /* this rank's place in it */
  tri_group_impl *impl; /* NULL where size is 1 */
  const tri_device_collectives *device; /* of a device's own, where the group has joined them, and */
  void *member;                         /* this rank's part of that; NULL: none */
} tri_group;

/* A group of this rank alone. */
tri_group tri_group_alone(const char *name);
/* All ranks of the job. */
tri_group tri_group_world(void);

/* COLLECTIVE over `parent`. Ranks with the same color form a group, ordered by key. Staging memory for collectives is
 * made here, so that none is made later; `staging_bytes` is how much of it this rank holds (shared with its node). */
tri_status tri_group_split(const tri_group *parent, const char *name, int color, int key, tri_group *out);
/* Does not wait. On all ranks of the group in the same order, where it is done with. */
void tri_group_destroy(tri_group *group);
size_t tri_group_staging_bytes(const tri_group *group);

/* ---- collectives -------------------------------------------------------------------------------------------------
 *
 * `type` is fp32, bf16 or fp64. `begins` has size + 1 entries: part r of a buffer, in elements, is
 * [begins[r], begins[r + 1]); parts may be empty. Buffers are host memory, of any alignment of the type. */

/* values[count] becomes the sum over the ranks. */
tri_status tri_all_reduce(const tri_group *group, tri_dtype type, int64_t count, void *values);
/* Part `rank` of values becomes the sum over the ranks of that part; the other parts are left undefined. */
tri_status tri_reduce_scatter(const tri_group *group, tri_dtype type, const int64_t *begins, void *values);
/* Every part r of values becomes that of rank r. */
tri_status tri_all_gather(const tri_group *group, tri_dtype type, const int64_t *begins, void *values);
/* values[count] becomes the largest of the ranks', element by element; NaN where any of them is NaN. */
tri_status tri_all_maximum(const tri_group *group, tri_dtype type, int64_t count, void *values);
/* Exact sums of whole numbers. */
tri_status tri_all_sum_int64(const tri_group *group, int64_t count, int64_t *values);
tri_status tri_broadcast(const tri_group *group, int root, size_t bytes, void *data);
/* all[size * bytes] gets every rank's `bytes` bytes, in order. */
tri_status tri_gather_bytes(const tri_group *group, size_t bytes, const void *mine, void *all);
tri_status tri_barrier(const tri_group *group);
/* Part s of `from` goes to rank s, and part r of `to` comes from rank r, this rank's own too. Any type; each has
 * begins[size + 1] of its own, and what rank r gives to rank s is as long as what s expects of r. `from` and `to` do
 * not overlap. A status of TRI_INTERNAL: this rank's own parts differ, and nothing was begun. */
tri_status tri_all_to_all(const tri_group *group, tri_dtype type, const int64_t *from_begins, const void *from,
                          const int64_t *to_begins, void *to);

/* ---- memory that the ranks of a node share ------------------------------------------------------------------------
 *
 * Where the buffers of all ranks of a node lie in such memory, a collective of some size reads them where they are, at
 * about twice the speed, and a background request needs no more of the other ranks than that they look in now and then
 * (in_place.c). The sums are the same, to the bit. */

/* COLLECTIVE over the job. Lets the ranks of this node see [memory, memory + bytes), and what else lies on its first
 * and last page. It must come from a private anonymous mapping, such as tri_device's memory, and keeps its contents; it
 * is ordinary memory afterwards, too, but without huge pages where the system shares none. Ranks may give different
 * sizes, also 0. *shared is false, on all ranks of the node, where the system does not let them. */
tri_status tri_comm_share(void *memory, size_t bytes, bool *shared);
/* COLLECTIVE over the job, in the order of tri_comm_share, before the memory is given back; nothing may be under way.
 */
void tri_comm_unshare(void *memory);

/* ---- in the background --------------------------------------------------------------------------------------------
 *
 * A request makes progress in each call of tri_comm_progress (callers of kernels make them between instructions,
 * and so does every wait) or by a progress thread where the library has a good one. The buffer belongs to the request
 * until tri_request_wait returns. Requests of one group are finished in the order in which they were started, on all
 * ranks.
 */

typedef struct tri_request tri_request; /* freed by tri_request_wait */

tri_status tri_reduce_scatter_start(const tri_group *group, tri_dtype type, const int64_t *begins, void *values,
                                    tri_request **out);
tri_status tri_all_reduce_start(const tri_group *group, tri_dtype type, int64_t count, void *values, tri_request **out);
tri_status tri_all_gather_start(const tri_group *group, tri_dtype type, const int64_t *begins, void *values,
                                tri_request **out);
tri_status tri_all_to_all_start(const tri_group *group, tri_dtype type, const int64_t *from_begins, const void *from,
                                const int64_t *to_begins, void *to, tri_request **out);

/* COLLECTIVE over the group: `send` goes to rank `to`, and `receive` comes from rank `from`, as round a ring. As an
 * all_to_all of these two parts: every rank takes part, and what rank r sends to s is what s expects of r. */
tri_status tri_ring_pass_start(const tri_group *group, int to, size_t send_bytes, const void *send, int from,
                               size_t receive_bytes, void *receive, tri_request **out);

/* Messages between two ranks of a group: matched by sender, receiver and tag, in order. */
tri_status tri_send_start(const tri_group *group, int to, int tag, size_t bytes, const void *data, tri_request **out);
tri_status tri_receive_start(const tri_group *group, int from, int tag, size_t bytes, void *data, tri_request **out);

/* NULL is a request that is done. *request becomes NULL. */
tri_status tri_request_wait(tri_request **request);
tri_status tri_request_test(tri_request *request, bool *done);
tri_status tri_comm_progress(void);

/* ---- for a watchdog ---------------------------------------------------------------------------------------------- */

/* What this rank waits for. */
typedef struct tri_comm_wait {
  const char *operation; /* "all_reduce", "receive", ...; NULL: it does not wait, and the rest means nothing */
  const char *group;
  uint64_t number; /* of the collective in its group, from 1; 0 for a message */
  size_t bytes;
  int behind;     /* the rank of the group that has not come, where that is known, or -1 */
  double since_s; /* on tri_clock_s */
} tri_comm_wait;

/* May be asked from any thread. */
tri_comm_wait tri_comm_state(void);

#endif
