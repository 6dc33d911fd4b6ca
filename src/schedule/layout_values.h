/* Which layouts a search tries. A row of the table of layout keys (layout_config.c) may say which values of its key are
 * worth trying, and which keys these depend on. All combinations follow from the rows: a key is set after the keys that
 * it depends on, and keys that the operations of layers depend on are set before all others, so that layouts with the
 * same prices of layers follow each other. A new key is searched, compared and explained once it has a row. */
#ifndef TRI_SCHEDULE_LAYOUT_VALUES_H
#define TRI_SCHEDULE_LAYOUT_VALUES_H

#include "config/config.h"
#include "schedule/layout.h"

/* What the layouts are for. */
typedef struct tri_layout_space {
  const tri_model *model; /* complete */
  int64_t devices, global_batch, sequence;
  bool keeps_gathered, gathers_again; /* sequence parallelism may be without `sequence_regather`; with it */
  bool sums_whole;   /* with several micro-batches, gradients are not sharded before the last: zero 2 equals zero 1 */
  const char *fixed; /* "tensor=8,recompute=full": keys that have only this value, whether worth trying or not; NULL: no
                        key is fixed */
} tri_layout_space;

/* TRI_LAYOUT_LEAST_TOKENS: no search gives a context rank fewer tokens of a sequence; no published run does (Llama 3
 * gives it exactly that many). */
enum { TRI_LAYOUT_VALUES = 1024, TRI_LAYOUT_AFTER = 4, TRI_LAYOUT_LEAST_TOKENS = 8192 };

typedef struct tri_layout_values {
  int64_t values[TRI_LAYOUT_VALUES];
  int64_t count;
} tri_layout_values;

/* What a key has an effect on; each value includes those above it. */
typedef enum tri_layout_use {
  TRI_LAYOUT_OF_ALL,        /* the step as a whole */
  TRI_LAYOUT_OF_LAYERS,     /* also the operations of layers and their prices */
  TRI_LAYOUT_OF_PARAMETERS, /* also the parameter table */
} tri_layout_use;

/* The part of a key's row that a search reads: tri_config_key.more. */
typedef struct tri_layout_search {
  /* Appends the values worth trying, given the layout's values of the keys named in `after`. If it appends no value, no
   * layout with these is tried. */
  void (*fill)(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out);
  const char *after[TRI_LAYOUT_AFTER];
  const char *needs;  /* name of an axis: if that has one rank, this key has no effect and is not printed; or NULL */
  const char *with;   /* name of another key, together with which this one is explained; or NULL */
  tri_layout_use use; /* the highest that applies */
} tri_layout_search;

/* The `fill` functions of the rows of layout_config.c. */
void tri_layout_fill_tensor(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out);
void tri_layout_fill_pipeline(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out);
void tri_layout_fill_context(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out);
void tri_layout_fill_exchange(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out);
void tri_layout_fill_inner(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out);
void tri_layout_fill_expert(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out);
void tri_layout_fill_expert_tensor(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out);
void tri_layout_fill_virtual_stages(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out);
void tri_layout_fill_schedule(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out);
void tri_layout_fill_sequence_parallel(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out);
void tri_layout_fill_sequence_regather(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out);
void tri_layout_fill_zero(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out);
void tri_layout_fill_recompute(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out);
void tri_layout_fill_recompute_every(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out);
void tri_layout_fill_micro_batch(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out);

/* Calls `visit` with every combination; keys that are not searched have their defaults. Not all are valid: the visitor
 * resolves them. Stops at its first failure. Of the keys that are not searched only `data` and `stage_layers` may be
 * fixed (else TRI_UNSUPPORTED): the lower bounds (plan/bounds.h) do not look at the others. */
tri_status tri_layouts_each(const tri_layout_space *space, tri_status (*visit)(void *context, const tri_layout *layout),
                            void *context);

/* The layout's value of a key that has a search row, as a number: of a choice, the value of its enum. */
int64_t tri_layout_value(const tri_layout *layout, const tri_config_key *key);

/* Whether a key is in "tensor=8,recompute=full"; NULL: in none. */
bool tri_layout_is_fixed(const char *text, const char *name);

/* The search row of a key; NULL: the key is not searched and has its default. */
const tri_layout_search *tri_layout_search_of(const tri_config_key *key);

/* Whether two layouts have equal values in all searched keys whose `use` is at least this one. */
bool tri_layouts_alike(const tri_layout *a, const tri_layout *b, tri_layout_use use);

/* A number of these values: the same for layouts that are alike, and mostly another for others. */
uint64_t tri_layout_number(const tri_layout *layout, tri_layout_use use);

/* The key in which two layouts differ: of `key` and those that are explained together with it, the first; NULL: in none
 * of them. */
const tri_config_key *tri_layouts_differ(const tri_layout *a, const tri_layout *b, const tri_config_key *key);

#endif
