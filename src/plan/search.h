/* The search for the fastest layouts that fit into memory.
 *
 * The candidates are all valid combinations of the values that are tried for each layout key
 * (schedule/layout_values.h). Each has a lower bound of its time and one of its memory, from the prices of one layer of
 * each kind, of the embedding and of the head (bounds.h). Candidates are simulated in the order of their bounds of
 * time. The search ends when the next bound is above the step time of the slowest of the `top` fastest layouts so far,
 * since no other candidate can be faster.
 *
 * The search does not try the following layouts, unless a fixed key requests them:
 * - GPipe: 1F1B is as fast and needs less memory;
 * - micro-batches of more than 64 sequences;
 * - full recompute of fewer than one layer in four;
 * - full recompute with sequence_regather, except in systems that always gather again;
 * - context ranks with fewer than 8192 tokens of a sequence;
 * - interleaved schedules with more than 16 chunks per rank;
 * - interleaved schedules whose chunks have unequal lengths, both in layers and with the embedding and the head
 *   counted as a layer each.
 *
 * Keys without values to try, such as micro_batch_group, have their defaults. They cannot be fixed, except `data` and
 * `stage_layers`. context_row_pairs is computed from prices (row_pairs.h). */
#ifndef TRI_PLAN_SEARCH_H
#define TRI_PLAN_SEARCH_H

#include "config/config.h"
#include "optimizers/optimizer.h"
#include "plan/simulate.h"

/* Prices of layers (layer_prices.h). */
struct tri_price_cache;

/* All pointers are owned by the caller. */
typedef struct tri_search_request {
  const tri_model *model;
  const tri_cluster *cluster;
  const tri_system *system;
  int64_t devices, global_batch, sequence;
  tri_dtype precision;
  const tri_optimizer_settings *optimizer; /* settings of the optimizer; NULL: AdamW */
  const tri_train_objective *objective;    /* objective of the training; NULL: cross entropy */
  /* The next four members have the same meaning as in tri_simulation_request. */
  bool masked;
  double masked_attention_fraction;
  tri_attention_fraction_table *drawn;
  double expert_imbalance;
  const char *fixed; /* keys with a fixed value, such as "tensor=8,zero=1" (tri_layout_space.fixed); NULL: none */
  int64_t top;       /* largest number of answers */
  double limit_s;    /* only layouts that may have step times up to this are simulated, so that the result may have no
                        answers; 0: no limit */
  bool exhaustive;   /* whether all candidates are simulated, and lower bounds are not used; for tests */
  bool explain;      /* whether the result has alternatives (tri_alternative) */
  bool no_advice;    /* whether a failure because nothing fits has no advice, whose search takes time */
  bool progress;     /* whether the progress is logged, from 2 seconds on */
  /* Cache that has or gets the prices of layers, made for a request that differs in the number of devices, the global
   * batch and the optimizer at most. It saves time if the search before it was a similar one. NULL: the search makes
   * its own. */
  struct tri_price_cache *prices;
  /* Called once for each simulated layout, with `context`, by the calling thread; NULL: not called. */
  void (*simulated)(void *context, const tri_layout *layout, const tri_prediction *prediction);
  void *context;
} tri_search_request;

typedef struct tri_answer {
  tri_layout layout; /* resolved layout */
  tri_prediction prediction;
} tri_answer;

/* TRI_SEARCH_EXPLAINED: largest number of keys with an alternative. TRI_SEARCH_TOLD: number of alternatives in a
 * report. */
enum { TRI_SEARCH_EXPLAINED = 16, TRI_SEARCH_TOLD = 3 };

/* The alternative for a key: the fastest layout that fits and has another value of this key than the best layout.
 * The difference of the two step times is the time that the best value saves. One layout may be the alternative for
 * several keys. */
typedef struct tri_alternative {
  const tri_config_key *keys[TRI_SEARCH_EXPLAINED]; /* keys that this layout is the alternative for [num_keys] */
  int64_t num_keys;
  tri_layout layout; /* resolved layout */
  double step_s;
  const char *loss; /* name of the part of the step that grows most from the best layout to this one */
} tri_alternative;

typedef struct tri_search_result {
  tri_answer *answers; /* fastest layouts that fit [num_answers], best first; owned */
  int64_t num_answers;
  int64_t valid, simulated; /* number of candidates; number of simulated candidates */
  double seconds;           /* duration of the search */
  bool exhaustive;          /* `exhaustive` of the request; if true, candidates that were not simulated do not fit */
  struct tri_price_cache *prices; /* the search's own cache of prices, for the next search; owned. NULL: the request
                                     had one */
  /* Distinct layouts [num_alternatives], the fastest first. The first TRI_SEARCH_TOLD are exact: a later one may be
   * slower than the fastest layout with another value of its keys. Empty after an exhaustive search. */
  tri_alternative alternatives[TRI_SEARCH_EXPLAINED];
  int64_t num_alternatives;
  const tri_config_key *only[TRI_SEARCH_EXPLAINED]; /* keys for which no layout with another value fits [num_only] */
  int64_t num_only;
} tri_search_result;

/* Searches for the fastest layouts. Fails with TRI_BAD_LAYOUT if no combination is valid; the message has the rule
 * and the numbers. Fails with TRI_OUT_OF_MEMORY if no layout fits; the message has the bytes that the smallest
 * layout lacks, and a number of devices that is enough, if one was found. Release with tri_search_release. */
tri_status tri_search(const tri_search_request *request, tri_search_result *out);
/* Writes the names of the layout keys that a search varies, separated by ", ": all but those in `fixed` (NULL: all).
 * Returns buffer. */
enum { TRI_SEARCHED_BYTES = 320 };
char *tri_search_keys(const char *fixed, char buffer[TRI_SEARCHED_BYTES]);

void tri_search_release(tri_search_result *result);

/* Searches for the Pareto front of time and memory, of at most 24 layouts. The first answer is the fastest layout
 * that fits; each later one is the fastest with at least 3 % less memory than the answer before it. */
tri_status tri_search_pareto(const tri_search_request *request, tri_search_result *out);

#endif
