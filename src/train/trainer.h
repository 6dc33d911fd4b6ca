/* The training loop: from a run's configuration to a directory with metrics, checkpoints and a summary. */
#ifndef TRI_TRAIN_TRAINER_H
#define TRI_TRAIN_TRAINER_H

#include "base/status.h"
#include "run/run_config.h"

#include <stdbool.h>

typedef struct tri_train_options {
  const tri_run_config *config;
  const char *resume;   /* "auto", "never", or the folder of a checkpoint or a run (recovery/resume.c) */
  bool dry_run;         /* whether to print the facts of the run, and do nothing else */
  bool verbose;         /* dry run: whether to print the step program and the memory plan of a rank, too */
  bool json;            /* dry run: whether to print the facts as JSON */
  int threads;          /* threads of this rank if the configuration says auto; 0: all cores */
  int64_t ranks;        /* dry run: number of ranks; 0: the fewest that the layout allows */
  int64_t dry_run_rank; /* dry run: rank whose program and plan are printed */
  int64_t stop_at; /* step after which this process ends, with the evaluation, the checkpoint (checkpoint.at_end) and
                      the files of a run's last step; 0: the run's last step */
  /* Paths of a timeline and of a profile, which are written as .json and .svg; NULL: not written. */
  const char *timeline, *profile;
} tri_train_options;

/* COLLECTIVE over the job (after tri_comm_open). Trains to the end, or until SIGINT or SIGTERM: then a checkpoint is
 * written, if checkpoint.at_end is set, and the status is TRI_INTERRUPTED. */
tri_status tri_train(const tri_train_options *options);

/* Computes the bytes that the first rank of `ranks` needs on the configuration's device, by the memory plan, without
 * the memory for generation. Nothing is trained, and no other rank is needed. The configuration's corpora need not
 * exist. */
tri_status tri_train_predict(const tri_run_config *config, int64_t ranks, size_t *bytes);

#endif
