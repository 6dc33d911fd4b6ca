/* Reports of `inspect` and `prepare` on a corpus of preferences: their number, and the lengths of prompts and answers.
 */
#ifndef TRI_OPTIONS_INSPECT_PREFERENCES_H
#define TRI_OPTIONS_INSPECT_PREFERENCES_H

#include "data/corpus.h"

#include <jansson.h>

/* LOCAL. Writes a line with the number of preferences, and lines for prompts and for both kinds of answers, chosen and
 * rejected or desirable and undesirable. The prompt of a pair counts once. */
enum { TRI_PREFERENCE_LINE_BYTES = 160, TRI_PREFERENCE_LINES = 4 };
void tri_inspect_preferences(const tri_corpus *corpus, char lines[TRI_PREFERENCE_LINES][TRI_PREFERENCE_LINE_BYTES]);

/* LOCAL. Returns the same as a new JSON object. */
json_t *tri_inspect_preferences_json(const tri_corpus *corpus);

#endif
