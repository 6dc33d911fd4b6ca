/* Guesses of the tokens that follow a sequence (speculative decoding). A guess is read together with the token before
 * it, and kept if the token that is sampled at its place, with that place's own random number, is the same: so a text
 * is the same with and without guesses, and only sooner with good ones.
 *
 * Two guess: prompt lookup (lookup.h) and a draft model (draft.h). */
#ifndef TRI_GENERATION_GUESS_H
#define TRI_GENERATION_GUESS_H

#include "generation/sampling.h"

enum { TRI_MOST_GUESSES = 16 };

/* What is asked for a sequence. */
typedef struct tri_guess {
  const int32_t *ids; /* [count], its tokens */
  int64_t count;
  const tri_sampling *sampling;
  void **state; /* what the guesser keeps for the sequence; NULL at first */
  int64_t most; /* 1 to TRI_MOST_GUESSES */
  int32_t *out; /* [most], of which `found` are set */
  int64_t found;
} tri_guess;

typedef struct tri_guesser {
  void *context;
  tri_status (*guess)(void *context, tri_guess *guesses, int64_t count);
  /* A sequence with a state is released. May be NULL. */
  void (*forget)(void *context, void *state);
} tri_guesser;

/* ---- whether it pays --------------------------------------------------------------------------------------------- */

/* Steps are measured in turns with guesses and without; then the faster way is taken for a while. */
typedef struct tri_guess_policy {
  double tokens[2], seconds[2]; /* without, with: older turns count half */
  int64_t turn;                 /* 0: with, 1: without, 2: the faster way */
  int64_t steps;                /* of this turn so far */
} tri_guess_policy;

/* Whether the next step has guesses. */
bool tri_guess_policy_guesses(const tri_guess_policy *policy);
/* A step in which nothing but sampling was done brought `tokens` tokens. */
void tri_guess_policy_note(tri_guess_policy *policy, int64_t tokens, double seconds);

#endif
