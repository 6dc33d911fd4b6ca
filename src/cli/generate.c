/* Text from a checkpoint, a token at a time, written as it comes. */
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/cli.h"
#include "cli/model_options.h"
#include "cli/options.h"
#include "cli/same_tokenizer.h"
#include "engine/generator.h"
#include "engine/weights.h"
#include "tokenizer/tokenizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct generate_arguments {
  const char *checkpoint, *prompt;
  int64_t tokens; /* 0: not given */
  tri_sampling sampling;
  tri_model_options model;
} generate_arguments;

enum { OPTION_PROMPT = 256, OPTION_TOKENS, OPTION_TEMPERATURE, OPTION_TOP_K, OPTION_TOP_P, OPTION_SEED };

static tri_status take_option(int result, char **arguments, generate_arguments *out) {
  bool taken = false;
  int64_t seed = 0;
  switch (result) {
    case OPTION_PROMPT: out->prompt = optarg; return TRI_OK;
    case OPTION_TOKENS: return tri_option_int("--tokens", optarg, 1, 1 << 24, &out->tokens);
    case OPTION_TEMPERATURE: return tri_option_double("--temperature", optarg, 0.0, 1e6, &out->sampling.temperature);
    case OPTION_TOP_K: return tri_option_int("--top-k", optarg, 0, 1 << 24, &out->sampling.top_k);
    case OPTION_TOP_P: return tri_option_double("--top-p", optarg, 1e-9, 1.0, &out->sampling.top_p);
    case OPTION_SEED:
      TRI_TRY(tri_option_int("--seed", optarg, 0, INT64_MAX, &seed));
      out->sampling.seed = (uint64_t)seed;
      return TRI_OK;
    default: break;
  }
  TRI_TRY(tri_model_option(result, optarg, &out->model, &taken));
  return taken ? TRI_OK : tri_option_fault("generate", result, arguments);
}

static const struct option generate_options[] = {
    {"prompt", required_argument, NULL, OPTION_PROMPT},
    {"tokens", required_argument, NULL, OPTION_TOKENS},
    {"temperature", required_argument, NULL, OPTION_TEMPERATURE},
    {"top-k", required_argument, NULL, OPTION_TOP_K},
    {"top-p", required_argument, NULL, OPTION_TOP_P},
    {"seed", required_argument, NULL, OPTION_SEED},
    TRI_MODEL_OPTION_ROWS,
    {NULL, 0, NULL, 0},
};

static tri_status generate_parse(int count, char **arguments, generate_arguments *out) {
  optind = 1;
  opterr = 0;
  for (int result; (result = getopt_long(count, arguments, ":", generate_options, NULL)) != -1;) {
    TRI_TRY(take_option(result, arguments, out));
  }
  if (optind + 1 != count) return tri_fail(TRI_BAD_USAGE, "generate: name one checkpoint; see trireme generate --help");
  out->checkpoint = arguments[optind];
  return TRI_OK;
}

/* What a generation needs, in the order in which it is made. */
typedef struct session {
  const generate_arguments *arguments;
  tri_model model;
  tri_merged weights;
  tri_tokenizer *tokenizer;
  tri_decoder *decoder;
  tri_token_list tokens; /* the prompt's */
  int64_t num_tokens;    /* to make at most */
  tri_device *device;
  tri_generator *generator;
  tri_candidate *scratch;
} session;

static tri_status encode_prompt(session *s) {
  tri_encoder *encoder = NULL;
  TRI_TRY(tri_encoder_create(s->tokenizer, &encoder));
  tri_status status = tri_encoder_encode(encoder, s->arguments->prompt, strlen(s->arguments->prompt), 1, &s->tokens);
  tri_encoder_destroy(encoder);
  TRI_TRY(status);
  if (s->tokens.count > 0) return TRI_OK;
  /* Nothing to begin with: the end of the text before. */
  int32_t end = tri_tokenizer_end_of_text(s->tokenizer);
  if (end < 0) return tri_fail(TRI_BAD_USAGE, "generate: the prompt is empty; begin it with --prompt TEXT");
  TRI_TRY(tri_alloc("the prompt", 1, sizeof *s->tokens.ids, &s->tokens.ids));
  s->tokens.ids[0] = end;
  s->tokens.count = 1;
  return TRI_OK;
}

/* Without --tokens: a hundred, or as many as there are positions for. */
static tri_status check_lengths(session *s) {
  int64_t vocabulary = tri_tokenizer_vocab_size(s->tokenizer);
  if (vocabulary > s->model.vocab_size) {
    return tri_fail(TRI_BAD_CONFIG,
                    "the tokenizer has %ld tokens and the model's vocabulary %ld: they do not belong "
                    "together; name the model's with --tokenizer",
                    (long)vocabulary, (long)s->model.vocab_size);
  }
  if (tri_tokenizer_leaves_gap(vocabulary, s->model.vocab_size)) {
    tri_log("the tokenizer has %ld tokens and the model's vocabulary %ld: the others spell nothing", (long)vocabulary,
            (long)s->model.vocab_size);
  }
  int64_t room = s->model.max_sequence - s->tokens.count;
  int64_t asked = s->arguments->tokens > 0 ? s->arguments->tokens : room < 100 ? room : 100;
  s->num_tokens = asked < 1 ? 1 : asked;
  if (s->num_tokens > room) {
    return tri_fail(TRI_BAD_USAGE,
                    "generate: %ld tokens of prompt and %ld more are beyond the %ld positions that the model has; ask "
                    "for --tokens %ld or fewer",
                    (long)s->tokens.count, (long)s->num_tokens, (long)s->model.max_sequence,
                    (long)(room < 0 ? 0 : room));
  }
  return TRI_OK;
}

static tri_status generate_set_up(session *s) {
  const generate_arguments *arguments = s->arguments;
  char tokenizer[TRI_PATH_BYTES];
  const tri_checkpoint_use use = tri_model_options_use(&arguments->model);
  TRI_TRY(tri_merged_open(arguments->checkpoint, arguments->model.base, &use, &s->model, &s->weights));
  TRI_TRY(tri_weights_tokenizer(&s->weights, arguments->model.tokenizer, !arguments->model.no_verify, tokenizer));
  if (tokenizer[0] == '\0') {
    return tri_fail(TRI_BAD_FILE, "%s has no tokenizer.json; name one with --tokenizer",
                    tri_checkpoint_path(s->weights.named));
  }
  TRI_TRY(tri_tokenizer_create(tokenizer, &s->tokenizer));
  TRI_TRY(tri_cli_same_tokenizer(tri_weights_tokenizer_folder(&s->weights), arguments->model.tokenizer, s->tokenizer));
  TRI_TRY(encode_prompt(s));
  TRI_TRY(tri_decoder_create(s->tokenizer, arguments->prompt[0] == '\0', &s->decoder));
  TRI_TRY(check_lengths(s));
  TRI_TRY(tri_device_create(arguments->model.device, (int)arguments->model.threads, &s->device));
  TRI_TRY(tri_generator_create(&s->model, arguments->model.precision, s->tokens.count + s->num_tokens, s->tokens.count,
                               s->device, &s->generator));
  TRI_TRY(tri_alloc("candidates", (size_t)s->model.vocab_size, sizeof *s->scratch, &s->scratch));
  return tri_weights_load(&s->weights, tri_generator_parameters(s->generator), tri_generator_executor(s->generator));
}

/* No token can be drawn from what is no number, and the most likely of such is one at random. */
static tri_status check_logits(const session *s, const double *logits, int64_t position) {
  for (int64_t i = 0; i < s->model.vocab_size; i++) {
    if (isfinite(logits[i])) continue;
    return tri_fail(TRI_DIVERGED,
                    "generate: behind %ld tokens the model's logits are not finite (that of token %ld is %g): it has "
                    "diverged, or its numbers are beyond --precision %s",
                    (long)position, (long)i, logits[i], tri_dtype_name(s->arguments->model.precision));
  }
  return TRI_OK;
}

/* What came of it. */
typedef struct written {
  int64_t made, nameless; /* tokens, and those that the tokenizer does not know */
  size_t bytes;
} written;

/* Text that is none is no result. */
static tri_status judge(const session *s, const written *w) {
  if (w->made == 0) {
    return tri_fail(TRI_BAD_USAGE,
                    "generate: the model ended the text at once, and no token was written; try another --prompt, "
                    "--seed or --temperature");
  }
  if (w->bytes == 0) {
    return tri_fail(TRI_BAD_CONFIG,
                    "generate: none of the %ld tokens that the model made has any text in the tokenizer, which knows "
                    "%ld of its vocabulary of %ld; name the model's with --tokenizer",
                    (long)w->made, (long)tri_tokenizer_vocab_size(s->tokenizer), (long)s->model.vocab_size);
  }
  if (w->nameless > 0) {
    tri_warn("%ld of %ld tokens are beyond the tokenizer's %ld and were written as nothing", (long)w->nameless,
             (long)w->made, (long)tri_tokenizer_vocab_size(s->tokenizer));
  }
  return TRI_OK;
}

static tri_status write_token(const session *s, int32_t id, written *w) {
  size_t bytes = 0;
  const char *text = NULL;
  TRI_TRY(tri_decoder_next(s->decoder, id, &text, &bytes));
  fwrite(text, 1, bytes, stdout);
  if (fflush(stdout) != 0) return tri_fail(TRI_IO_FAILED, "cannot write to standard output");
  w->made++;
  w->bytes += bytes;
  w->nameless += id >= tri_tokenizer_vocab_size(s->tokenizer);
  return TRI_OK;
}

/* Ends at the end of a text, without writing that token. */
static tri_status write_tokens(session *s, written *w) {
  const double *logits = NULL;
  int32_t end = tri_tokenizer_end_of_text(s->tokenizer);
  TRI_TRY(tri_generator_append(s->generator, s->tokens.ids, s->tokens.count, &logits));
  while (w->made < s->num_tokens) {
    int64_t position = s->tokens.count + w->made;
    TRI_TRY(check_logits(s, logits, position));
    int32_t id = tri_sample_token(logits, s->model.vocab_size, &s->arguments->sampling, position, s->scratch);
    if (id == end) break;
    TRI_TRY(write_token(s, id, w));
    if (w->made < s->num_tokens) TRI_TRY(tri_generator_append(s->generator, &id, 1, &logits));
  }
  return TRI_OK;
}

/* The beginning of a letter that the last tokens left unfinished. */
static void write_rest(const session *s, written *w) {
  size_t bytes = 0;
  const char *text = NULL;
  tri_decoder_end(s->decoder, &text, &bytes);
  fwrite(text, 1, bytes, stdout);
  w->bytes += bytes;
}

static tri_status write_text(session *s) {
  written w = {.made = 0};
  double begin_s = tri_clock_s();
  fputs(s->arguments->prompt, stdout);
  fflush(stdout);
  tri_status status = write_tokens(s, &w);
  write_rest(s, &w);
  fputc('\n', stdout);
  TRI_TRY(status);
  double took_s = tri_clock_s() - begin_s;
  tri_log("%ld tokens in %.2f s, %.1f tokens/s", (long)w.made, took_s, (double)w.made / (took_s + 1e-9));
  return judge(s, &w);
}

static tri_status generate_run(int count, char **arguments) {
  generate_arguments parsed = {
      .prompt = "",
      .sampling = {.temperature = 1.0, .top_p = 1.0, .seed = 1234},
      .model = tri_model_options_default(),
  };
  TRI_TRY(generate_parse(count, arguments, &parsed));
  session *s = NULL;
  TRI_TRY(tri_alloc("a generation", 1, sizeof *s, &s));
  s->arguments = &parsed;
  tri_status status = generate_set_up(s);
  if (status == TRI_OK) status = write_text(s);
  tri_free(s->scratch);
  tri_generator_destroy(s->generator);
  tri_device_destroy(s->device);
  tri_free(s->tokens.ids);
  tri_decoder_destroy(s->decoder);
  tri_tokenizer_destroy(s->tokenizer);
  tri_merged_close(&s->weights);
  tri_free(s);
  return status;
}

const tri_command tri_command_generate = {
    .name = "generate",
    .summary = "write text with a trained model",
    .help =
        "usage: trireme generate CHECKPOINT --prompt TEXT [options]\n"
        "\n"
        "Continues a text. CHECKPOINT is a checkpoint's folder, a run's output, or a Hugging Face folder. The exit "
        "status is\n"
        "not 0 where no text came of it, or the model's logits are no numbers.\n"
        "\n"
        "  --prompt TEXT       what to begin with\n"
        "  --tokens N          tokens to write at most (100, or what the model has positions for)\n"
        "  --temperature T     0 takes the most likely token each time, 1 draws as the model says (1)\n"
        "  --top-k K           draw from the K most likely (0: from all)\n"
        "  --top-p P           draw from the most likely that together have probability P (1)\n"
        "  --seed S            the same seed writes the same text (1234)\n" TRI_MODEL_OPTION_HELP
        "\n"
        "example: trireme generate runs/gpt2-demo --prompt 'a large' --tokens 40 --temperature 0.8 --top-k 50\n",
    .options = generate_options,
    .run = generate_run,
};
