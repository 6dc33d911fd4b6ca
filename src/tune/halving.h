/* Successive halving: the method is in halving.c, what it reports in halving_report.c. */
#ifndef TRI_TUNE_HALVING_H
#define TRI_TUNE_HALVING_H

#include "tune/rounds.h"

/* The steps with which a trial ends its round: an eighth, a quarter and a half of all, and all. */
enum { TRI_HALVING_ROUNDS = 4 };
int64_t tri_halving_last_step(const tri_study *study, int64_t round);

void tri_halving_text(const tri_study *study, const tri_member *rows, int64_t count, FILE *to);
json_t *tri_halving_json(const tri_study *study, const tri_member *rows, int64_t count);
void tri_halving_html(const tri_study *study, const tri_member *rows, int64_t count, FILE *to);

#endif
