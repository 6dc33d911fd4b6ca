/* Factors that begin as parts of the base (adapter.init: pissa), on their way into a rank's arrays. */
#ifndef TRI_ENGINE_FIRST_FACTORS_H
#define TRI_ENGINE_FIRST_FACTORS_H

#include "checkpoint/checkpoint.h"
#include "engine/engine.h"

/* LOCAL. Makes the factors of every matrix that this rank has a part of, each of the whole matrix, and sets both: what
 * is trained, and what it began as. What a run goes on from is read behind it. Does nothing without such factors. */
tri_status tri_engine_begin_factors(tri_engine *engine, const tri_checkpoint *base);

#endif
