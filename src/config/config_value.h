/* Reads and checks one value of a configuration. Used by config.c and config_print.c. */
#ifndef TRI_CONFIG_CONFIG_VALUE_H
#define TRI_CONFIG_CONFIG_VALUE_H

#include "config/config.h"

/* Reads a node into *at by the key's type and checks it. Fails with TRI_BAD_CONFIG if the node has another type or the
 * value is not valid. `subject` names the key in messages: "`lr` under `optimizer:`". Not for sections and lists. */
tri_status tri_config_value_read(const tri_config_key *key, const tri_yaml *node, const char *subject, void *at);

/* Returns a description of the fault of the value at *at, as the rest of a sentence ("must be at least 1, not 0"); NULL
 * if the value is valid. `node` is the node from which it was read; NULL: not from a file. Not for sections. */
enum { TRI_CONFIG_FAULT_BYTES = 512 };
const char *tri_config_value_fault(const tri_config_key *key, const void *at, const tri_yaml *node,
                                   char buffer[TRI_CONFIG_FAULT_BYTES]);

/* Returns whether the key's value is written as numbers in brackets. */
static inline bool tri_config_is_numbers(const tri_config_key *key) {
  return key->type == TRI_CONFIG_PAIR || key->type == TRI_CONFIG_NUMBERS || key->type == TRI_CONFIG_COUNTS;
}

/* Returns whether the key's value is a text. */
static inline bool tri_config_is_text(const tri_config_key *key) {
  return key->type == TRI_CONFIG_STRING || key->type == TRI_CONFIG_PATH;
}

/* Describes the valid values: "a number", "`true` or `false`", "one of gpt2, llama". Returns buffer. */
char *tri_config_value_kind(const tri_config_key *key, char buffer[TRI_CONFIG_FAULT_BYTES]);

/* Fails with TRI_BAD_CONFIG because the node is of the wrong kind: "must be ..., not ...". For a choice the message
 * suggests the nearest word. */
tri_status tri_config_value_wrong(const tri_config_key *key, const tri_yaml *node, const char *subject);

#endif
