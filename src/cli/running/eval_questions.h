/* `eval` with questions instead of a corpus: with given choices, or with answers that the model generates. */
#ifndef TRI_CLI_RUNNING_EVAL_QUESTIONS_H
#define TRI_CLI_RUNNING_EVAL_QUESTIONS_H

#include "comm/comm.h"
#include "engine/model_options.h"
#include "judge/answers.h"

typedef struct tri_eval_questions {
  const char *model, *file;
  char *const *models; /* [num_models]; with several models, tri_eval_choices prints a row for each */
  int num_models;
  const tri_group *group; /* ranks that share the work */
  int64_t tensor;         /* tensor ranks of each replica; 0 or 1: one */
  const tri_model_options *options;
  int64_t batch; /* sequences per batch; 0: as many as fit into 2048 tokens */
  bool json;
  bool chat;            /* questions go through the model's chat template */
  const char *system;   /* with chat: text of the system message; NULL: none */
  bool all_checkpoints; /* evaluate all checkpoints of a run */
  const char *svg;      /* with all_checkpoints: path of a picture; NULL: none */
  tri_answer_rule rule; /* rule by which answers are compared */
  int64_t samples;      /* answers to each question */
  double temperature;   /* sampling temperature; below 0: 0 for one sample, 1 for several */
  uint64_t seed;
} tri_eval_questions;

/* Evaluates which choice the model finds most likely, and prints the results. */
tri_status tri_eval_choices(const tri_eval_questions *asked);

/* Evaluates whether the answers that the model generates are right, and prints the results. */
tri_status tri_eval_answers(const tri_eval_questions *asked);

#endif
