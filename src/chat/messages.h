/* Appending messages to a conversation. Error messages name the key and the number of the message; the caller adds file
 * and line. */
#ifndef TRI_CHAT_MESSAGES_H
#define TRI_CHAT_MESSAGES_H

#include "chat/conversation.h"
#include "chat/format.h"

#include <jansson.h>

/* Allocates memory for up to `count` messages; must be called before the functions below. Fails with TRI_BAD_FILE if
 * there are about 2^31 or more. */
tri_status tri_chat_messages_make_room(tri_chat_arena *arena, tri_chat_conversation *to, size_t count);

/* Removes null members from each message of a list, as transformers does before rendering (_normalize_chat_messages).
 * Deeper values keep their nulls, which may be arguments of a function. */
void tri_chat_messages_drop_nulls(json_t *list);

/* Appends the messages of a list, each {"role", "content"} or ShareGPT's {"from", "value"}. `key` names the list. Fails
 * with TRI_BAD_FILE if it is not a list of valid messages. Removes null members (tri_chat_messages_drop_nulls). */
tri_status tri_chat_messages_add(tri_chat_arena *arena, const char *key, json_t *list, tri_chat_conversation *to);

/* Returns whether a key of a message has a meaning: a key that every message may have, a flag for learning, or a word
 * of the template's source. */
bool tri_chat_message_reads(const tri_chat_format *format, const char *key);

/* Returns the role of a sender in ShareGPT's form: "user" for "human"; NULL if unknown. */
const char *tri_chat_role_of(const char *from);

/* Appends a system message with the record's member `system`, which every form may have, and replaces the member by
 * this message. Does nothing if the member is missing or empty. `first`: the first message (may be NULL). If this is a
 * system message, does nothing if the texts are equal, and fails with TRI_BAD_FILE if they differ. */
tri_status tri_chat_messages_add_system(tri_chat_arena *arena, json_t *root, const json_t *first,
                                        tri_chat_conversation *to);

/* A question and its answer, both strings, with their keys for error messages. */
typedef struct tri_chat_pair {
  json_t *user, *assistant;
  const char *user_key, *assistant_key;
} tri_chat_pair;

/* Makes room for messages, and appends `system`, the question and the answer. Question and answer also become `prompt`
 * and `completion`. The record's tree owns both strings. Fails with TRI_BAD_FILE for an invalid `system`. */
tri_status tri_chat_messages_add_pair(tri_chat_arena *arena, json_t *root, const tri_chat_pair *pair,
                                      tri_chat_conversation *to);

#endif
