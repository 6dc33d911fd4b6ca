/* Guesses of the next tokens of a sequence (speculative decoding). A guess is read together with the token before it.
 * It is kept if it equals the token that is sampled for its position, with that position's own random number. Correct
 * guesses make generation faster. On devices whose logits do not depend on the other rows of a run (runner.h), guesses
 * do not change a text. On other devices a text may differ, because rounding may differ with the number of rows.
 *
 * There are two proposers: prompt lookup (lookup.h) and a draft model (draft.h). */
#ifndef TRI_GENERATION_GUESS_H
#define TRI_GENERATION_GUESS_H

#include "generation/sampling.h"

enum { TRI_MOST_GUESSES = 16 };

/* A request for guesses for one sequence. */
typedef struct tri_guess {
  const int32_t *ids; /* [count], tokens of the sequence */
  int64_t count;
  const tri_sampling *sampling;
  void **state; /* the proposer's state of the sequence; NULL at first */
  int64_t most; /* largest number of guesses, 1 to TRI_MOST_GUESSES */
  int32_t *out; /* [most], the first `found` are set */
  int64_t found;
} tri_guess;

typedef struct tri_proposer {
  void *context;
  /* Guesses the next tokens of `count` sequences: sets `found` and the tokens `out` of each. */
  tri_status (*guess)(void *context, tri_guess *guesses, int64_t count);
  /* Frees the state of a sequence. May be NULL. */
  void (*forget)(void *context, void *state);
} tri_proposer;

/* ---- policy ------------------------------------------------------------------------------------------------------ */

/* Decides whether guessing is faster: measures some steps with guesses, some without, then uses the faster way for a
 * while, and repeats. */
typedef struct tri_guess_policy {
  double tokens[2],
      seconds[2]; /* sums over measured steps, [0] without guesses and [1] with guesses: sampled tokens, and seconds.
                     The first step of a turn that measures halves its sums, so that old measurements count less */
  int64_t turn;   /* 0: steps with guesses are measured; 1: steps without guesses are measured; 2: the faster way is
                     used */
  int64_t steps;  /* number of steps of this turn so far */
} tri_guess_policy;

/* Returns whether the next step has guesses. */
bool tri_guess_policy_guesses(const tri_guess_policy *policy);
/* Records a step that read no prompt: it produced `tokens` tokens in `seconds`. */
void tri_guess_policy_note(tri_guess_policy *policy, int64_t tokens, double seconds);

#endif
