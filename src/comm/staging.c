/* A pass by copies: values go from rank to rank of a node through the buffers of the shared window.
 *
 * A buffer is cut into one slot for each rank of the node, and the values into pieces that fill a slot. Every element
 * has an owner among the ranks of the node (see collective.c), and the pieces of all owners travel side by side. In
 * iteration i of a pass that reduces and gathers, which is one step (see node_steps.c), a rank
 *
 *   copies piece i of every other owner's elements into that owner's slot of its own buffer,
 *   adds piece i - 1 of its own elements: its own values, and its slot in every other buffer, in the order of the
 *     ranks; the sums go to their place in memory and into its own slot of its own buffer, which no other rank fills,
 *   copies piece i - 2 of every other owner's elements from that owner's slot of the owner's buffer to its own memory.
 *
 * So three pieces are in progress at once, each element of a rank's own memory is read once and written once, all other
 * traffic stays in the caches, and there is one wait for each piece. */
#include "comm/internal.h"

#include <stdint.h>
#include <string.h>

enum {
  PIECE_BYTES = 256 * 1024
}; /* size of a piece, of all owners together: it fits into the private cache of a core */

/* ---- one piece --------------------------------------------------------------------------------------------------- */

/* Returns the address of the slot in which rank `of` publishes its values for `owner`. Without a reduce a rank
 * publishes only its own values, and one slot fills the whole buffer. */
static char *slot(const tri_request *request, int of, int owner, uint64_t step) {
  int64_t bytes = request->pass.slot_elements * (int64_t)request->sum->bytes;
  return request->group->staging[of].buffers[step % 2] + (request->pass.reduce ? owner * bytes : 0);
}

/* Returns the number of elements of a slot, which is a whole number of cache lines. A background request uses the whole
 * buffer for each piece, since the time of its next progress is not known. */
static int64_t slot_elements(const tri_request *request) {
  const tri_group_impl *group = request->group;
  if (group->num_local == 1) return INT64_MAX;
  size_t bytes = request->background || group->buffer_bytes < PIECE_BYTES ? group->buffer_bytes : PIECE_BYTES;
  if (request->pass.reduce) bytes /= (size_t)group->num_local;
  return (int64_t)(bytes / TRI_CACHE_LINE * TRI_CACHE_LINE / request->sum->bytes);
}

static void copy_in(tri_request *request) {
  tri_group_impl *group = request->group;
  size_t size = request->sum->bytes;
  for (int owner = 0; owner < group->num_local; owner++) {
    if (owner == group->local) continue;
    char *to = slot(request, group->local, owner, group->step + 1);
    tri_owned_span now;
    for (int64_t held = 0;
         tri_owned_next(request, &group->walks[owner], owner, request->pass.slot_elements - held, &now);) {
      memcpy(to + (size_t)held * size, request->values + (size_t)now.begin * size, (size_t)now.length * size);
      held += now.length;
    }
  }
}

static void add_span(const tri_request *request, const tri_owned_span *now, int64_t held) {
  tri_group_impl *group = request->group;
  size_t size = request->sum->bytes;
  for (int l = 0; l < group->num_local; l++) {
    if (l != group->local) group->terms[l] = slot(request, l, group->local, group->step) + (size_t)held * size;
  }
  group->terms[group->local] = request->values + (size_t)now->begin * size;
  tri_node_pass_add(request, now);
}

/* With a reduce, adds the elements that this rank owns; with a gather, copies them to its slot, for the other ranks. */
static void add_and_show(tri_request *request) {
  tri_group_impl *group = request->group;
  size_t size = request->sum->bytes;
  tri_owned_span now;
  for (int64_t held = 0; tri_owned_next(request, &group->walks[group->num_local], group->local,
                                        request->pass.slot_elements - held, &now);) {
    if (request->pass.reduce) add_span(request, &now, held);
    if (request->pass.gather) {
      char *to = slot(request, group->local, group->local, group->step + 1);
      memcpy(to + (size_t)held * size, request->values + (size_t)now.begin * size, (size_t)now.length * size);
    }
    held += now.length;
  }
}

static void copy_out(tri_request *request) {
  tri_group_impl *group = request->group;
  size_t size = request->sum->bytes;
  for (int i = 1; i < group->num_local; i++) {
    int owner = (group->local + i) % group->num_local; /* spreads the ranks' reads over the owners */
    const char *from = slot(request, owner, owner, group->step);
    tri_owned_walk *walk = &group->walks[group->num_local + 1 + owner];
    tri_owned_span now;
    for (int64_t held = 0; tri_owned_next(request, walk, owner, request->pass.slot_elements - held, &now);) {
      memcpy(request->values + (size_t)now.begin * size, from + (size_t)held * size, (size_t)now.length * size);
      held += now.length;
    }
  }
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static int64_t owned_length(const tri_request *request, int local) {
  const tri_group_impl *group = request->group;
  int64_t length = 0;
  for (int i = group->owned_begin[local]; i < group->owned_begin[local + 1]; i++) {
    int64_t begin;
    length += tri_request_round(request, group->owned_parts[i], request->pass.round, &begin);
  }
  return length;
}

void tri_staged_begin(tri_request *request) {
  tri_node_pass *pass = &request->pass;
  pass->iteration = pass->num_pieces = 0;
  pass->slot_elements = slot_elements(request);
  if (request->group->num_local == 1 && !pass->reduce) return; /* no other rank reads the buffers */
  for (int l = 0; l < request->group->num_local; l++) {
    int64_t length = owned_length(request, l);
    int64_t pieces = length / pass->slot_elements + (length % pass->slot_elements != 0);
    if (pieces > pass->num_pieces) pass->num_pieces = pieces;
  }
}

bool tri_staged_step(tri_request *request) {
  tri_node_pass *pass = &request->pass;
  int64_t adding = pass->reduce ? 1 : 0; /* the iteration in which piece 0 is added */
  int64_t iterations = pass->num_pieces + adding + (pass->gather ? 1 : 0);
  int64_t i = pass->iteration++;
  if (pass->reduce && i < pass->num_pieces) copy_in(request);
  if (i >= adding && i < pass->num_pieces + adding) add_and_show(request);
  if (pass->gather && i > adding) copy_out(request);
  if (pass->iteration < iterations) tri_node_pass_publish(request->group);
  return pass->iteration == iterations;
}
