/* Prompts that a chat template makes for a model that writes answers. Commands, runs and servers use these functions.
 */
#ifndef TRI_CHAT_PROMPTS_H
#define TRI_CHAT_PROMPTS_H

#include "chat/session.h"

/* Starts as {0}. */
typedef struct tri_chat_prompts {
  tri_chat_format format;
  tri_chat_session *session;         /* NULL: not open, or there is no template */
  char turn_end[TRI_TURN_END_BYTES]; /* text that ends an answer; "": unknown */
} tri_chat_prompts;

/* Reads the template, and finds turn_end. Fails with TRI_BAD_FILE if there is none; with options->optional, or for the
 * file "none", `session` is NULL then. Release with tri_chat_prompts_close, also after a failure. */
tri_status tri_chat_prompts_open(const tri_chat_format_options *options, tri_chat_prompts *out);
void tri_chat_prompts_close(tri_chat_prompts *prompts);

/* Renders the prompt for an answer to `messages`, a list of {"role", "content"}; `root` may have further members of a
 * conversation ("tools", "chat_template_kwargs"), or be NULL. If `system` is not NULL and the first message is not the
 * system's, begins with a system message of this text. The session owns the text until the next call. Fails with
 * TRI_BAD_USAGE if there is no template or `system` is not UTF-8, and with TRI_BAD_FILE if the last message is the
 * assistant's, or if the template refuses the messages or prints nothing. */
tri_status tri_chat_prompts_render(tri_chat_prompts *prompts, const json_t *messages, const json_t *root,
                                   const char *system, const char **text, size_t *bytes);

#endif
