#include "engine/model_options.h"

#include <string.h>
#include <strings.h>

static const tri_weights_form forms[TRI_MOST_WEIGHTS_FORMS] = {
    {"fp32", TRI_FP32, TRI_IN_BLOCKS_NONE},
    {"bf16", TRI_BF16, TRI_IN_BLOCKS_NONE},
    {"q8_0", TRI_FP32, TRI_IN_BLOCKS_Q8_0},
    {"q4_0", TRI_FP32, TRI_IN_BLOCKS_Q4_0},
};

tri_model_options tri_model_options_default(void) {
  return (tri_model_options){.device = "auto", .precision = TRI_FP32};
}

const tri_weights_form *tri_weights_form_named(const char *name, const char **names) {
  *names = "fp32, bf16, q8_0 or q4_0";
  if (strcasecmp(name, "f32") == 0 || strcasecmp(name, "float32") == 0) name = "fp32";
  if (strcasecmp(name, "bfloat16") == 0) name = "bf16";
  for (int i = 0; i < TRI_MOST_WEIGHTS_FORMS; i++) {
    if (strcasecmp(name, forms[i].name) == 0) return &forms[i];
  }
  return NULL;
}

void tri_model_options_choose(tri_model_options *options, int form) {
  const tri_weights_form *chosen = options->forms[form];
  options->blocks = chosen->blocks;
  if (!options->precise) options->precision = chosen->precision;
}

tri_status tri_model_options_apply(const tri_model_options *options, tri_model *model) {
  tri_trainable *tuning = &model->tuning;
  if (options->num_forms == 0) return TRI_OK;
  if (options->blocks != TRI_IN_BLOCKS_NONE && tri_trainable_has_adapter(tuning) && tri_trainable_is_quantised(tuning))
    return tri_fail(TRI_BAD_USAGE,
                    "--unmerged keeps this adapter's base in 4 bits, as in training (adapter.quantise: nf4): leave "
                    "--weights or --unmerged out");
  tuning->blocks = options->blocks;
  if (!tri_trainable_has_adapter(tuning)) tri_trainable_freeze_all(tuning);
  return TRI_OK;
}

tri_checkpoint_use tri_model_options_use(const tri_model_options *options) {
  return (tri_checkpoint_use){.average = options->average, .unverified = options->no_verify};
}
