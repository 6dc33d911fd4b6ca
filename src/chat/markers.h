/* Compares the markers of a chat template that was chosen by name with the tokens of a tokenizer. */
#ifndef TRI_CHAT_MARKERS_H
#define TRI_CHAT_MARKERS_H

#include "chat/format.h"
#include "tokenizer/tokenizer.h"

/* Warns of markers (config/template_preset.h) that are not one token. Also warns if `turn_end` is not among
 * ends[count], the tokens that end a text. `turn_end` is the text that ends an answer; "" if it is unknown. Does
 * nothing if the template is not a preset. */
tri_status tri_chat_warn_of_markers(const tri_chat_format *format, const char *turn_end, const tri_tokenizer *tokenizer,
                                    const int32_t *ends, int count);

#endif
