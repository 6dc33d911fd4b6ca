/* What the tensors of an adapter must be by themselves, whatever their base: each pair of factors whole and of the rank
 * that adapter_config.json says, magnitudes where it says so, values that are numbers. */
#ifndef TRI_CHECKPOINT_PEFT_TENSORS_H
#define TRI_CHECKPOINT_PEFT_TENSORS_H

#include "checkpoint/checkpoint.h"
#include "model/trainable.h"

/* LOCAL. Reads names and shapes only. TRI_BAD_FILE names the tensor, and TRI_UNSUPPORTED what is known of PEFT's, but
 * not read here. */
tri_status tri_peft_check_tensors(const tri_checkpoint *adapter, const tri_adapter *settings);

/* LOCAL. TRI_BAD_FILE if one of `count` values of the tensor `name` is NaN or infinite: or the product would be named.
 * `whole`: they are all of its values, and the message says which one. */
tri_status tri_peft_check_numbers(const tri_checkpoint *adapter, const char *name, bool whole, int64_t count,
                                  const double *values);

#endif
