#include "tokenizer/tokenizer_internal.h"

#include "base/log.h"
#include "base/memory.h"
#include "files/file.h"
#include "files/file_kind.h"
#include "files/file_transaction.h"
#include "files/hub.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_FILE_BYTES = 256 << 20 };

/* Usual names of the token between documents, most likely first. */
static const char *const end_of_text_names[] = {"<|endoftext|>",
                                                "<|end_of_text|>",
                                                "<|endofdocument|>",
                                                "</s>",
                                                "<|eos|>",
                                                "<eos>",
                                                "[EOS]",
                                                "<\uff5cend\u2581of\u2581sentence\uff5c>"};

tri_status tri_tokenizer_begin(int64_t size, tri_tokenizer **out) {
  tri_tokenizer *tokenizer = NULL;
  TRI_TRY(tri_alloc("a tokenizer", 1, sizeof *tokenizer, &tokenizer));
  tokenizer->unknown = tokenizer->end_of_text = tokenizer->named_end = -1;
  tri_status status = tri_vocabulary_create(&tokenizer->vocabulary, size);
  if (status == TRI_OK) *out = tokenizer;
  if (status != TRI_OK) tri_tokenizer_destroy(tokenizer);
  return status;
}

tri_status tri_tokenizer_add_token(tri_tokenizer *tokenizer, const tri_added_token *token, const char *content,
                                   size_t bytes) {
  int64_t count = tokenizer->added_count;
  if ((count & (count + 1)) == 0) { /* full at 0, 1, 3, 7, ...: double it */
    TRI_TRY(tri_realloc("the added tokens", (size_t)count * 2 + 1, sizeof *token, &tokenizer->added));
  }
  char *copy = NULL;
  TRI_TRY(tri_alloc("an added token", bytes + 1, 1, &copy));
  memcpy(copy, content, bytes);
  tokenizer->added[count] = *token;
  tokenizer->added[count].content = copy;
  tokenizer->added[count].bytes = bytes;
  tokenizer->added_count++;
  return TRI_OK;
}

static int32_t find_end_of_text(const tri_tokenizer *tokenizer) {
  for (size_t k = 0; k < sizeof end_of_text_names / sizeof end_of_text_names[0]; k++) {
    for (int64_t i = 0; i < tokenizer->added_count; i++) {
      if (strcmp(tokenizer->added[i].content, end_of_text_names[k]) == 0) return tokenizer->added[i].id;
    }
  }
  return -1;
}

/* Counts the bytes without a token in a vocabulary without an unknown token, and logs the number: these bytes are
 * dropped from texts, as in other programs. */
static void count_missing(tri_tokenizer *tokenizer, const char *file) {
  int first = -1;
  for (int byte = 0; byte < 256 && tokenizer->unknown < 0; byte++) {
    if (tokenizer->vocabulary.byte_ids[byte] >= 0) continue;
    if (first < 0) first = byte;
    tokenizer->missing_bytes++;
  }
  if (tokenizer->missing_bytes == 0) return;
  tri_log(
      "%s: the vocabulary has no token for %d of the 256 bytes (the first is 0x%02X); they are dropped from texts, as "
      "other programs do",
      file, tokenizer->missing_bytes, (unsigned)first);
}

static tri_status end_characters(tri_tokenizer *tokenizer, const char *file) {
  bool whole = tri_vocabulary_use_fallback(&tokenizer->vocabulary, tokenizer->byte_fallback);
  if (!whole && tokenizer->unknown < 0) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: not every text can be encoded: a vocabulary of characters needs byte_fallback and tokens "
                    "\"<0x00>\" to \"<0xFF>\", or an unk_token",
                    file);
  }
  TRI_TRY(tri_joins_create(&tokenizer->joins, &tokenizer->vocabulary, !whole));
  return tri_decoding_index(&tokenizer->decoding, &tokenizer->vocabulary);
}

static void mark_specials(tri_tokenizer *tokenizer) {
  tri_vocabulary *vocabulary = &tokenizer->vocabulary;
  for (int64_t i = 0; i < tokenizer->added_count; i++) {
    if (tokenizer->added[i].special) vocabulary->tokens[tokenizer->added[i].id].special = true;
  }
  for (int64_t i = 0; i < vocabulary->merge_count; i++) {
    vocabulary->merges_specials |= vocabulary->tokens[vocabulary->merges[i].result].special;
  }
}

tri_status tri_tokenizer_end(tri_tokenizer *tokenizer, const char *file) {
  TRI_TRY(tri_vocabulary_index(&tokenizer->vocabulary));
  if (tokenizer->vocabulary.characters) {
    TRI_TRY(end_characters(tokenizer, file));
  } else {
    count_missing(tokenizer, file);
  }
  mark_specials(tokenizer);
  tokenizer->named_end = tokenizer->end_of_text = find_end_of_text(tokenizer);
  tokenizer->end_source = "its name";
  if (tokenizer->named_end >= 0) tokenizer->ends[tokenizer->num_ends++] = tokenizer->named_end;
  TRI_TRY(tri_added_matcher_create(&tokenizer->raw, tokenizer->added, tokenizer->added_count, false));
  return tri_added_matcher_create(&tokenizer->normal, tokenizer->added, tokenizer->added_count, true);
}

void tri_tokenizer_destroy(tri_tokenizer *tokenizer) {
  if (tokenizer == NULL) return;
  for (int64_t i = 0; i < tokenizer->added_count; i++) tri_free(tokenizer->added[i].content);
  tri_free(tokenizer->added);
  tri_added_matcher_release(&tokenizer->raw);
  tri_added_matcher_release(&tokenizer->normal);
  tri_pretokenizer_release(&tokenizer->pretokenizer);
  tri_text_steps_release(&tokenizer->normalizer);
  tri_text_steps_release(&tokenizer->spaces);
  tri_joins_release(&tokenizer->joins);
  tri_decoding_release(&tokenizer->decoding);
  tri_vocabulary_release(&tokenizer->vocabulary);
  tri_free(tokenizer->json);
  tri_free(tokenizer);
}

int64_t tri_tokenizer_vocab_size(const tri_tokenizer *tokenizer) { return tokenizer->vocabulary.size; }

bool tri_tokenizer_leaves_gap(int64_t size, int64_t model_vocab_size) {
  enum { PADDING = 128 };
  return model_vocab_size > (size + PADDING - 1) / PADDING * PADDING && model_vocab_size - size > size / 10;
}

int32_t tri_tokenizer_end_of_text(const tri_tokenizer *tokenizer) { return tokenizer->end_of_text; }

const char *tri_tokenizer_end_source(const tri_tokenizer *tokenizer) { return tokenizer->end_source; }

const int32_t *tri_tokenizer_beginning(const tri_tokenizer *tokenizer, int *count) {
  *count = tokenizer->num_beginning;
  return tokenizer->beginning;
}

const char *tri_tokenizer_json(const tri_tokenizer *tokenizer, size_t *bytes) {
  *bytes = tokenizer->json_bytes;
  return tokenizer->json;
}

void tri_tokenizer_log_class(const tri_tokenizer *tokenizer) {
  if (tokenizer->other_class == NULL) return;
  tri_log(
      "the tokenizer's folder asks for %s: transformers 5 cuts texts in a way of that class, some of them to other "
      "tokens; here they are cut as tokenizer.json says",
      tokenizer->other_class);
}

const int32_t *tri_tokenizer_ends(const tri_tokenizer *tokenizer, int *count) {
  *count = tokenizer->num_ends;
  return tokenizer->ends;
}

/* Creates the tokenizer of bytes: ids are bytes, and 256 ends a text. */
static tri_status create_bytes(tri_tokenizer **out) {
  static const char end[] = "<|endoftext|>";
  tri_tokenizer *tokenizer = NULL;
  tri_status status = TRI_OK;
  TRI_TRY(tri_tokenizer_begin(257, &tokenizer));
  for (int32_t id = 0; id < 256; id++) {
    char byte = (char)(uint8_t)id;
    TRI_TRY_GOTO(tri_vocabulary_add(&tokenizer->vocabulary, id, &byte, 1, true), fail);
  }
  TRI_TRY_GOTO(tri_vocabulary_add(&tokenizer->vocabulary, 256, end, sizeof end - 1, true), fail);
  tri_added_token added = {.id = 256, .special = true};
  TRI_TRY_GOTO(tri_tokenizer_add_token(tokenizer, &added, end, sizeof end - 1), fail);
  TRI_TRY_GOTO(tri_tokenizer_end(tokenizer, "bytes"), fail);
  *out = tokenizer;
  return TRI_OK;
fail:
  tri_tokenizer_destroy(tokenizer);
  return status;
}

/* Returns whether a folder has the older form of a tokenizer.json: two files. */
static bool has_vocab_and_merges(const char *folder, char vocab[TRI_PATH_BYTES]) {
  char merges[TRI_PATH_BYTES];
  return tri_path_join(merges, folder, "merges.txt") == TRI_OK && tri_path_exists(merges) &&
         tri_path_join(vocab, folder, "vocab.json") == TRI_OK && tri_path_exists(vocab);
}

static tri_status create_composed(const char *folder, const char *vocab, tri_tokenizer **out) {
  char *text = NULL;
  TRI_TRY(tri_tokenizer_compose_json(folder, vocab, &text));
  const tri_status status = tri_tokenizer_parse_json_in(folder, vocab, text, strlen(text), out);
  free(text);
  return status;
}

static tri_status create_gpt2(const char *directory, tri_tokenizer **out) {
  char encoder_file[TRI_PATH_BYTES], merges_file[TRI_PATH_BYTES];
  char *encoder = NULL, *merges = NULL;
  size_t encoder_bytes = 0, merges_bytes = 0;
  tri_status status = TRI_OK;
  TRI_TRY(tri_path_join(encoder_file, directory, "encoder.json"));
  TRI_TRY(tri_path_join(merges_file, directory, "vocab.bpe"));
  if (!tri_path_exists(encoder_file)) {
    char vocab[TRI_PATH_BYTES], hint[TRI_FOLDER_HINT_BYTES];
    if (has_vocab_and_merges(directory, vocab)) return create_composed(directory, vocab, out);
    return tri_fail(TRI_BAD_FILE, "%s has neither encoder.json with vocab.bpe nor vocab.json with merges.txt%s",
                    directory, tri_folder_hint(directory, TRI_CONTENT_TOKENIZER, hint));
  }
  TRI_TRY_GOTO(tri_file_read_plain(encoder_file, LONGEST_FILE_BYTES, &encoder, &encoder_bytes), free_texts);
  TRI_TRY_GOTO(tri_file_read_plain(merges_file, LONGEST_FILE_BYTES, &merges, &merges_bytes), free_texts);
  TRI_TRY_GOTO(tri_tokenizer_parse_gpt2(encoder_file, encoder, encoder_bytes, merges_file, merges, merges_bytes, out),
               free_texts);
free_texts:
  tri_free(encoder);
  tri_free(merges);
  return status;
}

static bool is_called(const char *name, const char *wanted) { return strcmp(name, wanted) == 0; }

/* Finds the folder of a tokenizer.json or vocab.json. Returns false for a file with another name, which has no
 * folder. */
static bool find_folder(const char *source, char out[TRI_PATH_BYTES]) {
  const char *slash = strrchr(source, '/'), *name = slash == NULL ? source : slash + 1;
  const size_t length = slash == NULL ? 0 : slash == source ? 1 : (size_t)(slash - source);
  if ((!is_called(name, "tokenizer.json") && !is_called(name, "vocab.json")) || length >= TRI_PATH_BYTES) return false;
  memcpy(out, slash == NULL ? "." : source, slash == NULL ? 1 : length);
  out[slash == NULL ? 1 : length] = '\0';
  return true;
}

/* Reads the ends of texts from the tokenizer's folder, and sets *out to the tokenizer; after a failure, destroys it. */
static tri_status find_ends(tri_tokenizer *tokenizer, const char *folder, tri_tokenizer **out) {
  const tri_status status = tri_tokenizer_find_ends(tokenizer, folder);
  if (status == TRI_OK) *out = tokenizer;
  if (status != TRI_OK) tri_tokenizer_destroy(tokenizer);
  return status;
}

static tri_status create_json(const char *source, tri_tokenizer **out) {
  char *text = NULL, folder[TRI_PATH_BYTES], vocab[TRI_PATH_BYTES], hint[TRI_FOLDER_HINT_BYTES];
  size_t bytes = 0, length = strlen(source);
  tri_tokenizer *tokenizer = NULL;
  const bool has_folder = find_folder(source, folder);
  const bool is_vocab = has_folder && length > 10 && is_called(source + length - 10, "vocab.json");
  if (has_folder && (is_vocab || !tri_path_exists(source))) {
    if (has_vocab_and_merges(folder, vocab)) {
      TRI_TRY(create_composed(folder, vocab, &tokenizer));
      return find_ends(tokenizer, folder, out);
    }
    if (!is_vocab) {
      return tri_fail(TRI_BAD_FILE, "cannot open %s: %s%s", source, strerror(ENOENT),
                      tri_folder_hint(folder, TRI_CONTENT_TOKENIZER, hint));
    }
  }
  /* Only plain files are read from a folder, which may be from another user; a file named directly may be a pipe. */
  TRI_TRY((has_folder ? tri_file_read_plain : tri_file_read)(source, LONGEST_FILE_BYTES, &text, &bytes));
  const tri_status status = tri_tokenizer_parse_json_in(has_folder ? folder : NULL, source, text, bytes, &tokenizer);
  tri_free(text);
  TRI_TRY(status);
  if (has_folder) return find_ends(tokenizer, folder, out);
  *out = tokenizer;
  return TRI_OK;
}

tri_status tri_tokenizer_of_folder(const char *folder, char path[TRI_PATH_BYTES], bool *found) {
  char vocab[TRI_PATH_BYTES];
  TRI_TRY(tri_path_join(path, folder, "tokenizer.json"));
  *found = tri_path_exists(path) || has_vocab_and_merges(folder, vocab);
  return TRI_OK;
}

tri_status tri_tokenizer_path(const char *given, char path[TRI_PATH_BYTES]) {
  char folder[TRI_PATH_BYTES];
  TRI_TRY(tri_hub_resolve(given, folder));
  TRI_TRY(tri_path_with(path, folder, ""));
  if (!tri_path_is_directory(folder)) return TRI_OK;
  TRI_TRY(tri_path_join(path, folder, "tokenizer.json"));
  return TRI_OK;
}

tri_status tri_tokenizer_create(const char *source, tri_tokenizer **out) {
  if (strcmp(source, "bytes") == 0) return create_bytes(out);
  if (strncmp(source, "gpt2:", 5) == 0) {
    tri_tokenizer *tokenizer = NULL;
    TRI_TRY(create_gpt2(source + 5, &tokenizer));
    return find_ends(tokenizer, source + 5, out);
  }
  if (tri_path_is_directory(source)) {
    return tri_fail(TRI_BAD_FILE,
                    "%s is a directory; give the tokenizer.json in it, or gpt2:%s for encoder.json and "
                    "vocab.bpe",
                    source, source);
  }
  TRI_TRY(tri_file_transaction_finish_for(source, ""));
  return create_json(source, out);
}
