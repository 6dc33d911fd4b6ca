/* The search for the fastest layout that fits.
 *
 * The candidates are all valid combinations of the values to try of each layout key (schedule/layout_values.h). Each
 * one gets a lower bound of its time and of its memory, from the prices of one layer, the embedding and the head
 * (bounds.h). Candidates are simulated in the order of their bounds, until no bound is below the worst answer: the
 * others cannot be better.
 *
 * Not searched, unless a fixed key asks for it: GPipe (1F1B is as fast and needs less memory); micro-batches of more
 * than 64 sequences; full recompute of fewer than one layer in four, or with sequence_regather; context ranks with
 * fewer than 8192 tokens of a sequence each; interleaved schedules with more than 16 chunks per rank, or with chunks of
 * unequal length (counting the embedding and the head as a layer each, or not at all). Keys without values to try, such
 * as micro_batch_group, have their defaults, and cannot be fixed, except `data` and `stage_layers`. context_row_pairs
 * is set by the prices (row_pairs.h). */
#ifndef TRI_PLAN_SEARCH_H
#define TRI_PLAN_SEARCH_H

#include "config/config.h"
#include "optimizers/optimizer.h"
#include "plan/simulate.h"

typedef struct tri_search_request {
  const tri_model *model;
  const tri_cluster *cluster;
  const tri_system *system;
  int64_t devices, global_batch, sequence;
  tri_dtype precision;
  const tri_optimizer_settings *optimizer;
  const tri_train_objective *objective; /* NULL: cross entropy */
  bool masked;                          /* as in tri_simulation_request */
  double masked_attention_fraction;
  tri_attention_fraction_table *drawn;
  double expert_imbalance;
  const char *fixed; /* keys with a fixed value, which are not searched, as in tri_layout_space; NULL: none */
  int64_t top;       /* number of answers */
  bool exhaustive;   /* simulate all candidates, without lower bounds: for tests */
  bool explain;      /* find alternatives */
  bool progress;     /* log the progress, after the first seconds */
  /* Called once for each simulated layout; NULL: no callback. */
  void (*simulated)(void *context, const tri_layout *layout, const tri_prediction *prediction);
  void *context;
} tri_search_request;

typedef struct tri_answer {
  tri_layout layout; /* resolved */
  tri_prediction prediction;
} tri_answer;

/* The alternative to the best layout for a key: the fastest layout that fits and has another value of the key. It shows
 * what the best value saves: the difference of both steps. One layout may be the alternative for several keys. */
enum { TRI_SEARCH_EXPLAINED = 16 /* keys */, TRI_SEARCH_TOLD = 3 /* alternatives */ };
typedef struct tri_alternative {
  const tri_config_key *keys[TRI_SEARCH_EXPLAINED]; /* keys for which this is the alternative */
  int64_t num_keys;
  tri_layout layout; /* resolved */
  double step_s;
  const char *loss; /* name of the part of the step that grew most */
} tri_alternative;

typedef struct tri_search_result {
  tri_answer *answers; /* best first */
  int64_t num_answers;
  int64_t valid, simulated; /* numbers of valid and of simulated candidates */
  bool exhaustive;          /* as in the request: candidates that were not simulated do not fit */
  tri_alternative alternatives[TRI_SEARCH_EXPLAINED]; /* distinct, fastest first; only the first TRI_SEARCH_TOLD are
                                                         sure to be the fastest of all; empty after an exhaustive
                                                         search */
  int64_t num_alternatives;
  const tri_config_key *only[TRI_SEARCH_EXPLAINED]; /* keys without another value that fits */
  int64_t num_only;
} tri_search_result;

/* Searches for the fastest layouts. Fails with TRI_BAD_LAYOUT if no combination is valid (the message has the rule and
 * the numbers), with TRI_OUT_OF_MEMORY if none fits (the message has the bytes that the smallest one lacks, and a
 * number of devices that would do). Release with tri_search_release. */
tri_status tri_search(const tri_search_request *request, tri_search_result *out);
/* Writes the names of the layout keys that a search varies, separated by ", ": all that `fixed` does not name (NULL:
 * all). Returns buffer. */
enum { TRI_SEARCHED_BYTES = 320 };
char *tri_search_keys(const char *fixed, char buffer[TRI_SEARCHED_BYTES]);

void tri_search_release(tri_search_result *result);

/* Searches for the Pareto front of time and memory, at most 24 answers: each is the fastest layout with at least 3 %
 * less memory than the previous answer. */
tri_status tri_search_pareto(const tri_search_request *request, tri_search_result *out);

#endif
