/* Follows a run: looks for newer checkpoints, and loads them while no text is in progress (trireme serve --follow). */
#ifndef TRI_SERVE_FOLLOW_H
#define TRI_SERVE_FOLLOW_H

#include "files/file.h"
#include "generation/generation.h"

typedef struct tri_serve_follow {
  const char *run;           /* the run's output */
  char root[TRI_PATH_BYTES]; /* the folder of its checkpoints */
  char path[TRI_PATH_BYTES]; /* a newer checkpoint that is to be loaded; "": none */
  int64_t seen;              /* highest step that was looked at */
  double look_s, found_s;    /* times of the next look, and at which `path` was found, on tri_clock_s */
} tri_serve_follow;

/* Begins to follow the run whose checkpoint a generation has opened. Fails with TRI_BAD_USAGE if the opened folder is
 * not one of several checkpoints. */
tri_status tri_serve_follow_begin(const tri_generation *generation, const char *run, tri_serve_follow *out);
/* Looks for a newer good checkpoint, if it is time to. */
void tri_serve_follow_look(tri_serve_follow *follow, const tri_generation *generation);
/* Returns whether requests wait for the newer checkpoint: it is loaded when no text is in progress, but requests wait
 * for half a minute at most. */
bool tri_serve_follow_waits(const tri_serve_follow *follow);
/* On the first rank, while no text is in progress: loads the newer checkpoint. A checkpoint that cannot be loaded is
 * passed over with a line in the log. */
tri_status tri_serve_follow_load(tri_serve_follow *follow, tri_generation *generation);

#endif
