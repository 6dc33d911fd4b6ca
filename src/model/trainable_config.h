/* The keys `freeze` and `adapter` of a run file, as rows for other tables. */
#ifndef TRI_MODEL_TRAINABLE_CONFIG_H
#define TRI_MODEL_TRAINABLE_CONFIG_H

#include "config/config.h"
#include "model/trainable.h"

/* The table of an entry of a list of patterns or targets; offsets into tri_trainable_word. */
extern const tri_config_table tri_trainable_word_table;
/* The tables of an entry of rank_pattern and of alpha_pattern; offsets into tri_adapter_pattern. */
extern const tri_config_table tri_rank_pattern_table, tri_alpha_pattern_table;

/* The words of `quantise`: none, nf4. */
extern const tri_config_word tri_quantise_words[];
/* The words of `scaling`: lora, rslora. */
extern const tri_config_word tri_scaling_words[];
/* The words of `init`: kaiming, gaussian, pissa. */
extern const tri_config_word tri_adapter_init_words[];

/* Rows for a struct BASE whose MEMBER is the tri_trainable_words or the tri_adapter. */
#define TRI_TRAINABLE_WORDS_ROW(BASE, MEMBER, LEAST)                                                                   \
  .type = TRI_CONFIG_LIST, .offset = offsetof(BASE, MEMBER.words), .table = &tri_trainable_word_table,                 \
  .plain = "name", .commas = true, .in_line = true, .bytes = sizeof(tri_trainable_word),                               \
  .count = offsetof(BASE, MEMBER.count), .range = {.low = LEAST, .high = TRI_TRAINABLE_WORDS}
#define TRI_FREEZE_ROW(BASE, MEMBER)                                                                                   \
  {                                                                                                                    \
    .change = TRI_CHANGE_CONTENT, .name = "freeze", TRI_TRAINABLE_WORDS_ROW(BASE, MEMBER, 0), .derived = "none",       \
    .help = "frozen parameters, by patterns of tensor names: [\"model.embed_tokens.*\"]"                               \
  }
#define TRI_ADAPTER_PATTERNS_ROW(BASE, MEMBER, TABLE, VALUE)                                                           \
  .type = TRI_CONFIG_LIST, .offset = offsetof(BASE, MEMBER.entries), .table = &(TABLE), .keyed = "pattern",            \
  .plain = VALUE, .bytes = sizeof(tri_adapter_pattern), .count = offsetof(BASE, MEMBER.count),                         \
  .range = {.low = 0, .high = TRI_ADAPTER_PATTERNS}, .derived = "none"
#define TRI_ADAPTER_KEY(NAME, TYPE, BASE, MEMBER) .name = #NAME, .type = TYPE, .offset = offsetof(BASE, MEMBER.NAME)
#define TRI_ADAPTER_ROWS(BASE, MEMBER)                                                                                 \
  {TRI_ADAPTER_KEY(rank, TRI_CONFIG_INT, BASE, MEMBER), .range = {.low = 0, .high = 1 << 16}, .fallback = "0",         \
   .help = "rank of the factors A [rank, in] and B [out, rank] of each target; 0: no adapter"},                        \
      {TRI_ADAPTER_KEY(alpha, TRI_CONFIG_DOUBLE, BASE, MEMBER), .range = {.low = 0, .high = 1e6, .open_low = true},    \
       .derived = "twice the rank", .help = "the factors' product is multiplied by alpha / rank"},                     \
      {TRI_ADAPTER_KEY(scaling, TRI_CONFIG_CHOICE, BASE, MEMBER), .words = tri_scaling_words, .fallback = "lora",      \
       .help = "rslora: the factors' product is multiplied by alpha / sqrt(rank) instead"},                            \
      {.name = "rank_pattern",                                                                                         \
       TRI_ADAPTER_PATTERNS_ROW(BASE, MEMBER.rank_pattern, tri_rank_pattern_table, "rank"),                            \
       .help =                                                                                                         \
           "other ranks of some targets, by regular expressions of the ends of their names, as PEFT has them: "        \
           "{q_proj: 8}"},                                                                                             \
      {.name = "alpha_pattern",                                                                                        \
       TRI_ADAPTER_PATTERNS_ROW(BASE, MEMBER.alpha_pattern, tri_alpha_pattern_table, "alpha"),                         \
       .help = "other alphas of some targets, in the same way: {q_proj: 16}"},                                         \
      TRI_CONFIG_ROW(LEARNING, TRI_ADAPTER_KEY(dropout, TRI_CONFIG_DOUBLE, BASE, MEMBER),                              \
                     .range = {.low = 0, .high = 1, .open_high = true}, .fallback = "0.0",                             \
                     .help = "dropout probability of the factors' input"),                                             \
      {TRI_ADAPTER_KEY(init, TRI_CONFIG_CHOICE, BASE, MEMBER), .words = tri_adapter_init_words, .fallback = "kaiming", \
       .help =                                                                                                         \
           "initial values of A: kaiming, uniform as in torch.nn.Linear; gaussian, of deviation 1 / rank; pissa: A "   \
           "and B are the first singular vectors of their matrix"},                                                    \
      {TRI_ADAPTER_KEY(magnitude, TRI_CONFIG_BOOL, BASE, MEMBER), .fallback = "false",                                 \
       .help = "DoRA: train the norm of each output of the targets, too"},                                             \
      {.name = "targets",                                                                                              \
       TRI_TRAINABLE_WORDS_ROW(BASE, MEMBER.targets, 1),                                                               \
       .derived = "all-linear",                                                                                        \
       .help =                                                                                                         \
           "modules that get factors, by the ends of their names or patterns: [q_proj, \"*.v_proj\"]; "                \
           "all-linear: all of the layers but experts, which are mlp.experts.gate_up_proj and mlp.experts.down_proj"}, \
      {TRI_ADAPTER_KEY(ensure_weight_tying, TRI_CONFIG_BOOL, BASE, MEMBER), .fallback = "false",                       \
       .help =                                                                                                         \
           "tied models: factors of the embedding or the output projection apply to both, and the model "              \
           "stays tied"},                                                                                              \
      {TRI_ADAPTER_KEY(quantise, TRI_CONFIG_CHOICE, BASE, MEMBER), .words = tri_quantise_words, .fallback = "none",    \
       .help = "QLoRA: store frozen matrices of the layers in 4 bits: nf4, with double quantisation"},                 \
  {                                                                                                                    \
    .name = "train", TRI_TRAINABLE_WORDS_ROW(BASE, MEMBER.train, 0), .derived = "none",                                \
    .help = "other parameters that are trained, by patterns of tensor names: [\"*norm.weight\"]"                       \
  }

/* Sets the defaults of alpha and targets if they were not given. */
void tri_adapter_finish(tri_adapter *adapter);

#endif
