/* The forms in which conversations are published, and how each becomes messages (the table in forms.c):
 *
 *   messages           {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]}
 *   prompt-completion  {"prompt": "...", "completion": "..."}, or both as lists of messages
 *   sharegpt           {"conversations": [{"from": "human", "value": "..."}, {"from": "gpt", "value": "..."}]}
 *   alpaca             {"instruction": "...", "input": "...", "output": "..."}: the user's message is the instruction
 * and, unless it is empty, a blank line and the input question-answer    {"question": "...", "answer": "..."} text
 * {"text": "..."}: not a conversation; all of it counts in the loss
 */
#ifndef TRI_CHAT_FORMS_H
#define TRI_CHAT_FORMS_H

#include "chat/conversation.h"

#include <jansson.h>

enum { TRI_CHAT_FORM_KEYS = 3 };

typedef struct tri_chat_form {
  const char *name;
  const char *keys[TRI_CHAT_FORM_KEYS + 1];     /* that a record of this form has, NULL behind the last */
  const char *optional[TRI_CHAT_FORM_KEYS + 1]; /* that it may have */
  /* Reads a record that has the keys; `key` is that of tri_chat_reading. */
  tri_status (*read)(tri_chat_arena *arena, json_t *root, const char *key, tri_chat_conversation *out);
  bool takes_key; /* `key` may be given */
  /* Finds the question of a record, without its answer: the user's text, or messages. NULL: not supported. */
  tri_status (*ask)(tri_chat_arena *arena, json_t *root, json_t **out);
} tri_chat_form;

/* NULL for a name that is not a form's. */
const tri_chat_form *tri_chat_form_named(const char *name);
/* "messages, prompt-completion, ...". Static. */
const char *tri_chat_form_names(void);

/* The form of a record, an object: the one that is named, else the only one whose keys it has, else that of `key`. None
 * or several are TRI_BAD_FILE. Messages name keys, and leave file and line to the caller. */
tri_status tri_chat_form_of(const json_t *root, const tri_chat_reading *how, const tri_chat_form **out);

/* The form whose question a record has, whatever holds the answer: keys[0] is there. Sets *out to NULL if there is no
 * such form; two are TRI_BAD_FILE. */
tri_status tri_chat_form_asking(const json_t *root, const tri_chat_form **out);

/* Whether the question of the form is read from this key. */
bool tri_chat_form_asks(const tri_chat_form *form, const char *key);

/* Whether the form, or every form, reads this key of a record. */
bool tri_chat_form_reads(const tri_chat_form *form, const tri_chat_reading *how, const char *key);

/* "`a`, `b`": the keys of an object, as far as there is room. */
const char *tri_chat_list_keys(const json_t *object, char *out, size_t out_bytes);

#endif
