/* Names of modules in transformers 5 that differ from those of their tensors in a model's files: GPT-NeoX's `lm_head`
 * is `embed_out` there, and the router of Mixtral's `mlp.gate` is `block_sparse_moe.gate`. PEFT's files have the names
 * of modules; transformers 4 had modules of the same names as the files, so that older adapters have these. */
#ifndef TRI_MODEL_MODULE_NAMES_H
#define TRI_MODEL_MODULE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* Copies a text, such as a tensor's or module's name, a target or a regular expression of one, with the names of
 * transformers 5 in place of those of a model's files. A text that is too long for `out` is cut off. */
void tri_module_names(const char *text, char *out, size_t out_bytes);

/* Whether the text has a name that tri_module_names would replace. */
bool tri_module_names_differ(const char *text);

#endif
