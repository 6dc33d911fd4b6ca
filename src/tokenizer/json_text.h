/* JSON strings of texts that may not be UTF-8. */
#ifndef TRI_TOKENIZER_JSON_TEXT_H
#define TRI_TOKENIZER_JSON_TEXT_H

#include <jansson.h>
#include <stddef.h>

/* Makes a JSON string; bytes that are not UTF-8 become U+FFFD. Returns NULL if memory is exhausted. */
json_t *tri_json_text(const char *text, size_t bytes);

#endif
