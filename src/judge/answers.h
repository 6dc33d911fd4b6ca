/* Questions that a model answers in its own words, judged by whether these are the right ones, letter by letter:
 * lm-evaluation-harness's exact_match. */
#ifndef TRI_JUDGE_ANSWERS_H
#define TRI_JUDGE_ANSWERS_H

#include "judge/lines.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tri_asked {
  int64_t line; /* of the file, from 1 */
  tri_judge_text prompt;
  tri_judge_text *answers; /* [num_answers]: any of them is right */
  int64_t num_answers;
} tri_asked;

/* Starts as {0}. */
typedef struct tri_asked_list {
  tri_asked *list; /* [count] */
  int64_t count, capacity;
} tri_asked_list;

/* LOCAL. Reads a file of JSON lines, {"prompt": TEXT, "answer": TEXT or [TEXT, ...]}; *out is released by
 * tri_asked_release in any case. TRI_BAD_FILE names line and key of what is missing or cannot be. */
tri_status tri_asked_read(const char *path, tri_asked_list *out);
void tri_asked_release(tri_asked_list *asked);

/* How an answer is made, and compared. */
enum { TRI_ANSWER_STOPS = 8 };
typedef struct tri_answer_rule {
  int64_t tokens;                      /* at most */
  const char *until[TRI_ANSWER_STOPS]; /* the answer ends before the first of these; NULL: none more */
  bool strip;                          /* spaces around an answer do not count */
  bool ignore_case, ignore_punctuation, ignore_numbers;
} tri_answer_rule;

/* Whether the text is one of the answers as the rule compares them. */
tri_status tri_answer_matches(const tri_answer_rule *rule, const tri_asked *asked, const tri_judge_text *text,
                              bool *out);

/* How many texts end an answer. */
int tri_answer_stops(const tri_answer_rule *rule);
/* What a model wrote, to be compared; *out is {0} before, and released by tri_judge_text_release in any case. */
tri_status tri_answer_text(const char *text, size_t bytes, tri_judge_text *out);

#endif
