/* What `inspect` and `prepare` say of a corpus of preferences: how many there are, and how long prompts and answers
 * are.
 */
#ifndef TRI_OPTIONS_INSPECT_PREFERENCES_H
#define TRI_OPTIONS_INSPECT_PREFERENCES_H

#include "data/corpus.h"

#include <jansson.h>

/* LOCAL. Of a corpus of preferences: a line of how many there are, and one for prompts and for either kind of answers,
 * chosen and rejected or desirable and undesirable. The prompt of a pair counts once. */
enum { TRI_PREFERENCE_LINE_BYTES = 160, TRI_PREFERENCE_LINES = 4 };
void tri_inspect_preferences(const tri_corpus *corpus, char lines[TRI_PREFERENCE_LINES][TRI_PREFERENCE_LINE_BYTES]);

/* LOCAL. The same as a new JSON object. */
json_t *tri_inspect_preferences_json(const tri_corpus *corpus);

#endif
