/* Whether bytes are text: a file of another kind, NUL bytes and bytes that are not UTF-8 mean that a file was taken for
 * a text that is not one, or is in another encoding, and a model would learn it without a word. */
#ifndef TRI_DATA_TEXT_CHECK_H
#define TRI_DATA_TEXT_CHECK_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Starts as {.path = PATH, of the file}; `json`: of its bytes only the kind is looked at, since a parser sees the rest.
 */
typedef struct tri_text_check {
  const char *path;
  bool json;
  int64_t bytes;           /* looked at so far                         */
  int64_t bad;             /* of them not UTF-8                        */
  int64_t first_bad;       /* the place of the first of these          */
  int begun, missing;      /* bytes of a character at the end: those that are there, and those that are to come */
  unsigned char low, high; /* between which the next one lies */
} tri_text_check;

/* LOCAL. The next bytes of the file; `ended`: the last ones. TRI_BAD_FILE for a kind that is not text, a NUL byte, and
 * for more than 0.1 % of bytes that are not UTF-8 in the first mebibyte or in all of it. */
tri_status tri_text_check_next(tri_text_check *check, const char *text, size_t bytes, bool ended);

/* LOCAL. Whether a text has neither a NUL byte nor one that is not UTF-8; else *at is the place of the first. */
bool tri_text_is_clean(const char *text, size_t bytes, size_t *at);

#endif
