/* Reductions and gathers over a group, on one node or several.
 *
 * A buffer has one part for each rank of the group. In a reduce, rank r ends with the sum of part r; in a gather, rank
 * r's part r is copied to all ranks; an all-reduce is both. Inside a node this is one pass (pass.c).
 *
 * If a group spans nodes, part r is summed on each node by one rank, its owner there: on rank r's own node that is
 * rank r, and on the others the rank with the same place among its node's ranks, modulo their number (group.c). So the
 * nodes need not hold equally many ranks. Then:
 *
 *   reduce     inside each node, every owner sums its parts over the node's ranks: partial sums,
 *   exchange   the owners send them to rank r, which adds the partial sums in the order of the nodes,
 *   arrive     rank r sends its part to the owners of part r on the other nodes,
 *   gather     inside each node, every owner hands its parts to all.
 *
 * The work is cut into rounds, each of round_elements of every part, so that the buffers stay small. Three rounds are
 * in progress at once: in each turn one round is reduced, the partial sums of the round before are added and the result
 * is sent back, and the values of the round before that one are gathered.
 *
 * The order of every sum is therefore: ranks of a node in the order of the group, then nodes in the order of their
 * first ranks in the group. It depends on where the ranks run and on nothing else. With one rank a node, or one node,
 * it is the order of the ranks.
 *
 * Requests of one group are processed one after the other, in the order in which they were started; a blocking
 * operation starts a request and waits for it. Requests of different groups make progress at the same time. */
#include "comm/internal.h"

#include <string.h>

/* Largest size for which one step, in which every rank adds all values, is faster than two steps that share the work.
 */
enum { AT_ONCE_BYTES = 4096 };

/* ---- the stages -------------------------------------------------------------------------------------------------- */

/* Returns whether the round exists. At the beginning and the end of a request some stages have no round. */
static bool is_round(const tri_request *request, int64_t round) { return round >= 0 && round < request->num_rounds; }

/* Return the rounds that are exchanged and gathered in this turn. In turn t, round t is reduced, round t - 1 exchanged
 * and sent back, and round t - 2 gathered. Without a reduce the later stages are one turn earlier. */
static int64_t exchange_round(const tri_request *request) { return request->turn - (request->reduce ? 1 : 0); }
static int64_t gather_round(const tri_request *request) { return exchange_round(request) - 1; }

static bool has_pass(const tri_request *request) {
  return request->reduce && is_round(request, request->turn) && !tri_exchange_sends_values(request);
}

static void begin_reduce(tri_request *request) {
  request->stage = TRI_STAGE_REDUCE;
  if (!has_pass(request)) return;
  tri_node_pass_begin(request, &(tri_node_pass){.reduce = true,
                                                .combine = request->sum->to_partial,
                                                .partials = request->group->send[request->turn % 2],
                                                .round = request->turn});
}

static void begin_gather(tri_request *request) {
  request->stage = TRI_STAGE_GATHER;
  if (!request->gather || !is_round(request, gather_round(request))) return;
  tri_node_pass_begin(request, &(tri_node_pass){.gather = true, .round = gather_round(request)});
}

/* Adds the partial sums that have arrived, and sends the complete sums and the next round's partial sums. Sets
 * *through to false if partial sums have not arrived yet. */
static tri_status exchange(tri_request *request, bool *through) {
  int64_t round = exchange_round(request);
  *through = true;
  if (request->reduce && is_round(request, round)) {
    TRI_TRY(tri_exchange_arrived(request->group, &request->group->sums_moving, through));
    if (!*through) return TRI_OK;
    tri_exchange_add(request, round);
  }
  if (request->gather && is_round(request, round)) TRI_TRY(tri_exchange_values(request, round));
  if (request->reduce && is_round(request, request->turn)) TRI_TRY(tri_exchange_sums(request, request->turn));
  return TRI_OK;
}

/* Advances the current stage of a request across nodes. Sets *through to whether the stage is finished; the request
 * is then in its next stage, or done. */
static tri_status across_nodes(tri_request *request, bool *through, bool *moved) {
  tri_group_impl *group = request->group;
  *through = true;
  switch (request->stage) {
    case TRI_STAGE_REDUCE:
      if (has_pass(request)) TRI_TRY(tri_node_pass_advance(request, through, moved));
      if (*through) request->stage = TRI_STAGE_EXCHANGE;
      return TRI_OK;
    case TRI_STAGE_EXCHANGE:
      TRI_TRY(exchange(request, through));
      if (*through) request->stage = TRI_STAGE_ARRIVE;
      return TRI_OK;
    case TRI_STAGE_ARRIVE:
      if (request->gather && is_round(request, gather_round(request))) {
        TRI_TRY(tri_exchange_arrived(group, &group->values_moving[gather_round(request) % 2], through));
      }
      if (*through) begin_gather(request);
      return TRI_OK;
    case TRI_STAGE_GATHER:
      if (request->gather && is_round(request, gather_round(request)))
        TRI_TRY(tri_node_pass_advance(request, through, moved));
      if (!*through) return TRI_OK;
      request->turn++;
      request->done = request->turn == request->num_rounds + (request->reduce ? 1 : 0) + (request->gather ? 1 : 0);
      begin_reduce(request);
      return TRI_OK;
    case TRI_STAGE_PARTS:
    case TRI_STAGE_AT_ONCE:
    case TRI_STAGE_NODE: break; /* handled in advance() */
  }
  return tri_fail_internal("a collective across nodes is in stage %d, which has none", (int)request->stage);
}

static tri_status advance(tri_request *request, bool *moved) {
  if (request->stage == TRI_STAGE_PARTS) {
    TRI_TRY(tri_parts_advance(request, moved));
  } else if (request->stage == TRI_STAGE_AT_ONCE) {
    TRI_TRY(tri_node_pass_at_once(request, &request->done, moved));
  } else if (request->stage == TRI_STAGE_NODE) {
    TRI_TRY(tri_node_pass_advance(request, &request->done, moved));
  } else {
    for (bool through = true; through && !request->done;) {
      TRI_TRY(across_nodes(request, &through, moved));
      *moved = *moved || through;
    }
  }
  return TRI_OK;
}

static tri_status begin(tri_request *request) {
  tri_group_impl *group = request->group;
  request->begun = true;
  if (request->to_begins != NULL) return tri_parts_begin(request);
  size_t bytes = (size_t)request->count * request->sum->bytes;
  if (group->num_nodes == 1) {
    bool at_once = request->reduce && request->gather && bytes <= AT_ONCE_BYTES;
    request->stage = at_once ? TRI_STAGE_AT_ONCE : TRI_STAGE_NODE;
    request->round_elements = INT64_MAX;
    if (at_once) return TRI_OK;
    tri_node_pass_begin(
        request,
        &(tri_node_pass){.reduce = request->reduce, .gather = request->gather, .combine = request->sum->values});
    return TRI_OK;
  }
  request->round_elements = (int64_t)(group->round_bytes / request->sum->partial_bytes);
  int64_t ignored;
  int64_t rounds = 0;
  for (int part = 0; part < group->size; part++) {
    while (tri_request_round(request, part, rounds, &ignored) > 0) rounds++;
  }
  request->num_rounds = rounds;
  request->done = rounds == 0;
  begin_reduce(request);
  return TRI_OK;
}

/* ---- the queue of a group ---------------------------------------------------------------------------------------- */

tri_status tri_collective_advance(tri_group_impl *group, bool *moved) {
  while (group->first != NULL) {
    tri_request *request = group->first;
    if (!request->begun) TRI_TRY(begin(request));
    if (!request->done) TRI_TRY(advance(request, moved));
    if (!request->done) return TRI_OK;
    tri_recorder_end(request->ticket);
    *moved = true;
    group->first = request->next;
  }
  tri_job *job = tri_comm_job();
  for (tri_group_impl **link = &job->busy; *link != NULL; link = &(*link)->next_busy) {
    if (*link != group) continue;
    *link = group->next_busy;
    break;
  }
  group->busy = false;
  return TRI_OK;
}

int tri_collective_behind(const tri_group_impl *group) {
  const int behind = tri_node_pass_behind(group);
  if (behind >= 0 || group->first == NULL || group->first->to_begins == NULL) return behind;
  return tri_parts_behind(group->first);
}

void tri_collective_enqueue(tri_request *request) {
  tri_group_impl *group = request->group;
  request->number = ++group->num_started;
  tri_record record = tri_request_record(request);
  request->ticket = tri_recorder_begin(&record);
  if (group->first == NULL) {
    group->first = request;
  } else {
    group->last->next = request;
  }
  group->last = request;
  if (group->busy) return;
  tri_job *job = tri_comm_job();
  group->busy = true;
  group->next_busy = job->busy;
  job->busy = group;
}
