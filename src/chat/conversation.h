/* One record of a file of conversations: one line of JSON lines, or one element of an array. The forms that it may have
 * are in chat/forms.h.
 *
 * A message of the assistant may have a flag such as "train": false; then it is context only. */
#ifndef TRI_CHAT_CONVERSATION_H
#define TRI_CHAT_CONVERSATION_H

#include "chat/value.h"

#include <jansson.h>

typedef struct tri_chat_conversation {
  tri_chat_value messages; /* a list of dicts; their strings (except roles) are tagged with 1 + the message's number */
  int64_t num_messages;
  bool *is_answer; /* whether each message is the assistant's [num_messages] */
  bool *trained;   /* whether each message is learnt [num_messages] */
  int64_t num_answers, num_trained;
  tri_chat_value tools;              /* a list, or none */
  const tri_chat_dict *variables;    /* "chat_template_kwargs"; NULL: none */
  tri_chat_value prompt, completion; /* defined if both are strings */
  tri_chat_value text;               /* defined for a record of the form `text`, without messages */
} tri_chat_conversation;

/* How the records of a file are read. */
typedef struct tri_chat_reading {
  const char
      *form; /* name of the form (tri_chat_form_named); NULL: `key` or the record's keys determine the form (forms.h) */
  const char *key; /* member with the messages, or the text; NULL: the form's own */
} tri_chat_reading;

/* Reads a conversation. The result is in the arena and in the JSON tree, which may be changed. Fails with TRI_BAD_FILE
 * if no answer is to be learnt, and as the next two functions do. Error messages name the key; the caller adds file and
 * line. */
tri_status tri_chat_conversation_read(tri_chat_arena *arena, json_t *root, const tri_chat_reading *how,
                                      tri_chat_conversation *out);
/* Reads only the messages or the text, without tools and variables. The conversation may have no answer yet. Fails with
 * TRI_BAD_FILE if the record is not an object, or a value in it is wrong, with TRI_UNSUPPORTED if it is a preference,
 * or has something else that this program does not read. */
tri_status tri_chat_conversation_read_any(tri_chat_arena *arena, json_t *root, const tri_chat_reading *how,
                                          tri_chat_conversation *out);

/* Reads the keys that every form may have: `tools` and `chat_template_kwargs`. Fails with TRI_BAD_FILE if a value is
 * wrong. */
tri_status tri_chat_conversation_read_beside(tri_chat_arena *arena, json_t *root, tri_chat_conversation *to);

#endif
