/* Guesses of the next tokens, made before a step is scheduled. */
#include "base/count.h"
#include "generation/generator_internal.h"

void tri_generator_set_proposer(tri_generator *g, const tri_proposer *proposer, int64_t most) {
  g->proposer = *proposer;
  g->most_guesses = most;
}

void tri_generator_forget_guesses(tri_generator *g, tri_sequence *s) {
  if (s->guess_state != NULL && g->proposer.forget != NULL) g->proposer.forget(g->proposer.context, s->guess_state);
  s->guess_state = NULL;
}

/* Returns the maximum number of guesses that may be read after the next token; 0 and negative results mean none. */
static int64_t room_for_guesses(const tri_generator *g, const tri_sequence *s) {
  const bool samples = s->finish == TRI_FINISH_NONE && s->has_place && s->options.wanted > 0;
  if (!samples || s->target - s->offset - s->held != 1 || tri_sequence_wants_logits(s) != 1) return 0;
  const int64_t of_positions = g->sizes.positions - (s->target - s->offset);
  return tri_smaller(g->most_guesses, tri_smaller(s->options.wanted - s->sampled - 1, of_positions));
}

/* Returns how many leading guesses are in the model's vocabulary. */
static int64_t usable(const tri_generator *g, const tri_guess *asked) {
  int64_t count = 0;
  while (count < asked->found && asked->out[count] >= 0 && asked->out[count] < g->vocab_size) count++;
  return count;
}

tri_status tri_generator_guess(tri_generator *g) {
  const bool guesses = g->most_guesses > 0 && tri_guess_policy_guesses(&g->policy);
  int64_t count = 0;
  if (g->most_guesses == 0) return TRI_OK;
  for (int64_t i = 0; i < g->count; i++) {
    tri_sequence *s = g->list[i];
    const int64_t most = guesses ? room_for_guesses(g, s) : 0;
    s->num_guesses = 0;
    if (most <= 0) continue;
    g->asked[count++] = (tri_guess){.ids = s->ids,
                                    .count = s->count,
                                    .sampling = &s->options.sampling,
                                    .state = &s->guess_state,
                                    .most = most,
                                    .out = s->guesses};
  }
  if (count == 0) return TRI_OK;
  TRI_TRY(g->proposer.guess(g->proposer.context, g->asked, count));
  for (int64_t i = 0, asked = 0; i < g->count && asked < count; i++) {
    tri_sequence *s = g->list[i];
    if (g->asked[asked].out == s->guesses) s->num_guesses = usable(g, &g->asked[asked++]);
  }
  return TRI_OK;
}
