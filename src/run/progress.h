/* The position of a run, and its numbers in a checkpoint's state. */
#ifndef TRI_RUN_PROGRESS_H
#define TRI_RUN_PROGRESS_H

#include <jansson.h>
#include <stdint.h>

/* Position of a run. Everything else on which a step depends is a function of these numbers and of the
 * configuration. */
typedef struct tri_progress {
  int64_t step;                       /* steps made, skipped ones included */
  int64_t samples;                    /* samples read so far, which is also the number of the next sample */
  int64_t batches;                    /* reinforcement learning: number of finished batches of completions */
  int64_t groups;                     /* reinforcement learning: number of the next group of completions */
  int64_t updates;                    /* steps that changed the parameters */
  int64_t tokens;                     /* tokens of all steps, padding and skipped steps included */
  int64_t bad_steps;                  /* steps skipped because of NaN or infinity */
  int64_t bad_in_row;                 /* bad steps since the last good one; always 0 in a saved state */
  double seconds;                     /* duration of training in seconds */
  double highest_lr, average_weights; /* state of optimizers that average their points: tri_averaging */
  int64_t averaged;                   /* number of points in the average of the weights over the run */
  int64_t best_step;                  /* step of the best evaluation so far; 0: no evaluation had a finite result yet */
  double best_loss;                   /* loss of best_step; 0 if best_step is 0 */
  double best_accuracy;               /* accuracy or reward of best_step, if evaluation.metric is one of them */
  int64_t not_better;                 /* evaluations since best_step */
} tri_progress;

/* Returns the members that a checkpoint's state has under `progress`; NULL if memory is exhausted. Step, samples and
 * tokens have keys of their own in the state, and `bad_in_row` is always 0 there. */
json_t *tri_progress_print(const tri_progress *progress);

/* Reads the members that tri_progress_print makes; members that an older checkpoint lacks become 0. Leaves all other
 * members unchanged. */
void tri_progress_read(const json_t *from, tri_progress *progress);

#endif
