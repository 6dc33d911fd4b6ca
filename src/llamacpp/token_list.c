#include "llamacpp/token_list.h"

#include "base/log.h"
#include "base/memory.h"
#include "llamacpp/merge_order.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char what[] = "the tokens of a GGUF file";

enum { SCORE_ADDED = -1000, SCORE_UNUSED = -10000 };

static const json_t *vocab_of(const tri_llamacpp_tokens *tokens) {
  return json_object_get(json_object_get(tokens->root, "model"), "vocab");
}

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

static bool ends(const char *text, const char *with) {
  const size_t length = strlen(text), of_ending = strlen(with);
  return length >= of_ending && strcmp(text + length - of_ending, with) == 0;
}

/* Returns whether a token looks special by the rule of llama.cpp's own converter, which makes such tokens control
 * tokens whatever the tokenizer.json says. */
static bool looks_special(const char *text) {
  static const char *const names[] = {"<pad>", "<mask>", "<2mass>", "[@BOS@]"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(text, names[i]) == 0) return true;
  }
  return (begins(text, "<|") && ends(text, "|>")) || (begins(text, "<\uff5c") && ends(text, "\uff5c>")) ||
         (begins(text, "<unused") && ends(text, ">"));
}

/* Returns the value of a byte's token, "<0x0A>"; -1 for other texts. */
static int byte_of(const char *text) {
  static const char digits[] = "0123456789ABCDEF";
  if (strlen(text) != 6 || !begins(text, "<0x") || text[5] != '>') return -1;
  const char *high = strchr(digits, text[3]), *low = strchr(digits, text[4]);
  return high == NULL || low == NULL ? -1 : (int)((high - digits) * 16 + (low - digits));
}

/* ---- texts and types --------------------------------------------------------------------------------------------- */

static void set_text(tri_llamacpp_tokens *tokens, int64_t id, const char *text, int32_t type) {
  tokens->texts[id] = (tri_gguf_text){text, strlen(text)};
  tokens->types[id] = type;
}

/* Sets a text that is not in the document. */
static tri_status make_text(tri_llamacpp_tokens *tokens, int64_t id, const char *text, int32_t type) {
  json_t *made = json_string(text);
  if (made == NULL || json_array_append_new(tokens->made, made) != 0) {
    return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: %s", what);
  }
  set_text(tokens, id, json_string_value(made), type);
  return TRI_OK;
}

static void fill_vocabulary(tri_llamacpp_tokens *tokens) {
  const char *text = NULL;
  json_t *id = NULL;
  json_object_foreach((json_t *)(uintptr_t)vocab_of(tokens), text, id) {
    const bool byte = tokens->characters && byte_of(text) >= 0;
    set_text(tokens, (int64_t)json_integer_value(id), text, byte ? TRI_LLAMACPP_BYTE : TRI_LLAMACPP_NORMAL);
  }
}

static bool is_true(const json_t *object, const char *key) { return json_is_true(json_object_get(object, key)); }

static void fill_added(tri_llamacpp_tokens *tokens) {
  const json_t *list = json_object_get(tokens->root, "added_tokens");
  const char *first = NULL;
  int count = 0;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *entry = json_array_get(list, i);
    const char *text = json_string_value(json_object_get(entry, "content"));
    if (text == NULL || text[0] == '\0') continue; /* the tokenizer ignores an empty token */
    const bool control = is_true(entry, "special") || looks_special(text);
    set_text(tokens, (int64_t)json_integer_value(json_object_get(entry, "id")), text,
             control ? TRI_LLAMACPP_CONTROL : TRI_LLAMACPP_USER_DEFINED);
    if (!is_true(entry, "lstrip") && !is_true(entry, "rstrip") && !is_true(entry, "single_word")) continue;
    if (count++ == 0) first = text;
  }
  if (count == 0) return;
  tri_log(
      "%s: %d added tokens (the first is \"%.40s\") have lstrip, rstrip or single_word, which llama.cpp ignores: "
      "spaces next to them get tokens of their own there",
      tokens->file, count, first);
}

static tri_status fill_rest(tri_llamacpp_tokens *tokens) {
  char text[40];
  for (int64_t id = 0; id < tokens->rows; id++) {
    if (tokens->texts[id].text != NULL) continue;
    snprintf(text, sizeof text, "[PAD%" PRId64 "]", id);
    TRI_TRY(make_text(tokens, id, text, TRI_LLAMACPP_UNUSED));
  }
  return TRI_OK;
}

static tri_status check_bytes(const tri_llamacpp_tokens *tokens) {
  char name[8];
  if (!is_true(json_object_get(tokens->root, "model"), "byte_fallback")) {
    return tri_fail(TRI_UNSUPPORTED,
                    "%s: byte_fallback is false, but llama.cpp always writes a character without a token as the tokens "
                    "of its bytes; a byte-level tokenizer (trireme prepare --tokenizer train:VOCAB) can be exported",
                    tokens->file);
  }
  for (int byte = 0; byte < 256; byte++) {
    snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
    if (json_object_get(vocab_of(tokens), name) != NULL) continue;
    return tri_fail(TRI_UNSUPPORTED,
                    "%s: the vocabulary has no token %s; llama.cpp needs the tokens <0x00> to <0xFF> of all bytes, for "
                    "characters without a token",
                    tokens->file, name);
  }
  return TRI_OK;
}

tri_status tri_llamacpp_tokens_fill(tri_llamacpp_tokens *tokens) {
  if (tokens->rows < tokens->size) {
    return tri_fail(TRI_UNSUPPORTED,
                    "%s has %" PRId64 " tokens, and the model's embedding has only %" PRId64
                    " rows; llama.cpp needs a row for each token, so train with a vocab_size of at least the number "
                    "of tokens",
                    tokens->file, tokens->size, tokens->rows);
  }
  TRI_TRY(tri_alloc(what, (size_t)tokens->rows, sizeof *tokens->texts, &tokens->texts));
  TRI_TRY(tri_alloc(what, (size_t)tokens->rows, sizeof *tokens->types, &tokens->types));
  TRI_TRY(tri_alloc(what, (size_t)tokens->rows, sizeof *tokens->scores, &tokens->scores));
  tokens->made = json_array();
  fill_vocabulary(tokens);
  fill_added(tokens);
  if (tokens->characters) TRI_TRY(check_bytes(tokens));
  return fill_rest(tokens);
}

void tri_llamacpp_tokens_release(tri_llamacpp_tokens *tokens) {
  tri_free(tokens->texts);
  tri_free(tokens->types);
  tri_free(tokens->scores);
  json_decref(tokens->made);
}

static tri_status check_text(const tri_llamacpp_tokens *tokens, tri_vocabulary *seen, int64_t id) {
  const tri_gguf_text *text = &tokens->texts[id];
  const int32_t other = tri_vocabulary_find(seen, text->text, text->bytes);
  if (other < 0) return tri_vocabulary_add(seen, (int32_t)id, text->text, text->bytes, true);
  return tri_fail(TRI_UNSUPPORTED,
                  "%s: the tokens %d and %" PRId64
                  " would have the same text \"%.40s\" in the GGUF file, and llama.cpp "
                  "does not load such a file; rename one of them",
                  tokens->file, (int)other, id, text->text);
}

/* Makes a table of the tokens by their texts; fails if two are equal. Release *out with tri_vocabulary_release, also
 * after a failure. */
static tri_status make_table(const tri_llamacpp_tokens *tokens, tri_vocabulary *out) {
  TRI_TRY(tri_vocabulary_create(out, tokens->rows));
  for (int64_t id = 0; id < tokens->rows; id++) TRI_TRY(check_text(tokens, out, id));
  return TRI_OK;
}

tri_status tri_llamacpp_tokens_check(const tri_llamacpp_tokens *tokens) {
  tri_vocabulary seen = {0};
  const tri_status status = make_table(tokens, &seen);
  tri_vocabulary_release(&seen);
  return status;
}

/* ---- scores ------------------------------------------------------------------------------------------------------ */

/* Spells an added token with spaces in place of marks, as llama.cpp searches and prints it. */
static tri_status respell(tri_llamacpp_tokens *tokens, int64_t id) {
  char *spelled = NULL;
  size_t length = 0;
  const char *from = tokens->texts[id].text, *mark = NULL;
  TRI_TRY(tri_alloc(what, tokens->texts[id].bytes + 1, 1, &spelled));
  while ((mark = strstr(from, TRI_LLAMACPP_MARK)) != NULL) {
    memcpy(spelled + length, from, (size_t)(mark - from));
    length += (size_t)(mark - from);
    spelled[length++] = ' ';
    from = mark + strlen(TRI_LLAMACPP_MARK);
  }
  memcpy(spelled + length, from, strlen(from) + 1);
  const tri_status status = make_text(tokens, id, spelled, tokens->types[id]);
  tri_free(spelled);
  return status;
}

/* Sets the score of a token of the vocabulary. An added token of marks that merges make becomes a normal one, so that
 * spaces become this token in llama.cpp by merges as well, and are printed as spaces. */
static tri_status score_one(tri_llamacpp_tokens *tokens, const tri_vocabulary *file, int64_t id) {
  const tri_gguf_text *text = &tokens->texts[id];
  const int32_t type = tokens->types[id];
  const bool marked = type == TRI_LLAMACPP_USER_DEFINED && strstr(text->text, TRI_LLAMACPP_MARK) != NULL;
  tri_llamacpp_merging merging = {0};
  if (type == TRI_LLAMACPP_CONTROL || type == TRI_LLAMACPP_USER_DEFINED) tokens->scores[id] = SCORE_ADDED;
  if (type == TRI_LLAMACPP_UNUSED) tokens->scores[id] = SCORE_UNUSED;
  if (tri_vocabulary_find(file, text->text, text->bytes) >= 0) {
    TRI_TRY(tri_llamacpp_merge_by_list(file, text->text, text->bytes, &merging));
  }
  if (merging.made && merging.left_bytes > 0) tokens->scores[id] = merging.score;
  if (!marked) return TRI_OK;
  if (!merging.made) return respell(tokens, id);
  tokens->types[id] = TRI_LLAMACPP_NORMAL;
  return TRI_OK;
}

/* Returns whether a text has a mark after its first character. */
static bool has_inner_mark(const tri_gguf_text *text) {
  const size_t of_mark = strlen(TRI_LLAMACPP_MARK);
  const char *from = begins(text->text, TRI_LLAMACPP_MARK) ? text->text + of_mark : text->text;
  return strstr(from, TRI_LLAMACPP_MARK) != NULL;
}

/* Fails if one of the two programs makes the token of its characters, and the other does not. *control counts control
 * tokens that only llama.cpp makes, from texts in which it does not search for them. */
static tri_status compare_one(const tri_llamacpp_tokens *tokens, const tri_vocabulary *file,
                              const tri_llamacpp_scored *scored, const tri_llamacpp_spaces *spaces, int64_t id,
                              int *control) {
  const tri_gguf_text *text = &tokens->texts[id];
  tri_llamacpp_merging ours, theirs;
  if (tokens->types[id] == TRI_LLAMACPP_USER_DEFINED) return TRI_OK; /* found before anything is merged */
  TRI_TRY(tri_llamacpp_merge_by_list(file, text->text, text->bytes, &ours));
  TRI_TRY(tri_llamacpp_merge_by_score(scored, text->text, text->bytes, &theirs));
  if (spaces->splits && has_inner_mark(text)) ours.made = false;
  if (theirs.made == ours.made) return TRI_OK;
  if (tokens->types[id] == TRI_LLAMACPP_CONTROL || tokens->types[id] == TRI_LLAMACPP_UNKNOWN) {
    ++*control;
    return TRI_OK;
  }
  if (ours.made) {
    return tri_fail(
        TRI_UNSUPPORTED,
        "%s: merges make the token %" PRId64
        ", \"%.60s\", and llama.cpp, which merges any two parts that "
        "spell a token, would make others of this text; a GGUF file has no place for a list of merges of "
        "characters; train with a byte-level tokenizer (trireme prepare --tokenizer train:VOCAB) to export the model",
        tokens->file, id, text->text);
  }
  return tri_fail(TRI_UNSUPPORTED,
                  "%s: no merge makes the token %" PRId64
                  ", \"%.60s\", and llama.cpp would make it of \"%.*s\" and "
                  "\"%s\", because it merges any two parts that spell a token; a GGUF file has no place for a list of "
                  "merges of characters; train with a byte-level tokenizer (trireme prepare --tokenizer train:VOCAB) "
                  "to export the model",
                  tokens->file, id, text->text, (int)theirs.left_bytes, text->text, text->text + theirs.left_bytes);
}

static tri_status compare_merges(const tri_llamacpp_tokens *tokens, const tri_vocabulary *file,
                                 const tri_llamacpp_spaces *spaces) {
  tri_llamacpp_scored scored = {.scores = tokens->scores};
  int control = 0;
  tri_status status = make_table(tokens, &scored.texts);
  for (int64_t id = 0; id < tokens->rows && status == TRI_OK; id++) {
    status = compare_one(tokens, file, &scored, spaces, id, &control);
  }
  tri_vocabulary_release(&scored.texts);
  if (status == TRI_OK && control > 0) {
    tri_log("%s: llama.cpp makes %d special tokens also of their letters, in texts where it should not search for them",
            tokens->file, control);
  }
  return status;
}

tri_status tri_llamacpp_tokens_score(tri_llamacpp_tokens *tokens, const tri_llamacpp_spaces *spaces) {
  tri_vocabulary file = {0};
  tri_status status = tri_llamacpp_read_merges(json_object_get(tokens->root, "model"), tokens->size, &file);
  for (int64_t id = 0; id < tokens->rows && status == TRI_OK; id++) status = score_one(tokens, &file, id);
  if (status == TRI_OK) status = compare_merges(tokens, &file, spaces);
  tri_vocabulary_release(&file);
  return status;
}

tri_status tri_llamacpp_tokens_all_made(const tri_llamacpp_tokens *tokens, const char *why) {
  tri_vocabulary file = {0};
  tri_llamacpp_merging merging = {.made = true};
  int64_t id = 0;
  tri_status status = tri_llamacpp_read_merges(json_object_get(tokens->root, "model"), tokens->size, &file);
  for (; id < tokens->size && status == TRI_OK; id++) {
    if (tokens->types[id] != TRI_LLAMACPP_NORMAL) continue;
    status = tri_llamacpp_merge_by_list(&file, tokens->texts[id].text, tokens->texts[id].bytes, &merging);
    if (!merging.made) break;
  }
  tri_vocabulary_release(&file);
  if (status != TRI_OK || merging.made) return status;
  return tri_fail(TRI_UNSUPPORTED, "%s: %s, and no merges make the token %" PRId64 ", \"%.60s\", so ids would differ",
                  tokens->file, why, id, tokens->texts[id].text);
}
