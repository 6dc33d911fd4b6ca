/* The five fastest layouts of a model on some devices of a cluster: plan_layout MODEL CLUSTER DEVICES.
 * For example: plan_layout gpt2-1.5b a100-node 4 */
#include <trireme/trireme.h>

#include <stdio.h>

static int failed(void) {
  fprintf(stderr, "plan_layout: %s\n", trireme_message());
  return 1;
}

int main(int count, char **words) {
  trireme_question *question = NULL;
  trireme_answers *answers = NULL;
  int64_t i;
  if (count != 4) {
    fprintf(stderr, "usage: plan_layout MODEL CLUSTER DEVICES\n");
    return 2;
  }
  if (trireme_question_create(&question) != TRIREME_OK) return failed();
  if (trireme_question_set(question, "model", words[1]) != TRIREME_OK ||
      trireme_question_set(question, "cluster", words[2]) != TRIREME_OK ||
      trireme_question_set(question, "devices", words[3]) != TRIREME_OK ||
      trireme_question_set(question, "global-batch", "64") != TRIREME_OK ||
      trireme_plan(question, 5, &answers) != TRIREME_OK) {
    trireme_question_destroy(question);
    return failed();
  }
  for (i = 0; i < trireme_answers_count(answers); i++) {
    printf("%8.3f s  %5.1f GiB  %s\n", trireme_answers_figure(answers, i, TRIREME_STEP_SECONDS),
           trireme_answers_figure(answers, i, TRIREME_PEAK_BYTES) / (1 << 30), trireme_answers_layout(answers, i));
  }
  trireme_answers_destroy(answers);
  trireme_question_destroy(question);
  return 0;
}
