/* Which parameters the patterns and targets of a tri_trainable name. */
#ifndef TRI_MODEL_TRAINABLE_MATCH_H
#define TRI_MODEL_TRAINABLE_MATCH_H

#include "model/parameters.h"
#include "model/trainable.h"

/* Whether a pattern matches the name of a tensor on disk, or that of transformers 5 (model/module_names.h). */
bool tri_trainable_matches(const tri_trainable_words *patterns, const char *name);

/* The name on disk of an entry's first tensor: patterns treat all members of a stack alike. */
void tri_trainable_name_on_disk(const tri_parameter *entry, char out[TRI_PARAMETER_NAME_BYTES]);

/* Whether it is a matrix of a layer through which every token goes: not one of experts. */
bool tri_trainable_is_linear(const tri_parameter *entry);

/* Whether an adapter may have factors beside it: such a matrix, the output projection, or the table
 * of tokens. */
bool tri_trainable_takes_factors(const tri_parameter *entry);

/* The length of the module's name in a tensor's name: of "mlp.up_proj" in "mlp.up_proj.weight". */
int tri_trainable_module_length(const char *name);
/* Whether a target is a pattern with *, ? or a set. */
bool tri_trainable_is_pattern(const char *target);
/* Whether a target is, or as a pattern matches, the last part or parts of the name of a tensor's module. */
bool tri_trainable_is_module(const char *target, const char *name);

/* Whether a matrix is a table of tokens. */
bool tri_trainable_is_table(const tri_parameter *matrix);
/* Whether the inputs of a product with it are its rows: ids are those of a table of tokens. */
bool tri_trainable_is_in_out(const tri_parameter *matrix);
/* The name of a matrix's factor A or B (`which`), "mlp.up_proj.lora_A.weight" of "mlp.up_proj.weight"; of a table of
 * tokens, as PEFT has it, "embed_tokens.lora_embedding_A". */
void tri_trainable_factor_name(const tri_parameter *matrix, char which, char *out, size_t out_bytes);

/* Whether the adapter's targets are all linear matrices; whether an entry is one of its targets. */
bool tri_trainable_is_for_all(const tri_adapter *adapter);
bool tri_trainable_is_target(const tri_adapter *adapter, const tri_parameter *entry);

/* Whether some target is a module by whose name PEFT finds tied factors: embed_tokens or lm_head. */
bool tri_trainable_names_tied(const tri_adapter *adapter);
/* Whether a table's embedding and output projection are tied and have the same factors. */
bool tri_trainable_ties_factors(const tri_adapter *adapter, const tri_parameter_table *table);

/* The index of the first pattern that matches a module's name, or -1. */
int64_t tri_trainable_pattern_of(const tri_adapter_patterns *patterns, const char *module);

/* How many of an entry's tensors on disk match a pattern. */
int64_t tri_trainable_num_named(const tri_trainable_words *patterns, const tri_parameter *entry);

#endif
