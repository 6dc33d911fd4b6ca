/* The layouts that a search tries. A row of the table of layout keys (layout_config.c) may list the values of its
 * key that are worth trying, and the keys on which these depend. All combinations follow from the rows: a key is set
 * after the keys that it depends on, and keys that the operations of layers depend on are set before all others, so
 * that layouts with the same prices of layers follow each other. A new key is searched, compared and explained as
 * soon as it has a row. */
#ifndef TRI_SCHEDULE_LAYOUT_VALUES_H
#define TRI_SCHEDULE_LAYOUT_VALUES_H

#include "config/config.h"
#include "schedule/layout.h"

/* The model, the devices and the step to search layouts for. */
typedef struct tri_layout_space {
  const tri_model *model; /* model after tri_model_complete */
  int64_t devices, global_batch, sequence;
  bool keeps_gathered, gathers_again; /* whether sequence parallelism is possible without `sequence_regather` (first
                                         member), and with it (second member) */
  bool sums_whole; /* whether zero 2 equals zero 1 in steps of several micro-batches, because gradients are whole until
                      the last one */
  const tri_count_list *zero; /* stages of ZeRO that are possible; NULL: 0 to 3 */
  const char *fixed; /* keys with a fixed value, such as "tensor=8,recompute=full"; only this value is tried, even if it
                        is not worth trying; NULL: no key is fixed */
} tri_layout_space;

/* TRI_LAYOUT_VALUES: largest number of values of a key. TRI_LAYOUT_AFTER: largest number of keys on which values
 * depend. TRI_LAYOUT_LEAST_TOKENS: smallest number of tokens of a sequence that a search gives to a context rank; no
 * published run has fewer (Llama 3 has exactly this number). */
enum { TRI_LAYOUT_VALUES = 1024, TRI_LAYOUT_AFTER = 4, TRI_LAYOUT_LEAST_TOKENS = 8192 };

typedef struct tri_layout_values {
  int64_t values[TRI_LAYOUT_VALUES];
  int64_t count;
} tri_layout_values;

/* The parts of a step on which a key has an effect. Each value includes the values above it. */
typedef enum tri_layout_use {
  TRI_LAYOUT_OF_ALL,        /* the step as a whole */
  TRI_LAYOUT_OF_LAYERS,     /* also the operations of layers and their prices */
  TRI_LAYOUT_OF_PARAMETERS, /* also the parameter table */
} tri_layout_use;

/* The part of a key's row that a search reads: tri_config_key.more. */
typedef struct tri_layout_search {
  /* Appends the values worth trying, given the layout's values of the keys named in `after`. If it appends no value,
   * no layout with those values of the other keys is tried. */
  void (*fill)(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out);
  const char *after[TRI_LAYOUT_AFTER];
  const char *needs;  /* name of an axis: if the axis has one rank, this key has no effect and is not printed; NULL: the
                         key always has an effect */
  const char *with;   /* name of another key that is explained together with this one; NULL: none */
  tri_layout_use use; /* the last value of tri_layout_use that applies to the key */
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

/* Calls `visit` with every combination of values. Keys that are not searched have their defaults. Not all combinations
 * are valid; the visitor resolves them. Stops if `visit` fails, and returns its status. Fails with TRI_UNSUPPORTED if a
 * fixed key is not searched and is neither `data` nor `stage_layers`, because the lower bounds (plan/bounds.h) do not
 * read such a key. */
tri_status tri_layouts_each(const tri_layout_space *space, tri_status (*visit)(void *context, const tri_layout *layout),
                            void *context);

/* Returns the layout's value of a key with a search row, as a number; for a choice the value of its enum. */
int64_t tri_layout_value(const tri_layout *layout, const tri_config_key *key);

/* Returns whether a text such as "tensor=8,recompute=full" has the key `name`; false if `text` is NULL. */
bool tri_layout_is_fixed(const char *text, const char *name);

/* Returns the search row of a key; NULL if the key is not searched. */
const tri_layout_search *tri_layout_search_of(const tri_config_key *key);

/* Returns whether two layouts have equal values in all searched keys whose tri_layout_search.use is at least `use`. */
bool tri_layouts_alike(const tri_layout *a, const tri_layout *b, tri_layout_use use);

/* Returns a hash of the values that tri_layouts_alike compares. */
uint64_t tri_layout_number(const tri_layout *layout, tri_layout_use use);

/* Returns the first key with different values in two layouts, among `key` and the keys that are explained together with
 * it; NULL if these values are equal. */
const tri_config_key *tri_layouts_differ(const tri_layout *a, const tri_layout *b, const tri_config_key *key);

#endif
