/* What of an adapter is made of the base, on its way into a rank's arrays: factors that begin as parts of it
 * (adapter.init: pissa), and magnitudes. */
#ifndef TRI_ENGINE_FIRST_FACTORS_H
#define TRI_ENGINE_FIRST_FACTORS_H

#include "checkpoint/checkpoint.h"
#include "engine/engine.h"

/* LOCAL. Makes the factors of every matrix that this rank has a part of, each of the whole matrix, and sets both: what
 * is trained, and what it began as. What a run goes on from is read behind it. Does nothing without such factors. */
tri_status tri_engine_begin_factors(tri_engine *engine, const tri_checkpoint *base);

/* LOCAL. Sets magnitudes (adapter.magnitude) to the norms of the outputs of their matrices, which a run begins with. */
tri_status tri_engine_begin_magnitudes(tri_engine *engine, const tri_checkpoint *base);

#endif
