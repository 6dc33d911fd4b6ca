#include "data/prompt_source.h"

#include "base/count.h"
#include "base/memory.h"
#include "base/random.h"
#include "chat/prompts.h"
#include "data/permutation.h"
#include "files/file.h"
#include "files/json_kind.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FILE_BYTES = 1 << 30, NUMBER_BYTES = 64 };

/* A file that is being read. */
typedef struct reading {
  const char *path;
  const tri_prompt_source_options *options;
  tri_prompt_source *source;
  tri_encoder *encoder;
  tri_chat_prompts chat; /* not open before the first prompt of messages */
  tri_token_list ids;    /* tokens of the current prompt */
} reading;

/* ---- a line ------------------------------------------------------------------------------------------------------ */

/* Renders a list of messages. Opens the chat template first if this is the first list, and notes in the source the text
 * that ends a turn. The text is valid until the next rendering. */
static tri_status render(reading *r, const json_t *messages, const char **text, size_t *bytes) {
  const tri_chat_format_options options = {.tokenizer = r->options->tokenizer_file,
                                           .asked = true,
                                           .of_run_file = true,
                                           .set = r->options->chat_set,
                                           .num_set = r->options->num_chat_set};
  if (r->chat.session == NULL) {
    TRI_TRY(tri_chat_prompts_open(&options, &r->chat));
    memcpy(r->source->turn_end, r->chat.turn_end, sizeof r->source->turn_end);
  }
  return tri_chat_prompts_render(&r->chat, messages, NULL, NULL, text, bytes);
}

static tri_status copy_text(const char *text, size_t bytes, const char **out) {
  char *copy = NULL;
  TRI_TRY(tri_alloc("a prompt", bytes + 1, 1, &copy));
  memcpy(copy, text, bytes);
  *out = copy;
  return TRI_OK;
}

/* Writes the shortest text of a number as Python and JSON encoders write it: 20000000.0, 0.1, 1e-07. */
static void print_real(double value, char out[NUMBER_BYTES]) {
  if (value == floor(value) && fabs(value) < 1e16) {
    snprintf(out, NUMBER_BYTES, "%.1f", value);
    return;
  }
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(out, NUMBER_BYTES, "%.*g", digits, value);
    if (strtod(out, NULL) == value) break;
  }
}

static tri_status read_answer(const json_t *line, tri_rollout_prompt *to) {
  const json_t *answer = json_object_get(line, "answer");
  char number[NUMBER_BYTES];
  if (answer == NULL || json_is_null(answer)) return TRI_OK;
  if (json_is_string(answer)) {
    to->answer_bytes = json_string_length(answer);
    return copy_text(json_string_value(answer), to->answer_bytes, &to->answer);
  }
  if (!json_is_number(answer)) {
    return tri_fail(TRI_BAD_FILE, "`answer` is %s; write a string or a number", tri_json_kind(answer));
  }
  if (json_is_integer(answer)) snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(answer));
  if (json_is_real(answer)) print_real(json_real_value(answer), number);
  to->answer_bytes = strlen(number);
  return copy_text(number, to->answer_bytes, &to->answer);
}

/* Finds the text of a prompt, and sets *rendered to whether a template made it of messages. Fails with TRI_BAD_FILE if
 * the line has neither a string nor a list of messages. */
static tri_status find_text(reading *r, const json_t *line, const char **text, size_t *bytes, bool *rendered) {
  json_t *prompt = json_object_get(line, "prompt");
  if (prompt == NULL) prompt = json_object_get(line, "messages");
  *rendered = json_is_array(prompt);
  if (*rendered) {
    const tri_status status = render(r, prompt, text, bytes);
    if (status != TRI_BAD_FILE) return status;
    return tri_fail(status, "`prompt`: %s", tri_status_message());
  }
  if (!json_is_string(prompt)) {
    return tri_fail(TRI_BAD_FILE, "`prompt` is %s; write a string, or a list of messages {\"role\", \"content\"}",
                    prompt == NULL ? "missing" : tri_json_kind(prompt));
  }
  *text = json_string_value(prompt);
  *bytes = json_string_length(prompt);
  return TRI_OK;
}

static tri_status encode(reading *r, const char *text, size_t bytes, bool rendered) {
  const int32_t end = tri_tokenizer_end_of_text(r->options->tokenizer);
  r->ids.count = 0;
  if (rendered) TRI_TRY(tri_encoder_encode(r->encoder, text, bytes, 1, &r->ids));
  if (!rendered) TRI_TRY(tri_encoder_encode_text(r->encoder, text, bytes, 1, &r->ids));
  if (r->ids.count > 0) return TRI_OK;
  if (end < 0) return tri_fail(TRI_BAD_FILE, "`prompt` has no tokens; write a text");
  return tri_token_list_append(&r->ids, end); /* an empty prompt follows the end of another text */
}

static tri_status add_prompt(reading *r, const json_t *line, tri_rollout_prompt *to) {
  const char *text = NULL;
  int32_t *ids = NULL;
  bool rendered = false;
  TRI_TRY(find_text(r, line, &text, &to->text_bytes, &rendered));
  TRI_TRY(encode(r, text, to->text_bytes, rendered));
  to->count = r->ids.count;
  if (to->count > r->options->longest) return TRI_OK;
  TRI_TRY(copy_text(text, to->text_bytes, &to->text));
  TRI_TRY(tri_alloc("a prompt", (size_t)to->count, sizeof *ids, &ids));
  memcpy(ids, r->ids.ids, (size_t)to->count * sizeof *ids);
  to->ids = ids;
  return read_answer(line, to);
}

static void release_prompt(tri_rollout_prompt *prompt) {
  tri_free((void *)prompt->ids);
  tri_free((void *)prompt->text);
  tri_free((void *)prompt->answer);
}

static tri_status check_length(const reading *r, const tri_rollout_prompt *prompt) {
  if (prompt->count <= r->options->longest || r->options->skip_long) return TRI_OK;
  return tri_fail(TRI_BAD_FILE,
                  "`prompt` has %" PRId64 " tokens, and %" PRId64
                  " fit beside a completion; raise data.sequence, lower rollout.max_completion_length, or set "
                  "data.skip_long to leave out such prompts",
                  prompt->count, r->options->longest);
}

static tri_status read_object(reading *r, tri_rollout_prompt *to) {
  json_error_t error;
  tri_prompt_source *source = r->source;
  json_t *line = json_loadb(to->json, to->json_bytes, JSON_ALLOW_NUL, &error);
  if (line == NULL) return tri_fail(TRI_BAD_FILE, "it is not JSON: %s", error.text);
  tri_status status = json_is_object(line) ? add_prompt(r, line, to)
                                           : tri_fail(TRI_BAD_FILE, "it is %s, not an object", tri_json_kind(line));
  json_decref(line);
  if (status == TRI_OK) status = check_length(r, to);
  if (status != TRI_OK) return status;
  if (to->count > r->options->longest) {
    source->skipped++;
    release_prompt(to);
    return TRI_OK;
  }
  source->longest = tri_larger(source->longest, to->count);
  source->count++;
  return TRI_OK;
}

static tri_status read_line(reading *r, int64_t number, const char *text, size_t bytes) {
  tri_prompt_source *source = r->source;
  TRI_TRY(tri_grow("prompts", sizeof *source->list, source->count, &source->capacity, &source->list));
  tri_rollout_prompt *to = &source->list[source->count];
  *to = (tri_rollout_prompt){.line = number, .json = text, .json_bytes = bytes};
  const tri_status status = read_object(r, to);
  if (status == TRI_OK) return TRI_OK;
  release_prompt(to);
  return tri_chat_name_line(r->path, number, status);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static tri_status read_lines(reading *r, size_t bytes) {
  const char *at = r->source->file, *end = at + bytes;
  for (int64_t number = 1; at < end; number++) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    const char *next = stop == NULL ? end : stop + 1;
    if (stop == NULL) stop = end;
    const size_t blank = strspn(at, " \t\r");
    if (at + blank < stop) TRI_TRY(read_line(r, number, at, (size_t)(stop - at)));
    at = next;
  }
  if (r->source->count > 0) return TRI_OK;
  if (r->source->skipped > 0) {
    return tri_fail(TRI_BAD_FILE, "%s: all %" PRId64 " prompts are longer than %" PRId64 " tokens (data.skip_long)",
                    r->path, r->source->skipped, r->options->longest);
  }
  return tri_fail(TRI_BAD_FILE,
                  "%s has no prompts; write one JSON object per line, such as {\"prompt\": \"2 + 3 =\", "
                  "\"answer\": \"5\"}",
                  r->path);
}

tri_status tri_prompt_source_open(const char *path, const tri_prompt_source_options *options, tri_prompt_source *out) {
  reading r = {.path = path, .options = options, .source = out};
  size_t bytes = 0;
  *out = (tri_prompt_source){0};
  TRI_TRY(tri_file_read_plain(path, MOST_FILE_BYTES, &out->file, &bytes));
  TRI_TRY(tri_fingerprint_mask(out->file, bytes, out->fingerprint));
  tri_status status = tri_encoder_create(options->tokenizer, &r.encoder);
  if (status == TRI_OK) status = read_lines(&r, bytes);
  tri_free(r.ids.ids);
  tri_chat_prompts_close(&r.chat);
  tri_encoder_destroy(r.encoder);
  return status;
}

void tri_prompt_source_release(tri_prompt_source *source) {
  for (int64_t i = 0; i < source->count; i++) release_prompt(&source->list[i]);
  tri_free(source->list);
  tri_free(source->file);
  *source = (tri_prompt_source){0};
}

int64_t tri_prompt_source_at(const tri_prompt_source *source, uint64_t seed, int64_t group) {
  const uint64_t epoch = (uint64_t)(group / source->count);
  const tri_random_key key = tri_random_stream(seed, TRI_RANDOM_ORDER, epoch);
  return (int64_t)tri_permutation_at(key, (uint64_t)source->count, (uint64_t)(group % source->count));
}
