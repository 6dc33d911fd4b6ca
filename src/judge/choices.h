/* Questions with given choices. The model chooses the choice with the highest likelihood. The measures are acc and
 * acc_norm of lm-evaluation-harness, and acc_bytes. */
#ifndef TRI_JUDGE_CHOICES_H
#define TRI_JUDGE_CHOICES_H

#include "generation/scorer.h"
#include "judge/pairs.h"
#include "judge/questions.h"

/* Measures by which choices are compared: the log-likelihood of a choice, or this log-likelihood divided by the
 * choice's length. */
#define TRI_CHOICE_MEASURES(X)                                                                                         \
  X(ACC, acc)             /* log-likelihood itself */                                                                  \
  X(ACC_NORM, acc_norm)   /* log-likelihood / number of characters */                                                  \
  X(ACC_BYTES, acc_bytes) /* log-likelihood / number of bytes of UTF-8 */
#define TRI_CHOICE_MEASURE_VALUE(VALUE, name) TRI_CHOICE_##VALUE,
typedef enum tri_choice_measure { TRI_CHOICE_MEASURES(TRI_CHOICE_MEASURE_VALUE) } tri_choice_measure;
enum { TRI_NUM_CHOICE_MEASURES = TRI_CHOICE_ACC_BYTES + 1 };
/* Returns "acc", "acc_norm" or "acc_bytes". */
const char *tri_choice_measure_name(tri_choice_measure measure);

/* Tokens of all choices of all questions. */
typedef struct tri_choice_set {
  const tri_questions *questions;
  tri_token_list tokens;
  tri_scored_text *texts; /* [num_texts]; the choices of a question are adjacent; the member `out` of each text points
                             into `scores` */
  int64_t num_texts;
  double *scores;    /* log-likelihood of each token of each choice */
  int64_t longest;   /* length of sequences: the largest number of tokens that the model reads of a text, which are all
                        but its last token */
  int64_t shortened; /* number of texts that are longer than the model's positions; their beginning is left out */
  int64_t first_shortened; /* line of the first shortened text */
} tri_choice_set;

/* LOCAL. Encodes the questions of a file for a model with `positions` positions. `path` names the file in messages. If
 * a text is too long, its beginning is left out. Fails with TRI_BAD_FILE if a choice alone is too long, or has no token
 * of its own. The questions must outlive the set. Release with tri_choice_set_release, also after a failure. */
tri_status tri_choice_set_create(const char *path, const tri_questions *questions, tri_pair_encoder *encoder,
                                 int64_t positions, tri_choice_set *out);
void tri_choice_set_release(tri_choice_set *set);

/* Result of one question. */
typedef struct tri_judged_question {
  const double
      *log_likelihoods; /* [num_choices]: sum of the log-likelihoods of each choice's tokens; owned by the judgement */
  int64_t chosen[TRI_NUM_CHOICE_MEASURES]; /* number of the choice that is the best by each measure, from 0 */
  double probability;                      /* probability of the right choice: softmax of log_likelihoods */
} tri_judged_question;

typedef struct tri_judgement {
  tri_judged_question *questions; /* [count] */
  int64_t count;
  double accuracy[TRI_NUM_CHOICE_MEASURES]; /* fraction of the questions whose right choice was chosen */
  double error[TRI_NUM_CHOICE_MEASURES];    /* standard errors of accuracy; NaN for a single question */
  double probability, probability_error;    /* mean probability of the right choices, and its standard error */
  double *log_likelihoods;                  /* [number of all choices]: memory of the questions' log_likelihoods */
} tri_judgement;

/* COLLECTIVE over the ranks of the scorer, which pass the same set and all get the result (tri_scorer_score). Scores
 * all choices and compares them. Fails with TRI_DIVERGED if a likelihood is not finite. Release *out, which is {0} on
 * entry, with tri_judgement_release, also after a failure. */
tri_status tri_choices_judge(tri_scorer *scorer, const tri_choice_set *set, void (*progress)(int64_t done, int64_t all),
                             tri_judgement *out);
void tri_judgement_release(tri_judgement *judgement);

#endif
