#include "tokenizer/tokenizer_class.h"

#include "tokenizer/tokenizer_internal.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- the class --------------------------------------------------------------------------------------------------- */

/* The class is chosen as in AutoTokenizer.from_pretrained of transformers 5.24 (models/auto/tokenization_auto.py). */

/* The class of each model_type, whose names are separated by spaces; NULL: TokenizersBackend, which uses the file.
 * Other types, such as llama, have the class that the files name. */
static const struct {
  const char *class;
  bool insists; /* whether the class is used even if the files name another one */
  const char *model_types;
} of_types[] = {
    {"GPT2Tokenizer", false,
     "blip-2 codegen dbrx emu3 gpt-sw3 gpt2 gpt_neo gptj instructblip instructblipvideo jais2 opt phi "
     "starcoder2"},
    {"GPTNeoXTokenizer", false, "falcon_mamba gpt_neox mamba mamba2 mpt olmo olmoe rwkv xlstm"},
    {"GemmaTokenizer", false,
     "diffusion_gemma gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text recurrent_gemma shieldgemma2 "
     "t5gemma zaya"},
    {"LlamaTokenizer", false, "idefics idefics2"},
    {"Qwen2Tokenizer", false,
     "audioflamingo3 colqwen2 cosmos3_omni dots3_note fun_asr_nano hunyuan_vl internvl lighton_ocr "
     "moss_transcribe_diarize ovis2 qianfan_ocr qwen2_5_omni qwen2_5_vl qwen2_audio qwen2_moe qwen2_vl qwen3 "
     "qwen3_asr qwen3_moe qwen3_next qwen3_omni_moe qwen3_vl qwen3_vl_moe vibevoice"},
    {NULL, false,
     "EvollaModel arctic aria beam bigbird_pegasus camembertv2-base canary chatlm cohere_asr ernie4_5 "
     "ernie4_5_moe flex_olmo fuyu glm glm4 glm4_moe glm4_moe_lite glm4v glm4v_moe glm_image glmasr got_ocr2 "
     "gpt_bigcode gradium_phonon_tts granite granitemoe granitemoehybrid granitemoeshared h2ovl_chat "
     "hyperclovax hyperclovax_vlm internlm2 internlm3 iquestcoder jamba kimi_k25 kimi_linear kosmos-2 llava "
     "llava_next mimo_v2_flash minicpm3 minicpm_ocr minicpmv minicpmv4_6 minicpmv4_7 minimax_m2 ministral "
     "ministral3 mistral mistral3 mistral_large4 mixtral modernbert modernbert-decoder molmo molmo2 "
     "nemo_speechlm nemotron nvfp4 nystromformer olmo2 olmo3 olmo_hybrid omniasr opencua openvla paddleocr_vl "
     "pegasus_x persimmon phi3 phi3_v phimoe pix2struct pixtral pocket_tts smolvlm stablelm step3_vl umt5 "
     "vipllava voxtral voxtral_realtime xlm-roberta-xl"},
    {"GPT2Tokenizer", true, "hyperclovax_vision_v2"},
    {"Qwen2Tokenizer", true, "qwen2"},
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

/* Returns the index in `makes` of a class, whose name may end with "Fast"; -1 if the class is unknown. */
static int find_class(const char *name) {
  static const char fast[] = "Fast";
  size_t length = name == NULL ? 0 : strlen(name);
  if (length > sizeof fast - 1 && strcmp(name + length - (sizeof fast - 1), fast) == 0) length -= sizeof fast - 1;
  for (int i = 0; i < MAKES; i++) {
    if (strlen(makes[i].class) == length && strncmp(makes[i].class, name, length) == 0) return i;
  }
  return -1;
}

static bool has_word(const char *words, const char *word) {
  const size_t length = strlen(word);
  for (const char *at = words; (at = strstr(at, word)) != NULL; at += length) {
    if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0')) return true;
  }
  return false;
}

/* Returns the class that the files name; NULL if it is unknown, or if it is LlamaTokenizer and the tokenizer.json is
 * byte-level. */
static const char *find_named(const char *named, const json_t *root) {
  const int found = find_class(named);
  if (found < 0) return NULL;
  const bool is_llama = strcmp(makes[found].class, "LlamaTokenizer") == 0;
  return is_llama && tri_tokenizer_is_byte_level(root) ? NULL : makes[found].class;
}

const char *tri_tokenizer_class_of(const json_t *config, const json_t *model, const json_t *root) {
  const char *type = json_string_value(json_object_get(model, "model_type"));
  const char *named = json_string_value(json_object_get(config, "tokenizer_class"));
  if (named == NULL) named = json_string_value(json_object_get(model, "tokenizer_class"));
  int at = 0;
  while (at < TYPES && (type == NULL || type[0] == '\0' || !has_word(of_types[at].model_types, type))) at++;
  const char *usual = at == TYPES ? NULL : of_types[at].class;
  const bool decided = at < TYPES && (named == NULL || usual == NULL || of_types[at].insists);
  return decided ? usual : find_named(named, root);
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

/* Returns the prepend_scheme of a Metaspace. Older files have add_prefix_space instead. */
static const char *scheme_of(const json_t *metaspace) {
  const char *scheme = word_of(metaspace, "prepend_scheme");
  if (scheme[0] != '\0') return scheme;
  return flag_of(metaspace, "add_prefix_space", true) ? "always" : "never";
}

/* Returns the only member of a Sequence with one member; any other stage is returned unchanged. */
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

/* Returns the value for %s in the table: whether, or where, a class puts spaces. LlamaTokenizer puts one before a text
 * or, if it is `legacy`, before each part between added tokens. */
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
