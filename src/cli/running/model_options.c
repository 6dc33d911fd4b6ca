#include "cli/running/model_options.h"

#include "base/count.h"
#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include "engine/model_options.h"
#include "options/options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static tri_status read_precision(void *values, const char *text) {
  tri_model_options *out = values;
  static const tri_dtype precisions[] = {TRI_FP32, TRI_BF16, TRI_FP64};
  const char *names[sizeof precisions / sizeof precisions[0]];
  const int count = sizeof precisions / sizeof precisions[0];
  int which = 0;
  for (int i = 0; i < count; i++) names[i] = tri_dtype_name(precisions[i]);
  TRI_TRY(tri_option_word("--precision", text, names, count, &which));
  out->precision = precisions[which];
  out->precise = true;
  return TRI_OK;
}

static tri_status read_weights(void *values, const char *text) {
  tri_model_options *out = values;
  char name[16];
  for (const char *at = text; at != NULL;) {
    const char *comma = strchr(at, ','), *names = NULL;
    const size_t length = comma == NULL ? strlen(at) : (size_t)(comma - at);
    snprintf(name, sizeof name, "%.*s", (int)tri_smaller((int64_t)length, sizeof name - 1), at);
    const tri_weights_form *form = tri_weights_form_named(name, &names);
    if (form == NULL) return tri_fail(TRI_BAD_USAGE, "--weights is %s, not `%.40s`", names, name);
    for (int i = 0; i < out->num_forms; i++) {
      if (out->forms[i] == form) return tri_fail(TRI_BAD_USAGE, "--weights names %s twice", form->name);
    }
    out->forms[out->num_forms++] = form; /* all forms have room */
    at = comma == NULL ? NULL : comma + 1;
  }
  return TRI_OK;
}

tri_status tri_check_weights_option(const char *command, tri_model_options *options) {
  if (options->num_forms == 0) return TRI_OK;
  for (int i = 0; i < options->num_forms; i++) {
    if (options->precise && options->forms[i]->blocks == TRI_IN_BLOCKS_NONE)
      return tri_fail(TRI_BAD_USAGE, "%s: --weights %s is the precision, too: leave --precision out", command,
                      options->forms[i]->name);
  }
  tri_model_options_choose(options, 0);
  return TRI_OK;
}

#define TRI_OPTION_VALUES tri_model_options
const tri_option tri_model_option_rows[] = {
    {TRI_FLAG("average", average), .help = "  --average           use the average of the weights that the run has kept "
                                           "(average.every), not the weights\n"},
    {TRI_PATH("base", base),
     .help = "  --base FOLDER       base of an adapter (LoRA), if it is not at the path that the adapter names\n"},
    {TRI_PATH("tokenizer", tokenizer),
     .help = "  --tokenizer FILE    tokenizer.json, if it is not the checkpoint's own\n"},
    {TRI_READ("precision", read_precision),
     .help = "  --precision P       fp32 (the default), bf16, or fp64 (devices reference and gpu)\n"},
    {TRI_READ("weights", read_weights),
     .help =
         "  --weights W         matrices in q8_0 or q4_0: in blocks of 8 or 4 bits, as llama.cpp has them, for less "
         "memory and\n"
         "                      faster texts (devices cpu and reference); or fp32, bf16 as --precision\n"},
    {TRI_TEXT("device", device),
     .help = "  --device D          auto (the default), cpu, reference or gpu (gpu:2 ...)\n"},
    {TRI_INT("threads", threads, 1, 1 << 16), .help = "  --threads N         cores to use; all unless given\n"},
    {TRI_FLAG("no-verify", no_verify),
     .help =
         "  --no-verify         do not compare the files with the checkpoint's checksums; a warning reports this\n"},
    {0}};

tri_status tri_option_fp32_or_bf16(const char *option, const char *text, tri_dtype *out) {
  static const char *const names[] = {"fp32", "bf16"};
  int which = 0;
  if (strcmp(text, "float32") == 0) text = names[0]; /* names of PyTorch */
  if (strcmp(text, "bfloat16") == 0) text = names[1];
  TRI_TRY(tri_option_word(option, text, names, 2, &which));
  *out = which == 0 ? TRI_FP32 : TRI_BF16;
  return TRI_OK;
}

tri_status tri_models_drop_doubles(char **models, int *count) {
  const tri_checkpoint_use use = {.settings_only = true};
  char folder[TRI_PATH_BYTES];
  struct stat *about = NULL;
  int kept = 0;
  TRI_TRY(tri_alloc("models", (size_t)*count, sizeof *about, &about));
  tri_status status = TRI_OK;
  for (int i = 0; i < *count && status == TRI_OK; i++) {
    int same = 0;
    status = tri_checkpoint_find(models[i], &use, folder);
    if (status == TRI_OK && stat(folder, &about[kept]) != 0)
      status = tri_fail(TRI_BAD_FILE, "cannot open %s: %s", folder, strerror(errno));
    if (status != TRI_OK) break;
    while (about[same].st_ino != about[kept].st_ino || about[same].st_dev != about[kept].st_dev) same++;
    if (same < kept) tri_log("%s is %s, which counts once", models[i], models[same]);
    if (same == kept) models[kept++] = models[i];
  }
  tri_free(about);
  if (status == TRI_OK) *count = kept;
  return status;
}
