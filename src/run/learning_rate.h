/* The learning rate as a function of the step. */
#ifndef TRI_RUN_LEARNING_RATE_H
#define TRI_RUN_LEARNING_RATE_H

#include "run/run_config.h"

#include <stdint.h>

/* Returns the rate of update number `step` of `steps`; the first is 1.
 *
 * Warm-up: step <= warmup has lr * step / warmup, so the first update has a rate above 0 and update `warmup` has lr.
 * After it, with p = (step - warmup) / (steps - warmup), which is 1 at the last step:
 *
 *   constant  lr
 *   linear    lr + (min_lr - lr) p
 *   cosine    min_lr + (lr - min_lr) (1 + cos(pi p)) / 2
 *   wsd       lr until the last D = round(decay_fraction * steps) steps (at most steps - warmup), in which it falls
 *             linearly: lr + (min_lr - lr) (step - (steps - D)) / D
 *
 * The last step has exactly min_lr (constant, and wsd with D = 0: lr), and so does any step after it. If the warm-up is
 * longer than the run, the last step has lr * steps / warmup instead. A step below 1 counts as 1. */
double tri_learning_rate(tri_decay kind, int64_t step, int64_t steps, int64_t warmup, double lr, double min_lr,
                         double decay_fraction);

/* Returns the learning rate of a step with the keys of a run; the first step is 1. */
double tri_run_config_rate(const tri_run_config *config, int64_t step);

#endif
