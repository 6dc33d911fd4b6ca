/* How a trained model is meant that somebody uses: where it runs, and which of its files count. */
#ifndef TRI_ENGINE_MODEL_OPTIONS_H
#define TRI_ENGINE_MODEL_OPTIONS_H

#include "checkpoint/checkpoint.h"

#include <stdbool.h>

typedef struct tri_model_options {
  const char *device, *tokenizer; /* tokenizer NULL: the checkpoint's */
  const char *base;               /* folder of an adapter's base; NULL: the one that it names */
  tri_dtype precision;
  int64_t threads;
  bool no_verify; /* a checkpoint is not compared with its checksums */
  bool average;   /* the average of a run's weights is meant */
} tri_model_options;

tri_model_options tri_model_options_default(void);

/* What they want of a checkpoint. */
tri_checkpoint_use tri_model_options_use(const tri_model_options *options);

#endif
