/* Long documents are encoded in pieces. Their ids must be those of the whole text, with every tokenizer. */
#include "base/memory.h"
#include "base/random.h"
#include "data/corpus.h"
#include "prepare_test.h"
#include "tokenizer/tokenizer.h"

#include <jansson.h>

/* Prepares `text` as one document and compares with the ids of the whole. */
static void expect_ids_of_the_whole(job *j, const char *text, size_t bytes) {
  char path[TRI_PATH_BYTES];
  tri_tokenizer *tokenizer = NULL;
  tri_encoder *encoder = NULL;
  tri_token_list whole = {0};
  tri_corpus *corpus = NULL;
  assert_ok(prepare_it(j));
  assert_ok(tri_path_join(path, j->out, "tokenizer.json"));
  assert_ok(tri_tokenizer_create(path, &tokenizer));
  assert_ok(tri_encoder_create(tokenizer, &encoder));
  assert_ok(tri_encoder_encode(encoder, text, bytes, 0, &whole));
  assert_ok(tri_path_join(path, j->out, "train"));
  assert_ok(tri_corpus_open(path, &corpus));
  assert_int_equal(tri_corpus_num_tokens(corpus), whole.count + 1);
  int32_t *ids = malloc((size_t)(whole.count + 1) * sizeof *ids);
  assert_non_null(ids);
  assert_ok(tri_corpus_read(corpus, 0, whole.count + 1, tri_tokenizer_vocab_size(tokenizer), ids));
  assert_memory_equal(ids, whole.ids, (size_t)whole.count * sizeof *ids);
  assert_int_equal(ids[whole.count], tri_tokenizer_end_of_text(tokenizer));
  free(ids);
  tri_corpus_close(corpus);
  tri_free(whole.ids);
  tri_encoder_destroy(encoder);
  tri_tokenizer_destroy(tokenizer);
}

/* Changes the pre-tokenizer of a tokenizer.json to a pattern, such as those of Llama 3 and Qwen 2, or to GPT-2's with a
 * space before every text. */
static void change_pattern(const char *from, const char *to, const char *pattern) {
  json_t *root = json_load_file(from, 0, NULL), *byte_level = NULL, *parts = NULL;
  assert_non_null(root);
  byte_level = json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", pattern == NULL,
                         "trim_offsets", 1, "use_regex", pattern == NULL);
  parts = pattern == NULL
              ? byte_level
              : json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence", "pretokenizers", "type",
                          "Split", "pattern", "Regex", pattern, "behavior", "Isolated", "invert", 0, byte_level);
  assert_non_null(parts);
  assert_int_equal(json_object_set_new(root, "pre_tokenizer", parts), 0);
  assert_int_equal(json_dump_file(root, to, 0), 0);
  json_decref(root);
}

/* Makes `count` parts of text, with white space in places where a cut is difficult. */
static size_t make_hard_text(uint64_t stream, uint64_t count, char *out) {
  static const char *const parts[] = {"the",
                                      "a",
                                      "\xC3\xA9t\xC3\xA9",
                                      "123",
                                      "'s",
                                      ".",
                                      "!?",
                                      " ",
                                      "\n",
                                      "  ",
                                      "\n",
                                      "\n\n\t",
                                      "\r\n",
                                      "\xC2\xA0",
                                      "\xE3\x80\x80",
                                      "\xE6\xBC\xA2",
                                      "\xF0\x9F\x98\x80",
                                      "\xFF",
                                      " \n"};
  enum { PARTS = sizeof parts / sizeof parts[0] };
  tri_random_key key = tri_random_stream(5, TRI_RANDOM_TEST, stream);
  size_t held = 0;
  for (uint64_t i = 0; i < count; i++) {
    const char *part = parts[tri_random_u32(key, i) % PARTS];
    memcpy(out + held, part, strlen(part));
    held += strlen(part);
  }
  return held;
}

static const char *const patterns[] = {
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"};

/* Cuts many short texts at the places that tri_text_find_cut returns, and compares the ids of the parts with those of
 * the whole. */
static void expect_safe_cuts(const char *tokenizer_path) {
  enum { TEXTS = 20000 };
  tri_tokenizer *tokenizer = NULL;
  tri_encoder *encoder = NULL;
  tri_token_list whole = {0}, halves = {0};
  int cuts = 0;
  assert_ok(tri_tokenizer_create(tokenizer_path, &tokenizer));
  assert_ok(tri_encoder_create(tokenizer, &encoder));
  for (uint64_t i = 0; i < TEXTS; i++) {
    char text[256];
    size_t bytes = make_hard_text(100 + i, 12, text), cut = tri_text_find_cut(text, bytes);
    if (cut == 0) continue;
    assert_true(cut < bytes);
    cuts++;
    whole.count = halves.count = 0;
    assert_ok(tri_encoder_encode(encoder, text, bytes, 0, &whole));
    assert_ok(tri_encoder_encode(encoder, text, cut, 0, &halves));
    assert_ok(tri_encoder_encode(encoder, text + cut, bytes - cut, 0, &halves));
    assert_int_equal(whole.count, halves.count);
    assert_memory_equal(whole.ids, halves.ids, (size_t)whole.count * sizeof *whole.ids);
  }
  assert_true(cuts > TEXTS / 4);
  tri_free(whole.ids);
  tri_free(halves.ids);
  tri_encoder_destroy(encoder);
  tri_tokenizer_destroy(tokenizer);
}

/* A document that is cut into pieces for the encoders gives the ids of the whole, under each of the patterns. */
static void cuts_do_not_change_ids(void **state) {
  enum { PARTS = 1200000 };
  char *text = malloc((size_t)PARTS * 8);
  assert_non_null(text);
  size_t held = make_hard_text(1, PARTS, text);
  write_file(state, "a.txt", text, held);
  job *j = new_job(state, "a.txt");
  j->options.tokenizer = "train:400";
  j->options.documents = TRI_DOCUMENT_FILE;
  j->options.validation = 0;
  j->options.binary = true; /* some of the text is not UTF-8 */
  expect_ids_of_the_whole(j, text, held);
  char learned[TRI_PATH_BYTES], changed[TRI_PATH_BYTES];
  assert_ok(tri_path_join(learned, j->out, "tokenizer.json"));
  expect_safe_cuts(learned);
  j->options.tokenizer = in_folder(state, "changed.json", changed);
  j->options.force = true;
  for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
    change_pattern(learned, changed, patterns[i]);
    expect_safe_cuts(changed);
    expect_ids_of_the_whole(j, text, held);
  }
  /* Without a pattern no cut is known to be safe, so the tokenizer is asked. */
  change_pattern(learned, changed, NULL);
  expect_ids_of_the_whole(j, text, held);
  /* Only cuts before a space are safe: newlines belong to the letters after them. */
  change_pattern(learned, changed, "\\n?\\p{L}+|\\p{N}+|[^\\s\\p{L}\\p{N}]+|\\s");
  expect_ids_of_the_whole(j, text, held);
  free(text);
  free(j);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(cuts_do_not_change_ids, make_folder, remove_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
