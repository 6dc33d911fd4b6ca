/* `trireme generate`: prints one text token by token, generates several texts in a batch, or holds a conversation. */
#include "cli/running/generate.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/stop.h"
#include "cli/cli.h"
#include "cli/running/generation_options.h"
#include "cli/running/model_options.h"
#include "cli/running/prompts.h"
#include "cli/running/ranks.h"
#include "files/json_kind.h"
#include "files/write_fault.h"
#include "generation/texts.h"
#include "options/options.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- options ----------------------------------------------------------------------------------------------------- */

static tri_status add_stop(void *values, const char *text) {
  tri_generate_arguments *out = values;
  if (text[0] == '\0') return tri_fail(TRI_BAD_USAGE, "the text of --stop is empty; give the text to stop at");
  if (out->request.num_stops == TRI_MOST_STOPS - 1) { /* the chat template needs one of the stop texts */
    return tri_fail(TRI_BAD_USAGE, "--stop can be given %d times at most", TRI_MOST_STOPS - 1);
  }
  out->request.stops[out->request.num_stops++] = text;
  return TRI_OK;
}

static tri_status read_seed(void *values, const char *text) {
  tri_generate_arguments *out = values;
  int64_t seed = 0;
  TRI_TRY(tri_option_int("--seed", text, 0, INT64_MAX, &seed));
  out->request.seed = (uint64_t)seed;
  return TRI_OK;
}

#define TRI_OPTION_VALUES tri_generate_arguments
static const tri_option generate_options[] = {
    {TRI_TEXT("prompt", prompt), .help = "  --prompt TEXT       text to continue; - is standard input, which is also "
                                         "read if it is a pipe or a file\n"},
    {TRI_FLAG("chat", chat),
     .help =
         "  --chat              prompts are messages to a chat model, which go through its chat template. Without a "
         "prompt: a\n"
         "                      conversation, in which each line of standard input is a message; /quit or its end ends "
         "it\n"},
    {TRI_TEXT("system", system), .help = "  --system TEXT       system message of conversations that have none\n"},
    {TRI_INT("tokens", request.tokens, 1, 1 << 24),
     .help =
         "  --tokens N          maximum number of tokens of a text (max_new_tokens of the folder, else 100, or as many "
         "as the model has\n"
         "                      positions for; 512 for an answer)\n"},
    {TRI_DOUBLE("temperature", request.temperature, 0.0, 1e6),
     .help = "  --temperature T     0: always the most likely token; 1: the probabilities of the model (1)\n"},
    {TRI_PATH("prompt-file", prompt_file),
     .help = "  --prompt-file FILE  text to continue, from a file, without the newline at its end\n"},
    {TRI_PATH("prompts", prompts),
     .help =
         "  --prompts FILE      several prompts, one per line; in FILE.jsonl {\"prompt\": \"...\"}, or a conversation "
         "{\"messages\":\n"
         "                      [...]}, which goes through the chat template; - is standard input\n"},
    {TRI_INT("samples", samples, 1, 1 << 20),
     .help = "  --samples N         independently sampled texts of each prompt (1)\n"},
    {TRI_INT("batch", batch, 1, 1 << 12),
     .help = "  --batch N           texts that are written side by side on each rank (8)\n"},
    {TRI_INT("ranks", ranks, 1, 1 << 24), .letter = 'n',
     .help = "  -n, --ranks N       N processes share the texts, through this machine's mpiexec; the texts are the "
             "same. Under\n"
             "                      mpirun, srun or flux run leave it out\n"},
    {TRI_INT("tensor", request.tensor, 1, 1 << 16),
     .help =
         "  --tensor T          T of the N ranks hold one copy of the weights, for a model that one rank cannot hold "
         "(1)\n"},
    {TRI_FLAG("json", json), .help = "  --json              a line of JSON for each text: step, number, sample, "
                                     "prompt, text, tokens, finish, stop\n"},
    {TRI_INT("logprobs", logprobs, 0, TRI_MOST_LIKELY),
     .help =
         "  --logprobs N        with --json, ids and log-probabilities of all tokens, in the model's own distribution "
         "and in\n"
         "                      the one that was sampled from, and the N likeliest tokens at each position (0 to "
         "20)\n"},
    {TRI_BYTES("cache", cache_bytes),
     .help = "  --cache BYTES       memory for keys and values, such as 512MiB (all that --batch texts can need)\n"},
    {TRI_FLAG("dry-run", dry_run),
     .help = "  --dry-run           print the memory that is needed, and write nothing\n"},
    {TRI_GROUP(request, tri_generation_request, tri_guess_option_rows)},
    {TRI_READ("stop", add_stop), .help = "  --stop TEXT         ends a text before TEXT; may be given several times\n"},
    {TRI_FLAG("unmerged", request.unmerged), .help = "  --unmerged          of an adapter: keep its factors beside the "
                                                     "base, as in training, and do not add them to it\n"},
    {TRI_FLAG("ignore-end", request.ignore_end),
     .help = "  --ignore-end        a text continues after a token that would end it\n"},
    {TRI_LENGTH("context", context, 2, 1 << 30),
     .help =
         "  --context N         maximum number of positions to use (the model's; in a conversation 4096 at most)\n"},
    {TRI_GROUP(request, tri_generation_request, tri_sampling_option_rows)},
    {TRI_READ("seed", read_seed), .help = "  --seed S            the same seed writes the same text (1234)\n"},
    {TRI_GROUP(template, tri_chat_choice, tri_chat_choice_rows)},
    {TRI_GROUP(request.model, tri_model_options, tri_model_option_rows)},
    {0}};

static bool has_chat_options(const tri_generate_arguments *given) {
  return given->system != NULL || given->template.file != NULL || given->template.num_sets > 0;
}

static tri_status check_together(const tri_generate_arguments *given) {
  const int sources = (given->prompt != NULL) + (given->prompt_file != NULL) + (given->prompts != NULL);
  if (sources > 1) return tri_fail(TRI_BAD_USAGE, "generate: --prompt, --prompt-file or --prompts, one of them");
  const bool converses = given->chat && sources == 0;
  if (converses && given->samples > 0) {
    return tri_fail(TRI_BAD_USAGE,
                    "generate: --chat without --prompt or --prompts is a conversation with one answer to each line of "
                    "standard input; --samples needs --prompt, --prompt-file or --prompts");
  }
  if (given->logprobs >= 0 && !given->json) {
    return tri_fail(TRI_BAD_USAGE, "generate: --logprobs %ld are printed as JSON: give --json, too",
                    (long)given->logprobs);
  }
  if (converses && (given->logprobs >= 0 || given->cache_bytes > 0 || given->dry_run)) {
    return tri_fail(TRI_BAD_USAGE,
                    "generate: --logprobs, --cache and --dry-run are not for a conversation; give a message: --chat "
                    "--prompt TEXT, or --prompts FILE");
  }
  if (converses && (given->ranks > 1 || given->request.tensor > 1)) {
    return tri_fail(
        TRI_BAD_USAGE,
        "generate: a conversation has one text at a time, so --chat without --prompt or --prompts takes neither -n nor "
        "--tensor; --threads gives it more cores");
  }
  if (given->request.model.num_forms > 1)
    return tri_fail(TRI_BAD_USAGE, "generate: --weights takes one type here; `trireme eval` compares several");
  TRI_TRY(tri_check_guess_options("generate", &given->request));
  if (!given->chat && given->prompts == NULL && has_chat_options(given)) {
    return tri_fail(TRI_BAD_USAGE,
                    "generate: --system, --chat-template and --chat-set go with --chat, or with conversations in "
                    "--prompts FILE.jsonl");
  }
  return TRI_OK;
}

static tri_status generate_parse(int count, char **arguments, tri_generate_arguments *out) {
  const tri_option_table table = {.command = "generate", .rows = generate_options};
  int first = 0;
  TRI_TRY(tri_options_parse(&table, count, arguments, out, &first));
  if (first + 1 < count) {
    return tri_fail(
        TRI_BAD_USAGE,
        "generate: one run or model at a time, not `%.200s` too; a text to continue is given by --prompt, in "
        "quotes: --prompt 'Once upon a time'",
        arguments[first + 1]);
  }
  if (first == count) return tri_fail(TRI_BAD_USAGE, "generate: name one checkpoint; see trireme generate --help");
  out->request.checkpoint = arguments[first];
  TRI_TRY(check_together(out));
  TRI_TRY(tri_check_weights_option("generate", &out->request.model));
  tri_default_guess_options(&out->request);
  return TRI_OK;
}

/* ---- prompts ----------------------------------------------------------------------------------------------------- */

/* Returns whether standard input is a pipe or a file. The program does not read a terminal, because it would have to
 * wait for the user. */
static bool input_is_piped(void) {
  struct stat about;
  return fstat(STDIN_FILENO, &about) == 0 && (S_ISFIFO(about.st_mode) || S_ISREG(about.st_mode));
}

static bool is_dash(const char *text) { return strcmp(text, "-") == 0; }

static tri_status read_sources(const tri_generate_arguments *given, tri_prompts *out) {
  if (given->prompts != NULL) return tri_prompts_add_lines(out, is_dash(given->prompts) ? NULL : given->prompts);
  if (given->prompt_file != NULL) {
    return tri_prompts_add_file(out, is_dash(given->prompt_file) ? NULL : given->prompt_file);
  }
  if (given->prompt != NULL && !is_dash(given->prompt)) {
    return tri_prompts_add(out, given->prompt, strlen(given->prompt));
  }
  if (given->prompt != NULL || input_is_piped()) return tri_prompts_add_file(out, NULL);
  return tri_prompts_add(out, "", 0);
}

static tri_status read_prompts(const tri_generate_arguments *given, const tri_generation *g, tri_prompts *out) {
  out->generation = g;
  out->template = &given->template;
  out->system = given->system;
  out->chat = given->chat;
  TRI_TRY(read_sources(given, out));
  if (out->rendering.session != NULL || !has_chat_options(given)) return TRI_OK;
  return tri_fail(TRI_BAD_USAGE,
                  "generate: %s has no conversations, so --system, --chat-template and --chat-set have no effect; "
                  "with --chat each line is a message",
                  given->prompts);
}

/* ---- the texts --------------------------------------------------------------------------------------------------- */

/* The texts of all prompts. */
typedef struct generate_texts {
  const tri_generate_arguments *given;
  tri_generation generation;
  tri_prompts prompts;
  tri_texts texts;
  int64_t made, nameless; /* made: number of generated tokens of all texts; nameless: number of these tokens that the
                             tokenizer does not know */
  int64_t complete;       /* number of texts in the output that were not cancelled */
  size_t decoded;         /* bytes of text of all generated tokens */
  const char *stops[TRI_MOST_STOPS]; /* [num_stops], strings that end the answers of conversations */
  int num_stops;
} generate_texts;

static tri_status print_json(const generate_texts *t, const tri_written *text) {
  const char *message = t->prompts.messages[text->number];
  json_t *line = tri_generation_json(&t->generation, text);
  if (line != NULL && message != NULL) json_object_set_new(line, "message", json_string(message));
  return tri_json_write_line(stdout, line, "a text");
}

static tri_status print_text(const generate_texts *t, const tri_written *text) {
  const char *message = t->prompts.messages[text->number];
  if (t->given->json) return print_json(t, text);
  if (text->grew != NULL) return TRI_OK;
  if (t->prompts.count > 1) printf("--- prompt %ld", (long)text->number + 1);
  if (t->texts.samples > 1)
    printf("%s sample %ld", t->prompts.count > 1 ? "," : "---", (long)text->sampling.sample + 1);
  fputs(" ---\n", stdout);
  if (message != NULL) printf("%s\n", message);
  if (message == NULL) fwrite(text->prompt, 1, text->prompt_bytes, stdout);
  fwrite(text->text.text, 1, text->text.bytes, stdout);
  fputc('\n', stdout);
  return TRI_OK;
}

/* Reports the number of complete texts in the output to the parent of a job, which needs it for error messages. */
static void report_progress(const generate_texts *t) {
  tri_log_to_parent("texts %ld of %ld", (long)t->complete, (long)t->texts.count);
}

static tri_status finish_text(void *context, tri_written *text) {
  generate_texts *t = context;
  t->made += text->made;
  t->complete += text->finish != TRI_FINISH_CANCELLED;
  t->nameless += text->nameless;
  t->decoded += text->decoded;
  TRI_TRY(print_text(t, text));
  if (fflush(stdout) != 0)
    return tri_fail(TRI_IO_FAILED, "cannot write to standard output: %s", tri_write_fault(errno));
  report_progress(t);
  return TRI_OK;
}

/* Fails with TRI_BAD_USAGE if no token was generated, and with TRI_BAD_CONFIG if no token has any text. Warns of tokens
 * without text. */
static tri_status judge(const generate_texts *t) {
  const tri_generation *g = &t->generation;
  if (t->made == 0) {
    return tri_fail(TRI_BAD_USAGE,
                    "generate: the model ended the text at once, and no token was written; try another --prompt, "
                    "--seed or --temperature");
  }
  if (t->decoded == 0) {
    return tri_fail(TRI_BAD_CONFIG,
                    "generate: none of the %ld tokens that the model made has any text in the tokenizer, which knows "
                    "%ld of its vocabulary of %ld; name the model's with --tokenizer",
                    (long)t->made, (long)tri_tokenizer_vocab_size(g->tokenizer), (long)g->model.vocab_size);
  }
  if (t->nameless > 0) {
    tri_warn("%ld of %ld tokens are beyond the tokenizer's %ld and were written as nothing", (long)t->nameless,
             (long)t->made, (long)tri_tokenizer_vocab_size(g->tokenizer));
  }
  return TRI_OK;
}

static tri_status write_texts(generate_texts *t) {
  const bool streams = t->texts.count == 1 && !t->given->json;
  const double begin_s = tri_clock_s();
  if (streams) {
    t->texts.list[0].grew = tri_written_print;
    if (t->prompts.messages[0] == NULL) fwrite(t->texts.list[0].prompt, 1, t->texts.list[0].prompt_bytes, stdout);
    fflush(stdout);
  }
  report_progress(t);
  const tri_status status = tri_texts_write(&t->texts, finish_text, t);
  if (streams) fputc('\n', stdout);
  TRI_TRY(status);
  const double took_s = tri_clock_s() - begin_s;
  tri_log("%ld token%s in %.2f s, %.1f tokens/s", (long)t->made, TRI_PLURAL(t->made), took_s,
          (double)t->made / (took_s + 1e-9));
  const tri_generator_counts counts = tri_dispatcher_count(t->generation.dispatcher);
  if (counts.guessed > 0)
    tri_log("%ld of %ld guessed tokens were right, and read with the token before them", (long)counts.kept,
            (long)counts.guessed);
  if (tri_stop_asked())
    return tri_fail(TRI_INTERRUPTED, "interrupted: %ld of %ld texts are complete", (long)t->complete,
                    (long)t->texts.count);
  return judge(t);
}

static void log_idle_replicas(const generate_texts *t) {
  const int replicas = tri_dispatcher_replicas(t->generation.dispatcher);
  const int64_t prompts = t->texts.count / t->texts.samples; /* all samples of a prompt are on one replica */
  if (prompts >= replicas) return;
  tri_log("%ld prompt%s for %d replicas of the model: some have nothing to do", (long)prompts, TRI_PLURAL(prompts),
          replicas);
}

/* Generates this rank's share of the texts. Called on each rank except the first, which writes all texts. */
static tri_status help_with_texts(generate_texts *t) {
  if (t->given->dry_run) return TRI_OK;
  TRI_TRY(tri_texts_load(&t->texts));
  tri_ranks_defer_stop();
  return tri_texts_write(&t->texts, NULL, NULL);
}

/* Adds the template's end of a turn to the strings that end the answers of conversations. Fails with TRI_BAD_USAGE if
 * the prompt of a conversation leaves no room for an answer. */
static tri_status prepare_answers(generate_texts *t) {
  const tri_generate_arguments *given = t->given;
  const int64_t model = t->generation.model.max_sequence;
  const int64_t most = given->context > 0 && given->context < model ? given->context : model;
  const char *turn_end = t->prompts.rendering.turn_end;
  for (int i = 0; i < given->request.num_stops; i++) t->stops[t->num_stops++] = given->request.stops[i];
  if (turn_end[0] != '\0') t->stops[t->num_stops++] = turn_end;
  for (int64_t i = 0; i < t->texts.count; i++) {
    tri_written *text = &t->texts.list[i];
    if (t->prompts.messages[text->number] == NULL) continue;
    text->text.stops = t->stops;
    text->text.num_stops = t->num_stops;
    if (text->prompt_tokens < most) continue;
    return tri_fail(TRI_BAD_USAGE,
                    "generate: prompt %ld has %ld tokens with the chat template, which leaves no room for an answer "
                    "in %ld positions; shorten it",
                    (long)text->number + 1, (long)text->prompt_tokens, (long)most);
  }
  return TRI_OK;
}

static tri_status generate_texts_of(generate_texts *t, const tri_generate_arguments *given) {
  const int ranks = given->request.group->size;
  t->given = given;
  TRI_TRY(tri_ranks_agree(given->request.group, tri_generation_open(&given->request, &t->generation)));
  if (given->request.unmerged && t->generation.weights.adapter == NULL) {
    if (!tri_generation_leads(&t->generation)) return tri_fail(TRI_BAD_USAGE, "%s", "");
    return tri_fail(TRI_BAD_USAGE, "--unmerged is for an adapter, and %s has all weights of its model; leave it out",
                    tri_checkpoint_path(t->generation.weights.named));
  }
  const bool converses = given->chat && given->prompt == NULL && given->prompt_file == NULL && given->prompts == NULL;
  if (converses && ranks > 1) {
    if (!tri_generation_leads(&t->generation)) return tri_fail(TRI_BAD_USAGE, "%s", "");
    return tri_fail(TRI_BAD_USAGE,
                    "generate: a conversation has one text at a time, and this job has %d ranks: start one process",
                    ranks);
  }
  if (converses) return tri_generate_chat(given, &t->generation);
  t->texts.generation = &t->generation;
  if (!tri_generation_leads(&t->generation)) return help_with_texts(t);
  TRI_TRY(read_prompts(given, &t->generation, &t->prompts));
  const tri_texts_request request = {
      .prompts = t->prompts.list,
      .num_prompts = t->prompts.count,
      .samples = given->samples,
      .batch = given->batch,
      .tokens = t->generation.tokens,
      .usual_tokens = t->prompts.rendering.session != NULL ? TRI_USUAL_ANSWER : 0,
      .context = given->context,
      .cache_bytes = given->cache_bytes,
      .requested = {.log_prob = given->logprobs >= 0, .likeliest = given->logprobs > 0 ? given->logprobs : 0},
      .prompt_scores = given->logprobs >= 0,
  };
  TRI_TRY(tri_texts_begin(&t->generation, &request, &t->texts));
  TRI_TRY(prepare_answers(t));
  if (given->dry_run) return tri_generate_plan(&t->texts, given->ranks);
  TRI_TRY(tri_texts_load(&t->texts));
  log_idle_replicas(t);
  tri_ranks_defer_stop();
  return write_texts(t);
}

static tri_status generate_work(void *context, const tri_group *group, int threads) {
  tri_generate_arguments *given = context;
  generate_texts *texts = NULL;
  given->request.group = group;
  if (given->request.model.threads == 0) given->request.model.threads = threads;
  TRI_TRY(tri_alloc("a generation", 1, sizeof *texts, &texts));
  const tri_status status = generate_texts_of(texts, given);
  tri_texts_release(&texts->texts);
  tri_prompts_release(&texts->prompts);
  tri_generation_close(&texts->generation);
  tri_free(texts);
  return status;
}

static tri_status generate_run(int count, char **arguments) {
  tri_generate_arguments parsed = {
      .batch = 8,
      .logprobs = -1,
      .request = {.tokens = -1,
                  .top_k = -1,
                  .temperature = -1,
                  .top_p = -1,
                  .min_p = -1,
                  .repetition_penalty = -1,
                  .seed = 1234,
                  .stops_when_asked = true,
                  .model = tri_model_options_default()},
  };
  TRI_TRY(generate_parse(count, arguments, &parsed));
  signal(SIGPIPE, SIG_IGN); /* so that a failed write is reported */
  const tri_ranks_work work = {.ranks = parsed.dry_run ? 1 : parsed.ranks,
                               .tensor = parsed.request.tensor,
                               .arguments = arguments,
                               .stop_now = "interrupted",
                               .work = generate_work,
                               .context = &parsed};
  return tri_ranks_run(&work);
}

const tri_command tri_command_generate = {
    .name = "generate",
    .summary = "write text with a trained model",
    .usage =
        "usage: trireme generate CHECKPOINT --prompt TEXT [options]\n"
        "       trireme generate CHECKPOINT --prompts FILE [--samples N] [-n RANKS] [--json] [options]\n"
        "       trireme generate CHECKPOINT --chat [--system TEXT] [--prompt TEXT | --prompts FILE] [options]\n"
        "\n"
        "Continues texts, or holds a conversation. CHECKPOINT is a checkpoint's folder, a run's output, or a Hugging "
        "Face\n"
        "folder, whose generation_config.json has the tokens that end a text and, with do_sample, the settings of "
        "sampling that\n"
        "no option sets. A text longer than the model's positions goes on from its last tokens. The exit status is not "
        "0 if no\n"
        "text was written, or if the model's logits are not finite numbers.\n"
        "\n",
    .examples =
        "\n"
        "example: trireme generate runs/gpt2-demo --prompt 'a large' --tokens 40 --temperature 0.8 --top-k 50\n",
    .options = generate_options,
    .holds_signals = true,
    .run = generate_run,
};
