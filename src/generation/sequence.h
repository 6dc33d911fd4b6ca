/* A sequence of the generator: for generation/ only. */
#ifndef TRI_GENERATION_SEQUENCE_H
#define TRI_GENERATION_SEQUENCE_H

#include "generation/generator.h"
#include "generation/pages.h"

struct tri_sequence {
  tri_sequence_options options;
  int32_t *ids; /* [count] */
  int64_t count, capacity;
  int64_t sampled;
  int32_t guesses[TRI_MOST_GUESSES]; /* [num_guesses], of the next tokens, for the step at hand */
  int64_t num_guesses;
  void *guess_state; /* the guesser's */
  int64_t target;    /* tokens to read before the next is sampled, or all is done */
  tri_finish finish;
  bool slid;
  int64_t place; /* in the generator's list */

  /* What is read: tokens [offset, offset + held), at positions from 0 on. */
  int64_t offset, held;
  bool has_place;
  int32_t *pages; /* [num_pages] */
  int64_t num_pages, pages_room;
  int64_t gone; /* of the pages the first ones, which no later token sees: not held any more */
  int64_t kept; /* full pages that others can find, or were found */
  tri_prefix prefix;
  int32_t copied; /* a page of another sequence, held, of which the last page is to be a copy; -1: none */
};

tri_status tri_sequence_append(tri_sequence *sequence, const int32_t *ids, int64_t count);
/* Lays `count` guesses behind its tokens, where they are not tokens of it yet. */
tri_status tri_sequence_lay_guesses(tri_sequence *sequence, int64_t count);
tri_status tri_sequence_add_page(tri_sequence *sequence, int32_t page);
/* Pages behind the held positions are released. */
void tri_sequence_trim_pages(tri_sequence *sequence, tri_pages *pages);
/* Pages whose positions no token from `held` on sees are given back; window 0: none is. */
void tri_sequence_give_back_pages(tri_sequence *sequence, tri_pages *pages, int64_t window);
/* Of what is read only the first `held` positions stay, or nothing, where what the next token sees is gone. */
void tri_sequence_keep_positions(tri_sequence *sequence, tri_pages *pages, int64_t held, int64_t window);
/* Nothing is held any more. */
void tri_sequence_drop_pages(tri_sequence *sequence, tri_pages *pages);
/* Where it is longer than `positions`, it goes on from a later token. */
void tri_sequence_slide(tri_sequence *sequence, tri_pages *pages, int64_t positions);
/* Of the tokens that are left to read, how many, the last ones, have logits. */
int64_t tri_sequence_wants_logits(const tri_sequence *sequence);
void tri_sequence_destroy(tri_sequence *sequence, tri_pages *pages);

#endif
