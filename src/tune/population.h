/* Population-based training (Jaderberg et al. 2017): several runs of one model train side by side, each with parameters
 * of its own. After every round those in the worst share go on from the weights of one of the best, and from its
 * parameters, each up or down by a factor. So parameters such as the learning rate get a schedule without one
 * being written. Members do not wait for each other: one is compared with those that have come as far as it has. */
#ifndef TRI_TUNE_POPULATION_H
#define TRI_TUNE_POPULATION_H

#include "tune/store.h"

#include <jansson.h>
#include <stdio.h>

/* Of a study at most (study.c). */
enum { TRI_MOST_MEMBERS = 1000, TRI_MOST_ROUNDS = 1000 };

/* One round of one member. */
typedef struct tri_member {
  int64_t member, round; /* both from 1 */
  int64_t parent;        /* the member whose weights of the round before it starts from; 0: new weights */
  tri_trial_state state;
  double values[TRI_KNOBS]; /* of the study's parameters */
  double loss;              /* if done: validation loss at the end */
  double seconds;
  char reason[256]; /* if failed */
} tri_member;

/* Decides from which weights and with which values a member starts a round, given all rows so far (rows[count]). */
void tri_population_decide(const tri_study *study, const tri_member *rows, int64_t count, int64_t member, int64_t round,
                           tri_member *out);

/* Trains until all rounds of all members are done; other tuners may take part. Checkpoints are below `folder`, and
 * removed when they are no longer needed. TRI_INTERRUPTED as in tri_tune. */
tri_status tri_population_train(const tri_study *study, tri_store *store, const char *folder);

/* The row with the lowest loss in the last round that some member has finished, or NULL. */
const tri_member *tri_population_best(const tri_member *rows, int64_t count);
/* The row of a member and round, or NULL. */
const tri_member *tri_population_find(const tri_member *rows, int64_t count, int64_t member, int64_t round);

/* ---- in the store (store_members.c) ------------------------------------------------------------------------------ */

/* All rows, by round and member. The store owns (*out)[*count]; valid until the next call. */
tri_status tri_store_members(tri_store *store, const tri_member **out, int64_t *count);
/* Claims a round of a member; *claimed is false if another tuner has it. */
tri_status tri_store_begin_member(tri_store *store, const tri_member *row, bool *claimed);
tri_status tri_store_end_member(tri_store *store, const tri_member *row);
tri_status tri_store_forget_member(tri_store *store, const tri_member *row);

/* ---- reports (population_report.c) ------------------------------------------------------------------------------- */

void tri_population_text(const tri_study *study, const tri_member *rows, int64_t count, FILE *to);
json_t *tri_population_json(const tri_study *study, const tri_member *rows, int64_t count);
void tri_population_html(const tri_study *study, const tri_member *rows, int64_t count, FILE *to);

#endif
