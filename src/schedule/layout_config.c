#include "schedule/layout_config.h"

#include "schedule/layout_values.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define SCHEDULES(X)                                                                                                   \
  X("gpipe", TRI_SCHEDULE_GPIPE)                                                                                       \
  X("1f1b", TRI_SCHEDULE_1F1B)                                                                                         \
  X("interleaved", TRI_SCHEDULE_INTERLEAVED)                                                                           \
  X("zero-bubble", TRI_SCHEDULE_ZERO_BUBBLE)
TRI_CONFIG_WORDS(schedules, tri_schedule_kind, SCHEDULES)
#define RECOMPUTES(X)                                                                                                  \
  X("none", TRI_RECOMPUTE_NONE)                                                                                        \
  X("selective", TRI_RECOMPUTE_SELECTIVE) X("experts", TRI_RECOMPUTE_EXPERTS) X("full", TRI_RECOMPUTE_FULL)
TRI_CONFIG_WORDS(recomputes, tri_recompute, RECOMPUTES)
const tri_config_word *const tri_recompute_words = recomputes;
#define CONTEXT_EXCHANGES(X) X("gather", TRI_CONTEXT_GATHER) X("heads", TRI_CONTEXT_HEADS) X("ring", TRI_CONTEXT_RING)
TRI_CONFIG_WORDS(context_exchanges, tri_context_exchange, CONTEXT_EXCHANGES)
#define BALANCES(X) X("work", TRI_BALANCE_WORK) X("layers", TRI_BALANCE_LAYERS)
TRI_CONFIG_WORDS(balances, tri_balance, BALANCES)
/* Number formats in which gradients can be exchanged. */
static const tri_config_word reduce_precisions[] = {{"fp32", TRI_FP32}, {"bf16", TRI_BF16}, {NULL, 0}};
static_assert(sizeof(tri_dtype) == sizeof(int), "a choice is stored as int");

#define KEY(NAME, TYPE) .name = #NAME, .type = TYPE, .offset = offsetof(tri_layout, NAME)
#define COUNT(NAME, LOW, HIGH) KEY(NAME, TRI_CONFIG_INT), .range = {.low = LOW, .high = HIGH}
#define AUTO(NAME, LOW, HIGH) KEY(NAME, TRI_CONFIG_AUTO), .range = {.low = LOW, .high = HIGH}
#define CHOICE(NAME, WORDS) KEY(NAME, TRI_CONFIG_CHOICE), .words = WORDS

/* The search row of a key: the function that lists its values, the use of the key, and in `.after` the keys on which
 * the values depend. */
#define SEARCH(NAME, USE, ...)                                                                                         \
  .more = &(const tri_layout_search) { .fill = tri_layout_fill_##NAME, .use = TRI_LAYOUT_OF_##USE, __VA_ARGS__ }

enum { MOST_RANKS = 1 << 24, MOST_SEQUENCES = 1 << 24 };

static const tri_config_key layout_keys[] = {
    {COUNT(tensor, 1, MOST_RANKS), SEARCH(tensor, PARAMETERS), .fallback = "1",
     .help = "tensor parallelism: ranks that split each layer"},
    {COUNT(pipeline, 1, MOST_RANKS),
     SEARCH(pipeline, ALL, .after = {"tensor", "context", "micro_batch", "expert_tensor"}), .fallback = "1",
     .help = "pipeline parallelism: stages of consecutive layers"},
    {COUNT(context, 1, MOST_RANKS), SEARCH(context, LAYERS, .after = {"tensor"}), .fallback = "1",
     .help = "context parallelism: ranks that split each sequence"},
    {CHOICE(context_exchange, context_exchanges), SEARCH(exchange, LAYERS, .after = {"context"}, .needs = "context"),
     .fallback = "gather",
     .help = "attention of context ranks: gather (all-gather keys and values), heads (DeepSpeed-Ulysses) or ring"},
    {AUTO(context_inner, 1, MOST_RANKS),
     SEARCH(inner, LAYERS, .after = {"context", "context_exchange"}, .with = "context_exchange", .needs = "context"),
     .fallback = "auto",
     .help = "adjacent context ranks that exchange heads, before the others gather or pass keys; auto: 1"},
    {COUNT(context_row_pairs, 0, 1 << 20), .fallback = "100",
     .help = "masked documents: query-key pairs that a context rank computes in the time in which it receives one row "
             "of keys; a larger value splits documents over fewer ranks"},
    {AUTO(data, 1, MOST_RANKS), .fallback = "auto",
     .help = "data parallelism: replicas; auto: all ranks that the other dimensions leave"},
    {COUNT(expert, 1, MOST_RANKS), SEARCH(expert, PARAMETERS), .fallback = "1",
     .help = "expert parallelism: ranks of a stage that have different experts; expert x expert_tensor divides tensor "
             "x context x data"},
    {COUNT(expert_tensor, 1, MOST_RANKS), SEARCH(expert_tensor, PARAMETERS, .after = {"tensor", "expert"}),
     .fallback = "1", .help = "expert tensor parallelism: adjacent ranks that split each expert"},
    TRI_CONFIG_ROW(
        LEARNING, KEY(expert_capacity, TRI_CONFIG_DOUBLE), .range = {.low = 0.125, .high = 1024}, .fallback = "1.5",
        .help = "room for rows of experts, as a multiple of a rank's rows under perfect balance; rows beyond it are "
                "computed in further rounds"),
    TRI_CONFIG_ROW(
        LEARNING, KEY(capacity_drop, TRI_CONFIG_BOOL), .fallback = "false",
        .help = "drop an expert's tokens beyond expert_capacity, as other programs do, instead of further rounds"),
    {COUNT(virtual_stages, 1, 1 << 14),
     SEARCH(virtual_stages, ALL, .after = {"pipeline", "schedule"}, .with = "schedule"), .fallback = "1",
     .help = "virtual pipeline stages: chunks of layers of each rank (schedule: interleaved)"},
    {CHOICE(schedule, schedules), SEARCH(schedule, ALL, .after = {"pipeline"}), .fallback = "1f1b",
     .help = "pipeline schedule"},
    {CHOICE(balance, balances), .fallback = "work",
     .help = "what stages get an equal share of: work (with the output projection's), or layers"},
    {KEY(stage_layers, TRI_CONFIG_COUNTS), .range = {.low = 0, .high = 1 << 14}, .fallback = "[]",
     .help = "layers of each stage, [3,4,4,3], or with virtual_stages of each chunk, in the order of the layers; the "
             "first and the last may have 0; []: as balance divides them"},
    {COUNT(embedding_as_layers, 0, 1 << 14), .fallback = "0",
     .help = "balance: layers counts the embedding as this many layers, so the first stage gets fewer"},
    {COUNT(head_as_layers, 0, 1 << 14), .fallback = "0",
     .help = "balance: layers counts the output projection as this many layers, so the last stage gets fewer"},
    {KEY(sequence_parallel, TRI_CONFIG_BOOL), SEARCH(sequence_parallel, LAYERS, .after = {"tensor"}),
     .fallback = "false", .help = "sequence parallelism: tensor ranks split norms, dropout and residuals by tokens"},
    {KEY(sequence_regather, TRI_CONFIG_BOOL),
     SEARCH(sequence_regather, LAYERS, .after = {"sequence_parallel", "recompute"}, .with = "sequence_parallel"),
     .fallback = "false",
     .help = "sequence_parallel: what tensor ranks gather is gathered again in the backward, not kept: less memory"},
    {COUNT(zero, 0, 3), SEARCH(zero, ALL, .after = {"tensor", "context", "pipeline", "micro_batch"}), .fallback = "0",
     .help = "ZeRO stage: 1 shards optimizer states over replicas, 2 gradients too (in steps of one micro-batch), 3 "
             "parameters too"},
    {CHOICE(recompute, recomputes), SEARCH(recompute, LAYERS), .fallback = "none",
     .help = "activations recomputed in the backward pass to save memory"},
    {COUNT(recompute_every, 1, 1 << 20), SEARCH(recompute_every, ALL, .after = {"recompute"}, .with = "recompute"),
     .fallback = "1", .help = "recompute: full applies to one of this many layers"},
    TRI_CONFIG_ROW(LEARNING, CHOICE(reduce_precision, reduce_precisions), .fallback = "fp32",
                   .help = "type in which replicas exchange gradients; bf16 halves the bytes, and sums are in fp32"),
    {COUNT(bucket_bytes, 1, (int64_t)1 << 40), .fallback = "26214400",
     .help = "bucket size: bytes of gradients that are reduced at once"},
    {COUNT(micro_batch, 1, MOST_SEQUENCES), SEARCH(micro_batch, LAYERS), .fallback = "1",
     .help = "micro-batch size: sequences of one forward pass on one rank"},
    {AUTO(micro_batch_group, 1, MOST_SEQUENCES), .fallback = "auto",
     .help = "micro-batches in a row that a rank takes through one chunk (schedule: interleaved); auto: the fewest, at "
             "least `pipeline`, that leave no smaller group"},
};
const tri_config_table tri_layout_table = TRI_CONFIG_TABLE("layout", layout_keys);

/* Returns the length of the first word: in "stage_layers=[3,2],zero=1" it ends at the second comma, because brackets
 * keep numbers together. */
static size_t word_length(const char *text) {
  size_t length = strcspn(text, ",[");
  if (text[length] != '[') return length;
  length += strcspn(text + length, "]");
  return length + strcspn(text + length, ",");
}

tri_status tri_layout_parse(const char *text, tri_layout *out) {
  tri_yaml_tree *tree = NULL;
  tri_yaml *root = NULL, *label = NULL;
  tri_layout layout;
  TRI_TRY(tri_yaml_create(&tree));
  tri_status status = tri_yaml_make(tree, &(tri_yaml){.source = "--layout"}, NULL, &root);
  while (status == TRI_OK && *text != '\0') {
    char name[64], value[TRI_LAYOUT_WORD_BYTES];
    const size_t length = word_length(text);
    const char *equals = memchr(text, '=', length);
    if (equals == NULL || (size_t)(equals - text) >= sizeof name || length - (size_t)(equals - text) > sizeof value) {
      status = tri_fail(
          TRI_BAD_USAGE,
          "--layout %.200s: write key=value,..., for example tensor=4,pipeline=16,zero=1; numbers of a list are "
          "in brackets, stage_layers=[3,4]",
          text);
      break;
    }
    snprintf(name, sizeof name, "%.*s", (int)(equals - text), text);
    snprintf(value, sizeof value, "%.*s", (int)(length - (size_t)(equals - text) - 1), equals + 1);
    if (tri_yaml_find(root, name) != NULL) {
      status = tri_fail(TRI_BAD_USAGE, "--layout has `%s` twice; leave one of them out", name);
      break;
    }
    status = value[0] == '[' ? tri_yaml_parse(tree, "--layout", true, value, strlen(value), &label)
                             : tri_yaml_make(tree, root, value, &label);
    if (status == TRI_OK) status = tri_yaml_put(tree, root, name, label);
    text += length + (text[length] == ',');
  }
  if (status == TRI_OK) status = tri_config_read(&tri_layout_table, tree, root, &layout);
  tri_yaml_destroy(tree);
  if (status == TRI_OK) *out = layout;
  return status;
}

/* Returns whether a key has no effect in a layout, because the key that it needs is 1. */
static bool is_idle(const tri_layout *layout, const tri_config_key *key) {
  const tri_layout_search *search = tri_layout_search_of(key);
  if (search == NULL || search->needs == NULL) return false;
  for (size_t i = 0; i < tri_layout_table.num_keys; i++) {
    const tri_config_key *other = &tri_layout_table.keys[i];
    if (strcmp(other->name, search->needs) == 0) return tri_layout_value(layout, other) == 1;
  }
  return false;
}

/* Writes the main keys, and the keys that have an effect and differ from their defaults; every key if `all`. Returns
 * buffer. */
static char *print(const tri_layout *layout, bool all, char *buffer, size_t bytes) {
  static const tri_config_table *table = &tri_layout_table;
  size_t held = 0;
  buffer[0] = '\0';
  for (size_t i = 0; i < table->num_keys; i++) {
    const tri_config_key *key = &table->keys[i];
    char value[TRI_LAYOUT_WORD_BYTES];
    const void *at = (const char *)layout + key->offset;
    tri_config_value_text(key, at, value, sizeof value);
    bool usual = strcmp(value, key->fallback) == 0;
    bool shown = strcmp(key->name, "tensor") == 0 || strcmp(key->name, "pipeline") == 0 ||
                 strcmp(key->name, "data") == 0 || strcmp(key->name, "micro_batch") == 0;
    if ((usual || is_idle(layout, key)) && !shown && !all) continue;
    int added = snprintf(buffer + held, bytes - held, "%s%s=%s", held == 0 ? "" : ",", key->name, value);
    held += added > 0 && held + (size_t)added < bytes ? (size_t)added : 0;
  }
  return buffer;
}

char *tri_layout_text(const tri_layout *layout, char *buffer, size_t bytes) {
  return print(layout, false, buffer, bytes);
}

char *tri_layout_text_of_all(const tri_layout *layout, char *buffer, size_t bytes) {
  return print(layout, true, buffer, bytes);
}

bool tri_layout_next_word(const char **text, char word[TRI_LAYOUT_WORD_BYTES]) {
  const size_t length = word_length(*text);
  if (length == 0) return false;
  snprintf(word, TRI_LAYOUT_WORD_BYTES, "%.*s", (int)length, *text);
  *text += length + ((*text)[length] == ',');
  return true;
}
