/* Converts a line of JSON to the text of a conversation, and finds the bytes of its answers. For one thread.
 *
 * If the template has generation blocks, their output is the answers, as in transformers
 * (return_assistant_tokens_mask). Otherwise answer i begins at the end of the generation prompt for the messages before
 * it (add_generation_prompt), and ends where the conversation up to message i would end, which includes the text that
 * ends a turn. Both are searched in the text of the whole conversation:
 *
 *   begin  the length of the rendering of messages [0, i) with add_generation_prompt, if the whole begins with it;
 *          otherwise the first byte that was copied from message i (the renderer records the message of each byte)
 *   end    the length of the rendering of messages [0, i], if the whole begins with it; otherwise the template's
 *          strings after the last byte copied from message i are compared in both texts, and the equal ones, at least
 *          one, belong to the answer
 *
 * If one of the two cannot be found, the conversation is refused. Each answer needs two renderings, so a conversation
 * with thousands of answers would take quadratic time: beyond a quarter of a GiB of renderings, the other answers must
 * have the same text before and after them as the last found one. */
#ifndef TRI_CHAT_SESSION_H
#define TRI_CHAT_SESSION_H

#include "chat/conversation.h"
#include "chat/format.h"

#include <jansson.h>

typedef struct tri_chat_session tri_chat_session;

/* Creates a session. The format must outlive it. Release with tri_chat_session_destroy. */
tri_status tri_chat_session_create(const tri_chat_format *format, tri_chat_session **out);
void tri_chat_session_destroy(tri_chat_session *session);

typedef struct tri_chat_answered {
  const char *text; /* owned by the session, valid until the next call */
  size_t bytes;
  const tri_chat_span *answers; /* byte ranges of the learnt answers in `text`, in order [num_answers] */
  int64_t num_answers;
  bool is_text; /* whether the text is plain: not rendered by a template, which would have written all special tokens */
  bool no_end;  /* whether only white space is learnt after the text of the last message */
} tri_chat_answered;

/* Reads one conversation; `how` is as in tri_chat_conversation_read. Fails with TRI_BAD_FILE or TRI_UNSUPPORTED if it
 * is wrong; the message begins with file and line. */
tri_status tri_chat_session_read(tri_chat_session *session, const char *path, int64_t line, const tri_chat_reading *how,
                                 const char *text, size_t bytes, tri_chat_answered *out);

/* Renders the prompt for an answer to {"messages": [...]} (add_generation_prompt). The session owns the text until the
 * next call. Fails with TRI_BAD_USAGE if the format has no template. */
tri_status tri_chat_session_prompt(tri_chat_session *session, json_t *root, const char **out, size_t *out_bytes);

/* How tri_chat_session_prompt_as renders messages, with the names of transformers' apply_chat_template. */
typedef struct tri_chat_prompting {
  bool generation_prompt; /* whether the prompt ends with the beginning of an answer (add_generation_prompt) */
  bool continues;         /* whether the text ends with the last message's content (continue_final_message) */
} tri_chat_prompting;
/* A rendered prompt. The session owns its memory until the next call. */
typedef struct tri_chat_prompt {
  const char *text;
  size_t bytes;
  const tri_chat_span *given; /* byte ranges that come from `root`, not from the template, in order [num_given] */
  int64_t num_given;
} tri_chat_prompt;
/* Renders the prompt as tri_chat_session_prompt does, but `how` decides about add_generation_prompt. `root` may also
 * have "tools" and "chat_template_kwargs". Fails with TRI_BAD_FILE if how->continues, and the last message has no text
 * or the template does not print it. */
tri_status tri_chat_session_prompt_as(tri_chat_session *session, json_t *root, const tri_chat_prompting *how,
                                      tri_chat_prompt *out);

/* Finds the text that marks the end of a generated answer, without trailing white space. It consists of the strings
 * that the template prints after an answer whether a question follows or not. If there are no such strings, it is the
 * text after the last answer; if that is empty, the text between an answer and the next question; "" if neither is
 * known. */
enum { TRI_TURN_END_BYTES = 256 };
tri_status tri_chat_session_turn_end(tri_chat_session *session, char out[TRI_TURN_END_BYTES]);

/* ---- for other readers of records (preference_session.h) --------------------------------------------------------- */

/* Parses a record, renames its keys (tri_chat_format.key_map), and resets the session's arena. Release *out with
 * json_decref. Fails with TRI_BAD_FILE for invalid JSON and for missing keys; the message begins with file and line. */
tri_status tri_chat_session_parse(tri_chat_session *session, const char *path, int64_t line, const char *text,
                                  size_t bytes, json_t **out);
tri_chat_arena *tri_chat_session_arena(tri_chat_session *session);
/* Renders the first `count` messages; `prompt`: with add_generation_prompt. The format must have a template. Fails as
 * tri_chat_render does. */
tri_status tri_chat_session_render(tri_chat_session *session, const tri_chat_conversation *c, int64_t count,
                                   bool prompt, tri_chat_rendered *out);
/* Appends a string to a text. */
tri_status tri_chat_rendered_append(tri_chat_rendered *to, tri_chat_value text);
/* Returns `status`. If it is a failure other than TRI_OUT_OF_MEMORY, adds file and line to the beginning of its
 * message. */
tri_status tri_chat_name_line(const char *path, int64_t line, tri_status status);

#endif
