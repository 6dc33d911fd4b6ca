/* Types shared by the files of comm/: the job, and the contents of a group and a request. Only comm/ may include this
 * header, which includes MPI's. */
#ifndef TRI_COMM_INTERNAL_H
#define TRI_COMM_INTERNAL_H

#include "base/flight_recorder.h"
#include "comm/comm.h"
#include "comm/sums.h"

#include <mpi.h>
#include <stdatomic.h>

enum { TRI_CACHE_LINE = 64 };

/* The kinds of operations on a group. */
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

/* Returns the name of an operation for messages; "nothing" for 0, "nothing known" for any other number. */
const char *tri_operation_name(tri_operation operation);

/* ---- memory shared by the ranks of a node (window.c, share.c) ---------------------------------------------------- */

/* A rank's note to the other ranks of its node: the operation that it begins. */
typedef struct tri_note {
  uint64_t number,    /* number of the collective in its group, from 1 */
      bytes;          /* size of the rank's buffer */
  uint32_t operation; /* tri_operation */
  uint32_t segment;   /* number of the segment (share.c) that has the rank's buffer; 0: the buffer is not shared */
  uint64_t offset;    /* offset of the buffer in the segment */
} tri_note;

/* A rank's part of the shared window of its group (node_steps.c); only this rank writes it. */
typedef struct tri_flag {
  _Alignas(2 * TRI_CACHE_LINE) _Atomic(uint64_t) step; /* number of the last step that the rank has published */
  tri_note notes[2];                                   /* notes of even and of odd steps */
} tri_flag;

/* The memory in the window that a single rank of the node writes. */
typedef struct tri_staging {
  tri_flag *flag;
  char *buffers[2]; /* staging buffers of even and of odd steps, buffer_bytes each */
} tri_staging;

/* COLLECTIVE over the ranks of the group on this node. Create and free the window. */
tri_status tri_window_create(tri_group_impl *group);
void tri_window_destroy(tri_group_impl *group);
/* LOCAL. Returns the bytes of this rank's part of the window. */
size_t tri_window_bytes(const tri_group_impl *group);

/* LOCAL. Returns the number of the segment that contains memory[bytes], and sets *offset to its offset in the segment.
 * Returns 0 if the memory is not in a segment that all ranks of the group on this node share. */
uint32_t tri_share_find(const tri_group_impl *group, const void *memory, size_t bytes, uint64_t *offset);
/* LOCAL. Returns the address, in this process, of the byte at `offset` in one rank's part of the segment: the rank
 * whose tri_comm_local_rank is `local`. Returns NULL if this process has not mapped that part. */
const char *tri_share_look(uint32_t segment, uint64_t offset, int local);
/* LOCAL. Bounds the resident memory of this process before a read of [at, at + bytes), at most a few MB. Pages of other
 * ranks that this rank reads count as its own resident memory, too; beyond 16 MiB this function removes them from the
 * process. Does nothing for this rank's own memory. */
void tri_share_looking(const char *at, size_t bytes);
/* LOCAL. Unmaps the other ranks' parts of all segments, and forgets the segments. */
void tri_share_close(void);

/* The position of a walk over the elements that one rank of the node owns. */
typedef struct tri_owned_walk {
  int next;   /* index of the current part in owned_parts */
  int64_t at; /* index of the next element, counted from the part's first element of the round */
} tri_owned_walk;

/* Messages in flight between nodes. */
typedef struct tri_moving {
  MPI_Request *requests;
  int count;
} tri_moving;

/* ---- groups (group.c) -------------------------------------------------------------------------------------------- */

struct tri_group_impl {
  const char *name;
  int rank, size;
  MPI_Comm messages; /* communicator of tri_send_start and tri_receive_start */
  MPI_Comm
      exchange; /* communicator of the collectives' messages between nodes; MPI_COMM_NULL if the group is on one node */
  MPI_Comm node_comm; /* communicator of the group's ranks on this node */
  bool of_job;        /* whether this is the group of all ranks, which tri_comm_close destroys */

  /* Nodes are numbered in the order of their first ranks in the group; a rank's local number is its number among the
   * group's ranks of its node. On every node one rank owns part r: it sums the part over the node and sends it to rank
   * r. On rank r's own node that is rank r (collective.c). */
  int num_nodes, node, num_local, local;
  int *nodes;                     /* [size]: the node of each rank */
  int *local_ranks;               /* [num_local]: the ranks of this node, numbered in the group */
  int *machine_ranks;             /* [num_local]: tri_comm_local_rank of each local rank */
  int *owned_begin, *owned_parts; /* local rank l owns the parts owned_parts[owned_begin[l] .. owned_begin[l + 1]) */
  int *peers;                     /* [num_nodes]: the owner of this rank's part on each node */

  MPI_Win window; /* memory that the group's ranks on this node share; MPI_WIN_NULL if only one of its ranks is on this
                     node */
  tri_staging *staging;  /* [num_local]: pointers into the window */
  size_t buffer_bytes;   /* size of each staging buffer */
  uint64_t step;         /* number of the last step that this rank has published */
  tri_owned_walk *walks; /* [2 * num_local + 1]: positions of the active request's copies in, by owner; its sums; and
                            its copies out, by owner */
  const void **terms;    /* [max(num_local, num_nodes)]: addresses of the arrays to add */
  const char **theirs;   /* [num_local]: the ranks' buffers of the active request, if all are shared */

  size_t round_bytes; /* most bytes of partial sums of one part in a round */
  char *send[2], /* partial sums for other nodes, of even and of odd rounds: the parts that this rank owns, round_bytes
                    apart */
      *receive;  /* [num_nodes]: partial sums of this rank's part from each node, round_bytes apart */
  tri_moving sums_moving, /* messages with partial sums */
      values_moving[2];   /* messages with values of even and of odd rounds */
  int64_t *begins;        /* [size + 1]: the parts of a broadcast */

  tri_request *first, *last; /* collectives in the order in which they were started; the first is the active one */
  tri_group_impl *next_busy; /* the next group in tri_job.busy, or in tri_job.retired */
  bool busy;                 /* whether the group is in tri_job.busy */
  uint64_t num_started;      /* number of collectives started so far */
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
  tri_combine combine; /* adds the terms, or finds their maximum, if `reduce` */
  char *partials; /* destination of the sums, with the owned parts round_bytes apart; NULL: the sums go to `values` */
  int64_t round;  /* number of the round, which has the elements [round * round_elements, (round + 1) * round_elements)
                     of each part */
  tri_phase phase;
  uint64_t noted_step;   /* number of the step in which the ranks wrote their notes */
  int64_t slot_elements, /* size of a slot of the staging buffers, in elements (staging.c) */
      iteration,         /* number of the next iteration of staging.c, from 0 */
      num_pieces;        /* number of pieces; 0: the pass has no work */
} tri_node_pass;

typedef enum tri_stage {
  TRI_STAGE_PARTS,   /* an all-to-all or a ring pass (all_to_all.c) */
  TRI_STAGE_AT_ONCE, /* inside a node, for few values: every rank adds all values in one step */
  TRI_STAGE_NODE,    /* inside a node: one pass */
  TRI_STAGE_REDUCE,  /* across nodes: this stage and the following ones, in order, for every round */
  TRI_STAGE_EXCHANGE,
  TRI_STAGE_ARRIVE,
  TRI_STAGE_GATHER
} tri_stage;

/* The events for which an all-to-all waits. */
typedef enum tri_parts_phase {
  TRI_PARTS_MEET,    /* all ranks of the node have written where their parts are */
  TRI_PARTS_LEAVE,   /* all ranks of the node have read the parts */
  TRI_PARTS_MESSAGES /* all messages are finished */
} tri_parts_phase;

/* One message of an all-to-all. A part of more than TRI_MOST_MESSAGE_BYTES is several messages, since MPI counts in
 * int. */
typedef struct tri_part_message {
  MPI_Request request;
  int peer, bytes;
  bool receives;
} tri_part_message;

enum { TRI_MOST_MESSAGE_BYTES = 1 << 30 };

struct tri_request {
  tri_group_impl *group;
  tri_request *next; /* next request in the list of the group's collectives, or of the job's messages */
  tri_operation operation;
  size_t bytes;
  bool done;
  uint64_t ticket; /* ticket of the request in the flight recorder */

  /* Members of a collective. */
  uint64_t number; /* number of the collective in its group, from 1 */
  const tri_sum *sum;
  bool reduce, gather, begun, background;
  char *values;
  int64_t count;         /* number of elements of the buffer */
  const int64_t *begins; /* [size + 1]: the parts; NULL: equal parts of count (tri_part_begin) */
  tri_stage stage;
  int64_t round_elements, num_rounds, turn;
  tri_node_pass pass;

  /* Members of an all-to-all or a ring pass. The request sends `values`, whose parts are `begins`, and receives into
   * `to`. */
  char *to;
  const int64_t *to_begins; /* [size + 1]; NULL: not an all-to-all or a ring pass */
  tri_parts_phase parts_phase;
  tri_part_message *messages; /* [num_messages], in the order in which they were started */
  int num_messages;

  /* Members of a message. */
  bool is_message, receives;
  int peer, tag;
  int num_pieces, num_finished; /* num_finished also counts the messages of an all-to-all */
  MPI_Request pieces[];         /* [num_pieces] */
};

/* The functions below are LOCAL, unless their comments say COLLECTIVE. */

/* Returns the entry of the request for the flight recorder. */
tri_record tri_request_record(const tri_request *request);

/* Advances a group's collectives as far as possible without waiting; sets *moved to true if anything happened. */
tri_status tri_collective_advance(tri_group_impl *group, bool *moved);
tri_status tri_message_advance(tri_request *request);
/* Numbers a request, begins its record in the flight recorder, and appends it to its group's collectives. */
void tri_collective_enqueue(tri_request *request);
/* Returns a rank for which the group's active request waits, or -1 if there is no such rank or it is not known. */
int tri_collective_behind(const tri_group_impl *group);

/* ---- all-to-all (all_to_all.c) ----------------------------------------------------------------------------------- */

tri_status tri_parts_begin(tri_request *request);
/* Advances an all-to-all as far as possible without waiting; sets *moved to true if anything happened. */
tri_status tri_parts_advance(tri_request *request, bool *moved);
/* Returns the rank whose message to or from this rank must finish next, or -1. */
int tri_parts_behind(const tri_request *request);
/* Return the bytes of the part that this rank sends to a rank, or receives from one. */
size_t tri_parts_given_bytes(const tri_request *request, int to);
size_t tri_parts_received_bytes(const tri_request *request, int from);
/* Returns the number of messages in which a part of `bytes` bytes is sent. */
size_t tri_parts_pieces(size_t bytes);

/* ---- between nodes (exchange.c) ---------------------------------------------------------------------------------- */

/* Returns the number of elements of a part in a round; *begin is the index of the first one in `values`. */
int64_t tri_request_round(const tri_request *request, int64_t part, int64_t round, int64_t *begin);
/* Returns whether this rank sends its values as partial sums, without a copy: it is alone on its node, and values and
 * partial sums have the same type. */
static inline bool tri_exchange_sends_values(const tri_request *request) {
  return request->group->num_local == 1 && request->sum->partial_bytes == request->sum->bytes;
}
/* Starts the messages with the partial sums of a round: to the ranks of other nodes whose parts this rank owns, and
 * from the owners of its own part. */
tri_status tri_exchange_sums(tri_request *request, int64_t round);
/* Adds the partial sums of all nodes for this rank's part, and stores the sum in the values. */
void tri_exchange_add(tri_request *request, int64_t round);
/* Starts the messages with the values of a round: this rank's part to its owners on other nodes, and the parts that
 * this rank owns from their ranks. */
tri_status tri_exchange_values(tri_request *request, int64_t round);
/* Sets *arrived to whether all messages of `moving` are finished. */
tri_status tri_exchange_arrived(tri_group_impl *group, tri_moving *moving, bool *arrived);

/* ---- inside a node (pass.c, staging.c, in_place.c) --------------------------------------------------------------- */

void tri_node_pass_begin(tri_request *request, const tri_node_pass *pass);
/* Advances the pass. Sets *through to whether the pass is finished; if not, it waits for other ranks. Sets *moved to
 * true if anything happened. */
tri_status tri_node_pass_advance(tri_request *request, bool *through, bool *moved);
/* Does the pass in one step, in which every rank adds all values of all ranks. The values must fit into a staging
 * buffer. Call it until *through is true. Sets *moved to true if anything happened. */
tri_status tri_node_pass_at_once(tri_request *request, bool *through, bool *moved);
/* Returns a rank of the group on this node that has not published the current step, or -1 if all have. */
int tri_node_pass_behind(const tri_group_impl *group);

/* Contiguous elements of one owned part. */
typedef struct tri_owned_span {
  int owned;      /* index in owned_parts */
  int64_t begin;  /* index of the first element in `values` */
  int64_t within; /* index of the first element, counted from the part's first element of the round */
  int64_t length;
} tri_owned_span;

/* Sets *out to the next contiguous elements that local rank `local` owns, at most `room`, and moves the walk past
 * them. Returns false after the last ones, and if `room` is 0. */
bool tri_owned_next(const tri_request *request, tri_owned_walk *walk, int local, int64_t room, tri_owned_span *out);
/* Combines group->terms, the values of the node's ranks for a span, and writes the result to the pass's partial sums,
 * or to the values if the pass has none. */
void tri_node_pass_add(const tri_request *request, const tri_owned_span *span);
/* Writes this rank's note of the next step: its operation and, with in_place, the position of its values. */
void tri_node_pass_write_note(const tri_request *request, bool in_place);
/* Compares the notes of the last step. Fails with TRI_COMM if a rank of the node calls a different collective, or
 * the same one with a different size. */
tri_status tri_node_pass_check_notes(const tri_request *request);
/* Ends this rank's next step: the other ranks may now read its note and buffer. */
void tri_node_pass_publish(tri_group_impl *group);

/* Sets the number of pieces and the size of the slots of a pass, and its iteration to 0. */
void tri_staged_begin(tri_request *request);
/* The two implementations of a pass: copies through the staging buffers (staging.c), and reads of the others'
 * buffers in place (in_place.c). Each call does one step, after all ranks of the node have published the previous
 * one. Returns true if it was the last step of the pass; otherwise has published the step. */
bool tri_staged_step(tri_request *request);
bool tri_in_place_step(tri_request *request);

/* ---- the job (job.c) --------------------------------------------------------------------------------------------- */

typedef struct tri_segment tri_segment;

typedef struct tri_job {
  bool joined; /* whether this process has initialised MPI */
  int rank, size, local_rank, local_size;
  bool crowded;     /* whether this node has more ranks than cores */
  int *node_of;     /* [size]: node of each rank of the job, by its lowest rank; NULL when alone */
  MPI_Comm machine; /* communicator of the ranks on this machine, in the order of tri_comm_local_rank */
  tri_group world;
  tri_segment *shared;     /* list of segments (share.c) */
  uint32_t last_segment;   /* number of the newest segment */
  size_t looked_bytes;     /* bytes of other ranks' memory that may be resident in this process */
  tri_group_impl *retired; /* list of destroyed groups, whose MPI objects are freed when the job ends */
  tri_group_impl *busy;    /* list of groups with collectives in progress */
  tri_request *messages;   /* list of messages in progress */
  bool failed;             /* whether a failure has occurred, after which every call fails */
  bool secondary;          /* whether an MPI call failed, probably because another rank is gone */
  char failure[1024];      /* message of the first failure; later calls fail with it */
} tri_job;

/* Returns the job of this process. Like MPI's state, it exists once in a process. */
tri_job *tri_comm_job(void);

/* Records a failure after which no communication is possible, and returns TRI_COMM. */
tri_status tri_comm_lost(const char *format, ...) TRI_PRINTF(1, 2);
/* Returns TRI_COMM, with the first failure's message, if there was a failure. */
tri_status tri_comm_check(void);
/* Records the failure of an MPI call, and returns TRI_COMM. Another rank has probably ended, so this rank's failure
 * counts as secondary. `code` is MPI's error code, `call` the text of the call, `what` the group's name. */
tri_status tri_comm_mpi_failed(int code, const char *call, const char *what);
/* Evaluates an MPI call, and returns from the calling function with TRI_COMM if it fails. */
#define TRI_MPI(what, call)                                                                                            \
  do {                                                                                                                 \
    int tri_mpi_code_ = (call);                                                                                        \
    if (tri_mpi_code_ != MPI_SUCCESS) return tri_comm_mpi_failed(tri_mpi_code_, #call, what);                          \
  } while (0)

/* COLLECTIVE over `comm`, of several ranks. Creates their group. Takes ownership of `comm`, also on failure. */
tri_status tri_group_create(MPI_Comm comm, const char *name, tri_group *out);
/* COLLECTIVE over the job. Frees the MPI objects of the groups that were destroyed. */
void tri_group_free_retired(void);

/* ---- waiting (progress.c) ---------------------------------------------------------------------------------------- */

/* Waits until the request is done; advances all other requests meanwhile. */
tri_status tri_comm_finish(tri_request *request);

#endif
