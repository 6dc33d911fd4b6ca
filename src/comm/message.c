/* Messages between two ranks of a group. MPI counts in int, so a large message is sent as several with the same tag,
 * which MPI keeps in order. */
#include "base/memory.h"
#include "comm/internal.h"

static const size_t PIECE_BYTES = TRI_MOST_MESSAGE_BYTES;

/* Creates a request, with room for one MPI request for each piece. */
static tri_status begin(const tri_group *group, tri_operation operation, int peer, int tag, size_t bytes,
                        tri_request **out) {
  tri_request *request = NULL;
  TRI_TRY(tri_comm_check());
  if (group->impl == NULL || peer < 0 || peer >= group->size || tag < 0) {
    return tri_fail_internal("%s over %s: rank %d of %d or tag %d does not exist", tri_operation_name(operation),
                             group->name, peer, group->size, tag);
  }
  size_t pieces = bytes == 0 ? 1 : bytes / PIECE_BYTES + (bytes % PIECE_BYTES != 0);
  TRI_TRY(tri_alloc("a message between ranks", 1, sizeof *request + pieces * sizeof(MPI_Request), &request));
  *request = (tri_request){.group = group->impl,
                           .operation = operation,
                           .bytes = bytes,
                           .is_message = true,
                           .background = true,
                           .peer = peer,
                           .tag = tag,
                           .num_pieces = (int)pieces};
  *out = request;
  return TRI_OK;
}

static size_t piece_bytes(const tri_request *request, int piece) {
  size_t left = request->bytes - (size_t)piece * PIECE_BYTES;
  return left < PIECE_BYTES ? left : PIECE_BYTES;
}

static void enlist(tri_request *request) {
  tri_job *job = tri_comm_job();
  tri_record record = tri_request_record(request);
  request->ticket = tri_recorder_begin(&record);
  request->next = job->messages;
  job->messages = request;
}

tri_status tri_send_start(const tri_group *group, int to, int tag, size_t bytes, const void *data, tri_request **out) {
  tri_request *request = NULL;
  TRI_TRY(begin(group, TRI_SEND, to, tag, bytes, &request));
  for (int i = 0; i < request->num_pieces; i++) {
    TRI_MPI(group->name, MPI_Isend((const char *)data + (size_t)i * PIECE_BYTES, (int)piece_bytes(request, i), MPI_BYTE,
                                   to, tag, group->impl->messages, &request->pieces[i]));
  }
  enlist(request);
  *out = request;
  return TRI_OK;
}

tri_status tri_receive_start(const tri_group *group, int from, int tag, size_t bytes, void *data, tri_request **out) {
  tri_request *request = NULL;
  TRI_TRY(begin(group, TRI_RECEIVE, from, tag, bytes, &request));
  request->receives = true;
  for (int i = 0; i < request->num_pieces; i++) {
    TRI_MPI(group->name, MPI_Irecv((char *)data + (size_t)i * PIECE_BYTES, (int)piece_bytes(request, i), MPI_BYTE, from,
                                   tag, group->impl->messages, &request->pieces[i]));
  }
  enlist(request);
  *out = request;
  return TRI_OK;
}

/* Checks that a message was not too short. MPI itself reports one that is too long. */
static tri_status check_length(const tri_request *request, const MPI_Status *status, size_t expected) {
  int count = 0;
  TRI_MPI(request->group->name, MPI_Get_count(status, MPI_BYTE, &count));
  if ((size_t)count == expected) return TRI_OK;
  return tri_comm_lost("%s: rank %d sent %d bytes with tag %d to rank %d, which expects %zu", request->group->name,
                       request->peer, count, request->tag, request->group->rank, expected);
}

tri_status tri_message_advance(tri_request *request) {
  while (request->num_finished < request->num_pieces) {
    int finished = 0;
    MPI_Status status;
    TRI_MPI(request->group->name, MPI_Test(&request->pieces[request->num_finished], &finished, &status));
    if (!finished) return TRI_OK;
    if (request->receives) TRI_TRY(check_length(request, &status, piece_bytes(request, request->num_finished)));
    request->num_finished++;
  }
  request->done = true;
  return TRI_OK;
}
