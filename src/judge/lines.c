#include "judge/lines.h"

#include "base/memory.h"
#include "data/json_array.h"
#include "data/text_stream.h"
#include "files/file_kind.h"
#include "files/json_kind.h"
#include "files/json_reader.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { PIECE_BYTES = 1 << 20 };

void tri_judge_text_release(tri_judge_text *text) {
  tri_free(text->text);
  *text = (tri_judge_text){0};
}

tri_status tri_judge_text_of(const json_t *string, tri_judge_text *out) {
  out->bytes = json_string_length(string);
  return tri_strdup(json_string_value(string), &out->text);
}

void tri_judge_strip(char *text) {
  static const char spaces[] = " \t\n\v\f\r";
  const size_t before = strspn(text, spaces);
  size_t bytes = strlen(text) - before;
  memmove(text, text + before, bytes + 1);
  while (bytes > 0 && strchr(spaces, text[bytes - 1]) != NULL) text[--bytes] = '\0';
}

/* Reads a whole file into memory. Files of questions are small compared with a training corpus. Release *out with
 * tri_free. */
static tri_status read_all(const char *path, char **out, size_t *bytes) {
  tri_text_stream *stream = NULL;
  char *text = NULL;
  size_t held = 0, got = PIECE_BYTES;
  TRI_TRY(tri_text_stream_open(path, &stream));
  tri_status status = TRI_OK;
  while (got == PIECE_BYTES && status == TRI_OK) {
    status = tri_realloc("a file of questions", held + PIECE_BYTES, 1, &text);
    if (status == TRI_OK) status = tri_text_stream_read(stream, text + held, PIECE_BYTES, &got);
    held += got;
  }
  tri_text_stream_close(stream);
  if (status == TRI_OK) *out = text, *bytes = held;
  if (status != TRI_OK) tri_free(text);
  return status;
}

static bool is_blank(const char *text, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    if (strchr(" \t\r", text[i]) == NULL || text[i] == '\0') return false;
  }
  return true;
}

static tri_status name_line(const char *path, int64_t line, tri_status status) {
  char message[4096];
  if (status != TRI_BAD_FILE) return status;
  snprintf(message, sizeof message, "%s", tri_status_message());
  return tri_fail(status, "%s line %" PRId64 ": %s", path, line, message);
}

static tri_status parse_line(const char *path, int64_t line, const char *text, size_t bytes, tri_judge_read_line take,
                             void *context) {
  json_t *root = NULL;
  TRI_TRY(tri_json_parse_line(path, line, text, bytes, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &root));
  tri_status status = TRI_OK;
  tri_json_drop_nulls(root);
  if (json_is_object(root)) status = take(context, line, root);
  if (!json_is_object(root)) status = tri_fail(TRI_BAD_FILE, "the line is %s, not an object", tri_json_kind(root));
  json_decref(root);
  return name_line(path, line, status);
}

/* Passes the elements of a JSON array to `take`, as tri_judge_lines does with the lines of a file. Adds their number to
 * *taken. */
static tri_status parse_array(const char *path, const char *text, size_t bytes, int64_t limit, tri_judge_read_line take,
                              void *context, int64_t *taken) {
  tri_json_array array = {.path = path};
  tri_json_element element;
  size_t at = 0;
  bool found = true;
  while (*taken < limit) {
    TRI_TRY(tri_json_array_next(&array, text, bytes, true, &at, &element, &found));
    if (!found) return TRI_OK;
    TRI_TRY(parse_line(path, element.line, text + element.begin, element.end - element.begin, take, context));
    *taken += 1;
  }
  return TRI_OK;
}

static tri_status refuse_table(const char *path) {
  char advice[TRI_ADVICE_BYTES];
  return tri_fail(TRI_BAD_FILE, "%s is a table, and questions are JSON: %s", path, tri_table_advice(path, advice));
}

tri_status tri_judge_lines(const char *path, int64_t limit, tri_judge_read_line take, void *context) {
  const int64_t most = limit > 0 ? limit : INT64_MAX;
  char *text = NULL;
  size_t bytes = 0;
  int64_t line = 0, taken = 0;
  if (tri_table_is_named(path)) return refuse_table(path);
  TRI_TRY(read_all(path, &text, &bytes));
  const tri_file_kind *kind = tri_file_kind_of(text, bytes);
  tri_status status = kind == NULL ? TRI_OK : tri_file_kind_refuse(TRI_BAD_FILE, path, kind, "JSON lines");
  const bool is_array = tri_json_array_begins(text, bytes);
  if (is_array && status == TRI_OK) status = parse_array(path, text, bytes, most, take, context, &taken);
  for (size_t at = 0; !is_array && at < bytes && taken < most && status == TRI_OK;) {
    const char *end = memchr(text + at, '\n', bytes - at);
    const size_t length = end == NULL ? bytes - at : (size_t)(end - text) - at;
    line++;
    if (!is_blank(text + at, length)) {
      status = parse_line(path, line, text + at, length, take, context);
      taken++;
    }
    at += length + 1;
  }
  tri_free(text);
  if (status != TRI_OK || taken > 0) return status;
  return tri_fail(TRI_BAD_FILE, "%s has no question: each line is a JSON object", path);
}

tri_status tri_judge_find(const json_t *object, const char *const *keys, int64_t count, const char **key,
                          const json_t **out) {
  *out = NULL;
  for (int64_t i = 0; i < count; i++) {
    const json_t *value = json_object_get(object, keys[i]);
    if (value == NULL) continue;
    if (*out != NULL && !json_equal(*out, value)) {
      return tri_fail(TRI_BAD_FILE,
                      "`%s` and `%s` are both there, and one alone is read: write what belongs together into one of "
                      "them, and leave the other out",
                      *key, keys[i]);
    }
    if (*out != NULL) continue;
    *key = keys[i];
    *out = value;
  }
  return TRI_OK;
}

tri_status tri_judge_find_context(const json_t *object, const char *const *keys, int64_t count, const char **key,
                                  const json_t **out) {
  static const char *const others[] = {"passage", "article", "story", "premise", "hypothesis", "support"};
  TRI_TRY(tri_judge_find(object, keys, count, key, out));
  for (size_t i = 0; *out != NULL && i < sizeof others / sizeof others[0]; i++) {
    if (json_string_length(json_object_get(object, others[i])) == 0) continue;
    return tri_fail(TRI_BAD_FILE,
                    "`%s` is not read together with `%s`; write both into one, as the model should see them", others[i],
                    *key);
  }
  return TRI_OK;
}
