/* Moving and adding values between the ranks of one node, through memory that all of them see.
 *
 * Each rank has a flag and two buffers in a shared window; it alone writes them. Work goes in *steps*, which all ranks
 * of the group count alike. In step s a rank
 *
 *   1. waits until every flag is at s - 1 or beyond,
 *   2. reads what the others wrote in step s - 1, from their buffers (s - 1) % 2,
 *   3. writes its own buffer s % 2,
 *   4. sets its flag to s.
 *
 * Why two buffers are enough: who writes buffer s % 2 again, in step s + 2, has seen every flag at s + 1, and a rank
 * sets its flag to s + 1 after it has read what was written in step s. Why one flag is: everything that a step needs
 * was finished in the step before. The last step of an operation only reads, so it needs no flag and does not count:
 * the next operation's first step has its number and writes the other buffer.
 *
 * A buffer is cut into one slot for each rank of the node, and a message into pieces that fill a slot. Every element
 * has an owner among the ranks of the node (see collective.c), and the pieces of all owners travel side by side. In
 * iteration i of a pass that reduces and gathers, a rank
 *
 *   copies piece i of every other owner's elements into that owner's slot of its own buffer,
 *   adds piece i - 1 of its own elements: its own values, and its slot in every other buffer, in the order of the
 *     ranks; the sums go to their place in memory and into its own slot of its own buffer, which nobody else fills,
 *   copies piece i - 2 of every other owner's elements from there to its own memory.
 *
 * So three pieces are under way at once, each element is read from and written to a rank's own memory once, everything
 * else stays in the caches, and there is one wait a piece. */
#include "base/memory.h"
#include "comm/internal.h"

#include <stdint.h>
#include <string.h>

enum { PIECE_BYTES = 256 * 1024 }; /* of all owners: what stays in a core's own cache */

/* ---- walking over owned elements --------------------------------------------------------------------------------- */

/* Elements that lie side by side. */
typedef struct span {
  int owned;      /* index in owned_parts */
  int64_t begin;  /* in values */
  int64_t within; /* from the begin of the part's share of the round */
  int64_t length;
} span;

/* The next elements that the node's rank `local` owns, at most `room`; false at their end. */
static bool walk_on(const tri_request *request, tri_walk *walk, int local, int64_t room, span *out) {
  const tri_group_impl *group = request->group;
  while (room > 0 && walk->next < group->owned_begin[local + 1]) {
    int64_t begin;
    int64_t left = tri_request_round(request, group->owned_parts[walk->next], request->pass.round, &begin) - walk->at;
    if (left > 0) {
      *out = (span){walk->next, begin + walk->at, walk->at, left < room ? left : room};
      walk->at += out->length;
      return true;
    }
    *walk = (tri_walk){walk->next + 1, 0};
  }
  return false;
}

static int64_t owned_length(const tri_request *request, int local) {
  const tri_group_impl *group = request->group;
  int64_t length = 0;
  for (int i = group->owned_begin[local]; i < group->owned_begin[local + 1]; i++) {
    int64_t begin;
    length += tri_request_round(request, group->owned_parts[i], request->pass.round, &begin);
  }
  return length;
}

/* ---- one piece --------------------------------------------------------------------------------------------------- */

/* Where rank `of` shows what it has for `owner`. Where nothing is added, a rank shows only its own, and one slot takes
 * the whole buffer. */
static char *slot(const tri_request *request, int of, int owner, uint64_t step) {
  int64_t bytes = request->pass.slot_elements * (int64_t)request->sum->bytes;
  return request->group->staging[of].buffers[step % 2] + (request->pass.reduce ? owner * bytes : 0);
}

/* A slot is a whole number of cache lines. A background request takes the whole buffer for each piece, since nobody
 * knows when it will be gone on with next. */
static int64_t slot_elements(const tri_request *request, const tri_pass *pass) {
  const tri_group_impl *group = request->group;
  if (group->num_local == 1) return INT64_MAX;
  size_t bytes = request->background || group->buffer_bytes < PIECE_BYTES ? group->buffer_bytes : PIECE_BYTES;
  if (pass->reduce) bytes /= (size_t)group->num_local;
  return (int64_t)(bytes / TRI_CACHE_LINE * TRI_CACHE_LINE / request->sum->bytes);
}

static void copy_in(tri_request *request) {
  tri_group_impl *group = request->group;
  size_t size = request->sum->bytes;
  for (int owner = 0; owner < group->num_local; owner++) {
    if (owner == group->local) continue;
    char *to = slot(request, group->local, owner, group->step + 1);
    span now;
    for (int64_t held = 0; walk_on(request, &group->walks[owner], owner, request->pass.slot_elements - held, &now);) {
      memcpy(to + (size_t)held * size, request->values + (size_t)now.begin * size, (size_t)now.length * size);
      held += now.length;
    }
  }
}

static void add_span(const tri_request *request, const span *now, int64_t held) {
  const tri_pass *pass = &request->pass;
  tri_group_impl *group = request->group;
  size_t size = request->sum->bytes;
  char *mine = request->values + (size_t)now->begin * size;
  for (int l = 0; l < group->num_local; l++) {
    bool own = l == group->local;
    group->terms[l] = own ? mine : slot(request, l, group->local, group->step) + (size_t)held * size;
  }
  char *to = mine;
  if (pass->partials != NULL) {
    size_t place = (size_t)(now->owned - group->owned_begin[group->local]) * group->round_bytes;
    to = pass->partials + place + (size_t)now->within * request->sum->partial_bytes;
  }
  pass->combine(group->num_local, group->terms, now->length, to);
}

/* This rank's own elements: added, and shown to the others. */
static void add_and_show(tri_request *request) {
  tri_group_impl *group = request->group;
  size_t size = request->sum->bytes;
  span now;
  for (int64_t held = 0;
       walk_on(request, &group->walks[group->num_local], group->local, request->pass.slot_elements - held, &now);) {
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
    int owner = (group->local + i) % group->num_local; /* not all from the same one at once */
    const char *from = slot(request, owner, owner, group->step);
    tri_walk *walk = &group->walks[group->num_local + 1 + owner];
    span now;
    for (int64_t held = 0; walk_on(request, walk, owner, request->pass.slot_elements - held, &now);) {
      memcpy(request->values + (size_t)now.begin * size, from + (size_t)held * size, (size_t)now.length * size);
      held += now.length;
    }
  }
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

int tri_staging_behind(const tri_group_impl *group) {
  for (int i = 1; i < group->num_local; i++) {
    int l = group->local + i < group->num_local ? group->local + i : group->local + i - group->num_local;
    uint64_t step = atomic_load_explicit(&group->staging[l].flag->step, memory_order_acquire);
    if (step < group->step) return group->local_ranks[l];
  }
  return -1;
}

static bool all_have_come(const tri_group_impl *group) { return tri_staging_behind(group) < 0; }

static void publish(tri_group_impl *group) {
  group->step++;
  if (group->num_local == 1) return;
  atomic_store_explicit(&group->staging[group->local].flag->step, group->step, memory_order_release);
}

void tri_pass_begin(tri_request *request, const tri_pass *pass) {
  tri_group_impl *group = request->group;
  request->pass = *pass;
  request->pass.iteration = request->pass.num_pieces = 0;
  request->pass.slot_elements = slot_elements(request, pass);
  if (group->num_local == 1 && !pass->reduce) return; /* nobody to show anything to */
  for (int l = 0; l < group->num_local; l++) {
    tri_walk first = {group->owned_begin[l], 0};
    group->walks[l] = group->walks[group->num_local + 1 + l] = first;
    if (l == group->local) group->walks[group->num_local] = first;
    int64_t length = owned_length(request, l);
    int64_t pieces = length / request->pass.slot_elements + (length % request->pass.slot_elements != 0);
    if (pieces > request->pass.num_pieces) request->pass.num_pieces = pieces;
  }
}

bool tri_pass_advance(tri_request *request, bool *moved) {
  tri_pass *pass = &request->pass;
  int64_t adding = pass->reduce ? 1 : 0; /* the iteration in which piece 0 is added */
  int64_t iterations = pass->num_pieces == 0 ? 0 : pass->num_pieces + adding + (pass->gather ? 1 : 0);
  while (pass->iteration < iterations) {
    if (!all_have_come(request->group)) return false;
    *moved = true;
    int64_t i = pass->iteration++;
    if (pass->reduce && i < pass->num_pieces) copy_in(request);
    if (i >= adding && i < pass->num_pieces + adding) add_and_show(request);
    if (pass->gather && i > adding) copy_out(request);
    if (pass->iteration < iterations) publish(request->group);
  }
  return true;
}

bool tri_pass_direct(tri_request *request, bool *moved) {
  tri_group_impl *group = request->group;
  if (request->pass.iteration == 0) {
    size_t bytes = (size_t)request->count * request->sum->bytes;
    memcpy(group->staging[group->local].buffers[(group->step + 1) % 2], request->values, bytes);
    publish(group);
    request->pass.iteration = 1;
    *moved = true;
  }
  if (!all_have_come(group)) return false;
  *moved = true;
  for (int l = 0; l < group->num_local; l++) {
    group->terms[l] = l == group->local ? request->values : group->staging[l].buffers[group->step % 2];
  }
  if (request->count > 0) request->sum->values(group->num_local, group->terms, request->count, request->values);
  return true;
}

/* ---- the window -------------------------------------------------------------------------------------------------- */

static void find_staging(tri_group_impl *group, int local, char *base) {
  uintptr_t address = ((uintptr_t)base + _Alignof(tri_staging_flag) - 1) / _Alignof(tri_staging_flag);
  char *begin = (char *)(address * _Alignof(tri_staging_flag));
  group->staging[local].flag = (tri_staging_flag *)begin;
  group->staging[local].buffers[0] = begin + sizeof(tri_staging_flag);
  group->staging[local].buffers[1] = group->staging[local].buffers[0] + group->buffer_bytes;
}

tri_status tri_staging_create(tri_group_impl *group) {
  if (group->num_local == 1) return TRI_OK;
  size_t bytes = 2 * sizeof(tri_staging_flag) + 2 * group->buffer_bytes;
  MPI_Info info;
  void *base = NULL;
  TRI_MPI(group->name, MPI_Info_create(&info));
  TRI_MPI(group->name, MPI_Info_set(info, "alloc_shared_noncontig", "true")); /* each rank's part on pages of its own */
  TRI_MPI(group->name, MPI_Win_allocate_shared((MPI_Aint)bytes, 1, info, group->node_comm, &base, &group->window));
  MPI_Info_free(&info);
  TRI_MPI(group->name, MPI_Win_set_errhandler(group->window, MPI_ERRORS_RETURN));
  TRI_MPI(group->name, MPI_Win_lock_all(MPI_MODE_NOCHECK, group->window));
  memset(base, 0, bytes); /* memory that is not there is missed now, and lies near the core that will use it */
  for (int l = 0; l < group->num_local; l++) {
    MPI_Aint size;
    int unit;
    void *theirs = NULL;
    TRI_MPI(group->name, MPI_Win_shared_query(group->window, l, &size, &unit, (void *)&theirs));
    find_staging(group, l, theirs);
  }
  TRI_MPI(group->name, MPI_Win_sync(group->window));
  TRI_MPI(group->name, MPI_Barrier(group->node_comm));
  TRI_MPI(group->name, MPI_Win_sync(group->window));
  return TRI_OK;
}

void tri_staging_destroy(tri_group_impl *group) {
  if (group->window == MPI_WIN_NULL) return;
  MPI_Win_unlock_all(group->window);
  MPI_Win_free(&group->window);
}
