/* What a model or a checkpoint is made of. */
#include "base/format.h"
#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/huggingface.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "model/family.h"
#include "model/model_config.h"
#include "train/weights.h"

#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

typedef struct part_counts {
  int64_t values[TRI_NUM_PARTS], total;
} part_counts;

static part_counts count_parts(const tri_parameter_table *table) {
  part_counts counts = {.total = table->num_values};
  for (int64_t i = 0; i < table->num_entries; i++) {
    if (!table->entries[i].alias) counts.values[table->entries[i].part] += table->entries[i].count;
  }
  return counts;
}

static void print_model(const tri_model *model, const tri_parameter_table *table, bool all) {
  part_counts counts = count_parts(table);
  char text[32];
  printf("%s: family %s, %" PRId64 " layers, %" PRId64 " wide, %" PRId64 " heads", model->name,
         tri_family_of(model)->name, model->num_layers, model->hidden_size, model->num_heads);
  if (model->num_kv_heads != model->num_heads) printf(" over %" PRId64 " key/value heads", model->num_kv_heads);
  printf(", feed-forward %" PRId64 ", vocabulary %" PRId64 ", sequence %" PRId64 "%s\n\n", model->ffn_size,
         model->vocab_size, model->max_sequence, model->tied ? ", tied" : "");
  for (int part = 0; part < TRI_NUM_PARTS; part++) {
    if (counts.values[part] == 0) continue;
    printf("%-10s %16" PRId64 "  %8s  %5.1f %%\n", tri_part_name((tri_part)part), counts.values[part],
           tri_format_count((double)counts.values[part], text, sizeof text),
           100.0 * (double)counts.values[part] / (double)counts.total);
  }
  printf("%-10s %16" PRId64 "  %8s\n", "parameters", counts.total,
         tri_format_count((double)counts.total, text, sizeof text));
  double flops = tri_model_flops_per_token(model, model->max_sequence);
  printf("\ntraining   %sFLOP a token at sequence %" PRId64 "\n", tri_format_count(flops, text, sizeof text),
         model->max_sequence);
  for (int64_t i = 0; all && i < table->num_entries; i++) {
    const tri_parameter *p = &table->entries[i];
    char shape[TRI_SAFETENSORS_SHAPE_BYTES];
    if (p->alias) continue;
    printf("%sp%-5" PRId64 " %-60s %s\n", i == 0 ? "\n" : "", i, p->name,
           tri_safetensors_shape_text(p->num_dims, p->shape, shape));
  }
}

static tri_status print_model_json(const tri_model *model, const tri_parameter_table *table) {
  part_counts counts = count_parts(table);
  json_t *parts = json_object();
  for (int part = 0; part < TRI_NUM_PARTS; part++) {
    json_object_set_new(parts, tri_part_name((tri_part)part), json_integer(counts.values[part]));
  }
  json_t *document = json_pack("{s:s, s:s, s:I, s:o, s:f}", "name", model->name, "family", tri_family_of(model)->name,
                               "parameters", (json_int_t)counts.total, "parts", parts, "flops_per_token",
                               tri_model_flops_per_token(model, model->max_sequence));
  if (document == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: the description of a model");
  json_dumpf(document, stdout, JSON_INDENT(2));
  json_decref(document);
  putchar('\n');
  return TRI_OK;
}

static tri_status inspect_model(const char *name, bool json, bool all) {
  tri_model model;
  tri_parameter_table *table = NULL;
  TRI_TRY(tri_model_load(name, &model));
  TRI_TRY(tri_parameter_table_create(&model, NULL, &table));
  tri_status status = TRI_OK;
  if (json) {
    status = print_model_json(&model, table);
  } else {
    print_model(&model, table, all);
  }
  tri_parameter_table_destroy(table);
  return status;
}

static tri_status print_checkpoint(const tri_checkpoint *checkpoint) {
  const tri_checkpoint_state *state = tri_checkpoint_get_state(checkpoint);
  printf("%s\n", tri_checkpoint_path(checkpoint));
  if (state != NULL) {
    printf("step %" PRId64 ", %" PRId64 " samples and %" PRId64 " tokens seen\n", state->step, state->samples,
           state->tokens);
  }
  for (int64_t i = 0; i < tri_checkpoint_num_tensors(checkpoint); i++) {
    tri_checkpoint_entry entry = tri_checkpoint_get_entry(checkpoint, i);
    char shape[TRI_SAFETENSORS_SHAPE_BYTES];
    printf("%-64s %-5s %-20s %14" PRIu64, entry.tensor->name, tri_safetensors_type_name(entry.tensor->type),
           tri_safetensors_shape_text(entry.tensor->num_dims, entry.tensor->shape, shape), entry.tensor->bytes);
    if (entry.has_checksum) printf("  %016" PRIx64, entry.checksum);
    printf("\n");
  }
  return TRI_OK;
}

static tri_status inspect_checkpoint(const char *given, bool verify) {
  char path[TRI_PATH_BYTES];
  tri_checkpoint *checkpoint = NULL;
  TRI_TRY(tri_weights_find(given, path));
  TRI_TRY(tri_checkpoint_open(path, &checkpoint));
  tri_status status = print_checkpoint(checkpoint);
  if (status == TRI_OK && verify) {
    status = tri_checkpoint_verify(NULL, path);
    if (status == TRI_OK) printf("every size and checksum agrees\n");
  }
  tri_checkpoint_close(checkpoint);
  return status;
}

enum { OPTION_JSON = 256, OPTION_ALL, OPTION_VERIFY };

static tri_status run(int count, char **arguments) {
  static const struct option options[] = {
      {"json", no_argument, NULL, OPTION_JSON},
      {"all", no_argument, NULL, OPTION_ALL},
      {"verify", no_argument, NULL, OPTION_VERIFY},
      {NULL, 0, NULL, 0},
  };
  bool json = false, all = false, verify = false;
  optind = 1;
  opterr = 0;
  for (int result; (result = getopt_long(count, arguments, ":", options, NULL)) != -1;) {
    switch (result) {
      case OPTION_JSON: json = true; break;
      case OPTION_ALL: all = true; break;
      case OPTION_VERIFY: verify = true; break;
      default: return tri_option_fault("inspect", result, arguments);
    }
  }
  if (optind + 1 != count) {
    return tri_fail(TRI_BAD_USAGE, "inspect: name one preset, model file or checkpoint; see trireme inspect --help");
  }
  const char *what = arguments[optind];
  if (!tri_path_is_directory(what)) return inspect_model(what, json, all);
  if (json) return tri_fail(TRI_BAD_USAGE, "inspect: --json is for models; %s is a folder", what);
  return inspect_checkpoint(what, verify);
}

const tri_command tri_command_inspect = {
    .name = "inspect",
    .summary = "the parameters of a model, the tensors of a checkpoint",
    .help =
        "usage: trireme inspect PRESET|MODEL.yaml [--all] [--json]\n"
        "       trireme inspect CHECKPOINT [--verify]\n"
        "\n"
        "A preset (configs/models) or a model file: its parameters, counted by part; --all lists each.\n"
        "A checkpoint, a run's output or a Hugging Face folder: its tensors; --verify checks every checksum.\n"
        "\n"
        "example: trireme inspect frontier-175b\n",
    .run = run,
};
