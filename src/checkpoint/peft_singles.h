/* Conversion of factors of single experts as in PEFT (peft_experts.h), for a run that starts from them: gate and up
 * become one pair of twice the rank, with A_gate above A_up, and B_gate and B_up on the diagonal of a matrix of zeros.
 */
#ifndef TRI_CHECKPOINT_PEFT_SINGLES_H
#define TRI_CHECKPOINT_PEFT_SINGLES_H

#include "checkpoint/checkpoint.h"
#include "model/trainable.h"

/* LOCAL. Returns whether an adapter has factors of single experts; sets *gate_up to whether some of them are factors of
 * gates, which PEFT joins with up. */
bool tri_peft_has_singles(const tri_checkpoint *from, bool *gate_up);

/* Adds to `adapter` the patterns that PEFT adds for a folder with factors of single experts: rank and alpha of
 * gate_up_proj. Fails with TRI_UNSUPPORTED if there would be too many patterns; `folder` is for the message. */
tri_status tri_peft_convert_singles(const char *folder, tri_adapter *adapter);

/* LOCAL. Reads a slice of a run's factor of experts, as `type`, if the folder has factors of single experts. Sets *done
 * to whether the slice was read. */
tri_status tri_peft_read_single(const tri_checkpoint *from, tri_dtype type, const tri_checkpoint_slice *slice,
                                bool *done);

#endif
