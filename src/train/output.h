/* A run's output, held by this run alone. */
#ifndef TRI_TRAIN_OUTPUT_H
#define TRI_TRAIN_OUTPUT_H

#include "base/folder_lock.h"
#include "train/identity.h"

/* COLLECTIVE. Creates config->output, takes its lock, clears what killed runs have left half written there, and finds
 * the run's name (tri_identity_open; `anew` gives it a new one). *lock is set on the first rank, as soon as it is held;
 * release it with tri_folder_lock_release. */
tri_status tri_output_hold(const tri_group *world, const tri_run_config *config, bool anew, tri_folder_lock **lock,
                           tri_identity *identity);

#endif
