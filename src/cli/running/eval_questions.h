/* `eval` with questions instead of a corpus: with given choices, or with answers that the model generates. */
#ifndef TRI_CLI_RUNNING_EVAL_QUESTIONS_H
#define TRI_CLI_RUNNING_EVAL_QUESTIONS_H

#include "checkpoint/merged.h"
#include "engine/model_options.h"
#include "judge/answers.h"
#include "judge/pairs.h"

typedef struct tri_eval_questions {
  const char *model, *file;
  const tri_model_options *options;
  int64_t batch; /* sequences of a batch; 0: as many as have 2048 tokens */
  bool json;
  bool all_checkpoints; /* evaluate all checkpoints of a run */
  const char *svg;      /* with all_checkpoints: path of a picture; or NULL */
  tri_answer_rule rule; /* by which answers are judged */
  int64_t samples;      /* answers to each question */
  double temperature;   /* of answers; below 0: 0 for one, 1 for several */
  uint64_t seed;
} tri_eval_questions;

/* Evaluates which choice the model finds most likely, and prints the results. */
tri_status tri_eval_choices(const tri_eval_questions *asked);

/* Evaluates whether the answers that the model generates are right, and prints the results. */
tri_status tri_eval_answers(const tri_eval_questions *asked);

/* Loads the tokenizer of a model's weights and makes its encoder of questions. The caller releases both, also after a
 * failure. */
tri_status tri_eval_tokenizer(const tri_merged *weights, const tri_model *model, const tri_model_options *options,
                              tri_tokenizer **tokenizer, tri_pair_encoder **encoder);

#endif
