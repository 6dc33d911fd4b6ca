/* Quality of a run's checkpoints over its steps, and how well early checkpoints predict the last one. */
#ifndef TRI_JUDGE_QUALITY_H
#define TRI_JUDGE_QUALITY_H

#include "judge/choices.h"

enum { TRI_QUALITY_LAST = 5 }; /* maximum number of checkpoints at the end of a run whose values give the noise */

/* Measures that are shown over the steps: the share of right answers by each tri_choice_measure, and the probability of
 * the right choice. The probability changes even if no answer does. */
enum { TRI_NUM_QUALITIES = TRI_NUM_CHOICE_MEASURES + 1 };
const char *tri_quality_name(int quality);

typedef struct tri_quality_point {
  int64_t step;
  double value[TRI_NUM_QUALITIES], error[TRI_NUM_QUALITIES]; /* value of each measure, and its standard error, which is
                                                                due to the limited number of questions */
  /* Spearman's rank correlation, over the questions, of the right choices' probabilities with those of the last
   * checkpoint: 1 if the same questions are easy and hard as at the end. NaN if all probabilities of either checkpoint
   * are equal. */
  double with_end;
} tri_quality_point;

typedef struct tri_quality {
  tri_quality_point *points; /* [count], sorted by step */
  int64_t count;
  int64_t last; /* number of points at the end whose values give the noise; at most TRI_QUALITY_LAST */
  double
      noise[TRI_NUM_QUALITIES]; /* standard deviation of the values of the last `last` points; NaN for fewer than two */
  double with_steps[TRI_NUM_QUALITIES]; /* rank correlation of values and steps, over all checkpoints */
} tri_quality;

/* Computes the qualities from judgements[count] of the same questions, with the steps of their checkpoints,
 * steps[count]. Release with tri_quality_release, also after a failure. */
tri_status tri_quality_of(const tri_judgement *judgements, const int64_t *steps, int64_t count, tri_quality *out);
void tri_quality_release(tri_quality *quality);

/* LOCAL. Draws each measure with its standard error over the steps, and replaces the file at `path` with the
 * picture. */
tri_status tri_quality_draw(const tri_quality *quality, const char *title, const char *path);

/* Computes Spearman's rank correlation of a[count] and b[count]. Equal values share the mean of their ranks. Sets *out
 * to NaN if all values of a or of b are equal. */
tri_status tri_rank_correlation(const double *a, const double *b, int64_t count, double *out);

#endif
