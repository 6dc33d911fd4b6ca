/* Methods that train a study's members in rounds, each round a run of its own (`trireme train`) that goes on from a
 * checkpoint: population-based training and successive halving. A method is one file, with a row of functions; rounds.c
 * has what they share: rounds are claimed in the store, run as subprocesses, judged by their validation loss and
 * written. A tuner may be killed at any moment, and several may share a study. */
#ifndef TRI_TUNE_ROUNDS_H
#define TRI_TUNE_ROUNDS_H

#include "tune/short_run.h"
#include "tune/store.h"

#include <jansson.h>
#include <stdio.h>

/* Of a study at most. */
enum { TRI_MOST_MEMBERS = 1000, TRI_MOST_ROUNDS = 1000 };

/* One round of one member. */
typedef struct tri_member {
  int64_t member, round; /* both from 1 */
  int64_t parent;        /* the member whose weights of the round before it starts from; 0: new weights */
  tri_trial_state state;
  double values[TRI_KNOBS]; /* pbt: of the study's parameters */
  tri_point point;          /* halving: of the study's space */
  double loss;              /* if done: validation loss at the end */
  double seconds;
  char reason[256]; /* if failed */
} tri_member;

typedef struct tri_rounds_method tri_rounds_method;

/* A method at work on a study. */
typedef struct tri_rounds {
  const tri_rounds_method *method;
  const tri_study *study;
  int64_t members, rounds;
  tri_point *points; /* halving: [members] */
} tri_rounds;

/* What a method decides, from all rows so far (rows[count], by round and member). */
struct tri_rounds_method {
  const char *member; /* what a member is called: "member", "trial" */
  bool of_points;     /* members are points of the study's space, else they have values of its parameters */
  /* Sets members, rounds and points. */
  tri_status (*prepare)(tri_rounds *r);
  /* Says beforehand what will be done; NULL: nothing. */
  void (*announce)(const tri_rounds *r);
  /* The member whose next round may begin, 0: none at present. *left counts rounds that are not done yet, with those
   * that run. TRI_BAD_CONFIG if no member can go on. */
  tri_status (*next)(const tri_rounds *r, const tri_member *rows, int64_t count, int64_t *member, int64_t *round,
                     int64_t *left);
  /* From which weights and with which values a member starts a round. */
  void (*decide)(const tri_rounds *r, const tri_member *rows, int64_t count, int64_t member, int64_t round,
                 tri_member *out);
  /* The name of the folder, below the study's, that a round writes to, in name[64]. */
  void (*folder)(const tri_member *row, char name[64]);
  /* The command line of a round, which writes to `folder`; `root` is the study's folder. */
  tri_status (*command)(const tri_rounds *r, const tri_member *row, const char *root, const char *folder,
                        tri_short_run **out);
  /* The step that a round ends with. */
  int64_t (*last_step)(const tri_study *study, int64_t round);
  /* Removes what no member needs any more. */
  tri_status (*clear)(const tri_rounds *r, const tri_member *rows, int64_t count, const char *root);
  /* Reports. */
  void (*text)(const tri_study *study, const tri_member *rows, int64_t count, FILE *to);
  json_t *(*json)(const tri_study *study, const tri_member *rows, int64_t count);
  void (*html)(const tri_study *study, const tri_member *rows, int64_t count, FILE *to);
};

extern const tri_rounds_method tri_method_population, tri_method_halving;

/* The study's method, or NULL if it does not train in rounds. */
const tri_rounds_method *tri_rounds_method_of(const tri_study *study);

/* Trains until all rounds are done; other tuners may take part. Checkpoints are below `folder`, and removed when they
 * are no longer needed. TRI_INTERRUPTED as in tri_tune. */
tri_status tri_rounds_train(const tri_rounds_method *method, const tri_study *study, tri_store *store,
                            const char *folder);

/* The row of a member and round, or NULL. */
const tri_member *tri_rounds_find(const tri_member *rows, int64_t count, int64_t member, int64_t round);
/* The row with the lowest loss in the last round that some member has finished, or NULL. */
const tri_member *tri_rounds_best(const tri_member *rows, int64_t count);
/* How many rows have a state. */
int64_t tri_rounds_count(const tri_member *rows, int64_t count, tri_trial_state state);
/* Its loss, or infinity: nothing counts before it is there. */
double tri_rounds_loss(const tri_member *row);
/* The path of a round's folder. */
tri_status tri_rounds_folder(const tri_rounds *r, const tri_member *row, const char *root, char path[TRI_PATH_BYTES]);

/* ---- in the store (store_members.c) ------------------------------------------------------------------------------ */

/* All rows, by round and member. The store owns (*out)[*count]; valid until the next call. */
tri_status tri_store_members(tri_store *store, const tri_member **out, int64_t *count);
/* Claims a round of a member; *claimed is false if another tuner has it. */
tri_status tri_store_begin_member(tri_store *store, const tri_member *row, bool *claimed);
tri_status tri_store_end_member(tri_store *store, const tri_member *row);
tri_status tri_store_forget_member(tri_store *store, const tri_member *row);

#endif
