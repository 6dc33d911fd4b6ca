/* A sequence of the generator; for generation/ only. */
#ifndef TRI_GENERATION_SEQUENCE_H
#define TRI_GENERATION_SEQUENCE_H

#include "generation/generator.h"
#include "generation/pages.h"

struct tri_sequence {
  tri_sequence_options options;
  int32_t *ids; /* [count], read and unread tokens */
  int64_t count, capacity;
  int64_t sampled;                   /* tokens sampled since the sequence was begun or extended */
  int32_t guesses[TRI_MOST_GUESSES]; /* [num_guesses], guesses of the next tokens, for the step in progress */
  int64_t num_guesses;
  void *guess_state; /* the proposer's state of this sequence, freed by tri_proposer.forget; NULL: none */
  int64_t target;    /* once ids [0, target) are read, the next token is sampled, or the sequence ends */
  tri_finish finish;
  bool slid;     /* whether the sequence was longer than the runner's positions */
  int64_t place; /* index in the generator's list; not related to has_place */

  /* Tokens [offset, offset + held) are read, at positions from 0 on. */
  int64_t offset, held;
  bool has_place; /* whether the sequence has a place (scheduler.h) */
  int32_t *pages; /* [num_pages], pages of positions from 0 on; the first `gone` are released */
  int64_t num_pages, pages_room;
  int64_t gone;      /* number of leading pages that are released because no later token attends to them */
  int64_t kept;      /* number of leading full pages that are cached or were found in the cache */
  int64_t owner;     /* tri_sequence_options.owner */
  tri_prefix root;   /* root of the prefixes of this sequence's pages; tri_generator_publish sets a new one */
  tri_prefix prefix; /* the prefix that ends with the last of the `kept` pages; `root` if there are no such pages */
  int32_t copied; /* another sequence's page, with a reference to it, that is copied into the next new page; -1: none */
};

tri_status tri_sequence_append(tri_sequence *sequence, const int32_t *ids, int64_t count);
/* Writes the first `count` guesses after the tokens in `ids`, but does not count them as tokens. */
tri_status tri_sequence_lay_guesses(tri_sequence *sequence, int64_t count);
/* Appends a page, and takes over the caller's reference to it. */
tri_status tri_sequence_add_page(tri_sequence *sequence, int32_t page);
/* Releases the pages after the held positions. */
void tri_sequence_trim_pages(tri_sequence *sequence, tri_pages *pages);
/* Releases the leading pages that no unread token attends to. `window`: number of tokens that a token attends to; 0:
 * all, so that no page is released. */
void tri_sequence_give_back_pages(tri_sequence *sequence, tri_pages *pages, int64_t window);
/* Counts only the first `held` positions as read, or none if the next token attends to a released page. */
void tri_sequence_keep_positions(tri_sequence *sequence, tri_pages *pages, int64_t held, int64_t window);
/* Sets the root, and then works like tri_sequence_drop_pages. */
void tri_sequence_set_root(tri_sequence *sequence, tri_pages *pages, tri_prefix root);
/* Releases all pages, and counts all tokens as not read. */
void tri_sequence_drop_pages(tri_sequence *sequence, tri_pages *pages);
/* If the sequence is longer than `positions`, moves `offset` forward and drops its pages. Then `positions` tokens are
 * left to read, or half as many if some were read before. */
void tri_sequence_slide(tri_sequence *sequence, tri_pages *pages, int64_t positions);
/* Returns whether the sequence has a place, or has sampled a token since it was begun or extended. */
bool tri_sequence_has_started(const tri_sequence *sequence);
/* Returns the number of unread tokens, counted from the last, that need logits. */
int64_t tri_sequence_wants_logits(const tri_sequence *sequence);
/* Returns the number of tokens, counted from the last, that a step must read, even if their keys and values are cached:
 * the ones that need logits, and at least one. */
int64_t tri_sequence_must_read(const tri_sequence *sequence);
/* Returns whether the token is one of the sequence's options.ends. */
bool tri_sequence_ends_with(const tri_sequence *sequence, int32_t id);
void tri_sequence_destroy(tri_sequence *sequence, tri_pages *pages);

#endif
