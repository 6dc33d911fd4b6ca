#include "model/trainable_config.h"

#include <stdio.h>

static const tri_config_key word_keys[] = {
    {.name = "name",
     .type = TRI_CONFIG_STRING,
     .offset = offsetof(tri_trainable_word, text),
     .bytes = sizeof(((tri_trainable_word *)0)->text),
     .example = "q_proj",
     .help = "a name, or a pattern with * and ?"},
};
const tri_config_table tri_trainable_word_table = {
    .noun = "run file", .keys = word_keys, .num_keys = sizeof word_keys / sizeof *word_keys};

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
