#include "generation/lookup.h"

enum { LONGEST = 4, SHORTEST = 2 };

/* Returns how many tokens before index `at` equal the last tokens of the sequence, at most LONGEST. */
static int64_t matching(const int32_t *ids, int64_t count, int64_t at) {
  int64_t length = 0;
  while (length < LONGEST && length < at && ids[at - 1 - length] == ids[count - 1 - length]) length++;
  return length;
}

int64_t tri_lookup(const int32_t *ids, int64_t count, int64_t most, int32_t *out) {
  int64_t best = 0, from = 0, found = 0;
  for (int64_t at = count - 1; at > 0 && best < LONGEST; at--) {
    const int64_t length = matching(ids, count, at);
    if (length <= best) continue;
    best = length;
    from = at;
  }
  if (best < SHORTEST) return 0;
  while (found < most && from + found < count) {
    out[found] = ids[from + found];
    found++;
  }
  return found;
}

static tri_status guess_by_lookup(void *context, tri_guess *guesses, int64_t count) {
  (void)context;
  for (int64_t i = 0; i < count; i++) {
    tri_guess *g = &guesses[i];
    g->found = tri_lookup(g->ids, g->count, g->most, g->out);
  }
  return TRI_OK;
}

const tri_proposer tri_lookup_proposer = {.guess = guess_by_lookup};
