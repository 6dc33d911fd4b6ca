/* What of an adapter is made of the base, on its way into a rank's arrays: factors that begin as parts of it
 * (adapter.init: pissa), and magnitudes. */
#ifndef TRI_ENGINE_FIRST_FACTORS_H
#define TRI_ENGINE_FIRST_FACTORS_H

#include "checkpoint/checkpoint.h"
#include "engine/engine.h"

/* COLLECTIVE, over all ranks. Makes the factors of every matrix, each of the whole matrix by one rank, and sets both on
 * the ranks that have a part of it: what is trained, and what it began as. What a run goes on from is read behind it.
 */
tri_status tri_engine_begin_factors(tri_engine *engine, const tri_checkpoint *base);

/* COLLECTIVE, over all ranks. Sets magnitudes (adapter.magnitude) to the norms of the outputs of their matrices, which
 * a run begins with. */
tri_status tri_engine_begin_magnitudes(tri_engine *engine, const tri_checkpoint *base);

#endif
