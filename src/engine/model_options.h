/* Options of commands that use a trained model: where it runs, and which of its files to use. */
#ifndef TRI_ENGINE_MODEL_OPTIONS_H
#define TRI_ENGINE_MODEL_OPTIONS_H

#include "checkpoint/checkpoint.h"
#include "model/model.h"

#include <stdbool.h>

/* A way to keep a model's weights: in the type of the activations, fp32 or bf16, or in blocks, beside activations in
 * fp32. */
typedef struct tri_weights_form {
  const char *name; /* "q8_0" */
  tri_dtype precision;
  tri_block_storage blocks;
} tri_weights_form;

enum { TRI_MOST_WEIGHTS_FORMS = 4 };

typedef struct tri_model_options {
  /* Name of the device; path of a tokenizer.json, or NULL: the checkpoint's file is used. */
  const char *device, *tokenizer;
  const char *base; /* folder of an adapter's base; NULL: the one that the adapter names */
  tri_dtype precision;
  tri_block_storage blocks; /* storage of the matrices (tri_model_options_apply) */
  int64_t threads;
  bool no_verify; /* whether a checkpoint is not compared with its checksums */
  bool average;   /* whether the average of a run's weights is used instead of the weights */
  bool precise;   /* whether the precision was given */
  const tri_weights_form *forms[TRI_MOST_WEIGHTS_FORMS]; /* [num_forms], forms of the weights in the order in which they
                                                            were given; none: the precision alone counts */
  int num_forms;
} tri_model_options;

tri_model_options tri_model_options_default(void);

/* Returns the form with this name, in small or capital letters, or with PyTorch's or llama.cpp's name of fp32 or bf16;
 * NULL if there is no such form. *names: names of all forms, "fp32, bf16, ...". */
const tri_weights_form *tri_weights_form_named(const char *name, const char **names);

/* Sets the precision and the storage of the matrices to those of form number `form`, below num_forms. */
void tri_model_options_choose(tri_model_options *options, int form);
/* Sets the storage of a model's weights to the form that was chosen, and freezes them, so that they are kept in that
 * form only; does nothing if no form was given. Fails with TRI_BAD_USAGE if the model has a base in 4 bits beside an
 * adapter. */
tri_status tri_model_options_apply(const tri_model_options *options, tri_model *model);

/* Returns how these options use a checkpoint. */
tri_checkpoint_use tri_model_options_use(const tri_model_options *options);

#endif
