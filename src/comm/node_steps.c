/* Synchronisation of the ranks of one node.
 *
 * Each rank has a flag, two notes and two buffers in a shared window; only this rank writes them. The work is divided
 * into *steps*, which all ranks of the group number alike. In step s a rank
 *
 *   1. waits until every flag is at s - 1 or beyond,
 *   2. reads what the others wrote in step s - 1, from their notes and buffers (s - 1) % 2,
 *   3. writes its own note and buffer s % 2,
 *   4. sets its flag to s.
 *
 * Two buffers are enough: a rank writes buffer s % 2 again in step s + 2, when it has seen every flag at s + 1, and
 * every rank sets its flag to s + 1 after it has read the data of step s. One flag is enough: a step needs only data of
 * the step before. The last step of an operation only reads, so it sets no flag and has no number of its own: the next
 * operation's first step has the same number, and writes the other buffer.
 *
 * In its first step every operation writes a note with its kind and size. The notes reveal ranks that call different
 * operations. Without this check one rank's gradients would be added to another's activations. */
#include "comm/internal.h"

#include <stdint.h>

/* ---- steps ------------------------------------------------------------------------------------------------------- */

int tri_node_pass_behind(const tri_group_impl *group) {
  for (int i = 1; i < group->num_local; i++) {
    int l = group->local + i < group->num_local ? group->local + i : group->local + i - group->num_local;
    uint64_t step = atomic_load_explicit(&group->staging[l].flag->step, memory_order_acquire);
    if (step < group->step) return group->local_ranks[l];
  }
  return -1;
}

void tri_node_pass_publish(tri_group_impl *group) {
  group->step++;
  if (group->num_local == 1) return;
  atomic_store_explicit(&group->staging[group->local].flag->step, group->step, memory_order_release);
}

/* The note belongs to the step that is published next. */
void tri_node_pass_write_note(const tri_request *request, bool in_place) {
  tri_group_impl *group = request->group;
  tri_note *note = &group->staging[group->local].flag->notes[(group->step + 1) % 2];
  *note = (tri_note){.number = request->number, .bytes = request->bytes, .operation = request->operation};
  if (in_place) note->segment = tri_share_find(group, request->values, request->bytes, &note->offset);
}

tri_status tri_node_pass_check_notes(const tri_request *request) {
  const tri_group_impl *group = request->group;
  const bool sized = request->to_begins == NULL; /* the ranks of an all-to-all may have different sizes */
  for (int l = 0; l < group->num_local; l++) {
    const tri_note *note = &group->staging[l].flag->notes[group->step % 2];
    bool same = note->number == request->number && note->operation == (uint32_t)request->operation;
    if (l == group->local || (same && (note->bytes == request->bytes || !sized))) continue;
    return tri_comm_lost(
        "%s: rank %d is in collective %llu, %s of %llu bytes, but rank %d in collective %llu, %s of "
        "%zu bytes; all ranks of a group have to call the same",
        group->name, group->local_ranks[l], (unsigned long long)note->number,
        tri_operation_name((tri_operation)note->operation), (unsigned long long)note->bytes, group->rank,
        (unsigned long long)request->number, tri_operation_name(request->operation), request->bytes);
  }
  return TRI_OK;
}

/* ---- parts that a rank owns -------------------------------------------------------------------------------------- */

bool tri_owned_next(const tri_request *request, tri_owned_walk *walk, int local, int64_t room, tri_owned_span *out) {
  const tri_group_impl *group = request->group;
  while (room > 0 && walk->next < group->owned_begin[local + 1]) {
    int64_t begin;
    int64_t left = tri_request_round(request, group->owned_parts[walk->next], request->pass.round, &begin) - walk->at;
    if (left > 0) {
      *out = (tri_owned_span){walk->next, begin + walk->at, walk->at, left < room ? left : room};
      walk->at += out->length;
      return true;
    }
    *walk = (tri_owned_walk){walk->next + 1, 0};
  }
  return false;
}

void tri_node_pass_add(const tri_request *request, const tri_owned_span *span) {
  const tri_node_pass *pass = &request->pass;
  const tri_group_impl *group = request->group;
  char *to = request->values + (size_t)span->begin * request->sum->bytes;
  if (pass->partials != NULL) {
    size_t place = (size_t)(span->owned - group->owned_begin[group->local]) * group->round_bytes;
    to = pass->partials + place + (size_t)span->within * request->sum->partial_bytes;
  }
  pass->combine(group->num_local, group->terms, span->length, to);
}
