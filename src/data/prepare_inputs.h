/* What `trireme prepare` looks at before it reads its inputs. */
#ifndef TRI_DATA_PREPARE_INPUTS_H
#define TRI_DATA_PREPARE_INPUTS_H

#include "chat/format.h"
#include "data/prepare.h"

/* Whether the inputs teach the tokenizer, and whether it is one of characters. */
bool tri_prepare_learns(const tri_prepare_options *options);
bool tri_prepare_learns_characters(const tri_prepare_options *options);

/* Refuses inputs that cannot be what they are to be, and says what may not be meant. *out_bytes: their size on the
 * disk. */
tri_status tri_prepare_check_inputs(const tri_prepare_options *options, int64_t *out_bytes);

/* Logs which keys of messages are not read: of the first record of each input, once the template is known. */
tri_status tri_prepare_say_messages(const tri_prepare_options *options, const tri_chat_format *format);

#endif
