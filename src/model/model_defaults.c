#include "model/model_defaults.h"

#include "model/experts.h"
#include "model/family.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static void fill_in_scaling(tri_rope_scaling *scaling) {
  const tri_rope_scaling none = tri_rope_scaling_none();
  if (scaling->factor == 0) scaling->factor = none.factor;
  if (scaling->low_freq_factor == 0) scaling->low_freq_factor = none.low_freq_factor;
  if (scaling->high_freq_factor == 0) scaling->high_freq_factor = none.high_freq_factor;
  if (scaling->beta_fast == 0) scaling->beta_fast = none.beta_fast;
  if (scaling->beta_slow == 0) scaling->beta_slow = none.beta_slow;
  if (scaling->original_max_sequence == 0) scaling->original_max_sequence = none.original_max_sequence;
}

static double first_given(double given, double usual, double none) {
  if (given != 0) return given;
  return usual != 0 ? usual : none;
}

static void fill_in_of_family(const tri_family_table *family, tri_model *m) {
  const double root = family->blocks.scales_embedding ? sqrt((double)m->hidden_size) : 1;
  if (family->blocks.biases == TRI_BIASES_ALL) m->attention_bias = true;
  m->embedding_scale = first_given(m->embedding_scale, root, 1);
  m->rotary_fraction = first_given(m->rotary_fraction, family->usual.rotary_fraction, 1);
}

tri_status tri_model_fill_in(tri_model *m) {
  const tri_family_table *family = tri_family_of(m);
  if (m->norm_eps == 0) m->norm_eps = 1e-5;
  if (m->init_std == 0) m->init_std = 0.02;
  if (m->rope_theta == 0) m->rope_theta = 10000;
  if (m->residual_scale == 0) m->residual_scale = 1;
  if (m->logit_divisor == 0) m->logit_divisor = 1;
  fill_in_scaling(&m->rope_scaling);
  if (m->name[0] == '\0') snprintf(m->name, sizeof m->name, "inline");
  if (m->window_layers[0] == '\0') snprintf(m->window_layers, sizeof m->window_layers, "all");
  if (m->rope_layers[0] == '\0') snprintf(m->rope_layers, sizeof m->rope_layers, "all");
  if (m->num_kv_heads == 0) m->num_kv_heads = m->num_heads;
  tri_model_fill_in_experts(m);
  if (family == NULL) return TRI_OK; /* a later check reports the unknown family */
  fill_in_of_family(family, m);
  /* The limits of the table; beyond them the arithmetic below could overflow. */
  if (m->hidden_size < 1 || m->hidden_size > 1 << 20 || m->num_heads < 1 || m->num_heads > 1 << 16) return TRI_OK;
  if (m->ffn_size == 0 && family->asks_for_ffn_size) {
    /* Two thirds of 4 * hidden_size, because gated parts have three matrices instead of two, in steps of 256. */
    return tri_fail(TRI_BAD_CONFIG, "`ffn_size` is missing; a %s model needs it, for example `ffn_size: %" PRId64 "`",
                    tri_family_name(m->family), (m->hidden_size * 8 / 3 + 255) / 256 * 256);
  }
  if (m->ffn_size == 0) m->ffn_size = 4 * m->hidden_size;
  if (m->head_dim != 0) return TRI_OK;
  if (m->hidden_size % m->num_heads != 0) {
    int64_t size = m->hidden_size / m->num_heads;
    return tri_fail(TRI_BAD_CONFIG,
                    "`num_heads` %" PRId64 " does not divide hidden_size %" PRId64 ": num_heads %" PRId64
                    " x head_dim %" PRId64 " = %" PRId64 "; try num_heads %" PRId64,
                    m->num_heads, m->hidden_size, m->num_heads, size, m->num_heads * size,
                    tri_nearest_divisor(m->hidden_size, m->num_heads));
  }
  m->head_dim = m->hidden_size / m->num_heads;
  return TRI_OK;
}

void tri_model_plain(const tri_model *model, tri_model *out) {
  *out = tri_family_of(model)->usual;
  out->family = model->family;
  out->rope_scaling = tri_rope_scaling_none();
  out->hidden_size = model->hidden_size;
  out->num_heads = model->num_heads;
  out->head_dim = model->head_dim;
  out->ffn_size = model->ffn_size;
  (void)tri_model_fill_in(out); /* cannot fail: the needed values are given */
}
