/* Questions that a model answers in its own words. An answer is right if it equals one of the given answers, up to the
 * differences that tri_match_rule ignores. This is exact_match of lm-evaluation-harness. */
#ifndef TRI_JUDGE_ANSWERS_H
#define TRI_JUDGE_ANSWERS_H

#include "judge/lines.h"
#include "reward/exact_match.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tri_asked {
  int64_t line; /* line in the file, from 1 */
  tri_judge_text prompt;
  tri_judge_text *answers; /* [num_answers]; each one is a right answer */
  int64_t num_answers;
} tri_asked;

/* Starts as {0}. */
typedef struct tri_asked_list {
  tri_asked *list; /* [count] */
  int64_t count, capacity;
} tri_asked_list;

/* LOCAL. Reads a file of JSON lines, {"prompt": TEXT, "answer": TEXT or [TEXT, ...]}, up to its first `limit` lines
 * (0: all). Release *out with tri_asked_release, also after a failure. Fails with TRI_BAD_FILE if a line is not valid;
 * the message names the line and the key that is missing or not valid. */
tri_status tri_asked_read(const char *path, int64_t limit, tri_asked_list *out);
void tri_asked_release(tri_asked_list *asked);

/* Rule for generating and comparing answers. */
enum { TRI_ANSWER_STOPS = 8 };
typedef struct tri_answer_rule {
  int64_t tokens;                      /* maximum tokens of an answer */
  const char *until[TRI_ANSWER_STOPS]; /* texts that end an answer; the answer ends before the first one that occurs;
                                          NULL ends the list */
  tri_match_rule match;                /* differences that are ignored in a comparison */
} tri_answer_rule;

/* Sets *out to whether the text equals one of the answers under the rule. */
tri_status tri_answer_matches(const tri_answer_rule *rule, const tri_asked *asked, const tri_judge_text *text,
                              bool *out);

/* Returns the number of texts in rule->until. */
int tri_answer_stops(const tri_answer_rule *rule);
/* Copies text[bytes], which the model generated, to *out without its NUL characters, because a NUL ends a
 * tri_judge_text. *out is {0} on entry; release it with tri_judge_text_release, also after a failure. */
tri_status tri_answer_text(const char *text, size_t bytes, tri_judge_text *out);

#endif
