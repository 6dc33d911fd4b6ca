/* `trireme new`: writes a run file with comments for this machine. The micro-batch is the largest that fits according
 * to the memory plan. Nothing is measured. */
#include "base/format.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/system.h"
#include "chat/preference_forms.h"
#include "checkpoint/model_source.h"
#include "cli/cli.h"
#include "config/yaml.h"
#include "data/corpus.h"
#include "data/text_input.h"
#include "files/file.h"
#include "files/hub.h"
#include "files/json_kind.h"
#include "files/machine.h"
#include "files/shell_word.h"
#include "model/parameters.h"
#include "run/preference_keys.h"
#include "train/trainer.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_SEQUENCE = 1024, GLOBAL_BATCH = 16, USUAL_RANK = 16, MOST_RANKS = 64 };

typedef struct new_arguments {
  const char *name, *model, *data, *objective; /* objective: NULL if not given */
  bool lora, qlora;
} new_arguments;

/* Contents of the file, computed before it is written. */
typedef struct plan {
  const new_arguments *given;
  tri_model model;
  tri_machine machine;
  bool fine_tunes, has_mask, bf16, recompute;
  tri_preferences preferences; /* kind of the data, if these are preferences */
  int64_t usual_vocab_size;    /* the preset's vocabulary, if `model` has the smaller one of the corpus; otherwise 0 */
  int64_t ranks, sequence, micro_batch;
  int64_t global_batch;    /* GLOBAL_BATCH, rounded up to a multiple of `ranks` */
  size_t bytes, available; /* bytes: predicted memory of one rank; available: memory of the machine */
  char validation[TRI_PATH_BYTES], path[TRI_PATH_BYTES], output[TRI_PATH_BYTES];
} plan;

#define TRI_OPTION_VALUES new_arguments
static const tri_option new_options[] = {
    {TRI_TEXT("model", model),
     .help =
         "  --model M      a preset, which is trained from the start; or the folder of a trained model, also by its\n"
         "                 name on the Hugging Face hub, which is fine-tuned\n"},
    {TRI_PATH("data", data),
     .help =
         "  --data PREFIX  the prefix of a corpus: corpus/train; with a corpus of preferences, or a .jsonl file of\n"
         "                 them, the run learns by DPO, or by KTO if single answers have labels\n"},
    {TRI_TEXT("objective", objective),
     .help = "  --objective N  another loss of preferences: ipo, simpo, orpo, ... (trireme help objective.name)\n"},
    {TRI_FLAG("lora", lora), .help = "  --lora         train an adapter instead of all parameters\n"},
    {TRI_FLAG("qlora", qlora), .help = "  --qlora        the same, with the frozen matrices in 4 bits (NF4)\n"},
    {0}};

static tri_status new_parse(int count, char **arguments, new_arguments *out) {
  const tri_option_table table = {.command = "new", .rows = new_options};
  int first = 0;
  TRI_TRY(tri_options_parse(&table, count, arguments, out, &first));
  if (first + 1 != count) {
    return tri_fail(TRI_BAD_USAGE, "new: name one run, whose file is NAME.yaml; see trireme new --help");
  }
  out->name = arguments[first];
  out->lora = out->lora || out->qlora;
  if (out->model == NULL) {
    return tri_fail(TRI_BAD_USAGE, "new: --model is missing, for example --model gpt2-124m or --model Qwen/Qwen3-0.6B");
  }
  if (out->data == NULL) {
    return tri_fail(TRI_BAD_USAGE,
                    "new: --data is missing: the prefix of a corpus that `trireme prepare` made, for example --data "
                    "corpus/train");
  }
  return TRI_OK;
}

/* ---- contents of the file ---------------------------------------------------------------------------------------- */

/* Sets the path of NAME.yaml and the path of the run's folder, runs/NAME. Fails with TRI_BAD_USAGE if NAME is not
 * suitable, if the folder of the file is missing, or if the file exists. */
static tri_status find_names(plan *p) {
  char base[TRI_PATH_BYTES];
  const char *name = p->given->name, *slash = strrchr(name, '/');
  const size_t length = strlen(name);
  const bool has_ending = length > 5 && strcmp(name + length - 5, ".yaml") == 0;
  TRI_TRY(tri_path_with(p->path, name, has_ending ? "" : ".yaml"));
  snprintf(base, sizeof base, "%s", slash == NULL ? name : slash + 1);
  if (has_ending) base[strlen(base) - 5] = '\0';
  if (base[strspn(base, ".")] == '\0') {
    return tri_fail(TRI_BAD_USAGE, "new: `%s` is not a name; name a run, for example first, whose file is first.yaml",
                    name);
  }
  for (const char *at = name; *at != '\0'; at++) {
    if ((unsigned char)*at >= ' ' && strchr("'\"\\`$:#", *at) == NULL) continue;
    return tri_fail(TRI_BAD_USAGE, "new: the name of a run has no quotes, no `:`, `#`, `$` or backslashes, as `%s` has",
                    name);
  }
  if (slash != NULL) {
    char folder[TRI_PATH_BYTES];
    snprintf(folder, sizeof folder, "%.*s", slash == name ? 1 : (int)(slash - name), name);
    if (!tri_path_is_directory(folder))
      return tri_fail(TRI_BAD_USAGE, "there is no folder %s for the run file", folder);
  }
  TRI_TRY(tri_path_join(p->output, "runs", base));
  if (!tri_path_exists(p->path)) return TRI_OK;
  return tri_fail(TRI_BAD_USAGE, "%s exists already; choose another name, or remove it", p->path);
}

/* Returns the objective that fits the data if none is given; NULL for text. */
static const char *usual_objective(const plan *p) {
  switch (p->preferences) {
    case TRI_PREFERENCES_PAIRS: return "dpo";
    case TRI_PREFERENCES_LABELS: return "kto";
    case TRI_PREFERENCES_NONE: break;
  }
  return NULL;
}

/* Finds which kind of preferences the first record of a JSON file has. Fails with TRI_BAD_USAGE if it is not a
 * preference. */
static tri_status find_form(plan *p) {
  const char *path = p->given->data;
  tri_text_input *input = NULL;
  tri_text_block block = {0};
  const tri_preference_form *form = NULL;
  json_t *record = NULL;
  TRI_TRY(tri_text_input_create(&path, 1, TRI_DOCUMENT_FILE, &input));
  tri_text_input_limit(input, 1);
  tri_status status = tri_text_input_next(input, &block);
  if (status == TRI_OK && block.num_pieces > 0) {
    record = json_loadb(block.text + block.pieces[0].offset, block.pieces[0].bytes, JSON_ALLOW_NUL, NULL);
  }
  if (status == TRI_OK) tri_json_drop_nulls(record);
  if (status == TRI_OK && (!json_is_object(record) || tri_preference_form_of(record, &form) != TRI_OK)) {
    status = tri_fail(TRI_BAD_USAGE,
                      "new: the first record of %s is not a preference (`chosen` and `rejected`, or `completion` and "
                      "`label`); texts and conversations become a corpus first: trireme prepare, with --chat for "
                      "conversations",
                      path);
  }
  if (status == TRI_OK) p->preferences = form->answers[1] == NULL ? TRI_PREFERENCES_LABELS : TRI_PREFERENCES_PAIRS;
  json_decref(record);
  tri_text_input_destroy(input);
  return status;
}

/* Finds what the data are: text, conversations or preferences. Also finds the corpus `validation` in the same folder,
 * if there is one. If a new model has a larger vocabulary than the corpus, gives it that of the corpus. */
static tri_status find_corpus(plan *p) {
  tri_corpus *corpus = NULL;
  char index[TRI_PATH_BYTES];
  const char *slash = strrchr(p->given->data, '/');
  if (tri_preferences_are_text(p->given->data)) return find_form(p);
  TRI_TRY(tri_corpus_open(p->given->data, &corpus));
  p->has_mask = tri_corpus_has_mask(corpus);
  p->preferences = tri_corpus_preferences(corpus);
  const int64_t vocab_size = tri_corpus_vocab_size(corpus);
  if (!p->fine_tunes && vocab_size > 0 && vocab_size < p->model.vocab_size) {
    p->usual_vocab_size = p->model.vocab_size;
    p->model.vocab_size = vocab_size;
  }
  tri_corpus_close(corpus);
  snprintf(p->validation, sizeof p->validation, "%.*svalidation", slash == NULL ? 0 : (int)(slash - p->given->data) + 1,
           p->given->data);
  TRI_TRY(tri_path_with(index, p->validation, ".idx"));
  if (!tri_path_exists(index) || strcmp(p->validation, p->given->data) == 0) p->validation[0] = '\0';
  return TRI_OK;
}

static tri_status find_model(plan *p) {
  char folder[TRI_PATH_BYTES];
  TRI_TRY(tri_hub_resolve(p->given->model, folder));
  TRI_TRY(tri_model_source_load(p->given->model, &p->model));
  p->fine_tunes = tri_path_is_directory(folder);
  if (p->given->lora && !p->fine_tunes) {
    return tri_fail(TRI_BAD_USAGE, "new: --%s is for the folder of a trained model, but %s has no weights",
                    p->given->qlora ? "qlora" : "lora", p->given->model);
  }
  p->sequence = p->model.max_sequence < LONGEST_SEQUENCE ? p->model.max_sequence : LONGEST_SEQUENCE;
  return TRI_OK;
}

/* Fails with TRI_BAD_USAGE if the model, the data and --objective do not go together. */
static tri_status check_objective(const plan *p) {
  const char *objective = p->given->objective;
  if (usual_objective(p) != NULL && !p->fine_tunes) {
    return tri_fail(TRI_BAD_USAGE,
                    "new: %s has preferences, from which a trained model learns; --model %s has no weights, so name "
                    "the folder of a model",
                    p->given->data, p->given->model);
  }
  const bool of_others =
      objective != NULL && (strcmp(objective, "cross_entropy") == 0 || strcmp(objective, "grpo") == 0);
  if (usual_objective(p) != NULL && of_others) {
    return tri_fail(TRI_BAD_USAGE,
                    "new: --objective %s does not learn from preferences, which %s has; `trireme help objective.name` "
                    "lists the losses that do",
                    objective, p->given->data);
  }
  if (usual_objective(p) == NULL && objective != NULL && strcmp(objective, "cross_entropy") != 0) {
    return tri_fail(TRI_BAD_USAGE,
                    "new: --objective %s is for preferences, and %s has none; `trireme prepare --preferences` makes a "
                    "corpus of them, and --data also takes their .jsonl file",
                    objective, p->given->data);
  }
  return TRI_OK;
}

static tri_status find_machine(plan *p) {
  TRI_TRY(tri_machine_read("/", &p->machine));
  p->available = tri_system_memory_of_node();
  p->bf16 = p->machine.avx512_bf16 || p->machine.amx || p->machine.arm_bf16;
  p->ranks = p->machine.numa_nodes < MOST_RANKS ? p->machine.numa_nodes : MOST_RANKS;
  if (p->ranks > tri_machine_usable_cores(&p->machine)) p->ranks = 1;
  p->global_batch = (GLOBAL_BATCH + p->ranks - 1) / p->ranks * p->ranks;
  return TRI_OK;
}

/* Returns the learning rate. For preferences it is 2e-5 for an adapter, otherwise 2e-6; for other fine-tuning 2e-4 and
 * 1e-5. For training from scratch it is the rate of Kaplan et al. 2020 (appendix D.6), 0.003239 - 0.0001395 ln N, where
 * N is the number of parameters, rounded to a multiple of 1e-4 and at least 1e-4. */
static double rate_of(const plan *p) {
  if (usual_objective(p) != NULL) return p->given->lora ? 2e-5 : 2e-6;
  if (p->given->lora) return 2e-4;
  if (p->fine_tunes) return 1e-5;
  const double rate = 0.003239 - 0.0001395 * log(tri_model_num_parameters(&p->model));
  return rate < 1e-4 ? 1e-4 : round(rate * 1e4) / 1e4;
}

static void write_head(const plan *p, FILE *to) {
  char memory[32], need[32], path[TRI_SHELL_WORD_BYTES];
  fprintf(to,
          "# Made by `trireme new` for this machine: %ld cores, %s of memory. One rank takes %s.\n"
          "#\n"
          "#   trireme train %s%s",
          (long)tri_machine_usable_cores(&p->machine), tri_format_bytes((double)p->available, memory, sizeof memory),
          tri_format_bytes((double)p->bytes, need, sizeof need), tri_shell_word(p->path, path),
          p->ranks > 1 ? "" : "\n");
  if (p->ranks > 1) fprintf(to, " -n %ld                # a rank for each group of cores\n", (long)p->ranks);
  fprintf(to,
          "#\n"
          "# `trireme help run` lists every key; --set KEY=VALUE changes one for a run.\n");
}

/* Writes a key and its value. */
static void write_value(const char *key, const char *value, FILE *to) {
  fprintf(to, "%s: ", key);
  tri_yaml_write_text(value, to);
  fputc('\n', to);
}

/* Writes the keys of a preset with the corpus's vocabulary in place of its own. */
static tri_status write_smaller_model(const plan *p, FILE *to) {
  tri_yaml_tree *tree = NULL;
  tri_yaml *mapping = NULL;
  const tri_yaml reference = {.kind = TRI_YAML_SCALAR, .text = p->given->model, .source = "--model"};
  TRI_TRY(tri_yaml_create(&tree));
  const tri_status status = tri_model_source_expand(tree, &reference, &mapping);
  fprintf(to, "model:                             # %s with the vocabulary of the corpus; its own has %ld tokens\n",
          p->given->model, (long)p->usual_vocab_size);
  for (const tri_yaml *key = status == TRI_OK ? mapping->first : NULL; key != NULL; key = key->next) {
    if (strcmp(key->key, "name") == 0) continue;
    fprintf(to, "  %s: ", key->key);
    if (strcmp(key->key, "vocab_size") == 0) {
      fprintf(to, "%ld", (long)p->model.vocab_size);
    } else {
      tri_yaml_write_flow(key, to);
    }
    fputc('\n', to);
  }
  tri_yaml_destroy(tree);
  return status;
}

static void write_data(const plan *p, FILE *to) {
  const bool preferences = usual_objective(p) != NULL;
  if (preferences) {
    fprintf(to, "\nobjective: %-24s # the loss of preferences; `trireme help objective.name` lists the others\n",
            p->given->objective == NULL ? usual_objective(p) : p->given->objective);
  }
  fprintf(to, "\ndata:\n");
  write_value(preferences ? "  preferences" : "  train", p->given->data, to);
  if (p->validation[0] != '\0') {
    write_value(preferences ? "  validation_preferences" : "  validation", p->validation, to);
  }
  fprintf(to, "  sequence: %-22ld # tokens of a sample; the model has at most %ld\n", (long)p->sequence,
          (long)p->model.max_sequence);
  if (preferences)
    fprintf(to, "  too_long: truncate_prompt        # longer pairs lose the beginning of their prompts\n");
}

static tri_status write_file(const plan *p, FILE *to) {
  const double rate = rate_of(p);
  const bool preferences = usual_objective(p) != NULL;
  write_head(p, to);
  if (p->usual_vocab_size > 0) {
    TRI_TRY(write_smaller_model(p, to));
  } else {
    write_value(p->fine_tunes ? "init" : "model", p->given->model, to);
  }
  write_data(p, to);
  if (p->given->lora) {
    fprintf(to, "\nadapter:\n  rank: %-26d # LoRA beside all matrices of the layers\n  alpha: %d\n", USUAL_RANK,
            2 * USUAL_RANK);
  }
  if (p->given->qlora)
    fprintf(to, "  quantise: nf4                    # the frozen matrices of the layers in 4 bits\n");
  fprintf(to,
          "\nlayout:\n  micro_batch: %-19ld # sequences of one forward pass: the most that fits, up to global_batch\n",
          (long)p->micro_batch);
  if (p->recompute)
    fprintf(to, "  recompute: full                  # activations are computed twice, to save memory\n");
  fprintf(to,
          "\noptimizer:\n  global_batch: %-18ld # sequences of one step\n"
          "  epochs: %-24d # passes over the corpus; or `steps:` in its place\n"
          "  lr: %-28.2g # the highest rate; if the loss rises, a lower one\n"
          "  warmup: %-24d # steps in which the rate rises\n"
          "  min_lr_ratio: 0.1                # the rate at the end, as a fraction of lr\n",
          (long)p->global_batch, p->fine_tunes && !preferences ? 3 : 1, rate, p->fine_tunes ? 10 : 100);
  if (p->fine_tunes) fprintf(to, "  weight_decay: 0.0\n");
  fprintf(to, "\nprecision: %s\n", p->bf16 ? "bf16" : "fp32");
  if (p->validation[0] != '\0') fprintf(to, "evaluation: {every: 50, sequences: 64}\n");
  fprintf(to, "checkpoint: {every: 100, keep: 2%s}\n", p->validation[0] != '\0' ? ", best: true" : "");
  if (p->has_mask && !preferences)
    fprintf(to, "# samples: {chat: [\"Hello!\"]}        # what each checkpoint answers\n");
  write_value("output", p->output, to);
  return TRI_OK;
}

/* ---- what fits --------------------------------------------------------------------------------------------------- */

static tri_status print_file(const plan *p, char **out) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *to = open_memstream(&text, &bytes);
  if (to == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: a run file");
  tri_status status = write_file(p, to);
  if (fclose(to) != 0) status = tri_fail(TRI_OUT_OF_MEMORY, "out of memory: a run file");
  if (status == TRI_OK) status = tri_strdup(text, out);
  free(text);
  return status;
}

/* Predicts the memory of a rank with the present micro-batch. */
static tri_status predict(plan *p) {
  char *text = NULL;
  tri_run_config *config = NULL;
  TRI_TRY(print_file(p, &text));
  tri_status status = tri_alloc("a run's configuration", 1, sizeof *config, &config);
  if (status == TRI_OK) status = tri_run_config_parse(p->path, text, strlen(text), NULL, 0, config);
  if (status == TRI_OK) status = tri_train_predict(config, p->ranks, &p->bytes);
  tri_free(config);
  tri_free(text);
  return status;
}

/* Finds the largest micro-batch with which all ranks together fit into nine tenths of the memory. If a micro-batch of 1
 * does not fit, chooses recomputation. Fails with TRI_OUT_OF_MEMORY if it does not fit then either. */
static tri_status find_micro_batch(plan *p) {
  char need[32], there[32];
  for (int pass = 0; pass < 2; pass++) {
    p->recompute = pass == 1;
    const int64_t of_rank = p->global_batch / p->ranks;
    for (p->micro_batch = of_rank; p->micro_batch >= 1; p->micro_batch--) {
      if (of_rank % p->micro_batch != 0) continue;
      TRI_TRY(predict(p));
      if (p->available == 0 || (double)p->bytes * (double)p->ranks <= 0.9 * (double)p->available) return TRI_OK;
    }
  }
  return tri_fail(TRI_OUT_OF_MEMORY,
                  "%s does not fit: a rank takes %s with one sequence of %ld tokens and recomputation, but the machine "
                  "has %s available%s; choose a smaller model",
                  p->given->model, tri_format_bytes((double)p->bytes, need, sizeof need), (long)p->sequence,
                  tri_format_bytes((double)p->available, there, sizeof there),
                  p->fine_tunes && !p->given->lora ? "; --lora takes less" : "");
}

static tri_status new_run(int count, char **arguments) {
  new_arguments given = {.name = NULL};
  char *text = NULL;
  plan *p = NULL;
  TRI_TRY(new_parse(count, arguments, &given));
  TRI_TRY(tri_alloc("a run file", 1, sizeof *p, &p));
  p->given = &given;
  tri_status status = find_names(p);
  if (status == TRI_OK) status = find_model(p);
  if (status == TRI_OK) status = find_corpus(p);
  if (status == TRI_OK) status = check_objective(p);
  if (status == TRI_OK) status = find_machine(p);
  if (status == TRI_OK) status = find_micro_batch(p);
  if (status == TRI_OK) status = print_file(p, &text);
  if (status == TRI_OK) status = tri_file_replace(p->path, text, strlen(text));
  if (status == TRI_OK) {
    char path[TRI_SHELL_WORD_BYTES];
    tri_log("%s is written; check it, and then run: trireme train %s", p->path, tri_shell_word(p->path, path));
  }
  if (status == TRI_OK && p->ranks > 1) tri_log("  with -n %ld: a rank for each group of cores", (long)p->ranks);
  tri_free(text);
  tri_free(p);
  return status;
}

const tri_command tri_command_new = {
    .name = "new",
    .summary = "write a run file for this machine",
    .usage =
        "usage: trireme new NAME --model M --data PREFIX [--lora | --qlora] [--objective N]\n"
        "\n"
        "Writes NAME.yaml, a commented run file to begin with. Its micro-batch is the largest that fits into this\n"
        "machine's memory, by the memory plan; nothing is measured. If a preset has a larger vocabulary than the\n"
        "corpus, the run has that of the corpus. A file that exists is not replaced.\n"
        "\n",
    .examples =
        "\n"
        "example: trireme new first --model gpt2-demo --data corpus/train\n"
        "         trireme new second --model models/Llama-3.2-1B --data pairs.jsonl --qlora\n",
    .options = new_options,
    .run = new_run,
};
