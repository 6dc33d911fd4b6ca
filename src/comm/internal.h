/* What the files of comm/ share: the job, the inside of a group, the inside of a request. Only comm/ includes it, and
 * with it MPI's header. */
#ifndef TRI_COMM_INTERNAL_H
#define TRI_COMM_INTERNAL_H

#include "comm/comm.h"
#include "comm/sums.h"

#include <mpi.h>
#include <stdatomic.h>

enum { TRI_CACHE_LINE = 64 };

/* ---- shared staging (staging.c) ---------------------------------------------------------------------------------- */

/* What the ranks of a node see of one of them. */
typedef struct tri_staging_flag {
  _Alignas(2 * TRI_CACHE_LINE) _Atomic(uint64_t) step; /* the last step whose writes all may read */
} tri_staging_flag;

typedef struct tri_staging {
  tri_staging_flag *flag;
  char *buffers[2]; /* written in even and in odd steps */
} tri_staging;

/* Where a walk over the elements that one rank of the node owns has come to. */
typedef struct tri_walk {
  int next;   /* index in owned_parts */
  int64_t at; /* element of that part, counted from the round's first */
} tri_walk;

/* Messages under way between nodes. */
typedef struct tri_moving {
  MPI_Request *requests;
  int count;
} tri_moving;

/* ---- groups (group.c) -------------------------------------------------------------------------------------------- */

struct tri_group_impl {
  const char *name;
  int rank, size;
  MPI_Comm messages;  /* of tri_send_start and tri_receive_start */
  MPI_Comm exchange;  /* of collectives between nodes; MPI_COMM_NULL where there is one node */
  MPI_Comm node_comm; /* of the ranks on this node; MPI_COMM_NULL where there is one rank */
  bool of_job;        /* the world: tri_comm_close destroys it */

  /* Nodes are numbered in the order of their first ranks in the group, and "local" numbers a node's ranks. Of every
   * node one rank sums part r for its node and hands it to rank r: rank r itself on its own node (collective.c). */
  int num_nodes, node, num_local, local;
  int *local_ranks;               /* [num_local] in the group */
  int *owned_begin, *owned_parts; /* local l of this node owns owned_parts[owned_begin[l] .. owned_begin[l + 1]) */
  int *peers;                     /* [num_nodes] the rank that owns my part there */

  MPI_Win window;
  tri_staging *staging; /* [num_local] */
  size_t buffer_bytes;  /* of each of the two */
  uint64_t step;        /* the last that this rank published */
  tri_walk *walks;      /* [2 * num_local + 1] of the request at work */
  const void **terms;   /* [max(num_local, num_nodes)] */

  size_t round_bytes; /* of a part, that cross between nodes at a time */
  char *send[2], *receive;
  tri_moving sums_moving, values_moving[2]; /* of even and of odd rounds */
  int64_t *begins;                          /* [size + 1] of a broadcast */

  tri_request *first, *last; /* collectives in the order started; the first is at work */
  tri_group_impl *next_busy; /* of the job's list of groups with requests */
  bool busy;
  uint64_t num_started; /* collectives so far */
};

/* ---- requests (collective.c, message.c) -------------------------------------------------------------------------- */

/* One trip of a round of a request through the shared staging: each rank's owned elements are summed over the node
 * (`reduce`), and handed to all of the node (`gather`). */
typedef struct tri_pass {
  bool reduce, gather;
  tri_combine combine; /* with reduce */
  char *partials;      /* where sums go, an owned part every round_bytes; NULL: into values */
  int64_t round;       /* which elements of each part: round_elements from round * round_elements on */
  int64_t slot_elements, iteration, num_pieces;
} tri_pass;

typedef enum tri_stage {
  TRI_STAGE_DIRECT, /* inside a node, small: all values of all ranks at once   */
  TRI_STAGE_NODE,   /* inside a node: one pass                                 */
  TRI_STAGE_REDUCE, /* across nodes, in this order and round by round          */
  TRI_STAGE_EXCHANGE,
  TRI_STAGE_ARRIVE,
  TRI_STAGE_GATHER
} tri_stage;

struct tri_request {
  tri_group_impl *group;
  tri_request *next; /* of the group's queue, or of the job's messages */
  const char *operation;
  size_t bytes;
  bool done;

  /* a collective */
  uint64_t number; /* in its group, from 1 */
  const tri_sum *sum;
  bool reduce, gather, begun, background;
  char *values;
  int64_t count;         /* of the buffer */
  const int64_t *begins; /* NULL: tri_part_begin of count */
  tri_stage stage;
  int64_t round_elements, num_rounds, turn;
  tri_pass pass;

  /* a message */
  bool is_message, receives;
  int peer, tag;
  int num_pieces, num_finished;
  MPI_Request pieces[]; /* num_pieces */
};

/* Goes on with a group's requests as far as they go without waiting; *moved is set if anything happened. */
tri_status tri_collective_advance(tri_group_impl *group, bool *moved);
tri_status tri_message_advance(tri_request *request);

/* ---- between nodes (exchange.c) ---------------------------------------------------------------------------------- */

/* Part `part`'s elements in a round; *begin is the first, in values. */
int64_t tri_request_round(const tri_request *request, int64_t part, int64_t round, int64_t *begin);
/* Partial sums of a round: this rank's of others' parts begin to leave, and others' of its part to come. */
tri_status tri_exchange_sums(tri_request *request, int64_t round);
/* The partial sums that have come, added. */
void tri_exchange_add(tri_request *request, int64_t round);
/* This rank's part begins to leave for the other nodes, and others' parts to come. */
tri_status tri_exchange_values(tri_request *request, int64_t round);
tri_status tri_exchange_arrived(tri_group_impl *group, tri_moving *moving, bool *arrived);

/* ---- through the staging (staging.c) ----------------------------------------------------------------------------- */

void tri_pass_begin(tri_request *request, const tri_pass *pass);
/* True when the pass is through, false where other ranks have to go on first. */
bool tri_pass_advance(tri_request *request, bool *moved);
/* All elements of all ranks, which must fit into a buffer, in one step. */
bool tri_pass_direct(tri_request *request, bool *moved);
/* The first rank of the group, on this node, that this one waits for; -1 if none. */
int tri_staging_behind(const tri_group_impl *group);

/* COLLECTIVE over the ranks of the group on this node. */
tri_status tri_staging_create(tri_group_impl *group);
void tri_staging_destroy(tri_group_impl *group);

/* ---- the job (job.c) --------------------------------------------------------------------------------------------- */

typedef struct tri_job {
  bool joined;
  int rank, size, local_rank, local_size;
  bool crowded; /* this node has more ranks than cores for them */
  int *node_of; /* [size] a number for the node of each rank of the job */
  tri_group world;
  tri_group_impl *busy;  /* groups with collectives under way */
  tri_request *messages; /* under way */
  bool failed;
  char failure[1024]; /* of MPI, the first; everything that is asked for later fails with it */
} tri_job;

/* MPI is one for the process, and so is this. */
tri_job *tri_comm_job(void);

/* Records a failure after which nothing can go on. */
tri_status tri_comm_lost(const char *format, ...) TRI_PRINTF(1, 2);
/* TRI_COMM with the first failure's message if there was one. */
tri_status tri_comm_check(void);
/* Records the failure of an MPI call; `call` is its text, `what` the group's name. */
tri_status tri_comm_mpi_failed(int code, const char *call, const char *what);
#define TRI_MPI(what, call)                                                                                            \
  do {                                                                                                                 \
    int tri_mpi_code_ = (call);                                                                                        \
    if (tri_mpi_code_ != MPI_SUCCESS) return tri_comm_mpi_failed(tri_mpi_code_, #call, what);                          \
  } while (0)

/* COLLECTIVE over `comm`, which belongs to the group from here on, also on failure. */
tri_status tri_group_create(MPI_Comm comm, const char *name, tri_group *out);

/* ---- waiting (progress.c) ---------------------------------------------------------------------------------------- */

/* Goes on with everything until the request is done. */
tri_status tri_comm_finish(tri_request *request);

#endif
