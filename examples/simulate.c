/* How long a step of one layout takes, and whether it fits: simulate MODEL CLUSTER DEVICES LAYOUT.
 * For example: simulate gpt2-1.5b a100-node 4 pipeline=2,micro_batch=4,recompute=full */
#include <trireme/trireme.h>

#include <stdio.h>

static trireme_status simulate(trireme_question *question, char **words, trireme_answers **answers) {
  static const char *const keys[] = {"model", "cluster", "devices"};
  trireme_status status = trireme_question_set(question, "global-batch", "64");
  int i;
  for (i = 0; i < 3 && status == TRIREME_OK; i++) status = trireme_question_set(question, keys[i], words[1 + i]);
  return status == TRIREME_OK ? trireme_simulate(question, words[4], answers) : status;
}

int main(int count, char **words) {
  trireme_question *question = NULL;
  trireme_answers *answers = NULL;
  trireme_status status;
  if (count != 5) {
    fprintf(stderr, "usage: simulate MODEL CLUSTER DEVICES LAYOUT\n");
    return 2;
  }
  status = trireme_question_create(&question);
  if (status == TRIREME_OK) status = simulate(question, words, &answers);
  if (status == TRIREME_OK) {
    printf("%.3f s a step, %.0f tokens a second, %.1f GiB on the fullest device: it %s\n",
           trireme_answers_figure(answers, 0, TRIREME_STEP_SECONDS),
           trireme_answers_figure(answers, 0, TRIREME_TOKENS_PER_SECOND),
           trireme_answers_figure(answers, 0, TRIREME_PEAK_BYTES) / (1 << 30),
           trireme_answers_figure(answers, 0, TRIREME_FITS) > 0 ? "fits" : "does not fit");
    printf("%s\n", trireme_answers_json(answers, 0));
  } else {
    fprintf(stderr, "simulate: %s\n", trireme_message());
  }
  trireme_answers_destroy(answers);
  trireme_question_destroy(question);
  return status == TRIREME_OK ? 0 : 1;
}
