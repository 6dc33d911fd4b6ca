/* Equal products are made the same way on all ranks, and again when the run goes on: see device/gemm_choices.h. */
#ifndef TRI_TRAIN_GEMM_CHOICES_H
#define TRI_TRAIN_GEMM_CHOICES_H

#include "engine/engine.h"
#include "run/run_config.h"

/* COLLECTIVE over the job, before the engine takes memory. Rank 0's device chooses how each product that some rank will
 * ask for is made, and all ranks take that. The choices stand in OUTPUT/products.json; there they are found again by a
 * run that goes on with the same library on the same chip, and not `anew`. Ranks of another library or chip than rank
 * 0's choose for themselves. Does nothing if no device has anything to choose. */
tri_status tri_gemm_choices_agree(const tri_engine_options *options, const tri_run_config *config, tri_device *device,
                                  bool anew);

#endif
