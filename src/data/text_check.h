/* Checks that a file is text. A file of another kind, NUL bytes and bytes that are not UTF-8 show that it is not a
 * text or has another encoding; a model would learn such bytes without any error. */
#ifndef TRI_DATA_TEXT_CHECK_H
#define TRI_DATA_TEXT_CHECK_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Starts as {.path = path of the file, .json = ...}. */
typedef struct tri_text_check {
  const char *path;
  bool json;               /* whether only the kind of the file is checked, since a parser checks the rest */
  int64_t bytes;           /* number of bytes so far */
  int64_t bad;             /* number of bytes that are not UTF-8 */
  int64_t first_bad;       /* offset of the first bad byte */
  int begun, missing;      /* unfinished character at the end; begun: number of its bytes so far; missing: number of its
                              missing bytes */
  unsigned char low, high; /* valid range of the next byte of that character */
} tri_text_check;

/* LOCAL. Checks the next bytes of the file; `ended`: whether these are the last. Fails with TRI_BAD_FILE for a file of
 * another kind, a NUL byte, or more than 0.1 % of bytes that are not UTF-8 in the first mebibyte or in the whole file.
 */
tri_status tri_text_check_next(tri_text_check *check, const char *text, size_t bytes, bool ended);

/* LOCAL. Returns whether a text has no NUL bytes and is UTF-8; else *at is the offset of the first bad byte. */
bool tri_text_is_clean(const char *text, size_t bytes, size_t *at);

#endif
