/* Matching of parameters by the patterns and targets of a tri_trainable. */
#ifndef TRI_MODEL_TRAINABLE_MATCH_H
#define TRI_MODEL_TRAINABLE_MATCH_H

#include "model/parameters.h"
#include "model/trainable.h"

/* Returns whether a pattern matches the name of a tensor on disk, or its name in transformers 5 (model/module_names.h).
 */
bool tri_trainable_matches(const tri_trainable_words *patterns, const char *name);

/* Writes the name on disk of an entry's first tensor. A pattern matches all members of a stack or none
 * (tri_trainable_apply), so one name is enough. */
void tri_trainable_name_on_disk(const tri_parameter *entry, char out[TRI_PARAMETER_NAME_BYTES]);

/* Returns whether an entry is a matrix of a layer that is used for every token, so not a matrix of experts. */
bool tri_trainable_is_linear(const tri_parameter *entry);

/* Returns whether `targets` may name this parameter: a linear matrix (tri_trainable_is_linear), the output projection,
 * or the table of tokens. */
bool tri_trainable_may_have_factors(const tri_parameter *entry);

/* Returns the length of the module's name in a tensor's name: "mlp.up_proj" in "mlp.up_proj.weight". */
int tri_trainable_module_length(const char *name);
/* Returns whether a target is a pattern with *, ? or a set. */
bool tri_trainable_is_pattern(const char *target);
/* Returns whether a target equals the last part or parts of the name of a tensor's module, or, if the target is a
 * pattern, matches them. */
bool tri_trainable_is_module(const char *target, const char *name);

/* Returns whether a matrix is a table of tokens or of learned positions. */
bool tri_trainable_is_table(const tri_parameter *matrix);
/* Returns whether the rows of a matrix correspond to inputs. In a table of tokens the inputs are ids. */
bool tri_trainable_is_in_out(const tri_parameter *matrix);
/* Writes the name of a matrix's factor A or B (`which`), "mlp.up_proj.lora_A.weight" for "mlp.up_proj.weight"; for a
 * table of tokens, as in PEFT, "embed_tokens.lora_embedding_A". */
void tri_trainable_factor_name(const tri_parameter *matrix, char which, char *out, size_t out_bytes);

/* Returns whether the adapter's targets include all linear matrices ("all-linear", or no targets). */
bool tri_trainable_is_for_all(const tri_adapter *adapter);
/* Returns whether an entry is one of the adapter's targets. */
bool tri_trainable_is_target(const tri_adapter *adapter, const tri_parameter *entry);

/* Returns whether a target names a module whose name makes PEFT tie factors: embed_tokens or lm_head. */
bool tri_trainable_names_tied(const tri_adapter *adapter);
/* Returns whether a table's embedding and output projection are tied and have the same factors. */
bool tri_trainable_ties_factors(const tri_adapter *adapter, const tri_parameter_table *table);

/* Returns the index of the first pattern that matches a module's name; -1: none. */
int64_t tri_trainable_pattern_of(const tri_adapter_patterns *patterns, const char *module);

/* Returns the number of an entry's tensors on disk that match a pattern. */
int64_t tri_trainable_num_named(const tri_trainable_words *patterns, const tri_parameter *entry);

#endif
