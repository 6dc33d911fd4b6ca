#include "model/model.h"

#include "model/family.h"
#include "model/model_config.h"

#include <inttypes.h>
#include <stdio.h>

/* The divisor of n nearest to wanted. */
static int64_t nearest_divisor(int64_t n, int64_t wanted) {
  for (int64_t away = 0; away < n; away++) {
    if (wanted > away && n % (wanted - away) == 0) return wanted - away;
    if (n % (wanted + away) == 0) return wanted + away;
  }
  return 1;
}

/* What is left at 0 takes its default. Numbers that are out of range are left for the check after it. */
static tri_status fill_in(tri_model *m) {
  const tri_family_table *family = tri_family_of(m);
  if (m->norm_eps == 0) m->norm_eps = 1e-5;
  if (m->init_std == 0) m->init_std = 0.02;
  if (m->rope_theta == 0) m->rope_theta = 10000;
  if (m->rope_scaling.factor == 0) m->rope_scaling.factor = 1;
  if (m->rope_scaling.low_freq_factor == 0) m->rope_scaling.low_freq_factor = 1;
  if (m->rope_scaling.high_freq_factor == 0) m->rope_scaling.high_freq_factor = 4;
  if (m->rope_scaling.original_max_sequence == 0) m->rope_scaling.original_max_sequence = 8192;
  if (m->name[0] == '\0') snprintf(m->name, sizeof m->name, "inline");
  if (m->num_kv_heads == 0) m->num_kv_heads = m->num_heads;
  if (family == NULL) return TRI_OK; /* the check after it says so */
  if (family->always_biased) m->attention_bias = true;
  /* The limits of the table; beyond them the arithmetic below could overflow. */
  if (m->hidden_size < 1 || m->hidden_size > 1 << 20 || m->num_heads < 1 || m->num_heads > 1 << 16) return TRI_OK;
  if (m->ffn_size == 0 && family->asks_for_ffn_size) {
    /* Two thirds of 4 * hidden_size, since SwiGLU has three matrices where GELU has two, in steps of 256. */
    return tri_fail(TRI_BAD_CONFIG, "`ffn_size` is missing; a %s model needs it, for example `ffn_size: %" PRId64 "`",
                    family->name, (m->hidden_size * 8 / 3 + 255) / 256 * 256);
  }
  if (m->ffn_size == 0) m->ffn_size = 4 * m->hidden_size;
  if (m->head_dim != 0) return TRI_OK;
  if (m->hidden_size % m->num_heads != 0) {
    int64_t size = m->hidden_size / m->num_heads;
    return tri_fail(TRI_BAD_CONFIG,
                    "`num_heads` %" PRId64 " does not divide hidden_size %" PRId64 ": num_heads %" PRId64
                    " x head_dim %" PRId64 " = %" PRId64 "; try num_heads %" PRId64,
                    m->num_heads, m->hidden_size, m->num_heads, size, m->num_heads * size,
                    nearest_divisor(m->hidden_size, m->num_heads));
  }
  m->head_dim = m->hidden_size / m->num_heads;
  return TRI_OK;
}

static tri_status check_gpt2(const tri_model *m) {
  if (m->num_kv_heads != m->num_heads) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`num_kv_heads` %" PRId64 " is not num_heads %" PRId64
                    ", and gpt2 has no grouped-query attention; leave it out or take `family: llama`",
                    m->num_kv_heads, m->num_heads);
  }
  if (m->num_heads * m->head_dim != m->hidden_size) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`head_dim` does not fit: num_heads %" PRId64 " x head_dim %" PRId64 " = %" PRId64
                    ", not hidden_size %" PRId64 "; leave it out or choose numbers whose product fits",
                    m->num_heads, m->head_dim, m->num_heads * m->head_dim, m->hidden_size);
  }
  if (m->rope_scaling.factor != 1) {
    return tri_fail(TRI_BAD_CONFIG, "`rope_scaling` is for llama; gpt2 learns its positions");
  }
  if (m->rope_theta != 10000) return tri_fail(TRI_BAD_CONFIG, "`rope_theta` is for llama; gpt2 learns its positions");
  return TRI_OK;
}

static tri_status check_llama(const tri_model *m) {
  if (m->num_heads % m->num_kv_heads != 0) {
    return tri_fail(TRI_BAD_CONFIG, "`num_kv_heads` %" PRId64 " does not divide num_heads %" PRId64 "; try %" PRId64,
                    m->num_kv_heads, m->num_heads, nearest_divisor(m->num_heads, m->num_kv_heads));
  }
  if (m->head_dim % 2 != 0) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`head_dim` %" PRId64
                    " (hidden_size / num_heads unless given) is odd, and rotary positions turn "
                    "pairs; choose an even one",
                    m->head_dim);
  }
  if (m->num_heads * m->head_dim > 1 << 20) {
    return tri_fail(TRI_BAD_CONFIG, "`head_dim` is too large: num_heads %" PRId64 " x head_dim %" PRId64 " is above %d",
                    m->num_heads, m->head_dim, 1 << 20);
  }
  if (m->dropout != 0) return tri_fail(TRI_BAD_CONFIG, "`dropout` is for gpt2; llama has none, so leave it out");
  if (m->activation != TRI_ACTIVATION_GELU_TANH) {
    return tri_fail(TRI_BAD_CONFIG, "`activation` is for gpt2; llama has SwiGLU, so leave it out");
  }
  const tri_rope_scaling *scaling = &m->rope_scaling;
  if (scaling->factor != 1 && scaling->high_freq_factor <= scaling->low_freq_factor) {
    return tri_fail(TRI_BAD_CONFIG, "`rope_scaling.high_freq_factor` %g must be above low_freq_factor %g",
                    scaling->high_freq_factor, scaling->low_freq_factor);
  }
  return TRI_OK;
}

static tri_status check_family(const tri_model *m) {
  switch (m->family) {
    case TRI_FAMILY_GPT2: return check_gpt2(m);
    case TRI_FAMILY_LLAMA: return check_llama(m);
  }
  return tri_fail(TRI_INTERNAL, "a model of family %d, which nobody checks", (int)m->family);
}

tri_status tri_model_assume_sequence(const tri_model *model, tri_status code, const char *how, int64_t *out) {
  if (model->max_sequence <= TRI_LONGEST_ASSUMED_SEQUENCE) {
    *out = model->max_sequence;
    return TRI_OK;
  }
  return tri_fail(code, "how long are the sequences? %s takes up to %" PRId64 " tokens, which is not assumed; %s",
                  model->name, model->max_sequence, how);
}

tri_status tri_model_check_numbers(const tri_model *model, tri_dtype activations, const char *prefix) {
  const struct {
    const char *key;
    double value;
  } numbers[] = {{"norm_eps", model->norm_eps},
                 {"init_std", model->init_std},
                 {"dropout", model->dropout},
                 {"rope_theta", model->rope_theta},
                 {"rope_scaling.factor", model->rope_scaling.factor},
                 {"rope_scaling.low_freq_factor", model->rope_scaling.low_freq_factor},
                 {"rope_scaling.high_freq_factor", model->rope_scaling.high_freq_factor}};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    char key[64];
    snprintf(key, sizeof key, "%s%s", prefix, numbers[i].key);
    TRI_TRY(tri_dtype_check_number(activations, key, numbers[i].value));
  }
  return TRI_OK;
}

tri_status tri_model_complete(tri_model *model) {
  tri_model m = *model;
  TRI_TRY(fill_in(&m));
  TRI_TRY(tri_config_check(&tri_model_table, &m));
  TRI_TRY(check_family(&m));
  *model = m;
  return TRI_OK;
}
