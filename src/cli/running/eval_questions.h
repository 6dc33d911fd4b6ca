/* `eval` with questions in the place of a corpus: with given choices, or answered in the model's own words. */
#ifndef TRI_CLI_RUNNING_EVAL_QUESTIONS_H
#define TRI_CLI_RUNNING_EVAL_QUESTIONS_H

#include "checkpoint/merged.h"
#include "engine/model_options.h"
#include "judge/answers.h"
#include "judge/pairs.h"

typedef struct tri_eval_questions {
  const char *model, *file;
  const tri_model_options *options;
  int64_t batch; /* sequences at a time; 0: as many as 2048 tokens take */
  bool json;
  bool all_checkpoints; /* of a run, one after the other */
  const char *svg;      /* where the picture of that goes; NULL: nowhere */
  tri_answer_rule rule; /* of answers */
} tri_eval_questions;

/* Judges by which choice the model finds likeliest, and prints what came of it. */
tri_status tri_eval_choices(const tri_eval_questions *asked);

/* Judges by whether what the model writes is right, and prints what came of it. */
tri_status tri_eval_answers(const tri_eval_questions *asked);

/* The tokenizer of a model's weights, which *source is then the path of, and its encoder of questions; both are
 * released in any case. */
tri_status tri_eval_tokenizer(const tri_merged *weights, const tri_model *model, const tri_model_options *options,
                              tri_tokenizer **tokenizer, tri_pair_encoder **encoder);

#endif
