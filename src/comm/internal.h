/* Shared by the files of comm/: the job, and what is inside a group and a request. Only comm/ includes this header, and
 * with it MPI's. */
#ifndef TRI_COMM_INTERNAL_H
#define TRI_COMM_INTERNAL_H

#include "base/flight_recorder.h"
#include "comm/comm.h"
#include "comm/sums.h"

#include <mpi.h>
#include <stdatomic.h>

enum { TRI_CACHE_LINE = 64 };

/* Operations; tri_operation_name has their names for messages. */
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

/* ---- memory shared by the ranks of a node (window.c, share.c) ---------------------------------------------------- */

/* What a rank tells the others of its node about the operation that it begins. */
typedef struct tri_note {
  uint64_t number, bytes;
  uint32_t operation;
  uint32_t segment; /* the segment (share.c) that holds its buffer; 0: the buffer is not shared */
  uint64_t offset;  /* of the buffer in the segment */
} tri_note;

/* A rank's part of the shared window of its group (node_steps.c); only this rank writes it. */
typedef struct tri_flag {
  _Alignas(2 * TRI_CACHE_LINE) _Atomic(uint64_t) step; /* the last step that the rank has published */
  tri_note notes[2];                                   /* of even and of odd steps */
} tri_flag;

/* Pointers into the window: what one rank of the node writes. */
typedef struct tri_staging {
  tri_flag *flag;
  char *buffers[2]; /* [buffer_bytes] each: of even and of odd steps */
} tri_staging;

/* COLLECTIVE over the ranks of the group on this node. */
tri_status tri_window_create(tri_group_impl *group);
void tri_window_destroy(tri_group_impl *group);
/* LOCAL. Bytes of this rank's part of the window. */
size_t tri_window_bytes(const tri_group_impl *group);

/* LOCAL. The number of the shared segment that holds all of these bytes, and their offset in it; 0: in no segment. */
uint32_t tri_share_find(const void *memory, size_t bytes, uint64_t *offset);
/* LOCAL. The address, in this process, of that offset in the segment of the rank with local rank `local`; NULL if this
 * process has not mapped it. */
const char *tri_share_look(uint32_t segment, uint64_t offset, int local);
/* LOCAL. Called before [at, at + bytes), some MB at most, is read; does nothing for this rank's own memory. Pages of
 * other ranks that this rank reads count as resident memory here, too; when these are many, they are dropped from this
 * process. */
void tri_share_looking(const char *at, size_t bytes);
/* LOCAL. Unmaps all segments. */
void tri_share_close(void);

/* The position of a walk over the elements that one rank of the node owns. */
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
  MPI_Comm exchange;  /* of collectives between nodes; MPI_COMM_NULL if the group is on one node */
  MPI_Comm node_comm; /* of the group's ranks on this node */
  bool of_job;        /* the world, which tri_comm_close destroys */

  /* Nodes are numbered in the order of their first ranks in the group; a rank's local number is its number among the
   * group's ranks of its node. On every node one rank owns part r: it sums the part over the node and sends it to rank
   * r. On rank r's own node that is rank r (collective.c). */
  int num_nodes, node, num_local, local;
  int *nodes;                     /* [size]: the node of each rank */
  int *local_ranks;               /* [num_local]: the ranks of this node, numbered in the group */
  int *machine_ranks;             /* [num_local]: tri_comm_local_rank of each of them */
  int *owned_begin, *owned_parts; /* local rank l owns the parts owned_parts[owned_begin[l] .. owned_begin[l + 1]) */
  int *peers;                     /* [num_nodes]: the rank of each node that owns this rank's part */

  MPI_Win window;        /* memory that the group's ranks on this node share; MPI_WIN_NULL if it is only one rank */
  tri_staging *staging;  /* [num_local]: pointers into the window */
  size_t buffer_bytes;   /* of each staging buffer */
  uint64_t step;         /* the last step that this rank has published */
  tri_owned_walk *walks; /* [2 * num_local + 1]: of the active request */
  const void **terms;    /* [max(num_local, num_nodes)]: arrays that are added */
  const char **theirs;   /* [num_local]: the ranks' buffers of the active request, if all of them are shared */

  size_t round_bytes;                       /* of each part that is sent to other nodes in a round */
  char *send[2], *receive;                  /* partial sums: sent in even and odd rounds; received */
  tri_moving sums_moving, values_moving[2]; /* messages of partial sums; of values in even and odd rounds */
  int64_t *begins;                          /* [size + 1]: of a broadcast */

  tri_request *first, *last; /* collectives in the order in which they were started; the first is the active one */
  tri_group_impl *next_busy; /* the next group in tri_job.busy, or in tri_job.retired */
  bool busy;                 /* in tri_job.busy */
  uint64_t num_started;      /* collectives so far */
};

/* ---- requests (collective.c, message.c) -------------------------------------------------------------------------- */

/* The phases of a pass (pass.c): BEGIN; CHOOSE if buffers may be shared; then STAGED, or in place ADD, FETCH, LEAVE. */
typedef enum tri_phase {
  TRI_PHASE_BEGIN,
  TRI_PHASE_CHOOSE,
  TRI_PHASE_STAGED,
  TRI_PHASE_ADD,
  TRI_PHASE_FETCH,
  TRI_PHASE_LEAVE
} tri_phase;

/* One round of a request inside a node: the elements that each rank owns are summed over the node (`reduce`), and
 * copied to all ranks of the node (`gather`). */
typedef struct tri_node_pass {
  bool reduce, gather;
  tri_combine combine; /* adds the terms; with reduce */
  char *partials;      /* sums are written here, one owned part every round_bytes; NULL: into values */
  int64_t round;       /* covers the elements [round * round_elements, (round + 1) * round_elements) of each part */
  tri_phase phase;
  uint64_t noted_step;                          /* the step whose notes say what each rank is doing */
  int64_t slot_elements, iteration, num_pieces; /* of the way through the staging (staging.c) */
} tri_node_pass;

typedef enum tri_stage {
  TRI_STAGE_PARTS,   /* an all-to-all (all_to_all.c)                                    */
  TRI_STAGE_AT_ONCE, /* inside a node, small: every rank adds all values in one step    */
  TRI_STAGE_NODE,    /* inside a node: one pass                                         */
  TRI_STAGE_REDUCE,  /* across nodes: this and the following, in order, for every round */
  TRI_STAGE_EXCHANGE,
  TRI_STAGE_ARRIVE,
  TRI_STAGE_GATHER
} tri_stage;

/* What an all-to-all waits for. */
typedef enum tri_parts_phase {
  TRI_PARTS_MEET,    /* all ranks of the node say where their parts are */
  TRI_PARTS_LEAVE,   /* all ranks of the node have read them            */
  TRI_PARTS_MESSAGES /* all messages are finished                       */
} tri_parts_phase;

/* One message of an all-to-all; a part of more than TRI_MOST_MESSAGE_BYTES is several, since MPI counts in int. */
typedef struct tri_part_message {
  MPI_Request request;
  int peer, bytes;
  bool receives;
} tri_part_message;

enum { TRI_MOST_MESSAGE_BYTES = 1 << 30 };

struct tri_request {
  tri_group_impl *group;
  tri_request *next; /* the next of the group's collectives, or of the job's messages */
  tri_operation operation;
  size_t bytes;
  bool done;
  uint64_t ticket; /* of the flight recorder */

  /* a collective */
  uint64_t number; /* in its group, from 1 */
  const tri_sum *sum;
  bool reduce, gather, begun, background;
  char *values;
  int64_t count;         /* elements of the buffer */
  const int64_t *begins; /* [size + 1]: the parts; NULL: equal parts of count (tri_part_begin) */
  tri_stage stage;
  int64_t round_elements, num_rounds, turn;
  tri_node_pass pass;

  /* an all-to-all or a ring pass: `values` and `begins` are what this rank sends */
  char *to;
  const int64_t *to_begins; /* NULL: neither of them */
  tri_parts_phase parts_phase;
  tri_part_message *messages; /* in the order in which they were started */
  int num_messages;

  /* a message */
  bool is_message, receives;
  int peer, tag;
  int num_pieces, num_finished; /* num_finished is also that of an all-to-all's messages */
  MPI_Request pieces[];         /* num_pieces */
};

/* LOCAL, as all functions below unless they say otherwise. The request's entry for the flight recorder. */
tri_record tri_request_record(const tri_request *request);

/* Advances a group's collectives as far as possible without waiting; sets *moved to true if anything happened. */
tri_status tri_collective_advance(tri_group_impl *group, bool *moved);
tri_status tri_message_advance(tri_request *request);
/* Appends a request to its group's collectives. */
void tri_collective_enqueue(tri_request *request);
/* A rank of the group that its active request waits for; -1: none, or not known. */
int tri_collective_behind(const tri_group_impl *group);

/* ---- all-to-all (all_to_all.c) ----------------------------------------------------------------------------------- */

tri_status tri_parts_begin(tri_request *request);
/* Advances it as far as possible without waiting; sets *moved to true if anything happened. */
tri_status tri_parts_advance(tri_request *request, bool *moved);
/* The rank whose message to or from this rank is the next to be finished; -1: none. */
int tri_parts_behind(const tri_request *request);
/* Bytes of the part that this rank sends to a rank, or receives from one. */
size_t tri_parts_given_bytes(const tri_request *request, int to);
size_t tri_parts_received_bytes(const tri_request *request, int from);
/* The number of messages in which a part of `bytes` bytes is sent. */
size_t tri_parts_pieces(size_t bytes);

/* ---- between nodes (exchange.c) ---------------------------------------------------------------------------------- */

/* The number of elements of a part in a round; *begin is the index of the first in `values`. */
int64_t tri_request_round(const tri_request *request, int64_t part, int64_t round, int64_t *begin);
/* Whether this rank sends its values as partial sums, without a copy: it is alone on its node, and both have the same
 * type. */
static inline bool tri_exchange_sends_values(const tri_request *request) {
  return request->group->num_local == 1 && request->sum->partial_bytes == request->sum->bytes;
}
/* Starts the messages with the partial sums of a round: to the ranks of other nodes whose parts this rank owns, and
 * from the owners of its own part. */
tri_status tri_exchange_sums(tri_request *request, int64_t round);
/* Adds the received partial sums of this rank's part. */
void tri_exchange_add(tri_request *request, int64_t round);
/* Starts the messages with the values of a round: this rank's part to its owners on other nodes, and the parts that
 * this rank owns from their ranks. */
tri_status tri_exchange_values(tri_request *request, int64_t round);
/* *arrived: whether all of these messages are finished. */
tri_status tri_exchange_arrived(tri_group_impl *group, tri_moving *moving, bool *arrived);

/* ---- inside a node (pass.c, staging.c, in_place.c) --------------------------------------------------------------- */

void tri_node_pass_begin(tri_request *request, const tri_node_pass *pass);
/* Advances the pass. *through: it is finished; else it waits for other ranks. Sets *moved to true if anything happened.
 */
tri_status tri_node_pass_advance(tri_request *request, bool *through, bool *moved);
/* The same in one step, in which every rank adds all values of all ranks; they must fit into a staging buffer. */
tri_status tri_node_pass_at_once(tri_request *request, bool *through, bool *moved);
/* A rank of the group on this node that has not published the current step; -1 if all have. */
int tri_node_pass_behind(const tri_group_impl *group);

/* Contiguous elements of one owned part. */
typedef struct tri_owned_span {
  int owned;      /* index in owned_parts */
  int64_t begin;  /* of the first element, in values */
  int64_t within; /* the same, counted from the part's first element of the round */
  int64_t length;
} tri_owned_span;

/* The next elements that local rank `local` owns, at most `room`; false after the last. */
bool tri_owned_next(const tri_request *request, tri_owned_walk *walk, int local, int64_t room, tri_owned_span *out);
/* Adds group->terms, the values that the node's ranks have for a span. */
void tri_node_pass_add(const tri_request *request, const tri_owned_span *span);
/* Writes this rank's note of the next step: what it is doing, and with in_place where its values are. */
void tri_node_pass_write_note(const tri_request *request, bool in_place);
/* Compares the notes of the last step; TRI_COMM if a rank of the node calls another collective or one of another size.
 */
tri_status tri_node_pass_check_notes(const tri_request *request);
/* Ends this rank's next step: the other ranks may read what was written in it. */
void tri_node_pass_publish(tri_group_impl *group);

/* The two ways of a pass: copying through the staging (staging.c), or reading the others' buffers in place
 * (in_place.c). Each call does one step, after all ranks of the node have published the last one, and returns whether
 * that was the last step of the pass. */
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
  tri_segment *shared;               /* list of segments (share.c) */
  uint32_t num_shared, last_segment; /* segments that all ranks of the node have mapped; number of the newest segment */
  size_t looked_bytes;               /* memory of other ranks that may be resident in this process */
  tri_group_impl *retired;           /* list of destroyed groups, whose MPI objects are freed when the job ends */
  tri_group_impl *busy;              /* list of groups with collectives under way */
  tri_request *messages;             /* list of messages under way */
  bool failed;                       /* every later call fails */
  bool echoes;                       /* the failure is of an MPI call, probably since another rank is gone */
  char failure[1024];                /* message of the first failure; later calls fail with it */
} tri_job;

/* The one job of this process, as MPI's state is one for the process. */
tri_job *tri_comm_job(void);

/* Records a failure after which no communication is possible, and returns TRI_COMM. */
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

/* COLLECTIVE over `comm`, which the group owns from then on, also on failure. */
tri_status tri_group_create(MPI_Comm comm, const char *name, tri_group *out);
/* COLLECTIVE over the job. Frees the MPI objects of the groups that were destroyed. */
void tri_group_free_retired(void);

/* ---- waiting (progress.c) ---------------------------------------------------------------------------------------- */

/* Waits until the request is done; advances all other requests meanwhile. */
tri_status tri_comm_finish(tri_request *request);

#endif
