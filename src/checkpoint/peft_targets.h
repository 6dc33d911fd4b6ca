/* The modules with factors in PEFT, which adapter_config.json decides, not the tensors in the file. */
#ifndef TRI_CHECKPOINT_PEFT_TARGETS_H
#define TRI_CHECKPOINT_PEFT_TARGETS_H

#include "checkpoint/checkpoint.h"
#include "model/model.h"

/* LOCAL. Checks that PEFT would read each tensor of an open adapter that PEFT wrote. PEFT ignores tensors without its
 * prefix, and factors of modules that `target_modules`, `exclude_modules` or `layers_to_transform` leave out; for such
 * tensors the function fails with TRI_BAD_FILE. A pattern that cannot be translated is assumed to match. Factors of a
 * weight in `target_parameters` are read as its module's, or refused with TRI_UNSUPPORTED. Every tensor of an adapter
 * of ours passes. */
tri_status tri_peft_check_targets(const tri_checkpoint *adapter, const tri_model *base);

/* LOCAL. Fails with TRI_UNSUPPORTED if a pattern of ranks or alphas matches a weight that `target_parameters` names, in
 * an adapter that PEFT wrote. */
tri_status tri_peft_check_parameters(const tri_checkpoint *adapter, const tri_adapter *settings);

/* LOCAL. Fails with TRI_UNSUPPORTED if another key prevents PEFT from reading an adapter of ours whose
 * `target_parameters` name weights of modules (tri_peft_is_parameter). */
tri_status tri_peft_check_written(const char *folder);

/* LOCAL. Sets *out to whether `modules_to_save` names the module of a tensor of the model. PEFT then keeps a copy
 * besides the base's tensor; any other tensor in the file replaces the base's, and with it the tensor that is tied to
 * it. */
tri_status tri_peft_saves(const char *folder, const char *tensor, bool *out);

#endif
