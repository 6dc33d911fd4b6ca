/* Follows a run: looks for newer checkpoints, and loads them while no text is in progress (trireme serve --follow). */
#ifndef TRI_SERVE_FOLLOW_H
#define TRI_SERVE_FOLLOW_H

#include "files/file.h"
#include "generation/generation.h"

typedef struct tri_serve_follow {
  const char *run;           /* the run's output folder */
  char root[TRI_PATH_BYTES]; /* the folder of its checkpoints */
  char path[TRI_PATH_BYTES]; /* a newer checkpoint that is to be loaded; "": none */
  int64_t seen;              /* highest step that was looked at */
  double look_s, found_s;    /* times of the next look, and at which `path` was found, on tri_clock_s */
} tri_serve_follow;

/* Begins to follow the run whose checkpoint a generation has opened. Fails with TRI_BAD_USAGE if `run` is itself the
 * opened folder rather than the run's output folder, or if the opened folder is not a run's checkpoint. */
tri_status tri_serve_follow_begin(const tri_generation *generation, const char *run, tri_serve_follow *out);
/* Sets `path` if there is a newer good checkpoint, and logs a warning if a newer one cannot be used. Looks every 2
 * seconds; returns at once in between. */
void tri_serve_follow_look(tri_serve_follow *follow, const tri_generation *generation);
/* Returns whether new requests must wait, so that all texts end and the newer checkpoint can be loaded. They wait for
 * at most half a minute after it was found. */
bool tri_serve_follow_waits(const tri_serve_follow *follow);
/* On the first rank, while no text is in progress: loads the newer checkpoint, logs this, and sets `path` to "". If
 * loading fails with TRI_BAD_FILE or TRI_BAD_CONFIG, logs a warning, keeps the old weights and returns TRI_OK. Passes
 * on other failures. */
tri_status tri_serve_follow_load(tri_serve_follow *follow, tri_generation *generation);

#endif
