/* The search for the fastest layout that fits.
 *
 * Every valid combination of the values that the table of layout keys has to try (schedule/layout_values.h) gets a
 * lower bound of its time and of its memory, from the prices of one layer, the embedding and the head. Candidates are
 * taken in the order of their bounds and simulated, until no bound is below the worst of the answers: what is left out
 * cannot be better. GPipe is left out altogether: 1F1B takes no longer and holds less. So are micro-batches of more
 * than 64 sequences, full recompute of fewer than one layer in four or with sequence_regather, groups of micro-batches
 * other than the smallest, and context ranks with fewer than 8192 tokens of a sequence each, interleaved schedules of
 * more than 16 chunks a rank or of chunks that are not equally long: where the embedding and the head count as a layer
 * each, if not by the number of layers alone. A key that is fixed has its value in all candidates, also one that is
 * left out here. */
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
  const char *fixed; /* keys of layouts that are not searched, as in tri_layout_space; or NULL */
  int64_t top;       /* number of answers */
  bool exhaustive;   /* simulate all candidates, without lower bounds: for tests */
  bool explain;      /* find alternatives */
  bool progress;     /* log how far it is, from its third second on */
  /* Called for each layout that has been simulated, once; NULL: not. */
  void (*simulated)(void *context, const tri_layout *layout, const tri_prediction *prediction);
  void *context;
} tri_search_request;

typedef struct tri_answer {
  tri_layout layout; /* resolved */
  tri_prediction prediction;
} tri_answer;

/* The fastest layout that fits and has other values of some keys than the best: what these values of the best gain. */
enum { TRI_SEARCH_EXPLAINED = 16 /* keys */, TRI_SEARCH_TOLD = 3 /* alternatives */ };
typedef struct tri_alternative {
  const tri_config_key *keys[TRI_SEARCH_EXPLAINED]; /* each alone: without its value this is the fastest */
  int64_t num_keys;
  tri_layout layout; /* resolved */
  double step_s;
  const char *loss; /* which part of the step grew most, in words */
} tri_alternative;

typedef struct tri_search_result {
  tri_answer *answers; /* best first */
  int64_t num_answers;
  int64_t valid, simulated;                           /* numbers of valid candidates; of those that were simulated */
  bool exhaustive;                                    /* as asked: what was not simulated does not fit */
  tri_alternative alternatives[TRI_SEARCH_EXPLAINED]; /* all different, fastest first; the first TRI_SEARCH_TOLD are the
                                                         nearest; none of an exhaustive search */
  int64_t num_alternatives;
  const tri_config_key *only[TRI_SEARCH_EXPLAINED]; /* keys without another value that fits */
  int64_t num_only;
} tri_search_result;

/* TRI_BAD_LAYOUT if no combination is valid (with the rule and the numbers); TRI_OUT_OF_MEMORY if none fits (with the
 * bytes that the smallest lacks, and what would fit). Release with tri_search_release. */
tri_status tri_search(const tri_search_request *request, tri_search_result *out);
/* The names of the layout keys that a search varies, separated by ", ": of all of them that are not in `fixed` (NULL:
 * all). Returns buffer. */
enum { TRI_SEARCHED_BYTES = 320 };
char *tri_search_keys(const char *fixed, char buffer[TRI_SEARCHED_BYTES]);

void tri_search_release(tri_search_result *result);

/* The Pareto front of time and memory: each answer is the fastest with less memory than the one before. */
tri_status tri_search_pareto(const tri_search_request *request, tri_search_result *out);

#endif
