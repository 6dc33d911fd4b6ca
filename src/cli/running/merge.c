/* `trireme merge`: combines several models into one, tensor by tensor. */
#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/combine.h"
#include "checkpoint/extra_files.h"
#include "checkpoint/folder.h"
#include "checkpoint/huggingface.h"
#include "checkpoint/merged.h"
#include "checkpoint/named_folder.h"
#include "checkpoint/run_notes.h"
#include "checkpoint/tensor_list.h"
#include "cli/cli.h"
#include "cli/running/model_options.h"
#include "cli/running/written_folder.h"
#include "data/fingerprint.h"
#include "model/model_config.h"
#include "options/options.h"
#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct merge_arguments {
  char **from;
  int count;
  const char *to, *base, *method, *weights;
  bool scale, density, t; /* whether each of these options was given */
  tri_combine_settings settings;
  tri_dtype type;
  bool typed; /* whether `type` was given */
  int64_t shard_bytes;
  bool no_verify, json;
} merge_arguments;

typedef struct merging {
  const merge_arguments *arguments;
  const tri_combine_method *method;
  int models; /* number of models that are open so far; the base, if there is one, is the last */
  tri_merged weights[TRI_COMBINE_MODELS + 1];
  tri_model model; /* configuration of the first model */
  float *values[TRI_COMBINE_MODELS + 1],
      *out; /* values of one tensor in each model; out: in the result; each array has room for the largest tensor */
  uint16_t *narrow; /* result in bf16; NULL if `type` is fp32 */
  tri_checkpoint_saving *saving;
  tri_run_notes notes; /* notes in which all models agree */
  tri_dtype type;      /* type of the written tensors */
} merging;

static const char *folder_of(const merging *m, int i) { return tri_checkpoint_path(m->weights[i].named); }

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static tri_status read_out(void *values, const char *text) {
  merge_arguments *out = values;
  out->to = text;
  return tri_named_folder_check(text);
}

static tri_status read_type(void *values, const char *text) {
  merge_arguments *out = values;
  out->typed = true;
  return tri_option_fp32_or_bf16("merge: --dtype", text, &out->type);
}

#define TRI_OPTION_VALUES merge_arguments
static const tri_option merge_options[] = {
    {TRI_TEXT("method", method),
     .help = "  --method M         linear (the default): (w1 A + w2 B + ...) / (w1 + w2 + ...)\n"
             "                     task_arithmetic: base + scale (w1 (A - base) + w2 (B - base) + ...)\n"
             "                     slerp: along the circle between two models, tensor by tensor\n"
             "                     ties: trims the differences from the base, elects their signs, averages the rest\n"},
    {TRI_TEXT("weights", weights), .help = "  --weights W,W,...  one weight for each model (1 each)\n"},
    {TRI_PATH("base", base),
     .help = "  --base FOLDER      task_arithmetic and ties: the model that all models were trained from\n"},
    {TRI_DOUBLE("scale", settings.scale, -1e6, 1e6), TRI_GIVEN(scale),
     .help = "  --scale L          task_arithmetic and ties: factor of the sum of differences (1)\n"},
    {TRI_DOUBLE("density", settings.density, 0, 1), TRI_GIVEN(density),
     .help = "  --density D        ties: fraction of each tensor's differences that is kept, the largest ones (1)\n"},
    {TRI_DOUBLE("t", settings.t, 0, 1), TRI_GIVEN(t),
     .help = "  --t T              slerp: 0 is the first model, 1 the second (0.5)\n"},
    {TRI_READ("dtype", read_type),
     .help = "  --dtype D          fp32, or bf16, rounded to nearest; --precision is the same [the type of the weights "
             "that\n"
             "                     the runs began with if all have the same; fp32 otherwise]\n"},
    {TRI_READ("precision", read_type)},
    {TRI_INT("shard-bytes", shard_bytes, 1, (int64_t)1 << 50),
     .help = "  --shard-bytes N    maximum number of bytes of tensors in one file (5000000000)\n"},
    {TRI_FLAG("no-verify", no_verify),
     .help = "  --no-verify        do not compare the files with checksums, and report this\n"},
    {TRI_FLAG("json", json), .help = "  --json             print the files of the new folder as one JSON document\n"},
    {TRI_READ("out", read_out), .is_path = true},
    {0}};

/* Reads weights such as "1,0.5,2". All are 1 if none were given. Fails with TRI_BAD_USAGE if there is not one for each
 * model, or if the method is `linear` and they sum to 0. */
static tri_status read_weights(merge_arguments *a) {
  double sum = 0;
  const char *at = a->weights;
  for (int i = 0; i < a->count; i++) {
    char number[64] = "1";
    if (at != NULL) {
      const size_t length = strcspn(at, ",");
      const bool last = i + 1 == a->count;
      if ((at[length] == '\0') != last || length >= sizeof number) {
        return tri_fail(TRI_BAD_USAGE, "merge: --weights %.100s is not one number for each of the %d models",
                        a->weights, a->count);
      }
      snprintf(number, sizeof number, "%.*s", (int)length, at);
      at += length + 1;
    }
    TRI_TRY(tri_option_double("--weights", number, -1e6, 1e6, &a->settings.weights[i]));
    sum += a->settings.weights[i];
  }
  if ((float)sum != 0) return TRI_OK;
  if (strcmp(a->method, "linear") != 0) return TRI_OK; /* other methods do not divide by the sum */
  return tri_fail(TRI_BAD_USAGE, "merge: the weights %.100s sum to 0; a mean needs a sum that is not", a->weights);
}

/* Drops each model that was named before. With --weights fails with TRI_BAD_USAGE instead. */
static tri_status drop_doubles(merge_arguments *a) {
  const int named = a->count;
  TRI_TRY(tri_models_drop_doubles(a->from, &a->count));
  if (a->count == named || a->weights == NULL) return TRI_OK;
  return tri_fail(
      TRI_BAD_USAGE,
      "merge: two of the %d models are one folder; name it once, with a larger weight if it should count more "
      "(--weights)",
      named);
}

static tri_status check_method(const merge_arguments *a, const tri_combine_method **out) {
  const tri_combine_method *method = tri_combine_find(a->method);
  if (method == NULL) {
    static const char *const methods[] = {"linear", "task_arithmetic", "slerp", "ties"};
    return tri_option_word("merge: --method", a->method, methods, 4, &(int){0});
  }
  if (method->models > 0 && a->count != method->models) {
    return tri_fail(TRI_BAD_USAGE, "merge: %s takes %d models, but %d are named", method->name, method->models,
                    a->count);
  }
  if (method->base != (a->base != NULL)) {
    return tri_fail(TRI_BAD_USAGE,
                    method->base ? "merge: %s needs --base FOLDER, the model that all models were trained from"
                                 : "merge: --base is not for %s; task_arithmetic and ties take one",
                    method->name);
  }
  const struct {
    const char *name;
    bool given, taken;
  } settings[] = {{"--weights", a->weights != NULL, method->weights},
                  {"--scale", a->scale, method->scale},
                  {"--density", a->density, method->density},
                  {"--t", a->t, method->t}};
  for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
    if (!settings[i].given || settings[i].taken) continue;
    return tri_fail(TRI_BAD_USAGE, "merge: %s does not apply to %s; see trireme merge --help", settings[i].name,
                    method->name);
  }
  *out = method;
  return TRI_OK;
}

static tri_status merge_parse(int count, char **arguments, merge_arguments *out) {
  const tri_option_table table = {.command = "merge", .rows = merge_options};
  int first = 0;
  TRI_TRY(tri_options_parse(&table, count, arguments, out, &first));
  out->from = arguments + first;
  out->count = count - first;
  if (out->to == NULL) return tri_fail(TRI_BAD_USAGE, "merge: name the new folder with --out");
  if (out->count < 1 || out->count > TRI_COMBINE_MODELS) {
    return tri_fail(TRI_BAD_USAGE, "merge: name 1 to %d models", TRI_COMBINE_MODELS);
  }
  if (tri_path_exists(out->to)) {
    return tri_fail(TRI_BAD_USAGE, "%s already exists; name a new folder", out->to);
  }
  return read_weights(out);
}

/* ---- whether the models go together ------------------------------------------------------------------------------ */

/* Returns the next line of a config without the comment at its end; NULL after the last line. Skips the model's name,
 * which has no effect on what the model computes. Changes the text. */
static char *next_line(char **rest) {
  char *line;
  do line = strsep(rest, "\n");
  while (line != NULL && strncmp(line, "name:", 5) == 0);
  char *comment = line == NULL ? NULL : strstr(line, " #");
  if (comment == NULL) return line;
  while (comment > line && comment[-1] == ' ') comment--;
  *comment = '\0';
  return line;
}

static tri_status compare_text(const char *first, char *text, const char *second, char *other) {
  for (;;) {
    const char *a = next_line(&text), *b = next_line(&other);
    if (a == NULL && b == NULL) return TRI_OK;
    if (a != NULL && b != NULL && strcmp(a, b) == 0) continue;
    return tri_fail(TRI_BAD_CONFIG,
                    "the models differ: %s has `%s` and %s has `%s`; only models of one configuration "
                    "are merged",
                    first, a == NULL ? "" : a, second, b == NULL ? "" : b);
  }
}

static tri_status compare_models(const merging *m, int i, const tri_model *other) {
  char *texts[2] = {NULL, NULL};
  TRI_TRY(tri_model_print(&m->model, &texts[0]));
  tri_status status = tri_model_print(other, &texts[1]);
  if (status == TRI_OK) status = compare_text(folder_of(m, 0), texts[0], folder_of(m, i), texts[1]);
  tri_free(texts[1]);
  tri_free(texts[0]);
  return status;
}

static tri_status fingerprint_of(const char *folder, char out[TRI_FINGERPRINT_BYTES]) {
  char path[TRI_PATH_BYTES];
  tri_tokenizer *tokenizer = NULL;
  out[0] = '\0';
  bool found = false;
  TRI_TRY(tri_tokenizer_of_folder(folder, path, &found));
  if (!found) return TRI_OK;
  TRI_TRY(tri_tokenizer_create(path, &tokenizer));
  tri_status status = tri_tokenizer_fingerprint(tokenizer, out);
  tri_tokenizer_destroy(tokenizer);
  return status;
}

/* Fails with TRI_BAD_CONFIG if model i has another tokenizer than the first. A model without a tokenizer is assumed to
 * use that of the others. */
static tri_status compare_tokenizers(const merging *m, int i) {
  char first[TRI_FINGERPRINT_BYTES], other[TRI_FINGERPRINT_BYTES];
  TRI_TRY(fingerprint_of(folder_of(m, 0), first));
  TRI_TRY(fingerprint_of(folder_of(m, i), other));
  if (first[0] == '\0' || other[0] == '\0' || strcmp(first, other) == 0) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "the tokenizers differ: %s/" TRI_FILE_TOKENIZER " has fingerprint %.8s and %s/" TRI_FILE_TOKENIZER
                  " %.8s; only models of one tokenizer are merged",
                  folder_of(m, 0), first, folder_of(m, i), other);
}

static tri_status open_model(merging *m, int i) {
  const merge_arguments *a = m->arguments;
  const tri_checkpoint_use use = {.unverified = a->no_verify};
  tri_model model;
  TRI_TRY(tri_merged_open(i < a->count ? a->from[i] : a->base, NULL, &use, &model, &m->weights[i]));
  m->models = i + 1;
  if (m->weights[i].base != NULL) {
    return tri_fail(TRI_BAD_USAGE, "%s is an adapter; make a model of it with `trireme export --merge`",
                    folder_of(m, i));
  }
  tri_run_notes notes;
  TRI_TRY(tri_run_notes_of(&m->weights[i], &notes));
  if (i > 0 && i < a->count) tri_run_notes_join(&m->notes, &notes);
  if (i == 0) {
    m->model = model;
    m->notes = notes;
    return TRI_OK;
  }
  TRI_TRY(compare_models(m, i, &model));
  return compare_tokenizers(m, i);
}

/* ---- tensor by tensor -------------------------------------------------------------------------------------------- */

static tri_status read_tensor(const merging *m, int i, const tri_parameter *tensor) {
  uint64_t sum = 0;
  const tri_checkpoint *from = m->weights[i].named;
  const tri_checkpoint_slice slice = {.count = tri_parameter_global_count(tensor), .data = m->values[i]};
  TRI_TRY(tri_checkpoint_read_part(from, tensor->name, TRI_FP32, tensor->num_dims, tensor->shape, &slice, &sum));
  TRI_TRY(tri_checkpoint_compare(from, tensor->name, sum));
  return tri_checkpoint_check_finite(from, tensor, TRI_FP32, &slice);
}

static tri_status merge_tensor(merging *m, const tri_parameter *tensor, int64_t number) {
  const merge_arguments *a = m->arguments;
  const int64_t count = tri_parameter_global_count(tensor);
  tri_checkpoint_slice slice = {.tensor = number, .count = count, .data = m->out};
  int64_t strange = -1;
  for (int i = 0; i < m->models; i++) TRI_TRY(read_tensor(m, i, tensor));
  m->method->combine(&a->settings, a->count, count, m->values, a->base == NULL ? NULL : m->values[a->count], m->out);
  if (m->type == TRI_BF16) {
    for (int64_t i = 0; i < count; i++) m->narrow[i] = tri_bf16_of(m->out[i]);
    slice.data = m->narrow;
  }
  TRI_TRY(tri_checkpoint_slice_not_finite(&slice, m->type, &strange));
  if (strange >= 0) {
    return tri_fail(TRI_BAD_USAGE,
                    "merge: element %ld of `%s` would not be a finite %s; use smaller weights or a smaller --scale",
                    (long)strange, tensor->name, tri_dtype_name(m->type));
  }
  return tri_checkpoint_save_slice(m->saving, &slice);
}

static tri_status merge_tensors(merging *m, const tri_tensor_list *list) {
  for (int64_t t = 0; t < list->count; t++) TRI_TRY(merge_tensor(m, &list->tensors[t], t));
  TRI_TRY(tri_checkpoint_save_write(m->saving));
  return tri_checkpoint_save_publish(m->saving);
}

static tri_status save_merged(merging *m, const tri_tensor_list *list, tri_checkpoint_tensor *tensors,
                              const char *tokenizer, const tri_extra_texts *texts, const char *config) {
  int64_t largest = 0;
  for (int64_t t = 0; t < list->count; t++) {
    const tri_parameter *parameter = &list->tensors[t];
    const int64_t count = tri_parameter_global_count(parameter);
    if (count > largest) largest = count;
    tensors[t] = (tri_checkpoint_tensor){.name = parameter->name, .type = m->type, .num_dims = parameter->num_dims};
    for (int d = 0; d < parameter->num_dims; d++) tensors[t].shape[d] = parameter->shape[d];
  }
  for (int i = 0; i < m->models; i++) TRI_TRY(tri_alloc("a tensor", (size_t)largest, sizeof(float), &m->values[i]));
  TRI_TRY(tri_alloc("a tensor", (size_t)largest, sizeof(float), &m->out));
  if (m->type == TRI_BF16) TRI_TRY(tri_alloc("a tensor", (size_t)largest, sizeof(uint16_t), &m->narrow));
  const tri_checkpoint_request save = {.folder = m->arguments->to,
                                       .plain = true,
                                       .shard_bytes = m->arguments->shard_bytes,
                                       .model_config = config,
                                       .tokenizer = tokenizer,
                                       .extra_files = folder_of(m, 0),
                                       .extra_texts = texts,
                                       .weights = tensors,
                                       .num_weights = list->count};
  TRI_TRY(tri_checkpoint_save_begin(&save, &m->saving));
  tri_status status = merge_tensors(m, list);
  tri_checkpoint_save_end(m->saving, status == TRI_OK);
  return status;
}

static tri_status merge_listed(merging *m, const tri_tensor_list *list) {
  tri_checkpoint_tensor *tensors = NULL;
  char *config = NULL, path[TRI_PATH_BYTES];
  tri_extra_texts texts;
  TRI_TRY(tri_path_join(path, folder_of(m, 0), TRI_FILE_TOKENIZER));
  const char *tokenizer = tri_path_exists(path) ? path : NULL;
  TRI_TRY(tri_extra_texts_make(folder_of(m, 0), tokenizer, -1, &texts));
  tri_status status = tri_huggingface_print(&m->model, m->type, texts.end_of_text, folder_of(m, 0), &config);
  if (status == TRI_OK) status = tri_run_notes_add(&m->notes, &config);
  if (status == TRI_OK) status = tri_alloc("the table of a checkpoint", (size_t)list->count, sizeof *tensors, &tensors);
  if (status == TRI_OK) status = save_merged(m, list, tensors, tokenizer, &texts, config);
  tri_extra_texts_release(&texts);
  tri_free(tensors);
  tri_free(config);
  return status;
}

static tri_status merge_all(merging *m) {
  tri_parameter_table *table = NULL;
  tri_tensor_list list = {0};
  const int models = m->arguments->count + (m->arguments->base == NULL ? 0 : 1);
  for (int i = 0; i < models; i++) TRI_TRY(open_model(m, i));
  m->type = m->arguments->typed || strcmp(m->notes.base_type, "bf16") != 0 ? m->arguments->type : TRI_BF16;
  TRI_TRY(tri_parameter_table_create(&m->model, NULL, &table));
  tri_status status = tri_tensor_list_create(table, &list);
  if (status == TRI_OK) status = merge_listed(m, &list);
  tri_tensor_list_release(&list);
  tri_parameter_table_destroy(table);
  return status;
}

static tri_status run_merge(int count, char **arguments) {
  merge_arguments parsed = {.method = "linear",
                            .type = TRI_FP32,
                            .shard_bytes = 5000000000,
                            .settings = {.scale = 1, .density = 1, .t = 0.5}};
  merging *m = NULL;
  const tri_combine_method *method = NULL;
  TRI_TRY(merge_parse(count, arguments, &parsed));
  TRI_TRY(check_method(&parsed, &method)); /* checked before folders are read */
  TRI_TRY(drop_doubles(&parsed));
  TRI_TRY(check_method(&parsed, &method)); /* checked with the remaining models, too */
  TRI_TRY(tri_alloc("a merge", 1, sizeof *m, &m));
  m->arguments = &parsed;
  m->method = method;
  tri_status status = merge_all(m);
  for (int i = 0; i < m->models; i++) {
    tri_free(m->values[i]);
    tri_merged_close(&m->weights[i]);
  }
  if (status == TRI_OK) {
    for (int i = 0; i < parsed.count; i++) tri_log("model %d of %d: %s", i + 1, parsed.count, parsed.from[i]);
    tri_log("%s is written, in %s%s", parsed.to, tri_dtype_name(m->type),
            m->type == parsed.type
                ? ""
                : ", the type of the weights that the runs began with (--dtype fp32 keeps all bits)");
    if (parsed.json) {
      status = tri_print_written_folder(parsed.to, (const char *const *)parsed.from, parsed.count, "model",
                                        tri_dtype_name(m->type));
    }
  }
  tri_free(m->out);
  tri_free(m->narrow);
  tri_free(m);
  return status;
}

const tri_command tri_command_merge = {
    .name = "merge",
    .summary = "make one model of several: means, task vectors, slerp, TIES",
    .usage =
        "usage: trireme merge MODEL... --out FOLDER [--method M] [--weights W,W,...] [options]\n"
        "\n"
        "Models are Hugging Face folders, checkpoints, or runs' outputs (their newest checkpoints), all with the\n"
        "same configuration and tokenizer. A model that is named twice (checkpoints/* has a link to the best) counts "
        "once.\n"
        "The computation is in fp32, with one tensor of each model in memory at a time.\n"
        "\n",
    .examples =
        "\n"
        "example: trireme merge runs/code runs/maths --weights 2,1 --out both\n",
    .options = merge_options,
    .run = run_merge,
};
