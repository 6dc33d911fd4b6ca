/* Writes a tokenizer as a tokenizer.json that Hugging Face's `tokenizers` loads. If it was read from such a file, the
 * file's text is written, including the parts that this program ignores; changes by other files of the folder
 * (folder.h) are part of it. */
#include "tokenizer/tokenizer_internal.h"

#include "base/memory.h"
#include "files/file.h"
#include "tokenizer/utf8.h"

#include <stdlib.h>
#include <string.h>

static tri_status out_of_memory(void) { return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: writing a tokenizer"); }

/* Writes a token in byte letters (or unchanged, if it is not spelled in them); returns the length. */
static size_t write_letters(const tri_vocabulary *vocabulary, int32_t id, char *out) {
  const tri_token *token = &vocabulary->tokens[id];
  const char *bytes = vocabulary->pool + token->offset;
  size_t length = 0;
  for (uint32_t i = 0; i < token->bytes; i++) {
    if (token->learnt) {
      length += tri_utf8_encode(tri_byte_letter((uint8_t)bytes[i]), out + length);
    } else {
      out[length++] = bytes[i];
    }
  }
  return length;
}

/* Returns the vocabulary as a new object {"token": id, ...}; NULL if memory is exhausted. */
static json_t *vocabulary_json(const tri_vocabulary *vocabulary, char *scratch) {
  json_t *object = json_object();
  for (int32_t id = 0; id < (int32_t)vocabulary->size; id++) {
    if (vocabulary->tokens[id].bytes == 0) continue;
    scratch[write_letters(vocabulary, id, scratch)] = '\0';
    if (json_object_set_new(object, scratch, json_integer(id)) == 0) continue;
    json_decref(object);
    return NULL;
  }
  return object;
}

static json_t *merges_json(const tri_vocabulary *vocabulary, char *scratch) {
  json_t *list = json_array();
  for (int64_t i = 0; i < vocabulary->merge_count; i++) {
    size_t length = write_letters(vocabulary, vocabulary->merges[i].left, scratch);
    scratch[length++] = ' ';
    length += write_letters(vocabulary, vocabulary->merges[i].right, scratch + length);
    if (json_array_append_new(list, json_stringn(scratch, length)) != 0) break;
  }
  return list;
}

static json_t *added_json(const tri_tokenizer *tokenizer) {
  json_t *list = json_array();
  for (int64_t i = 0; i < tokenizer->added_count; i++) {
    const tri_added_token *token = &tokenizer->added[i];
    json_t *entry = json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (int)token->id, "content", token->content,
                              "single_word", token->single_word, "lstrip", token->lstrip, "rstrip", token->rstrip,
                              "normalized", token->normalized, "special", token->special);
    if (json_array_append_new(list, entry) != 0) break;
  }
  return list;
}

/* Makes the whole document; NULL if memory is exhausted. */
static json_t *document(const tri_tokenizer *tokenizer, char *scratch) {
  const tri_vocabulary *vocabulary = &tokenizer->vocabulary;
  bool words = tokenizer->pretokenizer.count > 0; /* whether there is a pattern, which is GPT-2's; a tokenizer with
                                                     another pattern was read from a tokenizer.json, which is written
                                                     instead */
  json_t *byte_level = json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1,
                                 "use_regex", (int)words);
  json_t *model =
      json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout", "unk_token",
                "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0, "ignore_merges",
                0, "vocab", vocabulary_json(vocabulary, scratch), "merges", merges_json(vocabulary, scratch));
  return json_pack("{s:s, s:n, s:n, s:o, s:n, s:O, s:n, s:o, s:o}", "version", "1.0", "truncation", "padding",
                   "added_tokens", added_json(tokenizer), "normalizer", "pre_tokenizer", byte_level, "post_processor",
                   "decoder", byte_level, "model", model);
}

tri_status tri_tokenizer_save(const tri_tokenizer *tokenizer, const char *path) {
  if (tokenizer->json != NULL) return tri_file_replace(path, tokenizer->json, tokenizer->json_bytes);
  const tri_vocabulary *vocabulary = &tokenizer->vocabulary;
  size_t longest = 0;
  for (int64_t id = 0; id < vocabulary->size; id++) {
    if (vocabulary->tokens[id].bytes > longest) longest = vocabulary->tokens[id].bytes;
  }
  char *scratch = NULL;
  TRI_TRY(tri_alloc("a token", longest * 4 + 2, 1, &scratch)); /* two tokens, two bytes per letter, a space, a NUL */
  json_t *root = document(tokenizer, scratch);
  tri_free(scratch);
  if (root == NULL) return out_of_memory();
  /* An incomplete list (memory exhausted) must not be written. */
  const json_t *model = json_object_get(root, "model");
  bool whole = json_array_size(json_object_get(model, "merges")) == (size_t)vocabulary->merge_count &&
               json_array_size(json_object_get(root, "added_tokens")) == (size_t)tokenizer->added_count;
  char *text = whole ? json_dumps(root, JSON_INDENT(2)) : NULL;
  json_decref(root);
  if (text == NULL) return out_of_memory();
  tri_status status = tri_file_replace(path, text, strlen(text));
  free(text);
  return status;
}
