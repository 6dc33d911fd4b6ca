/* Python's functions of str on UTF-8. Positions and lengths are of characters, as Python counts them. */
#ifndef TRI_CHAT_TEXT_H
#define TRI_CHAT_TEXT_H

#include "chat/value.h"

/* Characters of a text. */
int64_t tri_chat_text_length(const char *text, size_t bytes);
/* The byte at which character `index` begins; `bytes` where there are fewer. */
size_t tri_chat_text_offset(const char *text, size_t bytes, int64_t index);

/* What str.isspace finds. */
bool tri_chat_is_space(uint32_t code);

/* [*begin, *end) without white space, or without the characters of `set` (NULL: white space), on either side. */
void tri_chat_text_strip(const char *text, const tri_chat_value *set, bool left, bool right, size_t *begin,
                         size_t *end);

/* Where the line at `from` ends; *next is where the next one begins. Lines are those of str.splitlines. */
size_t tri_chat_text_line(const char *text, size_t bytes, size_t from, size_t *next);

typedef enum tri_chat_case {
  TRI_CHAT_UPPER,
  TRI_CHAT_LOWER,
  TRI_CHAT_TITLE,   /* of each word the first letter is large */
  TRI_CHAT_CAPITAL, /* of the text the first letter, in title case */
  TRI_CHAT_INITIAL  /* of the text the first letter, in upper case */
} tri_chat_case;

/* Letters whose other case is more than one letter, and signs that may be letters within a word, are TRI_UNSUPPORTED,
 * and the message names the first. */
tri_status tri_chat_text_case(tri_chat_arena *arena, tri_chat_value string, tri_chat_case to, tri_chat_value *out);

/* Where `part` first occurs at or behind `from`; SIZE_MAX: nowhere. */
size_t tri_chat_text_find(const char *text, size_t bytes, size_t from, tri_chat_value part);

#endif
