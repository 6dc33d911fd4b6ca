/* GPT-2's own files: encoder.json holds {"token": id}, vocab.bpe a merge on each line, the first to merge first. */
#include "tokenizer/tokenizer_internal.h"

#include "base/log.h"
#include "base/memory.h"

#include <string.h>

static tri_status read_merges(tri_merge_reader *reader, const char *text, size_t bytes) {
  static const char version[] = "#version";
  for (size_t at = 0; at < bytes;) {
    const char *line = text + at;
    const char *end = memchr(line, '\n', bytes - at);
    size_t length = end != NULL ? (size_t)(end - line) : bytes - at;
    at += length + 1;
    reader->number++;
    if (length > 0 && line[length - 1] == '\r') length--;
    if (reader->number == 1 && length >= sizeof version - 1 && memcmp(line, version, sizeof version - 1) == 0) continue;
    if (length == 0 && at >= bytes) break;
    TRI_TRY(tri_merge_reader_add_line(reader, line, length));
  }
  return TRI_OK;
}

/* Warns of tokens that no merge creates: the two files may belong to different vocabularies, or the merges may be
 * truncated at the end of a line. A few such tokens may have been added on purpose. */
static tri_status warn_of_missing_merges(const char *encoder_file, const char *merges_file,
                                         const tri_tokenizer *tokenizer) {
  const tri_vocabulary *vocabulary = &tokenizer->vocabulary;
  bool *made = NULL;
  int64_t missing = 0;
  int32_t first = -1;
  TRI_TRY(tri_alloc("the tokens that merges make", (size_t)vocabulary->size, sizeof *made, &made));
  for (int64_t i = 0; i < vocabulary->merge_count; i++) made[vocabulary->merges[i].result] = true;
  for (int64_t i = 0; i < tokenizer->added_count; i++) made[tokenizer->added[i].id] = true;
  for (int32_t id = 0; id < (int32_t)vocabulary->size; id++) {
    if (vocabulary->tokens[id].bytes < 2 || made[id]) continue;
    if (first < 0) first = id;
    missing++;
  }
  tri_free(made);
  if (missing == 0) return TRI_OK;
  char shown[TRI_SHOWN_BYTES];
  const tri_token *token = &vocabulary->tokens[first];
  tri_warn(
      "%s makes none of %lld tokens of %s; the first of them is \"%s\" (id %d); is the file complete, and does it "
      "belong to this vocabulary?",
      merges_file, (long long)missing, encoder_file,
      tri_tokenizer_show(vocabulary->pool + token->offset, token->bytes, shown), (int)first);
  return TRI_OK;
}

tri_status tri_tokenizer_parse_gpt2(const char *encoder_file, const char *encoder, size_t encoder_bytes,
                                    const char *merges_file, const char *merges, size_t merges_bytes,
                                    tri_tokenizer **out) {
  tri_status status = TRI_OK;
  json_t *vocab = NULL;
  tri_tokenizer *tokenizer = NULL;
  tri_merge_reader reader = {.file = merges_file, .kind = "line"};
  static const char end[] = "<|endoftext|>";
  TRI_TRY_GOTO(tri_tokenizer_load_json(encoder_file, encoder, encoder_bytes, &vocab), release);
  TRI_TRY_GOTO(
      tri_tokenizer_begin_vocabulary(encoder_file, vocab, &(tri_vocabulary_options){.added = NULL}, &tokenizer),
      release);
  reader.vocabulary = &tokenizer->vocabulary;
  TRI_TRY_GOTO(read_merges(&reader, merges, merges_bytes), release);
  TRI_TRY_GOTO(tri_pretokenizer_add_pattern(&tokenizer->pretokenizer, "GPT-2", tri_pattern_gpt2,
                                            strlen(tri_pattern_gpt2), false, false),
               release);
  tri_added_token added = {.special = true};
  added.id = tri_vocabulary_find(&tokenizer->vocabulary, end, sizeof end - 1);
  if (added.id >= 0) TRI_TRY_GOTO(tri_tokenizer_add_token(tokenizer, &added, end, sizeof end - 1), release);
  TRI_TRY_GOTO(tri_tokenizer_end(tokenizer, encoder_file), release);
  TRI_TRY_GOTO(warn_of_missing_merges(encoder_file, merges_file, tokenizer), release);
  *out = tokenizer;
  tokenizer = NULL;
release:
  tri_free(reader.scratch);
  tri_tokenizer_destroy(tokenizer);
  json_decref(vocab);
  return status;
}
