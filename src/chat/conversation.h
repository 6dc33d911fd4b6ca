/* One line of a file of conversations. Three forms are known:
 *
 *   {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}], "tools": [...]}
 *   {"prompt": "...", "completion": "..."}, or both as lists of messages
 *   {"conversations": [{"from": "human", "value": "..."}, {"from": "gpt", "value": "..."}], "system": "..."}
 *
 * A message of the assistant may have "train": false or "weight": 0; then it is context only. */
#ifndef TRI_CHAT_CONVERSATION_H
#define TRI_CHAT_CONVERSATION_H

#include "chat/value.h"

#include <jansson.h>

typedef struct tri_chat_conversation {
  tri_chat_value messages; /* a list of dicts; strings in them (but roles) are tagged with 1 + the message's number */
  int64_t num_messages;
  bool *is_answer; /* by message: the assistant's */
  bool *trained;   /* and its words are to be learnt */
  int64_t num_answers, num_trained;
  tri_chat_value tools;              /* a list, or none */
  const tri_chat_dict *variables;    /* of "chat_template_kwargs", or NULL */
  tri_chat_value prompt, completion; /* where both are strings, these; else undefined */
} tri_chat_conversation;

/* `key` is the member that holds the messages; NULL: the first of the forms that is there. Everything lives in the
 * arena and the JSON tree, which may be changed. Messages name the key, and leave file and line to the caller. */
tri_status tri_chat_conversation_read(tri_chat_arena *arena, json_t *root, const char *key, tri_chat_conversation *out);
/* The same where nothing is to be learnt: there may be no answer yet. */
tri_status tri_chat_conversation_read_any(tri_chat_arena *arena, json_t *root, const char *key,
                                          tri_chat_conversation *out);

#endif
