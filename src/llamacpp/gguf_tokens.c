#include "llamacpp/gguf_tokens.h"

#include "base/log.h"
#include "base/memory.h"
#include "llamacpp/pretokenizer_names.h"
#include "llamacpp/score_merges.h"
#include "llamacpp/token_list.h"
#include "tokenizer/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define KEY(name) "tokenizer.ggml." name
#define ADVICE "give a folder with the model's tokenizer.json: --tokenizer FOLDER"

enum { NAME_BYTES = 64, MADE_BYTES = 32 };

const tri_llamacpp_named_token tri_llamacpp_named_tokens[TRI_LLAMACPP_NAMED_TOKENS] = {
    [TRI_LLAMACPP_BOS] = {KEY("bos_token_id"), "bos_token"},
    [TRI_LLAMACPP_EOS] = {KEY("eos_token_id"), "eos_token"},
    [TRI_LLAMACPP_UNK] = {KEY("unknown_token_id"), "unk_token"},
    [TRI_LLAMACPP_SEP] = {KEY("seperator_token_id"), "sep_token"},
    [TRI_LLAMACPP_PAD] = {KEY("padding_token_id"), "pad_token"},
    [TRI_LLAMACPP_CLS] = {KEY("cls_token_id"), "cls_token"},
    [TRI_LLAMACPP_MASK] = {KEY("mask_token_id"), "mask_token"},
};

/* ---- single keys ------------------------------------------------------------------------------------------------- */

static bool has(const tri_gguf_file *file, const char *key) { return tri_gguf_find_key(file, key) != NULL; }

static tri_status get_bool(const tri_gguf_file *file, const char *key, bool fallback, bool *out) {
  *out = fallback;
  return has(file, key) ? tri_gguf_get_bool(file, key, out) : TRI_OK;
}

/* Reads a name, and copies at most NAME_BYTES - 1 of its characters for messages, in which others than printable ASCII
 * are question marks. */
static tri_status get_name(const tri_gguf_file *file, const char *key, const char **out, char shown[NAME_BYTES]) {
  TRI_TRY(tri_gguf_get_string(file, key, out));
  size_t length = 0;
  for (const char *at = *out; *at != '\0' && length < NAME_BYTES - 1; at++) {
    shown[length++] = *at;
    if (*at < ' ' || *at > '~') shown[length - 1] = '?';
  }
  shown[length] = '\0';
  return TRI_OK;
}

static tri_status read_model(tri_llamacpp_vocabulary *out) {
  const tri_gguf_file *file = out->file;
  const char *model = NULL;
  char shown[NAME_BYTES];
  if (!has(file, KEY("model"))) {
    return tri_fail(TRI_UNSUPPORTED, "%s has no tokenizer: the key `" KEY("model") "` is missing; " ADVICE, file->path);
  }
  TRI_TRY(get_name(file, KEY("model"), &model, shown));
  out->characters = strcmp(model, "llama") == 0;
  if (out->characters || strcmp(model, "gpt2") == 0) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED,
                  "%s: the value of key `" KEY("model") "` is `%s`; only the tokenizers `gpt2` and `llama` are "
                  "supported; " ADVICE,
                  file->path, shown);
}

static tri_status read_pretokenizer(tri_llamacpp_vocabulary *out, bool *adds_bos) {
  const tri_gguf_file *file = out->file;
  const char *name = "default";
  char shown[NAME_BYTES] = "default";
  if (has(file, KEY("pre"))) {
    TRI_TRY(get_name(file, KEY("pre"), &name, shown));
  } else {
    tri_warn("%s has no key `" KEY("pre") "`; texts are cut as in llama.cpp's pre-tokenizer `default`, which may not be "
             "the model's; " ADVICE,
             file->path);
  }
  out->pretokenizer = tri_llamacpp_pretokenizer_named(name, adds_bos);
  if (out->pretokenizer != NULL) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED,
                  "%s: the value of key `" KEY("pre") "` is `%s`, a pre-tokenizer that is not supported; " ADVICE,
                  file->path, shown);
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

static tri_status check_length(const tri_gguf_file *file, const char *key, int64_t count, int64_t tokens) {
  if (count == tokens) return TRI_OK;
  return tri_fail(TRI_BAD_FILE,
                  "%s: key `%s` has %" PRId64
                  " elements, but `" KEY("tokens") "` has %" PRId64 "; the file is damaged, convert the model again",
                  file->path, key, count, tokens);
}

static tri_status read_types(tri_llamacpp_vocabulary *out, int64_t tokens) {
  const tri_gguf_file *file = out->file;
  int64_t count = 0;
  if (!has(file, KEY("token_type"))) {
    TRI_TRY(tri_alloc("types of tokens", (size_t)tokens, sizeof *out->types, &out->types));
    for (int64_t i = 0; i < tokens; i++) out->types[i] = TRI_LLAMACPP_NORMAL;
    return TRI_OK;
  }
  TRI_TRY(tri_gguf_get_integers(file, KEY("token_type"), &out->types, &count));
  TRI_TRY(check_length(file, KEY("token_type"), count, tokens));
  for (int64_t i = 0; i < count; i++) {
    if (out->types[i] >= TRI_LLAMACPP_NORMAL && out->types[i] <= TRI_LLAMACPP_BYTE) continue;
    return tri_fail(TRI_BAD_FILE,
                    "%s: element %" PRId64
                    " of key `" KEY("token_type") "` is %" PRId64
                                                  ", and must be 1 to 6; the file is damaged, convert the model again",
                    file->path, i, out->types[i]);
  }
  return TRI_OK;
}

static tri_status check_count(const tri_gguf_file *file, int64_t count) {
  if (count == 0) {
    return tri_fail(TRI_BAD_FILE, "%s: key `" KEY("tokens") "` has no tokens; convert the model again", file->path);
  }
  if (count <= TRI_MAX_VOCABULARY) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED, "%s: key `" KEY("tokens") "` has %" PRId64 " tokens; at most %d are supported",
                  file->path, count, TRI_MAX_VOCABULARY);
}

/* Reads the tokens with keys of their own. Without a key, a vocabulary of characters has llama.cpp's defaults. */
static tri_status read_named(tri_llamacpp_vocabulary *out, int64_t count) {
  static const int32_t defaults[TRI_LLAMACPP_NAMED_TOKENS] = {1, 2, 0, -1, -1, -1, -1};
  for (int i = 0; i < TRI_LLAMACPP_NAMED_TOKENS; i++) {
    const char *key = tri_llamacpp_named_tokens[i].key;
    int64_t id = out->characters && defaults[i] < count ? defaults[i] : -1;
    if (has(out->file, key)) {
      TRI_TRY(tri_gguf_get_integer(out->file, key, &id));
      if (id < 0 || id >= count) {
        return tri_fail(TRI_BAD_FILE,
                        "%s: the value of key `%s` is %" PRId64 ", but the tokens are 0 to %" PRId64
                        "; the file is damaged, convert the model again",
                        out->file->path, key, id, count - 1);
      }
    }
    out->named[i] = (int32_t)id;
  }
  return TRI_OK;
}

static tri_status read_frame(tri_llamacpp_vocabulary *out, bool adds_bos) {
  TRI_TRY(get_bool(out->file, KEY("add_bos_token"), adds_bos, &out->add_bos));
  TRI_TRY(get_bool(out->file, KEY("add_eos_token"), false, &out->add_eos));
  TRI_TRY(get_bool(out->file, KEY("add_space_prefix"), true, &out->space_prefix));
  const int lost = out->add_bos && out->named[TRI_LLAMACPP_BOS] < 0   ? TRI_LLAMACPP_BOS
                   : out->add_eos && out->named[TRI_LLAMACPP_EOS] < 0 ? TRI_LLAMACPP_EOS
                                                                      : -1;
  if (lost < 0) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "%s: texts begin or end with the token of key `%s`, which is missing; " ADVICE,
                  out->file->path, tri_llamacpp_named_tokens[lost].key);
}

/* Returns the number of tokens without padding at the end. Its type is user-defined in files of older converters. */
static int64_t count_without_padding(const tri_llamacpp_vocabulary *out, const tri_gguf_text *texts, int64_t count) {
  int64_t least = 1;
  for (int i = 0; i < TRI_LLAMACPP_NAMED_TOKENS; i++) {
    if (out->named[i] >= least) least = out->named[i] + 1;
  }
  for (; count > least; count--) {
    char name[MADE_BYTES];
    const size_t length = (size_t)snprintf(name, sizeof name, "[PAD%" PRId64 "]", count - 1);
    const int64_t type = out->types[count - 1];
    const tri_gguf_text text = texts[count - 1];
    if (type != TRI_LLAMACPP_UNUSED && type != TRI_LLAMACPP_USER_DEFINED) break;
    if (text.bytes != length || memcmp(text.text, name, length) != 0) break;
  }
  return count;
}

/* Returns whether all characters of valid UTF-8 are letters of bytes. */
static bool is_spelled(tri_gguf_text text) {
  uint32_t code = 0;
  for (size_t i = 0; i < text.bytes;) {
    i += tri_utf8_decode(text.text + i, text.bytes - i, &code);
    if (tri_letter_byte(code) < 0) return false;
  }
  return true;
}

/* Returns whether a byte-level token is one of texts, so that it must be spelled in byte letters. */
static bool is_of_texts(int64_t type) {
  return type == TRI_LLAMACPP_NORMAL || type == TRI_LLAMACPP_UNUSED || type == TRI_LLAMACPP_BYTE;
}

static tri_status check_text(const tri_llamacpp_vocabulary *out, int64_t id, tri_gguf_text text) {
  const bool nul = memchr(text.text, '\0', text.bytes) != NULL;
  if (!nul && tri_utf8_valid_bytes(text.text, text.bytes) == text.bytes) return TRI_OK;
  return tri_fail(TRI_BAD_FILE,
                  "%s: element %" PRId64 " of key `" KEY("tokens") "` %s; the file is damaged, convert the model again",
                  out->file->path, id, nul ? "contains a NUL" : "is not UTF-8");
}

/* Adds a token; one without a text is called "[EMPTY_{id}]", as in llama.cpp. */
static tri_status add_token(tri_llamacpp_vocabulary *out, int64_t id, tri_gguf_text text) {
  char empty[MADE_BYTES];
  if (text.bytes == 0) {
    text = (tri_gguf_text){empty, (size_t)snprintf(empty, sizeof empty, "[EMPTY_%" PRId64 "]", id)};
  }
  const int32_t other = tri_vocabulary_find(&out->tokens, text.text, text.bytes);
  if (other >= 0) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: elements %d and %" PRId64 " of key `" KEY("tokens") "` are the same; convert the model again",
                    out->file->path, other, id);
  }
  return tri_vocabulary_add(&out->tokens, (int32_t)id, text.text, text.bytes, true);
}

/* Adds a token of texts that is not spelled in byte letters, as the tokens of a tokenizer.json must be. llama.cpp never
 * makes such a token of a text. It gets its spelling, with which it is decoded; if another token has that, or a word
 * would become the token without merges, it is called "[UNUSED_{id}]". */
static tri_status add_unspelled(tri_llamacpp_vocabulary *out, int64_t id, tri_gguf_text text) {
  char *spelled = NULL, made[MADE_BYTES];
  size_t bytes = 0;
  TRI_TRY(tri_alloc("a token", text.bytes, 2, &spelled)); /* letters have at most two bytes */
  for (size_t i = 0; i < text.bytes; i++) {
    bytes += tri_utf8_encode(tri_byte_letter((uint8_t)text.text[i]), spelled + bytes);
  }
  text = (tri_gguf_text){spelled, bytes};
  if (out->pretokenizer->ignore_merges || tri_vocabulary_find(&out->tokens, spelled, bytes) >= 0) {
    text = (tri_gguf_text){made, (size_t)snprintf(made, sizeof made, "[UNUSED_%" PRId64 "]", id)};
  }
  const tri_status status = add_token(out, id, text);
  tri_free(spelled);
  return status;
}

/* Sets `learnt` and `special` of each token. In a vocabulary of characters, merges make all tokens but special ones and
 * bytes. They also make user-defined tokens, though these are found in texts before: vocabulary.c requires it. bos and
 * eos are special even if the file has another type for them. */
static void mark_tokens(tri_llamacpp_vocabulary *out) {
  for (int64_t id = 0; id < out->tokens.size; id++) {
    const int64_t type = out->types[id];
    tri_token *token = &out->tokens.tokens[id];
    token->special = type == TRI_LLAMACPP_CONTROL || type == TRI_LLAMACPP_UNKNOWN;
    token->learnt = !out->characters || !(token->special || type == TRI_LLAMACPP_BYTE);
  }
  const int32_t bos = out->named[TRI_LLAMACPP_BOS], eos = out->named[TRI_LLAMACPP_EOS];
  if (bos >= 0 && out->add_bos) out->tokens.tokens[bos].special = true;
  if (eos >= 0) out->tokens.tokens[eos].special = true;
}

static tri_status add_tokens(tri_llamacpp_vocabulary *out, const tri_gguf_text *texts, int64_t count) {
  int64_t unspelled = 0;
  TRI_TRY(tri_vocabulary_create(&out->tokens, count_without_padding(out, texts, count)));
  for (int64_t id = 0; id < out->tokens.size; id++) {
    TRI_TRY(check_text(out, id, texts[id]));
    if (!out->characters && is_of_texts(out->types[id]) && !is_spelled(texts[id])) {
      unspelled++;
    } else {
      TRI_TRY(add_token(out, id, texts[id]));
    }
  }
  for (int64_t id = 0; id < out->tokens.size && unspelled > 0; id++) {
    if (out->tokens.tokens[id].bytes == 0) TRI_TRY(add_unspelled(out, id, texts[id]));
  }
  mark_tokens(out);
  return TRI_OK;
}

/* ---- merges ------------------------------------------------------------------------------------------------------ */

static tri_status no_such_token(const tri_llamacpp_vocabulary *out, int64_t index, const char *what) {
  return tri_fail(TRI_BAD_FILE,
                  "%s: element %" PRId64 " of key `" KEY("merges") "` %s; the file is damaged, convert the model again",
                  out->file->path, index, what);
}

/* Adds the merge "left right". The blank between them is the first one after the first character, as in llama.cpp.
 * `scratch` has room for the text. */
static tri_status add_merge(tri_llamacpp_vocabulary *out, int64_t index, tri_gguf_text text, char *scratch) {
  const char *blank = text.bytes < 3 ? NULL : memchr(text.text + 1, ' ', text.bytes - 2);
  if (blank == NULL) return no_such_token(out, index, "is not two tokens with a blank between them");
  const size_t left_bytes = (size_t)(blank - text.text), right_bytes = text.bytes - left_bytes - 1;
  memcpy(scratch, text.text, left_bytes);
  memcpy(scratch + left_bytes, blank + 1, right_bytes);
  const int32_t left = tri_vocabulary_find(&out->tokens, text.text, left_bytes),
                right = tri_vocabulary_find(&out->tokens, blank + 1, right_bytes),
                result = tri_vocabulary_find(&out->tokens, scratch, left_bytes + right_bytes);
  if (left < 0 || right < 0) return no_such_token(out, index, "names a token that does not exist");
  if (result < 0) return no_such_token(out, index, "makes a token that does not exist");
  return tri_vocabulary_add_merge(&out->tokens, left, right, result);
}

/* Adds the merges of the file. A list of a single merge whose result is not a token is an empty one: llama.cpp needs a
 * merge, and splits that result into its parts again (vocabulary.c writes such a list). */
static tri_status add_merges(tri_llamacpp_vocabulary *out, const tri_gguf_text *texts, int64_t count) {
  size_t longest = 0;
  char *scratch = NULL;
  tri_status status = TRI_OK;
  if (count > TRI_LLAMACPP_MOST_MERGES) {
    return tri_fail(TRI_UNSUPPORTED, "%s: key `" KEY("merges") "` has %" PRId64 " merges; at most %d are supported",
                    out->file->path, count, TRI_LLAMACPP_MOST_MERGES);
  }
  for (int64_t i = 0; i < count; i++) {
    if (texts[i].bytes > longest) longest = texts[i].bytes;
  }
  TRI_TRY(tri_alloc("a merge", longest, 1, &scratch));
  for (int64_t i = 0; i < count && status == TRI_OK; i++) status = add_merge(out, i, texts[i], scratch);
  if (status == TRI_BAD_FILE && count == 1 && texts[0].bytes == 3 && texts[0].text[0] == texts[0].text[2]) {
    status = TRI_OK;
  }
  tri_free(scratch);
  return status;
}

static tri_status read_merges(tri_llamacpp_vocabulary *out) {
  tri_gguf_text *texts = NULL;
  int64_t count = 0;
  TRI_TRY(tri_gguf_get_strings(out->file, KEY("merges"), &texts, &count));
  const tri_status status = add_merges(out, texts, count);
  tri_free(texts);
  return status;
}

static tri_status add_scored(tri_llamacpp_vocabulary *out, const double *scores, int64_t count, int64_t tokens) {
  TRI_TRY(check_length(out->file, KEY("scores"), count, tokens));
  for (int64_t i = 0; i < count; i++) {
    if (!isnan(scores[i])) continue;
    return tri_fail(TRI_BAD_FILE,
                    "%s: element %" PRId64 " of key `" KEY("scores") "` is not a number; convert the model again",
                    out->file->path, i);
  }
  return tri_llamacpp_add_score_merges(out->file->path, scores, &out->tokens);
}

static tri_status read_scores(tri_llamacpp_vocabulary *out, int64_t tokens) {
  double *scores = NULL;
  int64_t count = 0;
  TRI_TRY(tri_gguf_get_numbers(out->file, KEY("scores"), &scores, &count));
  const tri_status status = add_scored(out, scores, count, tokens);
  tri_free(scores);
  return status;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

/* Reads everything but model and pre-tokenizer. */
static tri_status read_rest(tri_llamacpp_vocabulary *out, bool adds_bos, const tri_gguf_text *texts, int64_t count) {
  TRI_TRY(check_count(out->file, count));
  TRI_TRY(read_types(out, count));
  TRI_TRY(read_named(out, count));
  TRI_TRY(read_frame(out, adds_bos));
  TRI_TRY(add_tokens(out, texts, count));
  if (out->characters && !has(out->file, KEY("merges"))) return read_scores(out, count);
  return read_merges(out);
}

tri_status tri_llamacpp_read_vocabulary(const tri_gguf_file *file, tri_llamacpp_vocabulary *out) {
  tri_gguf_text *texts = NULL;
  int64_t count = 0;
  bool adds_bos = true;
  *out = (tri_llamacpp_vocabulary){.file = file};
  TRI_TRY(read_model(out));
  if (!out->characters) TRI_TRY(read_pretokenizer(out, &adds_bos));
  TRI_TRY(tri_gguf_get_strings(file, KEY("tokens"), &texts, &count));
  const tri_status status = read_rest(out, adds_bos, texts, count);
  tri_free(texts);
  return status;
}

void tri_llamacpp_vocabulary_release(tri_llamacpp_vocabulary *vocabulary) {
  tri_vocabulary_release(&vocabulary->tokens);
  tri_free(vocabulary->types);
  *vocabulary = (tri_llamacpp_vocabulary){0};
}
