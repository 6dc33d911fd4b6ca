/* `trireme import` and `trireme export`: copies Hugging Face weights to a checkpoint, and back; `export` also writes
 * GGUF files. */
#include "llamacpp/import.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "checkpoint/copy.h"
#include "checkpoint/named_folder.h"
#include "checkpoint/peft.h"
#include "checkpoint/peft_tensors.h"
#include "cli/cli.h"
#include "cli/running/model_options.h"
#include "cli/running/written_folder.h"
#include "engine/model_files.h"
#include "llamacpp/export.h"
#include "options/json.h"
#include "options/options.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { SHARD_BYTES = 5000000000 }; /* default of --shard-bytes */

typedef struct copy_arguments {
  const char *from, *to, *base, *tokenizer;
  tri_dtype type;
  const tri_gguf_type *gguf_type; /* type of a GGUF file; NULL: that of `type` */
  bool typed;                     /* whether `type` or gguf_type was given */
  bool formatted;                 /* whether `gguf` was given */
  bool gguf;                      /* whether to write a GGUF file */
  int64_t shard_bytes;
  bool no_verify, merge, average, quantised, json;
} copy_arguments;

/* Reads a type; f32 and the types that only GGUF files have are those of llama.cpp's tools. */
static tri_status read_type(void *values, const char *text) {
  static const struct {
    const char *word, *gguf;
  } of_gguf[] = {{"f32", NULL}, {"fp16", "F16"}, {"f16", "F16"}, {"q8_0", "Q8_0"}, {"q4_0", "Q4_0"}};
  copy_arguments *out = values;
  out->typed = true;
  out->type = TRI_FP32;
  out->gguf_type = NULL;
  for (size_t i = 0; i < sizeof of_gguf / sizeof of_gguf[0]; i++) {
    if (strcasecmp(text, of_gguf[i].word) != 0) continue;
    if (of_gguf[i].gguf != NULL) out->gguf_type = tri_gguf_type_named(of_gguf[i].gguf);
    return TRI_OK;
  }
  if (tri_option_fp32_or_bf16("export: --precision", text, &out->type) == TRI_OK) return TRI_OK;
  return tri_fail(TRI_BAD_USAGE,
                  "export: --precision is fp32 or bf16, in a GGUF file also fp16, q8_0 or q4_0, not `%s`", text);
}

static tri_status read_format(void *values, const char *text) {
  static const char *const names[] = {"hf", "gguf"};
  copy_arguments *out = values;
  int which = 0;
  TRI_TRY(tri_option_word("export: --format", text, names, 2, &which));
  out->formatted = true;
  out->gguf = which == 1;
  return TRI_OK;
}

static tri_status refuse_precision(void *values, const char *text) {
  (void)values, (void)text;
  return tri_fail(TRI_BAD_USAGE, "import: a checkpoint's weights are fp32; --precision is an option of export");
}

static tri_status refuse_exports(void *values, const char *text) {
  (void)values, (void)text;
  return tri_fail(TRI_BAD_USAGE, "import: --merge, --base, --average and --quantised are options of export");
}

#define TRI_OPTION_VALUES copy_arguments
static const tri_option import_options[] = {
    {TRI_INT("shard-bytes", shard_bytes, 1, (int64_t)1 << 50),
     .help = "  --shard-bytes N    the most bytes of tensors in one file (5000000000)\n"},
    {TRI_PATH("tokenizer", tokenizer), .help =
                                           "  --tokenizer DIR    the tokenizer of a Hugging Face folder in place of "
                                           "the GGUF file's\n"},
    {TRI_FLAG("no-verify", no_verify), .help = "  --no-verify        if the folder is a checkpoint: do not compare it "
                                               "with its checksums; a warning reports this\n"},
    {TRI_FLAG("json", json), .help = "  --json             print the files of the new folder as one JSON document\n"},
    {TRI_READ("precision", refuse_precision), .hidden = true},
    {TRI_READ("dtype", refuse_precision), .hidden = true},
    {TRI_READ("base", refuse_exports), .hidden = true},
    {TRI_CALL("merge", refuse_exports), .hidden = true},
    {TRI_CALL("average", refuse_exports), .hidden = true},
    {TRI_CALL("quantised", refuse_exports), .hidden = true},
    {0}};

static const tri_option export_options[] = {
    {TRI_FLAG("average", average), .help = "  --average          the average of the weights that the run has kept "
                                           "(average.every), instead of the weights\n"},
    {TRI_FLAG("merge", merge), .help = "  --merge            write a model that is made of an adapter and its base\n"},
    {TRI_PATH("base", base),
     .help = "  --base FOLDER      base of the adapter, if it is not at the path that the adapter names\n"},
    {TRI_FLAG("quantised", quantised), .help = "  --quantised        the matrices of layers in 4 bits (NF4), as "
                                               "bitsandbytes stores them: transformers loads the folder,\n"
                                               "                     and a run with adapter.quantise takes it as its "
                                               "base, with the codes that it would make\n"},
    {TRI_READ("precision", read_type),
     .help = "  --precision P      fp32, or bf16, rounded to nearest; for a GGUF file also fp16, q8_0 or q4_0; --dtype "
             "is the same\n"
             "                     [the type of the weights that the run began with by `init`, or of the adapter's "
             "base; fp32 for others]\n"},
    {TRI_READ("dtype", read_type)},
    {TRI_READ("format", read_format),
     .help = "  --format F         hf, a Hugging Face folder, or gguf, a file for llama.cpp [gguf for a name that ends "
             "in .gguf]\n"},
    {TRI_INT("shard-bytes", shard_bytes, 1, (int64_t)1 << 50),
     .help = "  --shard-bytes N    the most bytes of tensors in one file (5000000000)\n"},
    {TRI_FLAG("no-verify", no_verify),
     .help = "  --no-verify        do not compare the files with the checkpoint's checksums, and report this\n"},
    {TRI_FLAG("json", json), .help = "  --json             print the files of the new folder as one JSON document\n"},
    {0}};

static tri_status import_parse(const char *name, bool exports, int count, char **arguments, copy_arguments *out) {
  const tri_option_table table = {.command = name, .rows = exports ? export_options : import_options};
  int first = 0;
  TRI_TRY(tri_options_parse(&table, count, arguments, out, &first));
  if (first + 2 != count) {
    return tri_fail(TRI_BAD_USAGE, "%s: name two folders, the existing one and the new one; see trireme %s --help",
                    name, name);
  }
  out->from = arguments[first];
  out->to = arguments[first + 1];
  size_t length = strlen(arguments[first + 1]);
  while (length > 1 && out->to[length - 1] == '/') arguments[first + 1][--length] = '\0';
  if (!out->formatted) out->gguf = exports && tri_ends_with(out->to, ".gguf");
  if (out->gguf) return TRI_OK;
  if (out->gguf_type != NULL) {
    return tri_fail(TRI_BAD_USAGE,
                    "export: only GGUF files have the type %s; name a path that ends in .gguf, or choose "
                    "--precision fp32 or bf16",
                    out->gguf_type->name);
  }
  return tri_named_folder_check(out->to);
}

/* Prints the JSON document about the new folder, if --json was given. */
static tri_status print_json(const copy_arguments *arguments, const char *kind, tri_dtype type) {
  if (!arguments->json) return TRI_OK;
  return tri_print_written_folder(arguments->to, &arguments->from, 1, kind, tri_dtype_name(type));
}

/* Returns the type of the weights to write: that of --precision, if the option is given. Otherwise an export (`plain`)
 * of a run that began with weights in bf16 is written in bf16, and all else in fp32. Sets *why to an explanation for
 * the log. */
static tri_dtype type_of(const copy_arguments *arguments, bool plain, const tri_run_notes *notes, const char **why) {
  *why = "";
  if (arguments->typed || !plain) return arguments->type;
  if (strcmp(notes->base_type, "bf16") == 0) {
    *why = ", the type of the weights that it began with (--precision fp32 keeps all bits)";
    return TRI_BF16;
  }
  if (strcmp(notes->base_type, "fp16") == 0) *why = "; those that it began with were in fp16, which is not written";
  return TRI_FP32;
}

/* ---- GGUF -------------------------------------------------------------------------------------------------------- */

/* Returns the name of a model for users: the last part of its path. */
static const char *name_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash == NULL || slash[1] == '\0' ? path : slash + 1;
}

static tri_status print_gguf_json(const copy_arguments *arguments, const tri_gguf_type *type,
                                  const tri_llamacpp_written *written) {
  if (!arguments->json) return TRI_OK;
  return tri_print_json(json_pack("{s:s, s:[s], s:s, s:s, s:I, s:I}", "file", arguments->to, "from", arguments->from,
                                  "kind", "gguf", "type", type->name, "tensors", (json_int_t)written->tensors, "bytes",
                                  (json_int_t)written->bytes));
}

static tri_status write_gguf(const copy_arguments *arguments, const tri_merged *weights, const tri_model *model,
                             const tri_dtype plain, const char *tokenizer) {
  const char *folder = tri_model_files_tokenizer_folder(weights);
  const tri_gguf_type *type = arguments->gguf_type;
  tri_llamacpp_written written;
  if (type == NULL) type = tri_gguf_type_of(plain == TRI_BF16 ? TRI_GGUF_BF16 : TRI_GGUF_F32);
  if (!tri_path_exists(tokenizer)) {
    return tri_fail(TRI_UNSUPPORTED,
                    "%s has no tokenizer.json, which a GGUF file needs; a run gets it from the "
                    "tokenizer of its corpus",
                    folder);
  }
  const tri_llamacpp_request request = {.from = weights,
                                        .model = model,
                                        .name = name_of(arguments->from),
                                        .to = arguments->to,
                                        .type = type,
                                        .tokenizer = tokenizer,
                                        .extra_files = folder};
  TRI_TRY(tri_llamacpp_export(&request, &written));
  char kept[96] = "";
  if (written.kept > 0) {
    snprintf(kept, sizeof kept, "; %" PRId64 " matrices whose rows do not divide are in BF16", written.kept);
  }
  tri_log("%s is written, in %s%s", arguments->to, type->name, kept);
  return print_gguf_json(arguments, type, &written);
}

/* Refuses options of folders, and an adapter that is not merged (`alone`). */
static tri_status check_gguf(const copy_arguments *arguments, bool alone) {
  if (arguments->quantised) {
    return tri_fail(TRI_BAD_USAGE,
                    "export: --quantised is bitsandbytes' 4 bits, which GGUF does not have; use --dtype "
                    "q4_0 or q8_0");
  }
  if (arguments->shard_bytes != SHARD_BYTES) {
    return tri_fail(TRI_BAD_USAGE, "export: --shard-bytes is for folders, but a GGUF file is one file; leave it out");
  }
  if (!alone || arguments->merge) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED,
                  "%s is an adapter, which is not written as a GGUF file; --merge makes a model of it and "
                  "its base",
                  arguments->from);
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

static tri_status copy(const copy_arguments *arguments, bool plain) {
  char tokenizer[TRI_PATH_BYTES];
  tri_model model;
  tri_merged weights;
  const tri_checkpoint_use use = {.average = arguments->average, .unverified = arguments->no_verify};
  TRI_TRY(tri_merged_open(arguments->from, arguments->base, &use, &model, &weights));
  tri_run_notes notes;
  const char *why = "";
  tri_status status = tri_path_join(tokenizer, tri_model_files_tokenizer_folder(&weights), "tokenizer.json");
  if (status == TRI_OK) status = tri_run_notes_of(&weights, &notes);
  if (status != TRI_OK) {
    tri_merged_close(&weights);
    return status;
  }
  tri_copy_request request = {.from = &weights,
                              .model = &model,
                              .to = arguments->to,
                              .type = type_of(arguments, plain, &notes, &why),
                              .notes = &notes,
                              .shard_bytes = arguments->shard_bytes,
                              .tokenizer = tri_path_exists(tokenizer) ? tokenizer : NULL,
                              .extra_files = tri_model_files_tokenizer_folder(&weights),
                              .plain = plain,
                              .quantised = arguments->quantised};
  status = arguments->gguf ? write_gguf(arguments, &weights, &model, request.type, tokenizer)
                           : tri_checkpoint_copy(&request);
  tri_merged_close(&weights);
  if (arguments->gguf) return status;
  if (status == TRI_OK) {
    tri_log("%s is written, %sin %s%s", arguments->to,
            arguments->quantised ? "the matrices of its layers in 4 bits, the rest " : "", tri_dtype_name(request.type),
            why);
    status = print_json(arguments, plain ? "model" : "checkpoint", request.type);
  }
  return status;
}

/* Compares an adapter with its base, if the base is available. If the base is missing or does not match, only logs or
 * warns of that, because the adapter itself may be intact. */
static tri_status check_with_base(const copy_arguments *arguments) {
  const tri_checkpoint_use use = {.average = arguments->average, .unverified = arguments->no_verify};
  tri_model model;
  tri_merged merged = {.named = NULL};
  if (arguments->no_verify) return TRI_OK;
  const tri_status status = tri_merged_open(arguments->from, NULL, &use, &model, &merged);
  tri_merged_close(&merged);
  if (status == TRI_BAD_USAGE) {
    tri_log("the tensors were not compared with the base: %s", tri_status_message());
    return TRI_OK;
  }
  if (status != TRI_BAD_CONFIG && status != TRI_UNSUPPORTED) return status;
  tri_warn("%s", tri_status_message());
  return TRI_OK;
}

/* Writes the factors alone in PEFT's format, and logs or prints the result. */
static tri_status copy_adapter(const copy_arguments *arguments, const tri_checkpoint *adapter) {
  char tokenizer[TRI_PATH_BYTES];
  tri_run_notes notes;
  TRI_TRY(check_with_base(arguments));
  TRI_TRY(tri_run_notes_read(adapter, &notes));
  TRI_TRY(tri_path_join(tokenizer, tri_checkpoint_path(adapter), "tokenizer.json"));
  const tri_copy_adapter_request request = {.from = adapter,
                                            .to = arguments->to,
                                            .type = arguments->type,
                                            .notes = &notes,
                                            .tokenizer = tri_path_exists(tokenizer) ? tokenizer : NULL};
  TRI_TRY(tri_checkpoint_copy_adapter(&request));
  tri_log("%s is written, an adapter for PEFT in %s; --merge writes a model", arguments->to,
          tri_dtype_name(arguments->type));
  return print_json(arguments, "adapter", arguments->type);
}

/* Writes an adapter whose factors began as parts of the base (PiSSA) as plain factors of twice the rank. These include
 * the initial factors. Logs or prints the result. */
static tri_status copy_principal(const copy_arguments *arguments, const tri_checkpoint *adapter) {
  char tokenizer[TRI_PATH_BYTES];
  tri_model model;
  tri_merged weights;
  tri_run_notes notes;
  const tri_checkpoint_use use = {.average = arguments->average, .unverified = arguments->no_verify};
  TRI_TRY(tri_run_notes_read(adapter, &notes));
  TRI_TRY(tri_path_join(tokenizer, tri_checkpoint_path(adapter), "tokenizer.json"));
  TRI_TRY(tri_merged_open(arguments->from, arguments->base, &use, &model, &weights));
  const tri_copy_adapter_request request = {.from = adapter,
                                            .to = arguments->to,
                                            .type = arguments->type,
                                            .notes = &notes,
                                            .tokenizer = tri_path_exists(tokenizer) ? tokenizer : NULL,
                                            .with_base = &weights,
                                            .model = &model};
  tri_status status = tri_checkpoint_copy_adapter(&request);
  tri_merged_close(&weights);
  TRI_TRY(status);
  tri_log(
      "%s is written, an adapter for PEFT in %s, plain LoRA of twice the rank over the base as it is; --merge writes "
      "a model",
      arguments->to, tri_dtype_name(arguments->type));
  return print_json(arguments, "adapter", arguments->type);
}

/* Opens arguments->from if it is an adapter, and sets *principal to whether the adapter's factors began as parts of the
 * base. Leaves *out NULL if it is not an adapter. The caller closes *out. */
static tri_status open_adapter(const copy_arguments *arguments, tri_checkpoint **out, bool *principal) {
  char path[TRI_PATH_BYTES];
  tri_peft *peft = NULL;
  const tri_checkpoint_use use = {.average = arguments->average, .unverified = arguments->no_verify};
  TRI_TRY(tri_checkpoint_find(arguments->from, &use, path));
  if (!tri_peft_is_folder(path)) return TRI_OK;
  TRI_TRY(tri_alloc("an adapter's description", 1, sizeof *peft, &peft));
  tri_status status = tri_peft_load(path, !arguments->no_verify, peft);
  *principal = status == TRI_OK && tri_adapter_is_principal(&peft->adapter);
  if (status == TRI_OK) status = tri_checkpoint_open_verified(path, &use, out);
  const bool is_adapter = status == TRI_OK && tri_checkpoint_is_adapter(*out);
  if (is_adapter) status = tri_peft_check_tensors(*out, &peft->adapter);
  tri_free(peft);
  if (is_adapter && status == TRI_OK) return TRI_OK;
  tri_checkpoint_close(*out); /* a model whose folder also has an adapter */
  *out = NULL;
  return status;
}

/* Fails with TRI_BAD_FILE if arguments->from is an adapter, because an imported checkpoint must be a whole model. */
static tri_status check_import(const copy_arguments *arguments) {
  tri_checkpoint *adapter = NULL;
  bool principal = false;
  TRI_TRY(open_adapter(arguments, &adapter, &principal));
  if (adapter == NULL) return TRI_OK;
  tri_checkpoint_close(adapter);
  return tri_fail(TRI_BAD_FILE,
                  "%s is an adapter: `trireme export --merge` makes a model of it and its base, and a run "
                  "begins with its factors by adapter.from",
                  arguments->from);
}

static tri_status import_gguf(const copy_arguments *arguments) {
  const tri_llamacpp_import_request request = {.from = arguments->from,
                                               .to = arguments->to,
                                               .tokenizer = arguments->tokenizer,
                                               .shard_bytes = arguments->shard_bytes};
  TRI_TRY(tri_llamacpp_import(&request));
  tri_log("%s is written, in fp32", arguments->to);
  return print_json(arguments, "checkpoint", TRI_FP32);
}

static tri_status run_import(int count, char **arguments) {
  copy_arguments parsed = {.type = TRI_FP32, .shard_bytes = SHARD_BYTES};
  TRI_TRY(import_parse("import", false, count, arguments, &parsed));
  if (tri_llamacpp_is_file(parsed.from)) return import_gguf(&parsed);
  if (parsed.tokenizer != NULL) {
    return tri_fail(TRI_BAD_USAGE, "import: --tokenizer is for GGUF files, but %s is not one", parsed.from);
  }
  TRI_TRY(check_import(&parsed));
  return copy(&parsed, false);
}

static tri_status run_export(int count, char **arguments) {
  copy_arguments parsed = {.type = TRI_FP32, .shard_bytes = SHARD_BYTES};
  tri_checkpoint *adapter = NULL;
  bool principal = false;
  TRI_TRY(import_parse("export", true, count, arguments, &parsed));
  TRI_TRY(open_adapter(&parsed, &adapter, &principal));
  tri_status status = parsed.gguf ? check_gguf(&parsed, adapter != NULL) : TRI_OK;
  if (status != TRI_OK) {
    tri_checkpoint_close(adapter);
    return status;
  }
  if (adapter != NULL && parsed.quantised && !parsed.merge) {
    status =
        tri_fail(TRI_BAD_USAGE,
                 "export: --quantised is for models, but %s is an adapter; --merge makes a model of it and its base",
                 parsed.from);
  } else if (adapter != NULL && !parsed.merge && principal) {
    status = copy_principal(&parsed, adapter);
  } else if (adapter != NULL && !parsed.merge && parsed.base == NULL) {
    status = copy_adapter(&parsed, adapter);
  } else if (adapter == NULL && parsed.merge) {
    status = tri_fail(TRI_BAD_USAGE, "export: --merge is for an adapter, but %s is not one", parsed.from);
  } else if (!parsed.merge && parsed.base != NULL) {
    status = tri_fail(TRI_BAD_USAGE, "export: --base goes with --merge");
  } else {
    status = copy(&parsed, true);
  }
  tri_checkpoint_close(adapter);
  return status;
}

const tri_command tri_command_import = {
    .name = "import",
    .summary = "make a checkpoint of a Hugging Face folder or a GGUF file",
    .usage =
        "usage: trireme import HF_FOLDER CHECKPOINT [--shard-bytes N] [--no-verify] [--json]\n"
        "       trireme import FILE.gguf CHECKPOINT [--tokenizer DIR] [--shard-bytes N] [--json]\n"
        "\n"
        "Reads a model of any supported family (docs/families.md) in fp32, bf16 or fp16, from one file or from shards, "
        "and\n"
        "writes a checkpoint of step 0 with fp32 weights and a fresh optimizer: `trireme train RUN.yaml --resume "
        "CHECKPOINT`.\n"
        "A GGUF file of llama.cpp may be in F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K or Q6_K "
        "(docs/gguf.md).\n"
        "\n",
    .examples =
        "\n"
        "example: trireme import models/Llama-3.2-1B llama-1b\n",
    .options = import_options,
    .run = run_import,
};

const tri_command tri_command_export = {
    .name = "export",
    .summary = "write a checkpoint's weights as a Hugging Face folder or a GGUF file",
    .usage =
        "usage: trireme export CHECKPOINT HF_FOLDER [--precision fp32|bf16] [--average] [--quantised] [--shard-bytes "
        "N]\n"
        "                      [--no-verify] [--json]\n"
        "       trireme export CHECKPOINT FILE.gguf [--dtype fp32|fp16|bf16|q8_0|q4_0] ...\n"
        "       trireme export ADAPTER FOLDER [--merge [--base FOLDER]] ...\n"
        "\n"
        "CHECKPOINT is a checkpoint or a run's output (its newest checkpoint). The folder gets only the weights, "
        "config.json and the\n"
        "tokenizer; transformers also loads a checkpoint itself, despite the optimizer's files in it.\n"
        "\n"
        "A name that ends in .gguf is a GGUF file for llama.cpp, Ollama and LM Studio (docs/gguf.md).\n"
        "\n"
        "For an adapter (LoRA: a run's, or a folder of PEFT) a PEFT folder is written; with --merge, a model, W + "
        "alpha / rank B A.\n"
        "If its factors began as parts of the base (adapter.init: pissa), the PEFT folder has plain LoRA of twice the "
        "rank.\n"
        "\n",
    .examples =
        "\n"
        "example: trireme export runs/gpt2-124m gpt2-mine --precision bf16\n",
    .options = export_options,
    .run = run_export,
};
