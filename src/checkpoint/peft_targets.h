/* Which modules get factors in PEFT: what adapter_config.json says, whatever the file of tensors has. */
#ifndef TRI_CHECKPOINT_PEFT_TARGETS_H
#define TRI_CHECKPOINT_PEFT_TARGETS_H

#include "checkpoint/checkpoint.h"

/* LOCAL. Whether PEFT takes each tensor of an open adapter of its own: one whose name does not begin as there, and
 * factors of a module that `target_modules`, `exclude_modules` or `layers_to_transform` leave out, it passes over, and
 * they are TRI_BAD_FILE here. What a pattern says that is not a plain one is not known, and taken to agree. */
tri_status tri_peft_check_targets(const tri_checkpoint *adapter);

/* LOCAL. Whether `modules_to_save` names the module of a tensor of the model. PEFT then has a copy of it beside the
 * base's; any other tensor of the file takes the place of the base's, and of what is tied to that. */
tri_status tri_peft_saves(const char *folder, const char *tensor, bool *out);

#endif
