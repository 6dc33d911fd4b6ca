/* How rotary positions are stretched beyond the lengths that a model first saw. */
#ifndef TRI_OPS_ROPE_SCALING_H
#define TRI_OPS_ROPE_SCALING_H

#include <stdbool.h>
#include <stdint.h>

typedef enum tri_rope_type {
  TRI_ROPE_LLAMA3,  /* Llama 3.1: slow frequencies by `factor`, fast ones not                                */
  TRI_ROPE_LINEAR,  /* all by `factor`: positions are divided by it                                          */
  TRI_ROPE_DYNAMIC, /* "dynamic NTK": the base grows with the length of the sequence beyond the original one */
  TRI_ROPE_YARN,    /* YaRN: slow frequencies by `factor`, fast ones not; and what attention sees is scaled  */
  TRI_ROPE_LONG,    /* LongRoPE: each frequency by a number of its own, of two lists; and scaled as with YaRN */
} tri_rope_type;

/* By the names that transformers has for them, which are ours. */
#define TRI_ROPE_TYPES(X)                                                                                              \
  X("llama3", TRI_ROPE_LLAMA3)                                                                                         \
  X("linear", TRI_ROPE_LINEAR) X("dynamic", TRI_ROPE_DYNAMIC) X("yarn", TRI_ROPE_YARN) X("longrope", TRI_ROPE_LONG)

enum { TRI_ROPE_MOST_PAIRS = 128 }; /* that have a number of their own */

/* Members that a type does not name below mean nothing to it. */
typedef struct tri_rope_scaling {
  tri_rope_type type;
  double factor;
  double low_freq_factor, high_freq_factor; /* llama3 */
  int64_t original_max_sequence;            /* llama3, dynamic, yarn, longrope */
  /* longrope: what each pair's frequency is divided by in sequences up to original_max_sequence and beyond; 0 ends them
   */
  double short_factor[TRI_ROPE_MOST_PAIRS], long_factor[TRI_ROPE_MOST_PAIRS];
  double
      attention_factor; /* yarn, longrope: of queries and keys; 0: what follows from the factor (yarn: and mscales) */
  /* yarn */
  double mscale, mscale_all_dim; /* 0: not given */
  double beta_fast, beta_slow;   /* rotations within the original length from which on / up to which ... */
  bool truncate;                 /* ... counted to whole pairs */
} tri_rope_scaling;

/* That of a model of which nothing is said. */
tri_rope_scaling tri_rope_scaling_none(void);

/* Whether it changes nothing: llama3 and linear with factor 1. */
bool tri_rope_is_plain(const tri_rope_scaling *scaling);
bool tri_rope_scalings_equal(const tri_rope_scaling *a, const tri_rope_scaling *b);

/* Whether texts behind prompts of that many tokens can be written side by side: `dynamic` positions beyond the original
 * length go by the length of the prompt. */
bool tri_rope_can_share(const tri_rope_scaling *scaling, int64_t prompt, int64_t other);

/* How many numbers a list of longrope has. */
int64_t tri_rope_count(const double factors[TRI_ROPE_MOST_PAIRS]);

/* By how much a pair of components rotates from one position to the next, in a sequence of `length` tokens, which
 * matters to `dynamic` and `longrope`. Pairs are 0 .. head_dim / 2 - 1. */
double tri_rope_frequency(const tri_rope_scaling *scaling, double theta, int64_t head_dim, int64_t length,
                          int64_t pair);

/* What cosines and sines are multiplied by, thus scores by its square. */
double tri_rope_attention_factor(const tri_rope_scaling *scaling);

#endif
