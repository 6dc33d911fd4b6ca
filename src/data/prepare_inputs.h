/* Checks of `trireme prepare` before it reads its inputs. */
#ifndef TRI_DATA_PREPARE_INPUTS_H
#define TRI_DATA_PREPARE_INPUTS_H

#include "chat/format.h"
#include "data/prepare.h"

/* Returns whether the tokenizer is learnt from the inputs. */
bool tri_prepare_learns(const tri_prepare_options *options);
/* Returns whether the tokenizer is learnt from the inputs and consists of characters. */
bool tri_prepare_learns_characters(const tri_prepare_options *options);

/* Checks the inputs, and warns of probable mistakes. Sets *out_bytes to the bytes of the inputs on the disk; a pipe
 * counts as 0. Fails with TRI_BAD_FILE for an input of a wrong kind, or that cannot be opened, and with TRI_BAD_USAGE
 * for conversations or preferences that are not named as a file of JSON. */
tri_status tri_prepare_check_inputs(const tri_prepare_options *options, int64_t *out_bytes);

/* Logs the keys of messages that are not read, for the first record of each input that is a plain file, and warns of a
 * template that renders this record badly. */
tri_status tri_prepare_log_messages(const tri_prepare_options *options, const tri_chat_format *format);

#endif
