#include "llamacpp/pretokenizer_names.h"

#include "base/text.h"

#include <string.h>

/* Names with which llama.cpp cuts texts in the same way. */
typedef struct name_group {
  const char *first;  /* name in the table of pretokenizers.c */
  const char *others; /* names, with a blank between them; may include `first` */
  bool adds_bos;
} name_group;

static const name_group groups[] = {
    {"gpt-2",
     "mpt phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert jina-v1-en jina-v2-code "
     "roberta-bpe olmo jais exaone4 trillion granite-docling",
     false},
    {"starcoder", "refact command-r smollm codeshell exaone minerva-7b mellum2", false},
    {"llama-bpe", "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano", true},
    {"llama-bpe", "glm4 glm5", false},
    {"dbrx", "smaug-bpe chatglm-bpe", false},
    {"qwen2", "deepseek-r1-qwen kormo f2llmv2 stablelm2 megrez hunyuan grok-2 solar-open", false},
    {"tekken", "tekken", true},
    {"gpt-4o", "llama4 kanana2 talkie minimax-m2", false},
    {"deepseek-v3", "hunyuan-dense hy_v4 joyai-llm", false},
    {"bailingmoe", "bailingmoe2 llada-moe", false},
    {"bloom", "poro-chat gpt3-finnish", false},
    {"tiny_aya", "cohere2moe", false},
};

/* Returns whether `names`, with a blank between them, include `name`. */
static bool includes(const char *names, const char *name) {
  const size_t bytes = strlen(name);
  for (const char *at = names; *at != '\0';) {
    const size_t length = strcspn(at, " ");
    if (length == bytes && memcmp(at, name, bytes) == 0) return true;
    at += length + (at[length] == ' ');
  }
  return false;
}

const tri_llamacpp_pretokenizer *tri_llamacpp_pretokenizer_named(const char *name, bool *adds_bos) {
  int count = 0;
  const tri_llamacpp_pretokenizer *table = tri_llamacpp_pretokenizers(&count);
  *adds_bos = false;
  for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
    if (!includes(groups[g].others, name)) continue;
    name = groups[g].first;
    *adds_bos = groups[g].adds_bos;
    break;
  }
  for (int i = 0; i < count; i++) {
    if (strcmp(table[i].name, name) == 0) return &table[i];
  }
  return NULL;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

#define SPLIT "Split("
#define BYTE_LEVEL "ByteLevel "
#define PUNCTUATION "Punctuation "
/* the regular expression that a ByteLevel with use_regex has */
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* Returns the end of the step that begins a normal form. A regular expression may contain the end of a Split, ") ", but
 * no table has one that is followed by the beginning of a step. */
static const char *end_of_step(const char *step) {
  if (!tri_begins_with(step, SPLIT)) return strchr(step, ' ') + 1;
  const char *at = strstr(step, ") ") + 2;
  while (*at != '\0' && !tri_begins_with(at, SPLIT) && !tri_begins_with(at, BYTE_LEVEL) &&
         !tri_begins_with(at, PUNCTUATION)) {
    at = strstr(at, ") ") + 2;
  }
  return at;
}

static json_t *byte_level(bool use_regex) {
  return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex",
                   (int)use_regex);
}

static json_t *split(const char *regex, size_t bytes) {
  const bool digit = bytes == 5 && memcmp(regex, "\\p{N}", bytes) == 0,
             digits = bytes == 6 && memcmp(regex, "\\p{N}+", bytes) == 0;
  if (digit || digits) return json_pack("{s:s, s:b}", "type", "Digits", "individual_digits", (int)digit);
  return json_pack("{s:s, s:{s:o}, s:s, s:b}", "type", "Split", "pattern", "Regex", json_stringn(regex, bytes),
                   "behavior", "Isolated", "invert", 0);
}

json_t *tri_llamacpp_pretokenizer_json(const tri_llamacpp_pretokenizer *one) {
  static const char gpt2_bytes[] = SPLIT GPT2 ") " BYTE_LEVEL;
  json_t *steps = json_array(), *step = NULL;
  int failed = 0;
  for (const char *at = one->form, *end = NULL; *at != '\0'; at = end) {
    end = end_of_step(at);
    if (tri_begins_with(at, gpt2_bytes)) {
      step = byte_level(true);
      end = end_of_step(end);
    } else if (tri_begins_with(at, SPLIT)) {
      step = split(at + strlen(SPLIT), (size_t)(end - at) - strlen(SPLIT) - strlen(") "));
    } else if (tri_begins_with(at, PUNCTUATION)) {
      step = json_pack("{s:s, s:s}", "type", "Punctuation", "behavior", "Contiguous");
    } else {
      step = byte_level(false);
    }
    failed |= json_array_append_new(steps, step);
  }
  json_t *out = NULL;
  if (failed == 0 && json_array_size(steps) == 1) {
    out = json_incref(json_array_get(steps, 0));
  } else if (failed == 0) {
    out = json_pack("{s:s, s:O}", "type", "Sequence", "pretokenizers", steps);
  }
  json_decref(steps);
  return out;
}
