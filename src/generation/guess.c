#include "generation/guess.h"

enum { MEASURED_STEPS = 32, TAKEN_STEPS = 512, TURNS = 3 };

static bool is_faster_with(const tri_guess_policy *p) {
  return p->tokens[1] * p->seconds[0] >= p->tokens[0] * p->seconds[1];
}

bool tri_guess_policy_guesses(const tri_guess_policy *p) { return p->turn == 2 ? is_faster_with(p) : p->turn == 0; }

void tri_guess_policy_note(tri_guess_policy *p, int64_t tokens, double seconds) {
  if (p->turn < 2) {
    const int with = p->turn == 0;
    p->tokens[with] = (p->steps == 0 ? p->tokens[with] / 2 : p->tokens[with]) + (double)tokens;
    p->seconds[with] = (p->steps == 0 ? p->seconds[with] / 2 : p->seconds[with]) + seconds;
  }
  if (++p->steps < (p->turn < 2 ? MEASURED_STEPS : TAKEN_STEPS)) return;
  p->turn = (p->turn + 1) % TURNS;
  p->steps = 0;
}
