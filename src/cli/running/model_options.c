#include "cli/running/model_options.h"

#include "options/options.h"

#include <string.h>

static tri_status parse_precision(const char *text, tri_dtype *out) {
  static const tri_dtype precisions[] = {TRI_FP32, TRI_BF16, TRI_FP64};
  const char *names[sizeof precisions / sizeof precisions[0]];
  const int count = sizeof precisions / sizeof precisions[0];
  int which = 0;
  for (int i = 0; i < count; i++) names[i] = tri_dtype_name(precisions[i]);
  TRI_TRY(tri_option_word("--precision", text, names, count, &which));
  *out = precisions[which];
  return TRI_OK;
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

tri_status tri_option_fp32_or_bf16(const char *option, const char *text, tri_dtype *out) {
  static const char *const names[] = {"fp32", "bf16"};
  int which = 0;
  if (strcmp(text, "float32") == 0) text = names[0]; /* PyTorch's words */
  if (strcmp(text, "bfloat16") == 0) text = names[1];
  TRI_TRY(tri_option_word(option, text, names, 2, &which));
  *out = which == 0 ? TRI_FP32 : TRI_BF16;
  return TRI_OK;
}
