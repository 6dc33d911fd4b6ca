/* Which modules get factors in PEFT: adapter_config.json decides, not the tensors in the file. */
#ifndef TRI_CHECKPOINT_PEFT_TARGETS_H
#define TRI_CHECKPOINT_PEFT_TARGETS_H

#include "checkpoint/checkpoint.h"
#include "model/model.h"

/* LOCAL. Checks that PEFT would read each tensor of an open adapter that PEFT wrote. It ignores tensors without its
 * prefix, and factors of modules that `target_modules`, `exclude_modules` or `layers_to_transform` leave out; such
 * tensors are TRI_BAD_FILE here. A pattern that cannot be translated is assumed to match. Factors of a weight that
 * `target_parameters` names are read as those of its module, or are TRI_UNSUPPORTED. */
tri_status tri_peft_check_targets(const tri_checkpoint *adapter, const tri_model *base);

/* LOCAL. TRI_UNSUPPORTED if a pattern of ranks or alphas matches a weight that `target_parameters` names. */
tri_status tri_peft_check_parameters(const tri_checkpoint *adapter, const tri_adapter *settings);

/* LOCAL. TRI_UNSUPPORTED if PEFT could not read an adapter of ours, whose `target_parameters` name weights of modules
 * (tri_peft_is_parameter), for another key. */
tri_status tri_peft_check_written(const char *folder);

/* LOCAL. *out: whether `modules_to_save` names the module of a tensor of the model. PEFT then keeps it as a copy beside
 * that of the base; any other tensor in the file replaces the base's, and the tensor that is tied to it. */
tri_status tri_peft_saves(const char *folder, const char *tensor, bool *out);

#endif
