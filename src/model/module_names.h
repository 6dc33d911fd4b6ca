/* Names of modules in transformers 5 that differ from the names of their tensors in a model's files: GPT-NeoX's
 * `lm_head` is `embed_out` in files, and Mixtral's router `mlp.gate` is `block_sparse_moe.gate`. PEFT's files have the
 * names of modules; in transformers 4 modules had the names of the files, so older adapters have those. */
#ifndef TRI_MODEL_MODULE_NAMES_H
#define TRI_MODEL_MODULE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* Copies `text`, and replaces the names that modules have in files by those of transformers 5. `text` is the name of a
 * tensor or module, a target, or a regular expression of one. A result that is too long for `out` is truncated. */
void tri_module_names(const char *text, char *out, size_t out_bytes);

/* Returns whether the text has a name that tri_module_names would replace. */
bool tri_module_names_differ(const char *text);

#endif
