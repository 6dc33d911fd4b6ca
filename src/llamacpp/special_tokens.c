#include "llamacpp/special_tokens.h"

#include "base/log.h"
#include "tokenizer/folder.h"

#include <string.h>

/* A named token of a folder and the key of its id; -1: none. */
typedef struct named_id {
  const char *name, *key;
  int64_t id;
} named_id;

enum { BOS, EOS, UNKNOWN, PADDING, NAMED = 7 };

typedef struct special_tokens {
  const tri_llamacpp_tokens *tokens;
  named_id named[NAMED];
  int64_t eot; /* a second token that ends texts; -1: none */
} special_tokens;

/* Returns the id of a token; -1 if it is not in the document. */
static int64_t find_id(const tri_llamacpp_tokens *tokens, const char *text) {
  const json_t *added = json_object_get(tokens->root, "added_tokens");
  for (size_t i = 0; i < json_array_size(added); i++) {
    const json_t *entry = json_array_get(added, i);
    const char *own = json_string_value(json_object_get(entry, "content"));
    if (own != NULL && strcmp(own, text) == 0) return (int64_t)json_integer_value(json_object_get(entry, "id"));
  }
  const json_t *id = json_object_get(json_object_get(json_object_get(tokens->root, "model"), "vocab"), text);
  return json_is_integer(id) ? (int64_t)json_integer_value(id) : -1;
}

/* A tri_named_token_visit. */
static void visit_named(void *context, const char *key, const char *token) {
  special_tokens *found = context;
  for (int i = 0; i < NAMED; i++) {
    if (strcmp(key, found->named[i].name) == 0) found->named[i].id = find_id(found->tokens, token);
  }
}

/* ---- ends of texts ----------------------------------------------------------------------------------------------- */

/* Returns whether llama.cpp ends texts at a token because of its text. */
static bool ends_by_name(const tri_llamacpp_tokens *tokens, int64_t id) {
  static const char *const names[] = {"<|eot_id|>",
                                      "<|im_end|>",
                                      "<|end|>",
                                      "<|return|>",
                                      "<|call|>",
                                      "<|flush|>",
                                      "<|calls|>",
                                      "<end_of_turn>",
                                      "<|endoftext|>",
                                      "</s>",
                                      "<|eom_id|>",
                                      "<|end_of_text|>",
                                      "<EOT>",
                                      "_<EOT>",
                                      "[EOT]",
                                      "[EOS]",
                                      "<eos>",
                                      "<|end_of_turn|>",
                                      "<\uff5cend\u2581of\u2581sentence\uff5c>"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(tokens->texts[id].text, names[i]) == 0) return true;
  }
  return false;
}

static bool contains(const int32_t *list, int count, int64_t id) {
  for (int i = 0; i < count; i++) {
    if (list[i] == id) return true;
  }
  return false;
}

/* Chooses the key for each token that ends texts: eos for the named one or the first, eot for another one whose name
 * llama.cpp does not know. */
static void choose_ends(const tri_tokenizer *tokenizer, special_tokens *found) {
  const tri_llamacpp_tokens *tokens = found->tokens;
  int count = 0;
  const int32_t *ends = tri_tokenizer_ends(tokenizer, &count);
  int64_t *eos = &found->named[EOS].id;
  const int64_t end_of_text = tri_tokenizer_end_of_text(tokenizer);
  if (count > 0 && !contains(ends, count, *eos)) *eos = -1;
  if (*eos < 0) *eos = end_of_text;
  for (int i = 0; i < count; i++) {
    if (ends[i] >= tokens->rows || ends[i] == *eos) continue;
    if (*eos < 0) {
      *eos = ends[i];
    } else if (found->eot < 0 || ends_by_name(tokens, found->eot)) {
      found->eot = ends[i];
    } else if (!ends_by_name(tokens, ends[i])) {
      tri_log("%s: the token %d, \"%.40s\", ends texts here but not in llama.cpp, where %lld and %lld do", tokens->file,
              (int)ends[i], tokens->texts[ends[i]].text, (long long)*eos, (long long)found->eot);
    }
  }
}

/* Returns a token for a tokenizer in which no token ends texts, because llama.cpp would use number 11 of a byte-level
 * vocabulary, and 2 of one of characters. */
static int64_t choose_no_end(const tri_llamacpp_tokens *tokens) {
  for (int64_t id = tokens->rows - 1; id >= 0; id--) {
    if (tokens->types[id] == TRI_LLAMACPP_UNUSED) return id;
  }
  const int64_t id = tokens->rows - 1;
  tri_log("%s: no token ends texts; llama.cpp needs one, and gets the last, %lld, \"%.40s\"", tokens->file,
          (long long)id, tokens->texts[id].text);
  return id;
}

/* ---- beginnings of texts ----------------------------------------------------------------------------------------- */

/* Sets *adds to whether a token begins texts, which becomes the named bos. */
static tri_status choose_beginning(const tri_tokenizer *tokenizer, special_tokens *found, bool *adds) {
  int count = 0;
  const int32_t *beginning = tri_tokenizer_beginning(tokenizer, &count);
  *adds = count == 1;
  if (count > 1) {
    return tri_fail(TRI_UNSUPPORTED,
                    "%s: the post_processor begins texts with %d tokens, and a GGUF file has a place for one; leave "
                    "out all but the first",
                    found->tokens->file, count);
  }
  if (count == 1) found->named[BOS].id = beginning[0];
  if (found->named[BOS].id < 0) found->named[BOS].id = found->named[EOS].id;
  return TRI_OK;
}

static tri_status add_keys(tri_gguf_header *header, const special_tokens *found, bool adds) {
  for (int i = 0; i < NAMED; i++) {
    const named_id *one = &found->named[i];
    if (one->id >= 0) TRI_TRY(tri_gguf_add_uint32(header, one->key, (uint32_t)one->id));
  }
  if (found->eot >= 0) TRI_TRY(tri_gguf_add_uint32(header, "tokenizer.ggml.eot_token_id", (uint32_t)found->eot));
  TRI_TRY(tri_gguf_add_bool(header, "tokenizer.ggml.add_bos_token", adds));
  /* A prompt must not end with the end of a text, and the tokenizer does not put one there either. */
  return tri_gguf_add_bool(header, "tokenizer.ggml.add_eos_token", false);
}

tri_status tri_llamacpp_add_special_tokens(tri_gguf_header *header, const tri_tokenizer *tokenizer, const char *folder,
                                           tri_llamacpp_tokens *tokens) {
  special_tokens found = {.tokens = tokens,
                          .eot = -1,
                          .named = {{"bos_token", "tokenizer.ggml.bos_token_id", -1},
                                    {"eos_token", "tokenizer.ggml.eos_token_id", -1},
                                    {"unk_token", "tokenizer.ggml.unknown_token_id", -1},
                                    {"pad_token", "tokenizer.ggml.padding_token_id", -1},
                                    {"sep_token", "tokenizer.ggml.seperator_token_id", -1}, /* llama.cpp's spelling */
                                    {"cls_token", "tokenizer.ggml.cls_token_id", -1},
                                    {"mask_token", "tokenizer.ggml.mask_token_id", -1}}};
  const int32_t unknown = tri_tokenizer_unknown(tokenizer);
  bool adds = false;
  if (folder != NULL) TRI_TRY(tri_folder_named_tokens(folder, visit_named, &found));
  if (unknown >= 0) found.named[UNKNOWN].id = unknown;
  if (unknown >= 0 && tokens->characters) tokens->types[unknown] = TRI_LLAMACPP_UNKNOWN;
  choose_ends(tokenizer, &found);
  if (found.named[EOS].id < 0) found.named[EOS].id = choose_no_end(tokens);
  TRI_TRY(choose_beginning(tokenizer, &found, &adds));
  return add_keys(header, &found, adds);
}
