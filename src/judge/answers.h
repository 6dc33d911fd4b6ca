/* Questions that a model answers in its own words, judged by whether these are the right ones, letter by letter:
 * lm-evaluation-harness's exact_match. */
#ifndef TRI_JUDGE_ANSWERS_H
#define TRI_JUDGE_ANSWERS_H

#include "generation/generator.h"
#include "judge/lines.h"
#include "tokenizer/tokenizer.h"

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

/* LOCAL. The model's likeliest token, again and again, behind the prompt, of which the last `room` tokens are read.
 * Stops at `end` (-1: there is no such token), at rule->until and after rule->tokens; *out is released by
 * tri_judge_text_release in any case. */
tri_status tri_answer_make(tri_generator *generator, const tri_tokenizer *tokenizer, int64_t vocabulary,
                           const tri_answer_rule *rule, const tri_token_list *prompt, int64_t room,
                           tri_judge_text *out);

#endif
