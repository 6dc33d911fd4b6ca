/* `trireme prepare`: reads its options, prepares a corpus from text, and prints the results. */
#include "data/prepare.h"

#include "base/format.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/stop.h"
#include "base/whole_number.h"
#include "chat/key_map.h"
#include "checkpoint/checkpoint.h"
#include "cli/cli.h"
#include "config/config.h"
#include "config/name_answers.h"
#include "config/nearest_word.h"
#include "config/yaml.h"
#include "data/corpus_record.h"
#include "files/file.h"
#include "files/hub.h"
#include "files/write_fault.h"
#include "options/inspect_corpus.h"
#include "options/options.h"
#include "run/run_config.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SET = 64, LITTLE_TOKENS = 1024, MOST_THREADS = 1024 };

typedef struct arguments {
  tri_prepare_options options;
  const char *chat_set[MOST_SET];
  char tokenizer[TRI_PATH_BYTES];
  bool json;
} arguments;

/* ---- the command line -------------------------------------------------------------------------------------------- */

static tri_status parse_integer(const char *name, const char *text, int64_t *out) {
  if (tri_whole_number(text, out)) return TRI_OK;
  return tri_fail(TRI_BAD_USAGE, "%s needs a whole number, not `%s`", name, text);
}

static tri_status set_max_records(void *values, const char *text) {
  arguments *to = values;
  TRI_TRY(parse_integer("--max-records", text, &to->options.max_records));
  if (to->options.max_records >= 1) return TRI_OK;
  return tri_fail(TRI_BAD_USAGE, "--max-records is %s; it is the number of records to read, from 1 on", text);
}

static tri_status set_validation(void *values, const char *text) {
  arguments *to = values;
  char *end = NULL;
  to->options.validation = strtod(text, &end);
  if (end != text && *end == '\0') return TRI_OK;
  return tri_fail(TRI_BAD_USAGE, "--validation needs a fraction such as 0.01, not `%s`", text);
}

static tri_status set_threads(void *values, const char *text) {
  arguments *to = values;
  int64_t value = 0;
  TRI_TRY(parse_integer("--threads", text, &value));
  if (value < 1 || value > MOST_THREADS)
    return tri_fail(TRI_BAD_USAGE, "--threads is %s; it goes from 1 to 1024", text);
  to->options.threads = (int)value;
  return TRI_OK;
}

static tri_status set_seed(void *values, const char *text) {
  arguments *to = values;
  int64_t value = 0;
  TRI_TRY(parse_integer("--seed", text, &value));
  to->options.seed = (uint64_t)value;
  return TRI_OK;
}

#define DOCUMENT_RULES(X) X("file", TRI_DOCUMENT_FILE) X("blank", TRI_DOCUMENT_BLANK) X("line", TRI_DOCUMENT_LINE)
TRI_CONFIG_WORDS(document_rules, tri_document_rule, DOCUMENT_RULES)

static tri_status set_documents(void *values, const char *text) {
  arguments *to = values;
  if (document_rules_find(text, &to->options.documents)) return TRI_OK;
  return tri_option_word("--documents", text, (const char *const[]){"file", "blank", "line"}, 3, &(int){0});
}

/* Reads a number of bytes such as "1000000", "512M" or "2G". The units are powers of 1024. */
static tri_status set_train_bytes(void *values, const char *text) {
  arguments *to = values;
  static const char units[] = "KMGT";
  char *end = NULL;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  const char *unit = *end == '\0' ? NULL : strchr(units, *end);
  unsigned shift = unit == NULL ? 0 : 10 * (unsigned)(unit - units + 1);
  if (end == text || errno != 0 || value < 1 || (*end != '\0' && (unit == NULL || end[1] != '\0')) ||
      value > INT64_MAX >> shift) {
    return tri_fail(TRI_BAD_USAGE, "--train-bytes needs a number of bytes such as 1000000, 512M or 2G, not `%s`", text);
  }
  to->options.train_bytes = value << shift;
  return TRI_OK;
}

static tri_status add_chat_set(void *values, const char *text) {
  arguments *to = values;
  if (to->options.num_chat_set == MOST_SET)
    return tri_fail(TRI_BAD_USAGE, "--chat-set is given more than %d times", MOST_SET);
  to->chat_set[to->options.num_chat_set++] = text;
  return TRI_OK;
}

static tri_status set_map(void *values, const char *text) {
  arguments *to = values;
  TRI_TRY(tri_key_map_check(text));
  to->options.key_map = text;
  return TRI_OK;
}

enum { NAME_BYTES = 64 };

#define TRI_OPTION_VALUES arguments
static const tri_option prepare_options[] = {
    {TRI_PATH("tokenizer", options.tokenizer),
     .help = "  --tokenizer T      gpt2:DIR     encoder.json and vocab.bpe in DIR\n"
             "                     FILE.json    a Hugging Face tokenizer.json, or the folder that it is in\n"
             "                     train:VOCAB  learn a vocabulary of VOCAB tokens from the inputs\n"
             "                     char         every character of the inputs is a token\n"
             "                     bytes        every byte is a token\n"},
    {TRI_PATH("out", options.out), .help = "  --out DIR          the folder for the corpus\n"},
    {TRI_READ("validation", set_validation),
     .help = "  --validation F     fraction of the documents kept for validation; 0 for none [0.01]\n"},
    {TRI_READ("documents", set_documents), .help = "  --documents RULE   unit of a document in plain text: file (all "
                                                   "of it), blank (divided by blank lines), line [file]\n"},
    {TRI_TEXT("key", options.key), .help = "  --key KEY          key of the text in a JSON record [text]\n"},
    {TRI_FLAG("chat", options.chat),
     .help = "  --chat             the inputs are conversations, one in each JSON record. Each is a document; "
             "DIR/train.mask\n"
             "                     and DIR/validation.mask mark the tokens of answers; only these are learnt\n"},
    {TRI_FLAG("preferences", options.preferences),
     .help =
         "  --preferences      the inputs are preferences (DPO, KTO), one in each JSON record: `prompt`, `chosen` and\n"
         "                     `rejected`; `chosen` and `rejected` that begin alike; or `prompt`, `completion` and\n"
         "                     `label`; as text or as messages (docs/corpora.md). Each answer is stored after its\n"
         "                     prompt as one document, and masks mark the tokens of answers. A pair is never "
         "divided\n"},
    {TRI_TEXT("form", options.form),
     .help = "  --form FORM        the keys of conversations (docs/finetuning.md) [what the records have]:\n"
             "                     messages           `messages`; --key KEY names another key of the messages\n"
             "                     prompt-completion  `prompt` and `completion`\n"
             "                     sharegpt           `conversations`\n"
             "                     alpaca             `instruction`, `input` and `output`\n"
             "                     question-answer    `question` and `answer`\n"
             "                     text               `text`: not a conversation, all of it counts in the loss\n"},
    {TRI_READ("max-records", set_max_records),
     .help = "  --max-records N    read only the first N documents of the inputs\n"},
    {TRI_PATH("chat-template", options.chat_template),
     .help = "  --chat-template T  a name such as chatml (trireme help templates), or the file of a template; none: "
             "prompt\n"
             "                     and completion are plain text [the tokenizer's chat_template.jinja or "
             "tokenizer_config.json]\n"},
    {TRI_READ("chat-set", add_chat_set),
     .help = "  --chat-set N=V     sets a variable of the template, such as enable_thinking=false; may be repeated\n"},
    {TRI_READ("map", set_map),
     .help = "  --map KEY=OTHER,.. with --chat or --preferences, reads the key OTHER of each record as KEY:\n"
             "                     prompt=question,chosen=good\n"},
    {TRI_FLAG("skip-bad", options.skip_bad),
     .help = "  --skip-bad         skips invalid documents (conversations, JSON lines, texts with NUL bytes or\n"
             "                     not in UTF-8), and prints their number; by default the first one is an error\n"},
    {TRI_FLAG("binary", options.binary), .help = "  --binary           also accepts files that are not text, byte by "
                                                 "byte; by default NUL bytes, other encodings\n"
                                                 "                     and other kinds of files are refused\n"},
    {TRI_READ("seed", set_seed),
     .help = "  --seed S           seed of the random choice of validation documents [0]\n"},
    {TRI_READ("threads", set_threads), .help = "  --threads N        threads that encode [all cores]\n"},
    {TRI_READ("train-bytes", set_train_bytes),
     .help =
         "  --train-bytes N    train:VOCAB and char learn from the first N bytes; N may end in K, M, G or T [1G]\n"},
    {TRI_FLAG("force", options.force),
     .help = "  --force            replace the corpus in DIR; the old one stays until the new one is complete\n"},
    {TRI_FLAG("json", json), .help = "  --json             print the result as JSON on standard output\n"},
    {0}};

static tri_status unknown_option(const char *name) {
  tri_option_place options[TRI_MOST_OPTIONS];
  char written[TRI_MOST_OPTIONS][NAME_BYTES];
  const char *names[TRI_MOST_OPTIONS + 1];
  const int count = tri_options_list(prepare_options, options, NULL);
  for (int i = 0; i < count; i++) {
    snprintf(written[i], NAME_BYTES, "--%s", options[i].row->name);
    names[i] = written[i];
  }
  names[count] = "--help";
  const char *own = tri_option_answer("prepare", name), *answer = own != NULL ? own : tri_key_answer(name);
  const char *nearest = own != NULL ? NULL : tri_nearest_word(name, names, (size_t)count + 1);
  if (answer != NULL && nearest == NULL) {
    return tri_fail(TRI_BAD_USAGE, "`%s` is not an option of prepare; %s", name, answer);
  }
  if (nearest != NULL) {
    return tri_fail(TRI_BAD_USAGE, "`%s` is not an option of prepare; did you mean `%s`?", name, nearest);
  }
  char key[NAME_BYTES];
  if (tri_config_meant(tri_run_config_table(), name + strspn(name, "-"), key, sizeof key)) {
    return tri_fail(TRI_BAD_USAGE, "`%s` is not an option of prepare; it is `%s` of a run file", name, key);
  }
  return tri_fail(TRI_BAD_USAGE, "`%s` is not an option of prepare; `trireme prepare --help` lists them", name);
}

/* Reads an option and its value, which is after `=` or in the next word. Moves *i to the last word that was used. Fails
 * with TRI_BAD_USAGE if the option is unknown, or has no value, or one that it does not take. */
static tri_status parse_option(int count, char **words, int *i, arguments *to) {
  char name[NAME_BYTES];
  const char *equals = strchr(words[*i], '=');
  size_t length = equals == NULL ? strlen(words[*i]) : (size_t)(equals - words[*i]);
  snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name), words[*i]);
  tri_option_place options[TRI_MOST_OPTIONS];
  const int num_options = tri_options_list(prepare_options, options, NULL);
  for (int k = 0; k < num_options; k++) {
    if (strncmp(name, "--", 2) != 0 || strcmp(name + 2, options[k].row->name) != 0) continue;
    if (!tri_option_has_value(options[k].row)) {
      return equals == NULL ? tri_option_set(&options[k], NULL, to)
                            : tri_fail(TRI_BAD_USAGE, "%s takes no value", name);
    }
    if (equals != NULL) return tri_option_set(&options[k], equals + 1, to);
    if (*i + 1 >= count) return tri_fail(TRI_BAD_USAGE, "%s needs a value", name);
    return tri_option_set(&options[k], words[++*i], to);
  }
  return unknown_option(name);
}

static tri_status verify_tokenizer(const char *name) {
  char path[TRI_PATH_BYTES];
  if (!tri_path_is_directory(name)) return tri_checkpoint_verify_file(name);
  TRI_TRY(tri_path_join(path, name, "tokenizer.json"));
  return tri_checkpoint_verify_file(path);
}

static tri_status check_chat_options(arguments *to) {
  tri_prepare_options *given = &to->options;
  const char *alone = given->chat_template != NULL ? "--chat-template"
                      : given->num_chat_set > 0    ? "--chat-set"
                      : given->form != NULL        ? "--form"
                      : given->key_map != NULL     ? "--map"
                                                   : NULL;
  if (!given->chat && !given->preferences && alone != NULL) {
    return tri_fail(TRI_BAD_USAGE, "%s goes with --chat, which says that the inputs are conversations", alone);
  }
  if (given->preferences && given->key != NULL) {
    return tri_fail(TRI_BAD_USAGE, "--key does not go with --preferences, whose records have keys of their own");
  }
  given->chat_set = to->chat_set;
  if (!given->chat && given->key == NULL) given->key = "text";
  return TRI_OK;
}

static tri_status prepare_parse(int count, char **words, const char **inputs, arguments *out) {
  bool options_ended = false;
  for (int i = 1; i < count; i++) {
    if (!options_ended && strcmp(words[i], "--") == 0) {
      options_ended = true;
    } else if (!options_ended && words[i][0] == '-' && words[i][1] != '\0') {
      TRI_TRY(parse_option(count, words, &i, out));
    } else {
      inputs[out->options.num_inputs++] = words[i];
    }
  }
  out->options.inputs = inputs;
  for (int i = 0; i < out->options.num_inputs; i++) TRI_TRY(tri_yaml_look_for(inputs[i]));
  if (out->options.tokenizer == NULL) {
    return tri_fail(TRI_BAD_USAGE,
                    "--tokenizer is missing: gpt2:DIR, train:VOCAB, char, bytes, FILE.json or its folder");
  }
  TRI_TRY(tri_hub_resolve(out->options.tokenizer, out->tokenizer));
  out->options.tokenizer = out->tokenizer;
  TRI_TRY(verify_tokenizer(out->options.tokenizer));
  TRI_TRY(check_chat_options(out));
  if (out->options.out == NULL) return tri_fail(TRI_BAD_USAGE, "--out is missing: the folder for the corpus");
  return TRI_OK;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static double mb_per_s(const tri_prepare_report *report) {
  return report->encode_s > 0 ? 1e-6 * (double)report->counts.text_bytes / report->encode_s : 0;
}

static double bytes_per_token(const tri_prepare_report *report) {
  return (double)report->counts.text_bytes / (double)report->counts.tokens;
}

static const char *data_key(tri_preferences preferences) {
  switch (preferences) {
    case TRI_PREFERENCES_NONE: return "train";
    case TRI_PREFERENCES_PAIRS:
    case TRI_PREFERENCES_LABELS: return "preferences";
  }
  return "";
}

static void log_run_file(const char *out, const tri_split_counts *counts) {
  const char *slash = out[strlen(out) - 1] == '/' ? "" : "/";
  const char *key = data_key(counts->preferences);
  if (counts->validation_tokens > 0) {
    const char *held_out = strcmp(key, "preferences") == 0 ? "validation_preferences" : "validation";
    tri_log("  in a run file: data: {%s: %s%strain, %s: %s%svalidation}", key, out, slash, held_out, out, slash);
  } else {
    tri_log("  in a run file: data: {%s: %s%strain}", key, out, slash);
  }
}

static void print_summary(const char *out, bool chat, const tri_prepare_report *report) {
  const tri_split_counts *counts = &report->counts;
  char documents[32], tokens[32], bytes[32], seconds[32];
  tri_log("%s: %s document%s, %s tokens of %" PRId64 ", from %s of text (%.2f bytes/token)", out,
          tri_format_count((double)counts->documents, documents, sizeof documents), TRI_PLURAL(counts->documents),
          tri_format_count((double)counts->tokens, tokens, sizeof tokens), report->vocab_size,
          tri_format_bytes((double)counts->text_bytes, bytes, sizeof bytes), bytes_per_token(report));
  const double learnt = 100.0 * (double)counts->learnt_tokens / (double)counts->tokens;
  if (counts->preferences != TRI_PREFERENCES_NONE) {
    tri_log("  of preferences: %.2f %% of the tokens are answers; %" PRId64 " record%s bad and skipped", learnt,
            counts->skipped_documents, counts->skipped_documents == 1 ? " was" : "s were");
  } else if (chat) {
    tri_log("  of conversations: %.2f %% of the tokens are answers, which are learnt; %" PRId64 " %s bad and skipped",
            learnt, counts->skipped_documents, counts->skipped_documents == 1 ? "was" : "were");
  } else if (counts->skipped_documents > 0) {
    tri_log("  %" PRId64 " document%s bad and skipped", counts->skipped_documents,
            counts->skipped_documents == 1 ? " was" : "s were");
  }
  if (report->skipped[0] != '\0') tri_log("  the first that was skipped: %s", report->skipped);
  tri_log("  training %" PRId64 " tokens, validation %" PRId64 " (%.2f %%)%s", counts->train_tokens,
          counts->validation_tokens, 100.0 * (double)counts->validation_tokens / (double)counts->tokens,
          counts->from_tail ? ", the end of the text" : "");
  if (counts->empty_documents > 0) tri_log("  %" PRId64 " empty documents were left out", counts->empty_documents);
  tri_log("  %.1f MB/s with %d thread%s, in %s", mb_per_s(report), report->threads, TRI_PLURAL(report->threads),
          tri_format_seconds(report->learn_s + report->encode_s, seconds, sizeof seconds));
  log_run_file(out, counts);
}

static tri_status log_lengths(const char *out, bool chat, const tri_split_counts *counts) {
  char train[TRI_PATH_BYTES], validation[TRI_PATH_BYTES];
  const char *const prefixes[] = {train, validation};
  TRI_TRY(tri_path_join(train, out, "train"));
  TRI_TRY(tri_path_join(validation, out, "validation"));
  const int count = counts->validation_tokens > 0 ? 2 : 1;
  if (counts->preferences != TRI_PREFERENCES_NONE) {
    for (int i = 0; i < count; i++) TRI_TRY(tri_inspect_log_preferences(prefixes[i]));
    return TRI_OK;
  }
  if (chat) TRI_TRY(tri_inspect_log_longest(prefixes, count));
  return tri_inspect_log_padding(train);
}

/* Warns of a small validation corpus, because a loss over a few tokens is mostly chance. */
static void warn_of_little(const tri_split_counts *counts) {
  if (counts->validation_tokens == 0 || counts->validation_tokens >= LITTLE_TOKENS) return;
  tri_warn("the validation corpus has %" PRId64
           " token%s; below %d a validation loss is mostly chance: prepare more text, or raise --validation",
           counts->validation_tokens, TRI_PLURAL(counts->validation_tokens), LITTLE_TOKENS);
}

static tri_status prepare_print_json(const char *out, bool chat, const tri_prepare_report *report) {
  const tri_split_counts *c = &report->counts;
  json_t *root = json_pack(
      "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:i, s:{s:I, s:I}, s:{s:I, s:I, s:b}}", "out", out,
      "vocab_size", (json_int_t)report->vocab_size, "documents", (json_int_t)c->documents, "empty_documents",
      (json_int_t)c->empty_documents, "tokens", (json_int_t)c->tokens, "text_bytes", (json_int_t)c->text_bytes,
      "input_bytes", (json_int_t)report->input_bytes, "bytes_per_token", bytes_per_token(report), "mb_per_s",
      mb_per_s(report), "learn_s", report->learn_s, "encode_s", report->encode_s, "threads", report->threads, "train",
      "documents", (json_int_t)c->train_documents, "tokens", (json_int_t)c->train_tokens, "validation", "documents",
      (json_int_t)c->validation_documents, "tokens", (json_int_t)c->validation_tokens, "from_tail", (int)c->from_tail);
  if (root == NULL) return tri_fail(TRI_BAD_USAGE, "the name %s is not UTF-8 and cannot be printed as JSON", out);
  json_object_set_new(root, "skipped_documents", json_integer(c->skipped_documents));
  if (c->preferences != TRI_PREFERENCES_NONE) {
    json_object_set_new(root, "learnt_tokens", json_integer(c->learnt_tokens));
    json_object_set_new(root, "preferences", json_string(tri_preferences_word(c->preferences)));
    json_object_set_new(root, "desirable", json_integer(c->desirable));
  }
  if (chat) {
    json_object_set_new(root, "learnt_tokens", json_integer(c->learnt_tokens));
    json_object_set_new(root, "skipped_conversations", json_integer(c->skipped_documents));
  }
  int result = json_dumpf(root, stdout, JSON_INDENT(2));
  json_decref(root);
  if (result != 0 || putchar('\n') == EOF)
    return tri_fail(TRI_IO_FAILED, "cannot write to standard output: %s", tri_write_fault(errno));
  return TRI_OK;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* Requests a stop. The same signal ends the program at once if it comes a second time, unless it is a scheduler's
 * request (base/stop.h). A chat template may take long for one conversation, so long computations check for the request
 * themselves. */
static void on_signal(int number) {
  (void)number;
  tri_stop_ask();
}

static bool prepare_interrupted(void *context) {
  (void)context;
  return tri_stop_asked();
}

static void catch_signals(void) {
  const sigset_t set = tri_stop_signals();
  struct sigaction once = {.sa_handler = on_signal, .sa_flags = (int)(SA_RESETHAND | SA_RESTART)},
                   always = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  for (int number = 1; number < NSIG; number++) {
    if (sigismember(&set, number) == 1) sigaction(number, tri_stop_is_request(number) ? &always : &once, NULL);
  }
}

static tri_status prepare_run(int count, char **words) {
  arguments given = {
      .options = {.validation = 0.01, .train_bytes = INT64_C(1) << 30, .interrupted = prepare_interrupted}};
  const char **inputs = NULL;
  tri_prepare_report report = {0};
  TRI_TRY(tri_alloc("the names of the inputs", (size_t)count, sizeof *inputs, &inputs));
  tri_status status = prepare_parse(count, words, inputs, &given);
  if (status == TRI_OK) {
    catch_signals();
    status = tri_prepare(&given.options, &report);
  }
  if (status == TRI_INTERRUPTED) tri_log("%s", tri_status_message());
  if (status == TRI_OK) print_summary(given.options.out, given.options.chat, &report);
  if (status == TRI_OK) status = log_lengths(given.options.out, given.options.chat, &report.counts);
  if (status == TRI_OK) warn_of_little(&report.counts);
  if (status == TRI_OK && given.json) status = prepare_print_json(given.options.out, given.options.chat, &report);
  tri_free(inputs);
  return status;
}

const tri_command tri_command_prepare = {
    .name = "prepare",
    .summary = "turn text into a tokenized corpus",
    .usage =
        "usage: trireme prepare --tokenizer T --out DIR [options] INPUT...\n"
        "\n"
        "Encodes text and leaves DIR/train.bin and .idx, DIR/validation.bin and .idx (Megatron-LM's format) and\n"
        "DIR/tokenizer.json. The .corpus.json of each corpus identifies the tokenizer that made it, so that another "
        "one\n"
        "is refused. An INPUT is plain text or, named .jsonl or .json, JSON records: lines, or the elements of an\n"
        "array. Either may be compressed (.zst). Each document is followed by the end-of-text token.\n"
        "\n",
    .examples =
        "\n"
        "example: trireme prepare --tokenizer train:4096 --out corpus book.txt articles.jsonl.zst\n"
        "         trireme prepare --chat --tokenizer Qwen3-0.6B --out tuning conversations.jsonl\n"
        "         trireme prepare --preferences --tokenizer Qwen3-0.6B --out preferences pairs.jsonl\n",
    .options = prepare_options,
    .run = prepare_run,
};
