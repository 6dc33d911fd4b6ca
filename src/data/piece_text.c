/* Finds the text of a piece of input: the piece itself or, in JSON lines, the string of a key of its object. */
#include "data/text_input.h"

#include "chat/forms.h"
#include "chat/preference_forms.h"
#include "data/json_line.h"
#include "data/text_check.h"
#include "files/file.h"
#include "files/json_kind.h"
#include "files/json_reader.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* Writes the keys of an object, "`a`, `b` and `c`", so that a message shows the possible values of --key. */
static void list_keys(json_t *object, char *out, size_t out_bytes) {
  size_t held = 0, left = json_object_size(object);
  const char *key = NULL;
  json_t *value = NULL;
  out[0] = '\0';
  json_object_foreach(object, key, value) {
    int length = snprintf(out + held, out_bytes - held, "%s`%.60s`", held == 0 ? "" : left == 1 ? " and " : ", ", key);
    if (length < 0 || (size_t)length >= out_bytes - held) {
      snprintf(out + held, out_bytes - held, "...");
      return;
    }
    held += (size_t)length;
    left--;
  }
}

static tri_status find_text(const char *path, int64_t line, json_t *root, const char *key, json_t **out) {
  if (!json_is_object(root)) {
    return tri_fail(TRI_BAD_FILE, "%s line %" PRId64 " is %s; each record must be an object with the key `%s`", path,
                    line, tri_json_kind(root), key);
  }
  json_t *value = json_object_get(root, key);
  if (value == NULL || json_is_null(value)) {
    char keys[512];
    list_keys(root, keys, sizeof keys);
    const tri_chat_form *form = NULL;
    const tri_preference_form *preference = NULL;
    if (tri_preference_form_of(root, &preference) == TRI_OK) {
      return tri_fail(
          TRI_BAD_FILE,
          "%s line %" PRId64
          " has no key `%s`; it has %s, as preferences have (form %s): did you mean --preferences? Or choose "
          "a text with --key",
          path, line, key, keys, preference->name);
    }
    if (tri_chat_form_of(root, &(tri_chat_reading){0}, &form) == TRI_OK) {
      return tri_fail(TRI_BAD_FILE,
                      "%s line %" PRId64
                      " has no key `%s`; it has %s, as conversations have (form %s): did you mean "
                      "--chat? Or choose a text with --key",
                      path, line, key, keys, form->name);
    }
    if (value == NULL) {
      return tri_fail(TRI_BAD_FILE, "%s line %" PRId64 " has no key `%s`; it has %s: choose with --key", path, line,
                      key, keys[0] == '\0' ? "none" : keys);
    }
  }
  if (!json_is_string(value)) {
    return tri_fail(TRI_BAD_FILE, "%s line %" PRId64 ": `%s` is %s, not a string", path, line, key,
                    tri_json_kind(value));
  }
  *out = value;
  return TRI_OK;
}

tri_status tri_piece_text_get(tri_text_block *block, const tri_text_piece *piece, const char *key,
                              tri_piece_text *out) {
  char *text = block->text + piece->offset;
  if (!block->json) {
    *out = (tri_piece_text){text, piece->bytes, NULL};
    return TRI_OK;
  }
  tri_piece_text found = {0};
  if (tri_json_line_string(text, piece->bytes, key, &found.text, &found.bytes)) {
    *out = found;
    return TRI_OK;
  }
  /* Most likely the line is invalid, and this parser reports the error. */
  json_t *root = NULL;
  TRI_TRY(tri_json_parse_line(block->path, piece->line, text, piece->bytes, JSON_ALLOW_NUL | JSON_DECODE_ANY, &root));
  json_t *value = NULL;
  tri_status status = find_text(block->path, piece->line, root, key, &value);
  if (status == TRI_OK) *out = (tri_piece_text){json_string_value(value), json_string_length(value), root};
  if (status != TRI_OK) json_decref(root);
  return status;
}

tri_status tri_piece_text_get_clean(tri_text_block *block, const tri_text_piece *piece, const char *key,
                                    tri_piece_text *out) {
  size_t at = 0;
  char where[TRI_PATH_BYTES + 32];
  TRI_TRY(tri_piece_text_get(block, piece, key, out));
  if (tri_text_is_clean(out->text, out->bytes, &at)) return TRI_OK;
  const bool nul = out->text[at] == '\0';
  tri_piece_text_release(out);
  snprintf(where, sizeof where, "%s document %" PRId64, block->path, piece->document + 1);
  if (block->json) snprintf(where, sizeof where, "%s line %" PRId64, block->path, piece->line);
  return tri_fail(TRI_BAD_FILE, "%s: byte %zu of the text is %s", where, at, nul ? "NUL" : "not UTF-8");
}

void tri_piece_text_release(tri_piece_text *text) {
  json_decref(text->memory);
  *text = (tri_piece_text){0};
}
