/* Rows of the keys of `optimizer:` that define the updates, for tables of a struct BASE whose MEMBER has the settings.
 * The keys of the learning rate and of the batch are defined elsewhere. */
#ifndef TRI_OPTIMIZERS_KEYS_H
#define TRI_OPTIMIZERS_KEYS_H

#include "optimizers/optimizer.h"

#define TRI_OPTIMIZER_NAME_ROW(BASE, MEMBER)                                                                           \
  {                                                                                                                    \
    .change = TRI_CHANGE_CONTENT, .name = "name", .type = TRI_CONFIG_CHOICE, .offset = offsetof(BASE, MEMBER.name),    \
    .words = tri_optimizer_words, .fallback = "adamw",                                                                 \
    .help = "the optimizer; parameters that it does not take are updated by adamw"                                     \
  }

#define TRI_OPTIMIZER_SECTION_ROW(BASE, MEMBER, NAME)                                                                  \
  {                                                                                                                    \
    .name = #NAME, .type = TRI_CONFIG_SECTION, .offset = offsetof(BASE, MEMBER.NAME), .table = &tri_##NAME##_keys,     \
    .help = "of optimizer.name " #NAME                                                                                 \
  }
#define TRI_OPTIMIZER_GROUP_ROW(BASE, MEMBER, NAME, VALUE, TABLE, HELP)                                                \
  {                                                                                                                    \
    .name = NAME, .type = TRI_CONFIG_SECTION,                                                                          \
    .offset = offsetof(BASE, MEMBER.groups) + TRI_GROUP_##VALUE * sizeof(tri_group_settings), .table = &(TABLE),       \
    .help = HELP                                                                                                       \
  }

/* A key of the run file itself, not of `optimizer:`. */
#define TRI_AVERAGE_ROW(BASE, MEMBER)                                                                                  \
  {                                                                                                                    \
    .change = TRI_CHANGE_LEARNING, .name = "average", .type = TRI_CONFIG_SECTION,                                      \
    .offset = offsetof(BASE, MEMBER.average), .table = &tri_average_keys, .help = "a running average of the weights"   \
  }

/* Keys of the storage of states, of the sections of single optimizers, and of groups of parameters. */
#define TRI_OPTIMIZER_STATE_ROWS(BASE, MEMBER)                                                                         \
  {.name = "state",                                                                                                    \
   .type = TRI_CONFIG_CHOICE,                                                                                          \
   .offset = offsetof(BASE, MEMBER.state),                                                                             \
   .words = tri_state_storage_words,                                                                                   \
   .fallback = "fp32",                                                                                                 \
   .help = "type of the optimizer states: fp32 (fp64 in a run of fp64), bf16, or int8 in blocks of 256"},              \
      TRI_OPTIMIZER_SECTION_ROW(BASE, MEMBER, muon), TRI_OPTIMIZER_SECTION_ROW(BASE, MEMBER, schedule_free),           \
      TRI_OPTIMIZER_SECTION_ROW(BASE, MEMBER, sgd), TRI_OPTIMIZER_SECTION_ROW(BASE, MEMBER, adafactor),                \
      TRI_OPTIMIZER_SECTION_ROW(BASE, MEMBER, galore), TRI_OPTIMIZER_SECTION_ROW(BASE, MEMBER, fira),                  \
      TRI_OPTIMIZER_GROUP_ROW(BASE, MEMBER, "matrices", MATRICES, tri_group_keys,                                      \
                              "an optimizer and rates for all other matrices"),                                        \
      TRI_OPTIMIZER_GROUP_ROW(BASE, MEMBER, "embeddings", EMBEDDINGS, tri_group_keys,                                  \
                              "the same for embeddings of tokens and positions, and for the output projection"),       \
      TRI_OPTIMIZER_GROUP_ROW(BASE, MEMBER, "routers", ROUTERS, tri_group_keys, "the same for routers of experts"),    \
      TRI_OPTIMIZER_GROUP_ROW(BASE, MEMBER, "vectors", VECTORS, tri_vector_group_keys,                                 \
                              "the same for norms and biases")

#endif
