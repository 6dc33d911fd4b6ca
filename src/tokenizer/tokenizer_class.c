#include "tokenizer/tokenizer_class.h"

#include "tokenizer/tokenizer_internal.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- the class ----------------------------------------------------------------------------------------------------
 *
 * As in AutoTokenizer.from_pretrained of transformers 5.24 (models/auto/tokenization_auto.py). */

/* The class of a model_type; NULL: TokenizersBackend, which uses the file. */
static const struct {
  const char *model_type, *class;
  bool insists; /* used even if the files name another class */
} of_types[] = {
    {"gemma", "GemmaTokenizer", false},
    {"gemma2", "GemmaTokenizer", false},
    {"gemma3_text", "GemmaTokenizer", false},
    {"gpt2", "GPT2Tokenizer", false},
    {"gpt_neox", "GPTNeoXTokenizer", false},
    {"granite", NULL, false},
    {"ministral", NULL, false},
    {"mistral", NULL, false},
    {"mixtral", NULL, false},
    {"olmo2", NULL, false},
    {"olmoe", "GPTNeoXTokenizer", false},
    {"opt", "GPT2Tokenizer", false},
    {"phi", "GPT2Tokenizer", false},
    {"phi3", NULL, true},
    {"qwen2", "Qwen2Tokenizer", true},
    {"qwen3", "Qwen2Tokenizer", false},
    {"qwen3_moe", "Qwen2Tokenizer", false},
    {"stablelm", NULL, false},
    {"starcoder2", "GPT2Tokenizer", false},
};
enum { TYPES = sizeof of_types / sizeof of_types[0] };

#define QWEN2_PATTERN                                                                                                  \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+"          \
  "[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"

/* Normalizer and pre-tokenizer of the classes, as JSON; %s is add_prefix_space, or Metaspace's prepend_scheme. */
static const struct {
  const char *class, *normalizer, *pre_tokenizer;
} makes[] = {
    {"GPT2Tokenizer", "null", "{\"type\": \"ByteLevel\", \"add_prefix_space\": %s}"},
    {"CodeGenTokenizer", "null", "{\"type\": \"ByteLevel\", \"add_prefix_space\": %s}"},
    {"GPTNeoXTokenizer", "{\"type\": \"NFC\"}", "{\"type\": \"ByteLevel\", \"add_prefix_space\": %s}"},
    {"Qwen2Tokenizer", "{\"type\": \"NFC\"}",
     "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": \"" QWEN2_PATTERN
     "\"}, \"behavior\": \"Isolated\"}, {\"type\": \"ByteLevel\", \"add_prefix_space\": %s, \"use_regex\": false}]}"},
    {"LlamaTokenizer", "null", "{\"type\": \"Metaspace\", \"prepend_scheme\": \"%s\", \"split\": false}"},
    {"GemmaTokenizer", "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"\xE2\x96\x81\"}",
     "{\"type\": \"Split\", \"pattern\": {\"String\": \" \"}, \"behavior\": \"MergedWithPrevious\"}"},
};
enum { MAKES = sizeof makes / sizeof makes[0] };

/* Returns the index of a known class, with or without "Fast"; -1: unknown. */
static int find_class(const char *name) {
  static const char fast[] = "Fast";
  size_t length = name == NULL ? 0 : strlen(name);
  if (length > sizeof fast - 1 && strcmp(name + length - (sizeof fast - 1), fast) == 0) length -= sizeof fast - 1;
  for (int i = 0; i < MAKES; i++) {
    if (strlen(makes[i].class) == length && strncmp(makes[i].class, name, length) == 0) return i;
  }
  return -1;
}

const char *tri_tokenizer_class_of(const json_t *config, const json_t *model, const json_t *root) {
  const char *type = json_string_value(json_object_get(model, "model_type"));
  const char *named = json_string_value(json_object_get(config, "tokenizer_class"));
  if (named == NULL) named = json_string_value(json_object_get(model, "tokenizer_class"));
  const int found = find_class(named);
  int at = 0;
  while (at < TYPES && (type == NULL || strcmp(of_types[at].model_type, type) != 0)) at++;
  if (at == TYPES) {
    const bool is_llama = found >= 0 && strcmp(makes[found].class, "LlamaTokenizer") == 0;
    return found < 0 || (is_llama && tri_tokenizer_is_byte_level(root)) ? NULL : makes[found].class;
  }
  const char *usual = of_types[at].class;
  if (named == NULL || usual == NULL || of_types[at].insists) return usual;
  return found < 0 ? NULL : makes[found].class;
}

/* ---- its stages -------------------------------------------------------------------------------------------------- */

static const char *word_of(const json_t *object, const char *key) {
  const char *word = json_string_value(json_object_get(object, key));
  return word == NULL ? "" : word;
}

static bool flag_of(const json_t *object, const char *key, bool otherwise) {
  const json_t *value = json_object_get(object, key);
  return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

/* Returns the scheme; older files have add_prefix_space instead of `prepend_scheme`. */
static const char *scheme_of(const json_t *metaspace) {
  const char *scheme = word_of(metaspace, "prepend_scheme");
  if (scheme[0] != '\0') return scheme;
  return flag_of(metaspace, "add_prefix_space", true) ? "always" : "never";
}

/* Returns the only member of a sequence of one. */
static const json_t *only_of(const json_t *stage, const char *members) {
  const json_t *list = json_object_get(stage, members);
  return json_array_size(list) == 1 ? json_array_get(list, 0) : stage;
}

static bool are_same(const json_t *a, const json_t *b, const char *members) {
  a = only_of(a, members);
  b = only_of(b, members);
  const char *type = word_of(a, "type");
  if (strcmp(type, word_of(b, "type")) != 0) return false;
  if (strcmp(type, "Sequence") == 0) {
    const json_t *of_a = json_object_get(a, members), *of_b = json_object_get(b, members);
    bool same = json_array_size(of_a) == json_array_size(of_b);
    for (size_t i = 0; same && i < json_array_size(of_a); i++) {
      same = are_same(json_array_get(of_a, i), json_array_get(of_b, i), members);
    }
    return same;
  }
  if (strcmp(type, "ByteLevel") == 0) {
    return flag_of(a, "add_prefix_space", true) == flag_of(b, "add_prefix_space", true) &&
           flag_of(a, "use_regex", true) == flag_of(b, "use_regex", true);
  }
  if (strcmp(type, "Metaspace") == 0) {
    return strcmp(scheme_of(a), scheme_of(b)) == 0 && flag_of(a, "split", true) == flag_of(b, "split", true);
  }
  return json_equal(json_object_get(a, "pattern"), json_object_get(b, "pattern")) ==
             (json_object_get(a, "pattern") != NULL) &&
         strcasecmp(word_of(a, "behavior"), word_of(b, "behavior")) == 0 &&
         strcmp(word_of(a, "content"), word_of(b, "content")) == 0 &&
         flag_of(a, "invert", false) == flag_of(b, "invert", false);
}

static bool stage_differs(const char *made, const json_t *stage, const char *members) {
  json_t *theirs = json_loads(made, JSON_DECODE_ANY, NULL);
  const bool differs = theirs != NULL && !are_same(theirs, stage, members);
  json_decref(theirs);
  return differs;
}

/* Returns where a class puts spaces: LlamaTokenizer before a text, or, if it is `legacy`, before each part between
 * added tokens. */
static const char *space_of(const char *class, const json_t *config) {
  const bool is_llama = strcmp(class, "LlamaTokenizer") == 0;
  const bool space = flag_of(config, "add_prefix_space", is_llama);
  if (!is_llama) return space ? "true" : "false";
  return !space ? "never" : flag_of(config, "legacy", false) ? "always" : "first";
}

bool tri_tokenizer_class_differs(const char *class, const json_t *config, const json_t *root) {
  const int at = find_class(class);
  char pre_tokenizer[512];
  if (at < 0) return false;
  const char *form = makes[at].pre_tokenizer, *gap = strstr(form, "%s");
  snprintf(pre_tokenizer, sizeof pre_tokenizer, "%.*s%s%s", gap == NULL ? (int)strlen(form) : (int)(gap - form), form,
           gap == NULL ? "" : space_of(class, config), gap == NULL ? "" : gap + 2);
  return stage_differs(makes[at].normalizer, json_object_get(root, "normalizer"), "normalizers") ||
         stage_differs(pre_tokenizer, json_object_get(root, "pre_tokenizer"), "pretokenizers");
}

/* ---- its tokens -------------------------------------------------------------------------------------------------- */

#define NAMES_ENDS(CLASS, TOKEN)                                                                                       \
  {CLASS, "bos_token", TOKEN}, {CLASS, "eos_token", TOKEN}, { CLASS, "unk_token", TOKEN }

const char *tri_tokenizer_class_token(const char *class, int number, const char **key) {
  static const struct {
    const char *class, *key, *token;
  } names[] = {
      NAMES_ENDS("GPT2Tokenizer", "<|endoftext|>"),     NAMES_ENDS("CodeGenTokenizer", "<|endoftext|>"),
      NAMES_ENDS("GPTNeoXTokenizer", "<|endoftext|>"),  {"GPTNeoXTokenizer", "pad_token", "<|padding|>"},
      {"Qwen2Tokenizer", "eos_token", "<|endoftext|>"}, {"Qwen2Tokenizer", "unk_token", "<|endoftext|>"},
      {"Qwen2Tokenizer", "pad_token", "<|endoftext|>"}, {"LlamaTokenizer", "bos_token", "<s>"},
      {"LlamaTokenizer", "eos_token", "</s>"},          {"LlamaTokenizer", "unk_token", "<unk>"},
      {"GemmaTokenizer", "bos_token", "<bos>"},         {"GemmaTokenizer", "eos_token", "<eos>"},
      {"GemmaTokenizer", "unk_token", "<unk>"},         {"GemmaTokenizer", "pad_token", "<pad>"},
      {"GemmaTokenizer", "mask_token", "<mask>"},
  };
  for (size_t i = 0; class != NULL && i < sizeof names / sizeof names[0]; i++) {
    if (strcmp(names[i].class, class) != 0 || number-- > 0) continue;
    *key = names[i].key;
    return names[i].token;
  }
  return NULL;
}
