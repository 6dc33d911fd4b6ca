/* Options of commands that use a trained model: where it runs, and which of its files to use. */
#ifndef TRI_ENGINE_MODEL_OPTIONS_H
#define TRI_ENGINE_MODEL_OPTIONS_H

#include "checkpoint/checkpoint.h"

#include <stdbool.h>

typedef struct tri_model_options {
  /* Name of the device; path of a tokenizer.json, or NULL: the checkpoint's file is used. */
  const char *device, *tokenizer;
  const char *base; /* folder of an adapter's base; NULL: the one that the adapter names */
  tri_dtype precision;
  int64_t threads;
  bool no_verify; /* whether a checkpoint is not compared with its checksums */
  bool average;   /* whether the average of a run's weights is used instead of the weights */
} tri_model_options;

tri_model_options tri_model_options_default(void);

/* Returns how these options use a checkpoint. */
tri_checkpoint_use tri_model_options_use(const tri_model_options *options);

#endif
