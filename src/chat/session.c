#include "chat/session.h"

#include "base/memory.h"
#include "chat/conversation.h"
#include "chat/key_map.h"
#include "files/json_reader.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* Maximum number of bytes to render when the answers of one conversation are searched. Beyond it, the last found answer
 * is used as a pattern. */
#define MOST_WORK (INT64_C(1) << 28)

struct tri_chat_session {
  const tri_chat_format *format;
  tri_chat_renderer *renderer, *tools_renderer;
  tri_chat_rendered whole, before, behind; /* whole: all messages; before: the messages before an answer; behind: the
                                              messages up to and including the answer */
  tri_chat_arena arena;
  tri_chat_value *variables;
  int32_t variable_room;
  int64_t work; /* number of bytes rendered for this conversation */
  /* before_last: part of the last found answer in `whole` before the bytes that were copied from its message;
   * behind_last: part after these bytes. */
  tri_chat_span before_last, behind_last;
  bool has_pattern;
  tri_chat_span *answers;
  int64_t num_answers, answer_room;
  bool is_text; /* whether the text in `whole` is plain, not rendered by a template */
  bool no_end;
};

tri_status tri_chat_session_create(const tri_chat_format *format, tri_chat_session **out) {
  tri_status status = TRI_OK;
  tri_chat_session *session = NULL;
  TRI_TRY(tri_alloc("a chat session", 1, sizeof *session, &session));
  session->format = format;
  session->arena.limit = tri_chat_usual_limits.value_bytes;
  if (format->template != NULL) {
    TRI_TRY_GOTO(tri_chat_renderer_create(format->template, &tri_chat_usual_limits, format->now, &session->renderer),
                 destroy);
  }
  if (format->tools_template != NULL) {
    TRI_TRY_GOTO(
        tri_chat_renderer_create(format->tools_template, &tri_chat_usual_limits, format->now, &session->tools_renderer),
        destroy);
  }
  *out = session;
  return TRI_OK;
destroy:
  tri_chat_session_destroy(session);
  return status;
}

void tri_chat_session_destroy(tri_chat_session *session) {
  if (session == NULL) return;
  tri_chat_renderer_destroy(session->renderer);
  tri_chat_renderer_destroy(session->tools_renderer);
  tri_chat_rendered_release(&session->whole);
  tri_chat_rendered_release(&session->before);
  tri_chat_rendered_release(&session->behind);
  tri_chat_arena_release(&session->arena);
  tri_free(session->answers);
  tri_free(session);
}

tri_chat_arena *tri_chat_session_arena(tri_chat_session *session) { return &session->arena; }

/* ---- rendering --------------------------------------------------------------------------------------------------- */

/* Renders like apply_chat_template: special tokens come first, and later variables replace them. Variables are passed
 * in this order, because the last of equal names counts. */
tri_status tri_chat_session_render(tri_chat_session *session, const tri_chat_conversation *c, int64_t count,
                                   bool prompt, tri_chat_rendered *out) {
  const tri_chat_format *format = session->format;
  int32_t own = c->variables == NULL ? 0 : (int32_t)c->variables->count, n = 0;
  tri_chat_value *v = NULL;
  tri_chat_list *part = NULL;
  bool tools = c->tools.kind != TRI_CHAT_NONE;
  TRI_TRY(tri_chat_list_create(&session->arena, 0, TRI_CHAT_IS_LIST, &part));
  part->items = c->messages.list->items;
  part->count = part->room = count;
  TRI_TRY(tri_chat_arena_alloc(&session->arena, 2 * (size_t)(format->num_variables + own + 4), sizeof *v, &v));
  for (int32_t i = 0; i < 2 * format->num_variables; i++) v[n++] = format->variables[i];
  for (int32_t i = 0; i < own; i++) {
    v[n++] = c->variables->entries[i].key;
    v[n++] = c->variables->entries[i].value;
  }
  v[n++] = tri_chat_text("messages"), v[n++] = tri_chat_of_list(part);
  v[n++] = tri_chat_text("tools"), v[n++] = c->tools;
  v[n++] = tri_chat_text("documents"), v[n++] = tri_chat_none();
  v[n++] = tri_chat_text("add_generation_prompt"), v[n++] = tri_chat_boolean(prompt);
  tri_chat_renderer *renderer = tools && session->tools_renderer != NULL ? session->tools_renderer : session->renderer;
  TRI_TRY(tri_chat_render(renderer, v, n / 2, c->num_messages, out));
  session->work += (int64_t)out->bytes;
  return TRI_OK;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static tri_status add_answer(tri_chat_session *session, size_t begin, size_t end) {
  TRI_TRY(tri_grow("the answers of a conversation", sizeof *session->answers, session->num_answers,
                   &session->answer_room, &session->answers));
  session->answers[session->num_answers++] = (tri_chat_span){begin, end};
  return TRI_OK;
}

static bool begins_with(const tri_chat_rendered *whole, const tri_chat_rendered *part) {
  return part->bytes <= whole->bytes && (part->bytes == 0 || memcmp(whole->text, part->text, part->bytes) == 0);
}

static bool was_copied(const tri_chat_rendered *rendered, int64_t message) {
  return rendered->copied[message].begin <= rendered->copied[message].end;
}

/* Returns the message that a generation block printed. If there are as many blocks as answers, it is the answer with
 * the same number; otherwise it is the message from which the block's bytes were copied. -1: unknown. *next: message at
 * which the search begins, moved for the next block. */
static int64_t message_of(const tri_chat_conversation *c, const tri_chat_rendered *whole, int64_t block,
                          int64_t *next) {
  tri_chat_span span = whole->generated[block];
  int64_t answers = 0;
  for (int64_t i = 0; i < c->num_messages; i++) answers += c->is_answer[i];
  if (whole->num_generated == answers) {
    while (!c->is_answer[*next]) (*next)++;
    return (*next)++;
  }
  for (; *next < c->num_messages; (*next)++) {
    if (was_copied(whole, *next) && whole->copied[*next].begin >= span.begin && whole->copied[*next].end <= span.end) {
      return *next;
    }
  }
  *next = 0;
  return -1;
}

static tri_status use_generated(tri_chat_session *session, const tri_chat_conversation *c) {
  const tri_chat_rendered *whole = &session->whole;
  bool all = true;
  int64_t next = 0;
  for (int64_t i = 0; i < c->num_messages; i++) all = all && (c->trained[i] || !c->is_answer[i]);
  for (int64_t i = 0; i < whole->num_generated; i++) {
    tri_chat_span span = whole->generated[i];
    int64_t message = all ? 0 : message_of(c, whole, i, &next);
    if (message < 0) {
      return tri_fail(
          TRI_BAD_FILE,
          "some answers are not to be learnt, but the generation blocks of the template cannot be assigned to "
          "messages; remove `train` and similar flags, or use a template that prints one block for each answer");
    }
    if (span.end > span.begin && (all || c->trained[message])) TRI_TRY(add_answer(session, span.begin, span.end));
  }
  return TRI_OK;
}

/* Finds the beginning of a message's answer in the whole text; renders the messages before it. Fails with TRI_BAD_FILE
 * if the beginning cannot be found. */
static tri_status find_begin(tri_chat_session *session, const tri_chat_conversation *c, int64_t message, size_t *out) {
  const tri_chat_rendered *whole = &session->whole;
  tri_status status = tri_chat_session_render(session, c, message, true, &session->before);
  if (status == TRI_OUT_OF_MEMORY) return status;
  if (status == TRI_OK && begins_with(whole, &session->before)) {
    *out = session->before.bytes;
    if (!was_copied(whole, message) || *out <= whole->copied[message].begin) return TRI_OK;
  }
  if (was_copied(whole, message)) {
    *out = whole->copied[message].begin;
    return TRI_OK;
  }
  return tri_fail(TRI_BAD_FILE,
                  "cannot find the beginning of the answer of message %" PRId64
                  ": the template %s prints the earlier messages differently if the answer follows, and does not copy "
                  "the answer; use a template with {%% generation %%} blocks",
                  message + 1, tri_chat_template_name(session->format->template));
}

/* Compares the strings that `whole` is composed of, from offset `at` on, with those of `part`, from offset `from` on.
 * Returns the number of bytes of the equal strings before the first difference. */
static size_t common_pieces(const tri_chat_rendered *whole, size_t at, const tri_chat_rendered *part, size_t from) {
  int64_t i = whole->num_pieces, k = part->num_pieces;
  size_t common = 0;
  while (i > 0 && whole->pieces[i - 1] > at) i--;
  while (k > 0 && part->pieces[k - 1] > from) k--;
  for (; i < whole->num_pieces && k < part->num_pieces; i++, k++) {
    size_t end = whole->pieces[i] - at;
    if (end != part->pieces[k] - from) break;
    if (memcmp(whole->text + at + common, part->text + from + common, end - common) != 0) break;
    common = end;
  }
  return common;
}

static tri_status find_end(tri_chat_session *session, const tri_chat_conversation *c, int64_t message, size_t *out) {
  const tri_chat_rendered *whole = &session->whole, *behind = &session->behind;
  *out = whole->bytes;
  if (message + 1 == c->num_messages) return TRI_OK;
  tri_status status = tri_chat_session_render(session, c, message + 1, false, &session->behind);
  if (status == TRI_OUT_OF_MEMORY) return status;
  if (status == TRI_OK && begins_with(whole, behind)) {
    *out = behind->bytes;
    if (!was_copied(whole, message) || *out >= whole->copied[message].end) return TRI_OK;
  }
  if (status == TRI_OK && was_copied(whole, message) && was_copied(behind, message)) {
    size_t from = behind->copied[message].end, at = whole->copied[message].end;
    size_t common = common_pieces(whole, at, behind, from);
    *out = at + common;
    if (common > 0) return TRI_OK;
  }
  return tri_fail(
      TRI_BAD_FILE,
      "cannot find the end of the answer of message %" PRId64
      ": the template %s prints it differently if more messages follow; use a template with {%% generation %%} blocks",
      message + 1, tri_chat_template_name(session->format->template));
}

static bool same_text(const tri_chat_rendered *whole, tri_chat_span span, size_t at) {
  size_t bytes = span.end - span.begin;
  return at <= whole->bytes && bytes <= whole->bytes - at &&
         memcmp(whole->text + span.begin, whole->text + at, bytes) == 0;
}

/* Finds the answer of a message, [*begin, *end), by the text before and after the last found answer. Fails with
 * TRI_BAD_FILE if other text surrounds this one. */
static tri_status follow_pattern(const tri_chat_session *session, int64_t message, size_t *begin, size_t *end) {
  const tri_chat_rendered *whole = &session->whole;
  tri_chat_span before = session->before_last, behind = session->behind_last;
  if (was_copied(whole, message)) {
    *begin = whole->copied[message].begin - (before.end - before.begin);
    *end = whole->copied[message].end + (behind.end - behind.begin);
    if (*begin <= whole->copied[message].begin && same_text(whole, before, *begin) &&
        same_text(whole, behind, whole->copied[message].end)) {
      return TRI_OK;
    }
  }
  return tri_fail(
      TRI_BAD_FILE,
      "the conversation is too long to search for each answer separately, and the template %s prints the answer of "
      "message %" PRId64
      " differently from earlier ones; divide the conversation, or use a template with {%% generation %%} blocks",
      tri_chat_template_name(session->format->template), message + 1);
}

static tri_status find_answer(tri_chat_session *session, const tri_chat_conversation *c, int64_t message, size_t *begin,
                              size_t *end) {
  const tri_chat_rendered *whole = &session->whole;
  bool last = message + 1 == c->num_messages; /* tri_chat_format.end may follow the last message */
  if (session->has_pattern && session->work > MOST_WORK && !last) return follow_pattern(session, message, begin, end);
  TRI_TRY(find_begin(session, c, message, begin));
  TRI_TRY(find_end(session, c, message, end));
  if (*end < *begin) return tri_fail_internal("an answer of a conversation ends before it begins");
  if (!was_copied(whole, message)) return TRI_OK;
  session->has_pattern = true;
  session->before_last = (tri_chat_span){*begin, whole->copied[message].begin};
  session->behind_last = (tri_chat_span){whole->copied[message].end, *end};
  return TRI_OK;
}

static tri_status find_answers(tri_chat_session *session, const tri_chat_conversation *c) {
  session->has_pattern = false;
  for (int64_t i = 0; i < c->num_messages; i++) {
    size_t begin = 0, end = 0;
    if (!c->trained[i]) continue;
    TRI_TRY(find_answer(session, c, i, &begin, &end));
    TRI_TRY(add_answer(session, begin, end));
  }
  return TRI_OK;
}

/* ---- without a template ------------------------------------------------------------------------------------------ */

tri_status tri_chat_rendered_append(tri_chat_rendered *to, tri_chat_value text) {
  TRI_TRY(tri_reserve("a conversation", 1, to->bytes + text.bytes, &to->room, &to->text));
  if (text.bytes > 0) memcpy(to->text + to->bytes, text.text, text.bytes);
  to->bytes += text.bytes;
  return TRI_OK;
}

/* Appends the ending text, unless `text` ends with it. */
static tri_status append_end(tri_chat_session *session, tri_chat_value text) {
  tri_chat_value end = session->format->end;
  bool ended = text.bytes >= end.bytes && memcmp(text.text + text.bytes - end.bytes, end.text, end.bytes) == 0;
  return ended ? TRI_OK : tri_chat_rendered_append(&session->whole, end);
}

/* Uses a text that is not a conversation, which is learnt as a whole. */
static tri_status use_text(tri_chat_session *session, tri_chat_value text) {
  session->whole.bytes = 0;
  TRI_TRY(tri_chat_rendered_append(&session->whole, text));
  TRI_TRY(append_end(session, text));
  return add_answer(session, 0, session->whole.bytes);
}

/* Joins prompt and completion, and appends the ending text. Fails with TRI_BAD_FILE for messages, and for `system`. */
static tri_status join_plain(tri_chat_session *session, const tri_chat_conversation *c) {
  tri_chat_rendered *whole = &session->whole;
  if (c->prompt.kind != TRI_CHAT_STRING) {
    return tri_fail(TRI_BAD_FILE,
                    "messages need a chat template; `--chat-template none` is for `prompt` and `completion` that are "
                    "strings");
  }
  whole->bytes = 0;
  if (c->num_messages > 2) {
    return tri_fail(TRI_BAD_FILE,
                    "`system` cannot be used if `prompt` and `completion` are plain text (`--chat-template none`); "
                    "write it into the prompt");
  }
  TRI_TRY(tri_chat_rendered_append(whole, c->prompt));
  TRI_TRY(tri_chat_rendered_append(whole, c->completion));
  TRI_TRY(append_end(session, c->completion));
  return add_answer(session, c->prompt.bytes, whole->bytes);
}

/* ---- a line ------------------------------------------------------------------------------------------------------ */

static tri_status check_answers(const tri_chat_session *session) {
  for (int64_t i = 0; i < session->num_answers; i++) {
    if (session->answers[i].end > session->answers[i].begin) return TRI_OK;
  }
  return tri_fail(TRI_BAD_FILE, "the template prints no text of the answers, so there is nothing to learn from");
}

static size_t without_white_space(const tri_chat_rendered *rendered, size_t begin, size_t end) {
  while (end > begin && strchr(" \t\r\n", rendered->text[end - 1]) != NULL) end--;
  return end;
}

/* Returns whether the last message is learnt without an end: the template prints only white space after it, and the
 * message does not end with tri_chat_format.end. Returns false if no byte of the message was copied. */
static bool lacks_end(const tri_chat_session *session, const tri_chat_conversation *c) {
  const tri_chat_rendered *whole = &session->whole;
  const int64_t last = c->num_messages - 1;
  if (session->num_answers == 0 || !c->trained[last] || !was_copied(whole, last)) return false;
  const size_t learnt = without_white_space(whole, 0, session->answers[session->num_answers - 1].end);
  const tri_chat_value end = session->format->end;
  const bool ended =
      end.bytes > 0 && learnt >= end.bytes && memcmp(whole->text + learnt - end.bytes, end.text, end.bytes) == 0;
  return learnt <= whole->copied[last].end && !ended;
}

static tri_status answer(tri_chat_session *session, json_t *root, const tri_chat_reading *how) {
  tri_chat_conversation c;
  TRI_TRY(tri_chat_conversation_read(&session->arena, root, how, &c));
  session->is_text = c.text.kind == TRI_CHAT_STRING || session->format->template == NULL;
  session->no_end = false;
  if (c.text.kind == TRI_CHAT_STRING) return use_text(session, c.text);
  if (session->format->template == NULL) return join_plain(session, &c);
  TRI_TRY(tri_chat_session_render(session, &c, c.num_messages, false, &session->whole));
  bool tools = c.tools.kind != TRI_CHAT_NONE && session->format->tools_template != NULL;
  const tri_chat_template *template = tools ? session->format->tools_template : session->format->template;
  TRI_TRY(tri_chat_template_marks_answers(template) ? use_generated(session, &c) : find_answers(session, &c));
  session->no_end = lacks_end(session, &c);
  return check_answers(session);
}

tri_status tri_chat_name_line(const char *path, int64_t line, tri_status status) {
  char message[8192];
  if (status == TRI_OK || status == TRI_OUT_OF_MEMORY) return status;
  snprintf(message, sizeof message, "%s", tri_status_message());
  return tri_fail(status, "%s line %" PRId64 ": %s", path, line, message);
}

tri_status tri_chat_session_parse(tri_chat_session *session, const char *path, int64_t line, const char *text,
                                  size_t bytes, json_t **out) {
  tri_chat_arena_reset(&session->arena);
  session->num_answers = session->work = 0;
  TRI_TRY(tri_json_parse_line(path, line, text, bytes, JSON_ALLOW_NUL | JSON_DECODE_ANY, out));
  const tri_status status = tri_chat_name_line(path, line, tri_key_map_apply(session->format->key_map, *out));
  if (status != TRI_OK) json_decref(*out);
  return status;
}

static void give(const tri_chat_session *session, tri_chat_answered *out) {
  *out = (tri_chat_answered){session->whole.text,  session->whole.bytes, session->answers,
                             session->num_answers, session->is_text,     session->no_end};
}

tri_status tri_chat_session_read(tri_chat_session *session, const char *path, int64_t line, const tri_chat_reading *how,
                                 const char *text, size_t bytes, tri_chat_answered *out) {
  json_t *root = NULL;
  TRI_TRY(tri_chat_session_parse(session, path, line, text, bytes, &root));
  tri_status status = tri_chat_name_line(path, line, answer(session, root, how));
  json_decref(root);
  if (status == TRI_OK) give(session, out);
  return status;
}

/* ---- prompts and ends of answers --------------------------------------------------------------------------------- */

/* Resets the arena, and reads and renders messages; `beside`: with the record's tools and variables. Fails with
 * TRI_BAD_USAGE if there is no template. */
static tri_status render_messages(tri_chat_session *session, json_t *root, bool beside, bool prompt,
                                  tri_chat_conversation *read, tri_chat_rendered *out) {
  const tri_chat_reading messages = {.form = "messages"};
  tri_chat_arena_reset(&session->arena);
  session->work = 0;
  if (session->format->template == NULL) {
    return tri_fail(
        TRI_BAD_USAGE,
        "a conversation needs a chat template; give one with --chat-template NAME (trireme help templates)");
  }
  TRI_TRY(tri_chat_conversation_read_any(&session->arena, root, &messages, read));
  if (beside) TRI_TRY(tri_chat_conversation_read_beside(&session->arena, root, read));
  return tri_chat_session_render(session, read, read->num_messages, prompt, out);
}

/* Finds the end of the last message's content, without the white space at its end, as transformers does. Fails with
 * TRI_BAD_FILE if the content is not in the text. */
static tri_status find_final_end(const tri_chat_session *session, const tri_chat_conversation *c, size_t *out) {
  const tri_chat_rendered *whole = &session->whole;
  const tri_chat_value *content = tri_chat_dict_get(c->messages.list->items[c->num_messages - 1].dict, "content");
  size_t bytes = content == NULL || content->kind != TRI_CHAT_STRING ? 0 : content->bytes;
  while (bytes > 0 && strchr(" \t\r\n", content->text[bytes - 1]) != NULL) bytes--;
  for (size_t at = whole->bytes; bytes > 0 && at >= bytes; at--) {
    if (memcmp(whole->text + at - bytes, content->text, bytes) != 0) continue;
    *out = at;
    return TRI_OK;
  }
  return tri_fail(TRI_BAD_FILE,
                  "the last message cannot be continued: it has no text, or the template %s does not print "
                  "its text",
                  tri_chat_template_name(session->format->template));
}

tri_status tri_chat_session_prompt_as(tri_chat_session *session, json_t *root, const tri_chat_prompting *how,
                                      tri_chat_prompt *out) {
  tri_chat_rendered *whole = &session->whole;
  tri_chat_conversation read;
  TRI_TRY(render_messages(session, root, true, how->generation_prompt, &read, whole));
  if (how->continues && read.num_messages > 0) TRI_TRY(find_final_end(session, &read, &whole->bytes));
  while (whole->num_given > 0 && whole->given[whole->num_given - 1].begin >= whole->bytes) whole->num_given--;
  if (whole->num_given > 0 && whole->given[whole->num_given - 1].end > whole->bytes)
    whole->given[whole->num_given - 1].end = whole->bytes;
  *out = (tri_chat_prompt){whole->text, whole->bytes, whole->given, whole->num_given};
  return TRI_OK;
}

tri_status tri_chat_session_prompt(tri_chat_session *session, json_t *root, const char **out, size_t *out_bytes) {
  tri_chat_conversation read;
  TRI_TRY(render_messages(session, root, false, true, &read, &session->whole));
  *out = session->whole.text;
  *out_bytes = session->whole.bytes;
  return TRI_OK;
}

/* Copies [begin, end) of a text without trailing white space. Returns false if nothing remains, or if the rest does not
 * fit into `out`. */
static bool copy_end(const tri_chat_rendered *rendered, size_t begin, size_t end, char out[TRI_TURN_END_BYTES]) {
  end = without_white_space(rendered, begin, end);
  if (end <= begin || end - begin >= TRI_TURN_END_BYTES) return false;
  memcpy(out, rendered->text + begin, end - begin);
  out[end - begin] = '\0';
  return true;
}

/* Finds the text of a message: the bytes that were copied from it. If the template did not copy them, finds the last
 * occurrence of the text, which another string may have. Returns false if there is none. */
static bool find_text(const tri_chat_rendered *rendered, int64_t message, const char *text, tri_chat_span *out) {
  const size_t bytes = strlen(text);
  if (was_copied(rendered, message)) {
    *out = rendered->copied[message];
    return true;
  }
  for (size_t at = rendered->bytes; at >= bytes; at--) {
    *out = (tri_chat_span){at - bytes, at};
    if (memcmp(rendered->text + out->begin, text, bytes) == 0) return true;
  }
  return false;
}

/* Renders a question, its answer and, if `more`, another question. Sets *found to whether the answer is found, *end to
 * its end, and *next to the beginning of the next question or the end of the text. */
static tri_status render_turns(tri_chat_session *session, bool more, tri_chat_rendered *to, bool *found, size_t *end,
                               size_t *next) {
  json_t *root = json_pack("{s:[{s:s, s:s}, {s:s, s:s}]}", "messages", "role", "user", "content", "Hello", "role",
                           "assistant", "content", "Answer");
  json_t *question = json_pack("{s:s, s:s}", "role", "user", "content", "Question");
  tri_chat_span answer, other;
  tri_chat_conversation read;
  if (more) json_array_append(json_object_get(root, "messages"), question);
  tri_status status = root == NULL || question == NULL ? tri_fail(TRI_OUT_OF_MEMORY, "out of memory: a conversation")
                                                       : render_messages(session, root, false, false, &read, to);
  json_decref(question);
  json_decref(root);
  *found = status == TRI_OK && find_text(to, 1, "Answer", &answer);
  if (*found) *end = answer.end;
  if (*found) *next = more && find_text(to, 2, "Question", &other) ? other.begin : to->bytes;
  if (status == TRI_OUT_OF_MEMORY) return status;
  return TRI_OK; /* a template may refuse such a conversation */
}

tri_status tri_chat_session_turn_end(tri_chat_session *session, char out[TRI_TURN_END_BYTES]) {
  const tri_chat_rendered *whole = &session->whole, *behind = &session->behind;
  bool last = false, followed = false;
  size_t end = 0, stop = 0, from = 0, next = 0;
  out[0] = '\0';
  TRI_TRY(render_turns(session, false, &session->whole, &last, &end, &stop));
  TRI_TRY(render_turns(session, true, &session->behind, &followed, &from, &next));
  if (last && followed && copy_end(whole, end, end + common_pieces(whole, end, behind, from), out)) return TRI_OK;
  if (last && copy_end(whole, end, stop, out)) return TRI_OK;
  if (followed) (void)copy_end(behind, from, next, out);
  return TRI_OK;
}
