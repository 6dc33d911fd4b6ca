/* Answers for names of other programs that do not correspond to one of our names; name_aliases.h has the names that
 * do. */
#ifndef TRI_CONFIG_NAME_ANSWERS_H
#define TRI_CONFIG_NAME_ANSWERS_H

/* Returns a sentence for the end of a message ("talk with a model by: trireme generate RUN --chat"), or NULL. Words are
 * compared as in tri_is_name_alias. */
const char *tri_command_answer(const char *word);
/* Returns the answer for a key or an option, or NULL. */
const char *tri_key_answer(const char *word);
/* Returns the answer for a key of one section of a file ("rollout"): its own, or that of tri_key_answer; NULL: none. */
const char *tri_section_answer(const char *section, const char *word);
/* Returns the answer for an option of one command ("train"), if a general answer would be wrong; NULL: none. */
const char *tri_option_answer(const char *command, const char *word);
/* Returns the answer for a value that is not valid for any key, or NULL. */
const char *tri_value_answer(const char *word);

#endif
