/* The forms in which preferences are published (TRL's), and their conversion to a prompt and its answers (the table in
 * preference_forms.c). Prompt and answers are texts, or lists of messages:
 *
 *   prompt-chosen-rejected   {"prompt": "...", "chosen": "...", "rejected": "..."}; or `prompt` is a string and the two
 *                            others are whole conversations, which begin with the user's message of that text
 *   chosen-rejected          {"chosen": "...", "rejected": "..."}: the common beginning is the prompt
 *   question-chosen-rejected the question as in a form of conversations (forms.h): {"instruction": "...",
 *                            "input": "...", "chosen": "...", "rejected": "..."}, or `question`, `conversations`,
 *                            `messages`
 *   prompt-completion-label  {"prompt": "...", "completion": "...", "label": true}
 *   question-completion-label  the question as above, with "completion" and "label"
 */
#ifndef TRI_CHAT_PREFERENCE_FORMS_H
#define TRI_CHAT_PREFERENCE_FORMS_H

#include "chat/conversation.h"

#include <jansson.h>

enum { TRI_PREFERENCE_ANSWERS = 2 };

/* A prompt and its answers. Texts are in `prompt` and `answers`, messages in `conversations`. */
typedef struct tri_preference {
  int num_answers; /* 2: chosen, then rejected; 1: an answer with a label */
  bool desirable;  /* whether the answer is desirable (its label), if num_answers is 1 */
  bool is_text;
  tri_chat_value prompt, answers[TRI_PREFERENCE_ANSWERS];
  tri_chat_conversation conversations[TRI_PREFERENCE_ANSWERS]; /* conversation of each answer: the prompt's messages,
                                                                  then those of the answer */
  int64_t prompt_messages;                                     /* number of the prompt's messages, equal in both */
} tri_preference;

typedef struct tri_preference_form tri_preference_form;
struct tri_preference_form {
  const char *name;
  const char *keys[4];    /* keys of a record of this form; NULL after the last */
  const char *absent;     /* key that a record must not have; NULL: none */
  const char *answers[2]; /* keys of the answers; NULL: none */
  tri_status (*read)(tri_chat_arena *arena, json_t *root, const tri_preference_form *form, tri_preference *out);
};

/* Translates a record of another program (preference_dialects.h), and finds the only form whose keys it has. Fails with
 * TRI_BAD_FILE if no form or several forms match. Error messages name keys; the caller adds file and line. */
tri_status tri_preference_form_of(json_t *root, const tri_preference_form **out);

/* Returns whether the form reads this key of the record. */
bool tri_preference_form_reads(const tri_preference_form *form, const json_t *root, const char *key);

/* Reads a record. The result is in the arena and in the JSON tree, which may be changed. Fails with TRI_BAD_FILE if the
 * record has no known form, or if its prompt or an answer is invalid. */
tri_status tri_preference_read(tri_chat_arena *arena, json_t *root, tri_preference *out);

#endif
