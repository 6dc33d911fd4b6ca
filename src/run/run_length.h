/* The length of a run and the learning-rate schedule over it: keys of `optimizer` that name one value in two ways. */
#ifndef TRI_RUN_RUN_LENGTH_H
#define TRI_RUN_RUN_LENGTH_H

#include "config/yaml.h"
#include "run/run_config.h"

enum { TRI_LENGTH_PAIRS = 3 };

/* Keys of a run file for its length, before options are applied. */
typedef struct tri_written_length {
  const tri_yaml *nodes[TRI_LENGTH_PAIRS][2]; /* values of the two keys of each pair; NULL: not given */
  int64_t steps, warmup;                      /* 0: not given as a count */
} tri_written_length;

tri_written_length tri_run_length_written(const tri_yaml *root);

/* Checks that no two keys for one value are both given: steps and epochs, warmup and warmup_ratio, min_lr and
 * min_lr_ratio; fails with TRI_BAD_CONFIG if they are. If an option sets one of them, it replaces the other one, which
 * is from the file. Call it after options were applied and before the keys are read. */
tri_status tri_run_length_choose(const tri_yaml *root, const tri_written_length *written);

/* Fails with TRI_BAD_CONFIG if neither steps nor epochs are given. */
tri_status tri_run_length_check(const tri_yaml *root, const tri_run_config *config);

/* Sets min_lr from its ratio, and the warm-up if the number of steps is known: from its ratio, or shorter for a run
 * that an option or epochs make shorter than the warm-up in its file. */
void tri_run_length_finish(const tri_written_length *written, tri_run_config *config);

/* Sets the number of steps and the warm-up that follows from it. */
void tri_run_length_set_steps(tri_run_config *config, int64_t steps);

#endif
