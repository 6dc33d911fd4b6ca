/* The normalizer and the pre-tokenizer of a tokenizer.json, as stages. Byte-level vocabularies use few of Hugging
 * Face's many: the others are refused by name, because without them the ids would be wrong. */
#include "tokenizer/tokenizer_internal.h"

#include <stdio.h>
#include <string.h>

enum { DEEPEST = 8 }; /* sequences within sequences */

static const char *type_of(const json_t *object, char shown[TRI_SHOWN_BYTES]) {
  const char *type = json_string_value(json_object_get(object, "type"));
  return type == NULL ? "without a \"type\"" : tri_tokenizer_show(type, strlen(type), shown);
}

static bool is_type(const json_t *object, const char *type) {
  const char *own = json_string_value(json_object_get(object, "type"));
  return own != NULL && strcmp(own, type) == 0;
}

static tri_status read_normalizer(const char *where, const json_t *object, int depth, tri_tokenizer *tokenizer) {
  char shown[TRI_SHOWN_BYTES];
  const json_t *list = json_object_get(object, "normalizers");
  if (object == NULL || json_is_null(object)) return TRI_OK;
  if (is_type(object, "NFC")) {
    tokenizer->nfc = true;
    return TRI_OK;
  }
  if (!is_type(object, "Sequence") || !json_is_array(list) || depth == DEEPEST) {
    return tri_fail(TRI_UNSUPPORTED, "%s: the normalizer %s is not supported; NFC, none, and a Sequence of these are",
                    where, type_of(object, shown));
  }
  size_t index = 0;
  json_t *entry = NULL;
  json_array_foreach(list, index, entry) TRI_TRY(read_normalizer(where, entry, depth + 1, tokenizer));
  return TRI_OK;
}

/* {"type": "Split", "pattern": {"Regex": ...} or {"String": ...}, "behavior": "Isolated", "invert": false} */
static tri_status read_split(const char *where, const json_t *object, tri_pretokenizer *out) {
  const char *behavior = NULL;
  bool invert = false;
  const json_t *pattern = json_object_get(object, "pattern");
  const json_t *regex = json_object_get(pattern, "Regex"), *plain = json_object_get(pattern, "String");
  TRI_TRY(tri_json_string(where, object, "behavior", "", &behavior));
  TRI_TRY(tri_json_bool(where, object, "invert", false, &invert));
  if (!json_is_string(regex) && !json_is_string(plain)) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: the \"pattern\" of a Split must be {\"Regex\": \"...\"} or {\"String\": \"...\"}", where);
  }
  bool isolated = strcmp(behavior, "Isolated") == 0;
  bool kept_alone = strcmp(behavior, "Removed") == 0 && invert; /* what does not match is removed */
  if (!isolated && !kept_alone) {
    char shown[TRI_SHOWN_BYTES];
    return tri_fail(TRI_UNSUPPORTED,
                    "%s: a Split with the behavior \"%s\"%s is not supported; Isolated is, and Removed "
                    "with invert",
                    where, tri_tokenizer_show(behavior, strlen(behavior), shown), invert ? " and invert" : "");
  }
  const json_t *text = json_is_string(regex) ? regex : plain;
  return tri_pretokenizer_add_pattern(out, where, json_string_value(text), json_string_length(text), text == plain,
                                      kept_alone);
}

static tri_status read_byte_level(const char *where, const json_t *object, tri_pretokenizer *out) {
  bool prefix = false, regex = false;
  TRI_TRY(tri_json_bool(where, object, "add_prefix_space", true, &prefix));
  TRI_TRY(tri_json_bool(where, object, "use_regex", true, &regex));
  if (prefix) TRI_TRY(tri_pretokenizer_add_space(out, where));
  if (!regex) return TRI_OK;
  return tri_pretokenizer_add_pattern(out, where, tri_pattern_gpt2, strlen(tri_pattern_gpt2), false, false);
}

static tri_status read_digits(const char *where, const json_t *object, tri_pretokenizer *out) {
  bool single = false;
  TRI_TRY(tri_json_bool(where, object, "individual_digits", false, &single));
  const char *pattern = single ? "\\p{N}" : "\\p{N}+";
  return tri_pretokenizer_add_pattern(out, where, pattern, strlen(pattern), false, false);
}

/* *byte_level: whether ByteLevel came already, which must come once and last. */
static tri_status read_pretokenizer(const char *where, const json_t *object, int depth, bool *byte_level,
                                    tri_pretokenizer *out) {
  const json_t *list = json_object_get(object, "pretokenizers");
  if (is_type(object, "Sequence") && json_is_array(list) && depth < DEEPEST) {
    size_t index = 0;
    json_t *entry = NULL;
    json_array_foreach(list, index, entry) TRI_TRY(read_pretokenizer(where, entry, depth + 1, byte_level, out));
    return TRI_OK;
  }
  if (*byte_level) {
    return tri_fail(TRI_UNSUPPORTED, "%s: a pre-tokenizer behind ByteLevel is not supported", where);
  }
  if (is_type(object, "Split")) return read_split(where, object, out);
  if (is_type(object, "Digits")) return read_digits(where, object, out);
  if (is_type(object, "ByteLevel")) {
    *byte_level = true;
    return read_byte_level(where, object, out);
  }
  char shown[TRI_SHOWN_BYTES];
  return tri_fail(TRI_UNSUPPORTED,
                  "%s: the pre-tokenizer %s is not supported; ByteLevel, Split, Digits and a Sequence "
                  "of these are",
                  where, type_of(object, shown));
}

tri_status tri_tokenizer_read_stages(const char *file, const json_t *root, tri_tokenizer *tokenizer) {
  char where[512];
  snprintf(where, sizeof where, "%s: normalizer", file);
  TRI_TRY(read_normalizer(where, json_object_get(root, "normalizer"), 0, tokenizer));
  const json_t *pretokenizer = json_object_get(root, "pre_tokenizer");
  bool byte_level = false;
  snprintf(where, sizeof where, "%s: pre_tokenizer", file);
  if (json_is_object(pretokenizer)) {
    TRI_TRY(read_pretokenizer(where, pretokenizer, 0, &byte_level, &tokenizer->pretokenizer));
  }
  if (byte_level) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED, "%s: there is no ByteLevel in it; only byte-level vocabularies are supported",
                  where);
}
