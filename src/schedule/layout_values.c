#include "schedule/layout_values.h"

#include "schedule/layout_config.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

enum { MOST_KEYS = 32, MOST_MICRO_BATCH = 64, MOST_CHUNKS = 16 };

/* ---- values worth trying ----------------------------------------------------------------------------------------- */

static void append(tri_layout_values *out, int64_t value) {
  assert(out->count < TRI_LAYOUT_VALUES); /* no number of ranks or of layers has as many divisors */
  out->values[out->count++] = value;
}

void tri_layout_fill_tensor(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out) {
  (void)layout;
  for (int64_t t = 1; t <= space->devices && t <= space->model->num_heads; t++) {
    if (space->devices % t == 0 && space->model->num_heads % t == 0) append(out, t);
  }
}

void tri_layout_fill_context(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out) {
  append(out, 1);
  for (int64_t c = 2; c <= space->sequence / TRI_LAYOUT_LEAST_TOKENS; c++) {
    if (space->devices % (layout->tensor * c) == 0) append(out, c);
  }
}

void tri_layout_fill_exchange(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out) {
  (void)space;
  append(out, TRI_CONTEXT_GATHER);
  if (layout->context == 1) return;
  append(out, TRI_CONTEXT_HEADS);
  append(out, TRI_CONTEXT_RING);
}

void tri_layout_fill_inner(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out) {
  (void)space;
  switch (layout->context_exchange) {
    case TRI_CONTEXT_HEADS: append(out, 0); return; /* auto: all context ranks */
    case TRI_CONTEXT_GATHER:
    case TRI_CONTEXT_RING: break;
  }
  append(out, 0);
  for (int64_t u = 2; u < layout->context; u++) {
    if (layout->context % u == 0) append(out, u);
  }
}

void tri_layout_fill_expert(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out) {
  (void)layout;
  append(out, 1);
  for (int64_t e = 2; e <= space->devices && e <= space->model->num_experts; e++) {
    if (space->devices % e == 0) append(out, e);
  }
}

/* Appends numbers up to layout->tensor: experts are narrower than dense layers, so splitting them over more ranks is
 * not tried. */
void tri_layout_fill_expert_tensor(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out) {
  append(out, 1);
  if (space->model->num_experts == 0) return;
  for (int64_t t = 2; t <= layout->tensor; t++) {
    if (space->devices % (layout->expert * t) == 0 && space->model->expert_ffn_size % t == 0) append(out, t);
  }
}

void tri_layout_fill_sequence_parallel(const tri_layout_space *space, const tri_layout *layout,
                                       tri_layout_values *out) {
  (void)space;
  append(out, 0);
  if (layout->tensor > 1) append(out, 1);
}

/* With full recompute, sequence_regather is tried only if gathered rows cannot be kept, because full recompute
 * repeats the gathers of a layer anyway. */
void tri_layout_fill_sequence_regather(const tri_layout_space *space, const tri_layout *layout,
                                       tri_layout_values *out) {
  const bool gathers = layout->sequence_parallel && (layout->recompute != TRI_RECOMPUTE_FULL || !space->keeps_gathered);
  if (!gathers || space->keeps_gathered) append(out, 0);
  if (gathers && space->gathers_again) append(out, 1);
}

void tri_layout_fill_recompute(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out) {
  (void)layout;
  for (const tri_config_word *what = tri_recompute_words; what->name != NULL; what++) {
    if (what->value != (int)TRI_RECOMPUTE_EXPERTS || space->model->num_experts > 0) append(out, what->value);
  }
}

/* Recomputing fewer than one layer in four saves little. */
void tri_layout_fill_recompute_every(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out) {
  enum { MOST_EVERY = 4 };
  append(out, 1);
  switch (layout->recompute) {
    case TRI_RECOMPUTE_NONE:
    case TRI_RECOMPUTE_SELECTIVE:
    case TRI_RECOMPUTE_EXPERTS: return;
    case TRI_RECOMPUTE_FULL: break;
  }
  for (int64_t every = 2; every <= MOST_EVERY && every <= space->model->num_layers; every++) append(out, every);
}

void tri_layout_fill_micro_batch(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out) {
  (void)layout;
  for (int64_t size = 1; size <= MOST_MICRO_BATCH; size++) {
    if (space->global_batch % size == 0) append(out, size);
  }
}

void tri_layout_fill_pipeline(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out) {
  int64_t others = layout->tensor * layout->context;
  for (int64_t p = 1; p <= space->model->num_layers + 2; p++) {
    if (space->devices % (others * p) != 0) continue;
    if (space->devices / p % (layout->expert * layout->expert_tensor) != 0) continue;
    int64_t data = space->devices / (others * p);
    if (space->global_batch % (data * layout->micro_batch) == 0) append(out, p);
  }
}

/* GPipe is not tried: it takes as long as 1F1B and needs more memory. */
void tri_layout_fill_schedule(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out) {
  (void)space;
  append(out, TRI_SCHEDULE_1F1B);
  if (layout->pipeline == 1) return;
  append(out, TRI_SCHEDULE_ZERO_BUBBLE);
  append(out, TRI_SCHEDULE_INTERLEAVED);
}

/* Appends the numbers of chunks with which all chunks have equal length, in layers or with the embedding and the
 * head counted as a layer each. */
void tri_layout_fill_virtual_stages(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out) {
  int64_t layers = space->model->num_layers, chunks = (layers + 2) / layout->pipeline;
  switch (layout->schedule) {
    case TRI_SCHEDULE_GPIPE:
    case TRI_SCHEDULE_1F1B:
    case TRI_SCHEDULE_ZERO_BUBBLE: append(out, 1); return;
    case TRI_SCHEDULE_INTERLEAVED: break;
  }
  if (layout->stage_layers != NULL) { /* the number of chunks follows from stage_layers */
    const int64_t given = layout->stage_layers->count;
    if (given % layout->pipeline == 0 && given > layout->pipeline) append(out, given / layout->pipeline);
    return;
  }
  for (int64_t v = 2; v <= chunks && v <= MOST_CHUNKS; v++) {
    int64_t stages = v * layout->pipeline;
    if (layers % stages == 0 || (layers + 2) % stages == 0) append(out, v);
  }
}

/* ZeRO shards over data and context ranks. If their product is 1, it has no effect. ZeRO 2 is not tried where it equals
 * ZeRO 1 (tri_layout_space.sums_whole). */
void tri_layout_fill_zero(const tri_layout_space *space, const tri_layout *layout, tri_layout_values *out) {
  int64_t data = space->devices / (layout->tensor * layout->context * layout->pipeline);
  const bool several = space->global_batch / data > layout->micro_batch;
  static const int64_t all[] = {0, 1, 2, 3};
  const bool any = space->zero == NULL;
  const int64_t *stages = any ? all : space->zero->numbers, count = any ? 4 : space->zero->count;
  for (int64_t i = 0; i < count; i++) {
    const bool as_before = stages[i] == 2 && several && space->sums_whole; /* it equals ZeRO 1 */
    const bool alone = data * layout->context == 1;                        /* all stages are equal */
    if (i == 0 || !(alone || as_before)) append(out, stages[i]);
  }
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

int64_t tri_layout_value(const tri_layout *layout, const tri_config_key *key) {
  const void *at = (const char *)layout + key->offset;
  if (key->type == TRI_CONFIG_CHOICE) return *(const int *)at;
  if (key->type == TRI_CONFIG_BOOL) return *(const bool *)at;
  return *(const int64_t *)at;
}

static void set_value(tri_layout *layout, const tri_config_key *key, int64_t value) {
  void *at = (char *)layout + key->offset;
  if (key->type == TRI_CONFIG_CHOICE) {
    *(int *)at = (int)value;
  } else if (key->type == TRI_CONFIG_BOOL) {
    *(bool *)at = value != 0;
  } else {
    *(int64_t *)at = value;
  }
}

const tri_layout_search *tri_layout_search_of(const tri_config_key *key) { return key->more; }

/* Offsets in tri_layout of the searched keys with a given use, grouped by the size of the member. A search compares
 * millions of layouts, and these arrays make the comparison fast. */
typedef struct key_places {
  size_t words[MOST_KEYS], choices[MOST_KEYS], flags[MOST_KEYS];
  int num_words, num_choices, num_flags;
} key_places;

static key_places places_of_use[TRI_LAYOUT_OF_PARAMETERS + 1];

static void add_place(key_places *to, const tri_config_key *key) {
  if (key->type == TRI_CONFIG_CHOICE) {
    to->choices[to->num_choices++] = key->offset;
  } else if (key->type == TRI_CONFIG_BOOL) {
    to->flags[to->num_flags++] = key->offset;
  } else {
    to->words[to->num_words++] = key->offset;
  }
}

static void find_key_places(void) {
  for (size_t k = 0; k < tri_layout_table.num_keys; k++) {
    const tri_layout_search *search = tri_layout_search_of(&tri_layout_table.keys[k]);
    for (int use = 0; search != NULL && use <= (int)search->use; use++)
      add_place(&places_of_use[use], &tri_layout_table.keys[k]);
  }
}

static const key_places *places_of(tri_layout_use use) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, find_key_places);
  return &places_of_use[use];
}

uint64_t tri_layout_number(const tri_layout *layout, tri_layout_use use) {
  const char *x = (const char *)layout;
  const key_places *at = places_of(use);
  uint64_t number = 0;
  for (int i = 0; i < at->num_words; i++)
    number = number * 1000003 + (uint64_t) * (const int64_t *)(const void *)(x + at->words[i]);
  for (int i = 0; i < at->num_choices; i++)
    number = number * 1000003 + (uint64_t) * (const int *)(const void *)(x + at->choices[i]);
  for (int i = 0; i < at->num_flags; i++) number = number * 1000003 + *(const bool *)(x + at->flags[i]);
  return number;
}

bool tri_layouts_alike(const tri_layout *a, const tri_layout *b, tri_layout_use use) {
  const char *x = (const char *)a, *y = (const char *)b;
  const key_places *at = places_of(use);
  for (int i = 0; i < at->num_words; i++) {
    if (*(const int64_t *)(const void *)(x + at->words[i]) != *(const int64_t *)(const void *)(y + at->words[i]))
      return false;
  }
  for (int i = 0; i < at->num_choices; i++) {
    if (*(const int *)(const void *)(x + at->choices[i]) != *(const int *)(const void *)(y + at->choices[i]))
      return false;
  }
  for (int i = 0; i < at->num_flags; i++) {
    if (*(const bool *)(x + at->flags[i]) != *(const bool *)(y + at->flags[i])) return false;
  }
  return true;
}

const tri_config_key *tri_layouts_differ(const tri_layout *a, const tri_layout *b, const tri_config_key *key) {
  for (size_t k = 0; k < tri_layout_table.num_keys; k++) {
    const tri_config_key *other = &tri_layout_table.keys[k];
    const tri_layout_search *search = tri_layout_search_of(other);
    bool same = other == key || (search != NULL && search->with != NULL && strcmp(search->with, key->name) == 0);
    if (same && tri_layout_value(a, other) != tri_layout_value(b, other)) return other;
  }
  return NULL;
}

/* ---- combinations ------------------------------------------------------------------------------------------------ */

typedef struct visiting {
  const tri_layout_space *space;
  const tri_config_key *keys[MOST_KEYS]; /* searched keys [count], in the order in which they are set */
  bool fixed[MOST_KEYS];                 /* whether the key is fixed: it keeps the value that it has in the first
                                            layout */
  int64_t count;
  tri_status (*visit)(void *context, const tri_layout *layout);
  void *context;
} visiting;

bool tri_layout_is_fixed(const char *text, const char *name) {
  char word[TRI_LAYOUT_WORD_BYTES];
  const size_t length = strlen(name);
  while (text != NULL && tri_layout_next_word(&text, word)) {
    if (strncmp(word, name, length) == 0 && word[length] == '=') return true;
  }
  return false;
}

static tri_status check_fixed(const char *text) {
  for (size_t k = 0; k < tri_layout_table.num_keys; k++) {
    const tri_config_key *key = &tri_layout_table.keys[k];
    const bool may = strcmp(key->name, "data") == 0 || strcmp(key->name, "stage_layers") == 0;
    if (tri_layout_search_of(key) != NULL || may || !tri_layout_is_fixed(text, key->name)) continue;
    return tri_fail(TRI_UNSUPPORTED,
                    "the search does not vary `%s`, which has its default in all layouts; leave it out, and ask "
                    "`simulate` for one layout with it",
                    key->name);
  }
  return TRI_OK;
}

static bool is_taken(const visiting *all, const char *name) {
  for (int64_t i = 0; i < all->count; i++) {
    if (strcmp(all->keys[i]->name, name) == 0) return true;
  }
  return false;
}

static bool is_ready(const visiting *all, const tri_config_key *key) {
  const tri_layout_search *search = tri_layout_search_of(key);
  if (search == NULL || is_taken(all, key->name)) return false;
  for (int i = 0; i < TRI_LAYOUT_AFTER && search->after[i] != NULL; i++) {
    if (!is_taken(all, search->after[i])) return false;
  }
  return true;
}

/* Returns the next key to set: among the keys whose `after` are set, the first row with the highest `use`. */
static const tri_config_key *next_key(const visiting *all) {
  const tri_config_key *next = NULL;
  for (size_t k = 0; k < tri_layout_table.num_keys; k++) {
    const tri_config_key *key = &tri_layout_table.keys[k];
    if (!is_ready(all, key)) continue;
    if (next == NULL || tri_layout_search_of(next)->use < tri_layout_search_of(key)->use) next = key;
  }
  return next;
}

/* Returns whether tensor, context and pipeline divide the devices. An axis that is not set yet has one rank, or its
 * fixed value. */
static bool has_devices(const tri_layout_space *space, const tri_layout *layout) {
  const int64_t of_tensor = space->devices / layout->tensor, of_context = of_tensor / layout->context;
  return space->devices % layout->tensor == 0 && of_tensor % layout->context == 0 && of_context % layout->pipeline == 0;
}

/* Visits all combinations of the keys from index `depth` on, and restores the layout at the end. */
static tri_status visit_layouts_from(const visiting *all, int64_t depth, tri_layout *layout) {
  tri_layout_values found;
  found.count = 0; /* the other members are not cleared, since they are large */
  if (!has_devices(all->space, layout)) return TRI_OK;
  if (depth == all->count) return all->visit(all->context, layout);
  if (all->fixed[depth]) return visit_layouts_from(all, depth + 1, layout);
  tri_layout_search_of(all->keys[depth])->fill(all->space, layout, &found);
  const int64_t before = tri_layout_value(layout, all->keys[depth]);
  for (int64_t i = 0; i < found.count; i++) {
    set_value(layout, all->keys[depth], found.values[i]);
    TRI_TRY(visit_layouts_from(all, depth + 1, layout));
  }
  set_value(layout, all->keys[depth], before);
  return TRI_OK;
}

tri_status tri_layouts_each(const tri_layout_space *space, tri_status (*visit)(void *context, const tri_layout *layout),
                            void *context) {
  visiting all = {.space = space, .visit = visit, .context = context};
  tri_layout layout;
  TRI_TRY(tri_layout_parse(space->fixed == NULL ? "" : space->fixed, &layout));
  TRI_TRY(check_fixed(space->fixed));
  for (const tri_config_key *key = next_key(&all); key != NULL; key = next_key(&all)) {
    assert(all.count < MOST_KEYS);
    all.fixed[all.count] = tri_layout_is_fixed(space->fixed, key->name);
    all.keys[all.count++] = key;
  }
  return visit_layouts_from(&all, 0, &layout);
}
