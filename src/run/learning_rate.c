#include "run/learning_rate.h"

#include <math.h>

/* Returns a rate that falls linearly from lr at p = 0 to min_lr at p = 1. */
static double fall_straight(double lr, double min_lr, double p) { return p >= 1 ? min_lr : lr + (min_lr - lr) * p; }

static double fall_cosine(double lr, double min_lr, double p) {
  if (p >= 1) return min_lr;
  return min_lr + (lr - min_lr) * 0.5 * (1 + cos(3.14159265358979323846 * p));
}

static double fall_at_the_end(int64_t step, int64_t steps, int64_t warmup, double lr, double min_lr, double fraction) {
  int64_t falling = llround(fraction * (double)steps);
  if (falling > steps - warmup) falling = steps - warmup;
  int64_t fallen = step - (steps - falling);
  if (fallen <= 0) return lr;
  return fall_straight(lr, min_lr, (double)fallen / (double)falling);
}

double tri_learning_rate(tri_decay kind, int64_t step, int64_t steps, int64_t warmup, double lr, double min_lr,
                         double decay_fraction) {
  if (step > steps) step = steps;
  if (step < 1) step = 1;
  if (step <= warmup) return lr * ((double)step / (double)warmup);
  double p = steps > warmup ? (double)(step - warmup) / (double)(steps - warmup) : 1;
  switch (kind) {
    case TRI_DECAY_CONSTANT: return lr;
    case TRI_DECAY_LINEAR: return fall_straight(lr, min_lr, p);
    case TRI_DECAY_COSINE: return fall_cosine(lr, min_lr, p);
    case TRI_DECAY_WSD: return fall_at_the_end(step, steps, warmup, lr, min_lr, decay_fraction);
  }
  return lr;
}

double tri_run_config_rate(const tri_run_config *config, int64_t step) {
  return tri_learning_rate(config->optimizer.decay, step, config->optimizer.steps, config->optimizer.warmup,
                           config->optimizer.lr, config->optimizer.min_lr, config->optimizer.decay_fraction);
}
