/* Checks of `trireme prepare` before it reads its inputs. */
#ifndef TRI_DATA_PREPARE_INPUTS_H
#define TRI_DATA_PREPARE_INPUTS_H

#include "chat/format.h"
#include "data/prepare.h"

/* Return whether the tokenizer is learnt from the inputs; and whether it is learnt and consists of characters. */
bool tri_prepare_learns(const tri_prepare_options *options);
bool tri_prepare_learns_characters(const tri_prepare_options *options);

/* Refuses inputs of a wrong kind, and warns of probable mistakes. *out_bytes: size of the inputs on the disk. */
tri_status tri_prepare_check_inputs(const tri_prepare_options *options, int64_t *out_bytes);

/* Logs the keys of messages that are not read, for the first record of each input, and warns of a template that renders
 * this record badly. */
tri_status tri_prepare_log_messages(const tri_prepare_options *options, const tri_chat_format *format);

#endif
