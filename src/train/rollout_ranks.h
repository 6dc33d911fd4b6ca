/* The ranks that sample completions during a run of reinforcement learning: all ranks of the job, as replicas of
 * rollout.tensor ranks each, with the weights that are trained. */
#ifndef TRI_TRAIN_ROLLOUT_RANKS_H
#define TRI_TRAIN_ROLLOUT_RANKS_H

#include "generation/dispatcher.h"
#include "train/train_internal.h"

typedef struct tri_rollout_ranks {
  tri_replicas replicas;
  tri_runner *runner;
  tri_generator *generator; /* NULL: this rank is not the first of its replica */
  tri_dispatcher *dispatcher;
  bool in_place;     /* whether the runner reads the trained weights in place; false: each new version is moved to the
                        runner's own weights */
  double wait_s;     /* mean over the replicas of the seconds in which a replica had nothing to sample, in all rollouts
                        so far */
  int64_t published; /* version of the weights that were moved to the runners; -1: none were */
  tri_policy policy; /* policy whose weights were moved */
} tri_rollout_ranks;

/* Returns how completions of held-out prompts are sampled. */
tri_sampling tri_rollout_held_out_sampling(const tri_rollout_settings *settings);

/* Computes the sizes of the runners for prompts of at most `longest` tokens. Fails with TRI_BAD_CONFIG if rollout.cache
 * has no room for a page. */
tri_status tri_rollout_ranks_sizes(const tri_run_config *config, int64_t longest, tri_runner_sizes *out);

/* COLLECTIVE. Creates the runners and generators of all ranks. The engine must exist, and its base must be loaded.
 * Release with tri_rollout_ranks_release, before the engine. */
tri_status tri_rollout_ranks_create(tri_training *t, tri_rollout_ranks *out);
void tri_rollout_ranks_release(tri_rollout_ranks *ranks);

/* COLLECTIVE. Publishes the trained or the evaluated weights (`policy`), and calls `work` on the first rank, which uses
 * the dispatcher, while the other ranks follow it. `work` sets *stopped if it ends early, because the process was asked
 * to stop or the run must end (tri_reinforcement_run_groups); this function sets *stopped to the same value on all
 * ranks. */
typedef tri_status tri_rollout_work(tri_training *t, void *context, bool *stopped);
tri_status tri_rollout_ranks_run(tri_training *t, tri_rollout_ranks *ranks, tri_policy policy, tri_rollout_work *work,
                                 void *context, bool *stopped);

/* LOCAL. Computes the memory that a rank needs for rollouts; *out is {0} if the run has no rollouts. device_bytes does
 * not have scratch_bytes, which training lends. */
tri_status tri_rollout_ranks_plan(const tri_run_config *config, const tri_engine_options *options, int64_t longest,
                                  tri_device *device, tri_runner_need *out);

#endif
