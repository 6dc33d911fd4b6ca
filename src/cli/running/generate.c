/* `trireme generate`: one text, printed token by token; several texts in a batch; or a conversation. */
#include "cli/running/generate.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/stop.h"
#include "cli/cli.h"
#include "cli/running/model_options.h"
#include "cli/running/prompts.h"
#include "files/write_fault.h"
#include "generation/texts.h"
#include "options/options.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- options ----------------------------------------------------------------------------------------------------- */

enum {
  OPTION_PROMPT = 256,
  OPTION_PROMPT_FILE,
  OPTION_PROMPTS,
  OPTION_TOKENS,
  OPTION_SAMPLES,
  OPTION_BATCH,
  OPTION_CONTEXT,
  OPTION_STOP,
  OPTION_IGNORE_END,
  OPTION_TEMPERATURE,
  OPTION_TOP_K,
  OPTION_TOP_P,
  OPTION_MIN_P,
  OPTION_REPETITION,
  OPTION_SEED,
  OPTION_JSON,
  OPTION_LOGPROBS,
  OPTION_CACHE,
  OPTION_DRY_RUN,
  OPTION_LOOKUP,
  OPTION_DRAFT,
  OPTION_DRAFT_TOKENS,
  OPTION_CHAT,
  OPTION_SYSTEM,
  OPTION_CHAT_TEMPLATE,
  OPTION_CHAT_SET
};

enum { USUAL_DRAFT_TOKENS = 4 };

static const struct option generate_options[] = {
    {"prompt", required_argument, NULL, OPTION_PROMPT},
    {"prompt-file", required_argument, NULL, OPTION_PROMPT_FILE},
    {"prompts", required_argument, NULL, OPTION_PROMPTS},
    {"tokens", required_argument, NULL, OPTION_TOKENS},
    {"samples", required_argument, NULL, OPTION_SAMPLES},
    {"batch", required_argument, NULL, OPTION_BATCH},
    {"context", required_argument, NULL, OPTION_CONTEXT},
    {"stop", required_argument, NULL, OPTION_STOP},
    {"ignore-end", no_argument, NULL, OPTION_IGNORE_END},
    {"temperature", required_argument, NULL, OPTION_TEMPERATURE},
    {"top-k", required_argument, NULL, OPTION_TOP_K},
    {"top-p", required_argument, NULL, OPTION_TOP_P},
    {"min-p", required_argument, NULL, OPTION_MIN_P},
    {"repetition-penalty", required_argument, NULL, OPTION_REPETITION},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"json", no_argument, NULL, OPTION_JSON},
    {"logprobs", required_argument, NULL, OPTION_LOGPROBS},
    {"cache", required_argument, NULL, OPTION_CACHE},
    {"dry-run", no_argument, NULL, OPTION_DRY_RUN},
    {"prompt-lookup", required_argument, NULL, OPTION_LOOKUP},
    {"draft", required_argument, NULL, OPTION_DRAFT},
    {"draft-tokens", required_argument, NULL, OPTION_DRAFT_TOKENS},
    {"chat", no_argument, NULL, OPTION_CHAT},
    {"system", required_argument, NULL, OPTION_SYSTEM},
    {"chat-template", required_argument, NULL, OPTION_CHAT_TEMPLATE},
    {"chat-set", required_argument, NULL, OPTION_CHAT_SET},
    TRI_MODEL_OPTION_ROWS,
    {NULL, 0, NULL, 0},
};

static tri_status add_stop(tri_generate_arguments *out, const char *text) {
  if (text[0] == '\0') return tri_fail(TRI_BAD_USAGE, "the text of --stop is empty; give the text to stop at");
  if (out->request.num_stops == TRI_MOST_STOPS - 1) { /* one stop text is reserved for the chat template */
    return tri_fail(TRI_BAD_USAGE, "--stop can be given %d times at most", TRI_MOST_STOPS - 1);
  }
  out->request.stops[out->request.num_stops++] = text;
  return TRI_OK;
}

static tri_status add_chat_set(tri_generate_arguments *out, const char *text) {
  if (out->num_chat_sets == TRI_MOST_CHAT_SETS) {
    return tri_fail(TRI_BAD_USAGE, "--chat-set can be given %d times at most", TRI_MOST_CHAT_SETS);
  }
  out->chat_sets[out->num_chat_sets++] = text;
  return TRI_OK;
}

static tri_status read_sampling(int result, tri_generate_arguments *out, bool *taken) {
  int64_t seed = 0;
  *taken = true;
  switch (result) {
    case OPTION_TEMPERATURE: return tri_option_double("--temperature", optarg, 0.0, 1e6, &out->request.temperature);
    case OPTION_TOP_K: return tri_option_int("--top-k", optarg, 0, 1 << 24, &out->request.top_k);
    case OPTION_TOP_P: return tri_option_double("--top-p", optarg, 1e-9, 1.0, &out->request.top_p);
    case OPTION_MIN_P: return tri_option_double("--min-p", optarg, 0.0, 1.0, &out->request.min_p);
    case OPTION_REPETITION:
      return tri_option_double("--repetition-penalty", optarg, 1e-2, 1e2, &out->request.repetition_penalty);
    case OPTION_SEED:
      TRI_TRY(tri_option_int("--seed", optarg, 0, INT64_MAX, &seed));
      out->request.seed = (uint64_t)seed;
      return TRI_OK;
    default: *taken = false; return TRI_OK;
  }
}

static tri_status read_guesses(int result, tri_generate_arguments *out, bool *taken) {
  *taken = true;
  switch (result) {
    case OPTION_LOOKUP: return tri_option_int("--prompt-lookup", optarg, 1, TRI_MOST_GUESSES, &out->request.lookup);
    case OPTION_DRAFT: out->request.draft = optarg; return TRI_OK;
    case OPTION_DRAFT_TOKENS:
      return tri_option_int("--draft-tokens", optarg, 1, TRI_MOST_GUESSES, &out->request.draft_tokens);
    default: *taken = false; return TRI_OK;
  }
}

static tri_status read_conversation(int result, tri_generate_arguments *out, bool *taken) {
  *taken = true;
  switch (result) {
    case OPTION_CHAT: out->chat = true; return TRI_OK;
    case OPTION_SYSTEM: out->system = optarg; return TRI_OK;
    case OPTION_CHAT_TEMPLATE: out->chat_template = optarg; return TRI_OK;
    case OPTION_CHAT_SET: return add_chat_set(out, optarg);
    default: *taken = false; return TRI_OK;
  }
}

static tri_status read_option(int result, char **arguments, tri_generate_arguments *out) {
  bool taken = false;
  switch (result) {
    case OPTION_PROMPT: out->prompt = optarg; return TRI_OK;
    case OPTION_PROMPT_FILE: out->prompt_file = optarg; return TRI_OK;
    case OPTION_PROMPTS: out->prompts = optarg; return TRI_OK;
    case OPTION_TOKENS: return tri_option_int("--tokens", optarg, 1, 1 << 24, &out->request.tokens);
    case OPTION_SAMPLES: return tri_option_int("--samples", optarg, 1, 1 << 20, &out->samples);
    case OPTION_BATCH: return tri_option_int("--batch", optarg, 1, 1 << 12, &out->batch);
    case OPTION_CONTEXT: return tri_option_int("--context", optarg, 2, 1 << 30, &out->context);
    case OPTION_STOP: return add_stop(out, optarg);
    case OPTION_IGNORE_END: out->request.ignore_end = true; return TRI_OK;
    case OPTION_JSON: out->json = true; return TRI_OK;
    case OPTION_LOGPROBS: return tri_option_int("--logprobs", optarg, 0, TRI_MOST_LIKELY, &out->logprobs);
    case OPTION_CACHE: return tri_option_bytes("--cache", optarg, &out->cache_bytes);
    case OPTION_DRY_RUN: out->dry_run = true; return TRI_OK;
    default: break;
  }
  TRI_TRY(read_sampling(result, out, &taken));
  if (!taken) TRI_TRY(read_guesses(result, out, &taken));
  if (!taken) TRI_TRY(read_conversation(result, out, &taken));
  if (!taken) TRI_TRY(tri_model_option(result, optarg, &out->request.model, &taken));
  return taken ? TRI_OK : tri_option_fault("generate", result, arguments, generate_options);
}

static tri_status check_together(const tri_generate_arguments *given) {
  const int sources = (given->prompt != NULL) + (given->prompt_file != NULL) + (given->prompts != NULL);
  if (sources > 1) return tri_fail(TRI_BAD_USAGE, "generate: --prompt, --prompt-file or --prompts, one of them");
  if (given->chat && (sources > 0 || given->samples > 0)) {
    return tri_fail(TRI_BAD_USAGE,
                    "generate: --chat reads the user's messages from standard input, one per line, and takes no "
                    "--prompt, --prompt-file, --prompts or --samples");
  }
  if (given->logprobs >= 0 && !given->json) {
    return tri_fail(TRI_BAD_USAGE, "generate: --logprobs %ld are printed as JSON: give --json, too",
                    (long)given->logprobs);
  }
  if (given->chat && (given->logprobs >= 0 || given->cache_bytes > 0 || given->dry_run)) {
    return tri_fail(TRI_BAD_USAGE, "generate: --logprobs, --cache and --dry-run are not for --chat");
  }
  if (given->request.lookup > 0 && given->request.draft != NULL)
    return tri_fail(TRI_BAD_USAGE, "generate: --prompt-lookup or --draft, one of them");
  if (given->request.draft_tokens > 0 && given->request.draft == NULL)
    return tri_fail(TRI_BAD_USAGE, "generate: --draft-tokens goes with --draft FOLDER");
  if (!given->chat && (given->system != NULL || given->chat_template != NULL || given->num_chat_sets > 0)) {
    return tri_fail(TRI_BAD_USAGE, "generate: --system, --chat-template and --chat-set go with --chat");
  }
  return TRI_OK;
}

static tri_status generate_parse(int count, char **arguments, tri_generate_arguments *out) {
  optind = 1;
  opterr = 0;
  for (int result; (result = getopt_long(count, arguments, ":", generate_options, NULL)) != -1;) {
    TRI_TRY(read_option(result, arguments, out));
  }
  if (optind + 1 < count) {
    return tri_fail(
        TRI_BAD_USAGE,
        "generate: one run or model at a time, not `%.200s` too; a text to continue is given by --prompt, in "
        "quotes: --prompt 'Once upon a time'",
        arguments[optind + 1]);
  }
  if (optind == count) return tri_fail(TRI_BAD_USAGE, "generate: name one checkpoint; see trireme generate --help");
  out->request.checkpoint = arguments[optind];
  TRI_TRY(check_together(out));
  if (out->request.draft_tokens == 0) out->request.draft_tokens = USUAL_DRAFT_TOKENS;
  return TRI_OK;
}

/* ---- prompts ----------------------------------------------------------------------------------------------------- */

/* Returns whether standard input is a pipe or a file. A terminal is not read, because that would wait for the user. */
static bool input_is_piped(void) {
  struct stat about;
  return fstat(STDIN_FILENO, &about) == 0 && (S_ISFIFO(about.st_mode) || S_ISREG(about.st_mode));
}

static bool is_dash(const char *text) { return strcmp(text, "-") == 0; }

static tri_status read_prompts(const tri_generate_arguments *given, tri_prompts *out) {
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

/* ---- the texts --------------------------------------------------------------------------------------------------- */

/* Texts of all prompts. */
typedef struct generate_texts {
  const tri_generate_arguments *given;
  tri_generation generation;
  tri_prompts prompts;
  tri_texts texts;
  int64_t made, nameless; /* tokens of all texts, and those that the tokenizer does not know */
  int64_t complete;       /* texts that were not cancelled */
  size_t decoded;
} generate_texts;

static tri_status print_json(const tri_generation *g, const tri_written *text) {
  json_t *line = tri_generation_json(g, text);
  char *dumped = line == NULL ? NULL : json_dumps(line, JSON_COMPACT);
  json_decref(line);
  if (dumped == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: a text as JSON");
  printf("%s\n", dumped);
  free(dumped);
  return TRI_OK;
}

static tri_status print_text(const generate_texts *t, const tri_written *text) {
  if (t->given->json) return print_json(&t->generation, text);
  if (text->streams) return TRI_OK;
  if (t->prompts.count > 1) printf("--- prompt %ld", (long)text->number + 1);
  if (t->texts.samples > 1)
    printf("%s sample %ld", t->prompts.count > 1 ? "," : "---", (long)text->sampling.sample + 1);
  fputs(" ---\n", stdout);
  fwrite(text->prompt, 1, text->prompt_bytes, stdout);
  fwrite(text->text.text, 1, text->text.bytes, stdout);
  fputc('\n', stdout);
  return TRI_OK;
}

static tri_status finish_text(void *context, tri_written *text) {
  generate_texts *t = context;
  t->made += text->made;
  t->complete += text->finish != TRI_FINISH_CANCELLED;
  t->nameless += text->nameless;
  t->decoded += text->decoded;
  TRI_TRY(print_text(t, text));
  return fflush(stdout) == 0 ? TRI_OK
                             : tri_fail(TRI_IO_FAILED, "cannot write to standard output: %s", tri_write_fault(errno));
}

/* Fails if no token was generated or no token has any text, and warns of tokens without text. */
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
    t->texts.list[0].streams = true;
    fwrite(t->texts.list[0].prompt, 1, t->texts.list[0].prompt_bytes, stdout);
    fflush(stdout);
  }
  const tri_status status = tri_texts_write(&t->texts, finish_text, t);
  if (streams) fputc('\n', stdout);
  TRI_TRY(status);
  const double took_s = tri_clock_s() - begin_s;
  tri_log("%ld token%s in %.2f s, %.1f tokens/s", (long)t->made, TRI_PLURAL(t->made), took_s,
          (double)t->made / (took_s + 1e-9));
  const tri_generator_counts counts = tri_generator_count(t->generation.generator);
  if (counts.guessed > 0)
    tri_log("%ld of %ld guessed tokens were right, and read with the token before them", (long)counts.kept,
            (long)counts.guessed);
  if (tri_stop_asked())
    return tri_fail(TRI_INTERRUPTED, "interrupted: %ld of %ld texts are complete", (long)t->complete,
                    (long)t->texts.count);
  return judge(t);
}

static tri_status generate_texts_of(generate_texts *t, const tri_generate_arguments *given) {
  t->given = given;
  TRI_TRY(tri_generation_open(&given->request, &t->generation));
  if (given->chat) return tri_generate_chat(given, &t->generation);
  TRI_TRY(read_prompts(given, &t->prompts));
  const tri_texts_request request = {
      .prompts = t->prompts.list,
      .num_prompts = t->prompts.count,
      .samples = given->samples,
      .batch = given->batch,
      .tokens = t->generation.tokens,
      .context = given->context,
      .cache_bytes = given->cache_bytes,
      .requested = {.log_prob = given->logprobs >= 0, .likeliest = given->logprobs > 0 ? given->logprobs : 0},
      .prompt_scores = given->logprobs >= 0,
  };
  TRI_TRY(tri_texts_begin(&t->generation, &request, &t->texts));
  if (given->dry_run) return tri_generate_plan(&t->texts);
  TRI_TRY(tri_texts_load(&t->texts));
  tri_stop_defer("interrupted twice, so it ends at once");
  return write_texts(t);
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
  generate_texts *texts = NULL;
  signal(SIGPIPE, SIG_IGN); /* failed writes are reported */
  TRI_TRY(tri_stop_listen("interrupted"));
  TRI_TRY(tri_alloc("a generation", 1, sizeof *texts, &texts));
  const tri_status status = generate_texts_of(texts, &parsed);
  tri_texts_release(&texts->texts);
  tri_prompts_release(&texts->prompts);
  tri_generation_close(&texts->generation);
  tri_free(texts);
  return status;
}

const tri_command tri_command_generate = {
    .name = "generate",
    .summary = "write text with a trained model",
    .help =
        "usage: trireme generate CHECKPOINT --prompt TEXT [options]\n"
        "       trireme generate CHECKPOINT --prompts FILE [--samples N] [--json] [options]\n"
        "       trireme generate CHECKPOINT --chat [--system TEXT] [options]\n"
        "\n"
        "Continues texts, or holds a conversation. CHECKPOINT is a checkpoint's folder, a run's output, or a Hugging "
        "Face\n"
        "folder, whose generation_config.json says what ends a text and, where it has do_sample, how tokens are drawn "
        "unless\n"
        "an option does. A text longer than the model's positions goes on from its last tokens. The exit status is not "
        "0 where\n"
        "no text came of it, or the model's logits are not numbers.\n"
        "\n"
        "  --prompt TEXT       what to begin with; - is standard input, which is read too where it is a pipe or a "
        "file\n"
        "  --chat              a conversation: each line of standard input is a message; /quit or its end ends it\n"
        "  --system TEXT       of a conversation: the system's message\n"
        "  --tokens N          tokens to write at most (max_new_tokens of the folder, else 100, or what the model has "
        "positions for;\n"
        "                      of an answer 512)\n"
        "  --temperature T     0 takes the most likely token each time, 1 draws as the model says (1)\n"
        "  --prompt-file FILE  the same from a file, without the newline at its end\n"
        "  --prompts FILE      many: one a line, or {\"prompt\": \"...\"} a line of FILE.jsonl; - is standard input\n"
        "  --samples N         texts of each prompt, each drawn by itself (1)\n"
        "  --batch N           texts that are written side by side (8)\n"
        "  --json              a line of JSON for each text: step, number, sample, prompt, text, tokens, finish, stop\n"
        "  --logprobs N        with --json, ids and log-probabilities of all tokens, in the model's own distribution "
        "and in\n"
        "                      the one that was sampled from, and the N likeliest tokens of each place (0 to 20)\n"
        "  --cache BYTES       memory for keys and values, as 512MiB (all that --batch texts can take)\n"
        "  --dry-run           print the memory that it takes, and write nothing\n"
        "  --prompt-lookup N   guess up to N tokens (1 to 16) from what followed the same tokens earlier in the text, "
        "while\n"
        "                      that is faster: the text is the same\n"
        "  --draft FOLDER      guess with a smaller model that has the same tokenizer: the text is the same\n"
        "  --draft-tokens N    that it guesses at a time (4)\n"
        "  --stop TEXT         ends a text before TEXT; may be given again\n"
        "  --ignore-end        a text does not end with the token that ends one\n"
        "  --context N         positions to use at most (the model's; in a conversation 4096 of them)\n"
        "  --top-k K           draw from the K most likely (0: from all)\n"
        "  --top-p P           draw from the most likely that together have probability P (1)\n"
        "  --min-p P           leave out what has less than P times the most likely one's probability (0)\n"
        "  --repetition-penalty R   divides the logits of tokens that were there already, where they are above 0 (1)\n"
        "  --seed S            the same seed writes the same text (1234)\n"
        "  --chat-template FILE, --chat-set NAME=VALUE   as in trireme prepare; the folder's template unless "
        "given\n" TRI_MODEL_OPTION_HELP
        "\n"
        "example: trireme generate runs/gpt2-demo --prompt 'a large' --tokens 40 --temperature 0.8 --top-k 50\n",
    .options = generate_options,
    .paths = "prompt-file prompts chat-template base tokenizer draft",
    .holds_signals = true,
    .run = generate_run,
};
