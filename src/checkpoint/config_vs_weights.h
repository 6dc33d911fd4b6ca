/* Finds folders whose config.json and weights belong to different models. */
#ifndef TRI_CHECKPOINT_CONFIG_VS_WEIGHTS_H
#define TRI_CHECKPOINT_CONFIG_VS_WEIGHTS_H

#include "checkpoint/checkpoint.h"
#include "model/model.h"

/* LOCAL. Checks that a checkpoint has each tensor of the model that its config.json describes, in the right shape, and
 * no other weights. TRI_BAD_FILE names the first tensor that contradicts config.json, the keys that it depends on with
 * their values, and what to do. */
tri_status tri_checkpoint_check_model(const tri_checkpoint *checkpoint, const tri_model *model);

#endif
