#include "options/inspect_preferences.h"

#include "base/format.h"
#include "data/corpus_record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct part_lengths {
  const char *name;
  int64_t count, tokens, shortest, longest;
} part_lengths;

enum { PROMPTS, GOOD, BAD, NUM_PARTS };

static void add_length(part_lengths *part, int64_t length) {
  if (part->count == 0 || length < part->shortest) part->shortest = length;
  if (length > part->longest) part->longest = length;
  part->tokens += length;
  part->count++;
}

static void name_parts(tri_preferences preferences, part_lengths parts[NUM_PARTS]) {
  parts[PROMPTS].name = "prompts";
  switch (preferences) {
    case TRI_PREFERENCES_NONE: break;
    case TRI_PREFERENCES_PAIRS: parts[GOOD].name = "chosen", parts[BAD].name = "rejected"; break;
    case TRI_PREFERENCES_LABELS: parts[GOOD].name = "desirable", parts[BAD].name = "undesirable"; break;
  }
}

/* Counts the lengths of prompts and answers. The mask is 0 on the prompt, and 1 from the first token of the answer
 * on. */
static void count_lengths(const tri_corpus *corpus, part_lengths parts[NUM_PARTS]) {
  const uint8_t *labels = tri_corpus_labels(corpus);
  memset(parts, 0, NUM_PARTS * sizeof *parts);
  name_parts(tri_corpus_preferences(corpus), parts);
  for (int64_t d = 0; d < tri_corpus_num_documents(corpus); d++) {
    const int64_t first = tri_corpus_document(corpus, d), length = tri_corpus_document(corpus, d + 1) - first;
    const uint8_t *mask = tri_corpus_mask(corpus, first, length);
    const uint8_t *answer = mask == NULL ? NULL : memchr(mask, 1, (size_t)length);
    const int64_t prompt = answer == NULL ? length : answer - mask;
    const bool good = labels != NULL ? labels[d] != 0 : d % 2 == 0;
    if (labels != NULL || good) add_length(&parts[PROMPTS], prompt);
    add_length(&parts[good ? GOOD : BAD], length - prompt);
  }
}

void tri_inspect_preferences(const tri_corpus *corpus, char lines[TRI_PREFERENCE_LINES][TRI_PREFERENCE_LINE_BYTES]) {
  part_lengths parts[NUM_PARTS];
  count_lengths(corpus, parts);
  const int64_t good = parts[GOOD].count, bad = parts[BAD].count;
  switch (tri_corpus_preferences(corpus)) {
    case TRI_PREFERENCES_NONE: lines[0][0] = '\0'; break;
    case TRI_PREFERENCES_PAIRS:
      snprintf(lines[0], TRI_PREFERENCE_LINE_BYTES, "%" PRId64 " pair%s of a chosen and a rejected answer", good,
               TRI_PLURAL(good));
      break;
    case TRI_PREFERENCES_LABELS:
      snprintf(lines[0], TRI_PREFERENCE_LINE_BYTES, "%" PRId64 " desirable and %" PRId64 " undesirable answers", good,
               bad);
      break;
  }
  for (int k = 0; k < NUM_PARTS; k++) {
    const part_lengths *part = &parts[k];
    const double mean = part->count == 0 ? 0 : (double)part->tokens / (double)part->count;
    snprintf(lines[k + 1], TRI_PREFERENCE_LINE_BYTES, "%s: %" PRId64 " to %" PRId64 " tokens, mean %.1f", part->name,
             part->shortest, part->longest, mean);
  }
}

json_t *tri_inspect_preferences_json(const tri_corpus *corpus) {
  part_lengths parts[NUM_PARTS];
  count_lengths(corpus, parts);
  json_t *root = json_pack("{s:s}", "kind", tri_preferences_word(tri_corpus_preferences(corpus)));
  for (int k = 0; k < NUM_PARTS; k++) {
    const part_lengths *part = &parts[k];
    json_object_set_new(
        root, part->name,
        json_pack("{s:I, s:I, s:I, s:I}", "count", (json_int_t)part->count, "tokens", (json_int_t)part->tokens,
                  "shortest", (json_int_t)part->shortest, "longest", (json_int_t)part->longest));
  }
  return root;
}
