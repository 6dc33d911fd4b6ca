/* Access to the engine's weights for generation: the weights themselves, or copies that are moved to ranks that
 * generate (weights/move.h). */
#ifndef TRI_ENGINE_SEND_WEIGHTS_H
#define TRI_ENGINE_SEND_WEIGHTS_H

#include "engine/engine.h"
#include "weights/move.h"

/* LOCAL. Returns the weights as they are trained. If the optimizer averages, checkpoints have the averaged weights
 * instead. */
const tri_weights *tri_engine_weights(const tri_engine *engine);

/* COLLECTIVE, between steps. Sends weights to the ranks whose `to` is not NULL: the weights that a checkpoint of this
 * state would have (TRI_POLICY_EVALUATED), or the trained weights (TRI_POLICY_TRAINED). They differ if the optimizer
 * averages. With an adapter, sends only its parameters; the receivers have loaded the base already. */
tri_status tri_engine_send_weights(tri_engine *engine, tri_policy policy, const tri_weights_target *to);

#endif
