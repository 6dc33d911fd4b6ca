/* The trained parameters of a model: all; all except those that patterns name (`freeze`); or pairs of low-rank factors
 * of frozen matrices (LoRA, Hu et al. 2021: y = x W^T + alpha / rank (x A^T) B^T), with or without magnitudes (DoRA,
 * Liu et al. 2024: ops/magnitude.c), and parameters that patterns name (adapter.train).
 *
 * A frozen parameter has no gradient and no optimizer state, is only sharded by ZeRO 3, and is stored in the type that
 * GEMMs read, or, with an adapter, in 4 bits (QLoRA, Dettmers et al. 2023). Factors are ordinary parameters, and follow
 * their matrices in the table. */
#ifndef TRI_MODEL_TRAINABLE_H
#define TRI_MODEL_TRAINABLE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tri_model tri_model;
typedef struct tri_parameter tri_parameter;
typedef struct tri_parameter_table tri_parameter_table;

/* The target for all matrices of layers except experts. */
#define TRI_TRAINABLE_ALL_LINEAR "all-linear"

/* PEFT's suffix of the name of a module's magnitudes. */
#define TRI_MAGNITUDE_NAME "lora_magnitude_vector"

enum { TRI_TRAINABLE_WORDS = 128, TRI_TRAINABLE_WORD_BYTES = 96 };

/* A pattern of tensors' names on disk, with *, ? and sets ([0-3]); or a target: the end of a module's name, "q_proj",
 * or a pattern of it, "*_proj". */
typedef struct tri_trainable_word {
  char text[TRI_TRAINABLE_WORD_BYTES];
} tri_trainable_word;

typedef struct tri_trainable_words {
  tri_trainable_word words[TRI_TRAINABLE_WORDS];
  int64_t count;
} tri_trainable_words;

/* Storage of frozen matrices of layers with an adapter. */
#define TRI_QUANTISES(X)                                                                                               \
  X("none", TRI_QUANTISE_NONE)                                                                                         \
  X("nf4", TRI_QUANTISE_NF4) /* device/nf4.h */
typedef enum tri_quantise { TRI_QUANTISE_NONE, TRI_QUANTISE_NF4 } tri_quantise;

/* Storage of the matrices of a model that only generates or is evaluated: as other frozen matrices, or in blocks
 * (device/block_weights.h) with llama.cpp's types: Q8_0, or Q4_0 with the output projection in Q8_0. A matrix whose
 * number of inputs is not a multiple of 32 is then in bf16. */
#define TRI_BLOCK_STORAGES(X)                                                                                          \
  X("none", TRI_IN_BLOCKS_NONE)                                                                                        \
  X("q8_0", TRI_IN_BLOCKS_Q8_0)                                                                                        \
  X("q4_0", TRI_IN_BLOCKS_Q4_0)
typedef enum tri_block_storage { TRI_IN_BLOCKS_NONE, TRI_IN_BLOCKS_Q8_0, TRI_IN_BLOCKS_Q4_0 } tri_block_storage;

/* Scale of the factors' product: alpha / rank, or alpha / sqrt(rank) (rsLoRA, Kalajdzievski 2023). */
#define TRI_SCALINGS(X)                                                                                                \
  X("lora", TRI_SCALING_LORA)                                                                                          \
  X("rslora", TRI_SCALING_RSLORA)
typedef enum tri_scaling { TRI_SCALING_LORA, TRI_SCALING_RSLORA } tri_scaling;

/* Initial values of A; B is zero. A table of tokens has zeros in A and normal values in B instead. With pissa (PiSSA,
 * Meng et al. 2024) A and B are the first singular vectors of their matrix W, each times the root of its singular value
 * (checkpoint/principal.h), and W is not changed: the initial factors A0 and B0 are frozen parameters, and y = x W^T +
 * scale (x A^T B^T - x A0^T B0^T). PEFT subtracts scale B0 A0 from W instead, which gives the same function. So the
 * base keeps its bits, every layout splits A0 and B0 like factors, and A, B, A0 and -B0 are LoRA of twice the rank over
 * the base. */
#define TRI_ADAPTER_INITS(X)                                                                                           \
  X("kaiming", TRI_ADAPTER_KAIMING)   /* uniform, as in torch.nn.Linear */                                             \
  X("gaussian", TRI_ADAPTER_GAUSSIAN) /* normal, of deviation 1 / rank */                                              \
  X("pissa", TRI_ADAPTER_PISSA)       /* the first singular vectors of the matrix */
typedef enum tri_adapter_init { TRI_ADAPTER_KAIMING, TRI_ADAPTER_GAUSSIAN, TRI_ADAPTER_PISSA } tri_adapter_init;

/* A different value for some targets. `pattern` is PEFT's: a Python regular expression that must match the end of a
 * module's name, from a dot on. The first matching pattern counts. */
enum { TRI_ADAPTER_PATTERNS = 64 };
typedef struct tri_adapter_pattern {
  char pattern[TRI_TRAINABLE_WORD_BYTES];
  int64_t rank; /* value in rank_pattern */
  double alpha; /* value in alpha_pattern */
} tri_adapter_pattern;

typedef struct tri_adapter_patterns {
  tri_adapter_pattern entries[TRI_ADAPTER_PATTERNS];
  int64_t count;
} tri_adapter_patterns;

/* An adapter. In a tied model, factors of the embedding or of the output projection apply only to that matrix, so the
 * resulting model is not tied. With ensure_weight_tying they apply to both: B of the output projection is A of the
 * embedding, transposed, and A of the output projection is B of the embedding (parameters.h: tied_to). */
typedef struct tri_adapter {
  int64_t rank;             /* 0: no adapter */
  double alpha;             /* above 0 */
  tri_scaling scaling;      /* scale of the factors' product, from alpha and rank */
  double dropout;           /* probability for the factors' input */
  tri_adapter_init init;    /* for factors that are not read from a folder */
  bool magnitude;           /* whether targets have a trained magnitude for each output (DoRA), initially the norm of
                               the output's weights */
  tri_quantise quantise;    /* storage of frozen matrices of layers */
  bool ensure_weight_tying; /* tied model: whether embedding and output projection share factors */
  tri_adapter_patterns rank_pattern, alpha_pattern;
  tri_trainable_words targets; /* modules with factors, such as "q_proj"; empty or "all-linear": all matrices of layers
                                  except experts, which may be added (model/trainable_experts.h) */
  tri_trainable_words train;   /* patterns of other parameters that are trained */
} tri_adapter;

typedef struct tri_trainable {
  tri_trainable_words freeze; /* patterns of frozen parameters; none with an adapter */
  tri_adapter adapter;
  tri_block_storage blocks; /* storage of frozen matrices; not for training */
} tri_trainable;

/* Returns whether all parameters are trained, and there is no adapter. */
bool tri_trainable_is_full(const tri_trainable *tuning);
bool tri_trainable_has_adapter(const tri_trainable *tuning);
/* Freezes all parameters, and drops the adapter's settings, but keeps `blocks`. */
void tri_trainable_freeze_all(tri_trainable *tuning);
/* Returns whether frozen matrices of layers are in 4 bits. */
bool tri_trainable_is_quantised(const tri_trainable *tuning);
/* Returns whether factors are initially parts of their matrices, and the initial values are subtracted (PiSSA). */
bool tri_adapter_is_principal(const tri_adapter *adapter);
/* Returns whether a pattern or target may distinguish layers by their numbers, so that layers may train differently. */
bool tri_trainable_distinguishes_layers(const tri_trainable *tuning);

enum { TRI_TRAINABLE_TEXT_BYTES = TRI_TRAINABLE_WORDS * (TRI_TRAINABLE_WORD_BYTES + 2) };
/* Writes the words as "a, b"; truncated if `out` is too short. */
void tri_trainable_describe(const tri_trainable_words *words, char *out, size_t out_bytes);

/* Settings of the factors of one module. */
typedef struct tri_adapter_pair {
  int64_t rank;
  double alpha, scale; /* scale: scale of the factors' product */
  int64_t rank_from;   /* index of the rank's pattern; -1: adapter.rank */
} tri_adapter_pair;
/* Returns the settings of a module. `name`: name of its matrix, "model.layers.0.self_attn.q_proj.weight". */
tri_adapter_pair tri_adapter_pair_of(const tri_adapter *adapter, const char *name);

/* Returns whether a parameter can be stored in 4 bits: a matrix of a layer's attention or feed-forward part, or of
 * experts. */
bool tri_trainable_can_quantise(const tri_parameter *entry);

/* Returns whether every forward in bf16 reads the values of a trained parameter as bf16. That is so for matrices that
 * only GEMMs read, except factors. */
bool tri_trainable_is_read_narrow(const tri_parameter *entry);

/* Marks frozen parameters, and inserts the factors into the table, which must not have been laid out yet. */
tri_status tri_trainable_apply(const tri_model *model, tri_parameter_table *table);

/* Sets *out to the lowest layer of a model with a trained parameter (tri_parameter.layer: -1 for the embeddings);
 * INT64_MAX if all parameters are frozen. */
tri_status tri_trainable_lowest_layer(const tri_model *model, int64_t *out);
/* Returns the lowest layer of a table with a trained parameter; INT64_MAX if all parameters are frozen. */
int64_t tri_trainable_lowest_of(const tri_parameter_table *table);

/* Checks `tuning` of a model, which must be complete (tri_model_complete): every pattern and target must match, the
 * rank must not be above a target's shape, and something must be trained. Messages begin with the run file's key. */
tri_status tri_trainable_check(const tri_model *model);

#endif
