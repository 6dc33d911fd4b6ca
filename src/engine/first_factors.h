/* Initial values of an adapter that are computed from its base: factors that are taken from the base's matrices
 * (adapter.init: pissa), and magnitudes. */
#ifndef TRI_ENGINE_FIRST_FACTORS_H
#define TRI_ENGINE_FIRST_FACTORS_H

#include "checkpoint/checkpoint.h"
#include "engine/engine.h"

/* COLLECTIVE over all ranks. Computes the factors of every matrix, each whole matrix on one rank. Sets them on the
 * ranks that have a shard of the matrix: the trained factors, and the copies of their initial values. A run that
 * resumes reads its checkpoint after this. */
tri_status tri_engine_begin_factors(tri_engine *engine, const tri_checkpoint *base);

/* COLLECTIVE over all ranks. Sets magnitudes (adapter.magnitude) to the norms of the outputs of their matrices in the
 * base. */
tri_status tri_engine_begin_magnitudes(tri_engine *engine, const tri_checkpoint *base);

#endif
