#include "plan/published.h"

#include "base/memory.h"
#include "plan/range.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

tri_simulation_request tri_published_request(const tri_published_set *set, const tri_published_row *row) {
  return (tri_simulation_request){.model = &row->model,
                                  .layout = &row->layout,
                                  .cluster = &set->cluster,
                                  .system = &set->system,
                                  .global_batch = row->global_batch,
                                  .sequence = row->sequence,
                                  .precision = row->precision};
}

/* ---- predictions ------------------------------------------------------------------------------------------------- */

/* Predicts the time of a row, which is all that a fit compares. */
static tri_status predict_step(const tri_published_set *set, tri_published_row *row) {
  tri_simulation_request request = tri_published_request(set, row);
  TRI_TRY(tri_simulate_step(&request, &row->prediction));
  row->predicted_s = row->prediction.step_s;
  return TRI_OK;
}

/* Predicts time and memory of a row. host_share is computed from a second prediction, without launch times. */
static tri_status predict_row(const tri_published_set *set, tri_published_row *row) {
  tri_simulation_request request = tri_published_request(set, row);
  tri_cluster prompt = set->cluster;
  tri_prediction without = {0};
  TRI_TRY(tri_simulate(&request, &row->prediction));
  row->predicted_s = row->prediction.step_s;
  prompt.efficiency.launch = 0;
  request.cluster = &prompt;
  TRI_TRY(tri_simulate_step(&request, &without));
  row->host_share = 1 - without.step_s / row->predicted_s;
  return TRI_OK;
}

tri_status tri_published_predict(tri_published_set *set) {
  for (int64_t r = 0; r < set->num_rows; r++) TRI_TRY(predict_row(set, &set->rows[r]));
  return TRI_OK;
}

double tri_published_error(const tri_published_row *row) { return row->predicted_s / row->published_s - 1; }

bool tri_published_is_judged(const tri_published_row *row) { return row->published_s > 0 && !row->fit; }

/* ---- the order of layouts ---------------------------------------------------------------------------------------- */

static int compare_counts(int64_t a, int64_t b) { return (a > b) - (a < b); }

/* Orders rows by their groups. Returns 0 if both rows are in the same group. */
static int compare_groups(const tri_published_row *a, const tri_published_row *b) {
  int64_t left[] = {a->model.num_layers, a->model.hidden_size, a->model.num_heads, a->model.vocab_size,
                    a->sequence,         a->devices,           a->global_batch};
  int64_t right[] = {b->model.num_layers, b->model.hidden_size, b->model.num_heads, b->model.vocab_size,
                     b->sequence,         b->devices,           b->global_batch};
  for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
    int order = compare_counts(left[i], right[i]);
    if (order != 0) return order;
  }
  return 0;
}

static int compare_rows(const void *left, const void *right) {
  return compare_groups(*(tri_published_row *const *)left, *(tri_published_row *const *)right);
}

/* Returns the rank of a row by its predicted or published seconds, from 0. Rows with equal seconds share the mean of
 * their ranks. */
static double rank_of(tri_published_row *const *rows, int64_t count, int64_t row, bool predicted) {
  double below = 0, equal = 0, value = predicted ? rows[row]->predicted_s : rows[row]->published_s;
  for (int64_t r = 0; r < count; r++) {
    double other = predicted ? rows[r]->predicted_s : rows[r]->published_s;
    below += other < value;
    equal += other == value;
  }
  return below + (equal - 1) / 2;
}

static double spearman(tri_published_row *const *rows, int64_t count) {
  double n = (double)count, sum_a = 0, sum_b = 0, aa = 0, bb = 0, ab = 0;
  for (int64_t r = 0; r < count; r++) {
    double a = rank_of(rows, count, r, false), b = rank_of(rows, count, r, true);
    sum_a += a, sum_b += b, aa += a * a, bb += b * b, ab += a * b;
  }
  double spread = (aa - sum_a * sum_a / n) * (bb - sum_b * sum_b / n);
  return spread <= 0 ? 1 : (ab - sum_a * sum_b / n) / sqrt(spread);
}

enum { FEWEST_RANKED = 4 };

static tri_status rank_groups(const tri_published_set *set, tri_published_summary *summary) {
  tri_published_row **rows = NULL;
  int64_t count = 0;
  double sum = 0;
  TRI_TRY(tri_alloc("published rows in groups", (size_t)set->num_rows, sizeof *rows, &rows));
  for (int64_t r = 0; r < set->num_rows; r++) {
    if (set->rows[r].published_s > 0) rows[count++] = &set->rows[r];
  }
  qsort(rows, (size_t)count, sizeof *rows, compare_rows);
  summary->rank_correlation = summary->mean_rank_correlation = 1;
  for (int64_t first = 0, end; first < count; first = end) {
    for (end = first + 1; end < count && compare_groups(rows[first], rows[end]) == 0;) end++;
    if (end - first < FEWEST_RANKED) continue;
    double rank = spearman(rows + first, end - first);
    if (rank < summary->rank_correlation) summary->rank_correlation = rank;
    sum += rank;
    summary->ranked_groups++;
  }
  if (summary->ranked_groups > 0) summary->mean_rank_correlation = sum / (double)summary->ranked_groups;
  tri_free(rows);
  return TRI_OK;
}

/* ---- summaries --------------------------------------------------------------------------------------------------- */

static void add_error(double error, double *bias, double *mean, double *worst, int64_t *count) {
  *bias += error;
  *mean += fabs(error);
  *worst = fmax(*worst, fabs(error));
  (*count)++;
}

static void divide(double *sum, int64_t count) { *sum = count == 0 ? 0 : *sum / (double)count; }

tri_status tri_published_summarize(const tri_published_set *set, tri_published_summary *out) {
  tri_published_summary s = {0};
  for (int64_t r = 0; r < set->num_rows; r++) {
    const tri_published_row *row = &set->rows[r];
    if (tri_published_is_judged(row)) add_error(tri_published_error(row), &s.bias, &s.mean, &s.worst, &s.judged);
    if (row->published_bytes > 0) {
      double error = row->prediction.memory.peak / row->published_bytes - 1;
      add_error(error, &s.memory_bias, &s.memory_mean, &s.memory_worst, &s.memory_rows);
    }
    s.oom_rows += row->out_of_memory;
    s.oom_said_to_fit += row->out_of_memory && row->prediction.fits;
    s.fit_said_not_to += !row->out_of_memory && !row->prediction.fits;
  }
  divide(&s.bias, s.judged);
  divide(&s.mean, s.judged);
  divide(&s.memory_bias, s.memory_rows);
  divide(&s.memory_mean, s.memory_rows);
  TRI_TRY(rank_groups(set, &s));
  *out = s;
  return TRI_OK;
}

/* ---- the fit ----------------------------------------------------------------------------------------------------- */

/* Computes the number that a fit minimises: the sum of the squares of log(predicted / published), plus a weak pull
 * of the constants to their initial values `begun`. */
static tri_status badness(tri_published_set *set, const double *begun, double *out) {
  double sum = 0;
  const double *now = tri_cluster_constants(&set->cluster);
  for (int64_t r = 0; r < set->num_rows; r++) {
    if (!set->rows[r].fit) continue;
    TRI_TRY(predict_step(set, &set->rows[r]));
    double error = log(set->rows[r].predicted_s / set->rows[r].published_s);
    sum += error * error;
  }
  for (int i = 0; i < TRI_CLUSTER_CONSTANTS; i++) {
    double moved = now[i] > 0 && begun[i] > 0 ? log(now[i] / begun[i]) : 0;
    sum += 1e-4 * moved * moved;
  }
  *out = sum;
  return TRI_OK;
}

/* Multiplies a constant by a factor. Keeps the result if the fit improves and the range of the constant allows it. */
static tri_status try_move(tri_published_set *set, const double *begun, int i, double factor, double *best,
                           bool *moved) {
  double *constants = tri_cluster_constants(&set->cluster), before = constants[i], now = 0;
  constants[i] = before * factor;
  if (tri_range_allows(&set->cluster, tri_cluster_constant_name(i), constants[i])) {
    TRI_TRY(badness(set, begun, &now));
    if (now < *best) {
      *best = now;
      *moved = true;
      return TRI_OK;
    }
  }
  constants[i] = before;
  return TRI_OK;
}

tri_status tri_published_fit(tri_published_set *set, unsigned which) {
  double begun[TRI_CLUSTER_CONSTANTS], best = 0;
  memcpy(begun, tri_cluster_constants(&set->cluster), sizeof begun);
  TRI_TRY(badness(set, begun, &best));
  for (double step = 1.5; step > 1.0005;) {
    bool moved = false;
    for (int i = 0; i < TRI_CLUSTER_CONSTANTS; i++) {
      if ((which >> i & 1u) == 0) continue;
      TRI_TRY(try_move(set, begun, i, step, &best, &moved));
      TRI_TRY(try_move(set, begun, i, 1 / step, &best, &moved));
    }
    if (!moved) step = sqrt(step);
  }
  return TRI_OK;
}
