/* Names of other programs for our keys, options, values and commands. Messages use them to suggest the name that was
 * probably meant. */
#ifndef TRI_CONFIG_NAME_ALIASES_H
#define TRI_CONFIG_NAME_ALIASES_H

#include <stdbool.h>

/* Returns whether transformers, Megatron-LM, DeepSpeed, torchtitan, nanoGPT, llm.c, PEFT or another tool calls our
 * `name` by `word`. A name is a key, also by its full path ("checkpoint.every"), an option, a value or a command. Case
 * and leading dashes do not matter, and `-` equals `_`. */
bool tri_is_name_alias(const char *word, const char *name);

/* Returns whether a word is in a list of words that are separated by spaces, compared as above. */
bool tri_name_is_among(const char *word, const char *words);

#endif
