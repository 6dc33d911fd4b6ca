/* Checks the numbers that all transformer blocks share: rotary embeddings, heads and windows. */
#include "model/blocks_rows.h"
#include "model/window.h"

#include <inttypes.h>
#include <string.h>

static tri_status check_factors(const tri_model *m, const char *key, const double factors[TRI_ROPE_MOST_PAIRS]) {
  const int64_t pairs = tri_model_rotary_dim(m) / 2, count = tri_rope_count(factors);
  if (pairs > TRI_ROPE_MOST_PAIRS) {
    return tri_fail(
        TRI_BAD_CONFIG,
        "`rope_scaling.type` longrope supports up to %d rotated components of a head, and this model rotates %" PRId64
        "",
        2 * TRI_ROPE_MOST_PAIRS, 2 * pairs);
  }
  if (count == pairs) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`rope_scaling.%s` has %" PRId64 " numbers and needs %" PRId64 ", one for each pair of the %" PRId64
                  " components of a head that rotate",
                  key, count, pairs, 2 * pairs);
}

static tri_status check_longrope(const tri_model *m) {
  TRI_TRY(check_factors(m, "short_factor", m->rope_scaling.short_factor));
  TRI_TRY(check_factors(m, "long_factor", m->rope_scaling.long_factor));
  if (m->rope_scaling.original_max_sequence > 1) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`rope_scaling.original_max_sequence` must be above 1 for rope_scaling.type longrope");
}

/* Refuses numbers for which the formulas of a scaling are undefined. */
static tri_status check_scaling(const tri_model *m) {
  const tri_rope_scaling *scaling = &m->rope_scaling;
  switch (scaling->type) {
    case TRI_ROPE_LINEAR: return TRI_OK;
    case TRI_ROPE_LLAMA3:
      if (scaling->factor == 1 || scaling->high_freq_factor > scaling->low_freq_factor) return TRI_OK;
      return tri_fail(TRI_BAD_CONFIG, "`rope_scaling.high_freq_factor` %g must be above low_freq_factor %g",
                      scaling->high_freq_factor, scaling->low_freq_factor);
    case TRI_ROPE_DYNAMIC:
      if (tri_model_rotary_dim(m) > 2) return TRI_OK;
      return tri_fail(TRI_BAD_CONFIG,
                      "`rope_scaling.type` dynamic needs heads with more than 2 rotated components; use linear");
    case TRI_ROPE_LONG: return check_longrope(m);
    case TRI_ROPE_YARN: break;
  }
  if (scaling->beta_fast < scaling->beta_slow) {
    return tri_fail(TRI_BAD_CONFIG, "`rope_scaling.beta_fast` %g must not be below beta_slow %g", scaling->beta_fast,
                    scaling->beta_slow);
  }
  if (m->rope_theta > 1) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG, "`rope_theta` %g must be above 1 for rope_scaling.type yarn", m->rope_theta);
}

static tri_status check_turning(const tri_model *m) {
  const int64_t rotated = tri_model_rotary_dim(m);
  if (m->rotary_fraction == 1 && m->head_dim % 2 != 0) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`head_dim` %" PRId64
                    " (hidden_size / num_heads unless given) is odd, and rotary positions rotate "
                    "pairs; choose an even one",
                    m->head_dim);
  }
  if (rotated % 2 != 0 || rotated == 0) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`rotary_fraction` %g of head_dim %" PRId64 " is %" PRId64
                    " components, and rotary positions rotate pairs; choose a fraction that gives an even number",
                    m->rotary_fraction, m->head_dim, rotated);
  }
  return check_scaling(m);
}

static tri_status check_heads(const tri_model *m) {
  if (m->num_heads % m->num_kv_heads != 0) {
    return tri_fail(TRI_BAD_CONFIG, "`num_kv_heads` %" PRId64 " does not divide num_heads %" PRId64 "; try %" PRId64,
                    m->num_kv_heads, m->num_heads, tri_nearest_divisor(m->num_heads, m->num_kv_heads));
  }
  if (m->num_heads * m->head_dim > 1 << 20) {
    return tri_fail(TRI_BAD_CONFIG, "`head_dim` is too large: num_heads %" PRId64 " x head_dim %" PRId64 " is above %d",
                    m->num_heads, m->head_dim, 1 << 20);
  }
  return TRI_OK;
}

/* Refuses windows that the family's config.json cannot express, and `local_rope_theta` without a window. */
static tri_status check_windows(const tri_model *m) {
  if (m->window == 0) {
    if (m->local_rope_theta == 0) return TRI_OK;
    return tri_fail(TRI_BAD_CONFIG,
                    "`local_rope_theta` is for layers with a sliding window, and `window` is not set; set it");
  }
  switch (tri_blocks_of(m)->windows) {
    case TRI_WINDOWS_ANY: return TRI_OK;
    case TRI_WINDOWS_ALL: break;
  }
  if (strcmp(m->window_layers, "all") == 0) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG, "`window_layers` is `%.60s`; in %s all layers have the window; leave it out",
                  m->window_layers, tri_family_name(m->family));
}

tri_status tri_blocks_check(const tri_model *m) {
  TRI_TRY(check_heads(m));
  TRI_TRY(check_windows(m));
  return tri_blocks_of(m)->positions != NULL ? TRI_OK : check_turning(m);
}
