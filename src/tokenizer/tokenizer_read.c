/* Shared by the readers of encoder.json + vocab.bpe and of tokenizer.json: tokens and merges, spelled in byte letters.
 * The files are untrusted, so every number and every string is checked here. */
#include "tokenizer/tokenizer_internal.h"

#include "base/memory.h"
#include "files/json_kind.h"
#include "files/json_reader.h"
#include "tokenizer/utf8.h"

#include <string.h>

tri_status tri_tokenizer_load_json(const char *file, const char *text, size_t bytes, json_t **out) {
  json_t *root = NULL;
  TRI_TRY(tri_json_parse(file, text, bytes, JSON_REJECT_DUPLICATES, &root));
  if (!json_is_object(root)) {
    json_decref(root);
    return tri_fail(TRI_BAD_FILE, "%s: the file must contain a JSON object", file);
  }
  *out = root;
  return TRI_OK;
}

const char *tri_tokenizer_show(const char *token, size_t bytes, char out[TRI_SHOWN_BYTES]) {
  size_t length = 0;
  for (size_t i = 0; i < bytes;) {
    uint32_t code = 0;
    size_t step = tri_utf8_decode(token + i, bytes - i, &code);
    bool clean = step > 0 && code >= 0x20 && (code < 0x7F || code >= 0xA0);
    size_t put = clean ? step : 1;
    if (length + put + sizeof "..." > TRI_SHOWN_BYTES) {
      memcpy(out + length, "...", 3);
      length += 3;
      break;
    }
    memcpy(out + length, clean ? token + i : "?", put);
    length += put;
    i += step > 0 ? step : 1;
  }
  out[length] = '\0';
  return out;
}

tri_status tri_json_bool(const char *where, const json_t *object, const char *key, bool otherwise, bool *out) {
  const json_t *value = json_object_get(object, key);
  if (value != NULL && !json_is_null(value) && !json_is_boolean(value)) {
    return tri_fail(TRI_BAD_FILE, "%s: \"%s\" must be true or false, not %s", where, key, tri_json_kind(value));
  }
  *out = value == NULL || json_is_null(value) ? otherwise : json_is_true(value);
  return TRI_OK;
}

tri_status tri_json_string(const char *where, const json_t *object, const char *key, const char *otherwise,
                           const char **out) {
  const json_t *value = json_object_get(object, key);
  if (value != NULL && !json_is_null(value) && !json_is_string(value)) {
    return tri_fail(TRI_BAD_FILE, "%s: \"%s\" must be a string, not %s", where, key, tri_json_kind(value));
  }
  *out = value == NULL || json_is_null(value) ? otherwise : json_string_value(value);
  return TRI_OK;
}

/* Converts byte letters to *out_bytes bytes. Returns false if one of the characters is not a byte letter. `out` has
 * room for `bytes` bytes. */
static bool spell(const char *letters, size_t bytes, char *out, size_t *out_bytes) {
  size_t count = 0;
  for (size_t i = 0; i < bytes;) {
    uint32_t code = 0;
    size_t step = tri_utf8_decode(letters + i, bytes - i, &code);
    int byte = step > 0 ? tri_letter_byte(code) : -1;
    if (byte < 0) return false;
    out[count++] = (char)(uint8_t)byte;
    i += step;
  }
  *out_bytes = count;
  return true;
}

/* Fails with TRI_BAD_FILE if an id is not in range. Finds the largest id, and the length of the longest token. */
static tri_status check_ids(const char *where, json_t *object, int64_t *largest, size_t *longest) {
  const char *key = NULL;
  json_t *value = NULL;
  char shown[TRI_SHOWN_BYTES];
  json_object_foreach(object, key, value) {
    if (!json_is_integer(value)) {
      return tri_fail(TRI_BAD_FILE, "%s: the id of \"%s\" must be a whole number, not %s", where,
                      tri_tokenizer_show(key, strlen(key), shown), tri_json_kind(value));
    }
    json_int_t id = json_integer_value(value);
    if (id < 0 || id >= TRI_MAX_VOCABULARY) {
      return tri_fail(TRI_BAD_FILE, "%s: the id of \"%s\" is %lld; ids must be between 0 and %d", where,
                      tri_tokenizer_show(key, strlen(key), shown), (long long)id, TRI_MAX_VOCABULARY - 1);
    }
    if (id > *largest) *largest = id;
    if (strlen(key) > *longest) *longest = strlen(key);
  }
  return TRI_OK;
}

/* Converts the spelling of a token to its bytes; returns false if that is impossible. `out` has room for `bytes`. */
static bool spell_token(const tri_vocabulary *vocabulary, const char *token, size_t bytes, char *out,
                        size_t *out_bytes) {
  if (!vocabulary->characters) return spell(token, bytes, out, out_bytes);
  memcpy(out, token, bytes);
  *out_bytes = bytes;
  return true;
}

tri_status tri_tokenizer_enter_added(tri_vocabulary *vocabulary, int32_t id, const char *content, size_t bytes) {
  char *spelled = NULL;
  size_t count = 0;
  TRI_TRY(tri_alloc("an added token", bytes, 1, &spelled));
  const bool letters = spell_token(vocabulary, content, bytes, spelled, &count);
  const tri_status status =
      tri_vocabulary_add(vocabulary, id, letters ? spelled : content, letters ? count : bytes, false);
  tri_free(spelled);
  return status;
}

/* Adds the tokens. `scratch` has room for the longest one. Fails with TRI_BAD_FILE if a token is empty, an id occurs
 * twice, or a key outside of `added` has a letter that is not a byte letter. */
static tri_status add_tokens(const char *where, json_t *object, const json_t *added, char *scratch,
                             tri_vocabulary *vocabulary) {
  const char *key = NULL;
  json_t *value = NULL;
  char shown[TRI_SHOWN_BYTES], other[TRI_SHOWN_BYTES];
  json_object_foreach(object, key, value) {
    int32_t id = (int32_t)json_integer_value(value);
    size_t letters = strlen(key), bytes = 0;
    tri_token *taken = &vocabulary->tokens[id];
    tri_tokenizer_show(key, letters, shown);
    if (letters == 0) return tri_fail(TRI_BAD_FILE, "%s: the token with id %d is empty", where, id);
    if (taken->bytes > 0) {
      return tri_fail(TRI_BAD_FILE, "%s: \"%s\" and the token for \"%s\" have the same id %d", where, shown,
                      tri_tokenizer_show(vocabulary->pool + taken->offset, taken->bytes, other), id);
    }
    if (spell_token(vocabulary, key, letters, scratch, &bytes)) {
      TRI_TRY(tri_vocabulary_add(vocabulary, id, scratch, bytes, true));
    } else if (json_object_get(added, key) != NULL) {
      TRI_TRY(tri_vocabulary_add(vocabulary, id, key, letters, false));
    } else {
      return tri_fail(TRI_BAD_FILE,
                      "%s: \"%s\" (id %d) has a letter that no byte is written as; this is not a byte-level vocabulary",
                      where, shown, id);
    }
  }
  return TRI_OK;
}

tri_status tri_tokenizer_begin_vocabulary(const char *where, json_t *object, const tri_vocabulary_options *options,
                                          tri_tokenizer **out) {
  int64_t count = (int64_t)json_object_size(object), largest = options->least_size - 1;
  if (count == 0) return tri_fail(TRI_BAD_FILE, "%s: the vocabulary is empty", where);
  size_t longest = 0;
  TRI_TRY(check_ids(where, object, &largest, &longest));
  if (largest >= 65536 + 2 * count) { /* real vocabularies have few unused ids */
    return tri_fail(TRI_BAD_FILE, "%s: %lld tokens have ids up to %lld; most ids would have no token", where,
                    (long long)count, (long long)largest);
  }
  char *scratch = NULL;
  tri_tokenizer *tokenizer = NULL;
  tri_status status = TRI_OK;
  TRI_TRY(tri_alloc("a token", longest, 1, &scratch));
  TRI_TRY_GOTO(tri_tokenizer_begin(largest + 1, &tokenizer), release);
  tokenizer->vocabulary.characters = options->characters;
  TRI_TRY_GOTO(add_tokens(where, object, options->added, scratch, &tokenizer->vocabulary), release);
  *out = tokenizer;
  tokenizer = NULL;
release:
  tri_tokenizer_destroy(tokenizer);
  tri_free(scratch);
  return status;
}

tri_status tri_merge_reader_add(tri_merge_reader *reader, const char *left, size_t left_bytes, const char *right,
                                size_t right_bytes) {
  TRI_TRY(tri_reserve("a merge", 1, left_bytes + right_bytes, &reader->room, &reader->scratch));
  const char *letters[2] = {left, right};
  size_t counts[2] = {left_bytes, right_bytes};
  int32_t ids[2];
  size_t length = 0;
  char shown[TRI_SHOWN_BYTES], other[TRI_SHOWN_BYTES];
  for (int side = 0; side < 2; side++) {
    size_t bytes = 0;
    bool spelled = spell_token(reader->vocabulary, letters[side], counts[side], reader->scratch + length, &bytes);
    ids[side] = spelled ? tri_vocabulary_find(reader->vocabulary, reader->scratch + length, bytes) : -1;
    if (ids[side] < 0) {
      return tri_fail(TRI_BAD_FILE, "%s: %s %lld: the token \"%s\" is not in the vocabulary", reader->file,
                      reader->kind, (long long)reader->number, tri_tokenizer_show(letters[side], counts[side], shown));
    }
    length += bytes;
  }
  int32_t result = tri_vocabulary_find(reader->vocabulary, reader->scratch, length);
  if (result < 0) {
    return tri_fail(TRI_BAD_FILE, "%s: %s %lld: \"%s\" and \"%s\" merge into a token that is not in the vocabulary",
                    reader->file, reader->kind, (long long)reader->number, tri_tokenizer_show(left, left_bytes, shown),
                    tri_tokenizer_show(right, right_bytes, other));
  }
  return tri_vocabulary_add_merge(reader->vocabulary, ids[0], ids[1], result);
}

tri_status tri_merge_reader_add_line(tri_merge_reader *reader, const char *line, size_t bytes) {
  const char *space = memchr(line, ' ', bytes);
  size_t left = space != NULL ? (size_t)(space - line) : 0;
  if (space == NULL || left == 0 || left + 1 == bytes || memchr(space + 1, ' ', bytes - left - 1) != NULL) {
    char shown[TRI_SHOWN_BYTES];
    return tri_fail(TRI_BAD_FILE, "%s: %s %lld: \"%s\" is not two tokens with one space between them", reader->file,
                    reader->kind, (long long)reader->number, tri_tokenizer_show(line, bytes, shown));
  }
  return tri_merge_reader_add(reader, line, left, space + 1, bytes - left - 1);
}
