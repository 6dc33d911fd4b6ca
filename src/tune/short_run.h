/* `trireme train` as a subprocess: its command line, and what it left in its folder. */
#ifndef TRI_TUNE_SHORT_RUN_H
#define TRI_TUNE_SHORT_RUN_H

#include "base/file.h"
#include "tune/process.h"
#include "tune/study.h"

enum { TRI_RUN_WORDS = 128, TRI_RUN_WORD_BYTES = TRI_PATH_BYTES + 64 };

typedef struct tri_short_run {
  char words[TRI_RUN_WORDS][TRI_RUN_WORD_BYTES];
  char *line[TRI_RUN_WORDS + 1];
  int count;
} tri_short_run;

/* The study's run file on that many ranks, writing into `folder`; `resume` as train takes it. *out is released with
 * tri_free. */
tri_status tri_short_run_create(const tri_study *study, int64_t ranks, const char *folder, const char *resume,
                                tri_short_run **out);
/* One more --set key=value. */
void tri_short_run_set(tri_short_run *run, const char *key, const char *format, ...) TRI_PRINTF(3, 4);

/* What the study allows each of its programs, the one in seat `part` of those at once. */
tri_process_limits tri_short_run_limits(const tri_study *study, int part);

/* The program's own path. */
tri_status tri_own_path(char path[TRI_PATH_BYTES]);

/* The median of its steps' seconds, those of the first `skip` left out; 0 if no step is left. *count: how many. */
double tri_short_run_step_s(const char *folder, int64_t skip, int64_t *count);
/* The last validation loss, or NaN. */
double tri_short_run_loss(const char *folder);

/* How it came to a validation loss: in that many seconds of steps, evaluations not counted. Where it has not (reached
 * false), the seconds and the step so far, and the last loss, or NaN. */
typedef struct tri_way_to_loss {
  bool reached;
  int64_t step;
  double seconds, loss;
} tri_way_to_loss;
tri_way_to_loss tri_short_run_way_to_loss(const char *folder, double target);

/* What a run that has failed said last, in one line: "out of memory: ...", "killed: ...", "failed: ...". */
void tri_short_run_reason(const tri_process *process, const char *log, char *reason, size_t bytes);

#endif
