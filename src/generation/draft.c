#include "generation/draft.h"

/* Returns how many leading tokens of the draft model's sequence equal those of the text. Compares only the last
 * TRI_MOST_GUESSES tokens of the draft model's sequence, which it may have sampled since the last call. Earlier tokens
 * were equal in that call. They may differ now if the text has been rewound since, which makes guesses worse, but does
 * not change the text. */
static int64_t shared_tokens(const tri_sequence *sequence, const tri_guess *g) {
  int64_t count = 0;
  const int32_t *ids = tri_sequence_ids(sequence, &count);
  int64_t at = count > TRI_MOST_GUESSES ? count - TRI_MOST_GUESSES : 0;
  while (at < count && at < g->count && ids[at] == g->ids[at]) at++;
  return at;
}

/* Begins the draft's sequence, or rewinds it to the tokens that it shares with the text, and appends the others. */
static tri_status start_draft(tri_draft *d, const tri_guess *g) {
  tri_sequence *sequence = *g->state;
  const tri_sequence_options options = {.sampling = *g->sampling, .wanted = g->most};
  if (sequence == NULL) {
    TRI_TRY(tri_generator_begin(d->generator, g->ids, g->count, &options, &sequence));
    *g->state = sequence;
    return TRI_OK;
  }
  const int64_t shared = shared_tokens(sequence, g);
  tri_generator_rewind(d->generator, sequence, shared);
  return tri_generator_extend(d->generator, sequence, g->ids + shared, g->count - shared, &options);
}

/* Returns whether the draft model can continue the text: it has positions for it, and knows its tokens. */
static bool fits(const tri_draft *d, const tri_guess *g) {
  const tri_sequence_options options = {.sampling = *g->sampling, .wanted = g->most};
  return g->count + g->most <= d->positions && tri_generator_check(d->generator, g->ids, g->count, &options) == TRI_OK;
}

static void read_draft(const tri_draft *d, tri_guess *g) {
  int64_t count = 0;
  const int32_t *ids = tri_sequence_ids(*g->state, &count);
  g->found = 0;
  while (g->found < g->most && g->count + g->found < count && ids[g->count + g->found] < d->vocab_size) {
    g->out[g->found] = ids[g->count + g->found];
    g->found++;
  }
}

static tri_status guess_by_draft(void *context, tri_guess *guesses, int64_t count) {
  tri_draft *d = context;
  for (int64_t i = 0; i < count; i++) {
    guesses[i].found = 0;
    if (fits(d, &guesses[i])) TRI_TRY(start_draft(d, &guesses[i]));
  }
  TRI_TRY(tri_generator_run(d->generator));
  for (int64_t i = 0; i < count; i++) {
    if (fits(d, &guesses[i])) read_draft(d, &guesses[i]);
  }
  return TRI_OK;
}

static void forget_draft(void *context, void *state) {
  tri_generator_release(((tri_draft *)context)->generator, state);
}

tri_proposer tri_draft_proposer(tri_draft *draft) {
  return (tri_proposer){.context = draft, .guess = guess_by_draft, .forget = forget_draft};
}
