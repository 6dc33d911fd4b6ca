/* Python's methods of str on UTF-8. Positions and lengths count characters, as in Python. */
#ifndef TRI_CHAT_TEXT_H
#define TRI_CHAT_TEXT_H

#include "chat/value.h"

/* Returns the number of characters of a text. */
int64_t tri_chat_text_length(const char *text, size_t bytes);
/* Returns the byte offset of character `index`; `bytes` if there are fewer. */
size_t tri_chat_text_offset(const char *text, size_t bytes, int64_t index);

/* Returns str.isspace of a character. */
bool tri_chat_is_space(uint32_t code);

/* Moves *begin and *end so that characters of `set` (NULL: white space) are removed from either side of [*begin,
 * *end). */
void tri_chat_text_strip(const char *text, const tri_chat_value *set, bool left, bool right, size_t *begin,
                         size_t *end);

/* Returns the end of the line that begins at `from`, and sets *next to the beginning of the next line. Lines are
 * divided as by str.splitlines. */
size_t tri_chat_text_line(const char *text, size_t bytes, size_t from, size_t *next);

typedef enum tri_chat_case {
  TRI_CHAT_UPPER,
  TRI_CHAT_LOWER,
  TRI_CHAT_TITLE,   /* first letter of each word in title case */
  TRI_CHAT_CAPITAL, /* first letter of the text in title case */
  TRI_CHAT_INITIAL  /* first letter of the text in upper case */
} tri_chat_case;

/* Converts the case. Fails with TRI_UNSUPPORTED for letters whose other case is more than one letter or depends on
 * their neighbours, and for signs that may be letters within a word; the message names the first. */
tri_status tri_chat_text_case(tri_chat_arena *arena, tri_chat_value string, tri_chat_case to, tri_chat_value *out);

/* Returns the offset of the first occurrence of `part` at or after `from`; SIZE_MAX if there is none. */
size_t tri_chat_text_find(const char *text, size_t bytes, size_t from, tri_chat_value part);

#endif
