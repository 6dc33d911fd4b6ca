#include "generation/generation_settings.h"

#include "base/log.h"
#include "base/memory.h"
#include "files/file.h"
#include "files/json_kind.h"
#include "files/json_reader.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* TRANSFORMERS_TOP_K: the default of transformers' GenerationConfig, which save_pretrained does not write. The other
 * defaults of GenerationConfig leave out no tokens. */
enum { LARGEST_BYTES = 1 << 20, TRANSFORMERS_TOP_K = 50 };

static tri_status read_whole(const char *path, const json_t *root, const char *key, int64_t *out) {
  static const json_int_t most = 1 << 24;
  const json_t *value = json_object_get(root, key);
  const double real = json_number_value(value);
  *out = -1;
  if (value == NULL || json_is_null(value)) return TRI_OK;
  if (!json_is_number(value) || !(real >= 0 && real <= (double)most) || real != floor(real)) {
    return tri_fail(TRI_BAD_FILE, "%s: `%s` must be a whole number from 0 to %ld; correct it, or move the file away",
                    path, key, (long)most);
  }
  *out = (int64_t)real;
  return TRI_OK;
}

static tri_status read_number(const char *path, const json_t *root, const char *key, double low, double high,
                              double *out) {
  const json_t *value = json_object_get(root, key);
  *out = -1;
  if (value == NULL || json_is_null(value)) return TRI_OK;
  const double number = json_number_value(value);
  if (!json_is_number(value) || !(number >= low && number <= high)) {
    return tri_fail(TRI_BAD_FILE, "%s: `%s` must be a number from %g to %g; correct it, or move the file away", path,
                    key, low, high);
  }
  *out = number;
  return TRI_OK;
}

static tri_status read_settings(const char *path, const json_t *root, tri_generation_settings *out) {
  TRI_TRY(read_number(path, root, "temperature", 0, 1e6, &out->temperature));
  TRI_TRY(read_whole(path, root, "top_k", &out->top_k));
  TRI_TRY(read_number(path, root, "top_p", 1e-9, 1, &out->top_p));
  TRI_TRY(read_number(path, root, "min_p", 0, 1, &out->min_p));
  TRI_TRY(read_number(path, root, "repetition_penalty", 1e-2, 1e2, &out->repetition_penalty));
  TRI_TRY(read_whole(path, root, "max_new_tokens", &out->max_new_tokens));
  TRI_TRY(read_whole(path, root, "max_length", &out->max_length));
  out->draws = json_is_true(json_object_get(root, "do_sample"));
  out->usual_top_k = out->draws && out->top_k < 0;
  if (out->usual_top_k) out->top_k = TRANSFORMERS_TOP_K;
  return TRI_OK;
}

/* Settings that transformers' generate obeys and this program does not. `nothing`: the number that has no effect. null,
 * false, an empty list and an empty object have no effect, either. 0 also counts as no effect, except for token ids,
 * whose `nothing` is -1, and for guidance_scale: there 0 is an ordinary value. */
static const struct {
  const char *key;
  double nothing;
} not_obeyed[] = {{"bad_words_ids", 0},
                  {"begin_suppress_tokens", 0},
                  {"constraints", 0},
                  {"dola_layers", 0},
                  {"encoder_no_repeat_ngram_size", 0},
                  {"encoder_repetition_penalty", 1},
                  {"epsilon_cutoff", 0},
                  {"eta_cutoff", 0},
                  {"exponential_decay_length_penalty", 0},
                  {"force_words_ids", 0},
                  {"forced_bos_token_id", -1},
                  {"forced_eos_token_id", -1},
                  {"guidance_scale", 1},
                  {"max_time", 0},
                  {"min_length", 0},
                  {"min_new_tokens", 0},
                  {"no_repeat_ngram_size", 0},
                  {"num_beam_groups", 1},
                  {"num_beams", 1},
                  {"num_return_sequences", 1},
                  {"penalty_alpha", 0},
                  {"sequence_bias", 0},
                  {"stop_strings", 0},
                  {"suppress_tokens", 0},
                  {"token_healing", 0},
                  {"top_h", 1},
                  {"typical_p", 1},
                  {"watermarking_config", 0}};

static void warn_of_not_obeyed(const char *path, const json_t *root) {
  char said[1024] = ""; /* all keys together: below 700 bytes */
  for (size_t i = 0; i < sizeof not_obeyed / sizeof *not_obeyed; i++) {
    const json_t *value = json_object_get(root, not_obeyed[i].key);
    const bool empty = (json_is_array(value) && json_array_size(value) == 0) ||
                       (json_is_object(value) && json_object_size(value) == 0);
    if (value == NULL || json_is_null(value) || json_is_false(value) || empty) continue;
    const double number = json_number_value(value), nothing = not_obeyed[i].nothing;
    const bool zero_counts = nothing < 0 || strcmp(not_obeyed[i].key, "guidance_scale") == 0;
    if (json_is_number(value) && (number == nothing || (number == 0 && !zero_counts))) continue;
    const size_t held = strlen(said);
    snprintf(said + held, sizeof said - held, "%s`%s`", held == 0 ? "" : ", ", not_obeyed[i].key);
  }
  if (said[0] != '\0') tri_warn("%s: not done here: %s; texts differ from transformers'", path, said);
}

tri_status tri_generation_settings_read(const char *folder, tri_generation_settings *out) {
  char path[TRI_PATH_BYTES], *text = NULL;
  size_t bytes = 0;
  *out = (tri_generation_settings){.temperature = -1,
                                   .top_p = -1,
                                   .min_p = -1,
                                   .repetition_penalty = -1,
                                   .top_k = -1,
                                   .max_new_tokens = -1,
                                   .max_length = -1};
  TRI_TRY(tri_path_join(path, folder, "generation_config.json"));
  if (!tri_path_exists(path)) return TRI_OK;
  TRI_TRY(tri_file_read_plain(path, LARGEST_BYTES, &text, &bytes));
  json_t *root = NULL;
  tri_status status = tri_json_parse(path, text, bytes, 0, &root);
  tri_free(text);
  if (status == TRI_OK && !json_is_object(root)) {
    status = tri_fail(TRI_BAD_FILE, "%s is %s, not a JSON object", path, tri_json_kind(root));
  }
  if (status == TRI_OK) status = read_settings(path, root, out);
  if (status == TRI_OK) warn_of_not_obeyed(path, root);
  json_decref(root);
  return status;
}
