/* Questions with given choices, judged by which choice a model finds likeliest: lm-evaluation-harness's acc and
 * acc_norm. */
#ifndef TRI_JUDGE_CHOICES_H
#define TRI_JUDGE_CHOICES_H

#include "generation/scorer.h"
#include "judge/pairs.h"
#include "judge/questions.h"

/* How likelihoods are compared: as they are, or divided by the choice's length. */
#define TRI_CHOICE_MEASURES(X)                                                                                         \
  X(ACC, acc)             /* whole */                                                                                  \
  X(ACC_NORM, acc_norm)   /* a character */                                                                            \
  X(ACC_BYTES, acc_bytes) /* a byte of UTF-8 */
#define TRI_CHOICE_MEASURE_VALUE(VALUE, name) TRI_CHOICE_##VALUE,
typedef enum tri_choice_measure { TRI_CHOICE_MEASURES(TRI_CHOICE_MEASURE_VALUE) } tri_choice_measure;
enum { TRI_NUM_CHOICE_MEASURES = TRI_CHOICE_ACC_BYTES + 1 };
const char *tri_choice_measure_name(tri_choice_measure measure);

/* All choices of all questions as tokens, one after the other. */
typedef struct tri_choice_set {
  const tri_questions *questions;
  tri_token_list tokens;
  tri_scored_text *texts; /* [num_texts]: a question's choices follow each other; `out` points into scores */
  int64_t num_texts;
  double *scores;          /* of each token of each choice */
  int64_t longest;         /* tokens of a text that are read: what a sequence must hold */
  int64_t shortened;       /* texts whose beginning is left out, since they are longer than the model's positions, */
  int64_t first_shortened; /* and the line of the first */
} tri_choice_set;

/* LOCAL. Encodes the questions of a file that was read (`path` is for messages) for a model of that many positions: of
 * what is longer the beginning is left out. A choice that is longer by itself, or has no token of its own, is
 * TRI_BAD_FILE. The questions outlive the set; release with tri_choice_set_release in any case. */
tri_status tri_choice_set_create(const char *path, const tri_questions *questions, tri_pair_encoder *encoder,
                                 int64_t positions, tri_choice_set *out);
void tri_choice_set_release(tri_choice_set *set);

/* What came of one question. */
typedef struct tri_judged_question {
  const double *log_likelihoods; /* [num_choices], of each choice's tokens together; the judgement's */
  int64_t chosen[TRI_NUM_CHOICE_MEASURES];
  double probability; /* of the right choice among them: the softmax of log_likelihoods */
} tri_judged_question;

typedef struct tri_judgement {
  tri_judged_question *questions; /* [count] */
  int64_t count;
  double accuracy[TRI_NUM_CHOICE_MEASURES];
  double error[TRI_NUM_CHOICE_MEASURES]; /* standard errors of these means; NaN of a single question */
  double probability, probability_error; /* the mean of the right choices' */
  double *log_likelihoods;               /* of all choices */
} tri_judgement;

/* LOCAL. Scores all choices and compares them. A likelihood that is not a number is TRI_DIVERGED. Release with
 * tri_judgement_release in any case. */
tri_status tri_choices_judge(tri_scorer *scorer, const tri_choice_set *set, void (*progress)(int64_t done, int64_t all),
                             tri_judgement *out);
void tri_judgement_release(tri_judgement *judgement);

#endif
