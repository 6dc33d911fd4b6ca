/* A conversation. Each line of standard input is a message, and each answer goes to standard output. For each answer,
 * the chat template renders the prompt. The generator keeps the keys and values of the previous prompt and
 * answer, and only computes the tokens after the common beginning. */
#include "base/log.h"
#include "base/memory.h"
#include "base/stop.h"
#include "cli/running/chat_choice.h"
#include "cli/running/generate.h"
#include "files/json_kind.h"
#include "files/lines.h"
#include "files/write_fault.h"
#include "tokenizer/json_text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { USUAL_POSITIONS = 4096, LONGEST_LINE_BYTES = 16 << 20 };

typedef struct chat {
  const tri_generate_arguments *given;
  tri_generation *generation;
  tri_chat_prompts prompts;
  json_t *messages;
  const char *stops[TRI_MOST_STOPS]; /* [num_stops], strings that end an answer */
  int num_stops;
  bool forgot;   /* whether the user was informed that messages are left out */
  bool terminal; /* whether standard input and standard error are terminals */
} chat;

static tri_status out_of_memory(void) { return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: a conversation"); }

/* ---- the template ------------------------------------------------------------------------------------------------ */

static tri_status open_template(chat *c) {
  const tri_generate_arguments *given = c->given;
  TRI_TRY(tri_chat_choice_open(&given->template, c->generation, &c->prompts));
  for (int i = 0; i < given->request.num_stops; i++) c->stops[c->num_stops++] = given->request.stops[i];
  if (c->prompts.turn_end[0] != '\0') c->stops[c->num_stops++] = c->prompts.turn_end;
  return TRI_OK;
}

static tri_status say(chat *c, const char *role, const char *text, size_t bytes) {
  json_t *content = tri_json_text(text, bytes);
  json_t *message = json_pack("{s:s, s:o}", "role", role, "content", content);
  if (message == NULL || json_array_append_new(c->messages, message) != 0) return out_of_memory();
  return TRI_OK;
}

/* Renders the messages so far to the prompt of the next answer. */
static tri_status render_chat(chat *c, tri_written *out) {
  const int64_t tokens = c->generation->tokens > 0 ? c->generation->tokens : TRI_USUAL_ANSWER;
  const char *text = NULL;
  size_t bytes = 0;
  TRI_TRY(tri_chat_prompts_render(&c->prompts, c->messages, NULL, NULL, &text, &bytes));
  const tri_prompt prompt = {.text = text, .bytes = bytes, .rendered = true};
  return tri_written_begin(c->generation, &prompt, tokens, out);
}

/* Removes the oldest question and its answer, and logs that the first time. Returns whether they were removed; false if
 * only one question is left. */
static bool forget_oldest(chat *c) {
  const char *role = json_string_value(json_object_get(json_array_get(c->messages, 0), "role"));
  const size_t first = role != NULL && strcmp(role, "system") == 0 ? 1 : 0;
  if (json_array_size(c->messages) < first + 3) return false;
  json_array_remove(c->messages, first);
  json_array_remove(c->messages, first);
  if (!c->forgot) tri_log("the conversation is longer than the model's positions; its oldest messages are left out");
  c->forgot = true;
  return true;
}

/* Begins an answer with room for the requested tokens, or for a quarter of the positions if that is less. Removes old
 * messages until the prompt fits, or until one question is left. */
static tri_status begin_answer(chat *c, tri_written *out) {
  const int64_t positions = c->generation->positions;
  for (;;) {
    TRI_TRY(render_chat(c, out));
    const int64_t room = out->wanted < positions / 4 ? out->wanted : positions / 4;
    if (out->prompt_tokens + room <= positions || !forget_oldest(c)) return TRI_OK;
    tri_written_release(out);
    *out = (tri_written){.prompt = NULL};
  }
}

/* ---- an answer --------------------------------------------------------------------------------------------------- */

static tri_status print_answer(const chat *c, const tri_written *answer) {
  if (!c->given->json) {
    fputc('\n', stdout);
    return fflush(stdout) == 0 ? TRI_OK
                               : tri_fail(TRI_IO_FAILED, "cannot write to standard output: %s", tri_write_fault(errno));
  }
  TRI_TRY(tri_json_write_line(stdout, tri_written_json(answer), "an answer"));
  return fflush(stdout) == 0 ? TRI_OK
                             : tri_fail(TRI_IO_FAILED, "cannot write to standard output: %s", tri_write_fault(errno));
}

static tri_status answer_with(chat *c, tri_written *answer) {
  TRI_TRY(begin_answer(c, answer));
  answer->text.stops = c->stops;
  answer->text.num_stops = c->num_stops;
  if (!c->given->json) answer->grew = tri_written_print;
  tri_stop_defer("interrupted twice, so it ends at once");
  TRI_TRY(tri_written_write(answer));
  TRI_TRY(print_answer(c, answer));
  if (tri_stop_asked()) return tri_fail(TRI_INTERRUPTED, "interrupted: the answer is not complete");
  tri_stop_defer(NULL);
  return say(c, "assistant", answer->text.text, answer->text.bytes);
}

static tri_status answer_line(chat *c, const char *line, size_t bytes) {
  tri_written answer = {.prompt = NULL};
  TRI_TRY(say(c, "user", line, bytes));
  const tri_status status = answer_with(c, &answer);
  tri_written_release(&answer);
  return status;
}

/* ---- the conversation -------------------------------------------------------------------------------------------- */

static tri_status converse(chat *c) {
  tri_status status = TRI_OK;
  tri_lines *lines = NULL;
  TRI_TRY(tri_lines_of(dup(STDIN_FILENO), "standard input", LONGEST_LINE_BYTES, &lines));
  while (status == TRI_OK) {
    tri_line line = {.bytes = 0};
    bool there = false;
    if (c->terminal) fputs("> ", stderr);
    status = tri_lines_next(lines, &line, &there);
    if (status != TRI_OK || !there) break;
    while (line.bytes > 0 && line.text[line.bytes - 1] == '\r') line.bytes--;
    if (line.bytes == 5 && memcmp(line.text, "/quit", 5) == 0) break;
    if (line.bytes > 0) status = answer_line(c, line.text, line.bytes);
  }
  tri_lines_close(lines);
  return status;
}

static tri_status chat_set_up(chat *c) {
  tri_generation *g = c->generation;
  const tri_generate_arguments *given = c->given;
  const int64_t most = given->context > 0 ? given->context : USUAL_POSITIONS;
  const int64_t positions = most < g->model.max_sequence ? most : g->model.max_sequence;
  TRI_TRY(open_template(c));
  c->messages = json_array();
  if (c->messages == NULL) return out_of_memory();
  if (given->system != NULL) TRI_TRY(say(c, "system", given->system, strlen(given->system)));
  const tri_runner_sizes sizes = tri_runner_sizes_for(1, positions);
  TRI_TRY(tri_generation_load(g, &sizes));
  c->terminal = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
  if (c->terminal) tri_log("write a message and a newline; /quit or the end of input (Ctrl-D) ends the conversation");
  return TRI_OK;
}

tri_status tri_generate_chat(const tri_generate_arguments *given, tri_generation *generation) {
  chat *c = NULL;
  TRI_TRY(tri_alloc("a conversation", 1, sizeof *c, &c));
  c->given = given;
  c->generation = generation;
  tri_status status = chat_set_up(c);
  if (status == TRI_OK) status = converse(c);
  json_decref(c->messages);
  tri_chat_prompts_close(&c->prompts);
  tri_free(c);
  return status;
}
