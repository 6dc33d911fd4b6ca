/* Plain frequencies are theta^(-2d/D) for pair d of a head of D components (Su et al. 2021). Each kind of scaling
 * follows transformers (modeling_rope_utils), so that a model gives the same results in both.
 *
 * Llama 3.1: wavelengths beyond original / low_freq_factor are multiplied by `factor`, those below original /
 * high_freq_factor are unchanged, and between them the two are interpolated linearly in the frequency.
 *
 * Linear (Chen et al. 2023, "position interpolation"): every frequency is divided by `factor`.
 *
 * Dynamic ("NTK-aware", bloc97 and emozilla 2023): theta grows such that the slowest pair rotates as much in `length`
 * tokens as it would with all positions divided by factor length / original - (factor - 1), and the fastest pair is
 * unchanged. Up to the original length nothing changes.
 *
 * YaRN (Peng et al. 2023, section 3.2): a pair that rotates beta_fast times or more within the original length is
 * unchanged, one that rotates beta_slow times or fewer is divided by `factor`, and between them the two are
 * interpolated linearly in the number of the pair (the paper's "ramp", which transformers computes over pairs, not over
 * rotations). Attention's scores are scaled by the square of 0.1 ln(factor) + 1 (section 3.4), here by scaling queries
 * and keys as they are rotated.
 *
 * LongRoPE (Ding et al. 2024, as in Phi-3): every frequency is divided by its own number, found by a search, from one
 * list for sequences up to the original length and from another beyond. Queries and keys are scaled by sqrt(1 +
 * ln(factor) / ln(original)). */
#include "ops/rope_scaling.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

tri_rope_scaling tri_rope_scaling_none(void) {
  return (tri_rope_scaling){.type = TRI_ROPE_LLAMA3,
                            .factor = 1,
                            .low_freq_factor = 1,
                            .high_freq_factor = 4,
                            .original_max_sequence = 8192,
                            .beta_fast = 32,
                            .beta_slow = 1,
                            .truncate = true};
}

bool tri_rope_is_plain(const tri_rope_scaling *scaling) {
  switch (scaling->type) {
    case TRI_ROPE_LLAMA3:
    case TRI_ROPE_LINEAR: return scaling->factor == 1.0;
    case TRI_ROPE_DYNAMIC:
    case TRI_ROPE_YARN:
    case TRI_ROPE_LONG: return false;
  }
  return false;
}

static bool same_factors(const double a[TRI_ROPE_MOST_PAIRS], const double b[TRI_ROPE_MOST_PAIRS]) {
  int64_t pair = 0;
  while (pair < TRI_ROPE_MOST_PAIRS && a[pair] == b[pair]) pair++;
  return pair == TRI_ROPE_MOST_PAIRS;
}

bool tri_rope_scalings_equal(const tri_rope_scaling *a, const tri_rope_scaling *b) {
  return a->type == b->type && a->factor == b->factor && a->low_freq_factor == b->low_freq_factor &&
         a->high_freq_factor == b->high_freq_factor && a->original_max_sequence == b->original_max_sequence &&
         a->attention_factor == b->attention_factor && a->mscale == b->mscale &&
         a->mscale_all_dim == b->mscale_all_dim && a->beta_fast == b->beta_fast && a->beta_slow == b->beta_slow &&
         a->truncate == b->truncate && same_factors(a->short_factor, b->short_factor) &&
         same_factors(a->long_factor, b->long_factor);
}

bool tri_rope_can_share(const tri_rope_scaling *scaling, int64_t prompt, int64_t other) {
  const int64_t longer = prompt > other ? prompt : other;
  return scaling->type != TRI_ROPE_DYNAMIC || prompt == other || longer <= scaling->original_max_sequence;
}

int64_t tri_rope_count(const double factors[TRI_ROPE_MOST_PAIRS]) {
  int64_t count = 0;
  while (count < TRI_ROPE_MOST_PAIRS && factors[count] != 0) count++;
  return count;
}

static double llama3_frequency(const tri_rope_scaling *s, double plain) {
  if (s->factor == 1.0) return plain;
  double wavelength = 2.0 * pi / plain;
  double original = (double)s->original_max_sequence;
  if (wavelength < original / s->high_freq_factor) return plain;
  if (wavelength > original / s->low_freq_factor) return plain / s->factor;
  double mix = (original / wavelength - s->low_freq_factor) / (s->high_freq_factor - s->low_freq_factor);
  return (1.0 - mix) * plain / s->factor + mix * plain;
}

static double dynamic_theta(const tri_rope_scaling *s, double theta, double width, int64_t length) {
  double original = (double)s->original_max_sequence;
  if (length <= s->original_max_sequence) return theta;
  return theta * pow(s->factor * (double)length / original - (s->factor - 1.0), width / (width - 2.0));
}

/* Returns the pair, as a real number, that rotates `times` times within the original length. */
static double pair_that_turns(const tri_rope_scaling *s, double theta, double width, double times) {
  return width * log((double)s->original_max_sequence / (times * 2.0 * pi)) / (2.0 * log(theta));
}

static double yarn_frequency(const tri_rope_scaling *s, double theta, double width, int64_t pair, double plain) {
  double low = pair_that_turns(s, theta, width, s->beta_fast);
  double high = pair_that_turns(s, theta, width, s->beta_slow);
  if (s->truncate) {
    low = floor(low);
    high = ceil(high);
  }
  low = fmax(low, 0.0);
  high = fmin(high, width - 1.0); /* as in transformers, this bound is in components, not in pairs */
  if (low == high) high += 0.001;
  double stretched = fmin(fmax(((double)pair - low) / (high - low), 0.0), 1.0);
  return plain / s->factor * stretched + plain * (1.0 - stretched);
}

double tri_rope_frequency(const tri_rope_scaling *scaling, double theta, int64_t head_dim, int64_t length,
                          int64_t pair) {
  double width = (double)head_dim, power = -2.0 * (double)pair / width, plain = pow(theta, power);
  switch (scaling->type) {
    case TRI_ROPE_LLAMA3: return llama3_frequency(scaling, plain);
    case TRI_ROPE_LINEAR: return plain / scaling->factor;
    case TRI_ROPE_DYNAMIC: return pow(dynamic_theta(scaling, theta, width, length), power);
    case TRI_ROPE_YARN: return yarn_frequency(scaling, theta, width, pair, plain);
    case TRI_ROPE_LONG:
      return plain / (length > scaling->original_max_sequence ? scaling->long_factor : scaling->short_factor)[pair];
  }
  return plain;
}

static double long_scale(const tri_rope_scaling *s) {
  return s->factor <= 1.0 ? 1.0 : sqrt(1.0 + log(s->factor) / log((double)s->original_max_sequence));
}

static double yarn_scale(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * log(factor) + 1.0;
}

double tri_rope_attention_factor(const tri_rope_scaling *s) {
  switch (s->type) {
    case TRI_ROPE_LLAMA3:
    case TRI_ROPE_LINEAR:
    case TRI_ROPE_DYNAMIC: return 1.0;
    case TRI_ROPE_LONG: return s->attention_factor > 0 ? s->attention_factor : long_scale(s);
    case TRI_ROPE_YARN: break;
  }
  if (s->attention_factor > 0) return s->attention_factor;
  if (s->mscale == 0 || s->mscale_all_dim == 0) return yarn_scale(s->factor, 1.0);
  return yarn_scale(s->factor, s->mscale) / yarn_scale(s->factor, s->mscale_all_dim);
}
