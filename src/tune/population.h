/* Population-based training. The method is in population.c; its reports are in population_report.c. */
#ifndef TRI_TUNE_POPULATION_H
#define TRI_TUNE_POPULATION_H

#include "tune/rounds.h"

/* Report on a population, from all rows of its store: as text, as a new JSON object (NULL if memory is exhausted), and
 * as a page. */
void tri_population_text(const tri_study *study, const tri_member *rows, int64_t count, FILE *to);
json_t *tri_population_json(const tri_study *study, const tri_member *rows, int64_t count);
void tri_population_html(const tri_study *study, const tri_member *rows, int64_t count, FILE *to);

#endif
