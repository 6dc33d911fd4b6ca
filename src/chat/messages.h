/* The messages of a conversation, as they are appended one after the other. Messages of errors name the key and the
 * number of the message, and leave file and line to the caller. */
#ifndef TRI_CHAT_MESSAGES_H
#define TRI_CHAT_MESSAGES_H

#include "chat/conversation.h"
#include "chat/format.h"

#include <jansson.h>

/* Memory for up to `count` messages; before any of the functions below. */
tri_status tri_chat_messages_make_room(tri_chat_arena *arena, tri_chat_conversation *to, size_t count);

/* Removes the members that are null from each message of a list, as transformers does before a template sees them
 * (_normalize_chat_messages). Deeper values keep their nulls, which may be arguments of a function. */
void tri_chat_messages_drop_nulls(json_t *list);

/* Appends the messages of a list, each {"role", "content"} or ShareGPT's {"from", "value"}. `key` names the list. */
tri_status tri_chat_messages_add(tri_chat_arena *arena, const char *key, json_t *list, tri_chat_conversation *to);

/* Whether this key of a message has a meaning: it is one that every message may have, a flag that says whether the
 * message is learnt, or a word of a template's source. */
bool tri_chat_message_reads(const tri_chat_format *format, const char *key);

/* The role for which a sender of ShareGPT's form stands: "user" for "human"; NULL if it is not known. */
const char *tri_chat_role_of(const char *from);

/* Appends the member `system` of the record, which may stand beside the messages in every form. `first` is the first
 * message, or NULL: it may say the same, and nothing else, to be a system message. */
tri_status tri_chat_messages_add_system(tri_chat_arena *arena, json_t *root, const json_t *first,
                                        tri_chat_conversation *to);

/* One question and its answer, two strings, with the keys that errors name. */
typedef struct tri_chat_pair {
  json_t *user, *assistant;
  const char *user_key, *assistant_key;
} tri_chat_pair;

/* Makes room and appends `system`, the question and the answer; they also become `prompt` and `completion`. The tree of
 * the record keeps a reference to both strings. */
tri_status tri_chat_messages_add_pair(tri_chat_arena *arena, json_t *root, const tri_chat_pair *pair,
                                      tri_chat_conversation *to);

#endif
