/* Look-ups in the rows of a study in rounds. The loop, the methods and their reports share them. */
#include "files/file.h"
#include "tune/rounds.h"

#include <math.h>

const tri_member *tri_rounds_find(const tri_member *rows, int64_t count, int64_t member, int64_t round) {
  for (int64_t i = 0; i < count; i++) {
    if (rows[i].member == member && rows[i].round == round) return &rows[i];
  }
  return NULL;
}

const tri_member *tri_rounds_best(const tri_member *rows, int64_t count) {
  const tri_member *best = NULL;
  for (int64_t i = 0; i < count; i++) {
    if (rows[i].state != TRI_TRIAL_DONE) continue;
    bool later = best == NULL || rows[i].round > best->round;
    if (later || (rows[i].round == best->round && rows[i].loss < best->loss)) best = &rows[i];
  }
  return best;
}

int64_t tri_rounds_count(const tri_member *rows, int64_t count, tri_trial_state state) {
  int64_t found = 0;
  for (int64_t i = 0; i < count; i++) found += rows[i].state == state;
  return found;
}

double tri_rounds_loss(const tri_member *row) {
  switch (row->state) {
    case TRI_TRIAL_DONE: return row->loss;
    case TRI_TRIAL_RUNNING:
    case TRI_TRIAL_FAILED: break;
  }
  return INFINITY;
}

tri_status tri_rounds_folder(const tri_rounds *r, const tri_member *row, const char *root, char path[TRI_PATH_BYTES]) {
  char name[64];
  r->method->folder(row, name);
  return tri_path_join(path, root, name);
}
