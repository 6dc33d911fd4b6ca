/* What must hold before the ranks of a job begin: they agree about the run, and their nodes have the memory. */
#ifndef TRI_TRAIN_STARTUP_CHECKS_H
#define TRI_TRAIN_STARTUP_CHECKS_H

#include "engine/engine.h"
#include "engine/generator.h"
#include "run/run_config.h"
#include "run/run_data.h"

/* COLLECTIVE. All ranks run the same program with the same configuration on the same corpora (there may be none for
 * validation); else TRI_BAD_CONFIG on all of them, with what it is that differs and on which rank. */
tri_status tri_startup_check_agreement(const tri_mesh *mesh, const tri_run_config *config, const tri_run_data *data);

/* What a rank needs beside its engine. */
typedef struct tri_startup_memory {
  bool snapshots;             /* there are to be some */
  tri_generator_need samples; /* on the first rank */
} tri_startup_memory;

/* COLLECTIVE. Plans every rank's memory without allocating it, with what there is beside, and adds up the ranks of each
 * node: TRI_OUT_OF_MEMORY on all ranks if a node has not as much to give, with what each of its ranks needs and for
 * what. */
tri_status tri_startup_check_memory(const tri_engine_options *options, tri_device *device,
                                    const tri_startup_memory *more);

#endif
