/* Answers to names of other programs that correspond to no single name of ours; name_aliases.h has names that do. */
#ifndef TRI_CONFIG_NAME_ANSWERS_H
#define TRI_CONFIG_NAME_ANSWERS_H

/* Returns a sentence for the end of a message ("talk with a model by: trireme generate RUN --chat"), or NULL. Words are
 * compared as in tri_is_name_alias. */
const char *tri_command_answer(const char *word);
/* Returns the answer for a key or an option, or NULL. */
const char *tri_key_answer(const char *word);
/* Returns the answer for an option of one command ("train"), if a general answer would be wrong; NULL: none. */
const char *tri_option_answer(const char *command, const char *word);
/* Returns the answer for a value that no key accepts, or NULL. */
const char *tri_value_answer(const char *word);

#endif
