/* Converts a record of preferences to the texts that are compared. For one thread. */
#ifndef TRI_CHAT_PREFERENCE_SESSION_H
#define TRI_CHAT_PREFERENCE_SESSION_H

#include "chat/format.h"
#include "chat/preference_forms.h"

typedef struct tri_preference_session tri_preference_session;

/* Creates a session. The format must outlive it; without a template only texts are read. Release with
 * tri_preference_session_destroy. */
tri_status tri_preference_session_create(const tri_chat_format *format, tri_preference_session **out);
void tri_preference_session_destroy(tri_preference_session *session);

typedef struct tri_preference_text {
  const char *text;
  size_t bytes;
} tri_preference_text;

/* Texts of a record, owned by the session and valid until the next call. */
typedef struct tri_preference_texts {
  tri_preference_text prompt;
  tri_preference_text whole[TRI_PREFERENCE_ANSWERS]; /* prompt and answer of each text; a text without a template ends
                                                        with tri_chat_format.end */
  int num_answers;                                   /* 2: chosen, then rejected; 1: an answer with a label */
  bool desirable;                                    /* whether the answer is desirable (its label), if num_answers is
                                                        1 */
  bool is_text; /* whether the texts are plain: not rendered by a template, which would have written all special
                   tokens */
} tri_preference_texts;

/* Reads one record. Fails with TRI_BAD_FILE or TRI_UNSUPPORTED if it is wrong; the message begins with file and line.
 */
tri_status tri_preference_session_read(tri_preference_session *session, const char *path, int64_t line,
                                       const char *text, size_t bytes, tri_preference_texts *out);

#endif
