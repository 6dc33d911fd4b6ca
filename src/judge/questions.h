/* Questions with given choices, in the formats of common data sets. docs/judging.md shows each format. */
#ifndef TRI_JUDGE_QUESTIONS_H
#define TRI_JUDGE_QUESTIONS_H

#include "judge/lines.h"

typedef struct tri_question {
  int64_t line;               /* line in the file, from 1 */
  const char *form;           /* name of the line's form; static */
  tri_judge_text description; /* text that the form puts before the question; may be empty */
  tri_judge_text context;
  tri_judge_text *choices; /* [num_choices] */
  int64_t num_choices;     /* at least two */
  int64_t answer;          /* number of the right choice, from 0 */
} tri_question;

/* Starts as {0}. */
typedef struct tri_questions {
  tri_question *list; /* [count] */
  int64_t count, capacity;
} tri_questions;

/* Puts the question's description before its context, and leaves the description empty. */
tri_status tri_question_join(tri_question *question);

/* LOCAL. Reads a file of JSON lines with one question each, up to its first `limit` questions (0: all). Release *out
 * with tri_questions_release, also after a failure. Fails with TRI_BAD_FILE if a line is not valid; the message names
 * the line and the key that is missing or not valid. */
tri_status tri_questions_read(const char *path, int64_t limit, tri_questions *out);
void tri_questions_release(tri_questions *questions);

#endif
