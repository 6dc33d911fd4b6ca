/* Successive halving: the method is in halving.c, its reports are in halving_report.c. */
#ifndef TRI_TUNE_HALVING_H
#define TRI_TUNE_HALVING_H

#include "tune/rounds.h"

/* Number of rounds. tri_halving_last_step returns the step that ends a round: at an eighth, a quarter, a half and the
 * end of all steps. */
enum { TRI_HALVING_ROUNDS = 4 };
int64_t tri_halving_last_step(const tri_study *study, int64_t round);

void tri_halving_text(const tri_study *study, const tri_member *rows, int64_t count, FILE *to);
json_t *tri_halving_json(const tri_study *study, const tri_member *rows, int64_t count);
void tri_halving_html(const tri_study *study, const tri_member *rows, int64_t count, FILE *to);

#endif
