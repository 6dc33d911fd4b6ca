/* From a line of JSON to the text of a conversation, and which of its bytes are answers. Of one thread.
 *
 * Where the template has generation blocks, what they print are the answers, as transformers has it
 * (return_assistant_tokens_mask). Elsewhere answer i begins where the template, given the messages before it, asks for
 * it (add_generation_prompt), and ends where the same conversation would end behind it: so with the text that ends a
 * turn. Both are looked for in the text of the whole conversation:
 *
 *   begin  the rendering of messages [0, i) with add_generation_prompt, where the whole begins with it; otherwise the
 *          first byte that was copied from message i (the renderer knows of each byte which message it is from)
 *   end    the rendering of messages [0, i], where the whole begins with it; otherwise as many strings of the template
 *          behind the last byte copied from message i as both have in common, and at least one
 *
 * Where neither is found the conversation is refused. That is two renderings an answer, and a conversation of thousands
 * of answers would take quadratic time: beyond a quarter of a GiB of renderings the texts that stood before and behind
 * the last answer so found must stand around the others too. */
#ifndef TRI_CHAT_SESSION_H
#define TRI_CHAT_SESSION_H

#include "chat/conversation.h"
#include "chat/format.h"

#include <jansson.h>

typedef struct tri_chat_session tri_chat_session;

/* The format must outlive it. Release with tri_chat_session_destroy. */
tri_status tri_chat_session_create(const tri_chat_format *format, tri_chat_session **out);
void tri_chat_session_destroy(tri_chat_session *session);

typedef struct tri_chat_answered {
  const char *text; /* the session's, until the next call */
  size_t bytes;
  const tri_chat_span *answers; /* in order */
  int64_t num_answers;
  bool is_text; /* not rendered by a template, which writes all special tokens */
  bool no_end;  /* only white space is learnt after the text of the last message */
} tri_chat_answered;

/* One conversation; `how` is as in tri_chat_conversation_read. Whatever is wrong with it is TRI_BAD_FILE or
 * TRI_UNSUPPORTED, and the message begins with file and line. */
tri_status tri_chat_session_read(tri_chat_session *session, const char *path, int64_t line, const tri_chat_reading *how,
                                 const char *text, size_t bytes, tri_chat_answered *out);

/* The text that asks for the answer to {"messages": [...]} (add_generation_prompt). It is the session's, until the next
 * call. */
tri_status tri_chat_session_prompt(tri_chat_session *session, json_t *root, const char **out, size_t *out_bytes);

/* What the template prints behind an answer, without the white space at its end: by it a text that a model writes is
 * known to be whole. Where that is nothing, what stands between an answer and the next question. "" if neither is
 * known. */
enum { TRI_TURN_END_BYTES = 256 };
tri_status tri_chat_session_turn_end(tri_chat_session *session, char out[TRI_TURN_END_BYTES]);

/* ---- for other readers of records (preference_session.h) --------------------------------------------------------- */

/* Parses a record; what the session's arena had is gone. */
tri_status tri_chat_session_parse(tri_chat_session *session, const char *path, int64_t line, const char *text,
                                  size_t bytes, json_t **out);
tri_chat_arena *tri_chat_session_arena(tri_chat_session *session);
/* Renders the first `count` messages; `prompt`: with add_generation_prompt. The format must have a template. */
tri_status tri_chat_session_render(tri_chat_session *session, const tri_chat_conversation *c, int64_t count,
                                   bool prompt, tri_chat_rendered *out);
/* Appends a string to a text. */
tri_status tri_chat_rendered_append(tri_chat_rendered *to, tri_chat_value text);
/* A failure's message begins with file and line. */
tri_status tri_chat_name_line(const char *path, int64_t line, tri_status status);

#endif
