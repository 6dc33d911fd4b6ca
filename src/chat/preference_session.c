/* Every text must begin with its prompt, byte for byte; otherwise the record is refused, because the prompt in use
 * would differ from the one in training. */
#include "chat/preference_session.h"

#include "base/memory.h"
#include "chat/session.h"
#include "chat/template.h"

#include <string.h>

struct tri_preference_session {
  const tri_chat_format *format;
  tri_chat_session *chat;
  tri_chat_rendered prompt, whole[TRI_PREFERENCE_ANSWERS];
};

tri_status tri_preference_session_create(const tri_chat_format *format, tri_preference_session **out) {
  tri_preference_session *session = NULL;
  TRI_TRY(tri_alloc("a session of preferences", 1, sizeof *session, &session));
  session->format = format;
  const tri_status status = tri_chat_session_create(format, &session->chat);
  if (status == TRI_OK) *out = session;
  if (status != TRI_OK) tri_preference_session_destroy(session);
  return status;
}

void tri_preference_session_destroy(tri_preference_session *session) {
  if (session == NULL) return;
  tri_chat_session_destroy(session->chat);
  tri_chat_rendered_release(&session->prompt);
  for (int k = 0; k < TRI_PREFERENCE_ANSWERS; k++) tri_chat_rendered_release(&session->whole[k]);
  tri_free(session);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static const char *template_name(const tri_preference_session *session, const tri_chat_conversation *c) {
  const tri_chat_format *format = session->format;
  const bool tools = c->tools.kind != TRI_CHAT_NONE && format->tools_template != NULL;
  return tri_chat_template_name(tools ? format->tools_template : format->template);
}

static tri_status check_whole(const tri_preference_session *session, const tri_preference *p, int k) {
  const tri_chat_rendered *prompt = &session->prompt, *whole = &session->whole[k];
  const char *name = template_name(session, &p->conversations[k]);
  size_t same = 0;
  while (same < prompt->bytes && same < whole->bytes && prompt->text[same] == whole->text[same]) same++;
  if (same < prompt->bytes) {
    const size_t left = prompt->bytes - same;
    return tri_fail(
        TRI_BAD_FILE,
        "the template %s renders the end of the prompt, `%.*s`, differently if an answer follows; use a template that "
        "renders a prompt with add_generation_prompt as the beginning of prompt and answer, or give --skip-bad",
        name, left > 60 ? 60 : (int)left, prompt->text + same);
  }
  if (whole->bytes > prompt->bytes) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "the template %s prints no text of the answer, so there is nothing to learn from",
                  name);
}

static tri_status render_messages(tri_preference_session *session, const tri_preference *p) {
  if (session->format->template == NULL) {
    return tri_fail(
        TRI_BAD_FILE,
        "prompt and answers are messages, but the tokenizer's folder has no chat template, neither chat_template.jinja "
        "nor \"chat_template\" in tokenizer_config.json; give a name or a file with --chat-template (trireme help "
        "templates)");
  }
  TRI_TRY(tri_chat_session_render(session->chat, &p->conversations[0], p->prompt_messages, true, &session->prompt));
  for (int k = 0; k < p->num_answers; k++) {
    const tri_chat_conversation *c = &p->conversations[k];
    TRI_TRY(tri_chat_session_render(session->chat, c, c->num_messages, false, &session->whole[k]));
    TRI_TRY(check_whole(session, p, k));
  }
  return TRI_OK;
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

static bool ends_with(tri_chat_value text, tri_chat_value end) {
  return text.bytes >= end.bytes && memcmp(text.text + text.bytes - end.bytes, end.text, end.bytes) == 0;
}

static tri_status join_texts(tri_preference_session *session, const tri_preference *p) {
  const tri_chat_value end = session->format->end;
  if (end.bytes == 0) {
    return tri_fail(TRI_BAD_FILE,
                    "a plain-text answer needs an end-of-text token at its end, but the tokenizer has none; name one "
                    "as eos_token in a tokenizer_config.json in the tokenizer's folder");
  }
  session->prompt.bytes = 0;
  TRI_TRY(tri_chat_rendered_append(&session->prompt, p->prompt));
  for (int k = 0; k < p->num_answers; k++) {
    tri_chat_rendered *whole = &session->whole[k];
    whole->bytes = 0;
    TRI_TRY(tri_chat_rendered_append(whole, p->prompt));
    TRI_TRY(tri_chat_rendered_append(whole, p->answers[k]));
    if (!ends_with(p->answers[k], end)) TRI_TRY(tri_chat_rendered_append(whole, end));
  }
  return TRI_OK;
}

/* ---- a record ---------------------------------------------------------------------------------------------------- */

static tri_status make_texts(tri_preference_session *session, json_t *root, tri_preference *out) {
  TRI_TRY(tri_preference_read(tri_chat_session_arena(session->chat), root, out));
  return out->is_text ? join_texts(session, out) : render_messages(session, out);
}

static tri_preference_text text_of(const tri_chat_rendered *rendered) {
  return (tri_preference_text){rendered->text, rendered->bytes};
}

tri_status tri_preference_session_read(tri_preference_session *session, const char *path, int64_t line,
                                       const char *text, size_t bytes, tri_preference_texts *out) {
  json_t *root = NULL;
  tri_preference p = {.num_answers = 0};
  TRI_TRY(tri_chat_session_parse(session->chat, path, line, text, bytes, &root));
  const tri_status status = tri_chat_name_line(path, line, make_texts(session, root, &p));
  json_decref(root);
  if (status != TRI_OK) return status;
  *out = (tri_preference_texts){.prompt = text_of(&session->prompt),
                                .num_answers = p.num_answers,
                                .desirable = p.desirable,
                                .is_text = p.is_text};
  for (int k = 0; k < p.num_answers; k++) out->whole[k] = text_of(&session->whole[k]);
  return TRI_OK;
}
