/* Methods that train a study's members in rounds: population-based training and successive halving. Each round is a run
 * of its own (`trireme train`) that resumes from a checkpoint. A method is one file with a table of functions. rounds.c
 * has the part that is common to all methods: it claims rounds in the store, runs them as subprocesses, and stores them
 * with their losses. A tuner may be killed at any moment, and several tuners may share a study. */
#ifndef TRI_TUNE_ROUNDS_H
#define TRI_TUNE_ROUNDS_H

#include "tune/short_run.h"
#include "tune/store.h"

#include <jansson.h>
#include <stdio.h>

/* Largest numbers of members and of rounds in a study. */
enum { TRI_MOST_MEMBERS = 1000, TRI_MOST_ROUNDS = 1000 };

/* One round of one member. */
typedef struct tri_member {
  int64_t member, round; /* numbers of the member and the round, from 1 */
  int64_t parent; /* number of the member whose weights of the previous round this round starts from; 0: this round
                     starts from new weights */
  tri_trial_state state;
  double values[TRI_KNOBS]; /* values of the study's parameters; only for pbt */
  tri_point point;          /* point of the study's space; only for halving */
  double loss; /* loss at the end of the round (tri_objective_loss_name); only if `state` is TRI_TRIAL_DONE */
  /* Duration of the round in seconds. */
  double seconds;
  char reason[256]; /* reason of the failure; only if `state` is TRI_TRIAL_FAILED */
} tri_member;

typedef struct tri_rounds_method tri_rounds_method;

/* A study that is trained by a method. */
typedef struct tri_rounds {
  const tri_rounds_method *method;
  const tri_study *study;
  /* Number of members, and number of rounds of each. */
  int64_t members, rounds;
  tri_point *points; /* [members] or longer: point of each member; only for halving */
} tri_rounds;

/* Functions of a method. In all of them rows[count] are all rounds that have begun, sorted by round and member. */
struct tri_rounds_method {
  const char *member; /* word for a member in messages: "member" or "trial" */
  bool of_points; /* whether members are points of the study's space; otherwise they have values of its parameters */
  /* Sets the members `members`, `rounds` and `points` of *r. */
  tri_status (*prepare)(tri_rounds *r);
  /* Logs the plan before training. NULL if there is nothing to log. */
  void (*announce)(const tri_rounds *r);
  /* Chooses the member whose next round may begin. Sets *member to its number, or to 0 if there is none at present, and
   * *round to that round. Sets *left to the number of members' rounds that have not ended; halving counts only those of
   * the current round. Fails with TRI_BAD_CONFIG if no member can continue. */
  tri_status (*next)(const tri_rounds *r, const tri_member *rows, int64_t count, int64_t *member, int64_t *round,
                     int64_t *left);
  /* Sets *out to the weights and the values with which a member starts a round. */
  void (*decide)(const tri_rounds *r, const tri_member *rows, int64_t count, int64_t member, int64_t round,
                 tri_member *out);
  /* Writes the name of a round's folder to name[64]. The folder is below the study's folder. */
  void (*folder)(const tri_member *row, char name[64]);
  /* Creates the command line of a round, which writes to `folder`. `root` is the study's folder. */
  tri_status (*command)(const tri_rounds *r, const tri_member *row, const char *root, const char *folder,
                        tri_short_run **out);
  /* Returns the last step of a round. */
  int64_t (*last_step)(const tri_study *study, int64_t round);
  /* Removes folders that no member needs any more. */
  tri_status (*clear)(const tri_rounds *r, const tri_member *rows, int64_t count, const char *root);
  /* These functions make the reports: `text` and `html` print one, `json` returns one. */
  void (*text)(const tri_study *study, const tri_member *rows, int64_t count, FILE *to);
  json_t *(*json)(const tri_study *study, const tri_member *rows, int64_t count);
  void (*html)(const tri_study *study, const tri_member *rows, int64_t count, FILE *to);
};

extern const tri_rounds_method tri_method_population, tri_method_halving;

/* Returns the study's method; NULL if it does not train in rounds. */
const tri_rounds_method *tri_rounds_method_of(const tri_study *study);

/* Trains until all rounds have ended; other tuners may train rounds of the study, too. Checkpoints are below `folder`,
 * and are removed when no member needs them. Logs the result of each round. Fails with TRI_INTERRUPTED as tri_tune
 * does, with TRI_BAD_CONFIG if no member can continue, and with TRI_BAD_FILE if the first rounds lack a file. */
tri_status tri_rounds_train(const tri_rounds_method *method, const tri_study *study, tri_store *store,
                            const char *folder);

/* Returns the row of a member and round; NULL if there is none. */
const tri_member *tri_rounds_find(const tri_member *rows, int64_t count, int64_t member, int64_t round);
/* Returns the row with the lowest loss in the last round that any member has finished; NULL if there is none. */
const tri_member *tri_rounds_best(const tri_member *rows, int64_t count);
/* Returns the number of rows with a state. */
int64_t tri_rounds_count(const tri_member *rows, int64_t count, tri_trial_state state);
/* Returns the loss of a row; infinity if it is not known. */
double tri_rounds_loss(const tri_member *row);
/* Writes the path of a round's folder to `path`. */
tri_status tri_rounds_folder(const tri_rounds *r, const tri_member *row, const char *root, char path[TRI_PATH_BYTES]);

/* ---- in the store (store_members.c) ------------------------------------------------------------------------------ */

/* Reads all rows, by round and member. The store owns (*out)[*count], which are valid until the next call. Fails with
 * TRI_BAD_FILE if a row has numbers that no tuner writes. */
tri_status tri_store_members(tri_store *store, const tri_member **out, int64_t *count);
/* Claims a round of a member. Sets *claimed to false if another tuner has claimed it. */
tri_status tri_store_begin_member(tri_store *store, const tri_member *row, bool *claimed);
/* tri_store_end_member stores the result of a claimed round. tri_store_forget_member removes a claimed round that has
 * not ended. */
tri_status tri_store_end_member(tri_store *store, const tri_member *row);
tri_status tri_store_forget_member(tri_store *store, const tri_member *row);

#endif
