/* Fingerprints: equal if two tokenizers or corpora give the same ids, different if they do not. */
#include "tokenizer_fixture.h"

#include "data/corpus.h"
#include "data/corpus_writer.h"
#include "data/fingerprint.h"
#include "files/file.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static int make_folder(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/trireme-fingerprint-XXXXXX");
  return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
  (void)state;
  return tri_directory_remove(folder) != TRI_OK;
}

/* ---- tokenizers -------------------------------------------------------------------------------------------------- */

static void of_source(const char *source, char out[TRI_FINGERPRINT_BYTES]) {
  tri_tokenizer *tokenizer = NULL;
  assert_ok(tri_tokenizer_create(source, &tokenizer));
  assert_ok(tri_tokenizer_fingerprint(tokenizer, out));
  assert_true(tri_fingerprint_is_valid(out));
  tri_tokenizer_destroy(tokenizer);
}

/* Returns the fingerprint after the tokenizer was saved and read again. */
static void of_saved(const char *source, char out[TRI_FINGERPRINT_BYTES]) {
  char path[128];
  tri_tokenizer *tokenizer = NULL;
  snprintf(path, sizeof path, "%s/saved.json", folder);
  assert_ok(tri_tokenizer_create(source, &tokenizer));
  assert_ok(tri_tokenizer_save(tokenizer, path));
  tri_tokenizer_destroy(tokenizer);
  of_source(path, out);
}

static void of_document(json_t *root, char out[TRI_FINGERPRINT_BYTES]) {
  tri_tokenizer *tokenizer = NULL;
  assert_ok(parse_document(root, &tokenizer));
  assert_ok(tri_tokenizer_fingerprint(tokenizer, out));
  tri_tokenizer_destroy(tokenizer);
}

static void saving_keeps_it(void **state) {
  (void)state;
  char first[TRI_FINGERPRINT_BYTES], second[TRI_FINGERPRINT_BYTES], source[4200];
  of_source("bytes", first);
  of_saved("bytes", second);
  assert_string_equal(first, second);
  assert_string_equal(first, "77c4e0e684e6407d957fb9b75b4e91ed"); /* recorded, because files in use contain it */
  const char *shared = getenv("TRIREME_SHARED");
  snprintf(source, sizeof source, "gpt2:%s/data/gpt2", shared != NULL ? shared : TRIREME_SOURCE_DIR "/../shared");
  if (access(source + 5, R_OK) != 0) {
    fprintf(stderr, "SKIPPED: GPT-2's vocabulary is not at %s\n", source + 5);
    return;
  }
  of_source(source, first);
  of_saved(source, second);
  assert_string_equal(first, second);
}

static void a_learnt_one_keeps_it(void **state) {
  (void)state;
  static const char text[] = "the oars of the trireme, the oars of the three banks of oars ";
  tri_tokenizer_trainer *trainer = NULL;
  tri_tokenizer *tokenizer = NULL;
  char path[128], first[TRI_FINGERPRINT_BYTES], second[TRI_FINGERPRINT_BYTES];
  assert_ok(tri_tokenizer_trainer_create(265, &trainer));
  assert_ok(tri_tokenizer_trainer_feed(trainer, text, sizeof text - 1));
  assert_ok(tri_tokenizer_trainer_finish(trainer, &tokenizer));
  assert_ok(tri_tokenizer_fingerprint(tokenizer, first));
  snprintf(path, sizeof path, "%s/learnt.json", folder);
  assert_ok(tri_tokenizer_save(tokenizer, path));
  of_source(path, second);
  assert_string_equal(first, second);
  tri_tokenizer_destroy(tokenizer);
  tri_tokenizer_trainer_destroy(trainer);
}

typedef struct change {
  const char *path, *value;
} change;

static void of_changed(change what, char out[TRI_FINGERPRINT_BYTES]) {
  json_t *root = base_document();
  patch(root, what.path, what.value);
  of_document(root, out);
}

/* Changes that have no effect on ids. */
static void ignores_what_does_nothing(void **state) {
  (void)state;
  static const change changes[] = {
      {"post_processor", "{\"type\": \"ByteLevel\"}"},
      {"truncation", "{\"max_length\": 5}"},
      {"model.fuse_unk", "true"}, /* there is no unk_token */
      {"model.merges.0", "[\"h\", \"e\"]"},
      {"added_tokens.0.normalized", "true"}, /* there is no normalizer */
      {"normalizer", "{\"type\": \"Sequence\", \"normalizers\": []}"},
      {"pre_tokenizer",
       "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"ByteLevel\", \"add_prefix_space\": "
       "false, \"use_regex\": true}]}"},
      {"pre_tokenizer",
       "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"behavior\": \"Isolated\", \"pattern\": "
       "{\"Regex\": \"'(?:[sdmt]|ll|ve|re)| ?\\\\p{L}+| ?\\\\p{N}+| "
       "?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)|\\\\s+\"}},"
       "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}]}"},
  };
  char base[TRI_FINGERPRINT_BYTES], changed[TRI_FINGERPRINT_BYTES];
  of_document(base_document(), base);
  for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
    of_changed(changes[i], changed);
    if (strcmp(base, changed) != 0) fail_msg("%s = %s changed it", changes[i].path, changes[i].value);
  }
  /* Another order of keys, and much white space. */
  json_t *root = base_document();
  char *text = json_dumps(root, JSON_SORT_KEYS | JSON_INDENT(7));
  tri_tokenizer *tokenizer = NULL;
  assert_ok(tri_tokenizer_parse_json("t.json", text, strlen(text), &tokenizer));
  assert_ok(tri_tokenizer_fingerprint(tokenizer, changed));
  assert_string_equal(base, changed);
  tri_tokenizer_destroy(tokenizer);
  free(text);
  json_decref(root);
}

/* Changes that have an effect on ids or texts: each has a fingerprint of its own. */
static void sees_every_change(void **state) {
  (void)state;
  static const change changes[] = {
      {"post_processor", "null"}, /* none */
      {"model.merges.1", "\"h e\""},
      {"model.merges.5", "\"l l\""},
      {"model.ignore_merges", "true"},
      {"model.unk_token", "\"a\""},
      {"normalizer", "{\"type\": \"NFC\"}"},
      {"pre_tokenizer.use_regex", "false"},
      {"pre_tokenizer.add_prefix_space", "true"},
      {"pre_tokenizer",
       "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\", \"individual_digits\": true}, {\"type\": "
       "\"ByteLevel\", \"add_prefix_space\": false}]}"},
      {"pre_tokenizer",
       "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\", \"individual_digits\": false}, {\"type\": "
       "\"ByteLevel\", \"add_prefix_space\": false}]}"},
      {"pre_tokenizer",
       "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"behavior\": \"Isolated\", \"pattern\": "
       "{\"Regex\": \"a.\"}}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false}]}"},
      {"pre_tokenizer",
       "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"behavior\": \"Isolated\", \"pattern\": "
       "{\"String\": \"a.\"}}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false}]}"},
      {"pre_tokenizer",
       "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"behavior\": \"Removed\", \"invert\": "
       "true, "
       "\"pattern\": {\"Regex\": \"a.\"}}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false}]}"},
      {"added_tokens.0.special", "false"},
      {"added_tokens.0.single_word", "true"},
      {"added_tokens.0.lstrip", "true"},
      {"added_tokens.0.rstrip", "true"},
      {"added_tokens.0.content", "\"<|end_of_text|>\""},
      {"added_tokens.0.content", "\"<|pad|>\""},
      {"added_tokens.1", "{\"id\": 263, \"content\": \"<|pad|>\", \"special\": true}"},
      {"added_tokens.1", "{\"id\": 263, \"content\": \"<|pad|>\", \"special\": true, \"normalized\": true}"},
      {"added_tokens.1", "{\"id\": 263, \"content\": \"<|pad|>\", \"special\": false, \"normalized\": false}"},
  };
  enum { COUNT = sizeof changes / sizeof changes[0] };
  char all[COUNT][TRI_FINGERPRINT_BYTES];
  for (int i = 0; i < COUNT; i++) {
    of_changed(changes[i], all[i]);
    for (int k = 0; k < i; k++) {
      if (strcmp(all[i], all[k]) == 0) {
        fail_msg("%s = %s and %s = %s are alike", changes[i].path, changes[i].value, changes[k].path, changes[k].value);
      }
    }
  }
  of_source("bytes", all[0]);
  for (int i = 1; i < COUNT; i++) assert_string_not_equal(all[0], all[i]);
}

/* Exchanged ids of two tokens; and a merge that is listed again later, which counts only at the later place. */
static void sees_ids_and_passes_over_dead_merges(void **state) {
  (void)state;
  char base[TRI_FINGERPRINT_BYTES], changed[TRI_FINGERPRINT_BYTES];
  of_document(base_document(), base);
  json_t *root = base_document();
  patch(root, "model.vocab.a", "98");
  patch(root, "model.vocab.b", "97");
  of_document(root, changed);
  assert_string_not_equal(base, changed);
  root = base_document();
  json_array_insert_new(json_object_get(json_object_get(root, "model"), "merges"), 0, json_string("\u0120 w"));
  of_document(root, changed);
  assert_string_equal(base, changed);
}

/* ---- corpora ----------------------------------------------------------------------------------------------------- */

static void write_corpus(const char *prefix, int64_t tokens, int64_t per_document) {
  tri_corpus_writer *writer = NULL;
  assert_ok(tri_corpus_writer_create(prefix, 50257, &writer));
  for (int64_t i = 0; i < tokens; i++) {
    int32_t id = (int32_t)(i * 7919 % 50257);
    assert_ok(tri_corpus_writer_add(writer, &id, 1));
    if ((i + 1) % per_document == 0 || i + 1 == tokens) assert_ok(tri_corpus_writer_end_document(writer));
  }
  assert_ok(tri_corpus_writer_finish(writer));
  assert_ok(tri_corpus_writer_commit(writer));
  tri_corpus_writer_destroy(writer);
}

static void of_corpus(const char *prefix, char out[TRI_FINGERPRINT_BYTES]) {
  tri_corpus *corpus = NULL;
  assert_ok(tri_corpus_open(prefix, &corpus));
  strcpy(out, tri_corpus_fingerprint(corpus));
  assert_string_equal(tri_corpus_tokenizer(corpus), "");
  assert_int_equal(tri_corpus_vocab_size(corpus), 0);
  tri_corpus_close(corpus);
}

static void flip(const char *prefix, const char *suffix, long at, long count) {
  char path[256];
  snprintf(path, sizeof path, "%.200s%s", prefix, suffix);
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  for (long i = at; i < at + count; i++) {
    assert_int_equal(fseek(file, i, SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, i, SEEK_SET), 0);
    assert_true(fputc(byte ^ 1, file) != EOF);
  }
  assert_int_equal(fclose(file), 0);
}

/* A change of any byte is detected in a small corpus; in a large one, a change in the pieces that are read. */
static void sees_edits(void **state) {
  (void)state;
  char prefix[128], other[128], base[TRI_FINGERPRINT_BYTES], changed[TRI_FINGERPRINT_BYTES];
  snprintf(prefix, sizeof prefix, "%s/a", folder);
  snprintf(other, sizeof other, "%s/b", folder);
  const int64_t small = 30000, large = TRI_FINGERPRINT_WHOLE_BYTES; /* two bytes a token */
  write_corpus(prefix, small, 100);
  of_corpus(prefix, base);
  write_corpus(other, small, 100);
  of_corpus(other, changed);
  assert_string_equal(base, changed);
  write_corpus(other, small, 101);
  of_corpus(other, changed);
  assert_string_not_equal(base, changed);
  for (long at = 0; at < 2 * small; at += 1999) {
    flip(prefix, ".bin", at, 1);
    of_corpus(prefix, changed);
    assert_string_not_equal(base, changed);
    flip(prefix, ".bin", at, 1);
  }
  write_corpus(prefix, large, 1000);
  of_corpus(prefix, base);
  const long bytes = 2 * (long)large, distance = bytes / (TRI_FINGERPRINT_PIECES + 1);
  const struct {
    long at, count;
    bool seen;
  } edits[] = {
      {0, 1, true},
      {TRI_FINGERPRINT_END_BYTES - 1, 1, true},
      {bytes - 1, 1, true},
      {bytes - TRI_FINGERPRINT_END_BYTES, 1, true},
      {100 * distance / 4096 * 4096, 1, true},
      {100 * distance / 4096 * 4096 + 4095, 1, true},
      {100 * distance / 4096 * 4096 + 4096, 1, false}, /* between two pieces: not detected (fingerprint.h) */
      {77 * distance + 4100, distance + 4096, true},   /* as long as the distance between pieces: always detected */
  };
  for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
    flip(prefix, ".bin", edits[i].at, edits[i].count);
    of_corpus(prefix, changed);
    if ((strcmp(base, changed) != 0) != edits[i].seen) fail_msg("edit %d", (int)i);
    flip(prefix, ".bin", edits[i].at, edits[i].count);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(saving_keeps_it),
      cmocka_unit_test(a_learnt_one_keeps_it),
      cmocka_unit_test(ignores_what_does_nothing),
      cmocka_unit_test(sees_every_change),
      cmocka_unit_test(sees_ids_and_passes_over_dead_merges),
      cmocka_unit_test(sees_edits),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
