/* One record of a file of conversations: one line of JSON lines, or one element of an array. The forms that it may have
 * are in chat/forms.h.
 *
 * A message of the assistant may have a flag such as "train": false; then it is context only. */
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
  tri_chat_value text;               /* a record of the form `text`, which has no messages; else undefined */
} tri_chat_conversation;

/* How the records of a file are read. */
typedef struct tri_chat_reading {
  const char *form; /* its name (tri_chat_form_named); NULL: the only one whose keys a record has */
  const char *key;  /* the member that holds the messages, or the text; NULL: the form's own */
} tri_chat_reading;

/* Everything lives in the arena and the JSON tree, which may be changed. Messages name the key, and leave file and line
 * to the caller. */
tri_status tri_chat_conversation_read(tri_chat_arena *arena, json_t *root, const tri_chat_reading *how,
                                      tri_chat_conversation *out);
/* The same where nothing is to be learnt: there may be no answer yet. */
tri_status tri_chat_conversation_read_any(tri_chat_arena *arena, json_t *root, const tri_chat_reading *how,
                                          tri_chat_conversation *out);

/* What stands beside the messages of every form: `tools` and `chat_template_kwargs`. */
tri_status tri_chat_conversation_read_beside(tri_chat_arena *arena, json_t *root, tri_chat_conversation *to);

#endif
