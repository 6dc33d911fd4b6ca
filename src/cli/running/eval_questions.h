/* `eval` with questions in place of a corpus. The questions have given choices, or the model generates answers. */
#ifndef TRI_CLI_RUNNING_EVAL_QUESTIONS_H
#define TRI_CLI_RUNNING_EVAL_QUESTIONS_H

#include "comm/comm.h"
#include "engine/model_options.h"
#include "judge/answers.h"

typedef struct tri_eval_questions {
  const char *model, *file; /* folder of the model; path of the questions */
  char *const
      *models; /* [num_models]: folders of the models; if there are several, tri_eval_choices prints a row for each */
  int num_models;
  const tri_group *group; /* ranks that share the work */
  int64_t tensor;         /* tensor ranks of each replica; 0 or 1: one rank */
  const tri_model_options *options;
  int64_t batch; /* texts of a batch; 0: 16 choices, or 8 answers */
  int64_t limit; /* number of questions to evaluate, the first of the file; 0: all */
  bool json;
  bool chat;            /* whether questions go through the model's chat template */
  const char *system;   /* text of the system message, only if `chat`; NULL: no system message */
  bool all_checkpoints; /* whether all checkpoints of a run are evaluated */
  const char *svg;      /* path of a picture, only if `all_checkpoints`; NULL: no picture */
  tri_answer_rule rule; /* rule by which answers are compared */
  int64_t samples;      /* number of answers to each question */
  double temperature; /* sampling temperature; a negative number stands for 0 if there is one sample, and for 1 if there
                         are several */
  uint64_t seed;
} tri_eval_questions;

/* COLLECTIVE over asked->group. Evaluates which choice of each question is the likeliest for the model, prints the
 * results, and draws the picture `svg`. Warns of questions that were shortened to the model's positions. */
tri_status tri_eval_choices(const tri_eval_questions *asked);

/* COLLECTIVE over asked->group. Evaluates whether the answers that the model generates are right, and prints the
 * results. Warns of prompts that were shortened. */
tri_status tri_eval_answers(const tri_eval_questions *asked);

#endif
