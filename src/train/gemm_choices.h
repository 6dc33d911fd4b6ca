/* GEMM autotuning over a job: equal products use the same algorithm on all ranks, and after a resume
 * (device/gemm_choices.h). */
#ifndef TRI_TRAIN_GEMM_CHOICES_H
#define TRI_TRAIN_GEMM_CHOICES_H

#include "engine/engine.h"
#include "run/run_config.h"

/* COLLECTIVE over the job, before the engine allocates memory. Rank 0's device chooses an algorithm for each product
 * that any rank will need, and all ranks use it. The choices are stored in OUTPUT/products.json, and read from there
 * when the run resumes with the same library on the same chip; with `anew` they are chosen again. Ranks with another
 * library or chip than rank 0 choose for themselves. Does nothing if no device has choices. */
tri_status tri_gemm_choices_agree(const tri_engine_options *options, const tri_run_config *config, tri_device *device,
                                  bool anew);

#endif
