#include "engine/model_options.h"

tri_model_options tri_model_options_default(void) {
  return (tri_model_options){.device = "auto", .precision = TRI_FP32};
}

tri_checkpoint_use tri_model_options_use(const tri_model_options *options) {
  return (tri_checkpoint_use){.average = options->average, .unverified = options->no_verify};
}
