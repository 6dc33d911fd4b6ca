/* A pass in place: every rank reads the buffers of the others directly, because all of them are in memory that the
 * node's ranks share (share.c). There are no intermediate copies, and three waits for any length: until all ranks have
 * begun, until all have added the parts that they own, and until all have copied the parts that the others own. A rank
 * that computes in the meantime delays the others little: it only has to call tri_comm_progress now and then.
 *
 * No rank writes elements that another rank reads. While parts are added, a rank writes its own part of its own buffer,
 * and the others read only their parts of that buffer. While parts are copied, it is the other way round. */
#include "comm/internal.h"

#include <string.h>

/* Number of elements that are read between two calls of tri_share_looking. */
enum { SPAN_ELEMENTS = 1 << 20 };

static void add_own(tri_request *request) {
  tri_group_impl *group = request->group;
  size_t size = request->sum->bytes;
  tri_owned_span now;
  while (tri_owned_next(request, &group->walks[group->num_local], group->local, SPAN_ELEMENTS, &now)) {
    for (int l = 0; l < group->num_local; l++) {
      const char *term = group->theirs[l] + (size_t)now.begin * size;
      if (l != group->local) tri_share_looking(term, (size_t)now.length * size);
      group->terms[l] = term;
    }
    group->terms[group->local] =
        request->values +
        (size_t)now.begin * size; /* the address to which tri_node_pass_add writes; `theirs` may be another mapping */
    tri_node_pass_add(request, &now);
  }
}

static void fetch_others(tri_request *request) {
  tri_group_impl *group = request->group;
  size_t size = request->sum->bytes;
  for (int i = 1; i < group->num_local; i++) {
    int owner = (group->local + i) % group->num_local; /* spreads the ranks' reads over the owners */
    tri_owned_walk *walk = &group->walks[group->num_local + 1 + owner];
    tri_owned_span now;
    while (tri_owned_next(request, walk, owner, SPAN_ELEMENTS, &now)) {
      size_t from = (size_t)now.begin * size;
      tri_share_looking(group->theirs[owner] + from, (size_t)now.length * size);
      memcpy(request->values + from, group->theirs[owner] + from, (size_t)now.length * size);
    }
  }
}

bool tri_in_place_step(tri_request *request) {
  tri_node_pass *pass = &request->pass;
  if (pass->phase == TRI_PHASE_LEAVE) return true;
  if (pass->phase == TRI_PHASE_ADD) {
    add_own(request);
    pass->phase = pass->gather ? TRI_PHASE_FETCH : TRI_PHASE_LEAVE;
  } else {
    fetch_others(request);
    pass->phase = TRI_PHASE_LEAVE;
  }
  tri_node_pass_publish(request->group);
  return false;
}
