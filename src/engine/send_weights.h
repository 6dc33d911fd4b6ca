/* The engine's weights for generation: read in place, or moved to ranks that generate (weights/move.h). */
#ifndef TRI_ENGINE_SEND_WEIGHTS_H
#define TRI_ENGINE_SEND_WEIGHTS_H

#include "engine/engine.h"
#include "weights/move.h"

/* LOCAL. Returns the weights as they are trained. With an optimizer that averages its points, checkpoints have another
 * point. */
const tri_weights *tri_engine_weights(const tri_engine *engine);

/* COLLECTIVE, between steps. Sends the weights that a checkpoint of this state would have to the ranks with a `to`,
 * which may be NULL. TRI_UNSUPPORTED with an adapter. */
tri_status tri_engine_send_weights(tri_engine *engine, const tri_weights_target *to);

#endif
