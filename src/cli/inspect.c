/* `trireme inspect`: shows the parts of a model, a checkpoint or a corpus, or compares two checkpoints. */
#include "base/format.h"
#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/four_bits.h"
#include "checkpoint/model_source.h"
#include "checkpoint/peft.h"
#include "checkpoint/peft_tensors.h"
#include "cli/cli.h"
#include "cli/inspect_adapter.h"
#include "files/file.h"
#include "files/file_kind.h"
#include "files/hub.h"
#include "model/family.h"
#include "options/inspect_corpus.h"
#include "options/show_documents.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
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

static double flops_per_token(const tri_model *model) {
  return tri_model_flops_per_token(model, model->max_sequence,
                                   tri_model_attention_fraction(model, model->max_sequence, 1));
}

static void print_experts(const tri_model *model) {
  printf(", %" PRId64 " experts of %" PRId64 ", %" PRId64 " a token", model->num_experts, model->expert_ffn_size,
         model->experts_per_token);
  if (model->shared_experts > 0) printf(" and %" PRId64 " shared", model->shared_experts);
  if (model->dense_layers > 0) {
    printf(" (none in the first %" PRId64 ": feed-forward %" PRId64 ")", model->dense_layers, model->ffn_size);
  }
}

static void print_model(const tri_model *model, const tri_parameter_table *table, bool all) {
  part_counts counts = count_parts(table);
  char text[32];
  printf("%s: family %s, %" PRId64 " layer%s, %" PRId64 " wide, %" PRId64 " head%s", model->name,
         tri_family_name(model->family), model->num_layers, TRI_PLURAL(model->num_layers), model->hidden_size,
         model->num_heads, TRI_PLURAL(model->num_heads));
  if (model->num_kv_heads != model->num_heads)
    printf(" over %" PRId64 " key/value head%s", model->num_kv_heads, TRI_PLURAL(model->num_kv_heads));
  if (model->num_experts > 0) print_experts(model);
  if (model->num_experts == 0) printf(", feed-forward %" PRId64, model->ffn_size);
  printf(", vocabulary %" PRId64 ", sequence %" PRId64 "%s\n\n", model->vocab_size, model->max_sequence,
         model->tied ? ", tied" : "");
  for (int part = 0; part < TRI_NUM_PARTS; part++) {
    if (counts.values[part] == 0) continue;
    printf("%-10s %16" PRId64 "  %8s  %5.1f %%\n", tri_part_name((tri_part)part), counts.values[part],
           tri_format_count((double)counts.values[part], text, sizeof text),
           100.0 * (double)counts.values[part] / (double)counts.total);
  }
  printf("%-10s %16" PRId64 "  %8s\n", "parameters", counts.total,
         tri_format_count((double)counts.total, text, sizeof text));
  double flops = flops_per_token(model);
  printf("\ntraining   %sFLOP a token at sequence %" PRId64 "\n", tri_format_count(flops, text, sizeof text),
         model->max_sequence);
  for (int64_t i = 0; all && i < table->num_entries; i++) {
    const tri_parameter *p = &table->entries[i];
    char shape[TRI_SAFETENSORS_SHAPE_BYTES];
    if (p->alias || tri_parameter_continues(p)) continue;
    for (int64_t t = 0, first; t < tri_parameter_num_tensors(p); t++) {
      const tri_parameter part = tri_parameter_tensor(p, t, &first), tensor = tri_parameter_on_disk(&part);
      if (tri_parameter_continues(&part)) continue;
      printf("%sp%-5" PRId64 " %-60s %s\n", i == 0 ? "\n" : "", i, tensor.name,
             tri_safetensors_shape_text(tensor.num_dims, tensor.shape, shape));
    }
  }
}

static tri_status print_model_json(const tri_model *model, const tri_parameter_table *table) {
  part_counts counts = count_parts(table);
  json_t *parts = json_object();
  for (int part = 0; part < TRI_NUM_PARTS; part++) {
    json_object_set_new(parts, tri_part_name((tri_part)part), json_integer(counts.values[part]));
  }
  json_t *document =
      json_pack("{s:s, s:s, s:I, s:o, s:f}", "name", model->name, "family", tri_family_name(model->family),
                "parameters", (json_int_t)counts.total, "parts", parts, "flops_per_token", flops_per_token(model));
  if (document == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: the description of a model");
  json_dumpf(document, stdout, JSON_INDENT(2));
  json_decref(document);
  putchar('\n');
  return TRI_OK;
}

static tri_status inspect_model(const char *name, bool json, bool all) {
  tri_model model;
  tri_parameter_table *table = NULL;
  TRI_TRY(tri_model_source_load(name, &model));
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

/* ---- checkpoints ------------------------------------------------------------------------------------------------- */

/* Prints the section `layout:` of a checkpoint's run file, in which the run has resolved `auto` keys. Prints nothing if
 * the text is NULL or has no such section. */
static void print_layout(const char *run_config) {
  const char *at = run_config == NULL ? NULL : strstr(run_config, "\nlayout:");
  if (at == NULL) return;
  at = strchr(at + 1, '\n');
  printf("saved under the layout\n");
  while (at != NULL && at[1] == ' ') {
    const char *end = strchr(at + 1, '\n');
    printf("%.*s\n", end == NULL ? (int)strlen(at + 1) : (int)(end - at - 1), at + 1);
    at = end;
  }
}

/* Returns the name of a tensor's type; for a matrix in 4 bits the name of the type of its codes. */
static const char *type_name(const tri_safetensors_tensor *tensor) {
  if (tensor->four_bits != NULL) return tri_four_bits_kind(tensor->four_bits);
  return tri_safetensors_type_name(tensor->type);
}

static void print_checkpoint(const tri_checkpoint *checkpoint, const tri_peft *peft) {
  const tri_checkpoint_state *state = tri_checkpoint_get_state(checkpoint);
  printf("%s\n", tri_checkpoint_path(checkpoint));
  if (peft != NULL) tri_inspect_print_adapter(peft);
  if (state != NULL) {
    printf("step %" PRId64 ", %" PRId64 " samples and %" PRId64 " tokens seen\n", state->step, state->samples,
           state->tokens);
    print_layout(state->run_config);
  }
  for (int64_t i = 0; i < tri_checkpoint_num_tensors(checkpoint); i++) {
    tri_checkpoint_entry entry = tri_checkpoint_get_entry(checkpoint, i);
    char shape[TRI_SAFETENSORS_SHAPE_BYTES];
    printf("%-64s %-5s %-20s %14" PRIu64, entry.tensor->name, type_name(entry.tensor),
           tri_safetensors_shape_text(entry.tensor->num_dims, entry.tensor->shape, shape), entry.tensor->bytes);
    if (entry.has_checksum) printf("  %016" PRIx64, entry.checksum);
    printf("\n");
  }
}

static json_t *tensor_json(const tri_checkpoint_entry *entry) {
  json_t *shape = json_array();
  for (int d = 0; d < entry->tensor->num_dims; d++) json_array_append_new(shape, json_integer(entry->tensor->shape[d]));
  json_t *object =
      json_pack("{s:s, s:s, s:o, s:I, s:s}", "name", entry->tensor->name, "dtype", type_name(entry->tensor), "shape",
                shape, "bytes", (json_int_t)entry->tensor->bytes, "file", strrchr(entry->file, '/') + 1);
  if (entry->has_checksum) {
    json_object_set_new(object, "checksum", json_sprintf("%016" PRIx64, entry->checksum));
  }
  return object;
}

static tri_status print_checkpoint_json(const tri_checkpoint *checkpoint, const tri_peft *peft, bool verified) {
  const tri_checkpoint_state *state = tri_checkpoint_get_state(checkpoint);
  json_t *tensors = json_array();
  for (int64_t i = 0; i < tri_checkpoint_num_tensors(checkpoint); i++) {
    tri_checkpoint_entry entry = tri_checkpoint_get_entry(checkpoint, i);
    json_array_append_new(tensors, tensor_json(&entry));
  }
  json_t *document = json_pack("{s:s, s:o, s:b}", "path", tri_checkpoint_path(checkpoint), "tensors", tensors,
                               "verified", verified ? 1 : 0);
  if (document == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: the description of a checkpoint");
  if (peft != NULL) json_object_set_new(document, "adapter", tri_inspect_adapter_json(peft));
  if (state != NULL) {
    json_object_set_new(document, "step", json_integer(state->step));
    json_object_set_new(document, "samples", json_integer(state->samples));
    json_object_set_new(document, "tokens", json_integer(state->tokens));
    if (state->run_config != NULL) json_object_set_new(document, "config", json_string(state->run_config));
  }
  json_dumpf(document, stdout, JSON_INDENT(1));
  json_decref(document);
  putchar('\n');
  return TRI_OK;
}

static tri_status inspect_open(const tri_checkpoint *checkpoint, bool verify, bool no_verify, bool json) {
  tri_peft *peft = NULL;
  tri_status status = verify ? tri_checkpoint_verify_alone(tri_checkpoint_path(checkpoint)) : TRI_OK;
  if (status == TRI_OK && tri_checkpoint_is_adapter(checkpoint)) {
    TRI_TRY(tri_alloc("an adapter's description", 1, sizeof *peft, &peft));
    status = tri_peft_load(tri_checkpoint_path(checkpoint), !no_verify, peft);
  }
  const bool could = status == TRI_OK && tri_checkpoint_get_state(checkpoint) != NULL && !verify && !no_verify;
  if (status == TRI_OK && json) {
    status = print_checkpoint_json(checkpoint, peft, verify);
  } else if (status == TRI_OK) {
    print_checkpoint(checkpoint, peft);
    if (verify) printf("every size and checksum agrees\n");
    if (could) tri_log("the tensors were not read; --verify compares them with their checksums");
  }
  /* The tensors are checked after they are printed, because the printed tensors show what is wrong. */
  if (status == TRI_OK && peft != NULL) status = tri_peft_check_tensors(checkpoint, &peft->adapter);
  tri_free(peft);
  return status;
}

/* Prints a checkpoint. Without --verify the tensors are not read, so their checksums are not compared; all other
 * checksums are compared, unless --no-verify is given. Fails with TRI_BAD_USAGE if both options are given. */
static tri_status inspect_checkpoint(const char *given, bool verify, bool no_verify, bool json) {
  char path[TRI_PATH_BYTES];
  tri_checkpoint *checkpoint = NULL;
  const tri_checkpoint_use use = {.settings_only = !verify, .optimizer = true, .unverified = no_verify};
  if (verify && no_verify) return tri_fail(TRI_BAD_USAGE, "inspect: --verify or --no-verify, not both");
  TRI_TRY(tri_checkpoint_find(given, &use, path));
  TRI_TRY(tri_checkpoint_open_verified(path, &use, &checkpoint));
  tri_status status = inspect_open(checkpoint, verify, no_verify, json);
  tri_checkpoint_close(checkpoint);
  return status;
}

/* ---- two checkpoints --------------------------------------------------------------------------------------------- */

enum { PIECE_ELEMENTS = 1 << 20 };

static const tri_safetensors_tensor *find_tensor(const tri_checkpoint *checkpoint, const char *name) {
  for (int64_t i = 0; i < tri_checkpoint_num_tensors(checkpoint); i++) {
    const tri_safetensors_tensor *tensor = tri_checkpoint_get_entry(checkpoint, i).tensor;
    if (strcmp(tensor->name, name) == 0) return tensor;
  }
  return NULL;
}

static tri_status read_piece(const tri_checkpoint *checkpoint, const tri_safetensors_tensor *tensor, int64_t first,
                             int64_t count, double *out, uint64_t *sum) {
  tri_checkpoint_slice slice = {.first = first, .count = count, .data = out};
  return tri_checkpoint_read_part(checkpoint, tensor->name, TRI_FP64, tensor->num_dims, tensor->shape, &slice, sum);
}

/* Compares the values of a tensor in two checkpoints. Checks the bytes that it reads from each checkpoint against the
 * tensor's checksum in that checkpoint, too (tri_checkpoint_compare). values[2 * PIECE_ELEMENTS] is scratch memory. Two
 * NaNs are equal. Adds the number of values that differ to *differing, and raises *largest to the largest difference;
 * to NaN if only one of two values is NaN. */
static tri_status compare_values(const tri_checkpoint *const both[2], const tri_safetensors_tensor *tensor,
                                 double *values, double *largest, int64_t *differing) {
  int64_t count = 1;
  uint64_t sums[2] = {0, 0};
  for (int d = 0; d < tensor->num_dims; d++) count *= tensor->shape[d];
  for (int64_t done = 0; done < count; done += PIECE_ELEMENTS) {
    int64_t piece = count - done < PIECE_ELEMENTS ? count - done : PIECE_ELEMENTS;
    for (int k = 0; k < 2; k++) {
      TRI_TRY(read_piece(both[k], tensor, done, piece, values + k * PIECE_ELEMENTS, &sums[k]));
    }
    for (int64_t i = 0; i < piece; i++) {
      double a = values[i], b = values[PIECE_ELEMENTS + i];
      if (a == b || (a != a && b != b)) continue;
      (*differing)++;
      *largest = isnan(*largest) || isnan(a) || isnan(b) ? NAN : fmax(*largest, fabs(a - b));
    }
  }
  for (int k = 0; k < 2; k++) TRI_TRY(tri_checkpoint_compare(both[k], tensor->name, sums[k]));
  return TRI_OK;
}

static bool same_shape(const tri_safetensors_tensor *a, const tri_safetensors_tensor *b) {
  bool same = a->num_dims == b->num_dims;
  for (int d = 0; d < a->num_dims && same; d++) same = a->shape[d] == b->shape[d];
  return same;
}

static tri_status compare_tensor(const tri_checkpoint *const both[2], const tri_safetensors_tensor *tensor,
                                 double *values, int64_t *different) {
  const tri_safetensors_tensor *other = find_tensor(both[1], tensor->name);
  char shape[TRI_SAFETENSORS_SHAPE_BYTES], wanted[TRI_SAFETENSORS_SHAPE_BYTES];
  double largest = 0;
  int64_t differing = 0;
  if (other == NULL) {
    printf("%s is in the first alone\n", tensor->name);
  } else if (!same_shape(tensor, other)) {
    printf("%s has shape %s, and %s in the second\n", tensor->name,
           tri_safetensors_shape_text(tensor->num_dims, tensor->shape, shape),
           tri_safetensors_shape_text(other->num_dims, other->shape, wanted));
  } else {
    TRI_TRY(compare_values(both, tensor, values, &largest, &differing));
    if (differing == 0) return TRI_OK;
    printf("%s differs in %" PRId64 " values, ", tensor->name, differing);
    if (isnan(largest)) printf("some are NaN in only one of them\n");
    if (!isnan(largest)) printf("by %.6g at most\n", largest);
  }
  (*different)++;
  return TRI_OK;
}

static tri_status compare_all(const tri_checkpoint *const both[2], int64_t *different) {
  double *values = NULL;
  TRI_TRY(tri_alloc("values to compare", 2 * (size_t)PIECE_ELEMENTS, sizeof *values, &values));
  tri_status status = TRI_OK;
  for (int64_t i = 0; i < tri_checkpoint_num_tensors(both[0]) && status == TRI_OK; i++) {
    status = compare_tensor(both, tri_checkpoint_get_entry(both[0], i).tensor, values, different);
  }
  for (int64_t i = 0; i < tri_checkpoint_num_tensors(both[1]) && status == TRI_OK; i++) {
    const char *name = tri_checkpoint_get_entry(both[1], i).tensor->name;
    if (find_tensor(both[0], name) != NULL) continue;
    printf("%s is in the second alone\n", name);
    (*different)++;
  }
  tri_free(values);
  return status;
}

static tri_status compare_checkpoints(const char *first, const char *second, bool no_verify) {
  const char *given[2] = {first, second};
  const tri_checkpoint_use use = {.optimizer = true, .unverified = no_verify};
  tri_checkpoint *both[2] = {NULL, NULL};
  int64_t different = 0;
  tri_status status = TRI_OK;
  for (int k = 0; k < 2 && status == TRI_OK; k++) {
    char path[TRI_PATH_BYTES];
    status = tri_checkpoint_find(given[k], &use, path);
    if (status == TRI_OK) status = tri_checkpoint_open_verified(path, &use, &both[k]);
  }
  if (status == TRI_OK) status = compare_all((const tri_checkpoint *const *)both, &different);
  int64_t tensors = both[0] == NULL ? 0 : tri_checkpoint_num_tensors(both[0]);
  for (int k = 0; k < 2; k++) tri_checkpoint_close(both[k]);
  TRI_TRY(status);
  if (different == 0) {
    printf("all %" PRId64 " tensors are equal\n", tensors);
    return TRI_OK;
  }
  return tri_fail(TRI_DIFFERENT, "%" PRId64 " tensors differ", different);
}

static bool exists_with(const char *prefix, const char *ending) {
  char path[TRI_PATH_BYTES];
  int length = snprintf(path, sizeof path, "%s%s", prefix, ending);
  return length > 0 && (size_t)length < sizeof path && tri_path_exists(path);
}

/* Returns whether `name` is a corpus: the prefix of a .bin and an .idx file (one of the two may be missing), or the
 * path of either file. Removes the ending from such a path. */
static bool names_corpus(char *name) {
  if (exists_with(name, ".idx") || exists_with(name, ".bin")) return true;
  const size_t length = strlen(name);
  char *ending = length > 4 ? name + length - 4 : name + length;
  const bool is_file = strcmp(ending, ".bin") == 0 || strcmp(ending, ".idx") == 0;
  if (!is_file || !tri_path_exists(name) || tri_path_is_directory(name)) return false;
  if (strcmp(ending, ".bin") == 0 && tri_file_kind_find(name) != NULL)
    return false; /* this is a file of weights, such as pytorch_model.bin */
  *ending = '\0';
  return true;
}

typedef struct inspect_arguments {
  bool json, all, verify, no_verify, ids;
  const char *model, *tokenizer;
  int64_t sequence, show, seed; /* show: 0 if not given; seed: -1 if not given */
} inspect_arguments;

#define TRI_OPTION_VALUES inspect_arguments
static const tri_option inspect_options[] = {{TRI_FLAG("json", json)},
                                             {TRI_FLAG("all", all)},
                                             {TRI_FLAG("verify", verify)},
                                             {TRI_FLAG("no-verify", no_verify)},
                                             {TRI_PATH("model", model)},
                                             {TRI_LENGTH("sequence", sequence, 1, 1 << 30)},
                                             {TRI_PATH("tokenizer", tokenizer)},
                                             {TRI_INT("show", show, 1, 1 << 20)},
                                             {TRI_INT("seed", seed, 0, INT64_MAX)},
                                             {TRI_FLAG("ids", ids)},
                                             {0}};

static tri_status show_corpus(const inspect_arguments *given, const char *prefix) {
  const tri_show_request request = {.prefix = prefix,
                                    .tokenizer = given->tokenizer,
                                    .count = given->show,
                                    .seed = given->seed,
                                    .ids = given->ids,
                                    .json = given->json};
  if (given->sequence > 0) return tri_fail(TRI_BAD_USAGE, "inspect: --sequence or --show, not both");
  return tri_show_documents(&request);
}

static tri_status inspect_run(int count, char **arguments) {
  const tri_option_table table = {.command = "inspect", .rows = inspect_options};
  inspect_arguments given = {.seed = -1};
  int first = 0;
  TRI_TRY(tri_options_parse(&table, count, arguments, &given, &first));
  bool corpus = given.model == NULL && first + 1 == count && names_corpus(arguments[first]);
  if (given.show == 0 && (given.ids || given.seed >= 0))
    return tri_fail(TRI_BAD_USAGE, "inspect: --ids and --seed go with --show N, which prints documents of a corpus");
  if (corpus && given.show > 0) return show_corpus(&given, arguments[first]);
  if (corpus) return tri_inspect_corpus(arguments[first], given.tokenizer, given.sequence, given.json);
  if (given.sequence > 0 || given.tokenizer != NULL || given.show > 0) {
    return tri_fail(TRI_BAD_USAGE,
                    "inspect: --sequence, --show and --tokenizer go with a corpus, the prefix of its .bin and "
                    ".idx; see trireme inspect --help");
  }
  if (given.model != NULL && first == count) return inspect_model(given.model, given.json, given.all);
  if (given.model != NULL)
    return tri_fail(TRI_BAD_USAGE, "inspect: --model %s or `%s`, not both", given.model, arguments[first]);
  if (first + 2 == count) return compare_checkpoints(arguments[first], arguments[first + 1], given.no_verify);
  if (first + 1 != count) {
    return tri_fail(
        TRI_BAD_USAGE,
        "inspect: name one preset, model file, corpus or checkpoint, or two checkpoints; see trireme inspect --help");
  }
  const char *what = arguments[first];
  const tri_file_kind *kind = tri_path_is_directory(what) ? NULL : tri_file_kind_find(what);
  if (kind != NULL) return tri_file_kind_refuse(TRI_BAD_FILE, what, kind, "a model file, a corpus or a checkpoint");
  char folder[TRI_PATH_BYTES];
  TRI_TRY(tri_hub_resolve(what, folder));
  if (!tri_path_is_directory(folder)) return inspect_model(what, given.json, given.all);
  return inspect_checkpoint(what, given.verify, given.no_verify, given.json);
}

const tri_command tri_command_inspect = {
    .name = "inspect",
    .summary = "the parameters of a model, the tensors of a checkpoint, the documents of a corpus",
    .usage =
        "usage: trireme inspect PRESET|MODEL.yaml [--all] [--json]\n"
        "       trireme inspect --model FOLDER [--all] [--json]\n"
        "       trireme inspect CHECKPOINT [--verify|--no-verify] [--json]\n"
        "       trireme inspect CHECKPOINT CHECKPOINT [--no-verify]\n"
        "       trireme inspect CORPUS [--sequence T] [--tokenizer FILE] [--json]\n"
        "       trireme inspect CORPUS --show N [--seed S] [--ids] [--tokenizer FILE] [--json]\n"
        "\n"
        "For a preset (configs/models) or a model file, prints its parameters, counted by part; --all lists each. "
        "--model\n"
        "does the same for the model whose settings are in the folder of a checkpoint, of a run or of Hugging Face.\n"
        "For a checkpoint, a run's output or a Hugging Face folder, prints its tensors, checksums and the layout under "
        "which\n"
        "it was saved; --verify reads all of it and checks every checksum, by default those of all files but the "
        "tensors.\n"
        "For two of them, prints their differences, and verifies both; the exit status is 0 if there are no "
        "differences, and 1\n"
        "otherwise. --no-verify compares no checksums and reports this, to read the intact parts of a damaged "
        "checkpoint.\n"
        "For a corpus (the prefix of its .bin and .idx), prints how long its documents are and, for sequences of T "
        "tokens, how\n"
        "much padding packed documents need, and the share of attention's area that masks leave. If the index has one\n"
        "document, documents end at the end-of-text token of FILE, or of the tokenizer.json in the corpus's folder.\n"
        "--show prints its first N documents as text, or with --seed N documents that are drawn at random. The tokens "
        "that are\n"
        "learnt are green on a terminal, else in [[ ]]. --ids lists each token; --json prints a line for each "
        "document.\n"
        "\n",
    .examples = "example: trireme inspect frontier-175b\n",
    .options = inspect_options,
    .run = inspect_run,
};
