/* Reports of `inspect` and `prepare` about a corpus of preferences: the number of preferences, and the lengths of
 * prompts and answers. */
#ifndef TRI_OPTIONS_INSPECT_PREFERENCES_H
#define TRI_OPTIONS_INSPECT_PREFERENCES_H

#include "data/corpus.h"

#include <jansson.h>

/* LOCAL. Writes to `lines` the number of preferences, then the lengths of prompts, and then those of each of the two
 * kinds of answers, which are chosen and rejected, or desirable and undesirable. The prompt of a pair counts once. The
 * corpus must have preferences. */
enum { TRI_PREFERENCE_LINE_BYTES = 160, TRI_PREFERENCE_LINES = 4 };
void tri_inspect_preferences(const tri_corpus *corpus, char lines[TRI_PREFERENCE_LINES][TRI_PREFERENCE_LINE_BYTES]);

/* LOCAL. Returns the facts of tri_inspect_preferences as a new JSON object. */
json_t *tri_inspect_preferences_json(const tri_corpus *corpus);

#endif
