/* Reads the keys of a JSON object. A value of the wrong type is a failure that names the file and the key; a key that
 * is missing or null has the caller's fallback. */
#ifndef TRI_FILES_JSON_READER_H
#define TRI_FILES_JSON_READER_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* LOCAL. Parses the text of a JSON file, with Jansson's flags, after an optional byte order mark. Fails with
 * TRI_BAD_FILE for a syntax error; the message has the place of the error, or the kind of the file if it is not JSON
 * (file_kind.h). Release *out with json_decref. */
tri_status tri_json_parse(const char *path, const char *text, size_t bytes, size_t flags, json_t **out);

/* LOCAL. Parses the text of a JSON file of a Python program as tri_json_parse does. The last value of a repeated key
 * counts, as in Python, and a warning is logged. */
tri_status tri_json_parse_last(const char *path, const char *text, size_t bytes, json_t **out);

/* LOCAL. Parses line number `line` of a file of JSON lines, with Jansson's flags. Fails with TRI_BAD_FILE for a
 * syntax error; the message has the place of the error, and advice if a byte is not UTF-8 or a record is truncated. If
 * the first line shows that the file is not JSON, the message has the kind of the file instead. */
tri_status tri_json_parse_line(const char *path, int64_t line, const char *text, size_t bytes, size_t flags,
                               json_t **out);

/* LOCAL. Reads FOLDER/NAME, of at most `limit_bytes`, and parses it as tri_json_parse does without flags. */
tri_status tri_json_read_in(const char *folder, const char *name, size_t limit_bytes, json_t **out);

typedef struct tri_json_reader {
  const char *path; /* path of the file, for messages */
  const json_t *object;
} tri_json_reader;

/* Returns the value of a key; NULL if it is missing or null. */
const json_t *tri_reader_get(const tri_json_reader *from, const char *key);

/* Reads an integer of at least 1. */
tri_status tri_reader_size(const tri_json_reader *from, const char *key, int64_t fallback, int64_t *out);
/* Reads an integer of at least 1; null gives 0, and only a missing key gives the fallback. */
tri_status tri_reader_size_or_null(const tri_json_reader *from, const char *key, int64_t fallback, int64_t *out);
/* Reads an integer of at least 0. */
tri_status tri_reader_count(const tri_json_reader *from, const char *key, int64_t fallback, int64_t *out);
/* Reads a number. */
tri_status tri_reader_number(const tri_json_reader *from, const char *key, double fallback, double *out);
/* Reads a number above 0; the fallback must be above 0, too. */
tri_status tri_reader_positive(const tri_json_reader *from, const char *key, double fallback, double *out);

tri_status tri_reader_bool(const tri_json_reader *from, const char *key, bool fallback, bool *out);
/* Reads a string, which belongs to the object. */
tri_status tri_reader_word(const tri_json_reader *from, const char *key, const char *fallback, const char **out);

/* Fails with TRI_BAD_FILE and the message "PATH: `KEY` is 3, but should be WANTED". */
tri_status tri_reader_wrong(const tri_json_reader *from, const char *key, const char *wanted);

#endif
