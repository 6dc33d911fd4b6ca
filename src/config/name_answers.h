/* What Trireme has in the place of commands, keys and options of other programs for which it has no one name; those
 * that have one are in name_aliases.h. */
#ifndef TRI_CONFIG_NAME_ANSWERS_H
#define TRI_CONFIG_NAME_ANSWERS_H

/* A sentence for the end of a message ("talk with a model by: trireme generate RUN --chat"), or NULL. Words are
 * compared as in tri_is_name_alias. */
const char *tri_command_answer(const char *word);
/* The same for a key or an option. */
const char *tri_key_answer(const char *word);
/* The same for an option of one command ("train"), where a general answer would be wrong. */
const char *tri_option_answer(const char *command, const char *word);
/* The same for a value that no key takes. */
const char *tri_value_answer(const char *word);

#endif
