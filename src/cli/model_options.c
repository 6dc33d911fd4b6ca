#include "cli/model_options.h"

#include "cli/options.h"

#include <string.h>

tri_model_options tri_model_options_default(void) {
  return (tri_model_options){.device = "auto", .precision = TRI_FP32};
}

tri_checkpoint_use tri_model_options_use(const tri_model_options *options) {
  return (tri_checkpoint_use){.average = options->average, .unverified = options->no_verify};
}

static tri_status parse_precision(const char *text, tri_dtype *out) {
  static const tri_dtype precisions[] = {TRI_FP32, TRI_BF16, TRI_FP64};
  for (size_t i = 0; i < sizeof precisions / sizeof precisions[0]; i++) {
    if (strcmp(text, tri_dtype_name(precisions[i])) != 0) continue;
    *out = precisions[i];
    return TRI_OK;
  }
  return tri_fail(TRI_BAD_USAGE, "--precision is fp32, bf16 or fp64, not `%s`", text);
}

tri_status tri_model_option(int result, const char *value, tri_model_options *options, bool *taken) {
  *taken = true;
  switch (result) {
    case TRI_OPTION_DEVICE: options->device = value; return TRI_OK;
    case TRI_OPTION_TOKENIZER: options->tokenizer = value; return TRI_OK;
    case TRI_OPTION_BASE: options->base = value; return TRI_OK;
    case TRI_OPTION_NO_VERIFY: options->no_verify = true; return TRI_OK;
    case TRI_OPTION_AVERAGE: options->average = true; return TRI_OK;
    case TRI_OPTION_THREADS: return tri_option_int("--threads", value, 1, 1 << 16, &options->threads);
    case TRI_OPTION_PRECISION: return parse_precision(value, &options->precision);
    default: *taken = false; return TRI_OK;
  }
}
