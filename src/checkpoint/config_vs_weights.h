/* Folders whose config.json and weights are of different models. */
#ifndef TRI_CHECKPOINT_CONFIG_VS_WEIGHTS_H
#define TRI_CHECKPOINT_CONFIG_VS_WEIGHTS_H

#include "checkpoint/checkpoint.h"
#include "model/model.h"

/* LOCAL. Whether a checkpoint has each tensor of the model of its config.json, in its shape, and no other weights. Else
 * TRI_BAD_FILE names the first tensor that contradicts, those keys of config.json by which it would be another, with
 * their values, and what to do. */
tri_status tri_checkpoint_check_model(const tri_checkpoint *checkpoint, const tri_model *model);

#endif
