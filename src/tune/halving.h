/* Successive halving. The method is in halving.c; its reports are in halving_report.c. */
#ifndef TRI_TUNE_HALVING_H
#define TRI_TUNE_HALVING_H

#include "tune/rounds.h"

enum { TRI_HALVING_ROUNDS = 4 };

/* Returns the last step of a round: an eighth, a quarter, a half or all of the trial's steps, rounded up. `round` is 1
 * to TRI_HALVING_ROUNDS. */
static inline int64_t tri_halving_last_step(const tri_study *study, int64_t round) {
  const int64_t part = INT64_C(1) << (TRI_HALVING_ROUNDS - round);
  return (study->trial.steps + part - 1) / part;
}

/* Report on a study by halving, from all rows of its store: as text, as a new JSON object (NULL if memory is
 * exhausted), and as a page. */
void tri_halving_text(const tri_study *study, const tri_member *rows, int64_t count, FILE *to);
json_t *tri_halving_json(const tri_study *study, const tri_member *rows, int64_t count);
void tri_halving_html(const tri_study *study, const tri_member *rows, int64_t count, FILE *to);

#endif
