#include "serve/follow.h"

#include "base/clock.h"
#include "base/log.h"

#include <string.h>

static const double LOOK_EVERY_S = 2, LONGEST_WAIT_S = 30;

tri_status tri_serve_follow_begin(const tri_generation *g, const char *run, tri_serve_follow *out) {
  const char *path = tri_checkpoint_path(g->weights.named), *end = strrchr(path, '/');
  *out = (tri_serve_follow){.run = run, .seen = g->step};
  if (g->step < 0 || end == NULL || strcmp(path, run) == 0) {
    return tri_fail(TRI_BAD_USAGE,
                    "serve: --follow needs the output of a run, whose newest checkpoint it can follow, and %s is a "
                    "single folder",
                    run);
  }
  memcpy(out->root, path, (size_t)(end - path));
  out->root[end - path] = '\0';
  return TRI_OK;
}

void tri_serve_follow_look(tri_serve_follow *f, const tri_generation *g) {
  const tri_checkpoint_use use = tri_model_options_use(&g->request->model);
  const double now_s = tri_clock_s();
  char found[TRI_PATH_BYTES];
  if (now_s < f->look_s) return;
  f->look_s = now_s + LOOK_EVERY_S;
  const int64_t highest = tri_checkpoint_highest_step(f->root);
  if (highest <= f->seen) return;
  f->seen = highest;
  if (tri_checkpoint_find(f->run, &use, found) != TRI_OK) {
    tri_warn("no checkpoint of %s can be used: %s; the weights of step %ld are kept", f->run, tri_status_message(),
             (long)g->step);
  } else if (strcmp(found, tri_checkpoint_path(g->weights.named)) != 0 && strcmp(found, f->path) != 0) {
    if (f->path[0] == '\0') f->found_s = now_s;
    memcpy(f->path, found, sizeof found);
  }
}

bool tri_serve_follow_waits(const tri_serve_follow *f) {
  return f->path[0] != '\0' && tri_clock_s() - f->found_s < LONGEST_WAIT_S;
}

tri_status tri_serve_follow_load(tri_serve_follow *f, tri_generation *g) {
  const double begin_s = tri_clock_s();
  const long before = (long)g->step;
  bool more = false;
  TRI_TRY(tri_dispatcher_dismiss(g->dispatcher));
  const tri_status status = tri_generation_reload(g, f->path, &more);
  if (status == TRI_OK) {
    tri_log("the weights of step %ld replace those of step %ld, after %.2f s", (long)g->step, before,
            tri_clock_s() - begin_s);
  } else if (status == TRI_BAD_FILE || status == TRI_BAD_CONFIG) {
    tri_warn("%s is passed over: %s", f->path, tri_status_message());
  } else {
    return status;
  }
  f->path[0] = '\0';
  return TRI_OK;
}
