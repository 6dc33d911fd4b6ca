/* The answer in LaTeX's \boxed{...}. */
#ifndef TRI_REWARD_BOXED_H
#define TRI_REWARD_BOXED_H

#include <stdbool.h>
#include <stddef.h>

/* Finds the content of the last \boxed{...} of a text, up to the brace that closes it; up to the end of the text if no
 * brace closes it. Returns false if the text has no box. */
bool tri_reward_boxed(const char *text, size_t bytes, const char **content, size_t *content_bytes);

#endif
