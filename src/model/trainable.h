/* What of a model is trained: all of it; all but what patterns name; or pairs of low-rank factors beside matrices that
 * stay as they are (LoRA, Hu et al. 2021: y = x W^T + alpha / rank (x A^T) B^T), and whatever patterns name beside
 * them.
 *
 * What is not trained has no gradient and no optimizer state, is shared out by no ZeRO, and is kept in the type that
 * products read it in, or, beneath an adapter, in 4 bits (QLoRA, Dettmers et al. 2023). Factors are parameters like
 * others, and lie behind their matrices. */
#ifndef TRI_MODEL_TRAINABLE_H
#define TRI_MODEL_TRAINABLE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tri_model tri_model;
typedef struct tri_parameter tri_parameter;
typedef struct tri_parameter_table tri_parameter_table;

/* The target that stands for all matrices of layers that every token meets. */
#define TRI_TRAINABLE_ALL_LINEAR "all-linear"

enum { TRI_TRAINABLE_WORDS = 16, TRI_TRAINABLE_WORD_BYTES = 96 };

/* A pattern of tensors' names on disk, with * and ?; or a target: the last part of a module's name. */
typedef struct tri_trainable_word {
  char text[TRI_TRAINABLE_WORD_BYTES];
} tri_trainable_word;

typedef struct tri_trainable_words {
  tri_trainable_word words[TRI_TRAINABLE_WORDS];
  int64_t count;
} tri_trainable_words;

/* How the matrices of layers that are not trained are kept beneath an adapter. */
#define TRI_QUANTISES(X)                                                                                               \
  X("none", TRI_QUANTISE_NONE)                                                                                         \
  X("nf4", TRI_QUANTISE_NF4) /* device/nf4.h */
typedef enum tri_quantise { TRI_QUANTISE_NONE, TRI_QUANTISE_NF4 } tri_quantise;

typedef struct tri_adapter {
  int64_t rank;                /* 0: there is none */
  double alpha;                /* above 0 */
  double dropout;              /* of what the factors read */
  tri_quantise quantise;       /* of what is not trained */
  tri_trainable_words targets; /* modules that get factors, "q_proj"; "all-linear" alone: all matrices of layers */
  tri_trainable_words train;   /* patterns of what else is trained */
} tri_adapter;

typedef struct tri_trainable {
  tri_trainable_words freeze;
  tri_adapter adapter;
} tri_trainable;

/* Whether all of the model is trained, as without any of this. */
bool tri_trainable_is_full(const tri_trainable *tuning);
bool tri_trainable_has_adapter(const tri_trainable *tuning);
/* Whether some name may tell layers of one kind from each other: then not all of them are trained alike. */
bool tri_trainable_tells_layers(const tri_trainable *tuning);

/* "a, b"; cut off where there is no room. */
enum { TRI_TRAINABLE_TEXT_BYTES = TRI_TRAINABLE_WORDS * (TRI_TRAINABLE_WORD_BYTES + 2) };
void tri_trainable_describe(const tri_trainable_words *words, char *out, size_t out_bytes);

/* What the factors' product is multiplied by. */
double tri_adapter_scale(const tri_adapter *adapter);

/* Whether a parameter is a matrix of a layer's products, experts' too: what can be in 4 bits. */
bool tri_trainable_can_quantise(const tri_parameter *entry);

/* Marks what is not trained, and inserts the factors. Before the table is laid out. */
tri_status tri_trainable_apply(const tri_model *model, tri_parameter_table *table);

/* Whether the words go with the complete model: every pattern and target names something, no rank is above its matrix,
 * something is trained. Messages begin with the run file's key. */
tri_status tri_trainable_check(const tri_model *model);

#endif
