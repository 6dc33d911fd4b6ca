#ifndef TRI_RUN_PROGRESS_H
#define TRI_RUN_PROGRESS_H

#include <stdint.h>

/* Position of a run. All else that a step depends on is a function of these and of the configuration. */
typedef struct tri_progress {
  int64_t step;                       /* steps made, skipped ones included */
  int64_t samples;                    /* samples read: the number of the next one */
  int64_t updates;                    /* steps that changed the parameters */
  int64_t tokens;                     /* tokens trained on */
  int64_t bad_steps;                  /* steps that were skipped */
  int64_t bad_in_row;                 /* skipped steps since the last good one; always 0 in a saved state */
  double seconds;                     /* duration of training */
  double highest_lr, average_weights; /* state of optimizers that average their points: tri_averaging */
  int64_t averaged;                   /* number of weights in the run's average */
  int64_t best_step;                  /* step with the lowest validation loss so far; 0: none was finite yet */
  double best_loss;                   /* loss of best_step; 0 if best_step is 0 */
  double best_accuracy;               /* accuracy of best_step, if evaluation.metric is the accuracy */
  int64_t not_better;                 /* evaluations since best_step */
} tri_progress;

#endif
