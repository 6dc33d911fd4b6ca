/* Preferences as other programs write them, translated to the keys of preference_forms.h:
 *
 *   OpenAI          {"input": {"messages": [...], "tools": [...]}, "preferred_output": [...],
 *                   "non_preferred_output": [...]}
 *   Argilla         {"instruction": "...", "chosen_response": "...", "rejected_response": "..."}
 *   LLaMA-Factory   {"instruction": "...", "input": "...", "output": ["better", "worse"]}, a ranking of two answers
 *                   {"messages" or "conversations": [..., the answer], "kto_tag": true}, also as "label": true
 *                   {"instruction": "...", "input": "...", "output": "...", "kto_tag": true}
 */
#ifndef TRI_CHAT_PREFERENCE_DIALECTS_H
#define TRI_CHAT_PREFERENCE_DIALECTS_H

#include "base/status.h"

#include <jansson.h>

/* Changes a record of one of these kinds; other records, and those that have the translated keys already, stay as they
 * are. Fails with TRI_BAD_FILE unless a ranking has two answers. */
tri_status tri_preference_translate(json_t *record);

#endif
