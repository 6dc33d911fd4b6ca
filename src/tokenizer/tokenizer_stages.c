/* The normalizer and the pre-tokenizer of a tokenizer.json, as steps and stages. The kinds that usual BPE vocabularies
 * have are supported; other kinds are refused by name, because ignoring them would give wrong ids. */
#include "tokenizer/tokenizer_internal.h"

#include "tokenizer/utf8.h"

#include <stdio.h>
#include <string.h>

static const char *type_of(const json_t *object, char shown[TRI_SHOWN_BYTES]) {
  const char *type = json_string_value(json_object_get(object, "type"));
  return type == NULL ? "without a \"type\"" : tri_tokenizer_show(type, strlen(type), shown);
}

static bool is_type(const json_t *object, const char *type) {
  const char *own = json_string_value(json_object_get(object, "type"));
  return own != NULL && strcmp(own, type) == 0;
}

tri_status tri_text_steps_read_replace(const char *where, const json_t *object, tri_text_steps *out) {
  const json_t *pattern = json_object_get(object, "pattern"), *content = json_object_get(object, "content");
  const json_t *plain = json_object_get(pattern, "String");
  if (json_object_get(pattern, "Regex") != NULL) {
    return tri_fail(TRI_UNSUPPORTED, "%s: a Replace with a Regex is not supported; one with a String is", where);
  }
  if (!json_is_string(plain) || !json_is_string(content)) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: a Replace must have a \"pattern\" {\"String\": \"...\"} and a string \"content\"", where);
  }
  if (json_string_length(plain) == 0) {
    return tri_fail(TRI_UNSUPPORTED, "%s: a Replace of an empty string is not supported", where);
  }
  return tri_text_steps_add_replace(out, where, json_string_value(plain), json_string_length(plain),
                                    json_string_value(content), json_string_length(content));
}

static tri_status read_prepend(const char *where, const json_t *object, tri_text_steps *out) {
  const json_t *text = json_object_get(object, "prepend");
  if (!json_is_string(text)) return tri_fail(TRI_BAD_FILE, "%s: the \"prepend\" of a Prepend must be a string", where);
  if (json_string_length(text) == 0) {
    return tri_fail(TRI_UNSUPPORTED, "%s: a Prepend of an empty string is not supported; leave it out", where);
  }
  return tri_text_steps_add_prepend(out, where, json_string_value(text), json_string_length(text), false, false);
}

static tri_status read_normalizer(const char *where, const json_t *object, int depth, tri_text_steps *out) {
  char shown[TRI_SHOWN_BYTES];
  const json_t *list = json_object_get(object, "normalizers");
  if (object == NULL || json_is_null(object)) return TRI_OK;
  if (is_type(object, "NFC")) return tri_text_steps_add_nfc(out, where);
  if (is_type(object, "Replace")) return tri_text_steps_read_replace(where, object, out);
  if (is_type(object, "Prepend")) return read_prepend(where, object, out);
  if (!is_type(object, "Sequence") || !json_is_array(list) || depth == TRI_DEEPEST_SEQUENCE) {
    return tri_fail(TRI_UNSUPPORTED,
                    "%s: the normalizer %s is not supported; NFC, Replace, Prepend, none, and a Sequence of these are",
                    where, type_of(object, shown));
  }
  size_t index = 0;
  json_t *entry = NULL;
  json_array_foreach(list, index, entry) TRI_TRY(read_normalizer(where, entry, depth + 1, out));
  return TRI_OK;
}

/* Also reads add_prefix_space of older files; false means prepend_scheme "never". Fails with TRI_BAD_FILE if the two
 * contradict each other, or the mark is not one character; with TRI_UNSUPPORTED for another prepend_scheme. */
tri_status tri_metaspace_read(const char *where, const json_t *object, tri_metaspace *out) {
  const char *mark = NULL, *scheme = NULL;
  bool prefix = true;
  uint32_t code = 0;
  TRI_TRY(tri_json_string(where, object, "replacement", "", &mark));
  TRI_TRY(tri_json_string(where, object, "prepend_scheme", NULL, &scheme));
  TRI_TRY(tri_json_bool(where, object, "add_prefix_space", true, &prefix));
  TRI_TRY(tri_json_bool(where, object, "split", true, &out->splits));
  if (mark[0] == '\0' || tri_utf8_decode(mark, strlen(mark), &code) != strlen(mark)) {
    return tri_fail(TRI_BAD_FILE, "%s: the \"replacement\" of Metaspace must be one character", where);
  }
  memcpy(out->mark, mark, strlen(mark) + 1);
  if (scheme == NULL) scheme = prefix ? "always" : "never";
  bool never = strcmp(scheme, "never") == 0;
  out->only_first = strcmp(scheme, "first") == 0;
  if (!never && !out->only_first && strcmp(scheme, "always") != 0) {
    char shown[TRI_SHOWN_BYTES];
    return tri_fail(TRI_UNSUPPORTED, "%s: the prepend_scheme %s is not supported; always, first and never are", where,
                    tri_tokenizer_show(scheme, strlen(scheme), shown));
  }
  if (!prefix && !never) {
    return tri_fail(TRI_BAD_FILE, "%s: Metaspace has add_prefix_space false and prepend_scheme %s, which is not never",
                    where, scheme);
  }
  out->prepends = !never;
  return TRI_OK;
}

/* Reads Metaspace, which changes the text and then cuts it. Fails with TRI_UNSUPPORTED if it is not the first stage
 * that cuts. */
static tri_status read_metaspace(const char *where, const json_t *object, tri_tokenizer *out) {
  tri_metaspace space = {0};
  TRI_TRY(tri_metaspace_read(where, object, &space));
  size_t bytes = strlen(space.mark);
  if (out->pretokenizer.count > 0 || out->spaces.count > 0) {
    return tri_fail(TRI_UNSUPPORTED, "%s: Metaspace after another pre-tokenizer is not supported", where);
  }
  TRI_TRY(tri_text_steps_add_replace(&out->spaces, where, " ", 1, space.mark, bytes));
  if (space.prepends) {
    TRI_TRY(tri_text_steps_add_prepend(&out->spaces, where, space.mark, bytes, space.only_first, true));
  }
  if (!space.splits) return TRI_OK;
  return tri_pretokenizer_add_string(&out->pretokenizer, where, TRI_STAGE_WITH_NEXT, space.mark, bytes);
}

/* Reads {"type": "Split", "pattern": {"Regex": ...} or {"String": ...}, "behavior": "Isolated", "invert": false}. Fails
 * with TRI_BAD_FILE if there is no pattern, with TRI_UNSUPPORTED for combinations that this program lacks. */
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
  bool kept_alone = strcmp(behavior, "Removed") == 0 && invert; /* unmatched text is removed */
  bool joined = json_is_string(plain) && !invert &&
                (strcmp(behavior, "MergedWithPrevious") == 0 || strcmp(behavior, "MergedWithNext") == 0);
  if (!isolated && !kept_alone && !joined) {
    char shown[TRI_SHOWN_BYTES];
    return tri_fail(TRI_UNSUPPORTED,
                    "%s: a Split with the behavior \"%s\"%s is not supported; Isolated is, Removed with invert, and "
                    "MergedWithPrevious and MergedWithNext of a String",
                    where, tri_tokenizer_show(behavior, strlen(behavior), shown), invert ? " and invert" : "");
  }
  const json_t *text = json_is_string(regex) ? regex : plain;
  if (joined) {
    bool next = strcmp(behavior, "MergedWithNext") == 0;
    return tri_pretokenizer_add_string(out, where, next ? TRI_STAGE_WITH_NEXT : TRI_STAGE_WITH_PREVIOUS,
                                       json_string_value(text), json_string_length(text));
  }
  return tri_pretokenizer_add_pattern(out, where, json_string_value(text), json_string_length(text), text == plain,
                                      kept_alone);
}

static tri_status read_byte_level(const char *where, const json_t *object, tri_pretokenizer *out) {
  bool prefix = false, regex = false;
  TRI_TRY(tri_json_bool(where, object, "add_prefix_space", true, &prefix));
  TRI_TRY(tri_json_bool(where, object, "use_regex", true, &regex));
  if (prefix) TRI_TRY(tri_pretokenizer_add_stage(out, where, TRI_STAGE_SPACE));
  if (!regex) return TRI_OK;
  return tri_pretokenizer_add_pattern(out, where, tri_pattern_gpt2, strlen(tri_pattern_gpt2), false, false);
}

static tri_status read_digits(const char *where, const json_t *object, tri_pretokenizer *out) {
  bool single = false;
  TRI_TRY(tri_json_bool(where, object, "individual_digits", false, &single));
  const char *pattern = single ? TRI_PATTERN_DIGIT : TRI_PATTERN_DIGIT "+";
  return tri_pretokenizer_add_pattern(out, where, pattern, strlen(pattern), false, false);
}

static tri_status read_punctuation(const char *where, const json_t *object, tri_pretokenizer *out) {
  const char *behavior = NULL;
  TRI_TRY(tri_json_string(where, object, "behavior", "Isolated", &behavior));
  bool alone = strcmp(behavior, "Isolated") == 0;
  if (!alone && strcmp(behavior, "Contiguous") != 0) {
    char shown[TRI_SHOWN_BYTES];
    return tri_fail(TRI_UNSUPPORTED,
                    "%s: Punctuation with the behavior \"%s\" is not supported; Isolated and Contiguous are", where,
                    tri_tokenizer_show(behavior, strlen(behavior), shown));
  }
  const char *pattern = alone ? TRI_PATTERN_PUNCTUATION : TRI_PATTERN_PUNCTUATION "+";
  return tri_pretokenizer_add_pattern(out, where, pattern, strlen(pattern), false, false);
}

/* State of reading the pre-tokenizers. */
typedef struct stages_reader {
  const char *where;
  tri_tokenizer *tokenizer;
  bool byte_level; /* whether ByteLevel has been read */
} stages_reader;

static tri_status read_one(stages_reader *reader, const json_t *object) {
  tri_pretokenizer *out = &reader->tokenizer->pretokenizer;
  const char *where = reader->where;
  bool again = is_type(object, "ByteLevel") && reader->byte_level;
  if (reader->byte_level && !out->letters && !again) {
    TRI_TRY(tri_pretokenizer_add_stage(out, where, TRI_STAGE_LETTERS)); /* later stages get the letters of ByteLevel */
  }
  if (is_type(object, "Split")) return read_split(where, object, out);
  if (is_type(object, "Digits")) return read_digits(where, object, out);
  if (is_type(object, "Punctuation")) return read_punctuation(where, object, out);
  if (is_type(object, "Metaspace") && reader->tokenizer->vocabulary.characters) {
    return read_metaspace(where, object, reader->tokenizer);
  }
  if (is_type(object, "ByteLevel") && !again) {
    reader->byte_level = true;
    return read_byte_level(where, object, out);
  }
  char shown[TRI_SHOWN_BYTES];
  return tri_fail(TRI_UNSUPPORTED,
                  "%s: the pre-tokenizer %s is not supported%s; ByteLevel, Metaspace, Split, Digits, Punctuation and a "
                  "Sequence of these are",
                  where, type_of(object, shown),
                  again || is_type(object, "Metaspace") ? " together with ByteLevel" : "");
}

static tri_status read_pretokenizer(stages_reader *reader, const json_t *object, int depth) {
  const json_t *list = json_object_get(object, "pretokenizers");
  if (!is_type(object, "Sequence") || !json_is_array(list) || depth == TRI_DEEPEST_SEQUENCE)
    return read_one(reader, object);
  size_t index = 0;
  json_t *entry = NULL;
  json_array_foreach(list, index, entry) TRI_TRY(read_pretokenizer(reader, entry, depth + 1));
  return TRI_OK;
}

static bool has_byte_level(const json_t *object, int depth) {
  const json_t *list = json_object_get(object, "pretokenizers");
  size_t index = 0;
  json_t *entry = NULL;
  if (is_type(object, "ByteLevel")) return true;
  if (!is_type(object, "Sequence") || !json_is_array(list) || depth == TRI_DEEPEST_SEQUENCE) return false;
  json_array_foreach(list, index, entry) {
    if (has_byte_level(entry, depth + 1)) return true;
  }
  return false;
}

bool tri_tokenizer_is_byte_level(const json_t *root) {
  return has_byte_level(json_object_get(root, "pre_tokenizer"), 0);
}

static bool is_character(const char *text, size_t bytes) {
  uint32_t code = 0;
  return bytes > 0 && tri_utf8_decode(text, bytes, &code) == bytes;
}

/* Fails with TRI_UNSUPPORTED for prepend_scheme "first" after a normalizer that moves the beginning of a text:
 * `tokenizers` takes a piece as the first one if its first letter comes from the beginning of the original text; we
 * take the beginning of the normalized text. */
static tri_status check_first(const char *where, const tri_tokenizer *tokenizer) {
  bool only_first = false, moves = false;
  for (int i = 0; i < tokenizer->spaces.count; i++) only_first |= tokenizer->spaces.steps[i].only_first;
  for (int i = 0; i < tokenizer->normalizer.count; i++) {
    const tri_text_step *step = &tokenizer->normalizer.steps[i];
    moves |= step->kind == TRI_TEXT_PREPEND;
    moves |= step->kind == TRI_TEXT_REPLACE &&
             !(is_character(step->find, step->find_bytes) && is_character(step->put, step->put_bytes));
  }
  if (!only_first || !moves) return TRI_OK;
  return tri_fail(
      TRI_UNSUPPORTED,
      "%s: the prepend_scheme first is not supported with the normalizer Prepend, or Replace of anything but "
      "one character by one",
      where);
}

tri_status tri_tokenizer_read_stages(const char *file, const json_t *root, tri_tokenizer *tokenizer) {
  char where[512];
  snprintf(where, sizeof where, "%s: normalizer", file);
  TRI_TRY(read_normalizer(where, json_object_get(root, "normalizer"), 0, &tokenizer->normalizer));
  const json_t *pretokenizer = json_object_get(root, "pre_tokenizer");
  snprintf(where, sizeof where, "%s: pre_tokenizer", file);
  stages_reader reader = {.where = where, .tokenizer = tokenizer};
  if (pretokenizer == NULL || json_is_null(pretokenizer)) return TRI_OK;
  TRI_TRY(read_pretokenizer(&reader, pretokenizer, 0));
  return check_first(where, tokenizer);
}
