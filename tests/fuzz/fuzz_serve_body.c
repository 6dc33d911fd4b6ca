/* Reads any bytes as the body of a request for a completion, then for a chat, then as any object of JSON. The body is
 * refused with a message, or each field is within its limits. */
#include "serve/fields.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VOCAB_SIZE = 257 };

static const tri_serve_limits limits = {
    .body_bytes = 1 << 20, .texts = TRI_SERVE_MOST_TEXTS, .stops = 16, .bias = 8, .depth = 64, .queue = 256};

static void check(bool holds) {
  if (!holds) abort();
}

static bool is_within(double value, double least, double most) { return value >= least && value <= most; }

static void check_sampling(const tri_sampling *s) {
  check(is_within(s->temperature, 0, 1e6) && is_within(s->top_p, 1e-9, 1) && is_within(s->min_p, 0, 1));
  check(s->top_k >= 0 && s->top_k <= INT32_MAX);
  check(is_within(s->repetition_penalty, 1e-2, 1e2));
  check(is_within(s->presence_penalty, -2, 2) && is_within(s->frequency_penalty, -2, 2));
  check(s->num_bias >= 0 && s->num_bias <= limits.bias && (s->num_bias == 0 || s->bias != NULL));
  for (int64_t i = 0; i < s->num_bias; i++)
    check(s->bias[i].id >= 0 && s->bias[i].id < VOCAB_SIZE && is_within(s->bias[i].bias, -100, 100));
}

static void check_fields(const tri_serve_fields *f, bool chat) {
  check(f->chat == chat && (chat ? json_is_array(f->messages) : f->prompt != NULL));
  check(f->n >= 1 && f->best_of >= f->n && f->best_of <= limits.texts);
  check(f->max_tokens >= -1 && f->max_tokens <= INT32_MAX && (f->max_tokens != 0 || f->echo));
  check(f->logprobs >= -1 && f->logprobs <= TRI_MOST_LIKELY);
  check(f->prompt_logprobs >= -1 && f->prompt_logprobs <= TRI_MOST_LIKELY);
  check(!(f->stream && f->best_of > f->n) && !(f->continues && f->generation_prompt));
  check(f->num_stops >= 0 && f->num_stops <= limits.stops);
  for (int i = 0; i < f->num_stops; i++) {
    const size_t bytes = strlen(f->stops[i]);
    check(bytes > 0 && bytes <= TRI_SERVE_STOP_BYTES);
  }
  for (const char *c = f->ignored; *c != '\0'; c++) check(*c > ' ' && *c < 127); /* it is sent in a header */
  check(strlen(f->ignored) < sizeof f->ignored && f->param == NULL);
  check_sampling(&f->sampling);
}

static void read_fields(const char *body, size_t size, bool chat) {
  const tri_serve_defaults defaults = {
      .sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 1},
      .limits = limits,
      .model = "fuzz",
      .ignore = "tools,grammar",
      .vocab_size = VOCAB_SIZE,
  };
  tri_serve_fields fields;
  const tri_status status = tri_serve_fields_read(body, size, chat, &defaults, &fields);
  if (status == TRI_OK)
    check_fields(&fields, chat);
  else
    check(tri_status_message()[0] != '\0');
  tri_serve_fields_release(&fields);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  json_t *root = NULL;
  char *body = malloc(size + 1); /* a body has a NUL after it (http/server.h) */
  if (body == NULL) return 0;
  memcpy(body, data, size);
  body[size] = '\0';
  read_fields(body, size, false);
  read_fields(body, size, true);
  if (tri_serve_parse_object(body, size, limits.depth, &root) == TRI_OK) check(json_is_object(root));
  json_decref(root);
  free(body);
  return 0;
}
