#include "data/corpus_record.h"

#include "base/memory.h"
#include "config/config.h"
#include "files/file.h"
#include "files/json_reader.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { VERSION = 1, MASKED_VERSION = 2, PREFERENCES_VERSION = 3, LONGEST_BYTES = 64 << 10 };

/* Advice for a damaged record: such a record is never ignored silently. */
#define HINT "; make the corpus again with `trireme prepare --force`, or remove this file to use the corpus without it"

static tri_status read_version(const char *path, const json_t *root) {
  const json_t *version = json_object_get(root, "version");
  if (!json_is_integer(version)) {
    return tri_fail(TRI_BAD_FILE,
                    "%s is not a record that `trireme prepare` wrote for a corpus: it has no \"version\"" HINT, path);
  }
  if (json_integer_value(version) < VERSION || json_integer_value(version) > PREFERENCES_VERSION) {
    return tri_fail(TRI_BAD_FILE, "%s has version %lld, but this program reads versions %d to %d" HINT, path,
                    (long long)json_integer_value(version), VERSION, PREFERENCES_VERSION);
  }
  return TRI_OK;
}

static tri_status read_fingerprint(const char *path, const json_t *root, const char *key,
                                   char out[TRI_FINGERPRINT_BYTES]) {
  const char *text = json_string_value(json_object_get(root, key));
  if (text == NULL || !tri_fingerprint_is_valid(text)) {
    return tri_fail(TRI_BAD_FILE, "%s: \"%s\" must be a string of %d hexadecimal digits" HINT, path, key,
                    TRI_FINGERPRINT_BYTES - 1);
  }
  memcpy(out, text, TRI_FINGERPRINT_BYTES);
  return TRI_OK;
}

static tri_status read_count(const char *path, const json_t *root, const char *key, int64_t least, int64_t *out) {
  const json_t *value = json_object_get(root, key);
  if (!json_is_integer(value) || json_integer_value(value) < least) {
    return tri_fail(TRI_BAD_FILE, "%s: \"%s\" must be a whole number of at least %lld" HINT, path, key,
                    (long long)least);
  }
  *out = json_integer_value(value);
  return TRI_OK;
}

/* Values of "preferences"; a corpus without preferences does not have the key. */
#define PREFERENCES(X) X("pairs", TRI_PREFERENCES_PAIRS) X("labels", TRI_PREFERENCES_LABELS) X("", TRI_PREFERENCES_NONE)
TRI_CONFIG_WORDS(preference_words, tri_preferences, PREFERENCES)

const char *tri_preferences_word(tri_preferences preferences) { return preference_words_word(preferences); }

static tri_status read_preferences(const char *path, const json_t *root, tri_corpus_record *out) {
  const char *word = json_string_value(json_object_get(root, "preferences"));
  if (word == NULL || !preference_words_find(word, &out->preferences) || out->preferences == TRI_PREFERENCES_NONE) {
    return tri_fail(TRI_BAD_FILE, "%s: \"preferences\" must be \"pairs\" or \"labels\"" HINT, path);
  }
  if (out->preferences != TRI_PREFERENCES_LABELS) return TRI_OK;
  return read_fingerprint(path, root, "labels", out->labels);
}

static tri_status read_beginning(const char *path, const json_t *root, tri_corpus_record *out) {
  const json_t *list = json_object_get(root, "beginning");
  if (list == NULL) return TRI_OK;
  const size_t count = json_array_size(list);
  bool good = count > 0 && count <= TRI_MOST_BEGINNING;
  for (size_t i = 0; i < count && good; i++) {
    const json_t *id = json_array_get(list, i);
    good = json_is_integer(id) && json_integer_value(id) >= 0 && json_integer_value(id) <= INT32_MAX;
    if (good) out->beginning[out->num_beginning++] = (int32_t)json_integer_value(id);
  }
  if (good) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "%s: \"beginning\" must be a list of 1 to %d tokens" HINT, path, TRI_MOST_BEGINNING);
}

static tri_status read_members(const char *path, const json_t *root, tri_corpus_record *out) {
  if (!json_is_object(root)) return tri_fail(TRI_BAD_FILE, "%s: the file must hold a JSON object" HINT, path);
  TRI_TRY(read_version(path, root));
  TRI_TRY(read_fingerprint(path, root, "corpus", out->corpus));
  TRI_TRY(read_count(path, root, "tokens", 1, &out->tokens));
  TRI_TRY(read_count(path, root, "documents", 0, &out->documents));
  TRI_TRY(read_fingerprint(path, root, "tokenizer", out->tokenizer));
  if (json_object_get(root, "tokenizer_before") != NULL) {
    TRI_TRY(read_fingerprint(path, root, "tokenizer_before", out->tokenizer_before));
  }
  TRI_TRY(read_count(path, root, "vocab_size", 1, &out->vocab_size));
  out->end_of_text = -1;
  if (json_object_get(root, "end_of_text") != NULL)
    TRI_TRY(read_count(path, root, "end_of_text", 0, &out->end_of_text));
  if (json_object_get(root, "text_bytes") != NULL) TRI_TRY(read_count(path, root, "text_bytes", 0, &out->text_bytes));
  TRI_TRY(read_beginning(path, root, out));
  const json_int_t version = json_integer_value(json_object_get(root, "version"));
  if (version >= MASKED_VERSION) {
    TRI_TRY(read_fingerprint(path, root, "mask", out->mask));
    TRI_TRY(read_count(path, root, "learnt_tokens", 0, &out->learnt_tokens));
  }
  if (version >= PREFERENCES_VERSION) TRI_TRY(read_preferences(path, root, out));
  return read_fingerprint(path, root, "generation", out->generation);
}

tri_status tri_corpus_record_parse(const char *path, const char *text, size_t bytes, tri_corpus_record *out) {
  json_t *root = NULL;
  tri_corpus_record record = {0};
  tri_status status = tri_json_parse(path, text, bytes, JSON_REJECT_DUPLICATES, &root);
  if (status == TRI_BAD_FILE) return tri_fail(status, "%s" HINT, tri_status_message());
  if (status == TRI_OK) status = read_members(path, root, &record);
  json_decref(root);
  if (status == TRI_OK) *out = record;
  return status;
}

tri_status tri_corpus_record_read(const char *path, tri_corpus_record *out) {
  struct stat facts;
  if (lstat(path, &facts) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
    *out = (tri_corpus_record){.end_of_text = -1};
    return TRI_OK;
  }
  /* Opening a pipe would wait forever. */
  if (stat(path, &facts) != 0) return tri_fail(TRI_BAD_FILE, "cannot open %s: %s", path, strerror(errno));
  if (!S_ISREG(facts.st_mode)) return tri_fail(TRI_BAD_FILE, "%s is not a plain file" HINT, path);
  char *text = NULL;
  size_t bytes = 0;
  TRI_TRY(tri_file_read(path, LONGEST_BYTES, &text, &bytes));
  tri_status status = tri_corpus_record_parse(path, text, bytes, out);
  tri_free(text);
  return status;
}

tri_status tri_corpus_record_write(const char *path, const tri_corpus_record *record) {
  bool masked = record->mask[0] != '\0';
  const bool prefers = record->preferences != TRI_PREFERENCES_NONE;
  const int version = prefers ? PREFERENCES_VERSION : masked ? MASKED_VERSION : VERSION;
  json_t *root =
      json_pack("{s:i, s:s, s:I, s:I, s:s, s:I, s:s}", "version", version, "corpus", record->corpus, "tokens",
                (json_int_t)record->tokens, "documents", (json_int_t)record->documents, "tokenizer", record->tokenizer,
                "vocab_size", (json_int_t)record->vocab_size, "generation", record->generation);
  if (record->tokenizer_before[0] != '\0') {
    json_object_set_new(root, "tokenizer_before", json_string(record->tokenizer_before));
  }
  if (record->end_of_text >= 0) json_object_set_new(root, "end_of_text", json_integer(record->end_of_text));
  if (record->text_bytes > 0) json_object_set_new(root, "text_bytes", json_integer((json_int_t)record->text_bytes));
  if (record->num_beginning > 0) {
    json_t *list = json_array();
    for (int i = 0; i < record->num_beginning; i++) json_array_append_new(list, json_integer(record->beginning[i]));
    json_object_set_new(root, "beginning", list);
  }
  if (masked) {
    json_object_set_new(root, "mask", json_string(record->mask));
    json_object_set_new(root, "learnt_tokens", json_integer(record->learnt_tokens));
  }
  if (prefers) json_object_set_new(root, "preferences", json_string(tri_preferences_word(record->preferences)));
  if (record->labels[0] != '\0') json_object_set_new(root, "labels", json_string(record->labels));
  char *text = root != NULL ? json_dumps(root, JSON_INDENT(2)) : NULL;
  json_decref(root);
  if (text == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: writing %s", path);
  size_t length = strlen(text);
  text[length] = '\n'; /* replaces the NUL, which is not needed, because the length is known */
  tri_status status = tri_file_replace(path, text, length + 1);
  free(text);
  return status;
}
