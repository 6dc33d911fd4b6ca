/* What other programs call our things, for messages that name the one that was probably meant. */
#ifndef TRI_CONFIG_NAME_ALIASES_H
#define TRI_CONFIG_NAME_ALIASES_H

#include <stdbool.h>

/* Whether `word` is a name that transformers, Megatron-LM, DeepSpeed, torchtitan, nanoGPT, llm.c, PEFT or another tool
 * has for our `name`: a key, also by its full path ("checkpoint.every"), an option, a value or a command. Case, leading
 * dashes, and which of `-` and `_` joins parts do not matter. */
bool tri_is_name_alias(const char *word, const char *name);

#endif
