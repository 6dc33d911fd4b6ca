#include "model/trainable_config.h"

#include <stdio.h>

static const tri_config_key word_keys[] = {
    {.name = "name",
     .type = TRI_CONFIG_STRING,
     .offset = offsetof(tri_trainable_word, text),
     .bytes = sizeof(((tri_trainable_word *)0)->text),
     .example = "q_proj",
     .help = "a name, or a pattern with *, ? and sets such as [0-3]"},
};
const tri_config_table tri_trainable_word_table = TRI_CONFIG_TABLE("run file", word_keys);

#define PATTERN_ROW                                                                                                    \
  {                                                                                                                    \
    .name = "pattern", .type = TRI_CONFIG_STRING, .offset = offsetof(tri_adapter_pattern, pattern),                    \
    .bytes = sizeof(((tri_adapter_pattern *)0)->pattern), .example = "q_proj",                                         \
    .help = "a regular expression of the end of a module's name"                                                       \
  }
#define PATTERN(NAME, TYPE) .name = #NAME, .type = TYPE, .offset = offsetof(tri_adapter_pattern, NAME)
static const tri_config_key rank_keys[] = {
    PATTERN_ROW,
    {PATTERN(rank, TRI_CONFIG_INT), .range = {.low = 1, .high = 1 << 16}, .example = "8",
     .help = "rank of the factors"},
};
static const tri_config_key alpha_keys[] = {
    PATTERN_ROW,
    {PATTERN(alpha, TRI_CONFIG_DOUBLE), .range = {.low = 0, .high = 1e6, .open_low = true}, .example = "16",
     .help = "alpha of the factors"},
};
const tri_config_table tri_rank_pattern_table = TRI_CONFIG_TABLE("run file", rank_keys);
const tri_config_table tri_alpha_pattern_table = TRI_CONFIG_TABLE("run file", alpha_keys);

#define WORD_ROW(WORD, VALUE) {WORD, VALUE},
const tri_config_word tri_quantise_words[] = {TRI_QUANTISES(WORD_ROW){NULL, 0}};
const tri_config_word tri_scaling_words[] = {TRI_SCALINGS(WORD_ROW){NULL, 0}};
const tri_config_word tri_adapter_init_words[] = {TRI_ADAPTER_INITS(WORD_ROW){NULL, 0}};

void tri_adapter_finish(tri_adapter *adapter) {
  if (adapter->alpha == 0) adapter->alpha = adapter->rank > 0 ? 2.0 * (double)adapter->rank : 1;
  if (adapter->targets.count > 0) return;
  snprintf(adapter->targets.words[0].text, sizeof adapter->targets.words[0].text, "%s", TRI_TRAINABLE_ALL_LINEAR);
  adapter->targets.count = 1;
}
