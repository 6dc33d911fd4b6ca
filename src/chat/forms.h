/* The forms in which conversations are published, and their conversion to messages (the table in forms.c):
 *
 *   messages           {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]}
 *   prompt-completion  {"prompt": "...", "completion": "..."}, or both as lists of messages
 *   sharegpt           {"conversations": [{"from": "human", "value": "..."}, {"from": "gpt", "value": "..."}]}
 *   alpaca             {"instruction": "...", "input": "...", "output": "..."}: the user's message is the instruction
 *                      and, unless it is empty, a blank line and the input
 *   question-answer    {"question": "...", "answer": "..."}
 *   text               {"text": "..."}: not a conversation; all of it counts in the loss
 */
#ifndef TRI_CHAT_FORMS_H
#define TRI_CHAT_FORMS_H

#include "chat/conversation.h"

#include <jansson.h>

enum { TRI_CHAT_FORM_KEYS = 3 };

typedef struct tri_chat_form {
  const char *name;
  const char *keys[TRI_CHAT_FORM_KEYS + 1];     /* keys of a record of this form; NULL after the last */
  const char *optional[TRI_CHAT_FORM_KEYS + 1]; /* keys that a record of this form may also have */
  /* Reads a record that has the keys. `key`: tri_chat_reading.key, or keys[0] if that is NULL. */
  tri_status (*read)(tri_chat_arena *arena, json_t *root, const char *key, tri_chat_conversation *out);
  bool takes_key; /* whether tri_chat_reading.key may be given */
  /* Finds the question of a record, without its answer: the user's text, or messages. NULL: not supported. */
  tri_status (*ask)(tri_chat_arena *arena, json_t *root, json_t **out);
} tri_chat_form;

/* Returns the form with that name; NULL if there is no such form. */
const tri_chat_form *tri_chat_form_named(const char *name);
/* Returns "messages, prompt-completion, ...". Static. */
const char *tri_chat_form_names(void);

/* Finds the form of a record, which must be an object. If how->form is given, it is that form. Else, if how->key is
 * given, it is prompt-completion for the key "prompt", and messages for any other key. Else it is the only form whose
 * keys the record has. Fails with TRI_BAD_FILE if the record lacks the form's keys, or if no form or several forms
 * match, and with TRI_UNSUPPORTED for a record of preferences (`chosen` and `rejected`). Error messages name keys; the
 * caller adds file and line. */
tri_status tri_chat_form_of(const json_t *root, const tri_chat_reading *how, const tri_chat_form **out);

/* Finds the form whose question (keys[0]) a record has, with any key for the answer. Sets *out to NULL if there is no
 * such form; fails with TRI_BAD_FILE if there are two. */
tri_status tri_chat_form_asking(const json_t *root, const tri_chat_form **out);

/* Returns whether the form reads its question from this key. */
bool tri_chat_form_asks(const tri_chat_form *form, const char *key);

/* Returns whether `form` reads this key of a record, or whether all forms read it. */
bool tri_chat_form_reads(const tri_chat_form *form, const tri_chat_reading *how, const char *key);

/* Writes the keys of an object, "`a`, `b`", as many as fit. Returns out, or "no keys" if the object is empty. */
const char *tri_chat_list_keys(const json_t *object, char *out, size_t out_bytes);

#endif
