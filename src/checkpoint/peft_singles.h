/* Factors of single experts as PEFT converts them (peft_experts.h), for a run that goes on with them: of gate and up
 * one pair of twice the rank, A_gate over A_up, and B_gate and B_up side by side, each beside zeros. */
#ifndef TRI_CHECKPOINT_PEFT_SINGLES_H
#define TRI_CHECKPOINT_PEFT_SINGLES_H

#include "checkpoint/checkpoint.h"
#include "model/trainable.h"

/* LOCAL. Whether an adapter has factors of single experts; *gate_up: of gate and up. */
bool tri_peft_has_singles(const tri_checkpoint *from, bool *gate_up);

/* Adds to `adapter`, of a folder with factors of single experts, the patterns that PEFT adds: rank and alpha of
 * gate_up_proj. TRI_UNSUPPORTED: there are too many patterns already. */
tri_status tri_peft_convert_singles(const char *folder, tri_adapter *adapter);

/* LOCAL. Reads a slice of a run's factor of experts, if the folder has it in single ones; *done says whether. */
tri_status tri_peft_read_single(const tri_checkpoint *from, tri_dtype type, const tri_checkpoint_slice *slice,
                                bool *done);

#endif
