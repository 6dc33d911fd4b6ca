/* Which layouts a search tries. A row of the table of layout keys (layout_config.c) may say which values of its key are
 * worth trying, and which keys that depends on. All combinations follow from the rows: a key is taken behind those that
 * it depends on, and keys that layers' operations depend on before all others, so that what is priced by layers is
 * asked for in a row. A new key is tried, told apart and explained once it has a row. */
#ifndef TRI_SCHEDULE_LAYOUT_VALUES_H
#define TRI_SCHEDULE_LAYOUT_VALUES_H

#include "config/config.h"
#include "schedule/layout.h"

/* What is to be laid out. */
typedef struct tri_layout_space {
  const tri_model *model; /* complete */
  int64_t devices, global_batch, sequence;
  bool sums_whole;   /* with several micro-batches gradients are whole until the last: zero 2 is zero 1 then */
  const char *fixed; /* "tensor=8,recompute=full": keys with one value, be it worth trying or not; NULL: none */
} tri_layout_space;

/* No published run leaves a rank fewer tokens of a sequence than that (Llama 3 leaves it as many): no search does. */
enum { TRI_LAYOUT_VALUES = 1024, TRI_LAYOUT_AFTER = 4, TRI_LAYOUT_LEAST_TOKENS = 8192 };

typedef struct tri_layout_values {
  int64_t values[TRI_LAYOUT_VALUES];
  int64_t count;
} tri_layout_values;

/* What is made of a part of the layout's keys. */
typedef enum tri_layout_use {
  TRI_LAYOUT_OF_ALL,        /* whatever else */
  TRI_LAYOUT_OF_LAYERS,     /* the operations of layers, and how long they take */
  TRI_LAYOUT_OF_PARAMETERS, /* and the table of parameters, too */
} tri_layout_use;

/* The part of a key's row that a search reads: tri_config_key.more. */
typedef struct tri_layout_search {
  /* Appends the values worth trying beside those that the layout has in the keys named in `after`; none: that layout is
   * of no use. */
  void (*fill)(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out);
  const char *after[TRI_LAYOUT_AFTER];
  const char *needs;  /* a key of several ranks: of one alone this one says nothing, and is not printed */
  const char *with;   /* another key that says the same thing to a reader: they are explained together */
  tri_layout_use use; /* what the key decides, first of all */
} tri_layout_search;

/* What fills the values of the keys of layout_config.c. */
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
void tri_layout_fill_zero(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out);
void tri_layout_fill_recompute(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out);
void tri_layout_fill_micro_batch(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out);

/* Calls `visit` with every combination; keys without values have their defaults. Not all are legal: the visitor
 * resolves them. Stops at its first failure. Of the keys without values `data` alone may be fixed: others decide about
 * what bounds (plan/bounds.h) do not look at. */
tri_status tri_layouts_each(const tri_layout_space *space, tri_status (*visit)(void *context, const tri_layout *layout),
                            void *context);

/* The value of a key that a search may try as a number: a choice's is its enum's. */
int64_t tri_layout_value(const tri_layout *layout, const tri_config_key *key);

/* What a row says to a search; NULL: its key has its default there. */
const tri_layout_search *tri_layout_search_of(const tri_config_key *key);

/* Whether two layouts are alike in all keys that a search tries and that decide about `use`. */
bool tri_layouts_alike(const tri_layout *a, const tri_layout *b, tri_layout_use use);

/* Whether they differ in a key, or in one that is explained with it. */
bool tri_layouts_differ(const tri_layout *a, const tri_layout *b, const tri_config_key *key);

#endif
