/* Text to ids and back. tests/oracle/test_tokenizer_hf.py compares ids with Hugging Face's; this test has known ids,
 * compares the words of the hand-written scanners with PCRE2's and merges with plain repetition, and makes round trips
 * of any bytes. */
#include "tokenizer_fixture.h"

#include "tokenizer/bpe.h"
#include "tokenizer/normalizer.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void test_gpt2_ids(void **state) {
  (void)state;
  const char *shared = getenv("TRIREME_SHARED");
  char directory[4096], source[4200];
  snprintf(directory, sizeof directory, "%s/data/gpt2", shared != NULL ? shared : TRIREME_SOURCE_DIR "/../shared");
  if (access(directory, R_OK) != 0) {
    fprintf(stderr, "SKIPPED: GPT-2's vocabulary is not at %s\n", directory);
    skip();
  }
  tri_tokenizer *tokenizer = NULL;
  snprintf(source, sizeof source, "gpt2:%s", directory);
  assert_ok(tri_tokenizer_create(source, &tokenizer));
  assert_int_equal(tri_tokenizer_vocab_size(tokenizer), 50257);
  assert_int_equal(tri_tokenizer_end_of_text(tokenizer), 50256);
  assert_ids(tokenizer, "Hello world", 1, IDS(15496, 995));
  assert_ids(tokenizer, "Hello, I'm a language model,", 1, IDS(15496, 11, 314, 1101, 257, 3303, 2746, 11));
  assert_ids(tokenizer, "<|endoftext|>", 1, IDS(50256));
  assert_ids(tokenizer, "<|endoftext|>", 0, IDS(27, 91, 437, 1659, 5239, 91, 29));
  assert_ids(tokenizer, "", 1, IDS(-1));
  size_t bytes = 0;
  assert_memory_equal(tri_tokenizer_token(tokenizer, 995, &bytes), " world", 6);
  assert_int_equal(bytes, 6);
  tri_tokenizer_destroy(tokenizer);
}

static void test_bytes(void **state) {
  (void)state;
  tri_tokenizer *tokenizer = NULL;
  assert_ok(tri_tokenizer_create("bytes", &tokenizer));
  assert_int_equal(tri_tokenizer_vocab_size(tokenizer), 257);
  assert_int_equal(tri_tokenizer_end_of_text(tokenizer), 256);
  assert_ids(tokenizer, "a\xff\x01<|endoftext|> ", 1, IDS('a', 255, 1, 256, ' '));
  assert_ids(tokenizer, "<|e", 1, IDS('<', '|', 'e'));
  size_t bytes = 9;
  tri_tokenizer_token(tokenizer, 257, &bytes);
  assert_int_equal(bytes, 0);
  tri_tokenizer_token(tokenizer, -1, &bytes);
  assert_int_equal(bytes, 0);
  assert_memory_equal(tri_tokenizer_token(tokenizer, 0, &bytes), "\0", 1);
  tri_tokenizer_destroy(tokenizer);
}

static void test_byte_letters(void **state) {
  (void)state;
  int seen = 0;
  for (uint32_t letter = 0; letter < 0x110000; letter++) {
    int byte = tri_letter_byte(letter);
    if (byte < 0) continue;
    assert_int_equal(tri_byte_letter((uint8_t)byte), letter);
    seen++;
  }
  assert_int_equal(seen, 256);
  assert_int_equal(tri_byte_letter(' '), 0x120);
  assert_int_equal(tri_byte_letter('\n'), 0x10A);
  assert_int_equal(tri_byte_letter(0xAD), 0x143);
}

static void test_utf8(void **state) {
  (void)state;
  static const struct {
    const char *text;
    size_t valid, invalid;
  } cases[] = {
      {"abc", 3, 0},
      {"\xc3\xa9x", 3, 0},
      {"\xc3", 0, 1},
      {"\xc0\x80", 0, 2},
      {"\xe0\x9f\xbf", 0, 3},
      {"\xed\xa0\x80", 0, 3},
      {"\xed\x9f\xbf", 3, 0},
      {"\xf4\x90\x80\x80z", 0, 4},
      {"\x80\xff!", 0, 2},
      {"\xf0\x8f\xbf\xbf", 0, 4},
      {"\xf4\x8f\xbf\xbf", 4, 0},
      {"12345678\xffz", 8, 0},
      {"\xe4\xb8", 0, 2},
      {"\xf8\x88\x80\x80\x80", 0, 5},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    assert_int_equal(tri_utf8_valid_bytes(cases[i].text, strlen(cases[i].text)), cases[i].valid);
    assert_int_equal(tri_utf8_invalid_bytes(cases[i].text, strlen(cases[i].text)), cases[i].invalid);
  }
  for (uint32_t code = 0; code < 0x110000; code++) {
    char text[4];
    uint32_t back = 0;
    size_t length = tri_utf8_encode(code, text);
    bool surrogate = code >= 0xD800 && code < 0xE000;
    if (tri_utf8_decode(text, length, &back) != (surrogate ? 0 : length)) fail_msg("U+%04X", (unsigned)code);
    if (!surrogate) assert_int_equal(back, code);
  }
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

typedef struct word_ends {
  size_t ends[4096];
  int count;
} word_ends;

static tri_status note_word(void *context, const char *word, size_t bytes) {
  word_ends *ends = context;
  (void)word;
  ends->ends[ends->count] = (ends->count > 0 ? ends->ends[ends->count - 1] : 0) + bytes;
  ends->count++;
  return TRI_OK;
}

#define LLAMA3(digits)                                                                                                 \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits                                                 \
  "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* The words of a scanner that uses PCRE2 for rare cases are those of PCRE2 alone. */
static void test_scanners(void **state) {
  (void)state;
  static const char *const patterns[] = {
      "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
      LLAMA3("\\p{N}{1,3}"),
      LLAMA3("\\p{N}"),
      "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
  };
  static const tri_scanner scanners[] = {TRI_SCAN_GPT2, TRI_SCAN_LLAMA3, TRI_SCAN_QWEN2, TRI_SCAN_GPT2};
  static const char *const letters[] = {
      "a",        "s", "'",        "'",        "l",           "L",        "V",
      "e",        "1", "2",        " ",        " ",           "\n",       "\r",
      "\t",       ".", "\x0b",     "\x1c",     "\x7f",        "\xc3\xa9", "\xe2\x80\x99",
      "\xc2\xa0", "_", "\xc5\xbf", "\xd9\xa3", "\xe3\x80\x80"};
  uint64_t random = 1;
  for (int p = 0; p < 4; p++) {
    tri_pretokenizer both = {0};
    assert_ok(tri_pretokenizer_add_pattern(&both, "test", patterns[p], strlen(patterns[p]), false, false));
    assert_int_equal(both.stages[0].scanner, scanners[p]);
    tri_pretokenizer plain = both;
    plain.stages[0].scanner = TRI_SCAN_NONE;
    tri_splitter fast = {0}, slow = {0};
    assert_ok(tri_splitter_create(&fast, &both));
    assert_ok(tri_splitter_create(&slow, &plain));
    for (int round = 0; round < 40000; round++) {
      char text[256];
      size_t bytes = 0;
      uint32_t kinds = round % 2 == 0 ? 19 : sizeof letters / sizeof letters[0]; /* ASCII alone, and all */
      for (uint32_t n = next_random(&random) % 24 + 1; n > 0; n--) {
        const char *letter = letters[next_random(&random) % kinds];
        memcpy(text + bytes, letter, strlen(letter));
        bytes += strlen(letter);
      }
      word_ends a = {.count = 0}, b = {.count = 0};
      assert_ok(tri_splitter_run(&fast, text, bytes, note_word, &a));
      assert_ok(tri_splitter_run(&slow, text, bytes, note_word, &b));
      if (a.count != b.count || memcmp(a.ends, b.ends, (size_t)a.count * sizeof a.ends[0]) != 0) {
        fail_msg("pattern %d cuts \"%.*s\" into %d words instead of %d", p, (int)bytes, text, a.count, b.count);
      }
      assert_int_equal(b.ends[b.count - 1], bytes);
    }
    tri_splitter_release(&fast);
    tri_splitter_release(&slow);
    tri_pretokenizer_release(&both);
  }
}

/* ---- merges ------------------------------------------------------------------------------------------------------ */

/* The definition: merges the pair of lowest rank, the leftmost of equal ones, until there are no more pairs. */
static size_t merge_plainly(const tri_vocabulary *vocabulary, int32_t *ids, size_t count) {
  for (;;) {
    size_t best = 0;
    const tri_merge_slot *best_slot = NULL;
    for (size_t i = 0; i + 1 < count; i++) {
      const tri_merge_slot *slot = tri_vocabulary_merge(vocabulary, ids[i], ids[i + 1]);
      if (slot == NULL || (best_slot != NULL && slot->rank >= best_slot->rank)) continue;
      best = i;
      best_slot = slot;
    }
    if (best_slot == NULL) return count;
    ids[best] = best_slot->result;
    memmove(ids + best + 1, ids + best + 2, (count - best - 2) * sizeof *ids);
    count--;
  }
}

/* Learns a vocabulary from random words of few letters. */
static tri_tokenizer *learn_random(uint64_t seed, int64_t size) {
  tri_tokenizer_trainer *trainer = NULL;
  tri_tokenizer *tokenizer = NULL;
  assert_ok(tri_tokenizer_trainer_create(size, &trainer));
  for (int i = 0; i < 400; i++) {
    char text[64];
    size_t bytes = next_random(&seed) % 64;
    for (size_t k = 0; k < bytes; k++) text[k] = (char)('a' + next_random(&seed) % 4);
    assert_ok(tri_tokenizer_trainer_feed(trainer, text, bytes));
  }
  assert_ok(tri_tokenizer_trainer_finish(trainer, &tokenizer));
  tri_tokenizer_trainer_destroy(trainer);
  return tokenizer;
}

static void test_merges(void **state) {
  (void)state;
  tri_tokenizer *tokenizer = learn_random(7, 600);
  uint64_t random = 3;
  tri_bpe bpe = {.vocabulary = &tokenizer->vocabulary, .unknown = -1};
  for (int round = 0; round < 3000; round++) {
    char word[400];
    int32_t wanted[400];
    size_t bytes = next_random(&random) % (round % 2 == 0 ? 60 : 400) + 1, count = 0;
    uint32_t letters = next_random(&random) % 4 + 1;
    for (size_t i = 0; i < bytes; i++) {
      word[i] = (char)('a' + next_random(&random) % letters);
      wanted[i] = tokenizer->vocabulary.byte_ids[(uint8_t)word[i]];
    }
    size_t wanted_count = merge_plainly(&tokenizer->vocabulary, wanted, bytes);
    assert_ok(tri_bpe_encode(&bpe, word, bytes, &count));
    assert_int_equal(count, wanted_count);
    assert_memory_equal(bpe.ids, wanted, count * sizeof *wanted);
  }
  tri_bpe_release(&bpe);
  tri_tokenizer_destroy(tokenizer);
}

static void test_long_word(void **state) {
  (void)state;
  enum { BYTES = 1 << 20 }; /* a quadratic algorithm would take minutes */
  tri_tokenizer *tokenizer = learn_random(11, 500);
  char *text = malloc(BYTES);
  uint64_t random = 5;
  assert_non_null(text);
  for (size_t i = 0; i < BYTES; i++) text[i] = (char)('a' + next_random(&random) % 4);
  tri_token_list list = encode(tokenizer, text, BYTES, 1);
  assert_true(list.count < BYTES / 2);
  assert_spells(tokenizer, &list, text, BYTES);
  tri_free(list.ids);
  free(text);
  tri_tokenizer_destroy(tokenizer);
}

static void test_any_bytes_come_back(void **state) {
  (void)state;
  tri_tokenizer *tokenizers[2] = {0};
  assert_ok(tri_tokenizer_create("bytes", &tokenizers[0]));
  tokenizers[1] = learn_random(13, 400);
  uint64_t random = 17;
  for (int t = 0; t < 2; t++) {
    tri_encoder *encoder = NULL;
    tri_token_list list = {0};
    assert_ok(tri_encoder_create(tokenizers[t], &encoder));
    for (int round = 0; round < 2000; round++) {
      char text[300];
      size_t bytes = next_random(&random) % sizeof text;
      for (size_t i = 0; i < bytes; i++) {
        text[i] =
            (char)(uint8_t)(next_random(&random) % 3 == 0 ? next_random(&random) : 'a' + next_random(&random) % 4);
      }
      list.count = 0;
      assert_ok(tri_encoder_encode(encoder, text, bytes, round % 2, &list));
      assert_spells(tokenizers[t], &list, text, bytes);
    }
    tri_free(list.ids);
    tri_encoder_destroy(encoder);
    tri_tokenizer_destroy(tokenizers[t]);
  }
}

/* ---- learning and saving ----------------------------------------------------------------------------------------- */

static void test_learning(void **state) {
  (void)state;
  tri_tokenizer_trainer *trainer = NULL;
  tri_tokenizer *tokenizer = NULL;
  size_t bytes = 0;
  /* "ab" three times (twice behind a space), "bc" twice: "ab", then " ab" and "bc" tie and the lower pair of ids wins:
   * 'b' 'c' (ids 66, 67) before ' ' "ab" (ids 221, 257). */
  static const char text[] = "ab ab ab\nbc\nbc";
  assert_ok(tri_tokenizer_trainer_create(260, &trainer));
  assert_ok(tri_tokenizer_trainer_feed(trainer, text, sizeof text - 1));
  assert_ok(tri_tokenizer_trainer_finish(trainer, &tokenizer));
  tri_tokenizer_trainer_destroy(trainer);
  assert_int_equal(tri_tokenizer_vocab_size(tokenizer), 260);
  assert_int_equal(tri_tokenizer_end_of_text(tokenizer), 0);
  assert_memory_equal(tri_tokenizer_token(tokenizer, 1, &bytes), "!", 1);
  assert_memory_equal(tri_tokenizer_token(tokenizer, 221, &bytes), " ", 1);
  assert_memory_equal(tri_tokenizer_token(tokenizer, 257, &bytes), "ab", 2);
  assert_memory_equal(tri_tokenizer_token(tokenizer, 258, &bytes), "bc", 2);
  assert_memory_equal(tri_tokenizer_token(tokenizer, 259, &bytes), " ab", 3);
  assert_int_equal(bytes, 3);
  assert_ids(tokenizer, "ab abc<|endoftext|>", 1, IDS(257, 259, 67, 0));
  tri_tokenizer_destroy(tokenizer);
}

static void test_saving(void **state) {
  (void)state;
  char path[] = "/tmp/trireme_tokenizer_XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  tri_tokenizer *made[3] = {0};
  assert_ok(tri_tokenizer_create("bytes", &made[0]));
  made[1] = learn_random(19, 500);
  assert_ok(parse_document(base_document(), &made[2]));
  for (int t = 0; t < 3; t++) {
    tri_tokenizer *read = NULL;
    static const char text[] = "hello abcabcdd\xff bc<|endoftext|>aaaaaaaa  \xc3\xa9";
    assert_ok(tri_tokenizer_save(made[t], path));
    assert_ok(tri_tokenizer_create(path, &read));
    assert_int_equal(tri_tokenizer_vocab_size(read), tri_tokenizer_vocab_size(made[t]));
    assert_int_equal(tri_tokenizer_end_of_text(read), tri_tokenizer_end_of_text(made[t]));
    tri_token_list a = encode(made[t], text, sizeof text - 1, 1), b = encode(read, text, sizeof text - 1, 1);
    assert_int_equal(a.count, b.count);
    assert_memory_equal(a.ids, b.ids, (size_t)a.count * sizeof *a.ids);
    assert_spells(read, &b, text, sizeof text - 1);
    tri_free(a.ids);
    tri_free(b.ids);
    tri_tokenizer_destroy(read);
    tri_tokenizer_destroy(made[t]);
  }
  unlink(path);
}

/* ---- what tokenizer.json can ask for ----------------------------------------------------------------------------- */

static void test_documents(void **state) {
  (void)state;
  assert_document_ids(base_document(), "hello hello world<|endoftext|>", IDS(259, 260, 261, 'o', 'r', 'l', 'd', 262));
  json_t *root = base_document(); /* pairs as arrays; only the last place of a repeated pair counts */
  patch(root, "added_tokens", "[]");
  patch(root, "model.vocab.el", "262");
  patch(root, "model.merges.6", "[\"e\", \"l\"]");
  patch(root, "model.merges.7", "[\"h\", \"e\"]");
  assert_document_ids(root, "hel he", IDS('h', 262, ' ', 256));
  root = base_document(); /* merges that do not reach a token, and the word that is one */
  patch(root, "model.merges", "[]");
  assert_document_ids(root, "hello", IDS('h', 'e', 'l', 'l', 'o'));
  root = base_document();
  patch(root, "model.merges", "[]");
  patch(root, "model.ignore_merges", "true");
  assert_document_ids(root, "hello hello x", IDS(259, 260, ' ', 'x'));
  root = base_document();
  patch(root, "pre_tokenizer.add_prefix_space", "true");
  assert_document_ids(root, "hello<|endoftext|>hello", IDS(260, 262, 260));
  root = base_document();
  patch(root, "pre_tokenizer",
        "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"String\": \"l\"}, "
        "\"behavior\": \"Isolated\"}, "
        "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}]}");
  assert_document_ids(root, "hello hello", IDS(256, 'l', 'l', 'o', ' ', 256, 'l', 'l', 'o'));
  root = base_document(); /* a post-processor has no effect here */
  patch(root, "post_processor",
        "{\"type\": \"TemplateProcessing\", \"single\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}]}");
  assert_document_ids(root, "he", IDS(256));
}

static void test_ids_with_holes(void **state) {
  (void)state;
  json_t *root = base_document();
  tri_tokenizer *tokenizer = NULL;
  size_t bytes = 9;
  patch(root, "added_tokens", "[]");
  patch(root, "model.vocab.zz", "300");
  assert_ok(parse_document(root, &tokenizer));
  assert_int_equal(tri_tokenizer_vocab_size(tokenizer), 301);
  assert_int_equal(tri_tokenizer_end_of_text(tokenizer), -1);
  tri_tokenizer_token(tokenizer, 299, &bytes);
  assert_int_equal(bytes, 0);
  tri_tokenizer_token(tokenizer, 300, &bytes);
  assert_int_equal(bytes, 2);
  tri_tokenizer_destroy(tokenizer);
}

static void test_added_tokens(void **state) {
  (void)state;
  json_t *root = base_document();
  tri_tokenizer *tokenizer = NULL;
  patch(root, "added_tokens.1",
        "{\"content\": \"<m>\", \"id\": 263, \"special\": true, \"lstrip\": true, \"rstrip\": true}");
  patch(root, "added_tokens.2", "{\"content\": \"<|end\", \"id\": 264, \"special\": false}");
  patch(root, "added_tokens.3", "{\"content\": \"word\", \"id\": 265, \"single_word\": true}");
  assert_ok(parse_document(root, &tokenizer));
  assert_ids(tokenizer, "x \t<m>\xe2\x80\x83 x", 1, IDS('x', 263, 'x'));
  assert_ids(tokenizer, "<|endo<|endoftext|>", 1, IDS(264, 'o', 262)); /* the longest */
  assert_ids(tokenizer, "<m><|end", 0, IDS('<', 'm', '>', 264));       /* special ones alone are letters */
  assert_ids(tokenizer, "word.word", 1, IDS(265, '.', 265));
  assert_ids(tokenizer, "words", 1, IDS('w', 'o', 'r', 'd', 's'));
  assert_ids(tokenizer, "\xc3\xa9word", 1, IDS(0xC3, 0xA9, 'w', 'o', 'r', 'd'));
  assert_ids(tokenizer, "\xffword\xff", 1, IDS(0xFF, 265, 0xFF)); /* bytes that are not UTF-8 are not letters */
  tri_tokenizer_destroy(tokenizer);
}

typedef struct guarded_case {
  const char *text;
  tri_text_range ranges[3]; /* up to the first that is empty */
  const int32_t *wanted;    /* up to -1 */
} guarded_case;

static void assert_guarded(tri_encoder *encoder, const guarded_case *c) {
  tri_token_list list = {0};
  int64_t ranges = 0, count = 0;
  while (ranges < 3 && c->ranges[ranges].end > 0) ranges++;
  while (c->wanted[count] >= 0) count++;
  assert_ok(tri_encoder_encode_guarded(encoder, c->text, strlen(c->text), c->ranges, ranges, &list));
  for (int64_t i = 0; i < list.count; i++) {
    if (i == count || list.ids[i] != c->wanted[i]) fail_msg("\"%s\": id %d is %d", c->text, (int)i, (int)list.ids[i]);
  }
  assert_int_equal(list.count, count);
  tri_free(list.ids);
}

/* Special tokens in ranges of plain text, also those that merges or the lookup of whole words would make. */
static void test_guarded(void **state) {
  (void)state;
  const guarded_case cases[] = {
      {"<m><m>", {{0, 0}}, IDS(263, 263)},
      {"<m><m>", {{3, 6}}, IDS(263, '<', 'm', '>')},
      {"<m><m>", {{0, 3}}, IDS('<', 'm', '>', 263)},
      {"<m><m>", {{0, 6}}, IDS('<', 'm', '>', '<', 'm', '>')},
      {"<m>x<m>", {{0, 0}}, IDS(264, 263)},
      {"<m>x<m>", {{3, 4}}, IDS(263, 'x', 263)}, /* a shorter token of the template is not hidden */
      {"<m<m>", {{0, 2}}, IDS('<', 'm', 263)},
      {"<m>", {{1, 2}}, IDS('<', 'm', '>')}, /* across the ends of a range */
      {"<m>", {{2, 3}}, IDS('<', 'm', '>')},
      {"a <m> b", {{0, 2}, {5, 7}}, IDS('a', 263, 'b')}, /* lstrip and rstrip */
      {"<|end", {{0, 5}}, IDS(265)},                     /* is not special */
      {"<|endoftext|>", {{0, 13}}, IDS(265, 'o', 'f', 't', 'e', 'x', 't', '|', '>')},
      {"hello", {{0, 0}}, IDS(259)},
      {"hello", {{0, 5}}, IDS(258, 'o')},
      {"hello", {{0, 0}}, IDS(259)}, /* the cache does not mix them up */
      {"hello a", {{6, 7}}, IDS(259, ' ', 'a')},
      {"hell hell<m>", {{5, 9}}, IDS(258, ' ', 258, 263)},
      {"<n>abn>", {{0, 0}}, IDS(266, 266)},
      {"<n>abn>", {{0, 3}}, IDS('<', 'n', '>', 266)},
      {"<n>abn>", {{3, 7}}, IDS(266, '<', 'n', '>')},
      {"abn>x<n>", {{1, 2}, {4, 5}}, IDS('<', 'n', '>', 'x', 266)},
      {"ab<n>ababn>", {{0, 2}, {5, 7}}, IDS('<', 266, '<', 266)},
      {"<m>abn><n>", {{3, 7}}, IDS(263, '<', 'n', '>', 266)}, /* in a later piece */
      {"ab<m>ab<n>", {{0, 2}, {5, 8}}, IDS('<', 263, '<', '<', 'n', '>')},
  };
  for (int whole = 0; whole < 2; whole++) {
    json_t *root = base_document();
    tri_tokenizer *tokenizer = NULL;
    tri_encoder *encoder = NULL;
    patch(root, "added_tokens.1",
          "{\"content\": \"<m>\", \"id\": 263, \"special\": true, \"lstrip\": true, \"rstrip\": true}");
    patch(root, "added_tokens.2", "{\"content\": \"<m>x\", \"id\": 264, \"special\": true, \"normalized\": false}");
    patch(root, "added_tokens.3", "{\"content\": \"<|end\", \"id\": 265, \"special\": false, \"normalized\": false}");
    patch(root, "added_tokens.4", "{\"content\": \"<n>\", \"id\": 266, \"special\": true, \"normalized\": true}");
    patch(root, "added_tokens.5", "{\"content\": \"hello\", \"id\": 259, \"special\": true, \"normalized\": false}");
    patch(root, "normalizer", "{\"type\": \"Replace\", \"pattern\": {\"String\": \"ab\"}, \"content\": \"<\"}");
    patch(root, "model.ignore_merges", whole ? "true" : "false");
    assert_ok(parse_document(root, &tokenizer));
    assert_ok(tri_encoder_create(tokenizer, &encoder));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) assert_guarded(encoder, &cases[i]);
    tri_encoder_destroy(encoder);
    tri_tokenizer_destroy(tokenizer);
  }
}

static void test_unknown_bytes(void **state) {
  (void)state;
  for (int fuse = 0; fuse < 2; fuse++) {
    json_t *root = base_document();
    patch(root, "added_tokens", "[]");
    patch(root, "model.vocab.z", NULL);
    patch(root, "model.unk_token", "\"o\"");
    patch(root, "model.fuse_unk", fuse ? "true" : "false");
    assert_document_ids(root, "zza", fuse ? IDS('o', 'a') : IDS('o', 'o', 'a'));
  }
}

static void test_normal_form(void **state) {
  (void)state;
  static const struct {
    const char *text, *wanted;
  } cases[] = {
      {"abc", "abc"},
      {"e\u0301", "\u00e9"},
      {"xe\u0301\u0327y", "x\u0229\u0301y"}, /* the cedilla comes first and combines */
      {"\u212b", "\u00c5"},                  /* the sign of Angstrom is a letter */
      {"\u1112\u1161\u11ab", "\ud55c"},      /* Hangul */
      {"\u0958", "\u0915\u093c"},            /* excluded from composition */
      {"e\xff\u0301", "e\xff\u0301"},        /* not UTF-8 between them */
      {"\u0301e\u0301", "\u0301\u00e9"},
  };
  tri_normalizer normalizer = {0};
  const char *out = NULL;
  size_t bytes = 0;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    assert_ok(tri_normalize(&normalizer, cases[i].text, strlen(cases[i].text), &out, &bytes));
    if (bytes != strlen(cases[i].wanted) || memcmp(out, cases[i].wanted, bytes) != 0) {
      fail_msg("\"%s\" becomes \"%.*s\" instead of \"%s\"", cases[i].text, (int)bytes, out, cases[i].wanted);
    }
  }
  enum { MARKS = 300000 }; /* marks of two classes in turn, on which a quadratic sort would take minutes */
  char *text = malloc(MARKS * 2);
  assert_non_null(text);
  for (size_t i = 0; i < MARKS; i++) memcpy(text + 2 * i, i % 2 == 0 ? "\u0301" : "\u0323", 2);
  assert_ok(tri_normalize(&normalizer, text, MARKS * 2, &out, &bytes));
  assert_int_equal(bytes, MARKS * 2);
  assert_memory_equal(out, "\u0323\u0323", 4);
  assert_memory_equal(out + bytes - 4, "\u0301\u0301", 4);
  free(text);
  tri_normalizer_release(&normalizer);
  json_t *root = base_document();
  patch(root, "normalizer", "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"}]}");
  assert_document_ids(root, "he\u0301", IDS('h', 0xC3, 0xA9));
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

static void *encode_in_thread(void *context) {
  static const char text[] = "hello hello world's \xe2\x80\x99 12 abcabc <|endoftext|>  \xc3\xa9t\xc3\xa9 \n";
  tri_encoder *encoder = NULL;
  tri_token_list *list = calloc(1, sizeof *list);
  bool good = tri_encoder_create(context, &encoder) == TRI_OK;
  for (int i = 0; i < 200 && good; i++) {
    good = tri_encoder_encode(encoder, text, sizeof text - 1, 1, list) == TRI_OK;
  }
  tri_encoder_destroy(encoder);
  return list;
}

static void test_threads(void **state) {
  (void)state;
  enum { THREADS = 4 };
  tri_tokenizer *tokenizer = NULL;
  pthread_t threads[THREADS];
  tri_token_list *lists[THREADS];
  assert_ok(parse_document(base_document(), &tokenizer));
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, encode_in_thread, tokenizer), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], (void **)&lists[i]);
  assert_true(lists[0]->count > 200);
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(lists[i]->count, lists[0]->count);
    assert_memory_equal(lists[i]->ids, lists[0]->ids, (size_t)lists[0]->count * sizeof(int32_t));
  }
  for (int i = 0; i < THREADS; i++) {
    tri_free(lists[i]->ids);
    free(lists[i]);
  }
  tri_tokenizer_destroy(tokenizer);
}

static void test_nothing_is_left(void **state) {
  (void)state;
  assert_int_equal(tri_memory_bytes(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gpt2_ids),      cmocka_unit_test(test_bytes),
      cmocka_unit_test(test_byte_letters),  cmocka_unit_test(test_utf8),
      cmocka_unit_test(test_scanners),      cmocka_unit_test(test_merges),
      cmocka_unit_test(test_long_word),     cmocka_unit_test(test_any_bytes_come_back),
      cmocka_unit_test(test_learning),      cmocka_unit_test(test_saving),
      cmocka_unit_test(test_documents),     cmocka_unit_test(test_ids_with_holes),
      cmocka_unit_test(test_added_tokens),  cmocka_unit_test(test_guarded),
      cmocka_unit_test(test_unknown_bytes), cmocka_unit_test(test_normal_form),
      cmocka_unit_test(test_threads),       cmocka_unit_test(test_nothing_is_left),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
