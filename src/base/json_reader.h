/* Reading an object of a JSON file key by key: of the type that is wanted, or a failure that names the file and the
 * key. A key that is missing or null has its fallback. */
#ifndef TRI_BASE_JSON_READER_H
#define TRI_BASE_JSON_READER_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* LOCAL. A whole JSON file that was read, with Jansson's flags; a byte order mark is passed over. What cannot be parsed
 * is TRI_BAD_FILE: the message says where, or what the file is instead (file_kind.h). Release *out with json_decref. */
tri_status tri_json_parse(const char *path, const char *text, size_t bytes, size_t flags, json_t **out);

/* LOCAL. The same of a file that Python programs write and read: a key that stands twice has its last value, as there,
 * and a warning says so. */
tri_status tri_json_parse_last(const char *path, const char *text, size_t bytes, json_t **out);

/* LOCAL. A line of a file of JSON lines, with Jansson's flags. What cannot be parsed is TRI_BAD_FILE: the message says
 * where, or in the first line what the file is instead, and what to do about bytes that are not UTF-8. */
tri_status tri_json_parse_line(const char *path, int64_t line, const char *text, size_t bytes, size_t flags,
                               json_t **out);

/* LOCAL. Reads and parses FOLDER/NAME, which has at most `limit_bytes`, as tri_json_parse does without flags. */
tri_status tri_json_read_in(const char *folder, const char *name, size_t limit_bytes, json_t **out);

typedef struct tri_json_reader {
  const char *path; /* of the file, for messages */
  const json_t *object;
} tri_json_reader;

/* NULL if it is missing or null. */
const json_t *tri_reader_get(const tri_json_reader *from, const char *key);

/* Of at least 1; the same where null stands for 0, and only a missing key for the fallback; of at least 0. */
tri_status tri_reader_size(const tri_json_reader *from, const char *key, int64_t fallback, int64_t *out);
tri_status tri_reader_size_or_null(const tri_json_reader *from, const char *key, int64_t fallback, int64_t *out);
tri_status tri_reader_count(const tri_json_reader *from, const char *key, int64_t fallback, int64_t *out);
tri_status tri_reader_number(const tri_json_reader *from, const char *key, double fallback, double *out);
tri_status tri_reader_positive(const tri_json_reader *from, const char *key, double fallback, double *out);
tri_status tri_reader_bool(const tri_json_reader *from, const char *key, bool fallback, bool *out);
tri_status tri_reader_word(const tri_json_reader *from, const char *key, const char *fallback, const char **out);

/* The failure: "PATH: `KEY` is 3, but should be WANTED". */
tri_status tri_reader_wrong(const tri_json_reader *from, const char *key, const char *wanted);

#endif
