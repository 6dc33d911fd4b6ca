/* What the files of comm/ share: the job, the inside of a group, the inside of a request. Only comm/ includes it, and
 * with it MPI's header. */
#ifndef TRI_COMM_INTERNAL_H
#define TRI_COMM_INTERNAL_H

#include "base/flight_recorder.h"
#include "comm/comm.h"
#include "comm/sums.h"

#include <mpi.h>
#include <stdatomic.h>

enum { TRI_CACHE_LINE = 64 };

/* What an operation is, for messages; tri_operation_name has their names. */
typedef enum tri_operation {
  TRI_ALL_REDUCE = 1,
  TRI_REDUCE_SCATTER,
  TRI_ALL_GATHER,
  TRI_ALL_MAXIMUM,
  TRI_ALL_SUM_INT64,
  TRI_BROADCAST,
  TRI_GATHER_BYTES,
  TRI_BARRIER,
  TRI_ALL_TO_ALL,
  TRI_RING_PASS,
  TRI_SEND,
  TRI_RECEIVE
} tri_operation;

const char *tri_operation_name(tri_operation operation);

/* ---- memory that a node's ranks see (window.c, share.c) ---------------------------------------------------------- */

/* What a rank tells the others of the operation that it begins. */
typedef struct tri_note {
  uint64_t number, bytes;
  uint32_t operation;
  uint32_t segment; /* where its buffer is shared (share.c), and how far into that; 0: it is not */
  uint64_t offset;
} tri_note;

/* A rank's place on the blackboard of its group, written by itself alone. */
typedef struct tri_flag {
  _Alignas(2 * TRI_CACHE_LINE) _Atomic(uint64_t) step; /* the last step whose writes all may read */
  tri_note notes[2];                                   /* written in even and in odd steps, as the buffers */
} tri_flag;

typedef struct tri_staging {
  tri_flag *flag;
  char *buffers[2];
} tri_staging;

/* COLLECTIVE over the ranks of the group on this node. */
tri_status tri_window_create(tri_group_impl *group);
void tri_window_destroy(tri_group_impl *group);
/* Of this rank. */
size_t tri_group_window_bytes(const tri_group_impl *group);

/* The segment that holds all of these bytes, and where in it; 0 if none does. */
uint32_t tri_share_find(const void *memory, size_t bytes, uint64_t *offset);
/* Where the rank with the number `local` on this node has that; NULL if it is not seen from here. */
const char *tri_share_look(uint32_t segment, uint64_t offset, int local);
/* These bytes are about to be looked at, some MB at most; those that are this rank's own are passed over. Looking makes
 * others' memory resident here, too; it is let go when that becomes much, so that a rank's resident memory stays its
 * own. */
void tri_share_looking(const char *at, size_t bytes);
void tri_share_close(void);

/* Where a walk over the elements that one rank of the node owns has come to. */
typedef struct tri_owned_walk {
  int next;   /* index in owned_parts */
  int64_t at; /* element of that part, counted from the round's first */
} tri_owned_walk;

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
  int *nodes;                     /* [size] of each rank */
  int *local_ranks;               /* [num_local] in the group */
  int *machine_ranks;             /* [num_local] tri_comm_local_rank of each */
  int *owned_begin, *owned_parts; /* local l of this node owns owned_parts[owned_begin[l] .. owned_begin[l + 1]) */
  int *peers;                     /* [num_nodes] the rank that owns my part there */

  MPI_Win window;
  tri_staging *staging;  /* [num_local] */
  size_t buffer_bytes;   /* of each of the two */
  uint64_t step;         /* the last that this rank published */
  tri_owned_walk *walks; /* [2 * num_local + 1] of the request at work */
  const void **terms;    /* [max(num_local, num_nodes)] */
  const char **theirs;   /* [num_local] their buffers of the request at work, where all of them are shared */

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

/* How far a pass has come; which of them there are depends on the way it goes (pass.c). */
typedef enum tri_phase {
  TRI_PHASE_BEGIN,
  TRI_PHASE_CHOOSE,
  TRI_PHASE_STAGED,
  TRI_PHASE_ADD,
  TRI_PHASE_FETCH,
  TRI_PHASE_LEAVE
} tri_phase;

/* One trip of a round of a request through a node: each rank's owned elements are summed over the node (`reduce`), and
 * handed to all of the node (`gather`). */
typedef struct tri_node_pass {
  bool reduce, gather;
  tri_combine combine; /* with reduce */
  char *partials;      /* where sums go, an owned part every round_bytes; NULL: into values */
  int64_t round;       /* which elements of each part: round_elements from round * round_elements on */
  tri_phase phase;
  uint64_t noted_step;                          /* in which the others wrote what they are doing */
  int64_t slot_elements, iteration, num_pieces; /* through the staging */
} tri_node_pass;

typedef enum tri_stage {
  TRI_STAGE_PARTS,   /* an all-to-all: parts change hands (all_to_all.c)        */
  TRI_STAGE_AT_ONCE, /* inside a node, small: all values of all ranks at once   */
  TRI_STAGE_NODE,    /* inside a node: one pass                                 */
  TRI_STAGE_REDUCE,  /* across nodes, in this order and round by round          */
  TRI_STAGE_EXCHANGE,
  TRI_STAGE_ARRIVE,
  TRI_STAGE_GATHER
} tri_stage;

/* How far an all-to-all has come. */
typedef enum tri_parts_phase {
  TRI_PARTS_MEET,    /* until all of the node say where their parts are */
  TRI_PARTS_LEAVE,   /* until all have read those of the node           */
  TRI_PARTS_MESSAGES /* until all messages are through                  */
} tri_parts_phase;

/* One of the messages that an all-to-all is made of; MPI counts in int. */
typedef struct tri_part_message {
  MPI_Request request;
  int peer, bytes;
  bool receives;
} tri_part_message;

enum { TRI_MOST_MESSAGE_BYTES = 1 << 30 };

struct tri_request {
  tri_group_impl *group;
  tri_request *next; /* of the group's queue, or of the job's messages */
  tri_operation operation;
  size_t bytes;
  bool done;
  uint64_t ticket; /* of the flight recorder */

  /* a collective */
  uint64_t number; /* in its group, from 1 */
  const tri_sum *sum;
  bool reduce, gather, begun, background;
  char *values;
  int64_t count;         /* of the buffer */
  const int64_t *begins; /* NULL: tri_part_begin of count */
  tri_stage stage;
  int64_t round_elements, num_rounds, turn;
  tri_node_pass pass;

  /* an all-to-all, or a pass, which is one: `values` and `begins` are what this rank gives */
  char *to;
  const int64_t *to_begins; /* NULL: it is not one */
  tri_parts_phase parts_phase;
  tri_part_message *messages; /* in the order in which they were begun */
  int num_messages;

  /* a message */
  bool is_message, receives;
  int peer, tag;
  int num_pieces, num_finished; /* an all-to-all counts its messages so */
  MPI_Request pieces[];         /* num_pieces */
};

/* For the flight recorder. */
tri_record tri_request_record(const tri_request *request);

/* Goes on with a group's requests as far as they go without waiting; *moved is set if anything happened. */
tri_status tri_collective_advance(tri_group_impl *group, bool *moved);
tri_status tri_message_advance(tri_request *request);
/* Behind the others of its group. */
void tri_collective_enqueue(tri_request *request);
/* The first rank of the group that its request at work waits for, where that is known; or -1. */
int tri_collective_behind(const tri_group_impl *group);

/* ---- parts that change hands (all_to_all.c) ---------------------------------------------------------------------- */

tri_status tri_parts_begin(tri_request *request);
/* As far as it goes without waiting. */
tri_status tri_parts_advance(tri_request *request, bool *moved);
/* Whose message it waits for, or which rank has not taken one; -1: none. */
int tri_parts_behind(const tri_request *request);

/* ---- between nodes (exchange.c) ---------------------------------------------------------------------------------- */

/* Part `part`'s elements in a round; *begin is the first, in values. */
int64_t tri_request_round(const tri_request *request, int64_t part, int64_t round, int64_t *begin);
/* Whether a rank that is alone on its node sends its values, without a copy. */
static inline bool tri_exchange_sends_values(const tri_request *request) {
  return request->group->num_local == 1 && request->sum->partial_bytes == request->sum->bytes;
}
/* Partial sums of a round: this rank's of others' parts begin to leave, and others' of its part to come. */
tri_status tri_exchange_sums(tri_request *request, int64_t round);
/* The partial sums that have come, added. */
void tri_exchange_add(tri_request *request, int64_t round);
/* This rank's part begins to leave for the other nodes, and others' parts to come. */
tri_status tri_exchange_values(tri_request *request, int64_t round);
tri_status tri_exchange_arrived(tri_group_impl *group, tri_moving *moving, bool *arrived);

/* ---- inside a node (pass.c, staging.c, in_place.c) --------------------------------------------------------------- */

void tri_node_pass_begin(tri_request *request, const tri_node_pass *pass);
/* *through when the pass is, false where other ranks have to go on first. */
tri_status tri_node_pass_advance(tri_request *request, bool *through, bool *moved);
/* All elements of all ranks, which must fit into a buffer, in one step. */
tri_status tri_node_pass_at_once(tri_request *request, bool *through, bool *moved);
/* The first rank of the group, on this node, that this one waits for; -1 if none. */
int tri_node_pass_behind(const tri_group_impl *group);

/* Elements that lie side by side. */
typedef struct tri_owned_span {
  int owned;      /* index in owned_parts */
  int64_t begin;  /* in values */
  int64_t within; /* from the begin of the part's share of the round */
  int64_t length;
} tri_owned_span;

/* The next elements that the node's rank `local` owns, at most `room`; false at their end. */
bool tri_owned_next(const tri_request *request, tri_owned_walk *walk, int local, int64_t room, tri_owned_span *out);
/* Adds group->terms, which are the node's values of a span. */
void tri_node_pass_add(const tri_request *request, const tri_owned_span *span);
/* Leaves a note of what this rank is doing, and with in_place of where its values are, in the step that is published
 * next; and compares the others' of the step that was published last. */
void tri_node_pass_write_note(const tri_request *request, bool in_place);
tri_status tri_node_pass_check_notes(const tri_request *request);
/* Ends a step: lets the others read what was written in it. */
void tri_node_pass_publish(tri_group_impl *group);

/* The two ways of a pass: by copies in the staging; or reading the others' buffers where they are. Each does one step,
 * when all others have come, and returns whether it was the last. */
void tri_staged_begin(tri_request *request);
bool tri_staged_step(tri_request *request);
bool tri_in_place_step(tri_request *request);

/* ---- the job (job.c) --------------------------------------------------------------------------------------------- */

typedef struct tri_segment tri_segment;

typedef struct tri_job {
  bool joined;
  int rank, size, local_rank, local_size;
  bool crowded;     /* this node has more ranks than cores for them */
  int *node_of;     /* [size] a number for the node of each rank of the job */
  MPI_Comm machine; /* the ranks that tri_comm_local_rank counts */
  tri_group world;
  tri_segment *shared;               /* share.c */
  uint32_t num_shared, last_segment; /* those that all ranks of the machine see; the number of the newest */
  size_t looked_bytes;               /* of others' memory, that may be resident here */
  tri_group_impl *retired;           /* groups that were destroyed */
  tri_group_impl *busy;              /* groups with collectives under way */
  tri_request *messages;             /* under way */
  bool failed, echoes;               /* for good; as another's end makes it */
  char failure[1024];                /* of MPI, the first; everything that is asked for later fails with it */
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
/* COLLECTIVE over the job: MPI's part of the groups that were destroyed. */
void tri_group_free_retired(void);

/* ---- waiting (progress.c) ---------------------------------------------------------------------------------------- */

/* Goes on with everything until the request is done. */
tri_status tri_comm_finish(tri_request *request);

#endif
