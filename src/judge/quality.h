/* How good a run's checkpoints are, one after the other, and what an early look at them is worth. */
#ifndef TRI_JUDGE_QUALITY_H
#define TRI_JUDGE_QUALITY_H

#include "judge/choices.h"

enum { TRI_QUALITY_LAST = 5 }; /* checkpoints at the end between which the noise is measured */

/* What is followed over the steps: the share of right answers by each measure, and the probability of the right
 * choice, which moves where no answer changes yet. */
enum { TRI_NUM_QUALITIES = TRI_NUM_CHOICE_MEASURES + 1 };
const char *tri_quality_name(int quality);

typedef struct tri_quality_point {
  int64_t step;
  double value[TRI_NUM_QUALITIES], error[TRI_NUM_QUALITIES]; /* standard errors, as there are few questions */
  /* Spearman's rank correlation, over the questions, of the right choices' probabilities here with those of the last
   * checkpoint: 1 if what is easy and what is hard stands as in the end. NaN where either are all equal. */
  double with_end;
} tri_quality_point;

typedef struct tri_quality {
  tri_quality_point *points; /* [count], by rising steps */
  int64_t count;
  int64_t last;                         /* of them the noise is measured between */
  double noise[TRI_NUM_QUALITIES];      /* standard deviation of their values; NaN of fewer than two */
  double with_steps[TRI_NUM_QUALITIES]; /* rank correlation of values and steps, over all checkpoints */
} tri_quality;

/* Judgements [count] of the same questions, and their steps. Release with tri_quality_release in any case. */
tri_status tri_quality_of(const tri_judgement *judgements, const int64_t *steps, int64_t count, tri_quality *out);
void tri_quality_release(tri_quality *quality);

/* LOCAL. Replaces the file at `path` with a picture: each measure over the steps, with its standard error. */
tri_status tri_quality_draw(const tri_quality *quality, const char *title, const char *path);

/* Spearman's rank correlation of a[count] and b[count]: equal values share the mean of their ranks. *out is NaN if
 * all values of one are equal. */
tri_status tri_rank_correlation(const double *a, const double *b, int64_t count, double *out);

#endif
