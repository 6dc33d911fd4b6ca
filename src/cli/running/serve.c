/* `trireme serve`: answers requests for text over HTTP, in the forms of OpenAI's API. */
#include "base/log.h"
#include "base/memory.h"
#include "base/stop.h"
#include "cli/cli.h"
#include "cli/running/chat_choice.h"
#include "cli/running/generate.h"
#include "cli/running/generation_options.h"
#include "cli/running/model_options.h"
#include "cli/running/ranks.h"
#include "files/file.h"
#include "files/write_fault.h"
#include "ops/rope_scaling.h"
#include "serve/engine.h"
#include "serve/service.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
  DEFAULT_PORT = 8000,
  MOST_KEYS = 1024,
  LONGEST_POSITIONS = 8192,
  KEY_FILE_BYTES = 1 << 20,
  SEND_S = 10,
  MORE_CONNECTIONS = 256
};

static const double REFUSE_S = 0.5; /* time for the replies of refuse_open, in seconds */

typedef struct serve_arguments {
  tri_generation_request request;
  tri_http_options http;
  tri_serve_limits limits;
  tri_chat_choice template;
  const char *name, *ignore, *key_file;
  int64_t batch, context, ranks; /* context, ranks: 0 if not given */
  size_t cache_bytes, body_bytes;
  double ping_s;
  bool no_token, dry_run, follows;
} serve_arguments;

#define TRI_OPTION_VALUES serve_arguments
static const tri_option serve_options[] = {
    {TRI_INT("port", http.port, 0, 65535),
     .help = "  --port N            port to listen on (8000); 0: any free port\n"},
    {TRI_TEXT("host", http.host),
     .help = "  --host ADDRESS      address to listen on (127.0.0.1, reachable from this machine only); the connection "
             "is not\n"
             "                      encrypted\n"},
    {TRI_PATH("socket", http.path),
     .help =
         "  --socket PATH       listen at a socket of the file system, which only you may use, instead of a port\n"},
    {TRI_PATH("api-key-file", key_file),
     .help =
         "  --api-key-file FILE   keys that clients may use, one per line; without it one key is drawn and printed\n"},
    {TRI_FLAG("token", http.wants_token), .help = "  --token             require a key at a --socket too\n"},
    {TRI_FLAG("no-token", no_token),
     .help =
         "  --no-token          require no key; only on 127.0.0.1, where everyone with an account on this machine can "
         "ask\n"},
    {TRI_TEXT("origin", http.origin),
     .help =
         "  --origin URL        let pages of this origin use the server (CORS), such as https://chat.example.org\n"},
    {TRI_TEXT("served-model-name", name),
     .help = "  --served-model-name NAME   name of the model for clients (the folder's)\n"},
    {TRI_TEXT("ignore", ignore), .help = "  --ignore NAMES      fields of requests to ignore although they are not "
                                         "supported, such as tools,response_format\n"},
    {TRI_FLAG("follow", follows),
     .help = "  --follow            load each newer checkpoint of the run, between two texts; answers name its step\n"},
    {TRI_INT("batch", batch, 1, 1 << 12),
     .help = "  --batch N           texts that are written side by side on each rank (8)\n"},
    {TRI_LENGTH("context", context, 2, 1 << 30),
     .help = "  --context N         positions of a text, with its prompt (the model's, 8192 of them at most)\n"},
    {TRI_BYTES("cache", cache_bytes),
     .help = "  --cache BYTES       memory for keys and values, such as 512MiB (all that --batch texts can need)\n"},
    {TRI_INT("max-tokens", limits.max_tokens, 1, 1 << 24),
     .help = "  --max-tokens N      most tokens of a chat's answer, unless the request sets it (as many as there are "
             "positions left)\n"},
    {TRI_INT("ranks", ranks, 1, 1 << 24), .letter = 'n',
     .help = "  -n, --ranks N       N processes share the texts, through this machine's mpiexec; the texts are the "
             "same\n"},
    {TRI_INT("tensor", request.tensor, 1, 1 << 16),
     .help = "  --tensor T          T of the N ranks hold one copy of the weights (1)\n"},
    {TRI_FLAG("dry-run", dry_run),
     .help = "  --dry-run           print the memory that is needed, and serve nothing\n"},
    {TRI_INT("queue", limits.queue, 1, 1 << 20),
     .help = "  --queue N           requests that may wait (256); more are refused with 429\n"},
    {TRI_INT("max-n", limits.texts, 1, TRI_SERVE_MOST_TEXTS),
     .help = "  --max-n N           texts of one request: prompts times n (128)\n"},
    {TRI_INT("max-stops", limits.stops, 1, TRI_SERVE_MOST_STOPS),
     .help = "  --max-stops N       stop strings of a request (16)\n"},
    {TRI_INT("max-bias", limits.bias, 1, 1 << 20),
     .help = "  --max-bias N        entries of logit_bias of a request (1024)\n"},
    {TRI_INT("max-depth", limits.depth, 2, 1000),
     .help = "  --max-depth N       levels of brackets of a request (64)\n"},
    {TRI_INT("max-connections", limits.connections, 1, 1 << 16),
     .help = "  --max-connections N   connections at once (256 more than --queue)\n"},
    {TRI_INT("max-per-address", limits.of_one_machine, 1, 1 << 16),
     .help = "  --max-per-address N   connections of one machine, if other machines can reach the port (256)\n"},
    {TRI_BYTES("max-body", body_bytes), .help = "  --max-body BYTES    size of a request (4MiB)\n"},
    {TRI_DOUBLE("ping", ping_s, 0.1, 1e6),
     .help = "  --ping S            seconds after which a silent stream gets a comment (5)\n"},
    {TRI_GROUP(request, tri_generation_request, tri_guess_option_rows)},
    {TRI_FLAG("unmerged", request.unmerged), .help = "  --unmerged          of an adapter: keep its factors beside the "
                                                     "base, as in training, and do not add them to it\n"},
    {TRI_DOUBLE("temperature", request.temperature, 0.0, 1e6),
     .help = "  --temperature T     for requests that do not set it, like the options below (the folder's, else 1)\n"},
    {TRI_GROUP(request, tri_generation_request, tri_sampling_option_rows)},
    {TRI_GROUP(template, tri_chat_choice, tri_chat_choice_rows)},
    {TRI_GROUP(request.model, tri_model_options, tri_model_option_rows)},
    {0}};

static tri_status check_together(const serve_arguments *given) {
  const bool at_port = given->http.host != NULL || given->http.port != DEFAULT_PORT;
  if (given->http.path != NULL && at_port)
    return tri_fail(TRI_BAD_USAGE, "serve: --socket, or --host and --port, one of them");
  if (given->no_token && (given->key_file != NULL || given->http.wants_token))
    return tri_fail(TRI_BAD_USAGE, "serve: --no-token goes with neither --api-key-file nor --token");
  for (const char *at = given->http.origin; at != NULL && *at != '\0'; at++) {
    if (*at <= ' ' || *at > '~')
      return tri_fail(TRI_BAD_USAGE, "serve: --origin should be as https://chat.example.org, without spaces");
  }
  if (given->request.model.num_forms > 1)
    return tri_fail(TRI_BAD_USAGE, "serve: --weights takes one type here; `trireme eval` compares several");
  return tri_check_guess_options("serve", &given->request);
}

static tri_status serve_parse(int count, char **arguments, serve_arguments *out) {
  const tri_option_table table = {.command = "serve", .rows = serve_options};
  int first = 0;
  TRI_TRY(tri_options_parse(&table, count, arguments, out, &first));
  if (first + 1 < count)
    return tri_fail(TRI_BAD_USAGE, "serve: one run or model at a time, not `%.200s` too", arguments[first + 1]);
  if (first == count) return tri_fail(TRI_BAD_USAGE, "serve: name one checkpoint; see trireme serve --help");
  out->request.checkpoint = arguments[first];
  TRI_TRY(check_together(out));
  if (out->body_bytes > 0) out->limits.body_bytes = (int64_t)out->body_bytes;
  if (out->http.path == NULL && !out->no_token) out->http.wants_token = true;
  if (out->limits.connections == 0) out->limits.connections = out->limits.queue + MORE_CONNECTIONS;
  TRI_TRY(tri_check_weights_option("serve", &out->request.model));
  tri_default_guess_options(&out->request);
  return TRI_OK;
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

/* The keys of --api-key-file. */
typedef struct serve_keys {
  char *text; /* the file, with a NUL after each key */
  const char *list[MOST_KEYS];
  int count;
} serve_keys;

static tri_status read_keys(const char *path, serve_keys *out) {
  size_t bytes = 0;
  if (path == NULL) return TRI_OK;
  TRI_TRY(tri_file_read(path, KEY_FILE_BYTES, &out->text, &bytes));
  for (char *line = strtok(out->text, "\r\n"); line != NULL; line = strtok(NULL, "\r\n")) {
    line += strspn(line, " \t");
    size_t length = strlen(line);
    while (length > 0 && strchr(" \t", line[length - 1]) != NULL) line[--length] = '\0';
    if (length == 0 || line[0] == '#') continue;
    if (strpbrk(line, " \t") != NULL)
      return tri_fail(TRI_BAD_FILE, "%s: key %d has a space; write one key on each line", path, out->count + 1);
    if (out->count == MOST_KEYS) return tri_fail(TRI_BAD_FILE, "%s has more than %d keys", path, (int)MOST_KEYS);
    out->list[out->count++] = line;
  }
  if (out->count > 0) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "%s has no key; write one on each line", path);
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

static tri_status choose_sizes(const serve_arguments *given, const tri_generation *g, tri_runner_sizes *out) {
  const int64_t model = g->model.max_sequence;
  int64_t positions = given->context > 0 ? given->context : LONGEST_POSITIONS;
  if (positions > model) {
    if (given->context > 0)
      tri_log("--context %ld is beyond the model's %ld positions, which are used", (long)positions, (long)model);
    positions = model;
  }
  if (!tri_rope_can_share(&g->model.rope_scaling, 1, positions)) {
    return tri_fail(
        TRI_UNSUPPORTED,
        "serve: with this model's rope_scaling, positions beyond %ld go by the length of each prompt, which "
        "texts that are written side by side cannot have; give --context %ld",
        (long)g->model.rope_scaling.original_max_sequence, (long)g->model.rope_scaling.original_max_sequence);
  }
  *out = tri_runner_sizes_for(given->batch, positions);
  out->prompt = 1;
  return tri_generation_choose_pages(g, true, given->cache_bytes, out);
}

/* Sets `out` to the name of the model for clients: the option, or the last component of the folder's path. */
static void choose_name(const serve_arguments *given, char out[TRI_SERVE_NAME_BYTES]) {
  const char *path = given->name != NULL ? given->name : given->request.checkpoint;
  size_t end = strlen(path);
  while (given->name == NULL && end > 1 && path[end - 1] == '/') end--;
  size_t begin = end;
  while (given->name == NULL && begin > 0 && path[begin - 1] != '/') begin--;
  if (given->name != NULL) begin = 0;
  snprintf(out, TRI_SERVE_NAME_BYTES, "%.*s", (int)(end - begin), path + begin);
}

/* Opens the chat template. If the model has none and --chat-template is not given, succeeds, sets front->no_template to
 * `reason`[bytes], the message about it, and logs it: the server then serves completions only. */
static tri_status set_up_chat(const serve_arguments *given, tri_serve_front *front, char *reason, size_t bytes) {
  const tri_status status = tri_chat_choice_open(&given->template, front->generation, &front->chat);
  if (status == TRI_BAD_FILE && given->template.file == NULL) {
    snprintf(reason, bytes, "%s", tri_status_message());
    front->no_template = reason;
    tri_log("no chats are served: %s", reason);
    return TRI_OK;
  }
  return status;
}

/* ---- serving ----------------------------------------------------------------------------------------------------- */

/* A server with its model and its keys. */
typedef struct serving {
  tri_serve_front front;
  tri_generation generation;
  serve_keys keys;
  tri_http_server *server;
  tri_serve_follow follow;
  char name[TRI_SERVE_NAME_BYTES], no_template[1024];
} serving;

static tri_status print_address(const serve_arguments *given, const serving *s) {
  const char *token = tri_http_server_token(s->server);
  if (given->no_token && token[0] != '\0') {
    return tri_fail(TRI_BAD_USAGE,
                    "serve: --no-token is for 127.0.0.1 only; other machines can reach --host %s, so a key is required",
                    given->http.host);
  }
  printf("%s\n", tri_http_server_address(s->server));
  if (fflush(stdout) != 0) /* without the address the user cannot ask */
    return tri_fail(TRI_IO_FAILED, "cannot write to standard output: %s", tri_write_fault(errno));
  tri_log("serving %s: %ld texts of %ld positions at a time; %s%s; Ctrl-C ends it", s->name, (long)s->front.batch,
          (long)s->front.sizes.positions, token[0] != '\0' ? "the key is " : "no key was drawn", token);
  if (given->ignore != NULL) tri_log("these fields of requests are ignored: %s", given->ignore);
  return TRI_OK;
}

static tri_status set_up(const serve_arguments *given, serving *s) {
  tri_serve_front *front = &s->front;
  choose_name(given, s->name);
  front->generation = &s->generation;
  front->defaults = (tri_serve_defaults){.sampling = s->generation.sampling,
                                         .limits = given->limits,
                                         .model = s->name,
                                         .ignore = given->ignore,
                                         .vocab_size = s->generation.model.vocab_size};
  front->ping_s = given->ping_s;
  front->created_s = (int64_t)time(NULL);
  if (given->follows) {
    TRI_TRY(tri_serve_follow_begin(&s->generation, given->request.checkpoint, &s->follow));
    front->follow = &s->follow;
  }
  TRI_TRY(read_keys(given->key_file, &s->keys));
  TRI_TRY(choose_sizes(given, &s->generation, &front->sizes));
  TRI_TRY(tri_encoder_create(s->generation.tokenizer, &front->encoder));
  return set_up_chat(given, front, s->no_template, sizeof s->no_template);
}

/* Refuses all open requests. The thread of the signals calls this before a signal ends the process, for example because
 * an MPI launcher has lost a rank. */
static void refuse_open(void *server) { tri_http_server_refuse(server, REFUSE_S); }

static tri_status serve_here(serve_arguments *given, serving *s) {
  tri_serve_front *front = &s->front;
  tri_http_options http = given->http;
  TRI_TRY(tri_generation_load(&s->generation, &front->sizes));
  front->batch = given->batch * tri_dispatcher_replicas(s->generation.dispatcher);
  front->counters.pages = front->counters.free_pages = front->sizes.pages;
  http.keys = s->keys.list;
  http.num_keys = s->keys.count;
  const tri_http_service service = tri_serve_service(front);
  TRI_TRY(tri_http_server_start(&http, &service, &s->server));
  tri_stop_before_end(refuse_open, s->server);
  tri_ranks_defer_stop();
  TRI_TRY(print_address(given, s));
  tri_log_to_parent("serving"); /* from here on the parent may pass on a stop request */
  const tri_status status = tri_serve_run(front);
  tri_http_server_drain(s->server, SEND_S);
  TRI_TRY(status);
  return tri_fail(TRI_INTERRUPTED, "the server has ended; %ld requests were answered", (long)front->counters.completed);
}

/* Generates this rank's share of the texts and loads newer checkpoints, until the first rank ends the server. Keeps the
 * old weights if a checkpoint is damaged or does not suit. Called on each rank except the first. */
static tri_status help(const serve_arguments *given, serving *s) {
  const tri_runner_sizes of_first = {0};
  if (given->dry_run) return TRI_OK;
  TRI_TRY(tri_generation_load(&s->generation, &of_first));
  tri_ranks_defer_stop();
  for (bool more = true; more;) {
    TRI_TRY(tri_dispatcher_follow(s->generation.dispatcher));
    const tri_status status = tri_generation_reload(&s->generation, NULL, &more);
    if (status != TRI_BAD_FILE && status != TRI_BAD_CONFIG) TRI_TRY(status);
  }
  return TRI_OK;
}

static tri_status serve_with(serve_arguments *given, serving *s) {
  TRI_TRY(tri_ranks_agree(given->request.group, tri_generation_open(&given->request, &s->generation)));
  if (!tri_generation_leads(&s->generation)) return help(given, s);
  TRI_TRY(set_up(given, s));
  if (!given->dry_run) return serve_here(given, s);
  printf("%ld texts side by side, of %ld positions at most\n", (long)given->batch, (long)s->front.sizes.positions);
  return tri_generate_print_plan(&s->generation, &s->front.sizes, given->ranks);
}

static tri_status serve_work(void *context, const tri_group *group, int threads) {
  serve_arguments *given = context;
  pthread_condattr_t attributes;
  serving *s = NULL;
  given->request.group = group;
  if (given->request.model.threads == 0) given->request.model.threads = threads;
  TRI_TRY(tri_alloc("a server", 1, sizeof *s, &s));
  pthread_mutex_init(&s->front.mutex, NULL);
  pthread_mutex_init(&s->front.encoding, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&s->front.wake, &attributes);
  pthread_condattr_destroy(&attributes);
  const tri_status status = serve_with(given, s);
  tri_stop_before_end(NULL, NULL);
  tri_http_server_stop(s->server);
  tri_generation_close(&s->generation);
  tri_encoder_destroy(s->front.encoder);
  tri_chat_prompts_close(&s->front.chat);
  tri_free(s->keys.text);
  pthread_cond_destroy(&s->front.wake);
  pthread_mutex_destroy(&s->front.mutex);
  pthread_mutex_destroy(&s->front.encoding);
  tri_free(s);
  return status;
}

static tri_status serve_run(int count, char **arguments) {
  serve_arguments parsed = {
      .http = {.port = DEFAULT_PORT},
      .limits = {.body_bytes = 4 << 20,
                 .texts = TRI_SERVE_MOST_TEXTS,
                 .stops = 16,
                 .bias = 1024,
                 .depth = 64,
                 .queue = 256,
                 .of_one_machine = 256},
      .batch = 8,
      .ping_s = 5,
      .request = {.tokens = 0,
                  .top_k = -1,
                  .temperature = -1,
                  .top_p = -1,
                  .min_p = -1,
                  .repetition_penalty = -1,
                  .own_settings = true,
                  .hashes = true,
                  .model = tri_model_options_default()},
  };
  TRI_TRY(serve_parse(count, arguments, &parsed));
  signal(SIGPIPE, SIG_IGN); /* so that a client that closes its connection does not end the server */
  const tri_ranks_work work = {.ranks = parsed.dry_run ? 1 : parsed.ranks,
                               .tensor = parsed.request.tensor,
                               .arguments = arguments,
                               .stop_now = "interrupted",
                               .work = serve_work,
                               .context = &parsed};
  return tri_ranks_run(&work);
}

const tri_command tri_command_serve = {
    .name = "serve",
    .summary = "answer requests for text over HTTP, as OpenAI's API does",
    .usage =
        "usage: trireme serve CHECKPOINT [--port N] [options]\n"
        "\n"
        "Serves a model to programs that use OpenAI's API: /v1/completions and /v1/chat/completions (also streamed),\n"
        "/v1/models, /tokenize, /detokenize, /tokenizer_info, /health, /ready and /metrics (docs/serving.md). A text "
        "is a\n"
        "function of the request and its seed, whatever else is served: choice i of n is sample i of\n"
        "`trireme generate --samples n --seed S`. The address is the one line on standard output. Ctrl-C ends the "
        "server after\n"
        "the requests in progress.\n"
        "\n",
    .examples =
        "\n"
        "example: trireme serve runs/gpt2-demo --port 8000\n",
    .options = serve_options,
    .holds_signals = true,
    .run = serve_run,
};
