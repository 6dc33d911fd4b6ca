#include "llamacpp/pretokenizers.h"

#include "base/memory.h"
#include "files/json_reader.h"
#include "tokenizer/utf8.h"

#include <string.h>

/* The normal form of a pre_tokenizer is the text of its steps, one after the other, each followed by a blank; a
 * Sequence is its members. Steps that cut texts in the same way have one form:
 *
 *   Split(REGEX)   Split with a Regex and the behavior Isolated, or Removed with invert; Digits as a Split of \p{N} or
 *                  of \p{N}+; the regular expression of a ByteLevel with use_regex, before this step
 *   ByteLevel      without add_prefix_space
 *   Punctuation    with the behavior Contiguous
 *
 * Other steps have forms that the table lacks. Contractions are written as in (?i:'s|...), also those that a regular
 * expression spells in both cases. */

#define SPLIT(regex) "Split(" regex ") "
#define BYTE_LEVEL "ByteLevel "
#define PUNCTUATION "Punctuation "

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPELLED_CONTRACTIONS "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
#define SPACES "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define SIGNS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define LETTERS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
/* the same without the last alternative, which only matches text between matches */
#define GPT2_SHORT "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"
#define GPT2 GPT2_SHORT "|\\s+"
#define LLAMA3 CONTRACTIONS "|" LETTERS "|\\p{N}{1,3}" SIGNS SPACES
#define QWEN2 CONTRACTIONS "|" LETTERS "|\\p{N}" SIGNS SPACES
#define QWEN35 CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" SPACES
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define BEFORE "[^\\r\\n\\p{L}\\p{N}]?"
#define CASES(end) BEFORE UPPER "*" LOWER "+" end "|" BEFORE UPPER "+" LOWER "*" end
#define PATHS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES
#define HAN "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
#define HAN_HANGUL "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
#define DEEPSEEK3                                                                                                      \
  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "                \
  "?[\\p{P}\\p{S}]+"                                                                                                   \
  "[\\r\\n]*" SPACES
#define SEED_CODER CONTRACTIONS "|" LETTERS "|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" SPACES
#define BAILING "'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|" LETTERS "|\\p{N}" SIGNS "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
#define SPARK                                                                                                          \
  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "                \
  "?[\\p{P}\\p{S}]+|"                                                                                                  \
  "[\\r\\n]|\\s+(?!\\S)|\\s+"
#define YOUTU                                                                                                          \
  "[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-"                 \
  "\u303f\ufe30-\ufe4f]+|[\u3105-\u312f]+|" HAN
#define JAIS2                                                                                                          \
  CONTRACTIONS "|" LETTERS "|\\p{N}{1,3}" SIGNS                                                                        \
               "|\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|"                                       \
               "\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}"
#define BLOOM " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
#define LATIN                                                                                                          \
  "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"                    \
  "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5"                    \
  "\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba"                        \
  "\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45"                        \
  "\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-"                   \
  "\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107"                   \
  "\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f"                    \
  "\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d"                    \
  "\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17"                        \
  "\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb"                          \
  "\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943]+"

static const tri_llamacpp_pretokenizer pretokenizers[] = {
    {"gpt-2", SPLIT(GPT2) BYTE_LEVEL, .covers = true},
    {"starcoder", SPLIT("\\p{N}") SPLIT(GPT2) BYTE_LEVEL, .covers = false},
    {"llama-bpe", SPLIT(LLAMA3) BYTE_LEVEL, .ignore_merges = true, .covers = true},
    {"dbrx", SPLIT(LLAMA3) BYTE_LEVEL, .covers = true},
    {"qwen2", SPLIT(QWEN2) BYTE_LEVEL, .covers = true},
    {"qwen35", SPLIT(QWEN35) BYTE_LEVEL, .covers = true},
    {"tekken", SPLIT(CASES("") "|\\p{N}" PATHS) BYTE_LEVEL, .ignore_merges = true, .covers = true, .differs = true},
    {"gpt-4o", SPLIT(CASES(CONTRACTIONS "?") "|\\p{N}{1,3}" PATHS) BYTE_LEVEL, .covers = true, .differs = true},
    {"falcon", PUNCTUATION SPLIT(GPT2) BYTE_LEVEL SPLIT("\\p{N}+") SPLIT("[0-9][0-9][0-9]"), .covers = false},
    {"deepseek-v3", SPLIT("\\p{N}{1,3}") SPLIT(HAN) SPLIT(DEEPSEEK3) BYTE_LEVEL, .covers = false},
    {"deepseek-coder",
     SPLIT("[\r\n]") SPLIT("\\s?\\p{L}+") SPLIT("\\s?\\p{P}+") SPLIT(HAN_HANGUL) SPLIT("\\p{N}") BYTE_LEVEL,
     .differs = true},
    {"deepseek-llm",
     SPLIT("[\r\n]") SPLIT(LATIN) SPLIT("\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+")
         SPLIT("\\s+$") SPLIT(HAN_HANGUL) SPLIT("\\p{N}") BYTE_LEVEL,
     .differs = true},
    {"seed-coder", SPLIT(SEED_CODER) BYTE_LEVEL, .covers = true},
    {"superbpe", SPLIT("\\p{N}+") SPLIT("(?=(\\d{3})+(?!\\d))") BYTE_LEVEL, .covers = false},
    {"minicpm5", SPLIT("\\p{N}{1,3}") SPLIT(CONTRACTIONS "|" LETTERS "|\\p{N}+" SIGNS SPACES) BYTE_LEVEL,
     .ignore_merges = true},
    {"bailingmoe", SPLIT(BAILING) BYTE_LEVEL, .covers = true},
    {"ufakzeka", SPLIT(LETTERS "|\\p{N}" SIGNS SPACES) BYTE_LEVEL, .covers = true},
    {"default", SPLIT("[\\p{P}\\$\\+<=>\\^~\\|]+") SPLIT(GPT2) SPLIT("\\p{N}+") SPLIT("[0-9][0-9][0-9]") BYTE_LEVEL,
     .covers = false},
    {"spark2_5", SPLIT("\\p{N}{1,3}") SPLIT(HAN) SPLIT(SPARK) SPLIT("\\p{N}") BYTE_LEVEL, .covers = false},
    {"youtu", SPLIT(YOUTU) SPLIT(CASES(CONTRACTIONS "?") "|\\p{N}" PATHS) BYTE_LEVEL, .ignore_merges = true,
     .differs = true},
    {"jais-2", SPLIT(JAIS2) BYTE_LEVEL, .covers = true},
    {"bloom", SPLIT(BLOOM) BYTE_LEVEL, .covers = false},
    {"viking", SPLIT(BLOOM) SPLIT("\\p{N}") BYTE_LEVEL, .covers = false},
    {"tiny_aya", SPLIT("\\d{1,3}(?=(?:\\d{3})*\\b)") SPLIT(CASES(CONTRACTIONS "?") "|\\p{N}{1,3}" PATHS) BYTE_LEVEL,
     .differs = true},
    {"laguna", SPLIT("[^\\n]+|[\\n]+") SPLIT(QWEN2) BYTE_LEVEL, .covers = false},
};
enum { PRETOKENIZERS = sizeof pretokenizers / sizeof *pretokenizers };

const tri_llamacpp_pretokenizer *tri_llamacpp_pretokenizers(int *count) {
  *count = PRETOKENIZERS;
  return pretokenizers;
}

/* ---- the normal form --------------------------------------------------------------------------------------------- */

typedef struct normal_form {
  const char *file;
  char *text; /* ends with a NUL */
  size_t held, room;
  bool drops; /* whether a Split drops the text between matches */
} normal_form;

static tri_status append(normal_form *form, const char *text, size_t bytes) {
  TRI_TRY(tri_reserve("a pre-tokenizer", 1, form->held + bytes + 1, &form->room, &form->text));
  memcpy(form->text + form->held, text, bytes);
  form->held += bytes;
  form->text[form->held] = '\0';
  return TRI_OK;
}

static tri_status append_text(normal_form *form, const char *text) { return append(form, text, strlen(text)); }

static tri_status append_regex(normal_form *form, const char *regex) {
  const char *from = regex, *spelled = NULL;
  if (strcmp(regex, GPT2_SHORT) == 0) from = GPT2;
  TRI_TRY(append_text(form, "Split("));
  while ((spelled = strstr(from, SPELLED_CONTRACTIONS)) != NULL) {
    TRI_TRY(append(form, from, (size_t)(spelled - from)));
    TRI_TRY(append_text(form, CONTRACTIONS));
    from = spelled + strlen(SPELLED_CONTRACTIONS);
  }
  TRI_TRY(append_text(form, from));
  return append_text(form, ") ");
}

static tri_status append_split(normal_form *form, const tri_json_reader *from) {
  const json_t *pattern = json_object_get(from->object, "pattern");
  const char *regex = json_string_value(json_object_get(pattern, "Regex")), *behavior = NULL;
  bool invert = false;
  TRI_TRY(tri_reader_word(from, "behavior", "", &behavior));
  TRI_TRY(tri_reader_bool(from, "invert", false, &invert));
  const bool drops = strcmp(behavior, "Removed") == 0 && invert, isolated = strcmp(behavior, "Isolated") == 0;
  if (regex == NULL || !(drops || isolated)) return append_text(form, "Split-of-another-kind ");
  form->drops |= drops;
  return append_regex(form, regex);
}

static tri_status append_byte_level(normal_form *form, const tri_json_reader *from) {
  bool prefix = false, regex = false;
  TRI_TRY(tri_reader_bool(from, "add_prefix_space", true, &prefix));
  TRI_TRY(tri_reader_bool(from, "use_regex", true, &regex));
  if (prefix) {
    return tri_fail(TRI_UNSUPPORTED,
                    "%s: pre_tokenizer: ByteLevel has add_prefix_space true, and llama.cpp cannot put a space before "
                    "texts of a byte-level vocabulary; train with a tokenizer where it is false",
                    form->file);
  }
  if (regex) TRI_TRY(append_regex(form, GPT2));
  return append_text(form, BYTE_LEVEL);
}

static tri_status append_step(normal_form *form, const json_t *object) {
  const tri_json_reader from = {form->file, object};
  const json_t *list = json_object_get(object, "pretokenizers");
  const char *type = NULL, *behavior = NULL;
  bool single = false;
  TRI_TRY(tri_reader_word(&from, "type", "", &type));
  if (strcmp(type, "Sequence") == 0) {
    for (size_t i = 0; i < json_array_size(list); i++) TRI_TRY(append_step(form, json_array_get(list, i)));
    return TRI_OK;
  }
  if (strcmp(type, "Split") == 0) return append_split(form, &from);
  if (strcmp(type, "ByteLevel") == 0) return append_byte_level(form, &from);
  if (strcmp(type, "Digits") == 0) {
    TRI_TRY(tri_reader_bool(&from, "individual_digits", false, &single));
    return append_regex(form, single ? "\\p{N}" : "\\p{N}+");
  }
  TRI_TRY(tri_reader_word(&from, "behavior", "", &behavior));
  TRI_TRY(append_text(form, type));
  const bool contiguous = strcmp(type, "Punctuation") == 0 && strcmp(behavior, "Contiguous") == 0;
  return append_text(form, contiguous ? " " : "-of-another-kind ");
}

/* ---- the search -------------------------------------------------------------------------------------------------- */

enum { SHOWN_BYTES = 400 };

/* Writes a form for a message: shortened, without control characters and without the last blank. */
static void show(const normal_form *form, char out[SHOWN_BYTES]) {
  size_t length = 0, end = form->held > 0 ? form->held - 1 : 0;
  for (size_t i = 0; i < end;) {
    uint32_t code = 0;
    const size_t step = tri_utf8_decode(form->text + i, end - i, &code);
    const bool clean = step > 0 && code >= 0x20 && code != 0x7F;
    if (length + 4 + sizeof "..." > SHOWN_BYTES) {
      memcpy(out + length, "...", 3);
      length += 3;
      break;
    }
    memcpy(out + length, clean ? form->text + i : "?", clean ? step : 1);
    length += clean ? step : 1;
    i += step > 0 ? step : 1;
  }
  out[length] = '\0';
}

static tri_status search(const normal_form *form, bool ignore_merges, const tri_llamacpp_pretokenizer **out) {
  char shown[SHOWN_BYTES];
  *out = NULL;
  for (int i = 0; i < PRETOKENIZERS; i++) {
    const tri_llamacpp_pretokenizer *one = &pretokenizers[i];
    if (strcmp(one->form, form->text) != 0 || (form->drops && !one->covers)) continue;
    if (*out == NULL || one->ignore_merges == ignore_merges) *out = one;
  }
  if (*out != NULL) return TRI_OK;
  show(form, shown);
  return tri_fail(TRI_UNSUPPORTED,
                  "%s: llama.cpp has no name for this pre_tokenizer, and cannot read it from a file: %s; train with a "
                  "tokenizer that cuts texts as GPT-2's, Llama 3's or Qwen 2's does, or use the model here and in "
                  "transformers",
                  form->file, shown);
}

tri_status tri_llamacpp_find_pretokenizer(const char *file, const json_t *object, bool ignore_merges,
                                          const tri_llamacpp_pretokenizer **out) {
  normal_form form = {.file = file};
  tri_status status = append(&form, "", 0);
  if (status == TRI_OK) status = append_step(&form, object);
  if (status == TRI_OK) status = search(&form, ignore_merges, out);
  tri_free(form.text);
  return status;
}
