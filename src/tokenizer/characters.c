/* Learns a vocabulary of the characters of a text. It is made as the tokenizer.json of a BPE without merges, with which
 * Hugging Face's `tokenizers` gives the same ids. */
#include "base/memory.h"
#include "tokenizer/tokenizer_internal.h"
#include "tokenizer/utf8.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { CODE_POINTS = 0x110000, END_OF_TEXT = 0, UNKNOWN = 1, FIRST = 2 };

struct tri_character_trainer {
  bool seen[CODE_POINTS];
};

tri_status tri_character_trainer_create(tri_character_trainer **out) {
  return tri_alloc("the characters of a text", 1, sizeof **out, out);
}

void tri_character_trainer_destroy(tri_character_trainer *trainer) { tri_free(trainer); }

void tri_character_trainer_feed(tri_character_trainer *trainer, const char *text, size_t bytes) {
  for (size_t at = 0; at < bytes;) {
    uint32_t code = 0;
    const size_t length = tri_utf8_decode(text + at, bytes - at, &code);
    if (length > 0) trainer->seen[code] = true;
    at += length > 0 ? length : 1; /* a byte that is not UTF-8 is not a character */
  }
}

static json_t *added_json(int id, const char *content) {
  return json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", id, "content", content, "single_word", 0, "lstrip", 0,
                   "rstrip", 0, "normalized", 0, "special", 1);
}

/* Makes the vocabulary without U+0000, which cannot be in the keys of a JSON file. Returns NULL if memory is
 * exhausted. */
static json_t *vocabulary_json(const tri_character_trainer *trainer, const char *end, const char *unknown) {
  json_t *object = json_pack("{s:i, s:i}", end, END_OF_TEXT, unknown, UNKNOWN);
  int id = FIRST;
  for (uint32_t code = 1; code < CODE_POINTS && object != NULL; code++) {
    char letter[5] = "";
    if (!trainer->seen[code]) continue;
    letter[tri_utf8_encode(code, letter)] = '\0';
    if (json_object_set_new(object, letter, json_integer(id++)) == 0) continue;
    json_decref(object);
    object = NULL;
  }
  return object;
}

tri_status tri_character_trainer_finish(const tri_character_trainer *trainer, tri_tokenizer **out) {
  static const char end[] = "<|endoftext|>", unknown[] = "<unk>";
  json_t *model =
      json_pack("{s:s, s:n, s:s, s:n, s:n, s:b, s:b, s:b, s:o, s:[]}", "type", "BPE", "dropout", "unk_token", unknown,
                "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0, "ignore_merges",
                0, "vocab", vocabulary_json(trainer, end, unknown), "merges");
  json_t *root = json_pack("{s:s, s:n, s:n, s:[o, o], s:n, s:n, s:n, s:{s:s}, s:o}", "version", "1.0", "truncation",
                           "padding", "added_tokens", added_json(END_OF_TEXT, end), added_json(UNKNOWN, unknown),
                           "normalizer", "pre_tokenizer", "post_processor", "decoder", "type", "Fuse", "model", model);
  char *text = root == NULL ? NULL : json_dumps(root, JSON_INDENT(1));
  json_decref(root);
  if (text == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: a vocabulary of characters");
  tri_status status = tri_tokenizer_parse_json("the characters of the inputs", text, strlen(text), out);
  free(text);
  return status;
}
