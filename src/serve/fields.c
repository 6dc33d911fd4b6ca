/* Each field is read by name, and its type and range are checked. A field that changes the answer and is not supported
 * is refused, unless it has its neutral value or `--ignore` names it. Fields that `--ignore` names and fields that are
 * not known are ignored, and named in a header of the reply. */
#include "serve/fields.h"

#include "base/memory.h"
#include "files/json_kind.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

static const char *const known[] = {
    "model", "prompt", "messages", "n", "best_of", "max_tokens", "max_completion_tokens", "logprobs", "top_logprobs",
    "prompt_logprobs", "echo", "stream", "stream_options", "ignore_eos", "return_token_ids", "parse_special",
    "add_generation_prompt", "continue_final_message", "chat_template_kwargs", "temperature", "top_p", "top_k", "min_p",
    "repetition_penalty", "presence_penalty", "frequency_penalty", "logit_bias", "seed", "stop",
    /* These fields do not change an answer: */
    "user", "metadata", "service_tier"};

/* A field that is not supported, and its neutral values, as JSON. null is always neutral. */
typedef struct refused_field {
  const char *name, *neutral, *other;
} refused_field;

static const refused_field refused[] = {
    {"tools", "[]", NULL},
    {"tool_choice", "\"none\"", NULL},
    {"parallel_tool_calls", "true", "false"}, /* without tools it has no effect */
    {"functions", "[]", NULL},
    {"function_call", "\"none\"", NULL},
    {"response_format", "{\"type\":\"text\"}", NULL},
    {"suffix", "\"\"", NULL},
    {"audio", NULL, NULL},
    {"modalities", "[\"text\"]", NULL},
    {"prediction", NULL, NULL},
    {"reasoning_effort", "\"none\"", NULL},
    {"web_search_options", NULL, NULL},
    {"store", "false", NULL},
    {"guided_json", NULL, NULL},
    {"guided_regex", NULL, NULL},
    {"guided_choice", NULL, NULL},
    {"guided_grammar", NULL, NULL},
    {"structured_outputs", NULL, NULL},
    {"json_schema", NULL, NULL},
    {"grammar", "\"\"", NULL},
    {"use_beam_search", "false", NULL},
    {"length_penalty", "1.0", "1"},
    {"min_tokens", "0", NULL},
    {"stop_token_ids", "[]", NULL},
    {"allowed_token_ids", "[]", NULL},
    {"bad_words", "[]", NULL},
    {"include_stop_str_in_output", "false", NULL},
    {"skip_special_tokens", "true", NULL},
    {"spaces_between_special_tokens", "true", NULL},
    {"truncate_prompt_tokens", NULL, NULL},
    {"add_special_tokens", NULL, NULL},
    {"chat_template", NULL, NULL},
    {"documents", "[]", NULL},
};

/* ---- fields of one type ------------------------------------------------------------------------------------------ */

/* Returns the value of a field, and notes its name for the error message; NULL: missing or null. */
static const json_t *get(tri_serve_fields *f, const char *name) {
  const json_t *value = json_object_get(f->root, name);
  f->param = name;
  return value == NULL || json_is_null(value) ? NULL : value;
}

static tri_status wrong(const json_t *value, const char *name, const char *wanted) {
  return tri_fail(TRI_BAD_USAGE, "`%s` should be %s, not %s", name, wanted, tri_json_kind(value));
}

static tri_status read_bool(tri_serve_fields *f, const char *name, bool *out) {
  const json_t *value = get(f, name);
  if (value == NULL) return TRI_OK;
  if (!json_is_boolean(value)) return wrong(value, name, "true or false");
  *out = json_is_true(value);
  return TRI_OK;
}

static tri_status read_int(tri_serve_fields *f, const char *name, int64_t least, int64_t most, int64_t *out) {
  const json_t *value = get(f, name);
  if (value == NULL) return TRI_OK;
  if (!json_is_integer(value)) return wrong(value, name, "an integer");
  const int64_t number = json_integer_value(value);
  if (number < least || number > most) {
    return tri_fail(TRI_BAD_USAGE, "`%s` is %" PRId64 ", but should be %" PRId64 " to %" PRId64, name, number, least,
                    most);
  }
  *out = number;
  return TRI_OK;
}

static tri_status read_number(tri_serve_fields *f, const char *name, double least, double most, double *out) {
  const json_t *value = get(f, name);
  if (value == NULL) return TRI_OK;
  if (!json_is_number(value)) return wrong(value, name, "a number");
  const double number = json_number_value(value);
  if (!(number >= least && number <= most))
    return tri_fail(TRI_BAD_USAGE, "`%s` is %g, but should be %g to %g", name, number, least, most);
  *out = number;
  return TRI_OK;
}

/* ---- fields that are not supported ------------------------------------------------------------------------------- */

static bool is_listed(const char *list, const char *name) {
  const size_t bytes = strlen(name);
  for (const char *at = list; at != NULL && *at != '\0';) {
    const char *end = strchr(at, ',');
    const size_t word = end == NULL ? strlen(at) : (size_t)(end - at);
    if (word == bytes && memcmp(at, name, bytes) == 0) return true;
    at = end == NULL ? NULL : end + 1;
  }
  return false;
}

static bool is_known(const char *name) {
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strcmp(known[i], name) == 0) return true;
  }
  return false;
}

static bool is_value(const json_t *value, const char *text) {
  json_t *other = text == NULL ? NULL : json_loads(text, JSON_DECODE_ANY, NULL);
  const bool same = other != NULL && json_equal(value, other) != 0;
  json_decref(other);
  return same;
}

/* Adds a name to the list of ignored fields. Only printable characters are kept, since the list is sent in a header. */
static void note_ignored(tri_serve_fields *f, const char *name) {
  size_t at = strlen(f->ignored);
  if (at > 0 && at + 2 < sizeof f->ignored) f->ignored[at++] = ',';
  for (; *name != '\0' && at + 1 < sizeof f->ignored; name++) {
    if (*name > ' ' && *name < 127 && *name != ',') f->ignored[at++] = *name;
  }
  f->ignored[at] = '\0';
}

static tri_status check_name(tri_serve_fields *f, const char *name, const json_t *value, const char *ignore) {
  if (is_known(name)) return TRI_OK;
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    const refused_field *row = &refused[i];
    if (strcmp(row->name, name) != 0) continue;
    if (json_is_null(value) || is_value(value, row->neutral) || is_value(value, row->other)) return TRI_OK;
    if (is_listed(ignore, name)) break;
    f->param = row->name;
    return tri_fail(TRI_UNSUPPORTED,
                    "`%s` is not supported; leave it out, or let the server ignore it (trireme serve --ignore %s)",
                    name, name);
  }
  note_ignored(f, name);
  return TRI_OK;
}

static tri_status check_names(tri_serve_fields *f, const char *ignore) {
  const char *name = NULL;
  json_t *value = NULL;
  json_object_foreach(f->root, name, value) TRI_TRY(check_name(f, name, value, ignore));
  return TRI_OK;
}

/* ---- single fields ----------------------------------------------------------------------------------------------- */

static tri_status read_model(tri_serve_fields *f, const char *served) {
  const json_t *model = get(f, "model");
  if (model == NULL) return TRI_OK;
  if (!json_is_string(model)) return wrong(model, "model", "a string");
  if (strcmp(json_string_value(model), served) == 0) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "the model `%.200s` is not served here; the model's name is `%s`",
                  json_string_value(model), served);
}

/* Draws a seed that every JSON reader represents exactly. */
static tri_status draw_seed(uint64_t *out) {
  if (getrandom(out, sizeof *out, 0) != (ssize_t)sizeof *out) return tri_fail(TRI_IO_FAILED, "cannot draw a seed");
  *out &= (UINT64_C(1) << 53) - 1;
  return TRI_OK;
}

static tri_status read_bias(tri_serve_fields *f, const tri_serve_defaults *d) {
  const json_t *bias = get(f, "logit_bias");
  const char *name = NULL;
  json_t *value = NULL;
  if (bias == NULL) return TRI_OK;
  if (!json_is_object(bias)) return wrong(bias, "logit_bias", "an object, of token ids and numbers");
  const size_t count = json_object_size(bias);
  if (count > (size_t)d->limits.bias)
    return tri_fail(TRI_BAD_USAGE, "`logit_bias` has %zu entries, more than %" PRId64, count, d->limits.bias);
  if (count == 0) return TRI_OK;
  TRI_TRY(tri_alloc("a bias", count, sizeof *f->bias, &f->bias));
  f->sampling.bias = f->bias;
  json_object_foreach((json_t *)(uintptr_t)bias, name, value) {
    char *end = NULL;
    const long long id = strtoll(name, &end, 10);
    const double number = json_number_value(value);
    const bool decimal = name[0] >= '0' && name[0] <= '9' && (name[0] != '0' || name[1] == '\0'); /* 01 is not 1 */
    if (!decimal || *end != '\0' || id >= d->vocab_size) {
      return tri_fail(TRI_BAD_USAGE, "`logit_bias` has the key `%.40s`, which is not a token id from 0 to %" PRId64,
                      name, d->vocab_size - 1);
    }
    if (!json_is_number(value) || !(number >= -100 && number <= 100))
      return tri_fail(TRI_BAD_USAGE, "the value of `logit_bias` of token %lld should be a number from -100 to 100", id);
    f->bias[f->sampling.num_bias++] = (tri_logit_bias){.id = (int32_t)id, .bias = number};
  }
  return TRI_OK;
}

static tri_status read_sampling(tri_serve_fields *f, const tri_serve_defaults *d) {
  tri_sampling *s = &f->sampling;
  int64_t seed = -1;
  *s = d->sampling;
  TRI_TRY(read_number(f, "temperature", 0, 1e6, &s->temperature));
  TRI_TRY(read_number(f, "top_p", 0, 1, &s->top_p));
  if (s->top_p <= 0) s->top_p = 1e-9; /* keeps the likeliest token only */
  TRI_TRY(read_int(f, "top_k", -1, INT32_MAX, &s->top_k));
  if (s->top_k < 0) s->top_k = 0;
  TRI_TRY(read_number(f, "min_p", 0, 1, &s->min_p));
  TRI_TRY(read_number(f, "repetition_penalty", 1e-2, 1e2, &s->repetition_penalty));
  TRI_TRY(read_number(f, "presence_penalty", -2, 2, &s->presence_penalty));
  TRI_TRY(read_number(f, "frequency_penalty", -2, 2, &s->frequency_penalty));
  TRI_TRY(read_bias(f, d));
  TRI_TRY(read_int(f, "seed", 0, INT64_MAX, &seed));
  s->seed = (uint64_t)seed;
  return seed < 0 ? draw_seed(&s->seed) : TRI_OK;
}

static tri_status add_stop(tri_serve_fields *f, const json_t *value, const tri_serve_limits *limits) {
  if (!json_is_string(value)) return wrong(value, "stop", "a string or a list of strings");
  const size_t bytes = json_string_length(value);
  if (bytes == 0) return tri_fail(TRI_BAD_USAGE, "`stop` has an empty string");
  if (bytes > TRI_SERVE_STOP_BYTES || strlen(json_string_value(value)) != bytes) {
    return tri_fail(TRI_BAD_USAGE, "`stop` has a string of %zu bytes; %d are allowed, and no NUL", bytes,
                    (int)TRI_SERVE_STOP_BYTES);
  }
  if (f->num_stops >= limits->stops)
    return tri_fail(TRI_BAD_USAGE, "`stop` has more than %" PRId64 " strings", limits->stops);
  f->stops[f->num_stops++] = json_string_value(value);
  return TRI_OK;
}

static tri_status read_stops(tri_serve_fields *f, const tri_serve_limits *limits) {
  const json_t *stop = get(f, "stop");
  if (stop == NULL) return TRI_OK;
  if (!json_is_array(stop)) return add_stop(f, stop, limits);
  for (size_t i = 0; i < json_array_size(stop); i++) TRI_TRY(add_stop(f, json_array_get(stop, i), limits));
  return TRI_OK;
}

static tri_status read_stream(tri_serve_fields *f) {
  TRI_TRY(read_bool(f, "stream", &f->stream));
  const json_t *options = get(f, "stream_options");
  if (options == NULL) return TRI_OK;
  if (!json_is_object(options)) return wrong(options, "stream_options", "an object");
  const json_t *usage = json_object_get(options, "include_usage");
  if (usage != NULL && !json_is_boolean(usage)) return wrong(usage, "stream_options.include_usage", "true or false");
  f->include_usage = json_is_true(usage);
  return TRI_OK;
}

/* Reads the fields of log-probabilities. In a chat `logprobs` is a boolean, and `top_logprobs` a number, which needs
 * the boolean. */
static tri_status read_log_probs(tri_serve_fields *f) {
  bool wanted = false;
  int64_t top = -1;
  TRI_TRY(read_int(f, "prompt_logprobs", 0, TRI_MOST_LIKELY, &f->prompt_logprobs));
  if (!f->chat) return read_int(f, "logprobs", 0, TRI_MOST_LIKELY, &f->logprobs);
  TRI_TRY(read_bool(f, "logprobs", &wanted));
  TRI_TRY(read_int(f, "top_logprobs", 0, TRI_MOST_LIKELY, &top));
  if (top > 0 && !wanted) return tri_fail(TRI_BAD_USAGE, "`top_logprobs` needs `logprobs`: true");
  if (wanted) f->logprobs = top < 0 ? 0 : top;
  return TRI_OK;
}

static tri_status read_numbers(tri_serve_fields *f, const tri_serve_defaults *d) {
  TRI_TRY(read_int(f, "n", 1, d->limits.texts, &f->n));
  f->best_of = f->n;
  if (!f->chat) TRI_TRY(read_int(f, "best_of", 1, d->limits.texts, &f->best_of));
  if (f->best_of < f->n) return tri_fail(TRI_BAD_USAGE, "`best_of` is less than `n`");
  TRI_TRY(read_int(f, "max_tokens", f->chat ? 1 : 0, INT32_MAX, &f->max_tokens));
  if (f->chat) TRI_TRY(read_int(f, "max_completion_tokens", 1, INT32_MAX, &f->max_tokens));
  TRI_TRY(read_log_probs(f));
  TRI_TRY(read_stream(f));
  if (f->stream && f->best_of > f->n)
    return tri_fail(TRI_BAD_USAGE, "`best_of` is known only at the end of the texts, so it cannot be streamed");
  return TRI_OK;
}

static tri_status read_chat(tri_serve_fields *f) {
  f->messages = get(f, "messages");
  if (!json_is_array(f->messages)) return wrong(f->messages, "messages", "a list of messages");
  f->template_variables = get(f, "chat_template_kwargs");
  if (f->template_variables != NULL && !json_is_object(f->template_variables))
    return wrong(f->template_variables, "chat_template_kwargs", "an object");
  TRI_TRY(read_bool(f, "continue_final_message", &f->continues));
  f->generation_prompt = !f->continues;
  TRI_TRY(read_bool(f, "add_generation_prompt", &f->generation_prompt));
  if (f->continues && f->generation_prompt)
    return tri_fail(TRI_BAD_USAGE, "`continue_final_message` and `add_generation_prompt` exclude each other");
  return TRI_OK;
}

static tri_status read_completion(tri_serve_fields *f) {
  f->prompt = get(f, "prompt");
  if (f->prompt == NULL) return wrong(NULL, "prompt", "a string, a list of strings, or lists of token ids");
  TRI_TRY(read_bool(f, "echo", &f->echo));
  f->param = "max_tokens";
  if (f->max_tokens == 0 && !f->echo)
    return tri_fail(TRI_BAD_USAGE, "`max_tokens` is 0, which is for a request with `echo` only");
  return TRI_OK;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* Returns the depth of the deepest bracket of a text; brackets in strings do not count. */
static int64_t depth_of(const char *text, size_t bytes) {
  int64_t depth = 0, most = 0;
  bool in_string = false;
  for (size_t i = 0; i < bytes; i++) {
    if (in_string && text[i] == '\\') {
      i++;
    } else if (text[i] == '"') {
      in_string = !in_string;
    } else if (!in_string && (text[i] == '[' || text[i] == '{')) {
      most = ++depth > most ? depth : most;
    } else if (!in_string && (text[i] == ']' || text[i] == '}')) {
      depth--;
    }
  }
  return most;
}

tri_status tri_serve_parse_object(const char *body, size_t bytes, int64_t depth, json_t **out) {
  json_error_t error;
  if (depth_of(body, bytes) > depth)
    return tri_fail(TRI_BAD_USAGE, "the body is nested more than %" PRId64 " levels deep", depth);
  *out = json_loadb(body, bytes, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &error);
  if (*out == NULL)
    return tri_fail(TRI_BAD_USAGE, "the body is not valid JSON: %s (line %d, column %d)", error.text, error.line,
                    error.column);
  if (json_is_object(*out)) return TRI_OK;
  json_decref(*out);
  *out = NULL;
  return tri_fail(TRI_BAD_USAGE, "the body should be a JSON object");
}

tri_status tri_serve_fields_read(const char *body, size_t bytes, bool chat, const tri_serve_defaults *d,
                                 tri_serve_fields *out) {
  *out = (tri_serve_fields){.chat = chat, .n = 1, .max_tokens = -1, .logprobs = -1, .prompt_logprobs = -1};
  TRI_TRY(tri_serve_parse_object(body, bytes, d->limits.depth, &out->root));
  TRI_TRY(check_names(out, d->ignore));
  TRI_TRY(read_model(out, d->model));
  TRI_TRY(read_numbers(out, d));
  TRI_TRY(chat ? read_chat(out) : read_completion(out));
  TRI_TRY(read_sampling(out, d));
  TRI_TRY(read_stops(out, &d->limits));
  TRI_TRY(read_bool(out, "ignore_eos", &out->ignore_eos));
  TRI_TRY(read_bool(out, "return_token_ids", &out->return_token_ids));
  TRI_TRY(read_bool(out, "parse_special", &out->parse_special));
  out->param = NULL;
  return TRI_OK;
}

void tri_serve_fields_release(tri_serve_fields *f) {
  json_decref(f->root);
  tri_free(f->bias);
  *f = (tri_serve_fields){.root = NULL};
}
