/* Names that other programs have for keys, options, values and commands, for messages that name the one that was
 * probably meant. */
#ifndef TRI_CONFIG_NAME_ALIASES_H
#define TRI_CONFIG_NAME_ALIASES_H

#include <stdbool.h>

/* Whether transformers, Megatron-LM, DeepSpeed, torchtitan, nanoGPT, llm.c, PEFT or another tool calls our `name` by
 * `word`. A name is a key, also by its full path ("checkpoint.every"), an option, a value or a command. Case and
 * leading dashes do not matter, and `-` equals `_`. */
bool tri_is_name_alias(const char *word, const char *name);

/* Whether a word is among words with spaces between, compared as above. */
bool tri_name_is_among(const char *word, const char *words);

#endif
