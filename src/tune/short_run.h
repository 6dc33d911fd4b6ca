/* `trireme train` as a subprocess: its command line, and its results in its output folder. */
#ifndef TRI_TUNE_SHORT_RUN_H
#define TRI_TUNE_SHORT_RUN_H

#include "files/file.h"
#include "tune/process.h"
#include "tune/study.h"

/* 16 parameters, all keys of a layout and the keys that every trial sets take fewer words. */
enum { TRI_RUN_WORDS = 256, TRI_RUN_WORD_BYTES = TRI_PATH_BYTES + 64 };

typedef struct tri_short_run {
  char words[TRI_RUN_WORDS][TRI_RUN_WORD_BYTES];
  /* [count], with a NULL after the last: pointers to the words, for tri_process_start. */
  char *line[TRI_RUN_WORDS + 1];
  int count;
} tri_short_run;

/* Creates the command line that trains the study's run file on `ranks` ranks and writes to `folder`. `resume` is the
 * value of --resume. Release *out with tri_free. */
tri_status tri_short_run_create(const tri_study *study, int64_t ranks, const char *folder, const char *resume,
                                tri_short_run **out);
/* tri_short_run_add appends an option and its value. tri_short_run_set appends --set key=value. Words beyond
 * TRI_RUN_WORDS are dropped. */
void tri_short_run_add(tri_short_run *run, const char *option, const char *value);
void tri_short_run_set(tri_short_run *run, const char *key, const char *format, ...) TRI_PRINTF(3, 4);

/* Appends the layout of a plan, its batch, its choices of the optimizer, and the steps of a trial. */
void tri_short_run_plan(tri_short_run *run, const tri_study *study, const tri_trial_plan *plan);
/* Appends the other keys of a plan. The schedule of the learning rate is that of the run file
 * (tune/trial_schedule.h). */
void tri_short_run_learn(tri_short_run *run, const tri_trial_plan *plan);

/* Returns the study's limits for one of its subprocesses. `part` is its number among the subprocesses that run in
 * parallel, from 0. */
tri_process_limits tri_short_run_limits(const tri_study *study, int part);

/* Returns the median duration of a step in seconds over at most 4096 steps, without the first `skip` steps; 0 if there
 * are no other steps. Sets *count to the number of steps that were used. */
double tri_short_run_step_s(const char *folder, int64_t skip, int64_t *count);
/* Returns the loss after a step that the objective means, the validation loss or 1 - the accuracy on held-out pairs;
 * NaN if the step has none. */
double tri_short_run_loss(tri_objective objective, const char *folder, int64_t step);

/* Progress of a run towards a target validation loss. If the run has not reached the target, the members have their
 * values so far. */
typedef struct tri_way_to_loss {
  bool reached;
  int64_t step;
  double seconds; /* duration of the steps, without evaluations */
  double loss;    /* the last validation loss, or NaN */
} tri_way_to_loss;
tri_way_to_loss tri_short_run_way_to_loss(const char *folder, double target);

/* Prefix of a failed trial's reason if the run refused one of its keys or files. The next tuner repeats such trials. */
#define TRI_TRIAL_REFUSED "refused: "

/* Returns whether a run failed because of a file that it could not read or write. */
bool tri_short_run_lacks_file(const tri_child *process);

/* Writes the error of a failed run in one line that begins with "out of memory: ", "killed: ", TRI_TRIAL_REFUSED or
 * "failed: ". */
void tri_short_run_reason(const tri_child *process, const char *log, char *reason, size_t bytes);

#endif
