/* Reads and writes the keys of config.json about rotary embeddings: `rope_theta`, the rotated fraction of a head, and
 * the scaling in `rope_scaling` or `rope_parameters`. */
#include "checkpoint/huggingface_parts.h"
#include "config/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Reads the rotated fraction of each head from a key. If the file does not have the key, the fraction stays as it is,
 * or becomes 1 if it is 0. */
static tri_status read_fraction(const tri_json_reader *from, const char *key, tri_model *out) {
  double rotated = out->rotary_fraction == 0 ? 1 : out->rotary_fraction;
  TRI_TRY(tri_reader_positive(from, key, rotated, &rotated));
  out->rotary_fraction = rotated;
  return TRI_OK;
}

/* Reads the base and the rotated fraction of each head from keys at the top of the file. If the table has its own
 * names, transformers ignores the usual ones. */
static tri_status read_at_the_top(const tri_json_reader *from, const tri_hf_keys *hf_keys, tri_model *out) {
  const tri_hf_keys_rope *rope = &hf_keys->rope;
  const char *theta = rope->theta == NULL ? TRI_HUGGINGFACE_THETA : rope->theta;
  TRI_TRY(tri_reader_positive(from, theta, hf_keys->absent.rope_theta, &out->rope_theta));
  return read_fraction(from, rope->fraction == NULL ? TRI_HUGGINGFACE_FRACTION : rope->fraction, out);
}

/* Checks the fraction in families that rotate whole heads. If positions are not scaled, transformers ignores the key,
 * so the fraction is set to 1; if they are, transformers fails, and so does this function. */
static tri_status check_fraction(const tri_json_reader *from, const tri_hf_keys *hf_keys, tri_model *out) {
  const double rotated = out->rotary_fraction;
  if (hf_keys->rope.fraction != NULL || rotated == 0 || rotated == 1) return TRI_OK;
  out->rotary_fraction = 1;
  if (tri_rope_is_plain(&out->rope_scaling)) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED, "%s: `partial_rotary_factor` is %g; with stretched positions only 1 is supported",
                  from->path, rotated);
}

TRI_CONFIG_WORDS(rope_types, tri_rope_type, TRI_ROPE_TYPES)

typedef struct rope_reader {
  tri_json_reader from;   /* reader of the object for rotary positions */
  const char *key, *type; /* key of the object in the file; its rope_type */
} rope_reader;

static tri_status check_asked(const rope_reader *rope, const char *const *asked) {
  for (; *asked != NULL; asked++) {
    if (tri_reader_get(&rope->from, *asked) != NULL) continue;
    return tri_fail(TRI_BAD_FILE, "%s: `%s` of type %s has no `%s`", rope->from.path, rope->key, rope->type, *asked);
  }
  return TRI_OK;
}

static tri_status read_factor(const rope_reader *rope, tri_rope_scaling *out) {
  static const char *const asked[] = {"factor", NULL};
  TRI_TRY(check_asked(rope, asked));
  return tri_reader_positive(&rope->from, "factor", 1, &out->factor);
}

/* Reads the longest sequence of the original training. A key at the top of the file has precedence over the object,
 * except if kinds of layers have their own objects; the default of a table (Phi-3) also has precedence over the object.
 */
static tri_status read_original(const rope_reader *rope, const tri_json_reader *config, const tri_hf_keys *hf_keys,
                                const tri_model *model, int64_t *out) {
  static const char key[] = "original_max_position_embeddings";
  *out = model->max_sequence;
  TRI_TRY(tri_reader_size(&rope->from, key, *out, out));
  if (hf_keys->rope.original_length > 0) *out = hf_keys->rope.original_length;
  return hf_keys->rope.local != NULL ? TRI_OK : tri_reader_size(config, key, *out, out);
}

static tri_status read_llama3(const rope_reader *rope, tri_rope_scaling *out) {
  static const char *const asked[] = {"factor", "low_freq_factor", "high_freq_factor", NULL};
  TRI_TRY(check_asked(rope, asked));
  TRI_TRY(tri_reader_positive(&rope->from, "factor", 1, &out->factor));
  TRI_TRY(tri_reader_positive(&rope->from, "low_freq_factor", 1, &out->low_freq_factor));
  return tri_reader_positive(&rope->from, "high_freq_factor", 4, &out->high_freq_factor);
}

/* Reads an optional number, 0 if absent; fails if it is below 0. transformers also treats 0 as absent, except for
 * attention_factor. */
static tri_status get_optional_number(const tri_json_reader *from, const char *key, double *out) {
  TRI_TRY(tri_reader_number(from, key, 0, out));
  return *out >= 0 ? TRI_OK : tri_reader_wrong(from, key, "a number above 0");
}

/* Reads YaRN. The default factor is the ratio of the longest to the original sequence; if these are equal, the file
 * must have a factor. If kinds of layers have their own objects, transformers does not read `truncate` in them. */
static tri_status read_yarn(const rope_reader *rope, const tri_hf_keys *hf_keys, const tri_model *model,
                            tri_rope_scaling *out) {
  const tri_json_reader *from = &rope->from;
  static const char *const asked[] = {"factor", NULL};
  const json_t *factor = tri_reader_get(from, "attention_factor");
  if (out->original_max_sequence == model->max_sequence) TRI_TRY(check_asked(rope, asked));
  double ratio = (double)model->max_sequence / (double)out->original_max_sequence;
  TRI_TRY(tri_reader_positive(from, "factor", ratio, &out->factor));
  TRI_TRY(get_optional_number(from, "attention_factor", &out->attention_factor));
  if (factor != NULL && out->attention_factor == 0)
    return tri_reader_wrong(from, "attention_factor", "a number above 0");
  TRI_TRY(get_optional_number(from, "mscale", &out->mscale));
  TRI_TRY(get_optional_number(from, "mscale_all_dim", &out->mscale_all_dim));
  TRI_TRY(get_optional_number(from, "beta_fast", &out->beta_fast));
  TRI_TRY(get_optional_number(from, "beta_slow", &out->beta_slow));
  if (out->beta_fast == 0) out->beta_fast = 32;
  if (out->beta_slow == 0) out->beta_slow = 1;
  out->truncate = true;
  return hf_keys->rope.local != NULL ? TRI_OK : tri_reader_bool(from, "truncate", true, &out->truncate);
}

static tri_status read_factors(const tri_json_reader *from, const char *key, double out[TRI_ROPE_MOST_PAIRS]) {
  const json_t *list = tri_reader_get(from, key), *number = NULL;
  char wanted[64];
  size_t i = 0;
  snprintf(wanted, sizeof wanted, "a list of up to %d numbers above 0", TRI_ROPE_MOST_PAIRS);
  if (!json_is_array(list) || json_array_size(list) > TRI_ROPE_MOST_PAIRS) return tri_reader_wrong(from, key, wanted);
  json_array_foreach(list, i, number) {
    out[i] = json_number_value(number);
    if (!(out[i] > 0) || !isfinite(out[i])) return tri_reader_wrong(from, key, wanted);
  }
  return TRI_OK;
}

/* Reads LongRoPE. For a file without a factor, such as Phi-3's, the factor is the ratio of the longest to the original
 * sequence. Fails with TRI_BAD_FILE if a list of factors is missing, or if the original sequence is 1. */
static tri_status read_longrope(const rope_reader *rope, const tri_json_reader *config, const tri_model *model,
                                tri_rope_scaling *out) {
  static const char *const asked[] = {"short_factor", "long_factor", NULL};
  static const char original[] = "original_max_position_embeddings";
  const tri_json_reader *from = &rope->from;
  TRI_TRY(check_asked(rope, asked));
  TRI_TRY(read_factors(from, "short_factor", out->short_factor));
  TRI_TRY(read_factors(from, "long_factor", out->long_factor));
  if (out->original_max_sequence == 1)
    return tri_reader_wrong(tri_reader_get(config, original) == NULL ? from : config, original, "an integer above 1");
  const double ratio = (double)model->max_sequence / (double)out->original_max_sequence;
  TRI_TRY(tri_reader_positive(from, "factor", ratio, &out->factor));
  if (out->factor < 1) out->factor = 1; /* a factor below 1 has no effect, like 1 */
  if (tri_reader_get(from, "attention_factor") == NULL) return TRI_OK;
  return tri_reader_positive(from, "attention_factor", 1, &out->attention_factor);
}

/* Reads dynamic scaling, after its factor. In transformers the config's longest sequence is the original one, beyond
 * which frequencies change. transformers has no key for the longest text, so we write one of our own, max_sequence;
 * without it, the longest text is `factor` times the original sequence. */
static tri_status read_dynamic(const tri_json_reader *config, tri_model *model) {
  tri_rope_scaling *scaling = &model->rope_scaling;
  scaling->original_max_sequence = model->max_sequence;
  double reach = fmin((double)model->max_sequence * scaling->factor, 1 << 30);
  return tri_reader_size(config, "max_sequence", reach < 1 ? 1 : (int64_t)reach, &model->max_sequence);
}

/* Returns whether the type is a former name of LongRoPE, from Phi-3's first files. */
static bool was_longrope(const rope_reader *rope) {
  return strcmp(rope->type, "su") == 0 ||
         (strcmp(rope->type, "yarn") == 0 && tri_reader_get(&rope->from, "short_factor") != NULL);
}

static tri_status read_scaling(const rope_reader *given, const tri_json_reader *config, const tri_hf_keys *hf_keys,
                               tri_model *out) {
  rope_reader rope = *given;
  tri_rope_scaling *scaling = &out->rope_scaling;
  rope.type = "default";
  if (!tri_huggingface_rope_passes_type(config, hf_keys)) {
    TRI_TRY(tri_reader_word(&rope.from, "type", rope.type, &rope.type));
  }
  TRI_TRY(tri_reader_word(&rope.from, "rope_type", rope.type, &rope.type));
  if (strcmp(rope.type, "default") == 0) return TRI_OK;
  if (was_longrope(&rope)) rope.type = rope_types_word(TRI_ROPE_LONG);
  if (!rope_types_find(rope.type, &scaling->type)) {
    return tri_fail(TRI_UNSUPPORTED,
                    "%s: `%s` is of type `%.40s`; default, linear, dynamic, yarn, longrope and llama3 are supported",
                    config->path, rope.key, rope.type);
  }
  int64_t original = 0;
  TRI_TRY(read_original(&rope, config, hf_keys, out, &original));
  switch (scaling->type) {
    case TRI_ROPE_LINEAR: return read_factor(&rope, scaling);
    case TRI_ROPE_DYNAMIC: TRI_TRY(read_factor(&rope, scaling)); return read_dynamic(config, out);
    case TRI_ROPE_LLAMA3: scaling->original_max_sequence = original; return read_llama3(&rope, scaling);
    case TRI_ROPE_YARN: scaling->original_max_sequence = original; return read_yarn(&rope, hf_keys, out, scaling);
    case TRI_ROPE_LONG: scaling->original_max_sequence = original; return read_longrope(&rope, config, out, scaling);
  }
  return TRI_OK;
}

/* Reads the base of layers with a window, if the table has a key for it. Fails with TRI_UNSUPPORTED if these layers are
 * scaled. */
static tri_status read_local(const tri_json_reader *from, const tri_hf_keys *hf_keys, const json_t *parameters,
                             tri_model *out) {
  const tri_json_reader own = {.path = from->path, .object = json_object_get(parameters, "sliding_attention")};
  const char *type = NULL;
  if (hf_keys->rope.local == NULL) return TRI_OK;
  out->local_rope_theta = hf_keys->absent.local_rope_theta;
  TRI_TRY(tri_reader_positive(from, hf_keys->rope.local, out->local_rope_theta, &out->local_rope_theta));
  if (own.object != NULL) {
    TRI_TRY(tri_reader_positive(&own, "rope_theta", out->local_rope_theta, &out->local_rope_theta));
    TRI_TRY(tri_reader_word(&own, "rope_type", "default", &type));
    if (strcmp(type, "default") != 0) {
      return tri_fail(TRI_UNSUPPORTED, "%s: positions of sliding_attention are of type `%.40s`; default is supported",
                      from->path, type);
    }
  }
  if (out->window == 0) out->local_rope_theta = 0; /* no layer uses it */
  return TRI_OK;
}

const char *tri_huggingface_rope_key(const tri_json_reader *from) {
  const json_t *scaling = tri_reader_get(from, "rope_scaling");
  const bool is_empty = scaling == NULL || (json_is_object(scaling) && json_object_size(scaling) == 0);
  return is_empty ? "rope_parameters" : "rope_scaling";
}

const json_t *tri_huggingface_rope_object(const tri_json_reader *from, const tri_hf_keys *hf_keys) {
  const char *key = tri_huggingface_rope_key(from);
  const json_t *object = tri_reader_get(from, key);
  if (hf_keys->rope.local == NULL || strcmp(key, "rope_scaling") == 0) return object;
  const json_t *full = json_object_get(object, "full_attention");
  return json_is_null(full) ? NULL : full;
}

bool tri_huggingface_rope_passes_type(const tri_json_reader *from, const tri_hf_keys *hf_keys) {
  return hf_keys->rope.local != NULL && strcmp(tri_huggingface_rope_key(from), "rope_scaling") == 0;
}

/* transformers up to version 4 writes `rope_theta` and `rope_scaling`; from 5 on `rope_parameters` holds both, or an
 * object for each kind of layer. The type was once called `type`. */
tri_status tri_huggingface_read_rope(const tri_json_reader *from, const tri_hf_keys *hf_keys, tri_model *out) {
  const char *key = tri_huggingface_rope_key(from);
  const json_t *other = tri_reader_get(from, "rope_parameters");
  if (hf_keys->rope.local != NULL && strcmp(key, "rope_parameters") != 0 && other != NULL) {
    return tri_fail(TRI_BAD_FILE,
                    "%s has both `rope_scaling` and `rope_parameters`, which transformers refuses for this model_type; "
                    "remove one of them",
                    from->path);
  }
  const json_t *parameters = tri_reader_get(from, key);
  /* Other families ignore such objects, with a line in the log (huggingface_keys.c). */
  if (hf_keys->rope.local == NULL && hf_keys->window.by_layer && json_object_get(parameters, "full_attention")) {
    return tri_fail(TRI_UNSUPPORTED,
                    "%s: `%s` has an object for each kind of layer, which is not supported for this model_type",
                    from->path, key);
  }
  if (parameters != NULL && !json_is_object(parameters)) return tri_reader_wrong(from, key, "an object");
  rope_reader rope = {.from = {.path = from->path, .object = tri_huggingface_rope_object(from, hf_keys)}, .key = key};
  TRI_TRY(read_at_the_top(from, hf_keys, out));
  TRI_TRY(read_local(from, hf_keys, strcmp(key, "rope_parameters") == 0 ? parameters : NULL, out));
  if (rope.from.object != NULL) {
    if (!json_is_object(rope.from.object)) return tri_reader_wrong(from, key, "an object");
    TRI_TRY(tri_reader_positive(&rope.from, TRI_HUGGINGFACE_THETA, out->rope_theta, &out->rope_theta));
    TRI_TRY(read_fraction(&rope.from, TRI_HUGGINGFACE_FRACTION, out));
    TRI_TRY(read_scaling(&rope, from, hf_keys, out));
  }
  return check_fraction(from, hf_keys, out);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static json_t *yarn_json(const tri_rope_scaling *s) {
  json_t *out = json_pack("{s:s, s:f, s:I, s:f, s:f, s:b}", "rope_type", rope_types_word(s->type), "factor", s->factor,
                          "original_max_position_embeddings", (json_int_t)s->original_max_sequence, "beta_fast",
                          s->beta_fast, "beta_slow", s->beta_slow, "truncate", s->truncate);
  if (s->attention_factor != 0) json_object_set_new(out, "attention_factor", json_real(s->attention_factor));
  if (s->mscale != 0) json_object_set_new(out, "mscale", json_real(s->mscale));
  if (s->mscale_all_dim != 0) json_object_set_new(out, "mscale_all_dim", json_real(s->mscale_all_dim));
  return out;
}

static json_t *factors_json(const double factors[TRI_ROPE_MOST_PAIRS]) {
  json_t *out = json_array();
  for (int64_t i = 0; i < tri_rope_count(factors); i++) json_array_append_new(out, json_real(factors[i]));
  return out;
}

static json_t *longrope_json(const tri_rope_scaling *s) {
  json_t *out = json_pack("{s:s, s:f, s:I, s:o, s:o}", "rope_type", rope_types_word(s->type), "factor", s->factor,
                          "original_max_position_embeddings", (json_int_t)s->original_max_sequence, "short_factor",
                          factors_json(s->short_factor), "long_factor", factors_json(s->long_factor));
  if (s->attention_factor != 0) json_object_set_new(out, "attention_factor", json_real(s->attention_factor));
  return out;
}

/* Returns the object in the form of version 4, which later versions read as well; JSON null if positions are not
 * scaled. */
static json_t *rope_json(const tri_rope_scaling *scaling) {
  const char *type = rope_types_word(scaling->type);
  if (tri_rope_is_plain(scaling)) return json_null();
  switch (scaling->type) {
    case TRI_ROPE_LLAMA3: break;
    case TRI_ROPE_LINEAR:
    case TRI_ROPE_DYNAMIC: return json_pack("{s:s, s:f}", "rope_type", type, "factor", scaling->factor);
    case TRI_ROPE_YARN: return yarn_json(scaling);
    case TRI_ROPE_LONG: return longrope_json(scaling);
  }
  return json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", type, "factor", scaling->factor, "low_freq_factor",
                   scaling->low_freq_factor, "high_freq_factor", scaling->high_freq_factor,
                   "original_max_position_embeddings", (json_int_t)scaling->original_max_sequence);
}

void tri_huggingface_write_rope(const tri_model *m, const tri_hf_keys *hf_keys, json_t *to) {
  const tri_hf_keys_rope *keys = &hf_keys->rope;
  json_object_set_new(to, keys->theta == NULL ? "rope_theta" : keys->theta, json_real(m->rope_theta));
  if (keys->fraction != NULL) json_object_set_new(to, keys->fraction, json_real(m->rotary_fraction));
  if (keys->local != NULL) {
    const double local = m->local_rope_theta == 0 ? m->rope_theta : m->local_rope_theta;
    json_object_set_new(to, keys->local, json_real(local));
  }
  json_object_set_new(to, "rope_scaling", rope_json(&m->rope_scaling));
  const json_int_t original = (json_int_t)m->rope_scaling.original_max_sequence;
  /* Phi-3 reads the original length at the top of the file, and the default of that key has precedence over the object.
   */
  if (m->rope_scaling.type == TRI_ROPE_LONG)
    json_object_set_new(to, "original_max_position_embeddings", json_integer(original));
  if (m->rope_scaling.type != TRI_ROPE_DYNAMIC) return;
  json_object_set_new(to, "max_position_embeddings", json_integer(original));
  json_object_set_new(to, "max_sequence", json_integer((json_int_t)m->max_sequence));
}
