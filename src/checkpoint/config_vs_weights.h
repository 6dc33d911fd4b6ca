/* Finds folders whose config.json and weights belong to different models. */
#ifndef TRI_CHECKPOINT_CONFIG_VS_WEIGHTS_H
#define TRI_CHECKPOINT_CONFIG_VS_WEIGHTS_H

#include "checkpoint/checkpoint.h"
#include "model/model.h"

/* LOCAL. Checks that a checkpoint has each tensor of the model that its config.json describes, in the right shape, and
 * no other weights. Fails with TRI_BAD_FILE; the message has the first tensor that contradicts config.json, the keys on
 * which this tensor depends with their values, and what to do. Fails with TRI_UNSUPPORTED for 4-bit matrices of
 * families that store them as [in, out]. */
tri_status tri_checkpoint_check_model(const tri_checkpoint *checkpoint, const tri_model *model);

#endif
