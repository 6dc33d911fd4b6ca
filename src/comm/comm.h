/* The ranks of a job, their groups, and communication between them.
 *
 * A run is one process (a "rank"), or several that a launcher started; tri_comm_open determines which, and joins the
 * job. The ranks form a mesh (mesh.h), whose domains are groups. All communication between ranks goes through a group.
 * No code above this folder calls MPI.
 *
 * What every collective guarantees:
 *  - All ranks of the group call it, in the same order, with equal sizes; a group of one returns at once. (In an
 *    all-to-all a rank knows only its own sizes; sender and receiver of each part compare them.)
 *  - Sums are computed in the order of the ranks, ((x0 + x1) + x2) + ..., for every element, whatever the size of the
 *    message and whichever function is called: all_reduce, and reduce_scatter followed by all_gather, give equal bits,
 *    on every rank and in every run. A group that spans nodes adds the ranks of each node in this order, and then the
 *    sums of the nodes in the order of their first ranks.
 *  - bf16 values are summed in fp32 and rounded once.
 *  - If a rank of the group is gone, or an MPI call fails, the status is TRI_COMM and the message names the group. */
#ifndef TRI_COMM_COMM_H
#define TRI_COMM_COMM_H

#include "base/status.h"
#include "device/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- the job ----------------------------------------------------------------------------------------------------- */

/* COLLECTIVE over the job. Joins the job that a launcher started (Open MPI's or MPICH's mpiexec, srun, flux run,
 * PBS); without a launcher, or if the launcher started one rank, this process stays alone and does not call MPI.
 * Call it once in a process, before any thread is started. Fails with TRI_COMM if the launcher belongs to another
 * MPI, or MPI failed, and with TRI_UNSUPPORTED if the MPI has no support for threads. */
tri_status tri_comm_open(void);
/* LOCAL, before or after tri_comm_open. Returns whether this process was started without a launcher, or is the only
 * rank; false in a rank that tri_launch started. */
bool tri_comm_is_started_alone(void);
/* LOCAL, before or after tri_comm_open. Reads the number of ranks and this process's rank from the launcher's
 * environment variables. Both are 0 without a launcher; *size is 0 if the launcher does not set it. */
void tri_comm_launched(int64_t *size, int64_t *rank);
/* COLLECTIVE over the job. Leaves a job in which no rank failed, and finalises MPI. Does nothing if this process has
 * not called MPI. */
void tri_comm_close(void);
/* LOCAL. Ends the whole job: every other rank is killed. Before that, waits at most 2 s until the launcher has read
 * standard error. Returns without doing anything if this rank is alone. */
void tri_comm_abort(int exit_status);
/* LOCAL. Called by a rank that failed: prints this thread's last error message (tri_log_failure), and ends the job with
 * the exit status for `status`. If another rank's failure is the cause, or the message is empty because another rank
 * prints it, first waits 3 s, so that the other rank can end the job with its own status. Does not wait if the parent
 * has the message. Returns if this rank is alone. */
void tri_comm_fail(tri_status status);

/* The functions from here to tri_comm_library are LOCAL. */
int tri_comm_rank(void);      /* this process's rank in the job; 0 when alone */
int tri_comm_size(void);      /* number of ranks of the job; 1 when alone */
int tri_comm_num_nodes(void); /* number of nodes of the job; 1 when alone */
/* Return this rank's number among the ranks of its machine, and the number of ranks of the machine. (A machine is one
 * node, unless TRIREME_RANKS_PER_NODE divides it for a test.) */
int tri_comm_local_rank(void);
int tri_comm_local_size(void);
/* Returns the number of the node on which a rank of the job runs: the lowest rank on that node, 0 when alone. */
int tri_comm_node_of(int rank);
/* Returns the name and version of the MPI that the binary was built with: "Open MPI 4.1.4", "MPICH 4.0.2". */
const char *tri_comm_library(void);

/* ---- groups ------------------------------------------------------------------------------------------------------ */

typedef struct tri_group_impl tri_group_impl;
typedef struct tri_device_collectives tri_device_collectives; /* device_collectives.h */

/* An ordered set of ranks of the job. May be copied; call tri_group_destroy on one copy. */
typedef struct tri_group {
  const char *name;     /* name of its domain ("tensor", "data", ...), for messages and timelines; outlives the group */
  int rank, size;       /* this rank's number in the group, and the number of ranks */
  tri_group_impl *impl; /* state of the group; NULL if size is 1 */
  const tri_device_collectives *device; /* collectives of the device library that the group has joined; NULL: none */
  void *member;                         /* this rank's handle of `device`; NULL if `device` is NULL */
} tri_group;

/* Returns a group of this rank alone. */
tri_group tri_group_alone(const char *name);
/* Returns the group of all ranks of the job. */
tri_group tri_group_world(void);

/* LOCAL. Returns the number of the node on which a rank of the group runs. Nodes are numbered from 0 in the order of
 * their first ranks in the group. */
int tri_group_node_of(const tri_group *group, int rank);

/* COLLECTIVE over `parent`. Creates the group of the ranks with this rank's color (0 or more), in the order of their
 * keys. `name` must outlive the group. Allocates the staging memory of the group's collectives; they allocate no more
 * later. Release with tri_group_destroy. */
tri_status tri_group_split(const tri_group *parent, const char *name, int color, int key, tri_group *out);
/* LOCAL. Releases the group's tables, and makes *group a group of this rank alone; does not wait for other ranks. The
 * group's MPI communicators and its shared staging memory are freed at the end of the job. The group of the job itself
 * stays until then. */
void tri_group_destroy(tri_group *group);
/* LOCAL. Returns the bytes of staging memory that this rank has allocated for the group, including its part of the
 * memory shared by the node. */
size_t tri_group_staging_bytes(const tri_group *group);

/* ---- collectives ------------------------------------------------------------------------------------------------- */

/* The following functions are COLLECTIVE over the group. `type` is fp32, bf16 or fp64 where values are added or
 * compared, and any type elsewhere. `begins` has size + 1 entries: part r of a buffer is the elements [begins[r],
 * begins[r + 1]); parts may be empty. Buffers are host memory, aligned for the type. */

/* Replaces values[count] by the sum over the ranks. */
tri_status tri_all_reduce(const tri_group *group, tri_dtype type, int64_t count, void *values);
/* Replaces part `rank` of values by the sum of that part over the ranks. The other parts are undefined afterwards. */
tri_status tri_reduce_scatter(const tri_group *group, tri_dtype type, const int64_t *begins, void *values);
/* Replaces every part r of values by rank r's part r. */
tri_status tri_all_gather(const tri_group *group, tri_dtype type, const int64_t *begins, void *values);
/* Replaces each element of values[count] by its maximum over the ranks, or NaN if it is NaN on any rank. */
tri_status tri_all_maximum(const tri_group *group, tri_dtype type, int64_t count, void *values);
/* Replaces values[count] by the sum over the ranks. */
tri_status tri_all_sum_int64(const tri_group *group, int64_t count, int64_t *values);
/* Copies data[bytes] of rank `root` to all ranks. */
tri_status tri_broadcast(const tri_group *group, int root, size_t bytes, void *data);
/* Copies mine[bytes] of every rank, in the order of the ranks, to all[size * bytes] on every rank. */
tri_status tri_gather_bytes(const tri_group *group, size_t bytes, const void *mine, void *all);
tri_status tri_barrier(const tri_group *group);
/* Sends part s of `from` to rank s, and receives part r of `to` from rank r, including this rank's own part.
 * from_begins and to_begins have size + 1 entries each. The part that rank r sends to rank s must have the length
 * that s expects. `from` and `to` must not overlap. Fails with TRI_INTERNAL, before anything is sent, if the two
 * lengths of this rank's own part differ. */
tri_status tri_all_to_all(const tri_group *group, tri_dtype type, const int64_t *from_begins, const void *from,
                          const int64_t *to_begins, void *to);

/* ---- memory that the ranks of a node share ----------------------------------------------------------------------- */

/* If the buffers of all ranks of a node are in memory that tri_comm_share shares, a large enough collective reads
 * them in place, at about twice the speed, and a background request needs fewer calls of tri_comm_progress on the
 * other ranks (in_place.c). The sums have equal bits. */

/* COLLECTIVE over the group. Lets the group's ranks of this node read [memory, memory + bytes), and the rest of its
 * first and last page. The memory must come from a private anonymous mapping, such as tri_device's memory. Its contents
 * and its use do not change, but it loses huge pages if the system cannot share these. Ranks may pass different sizes,
 * also 0. *shared is false, on all of these ranks, if the system does not allow sharing or this node has no other rank
 * of the group. */
tri_status tri_comm_share(const tri_group *group, void *memory, size_t bytes, bool *shared);
/* COLLECTIVE over the group of tri_comm_share, but without waiting. Ends the sharing of memory that was passed to
 * tri_comm_share; ignores other memory. Call it before the memory is released, while no collective is in progress. */
void tri_comm_unshare(void *memory);

/* ---- in the background ------------------------------------------------------------------------------------------- */

/* A request makes progress in each call of tri_comm_progress (the engine calls it between instructions) and in every
 * wait. The caller must not touch the buffer until tri_request_wait returns; it may change or free `begins`.
 * Collectives of one group finish in the order in which they were started, on all ranks. The functions whose names end
 * in _start are COLLECTIVE over the group, except those for messages, which are LOCAL. A collective of a group of one
 * rank, or of 0 values, is done at once: *out is then NULL. */

typedef struct tri_request tri_request; /* freed by tri_request_wait */

tri_status tri_reduce_scatter_start(const tri_group *group, tri_dtype type, const int64_t *begins, void *values,
                                    tri_request **out);
tri_status tri_all_reduce_start(const tri_group *group, tri_dtype type, int64_t count, void *values, tri_request **out);
tri_status tri_all_gather_start(const tri_group *group, tri_dtype type, const int64_t *begins, void *values,
                                tri_request **out);
tri_status tri_all_to_all_start(const tri_group *group, tri_dtype type, const int64_t *from_begins, const void *from,
                                const int64_t *to_begins, void *to, tri_request **out);

/* COLLECTIVE over the group. Starts one step around a ring: sends `send` to rank `to`, and receives `receive` from rank
 * `from`. The number of bytes that rank r sends to rank s must be the number that s expects from r. */
tri_status tri_ring_pass_start(const tri_group *group, int to, size_t send_bytes, const void *send, int from,
                               size_t receive_bytes, void *receive, tri_request **out);

/* LOCAL. Start a message between two ranks of a group of several. Messages are matched by sender, receiver and tag,
 * in order. If the receiver expects another number of bytes, its wait fails with TRI_COMM. */
tri_status tri_send_start(const tri_group *group, int to, int tag, size_t bytes, const void *data, tri_request **out);
tri_status tri_receive_start(const tri_group *group, int from, int tag, size_t bytes, void *data, tri_request **out);

/* LOCAL. Waits until the request is done, frees it, and sets *request to NULL; returns at once if it is NULL. A request
 * that failed is not freed, because MPI may still write to it. */
tri_status tri_request_wait(tri_request **request);
/* LOCAL. Makes progress, and sets *done to whether the request is done (true for NULL). A request other than NULL still
 * needs tri_request_wait. */
tri_status tri_request_test(tri_request *request, bool *done);
/* LOCAL, in a job of several ranks. Waits until one of requests[count] is done, or for limit_s seconds, and frees no
 * request; meanwhile advances all requests. NULL entries are ignored. For a rank that has no work until a message
 * comes: tri_comm_state does not report the wait. `idle_since_s`: time since which the rank has had no work, on
 * tri_clock_s. The longer that is, the longer the rank sleeps between two tests of the requests, up to 20 ms. */
tri_status tri_request_wait_any(const tri_request *const *requests, int count, double idle_since_s, double limit_s);
/* LOCAL. Advances all requests of this rank as far as possible without waiting. */
tri_status tri_comm_progress(void);

/* ---- for a watchdog ---------------------------------------------------------------------------------------------- */

/* The operation that this rank is waiting for. */
typedef struct tri_comm_wait {
  const char *operation; /* "all_reduce", "receive", ...; NULL: not waiting, and the other members are not set */
  const char *group;
  uint64_t number; /* number of the collective in its group, from 1; 0 for a message */
  size_t bytes;
  int behind;     /* rank of the group for which this rank waits; -1: not known */
  double since_s; /* time at which the wait began (tri_clock_s) */
} tri_comm_wait;

/* LOCAL, from any thread. Returns the operation for which this rank is waiting. */
tri_comm_wait tri_comm_state(void);

#endif
