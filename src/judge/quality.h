/* Quality of a run's checkpoints over its steps, and how well early checkpoints predict the last one. */
#ifndef TRI_JUDGE_QUALITY_H
#define TRI_JUDGE_QUALITY_H

#include "judge/choices.h"

enum { TRI_QUALITY_LAST = 5 }; /* number of checkpoints at the end whose differences are the noise */

/* Qualities over the steps: the share of right answers by each measure, and the probability of the right choice, which
 * changes even if no answer does. */
enum { TRI_NUM_QUALITIES = TRI_NUM_CHOICE_MEASURES + 1 };
const char *tri_quality_name(int quality);

typedef struct tri_quality_point {
  int64_t step;
  double value[TRI_NUM_QUALITIES], error[TRI_NUM_QUALITIES]; /* error: standard errors, as there are few questions */
  /* Spearman's rank correlation, over the questions, of the right choices' probabilities with those of the last
   * checkpoint: 1 if the same questions are easy and hard as at the end. NaN if all probabilities of either checkpoint
   * are equal. */
  double with_end;
} tri_quality_point;

typedef struct tri_quality {
  tri_quality_point *points; /* [count], sorted by step */
  int64_t count;
  int64_t last;                         /* number of points at the end that the noise is computed from */
  double noise[TRI_NUM_QUALITIES];      /* standard deviation of the values of these points; NaN for fewer than two */
  double with_steps[TRI_NUM_QUALITIES]; /* rank correlation of values and steps, over all checkpoints */
} tri_quality;

/* Computes the qualities of judgements[count] of the same questions, and their steps. Release with tri_quality_release,
 * also after a failure. */
tri_status tri_quality_of(const tri_judgement *judgements, const int64_t *steps, int64_t count, tri_quality *out);
void tri_quality_release(tri_quality *quality);

/* LOCAL. Replaces the file at `path` with a picture: each measure over the steps, with its standard error. */
tri_status tri_quality_draw(const tri_quality *quality, const char *title, const char *path);

/* Computes Spearman's rank correlation of a[count] and b[count]: equal values share the mean of their ranks. *out is
 * NaN if all values of a or of b are equal. */
tri_status tri_rank_correlation(const double *a, const double *b, int64_t count, double *out);

#endif
