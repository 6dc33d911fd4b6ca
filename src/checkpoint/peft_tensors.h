/* Checks of an adapter's tensors without its base: each pair of factors is complete and has the rank of
 * adapter_config.json, magnitudes exist if that file announces them, values are finite. */
#ifndef TRI_CHECKPOINT_PEFT_TENSORS_H
#define TRI_CHECKPOINT_PEFT_TENSORS_H

#include "checkpoint/checkpoint.h"
#include "model/trainable.h"

/* LOCAL. Makes these checks, except that of the values; reads names and shapes only. Fails with TRI_BAD_FILE, with the
 * tensor's name, or with TRI_UNSUPPORTED for tensors of PEFT that are not read. */
tri_status tri_peft_check_tensors(const tri_checkpoint *adapter, const tri_adapter *settings);

/* LOCAL. Fails with TRI_BAD_FILE if one of `count` values of the tensor `name` is NaN or infinite, so that the message
 * names the factor and not the product. `whole`: whether these are all values of the tensor, so that the message has
 * the element. */
tri_status tri_peft_check_numbers(const tri_checkpoint *adapter, const char *name, bool whole, int64_t count,
                                  const double *values);

#endif
