/* learning_rate_tool KIND STEPS WARMUP LR MIN_LR DECAY_FRACTION: prints the rate of each step, one a line. */
#include "run/learning_rate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **arguments) {
  static const char *const kinds[] = {"constant", "linear", "cosine", "wsd"};
  static const tri_decay values[] = {TRI_DECAY_CONSTANT, TRI_DECAY_LINEAR, TRI_DECAY_COSINE, TRI_DECAY_WSD};
  for (int i = 0; count == 7 && i < 4; i++) {
    if (strcmp(arguments[1], kinds[i]) != 0) continue;
    int64_t steps = atoll(arguments[2]), warmup = atoll(arguments[3]);
    double lr = strtod(arguments[4], NULL), min_lr = strtod(arguments[5], NULL), share = strtod(arguments[6], NULL);
    for (int64_t step = 1; step <= steps; step++) {
      printf("%.17g\n", tri_learning_rate(values[i], step, steps, warmup, lr, min_lr, share));
    }
    return 0;
  }
  fprintf(stderr, "usage: learning_rate_tool constant|linear|cosine|wsd STEPS WARMUP LR MIN_LR DECAY_FRACTION\n");
  return 2;
}
