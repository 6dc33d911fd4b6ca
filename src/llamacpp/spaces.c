#include "llamacpp/spaces.h"

#include "base/log.h"
#include "files/json_reader.h"

#include <string.h>

/* Steps of a normalizer or of a pre-tokenizer, as bits. */
enum { NFC = 1, PREPEND = 2, REPLACE = 4, METASPACE = 8, SPLIT_SPACES = 16 };

static bool is_text(const json_t *value, const char *text) {
  return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

static bool is_type(const json_t *object, const char *type) { return is_text(json_object_get(object, "type"), type); }

/* Returns the bit of a step; 0 if llama.cpp lacks the step. */
static int bit_of(const json_t *object) {
  const json_t *plain = json_object_get(json_object_get(object, "pattern"), "String");
  if (is_type(object, "NFC")) return NFC;
  if (is_type(object, "Metaspace")) return METASPACE;
  if (is_type(object, "Prepend") && is_text(json_object_get(object, "prepend"), TRI_LLAMACPP_MARK)) return PREPEND;
  if (!is_text(plain, " ")) return 0;
  if (is_type(object, "Replace") && is_text(json_object_get(object, "content"), TRI_LLAMACPP_MARK)) return REPLACE;
  return is_type(object, "Split") ? SPLIT_SPACES : 0;
}

/* Adds the bits of a step, or of the members of a Sequence, to *bits. `kind`: "normalizer" or "pre_tokenizer". Fails
 * with TRI_UNSUPPORTED for a step that llama.cpp lacks. */
static tri_status read_steps(const char *file, const char *kind, const json_t *object, int *bits, json_t *metaspace) {
  const json_t *list = json_object_get(object, kind[0] == 'n' ? "normalizers" : "pretokenizers");
  if (object == NULL || json_is_null(object)) return TRI_OK;
  if (is_type(object, "Sequence")) {
    for (size_t i = 0; i < json_array_size(list); i++) {
      TRI_TRY(read_steps(file, kind, json_array_get(list, i), bits, metaspace));
    }
    return TRI_OK;
  }
  const int bit = bit_of(object);
  if (bit == 0) {
    const char *type = json_string_value(json_object_get(object, "type"));
    return tri_fail(TRI_UNSUPPORTED,
                    "%s: the %s has %.40s, and a GGUF file has no place for it: llama.cpp only replaces spaces by "
                    "U+2581 and puts one before texts",
                    file, kind, type == NULL ? "a step without a type" : type);
  }
  if (bit == METASPACE) json_object_update(metaspace, (json_t *)(uintptr_t)object);
  *bits |= bit;
  return TRI_OK;
}

static void log_nfc(const char *file) {
  tri_log("%s: the normalizer is NFC, which llama.cpp lacks: texts that are not in form C get other tokens there",
          file);
}

static tri_status read_metaspace(const char *file, const json_t *object, tri_llamacpp_spaces *out) {
  const tri_json_reader from = {file, object};
  const char *scheme = NULL, *mark = NULL;
  bool prefix = true;
  TRI_TRY(tri_reader_bool(&from, "add_prefix_space", true, &prefix));
  TRI_TRY(tri_reader_bool(&from, "split", true, &out->splits));
  TRI_TRY(tri_reader_word(&from, "prepend_scheme", prefix ? "always" : "never", &scheme));
  TRI_TRY(tri_reader_word(&from, "replacement", "", &mark));
  if (strcmp(mark, TRI_LLAMACPP_MARK) != 0) {
    return tri_fail(TRI_UNSUPPORTED, "%s: Metaspace replaces spaces by \"%.8s\"; llama.cpp replaces them by U+2581",
                    file, mark);
  }
  out->prefix = strcmp(scheme, "never") != 0;
  if (out->prefix) {
    tri_log("%s: texts that begin with a space%s get one more space in llama.cpp, so their first tokens differ", file,
            strcmp(scheme, "first") == 0 ? ", and texts after a special token," : "");
  }
  return TRI_OK;
}

tri_status tri_llamacpp_read_spaces(const char *file, const json_t *root, tri_llamacpp_spaces *out) {
  int normalizer = 0, cuts = 0;
  json_t *metaspace = json_object();
  *out = (tri_llamacpp_spaces){0};
  tri_status status = read_steps(file, "normalizer", json_object_get(root, "normalizer"), &normalizer, metaspace);
  if (status == TRI_OK) {
    status = read_steps(file, "pre_tokenizer", json_object_get(root, "pre_tokenizer"), &cuts, metaspace);
  }
  const int changes = normalizer & (PREPEND | REPLACE), all = normalizer | cuts;
  if (status == TRI_OK && (all & NFC) != 0) log_nfc(file);
  if (status == TRI_OK && (all & METASPACE) != 0 && changes == 0 && (cuts & SPLIT_SPACES) == 0) {
    status = read_metaspace(file, metaspace, out);
  } else if (status == TRI_OK && (all & METASPACE) == 0 && (changes & REPLACE) != 0) {
    out->prefix = (changes & PREPEND) != 0; /* a Split of spaces finds none after the Replace */
  } else if (status == TRI_OK) {
    status = tri_fail(TRI_UNSUPPORTED,
                      "%s: a vocabulary of characters must replace spaces by U+2581 once for llama.cpp, either with "
                      "Replace in the normalizer or with Metaspace in the pre_tokenizer",
                      file);
  }
  json_decref(metaspace);
  return status;
}

tri_status tri_llamacpp_check_normalizer(const char *file, const json_t *root) {
  const json_t *object = json_object_get(root, "normalizer"), *list = json_object_get(object, "normalizers");
  if (object == NULL || json_is_null(object)) return TRI_OK;
  bool only_nfc = is_type(object, "NFC") || is_type(object, "Sequence");
  for (size_t i = 0; i < json_array_size(list); i++) only_nfc &= is_type(json_array_get(list, i), "NFC");
  if (!only_nfc) {
    const char *type = json_string_value(json_object_get(object, "type"));
    return tri_fail(TRI_UNSUPPORTED,
                    "%s: the normalizer is %.40s, and llama.cpp does not change texts before it cuts them; only a "
                    "tokenizer without one, or with NFC, can be exported",
                    file, type == NULL ? "without a type" : type);
  }
  if (!is_type(object, "Sequence") || json_array_size(list) > 0) log_nfc(file);
  return TRI_OK;
}
