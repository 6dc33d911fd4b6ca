/* A pass: the part of one round inside a node, in steps (node_steps.c).
 *
 * There are two implementations, which add in the same order: through the staging buffers (staging.c), and in place
 * (in_place.c) if the notes show that the buffers of all ranks are in memory that the node shares (share.c). */
#include "comm/internal.h"

#include <stdint.h>
#include <string.h>

/* Minimum size of a pass in place. A smaller pass takes one piece through the staging buffers: the additional step that
 * exchanges the positions of the buffers would cost more than it saves. */
enum { IN_PLACE_BYTES = 8 * 1024 };

/* ---- a pass ------------------------------------------------------------------------------------------------------ */

void tri_node_pass_begin(tri_request *request, const tri_node_pass *pass) {
  tri_group_impl *group = request->group;
  request->pass = *pass;
  for (int l = 0; l < group->num_local; l++) {
    tri_owned_walk first = {group->owned_begin[l], 0};
    group->walks[l] = group->walks[group->num_local + 1 + l] = first;
    if (l == group->local) group->walks[group->num_local] = first;
  }
  tri_staged_begin(request);
}

/* Sets group->theirs. Returns whether the buffers of all ranks of the node are shared. */
static bool can_look(const tri_request *request) {
  const tri_group_impl *group = request->group;
  for (int l = 0; l < group->num_local; l++) {
    const tri_note *note = &group->staging[l].flag->notes[group->step % 2];
    if (note->segment == 0) return false;
    group->theirs[l] = tri_share_look(note->segment, note->offset, group->machine_ranks[l]);
    if (group->theirs[l] == NULL) return false;
  }
  return true;
}

/* Returns whether the ranks exchange the positions of their buffers. All ranks must return the same, so it depends only
 * on values that are equal on all of them. */
static bool may_look(const tri_request *request) {
  return request->group->num_local > 1 && request->bytes >= IN_PLACE_BYTES;
}

tri_status tri_node_pass_advance(tri_request *request, bool *through, bool *moved) {
  tri_node_pass *pass = &request->pass;
  tri_group_impl *group = request->group;
  *through = pass->num_pieces == 0;
  if (!*through && pass->phase == TRI_PHASE_BEGIN) {
    pass->phase = may_look(request) ? TRI_PHASE_CHOOSE : TRI_PHASE_STAGED;
    pass->noted_step = group->step + 1;
    if (group->num_local > 1) tri_node_pass_write_note(request, pass->phase == TRI_PHASE_CHOOSE);
    if (pass->phase == TRI_PHASE_CHOOSE) tri_node_pass_publish(group);
  }
  while (!*through && tri_node_pass_behind(group) < 0) {
    *moved = true;
    if (group->step == pass->noted_step && group->num_local > 1) TRI_TRY(tri_node_pass_check_notes(request));
    if (pass->phase == TRI_PHASE_CHOOSE) {
      pass->phase = !can_look(request) ? TRI_PHASE_STAGED : pass->reduce ? TRI_PHASE_ADD : TRI_PHASE_FETCH;
    } else if (pass->phase == TRI_PHASE_STAGED) {
      *through = tri_staged_step(request);
    } else {
      *through = tri_in_place_step(request);
    }
  }
  return TRI_OK;
}

tri_status tri_node_pass_at_once(tri_request *request, bool *through, bool *moved) {
  tri_group_impl *group = request->group;
  *through = false;
  if (request->pass.phase == TRI_PHASE_BEGIN) {
    size_t bytes = (size_t)request->count * request->sum->bytes;
    memcpy(group->staging[group->local].buffers[(group->step + 1) % 2], request->values, bytes);
    tri_node_pass_write_note(request, false);
    tri_node_pass_publish(group);
    request->pass.phase = TRI_PHASE_STAGED;
    *moved = true;
  }
  if (tri_node_pass_behind(group) >= 0) return TRI_OK;
  TRI_TRY(tri_node_pass_check_notes(request));
  for (int l = 0; l < group->num_local; l++) {
    group->terms[l] = l == group->local ? request->values : group->staging[l].buffers[group->step % 2];
  }
  request->sum->values(group->num_local, group->terms, request->count, request->values);
  *through = *moved = true;
  return TRI_OK;
}
