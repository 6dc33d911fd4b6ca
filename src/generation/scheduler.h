/* What the next step reads: how many tokens of which sequence. A pure function of what the sequences have and want: it
 * allocates nothing and touches no device.
 *
 * In the order in which they arrived, sequences that have one token left to read (those that are being sampled from)
 * get it; then those that read a prompt get what rows are left; then those that wait for a place begin, if there are
 * pages for all that they have to read and a token more. Where a page is wanting for a row, the sequence that arrived
 * last gives its pages back, and reads all again later. Guessed tokens get what rows and pages are left behind all
 * that. The oldest that has a place never does, and has a row in each step: so each comes to its end, if it fits by
 * itself (tri_schedule_fits). */
#ifndef TRI_GENERATION_SCHEDULER_H
#define TRI_GENERATION_SCHEDULER_H

#include <stdbool.h>
#include <stdint.h>

/* A sequence, in the order of arrival. */
typedef struct tri_schedule_entry {
  int64_t unread;       /* tokens behind those that are held; 0: it only holds pages */
  int64_t held;         /* positions in its pages */
  int64_t wants_logits; /* of how many of the unread tokens, the last ones, logits are made */
  int64_t guesses;      /* tokens behind the unread one that may be read with it, for logits of each */
  bool has_place;
  int64_t num_pages;    /* that it has for its positions */
  const int32_t *pages; /* [num_holds]: all that it holds, those that it has not given back, and others */
  int64_t num_holds;
  /* What is decided: */
  int64_t rows;       /* to read in this step */
  int64_t guess_rows; /* and of the guesses: behind the only unread token alone */
  bool preempted;     /* its pages are to be released before the step, and its place is lost */
} tri_schedule_entry;

typedef struct tri_schedule_limits {
  int64_t rows, logit_rows; /* of a step, at most */
  int64_t places;           /* sequences that are read in turns, <= logit_rows */
  int64_t page_rows;        /* positions of a page */
  int64_t most_pages; /* that a sequence holds at a time: fewer than it has positions for, where it gives pages back */
  int64_t free_pages; /* that are unused */
  int32_t *holders;   /* [pages]: by how many a page is held; scratch, changed as sequences are preempted */
} tri_schedule_limits;

/* Decides for all entries. Where none has a row, one was preempted, and the next decision gives some. */
void tri_schedule_rows(const tri_schedule_limits *limits, tri_schedule_entry *entries, int64_t count);

/* Pages that a sequence of that many positions holds at a time. Where no token sees more than `window` tokens (0: all),
 * those before it are given back, behind each step of up to `rows`. */
int64_t tri_schedule_pages(int64_t positions, int64_t page_rows, int64_t window, int64_t rows);

#endif
