/* Scaling of rotary embeddings, for sequences that are longer than the sequences of a model's first training. */
#ifndef TRI_OPS_ROPE_SCALING_H
#define TRI_OPS_ROPE_SCALING_H

#include <stdbool.h>
#include <stdint.h>

typedef enum tri_rope_type {
  TRI_ROPE_LLAMA3,  /* Llama 3.1: low frequencies are divided by `factor`, high ones are not */
  TRI_ROPE_LINEAR,  /* all frequencies, and so positions, are divided by `factor` */
  TRI_ROPE_DYNAMIC, /* "dynamic NTK": the base grows with the length of the sequence beyond the original one */
  TRI_ROPE_YARN,    /* YaRN: as llama3 with other bounds; queries and keys are also multiplied by a factor */
  TRI_ROPE_LONG, /* LongRoPE: each frequency is divided by its own number, from one of two lists; queries and keys are
                    scaled, too */
} tri_rope_type;

/* The types' names in transformers, which the run file uses too. */
#define TRI_ROPE_TYPES(X)                                                                                              \
  X("llama3", TRI_ROPE_LLAMA3)                                                                                         \
  X("linear", TRI_ROPE_LINEAR) X("dynamic", TRI_ROPE_DYNAMIC) X("yarn", TRI_ROPE_YARN) X("longrope", TRI_ROPE_LONG)

enum { TRI_ROPE_MOST_PAIRS = 128 }; /* maximum length of a list of longrope */

/* Comments name the types that use a member; other types ignore it. */
typedef struct tri_rope_scaling {
  tri_rope_type type;
  double factor;
  double low_freq_factor, high_freq_factor; /* llama3 */
  int64_t original_max_sequence;            /* llama3, dynamic, yarn, longrope */
  /* longrope: divisors of each pair's frequency, in sequences of up to original_max_sequence tokens and in longer ones;
   * 0 ends a list */
  double short_factor[TRI_ROPE_MOST_PAIRS], long_factor[TRI_ROPE_MOST_PAIRS];
  double attention_factor; /* yarn, longrope: factor of queries and keys; 0: it is computed from `factor`, for yarn also
                              from the mscales */
  double mscale,
      mscale_all_dim;          /* yarn: attention_factor 0 stands for (0.1 mscale ln(factor) + 1) / (0.1 mscale_all_dim
                                  ln(factor) + 1) or, if one of these two is 0 (not given), for 0.1 ln(factor) + 1 */
  double beta_fast, beta_slow; /* yarn: frequencies with at least beta_fast rotations within the original length are not
                                  scaled, frequencies with at most beta_slow rotations are divided by `factor` */
  bool truncate;               /* yarn: whether the pairs at beta_fast and beta_slow are rounded to whole numbers */
} tri_rope_scaling;

/* Returns the scaling of a model whose config has none. */
tri_rope_scaling tri_rope_scaling_none(void);

/* Returns whether the scaling has no effect: llama3 and linear with factor 1. */
bool tri_rope_is_plain(const tri_rope_scaling *scaling);
bool tri_rope_scalings_equal(const tri_rope_scaling *a, const tri_rope_scaling *b);

/* Returns whether generation after prompts of `prompt` and of `other` tokens can share one batch, and so one table: the
 * frequencies of `dynamic` depend on the length of a prompt above original_max_sequence. */
bool tri_rope_can_share(const tri_rope_scaling *scaling, int64_t prompt, int64_t other);

/* Returns the number of entries of a list of longrope. */
int64_t tri_rope_count(const double factors[TRI_ROPE_MOST_PAIRS]);

/* Returns the angle by which pair `pair` of components, 0 .. head_dim / 2 - 1, rotates from one position to the next,
 * in a sequence of `length` tokens (used by `dynamic` and `longrope`). */
double tri_rope_frequency(const tri_rope_scaling *scaling, double theta, int64_t head_dim, int64_t length,
                          int64_t pair);

/* Returns the factor of cosines and sines; scores are multiplied by its square. */
double tri_rope_attention_factor(const tri_rope_scaling *scaling);

#endif
