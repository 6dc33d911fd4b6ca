/* All-to-all: part s of every rank's `from` goes to rank s.
 *
 * A rank knows only the sizes of the parts that it sends and receives. Between nodes every part is a message, and all
 * messages are in flight at once. Inside a node the ranks synchronise in one step (node_steps.c): each rank writes the
 * positions of its parts into its staging buffer of that step. Each rank chooses one of three ways for its own parts:
 *
 *   in the buffer   parts that fit are copied into the staging buffer, if they are small or `from` is not shared,
 *   in place        if `from` is in memory that the node's ranks share (share.c), the others read it directly; a second
 *                   step then tells the owner that all have read it,
 *   by messages     otherwise; the owner starts them at once, and the receivers post theirs once they have read the
 *                   owner's choice.
 *
 * Sender and receiver both know the length of a part. The receiver compares the two: in the step, or when the message
 * has arrived. */
#include "comm/internal.h"

#include <string.h>

enum {
  TAG = 3,                   /* exchange.c uses the lower tags */
  IN_BUFFER_BYTES = 1 << 14, /* largest size of a rank's parts that are copied through the buffer although `from` is
                                shared: two copies are then faster than two steps */
  SPAN_BYTES = 1 << 22       /* bytes read between two calls of tri_share_looking */
};

typedef enum parts_way {
  PARTS_IN_BUFFER = 1,
  PARTS_IN_PLACE, /* parts are in the send buffer, whose position is in the rank's tri_note */
  PARTS_BY_MESSAGES
} parts_way;

/* Contents of a rank's staging buffer, for the other ranks of its node. `first` is the offset of a rank's part, in
 * bytes: from the end of this structure, or (PARTS_IN_PLACE) from the beginning of the send buffer, which the note
 * locates. */
typedef struct shown {
  int64_t way;
  struct {
    int64_t first, bytes;
  } parts[]; /* [num_local] */
} shown;

static size_t shown_bytes(const tri_group_impl *group) {
  return sizeof(shown) + (size_t)group->num_local * sizeof(((shown *)NULL)->parts[0]);
}

static shown *shown_by(const tri_group_impl *group, int local, uint64_t step) {
  return (shown *)(void *)group->staging[local].buffers[step % 2];
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static size_t part_bytes(const tri_request *request, const int64_t *begins, int rank) {
  return (size_t)(begins[rank + 1] - begins[rank]) * request->sum->bytes;
}

size_t tri_parts_given_bytes(const tri_request *request, int to) { return part_bytes(request, request->begins, to); }

size_t tri_parts_received_bytes(const tri_request *request, int from) {
  return part_bytes(request, request->to_begins, from);
}

static const char *given_at(const tri_request *request, int to) {
  return request->values + (size_t)request->begins[to] * request->sum->bytes;
}

static char *got_at(const tri_request *request, int from) {
  return request->to + (size_t)request->to_begins[from] * request->sum->bytes;
}

static bool is_here(const tri_group_impl *group, int rank) { return group->nodes[rank] == group->node; }

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static int local_of(const tri_group_impl *group, int rank) {
  int local = 0;
  while (group->local_ranks[local] != rank) local++;
  return local;
}

size_t tri_parts_pieces(size_t bytes) { return bytes / TRI_MOST_MESSAGE_BYTES + (bytes % TRI_MOST_MESSAGE_BYTES != 0); }

/* Starts the messages of one part. An empty part has no message; both sides know its length. */
static tri_status post(tri_request *request, int peer, char *data, size_t bytes, bool receives) {
  tri_group_impl *group = request->group;
  const bool here = is_here(group, peer);
  MPI_Comm comm = here ? group->node_comm : group->exchange;
  const int number = here ? local_of(group, peer) : peer;
  for (size_t at = 0; at < bytes; at += TRI_MOST_MESSAGE_BYTES) {
    const size_t size = bytes - at < TRI_MOST_MESSAGE_BYTES ? bytes - at : TRI_MOST_MESSAGE_BYTES;
    tri_part_message *message = &request->messages[request->num_messages];
    *message = (tri_part_message){.peer = peer, .bytes = (int)size, .receives = receives};
    if (receives) {
      TRI_MPI(group->name, MPI_Irecv(data + at, (int)size, MPI_BYTE, number, TAG, comm, &message->request));
    } else {
      TRI_MPI(group->name, MPI_Isend(data + at, (int)size, MPI_BYTE, number, TAG, comm, &message->request));
    }
    request->num_messages++;
  }
  return TRI_OK;
}

static tri_status post_receive(tri_request *request, int from) {
  return post(request, from, got_at(request, from), tri_parts_received_bytes(request, from), true);
}

static tri_status post_send(tri_request *request, int to) {
  return post(request, to, (char *)(uintptr_t)given_at(request, to), tri_parts_given_bytes(request, to), false);
}

/* Starts the messages to and from the ranks of other nodes. Begins with the next rank, so that the ranks do not all
 * send to the same one first. */
static tri_status post_between_nodes(tri_request *request) {
  const tri_group_impl *group = request->group;
  for (int i = 1; i < group->size; i++) {
    int from = (group->rank + group->size - i) % group->size;
    if (!is_here(group, from)) TRI_TRY(post_receive(request, from));
  }
  for (int i = 1; i < group->size; i++) {
    int to = (group->rank + i) % group->size;
    if (!is_here(group, to)) TRI_TRY(post_send(request, to));
  }
  return TRI_OK;
}

static tri_status wrong_length(const tri_request *request, int peer, int64_t sent, size_t expected) {
  return tri_comm_lost("%s: in collective %llu, %s, rank %d gives %lld bytes to rank %d, which expects %zu",
                       request->group->name, (unsigned long long)request->number,
                       tri_operation_name(request->operation), peer, (long long)sent, request->group->rank, expected);
}

/* Completes messages in the order of their starts, up to the first that is not finished, and checks their lengths.
 * Sets *moved if a message has finished. MPI itself reports a message that is too long. */
static tri_status finish_messages(tri_request *request, bool *moved) {
  while (request->num_finished < request->num_messages) {
    tri_part_message *message = &request->messages[request->num_finished];
    int finished = 0, count = 0;
    MPI_Status status;
    TRI_MPI(request->group->name, MPI_Test(&message->request, &finished, &status));
    if (!finished) return TRI_OK;
    if (message->receives) {
      TRI_MPI(request->group->name, MPI_Get_count(&status, MPI_BYTE, &count));
      if (count != message->bytes) return wrong_length(request, message->peer, count, (size_t)message->bytes);
    }
    request->num_finished++;
    *moved = true;
  }
  return TRI_OK;
}

int tri_parts_behind(const tri_request *request) {
  return request->num_finished < request->num_messages ? request->messages[request->num_finished].peer : -1;
}

/* ---- inside a node ----------------------------------------------------------------------------------------------- */

static parts_way choose_parts_way(const tri_request *request, size_t bytes) {
  const tri_group_impl *group = request->group;
  const bool fits = bytes <= group->buffer_bytes - shown_bytes(group);
  uint64_t offset;
  if (fits && bytes <= IN_BUFFER_BYTES) return PARTS_IN_BUFFER;
  if (tri_share_find(group, request->values, request->bytes, &offset) != 0) return PARTS_IN_PLACE;
  return fits ? PARTS_IN_BUFFER : PARTS_BY_MESSAGES;
}

/* Sets *first to the offset of the part for rank `to`. With PARTS_IN_BUFFER, copies the part into the buffer, after the
 * `held` bytes of the parts before it; with PARTS_BY_MESSAGES, starts to send it. */
static tri_status offer(tri_request *request, parts_way way, int to, char *buffer, size_t held, int64_t *first) {
  const size_t bytes = tri_parts_given_bytes(request, to);
  switch (way) {
    case PARTS_IN_BUFFER:
      *first = (int64_t)held;
      if (bytes > 0) memcpy(buffer + held, given_at(request, to), bytes);
      return TRI_OK;
    case PARTS_IN_PLACE: *first = (int64_t)(given_at(request, to) - request->values); return TRI_OK;
    case PARTS_BY_MESSAGES: *first = 0; return post_send(request, to);
  }
  return tri_fail_internal("unknown way %d to send parts", (int)way);
}

/* Offers this rank's parts to the other ranks of the node: writes their positions, and small parts themselves, into
 * the staging buffer, or starts to send them; then publishes the step. */
static tri_status show(tri_request *request) {
  tri_group_impl *group = request->group;
  shown *mine = shown_by(group, group->local, group->step + 1);
  char *buffer = (char *)mine + shown_bytes(group);
  size_t bytes = 0, held = 0;
  for (int l = 0; l < group->num_local; l++) {
    if (l != group->local) bytes += tri_parts_given_bytes(request, group->local_ranks[l]);
  }
  const parts_way way = choose_parts_way(request, bytes);
  mine->way = way;
  for (int l = 0; l < group->num_local; l++) {
    const int to = group->local_ranks[l];
    const size_t part = tri_parts_given_bytes(request, to);
    mine->parts[l].bytes = (int64_t)part;
    if (l == group->local) continue;
    TRI_TRY(offer(request, way, to, buffer, held, &mine->parts[l].first));
    held += part;
  }
  tri_node_pass_write_note(request, way == PARTS_IN_PLACE);
  tri_node_pass_publish(group);
  return TRI_OK;
}

/* Copies a part from the memory of local rank `local`, a span at a time, as tri_share_looking requires. */
static tri_status read_in_place(tri_request *request, int local, size_t first, size_t bytes) {
  const tri_group_impl *group = request->group;
  const int from = group->local_ranks[local];
  const tri_note *note = &group->staging[local].flag->notes[group->step % 2];
  const char *base = tri_share_look(note->segment, note->offset, group->machine_ranks[local]);
  char *to = got_at(request, from);
  if (base == NULL) {
    return tri_comm_lost("%s: rank %d does not see segment %u, in which rank %d has its parts of an all_to_all",
                         group->name, group->rank, (unsigned)note->segment, from);
  }
  for (size_t at = 0; at < bytes; at += SPAN_BYTES) {
    const size_t now = bytes - at < SPAN_BYTES ? bytes - at : SPAN_BYTES;
    tri_share_looking(base + first + at, now);
    memcpy(to + at, base + first + at, now);
  }
  return TRI_OK;
}

/* Copies the part from local rank `local`, or posts the receives of its messages. */
static tri_status receive_node_part(tri_request *request, int local) {
  const tri_group_impl *group = request->group;
  const int from = group->local_ranks[local];
  const size_t bytes = tri_parts_received_bytes(request, from);
  const shown *theirs = shown_by(group, local, group->step);
  const size_t first = (size_t)theirs->parts[group->local].first;
  if ((size_t)theirs->parts[group->local].bytes != bytes) {
    return wrong_length(request, from, theirs->parts[group->local].bytes, bytes);
  }
  if (bytes == 0) return TRI_OK;
  switch ((parts_way)theirs->way) {
    case PARTS_IN_BUFFER:
      memcpy(got_at(request, from), (const char *)theirs + shown_bytes(group) + first, bytes);
      return TRI_OK;
    case PARTS_IN_PLACE: return read_in_place(request, local, first, bytes);
    case PARTS_BY_MESSAGES: return post_receive(request, from);
  }
  return tri_comm_lost("%s: rank %d sends its parts of an all_to_all in the unknown way %lld", group->name, from,
                       (long long)theirs->way);
}

/* Receives the parts of the node's ranks, after all of them have published their step. If any part was read in
 * place, publishes a second step, so that the part's owner knows that it has been read. */
static tri_status meet(tri_request *request) {
  tri_group_impl *group = request->group;
  bool in_place = false;
  TRI_TRY(tri_node_pass_check_notes(request));
  for (int l = 0; l < group->num_local; l++) {
    in_place = in_place || shown_by(group, l, group->step)->way == PARTS_IN_PLACE;
  }
  for (int i = 1; i < group->num_local; i++) { /* spreads the ranks' reads over the sources */
    TRI_TRY(receive_node_part(request, (group->local + i) % group->num_local));
  }
  request->parts_phase = TRI_PARTS_MESSAGES;
  if (!in_place) return TRI_OK;
  request->parts_phase = TRI_PARTS_LEAVE;
  tri_node_pass_publish(group);
  return TRI_OK;
}

/* ---- going on ---------------------------------------------------------------------------------------------------- */

tri_status tri_parts_begin(tri_request *request) {
  const tri_group_impl *group = request->group;
  request->stage = TRI_STAGE_PARTS;
  request->parts_phase = group->num_local > 1 ? TRI_PARTS_MEET : TRI_PARTS_MESSAGES;
  if (group->num_nodes > 1) TRI_TRY(post_between_nodes(request));
  if (group->num_local > 1) TRI_TRY(show(request));
  const size_t own = tri_parts_given_bytes(request, group->rank);
  if (own > 0) memcpy(got_at(request, group->rank), given_at(request, group->rank), own);
  return TRI_OK;
}

/* Advances the current phase. Sets *through to whether the phase is finished and another one follows. In the last
 * phase, TRI_PARTS_MESSAGES, sets request->done instead. */
static tri_status advance_phase(tri_request *request, bool *through) {
  *through = tri_node_pass_behind(request->group) < 0;
  switch (request->parts_phase) {
    case TRI_PARTS_MEET: return *through ? meet(request) : TRI_OK;
    case TRI_PARTS_LEAVE:
      if (*through) request->parts_phase = TRI_PARTS_MESSAGES;
      return TRI_OK;
    case TRI_PARTS_MESSAGES: break;
  }
  *through = false;
  request->done = request->num_finished == request->num_messages;
  return TRI_OK;
}

tri_status tri_parts_advance(tri_request *request, bool *moved) {
  TRI_TRY(finish_messages(request, moved));
  for (bool through = true; through && !request->done;) {
    TRI_TRY(advance_phase(request, &through));
    *moved = *moved || through;
  }
  return TRI_OK;
}
