#ifndef TRI_RUN_PROGRESS_H
#define TRI_RUN_PROGRESS_H

#include <stdint.h>

/* Where a run is. Everything else that a step depends on is a function of these and of the configuration. */
typedef struct tri_progress {
  int64_t step;                       /* steps made, skipped ones too */
  int64_t samples;                    /* taken: the number of the next */
  int64_t updates;                    /* steps that changed the parameters */
  int64_t tokens;                     /* trained on */
  int64_t bad_steps;                  /* skipped */
  int64_t bad_in_row;                 /* of them, just now; always 0 in what is saved */
  double seconds;                     /* of training */
  double highest_lr, average_weights; /* of optimizers that average their points: tri_averaging */
  int64_t averaged;                   /* weights in the average of the run */
  int64_t best_step;                  /* whose validation loss is the lowest so far; 0: none was finite yet */
  double best_loss;                   /* that loss; 0 if best_step is 0 */
  double best_accuracy;               /* of that step, where evaluation.metric is the accuracy */
  int64_t not_better;                 /* evaluations since then */
} tri_progress;

#endif
