/* Decides how many tokens of each sequence the next step reads. A token that a step reads is a *row* of the step. The
 * result depends only on the arguments; no memory is allocated and no device is used.
 *
 * Rows are given to these groups of sequences in turn, and within each group in the order of arrival:
 *
 * - one row for the oldest sequence that has a place;  - one row for each other sequence that has a place and one token
 * left to read (most of these then sample);  - the remaining rows for sequences that have a place and read a prompt;  -
 * then waiting sequences begin, if there are pages for all tokens that they have to read and one more, or if no
 *    sequence has a place;
 *  - guesses get the rows and pages that are left.
 *
 * If there is no page for a row of the first two groups, another sequence is preempted: it releases its pages, and
 * reads all its tokens again later unless it has ended. The scheduler chooses the newest sequence that holds pages, has
 * no rows yet, and either is newer than the sequence that needs the page or has nothing to read. If the oldest sequence
 * that has a place needs the page, older sequences without a place may be preempted, too. The oldest sequence itself is
 * never preempted for another one, so each sequence ends if it fits by itself (tri_schedule_pages). */
#ifndef TRI_GENERATION_SCHEDULER_H
#define TRI_GENERATION_SCHEDULER_H

#include <stdbool.h>
#include <stdint.h>

/* A sequence. Entries are in the order of arrival. A sequence *has a place* from the step that admits it until it ends
 * or is preempted; at most `places` sequences have one. The others wait, or only hold pages. */
typedef struct tri_schedule_entry {
  int64_t unread;       /* tokens not read yet; 0: the sequence only holds pages */
  int64_t held;         /* tokens read, whose keys and values are in its pages */
  int64_t wants_logits; /* number of unread tokens, counted from the last, that need logits */
  int64_t guesses;      /* guesses available; they are read only after a single unread token, and each needs logits */
  bool has_place;       /* whether the sequence has a place before the step; updated by tri_schedule_rows */
  int64_t num_pages;    /* pages of its positions, counted from position 0; the first ones may be released already */
  const int32_t *pages; /* [num_holds], pages that it has a reference to: its own, then a page to copy, if any */
  int64_t num_holds;
  bool copies_page; /* whether the last of `pages` belongs to another sequence and is copied when this sequence begins
                       to read */
  /* Results of tri_schedule_rows: */
  int64_t rows;       /* rows to read in this step */
  int64_t guess_rows; /* guesses to read in this step; only after a single unread token */
  bool preempted; /* whether the entry was preempted: it has no place any more, and the caller must release its pages
                     before the step */
} tri_schedule_entry;

typedef struct tri_schedule_limits {
  int64_t rows, logit_rows; /* largest number of rows of a step, and of rows whose logits are computed */
  int64_t places;           /* largest number of sequences that have a place, <= logit_rows */
  int64_t page_rows;        /* positions of a page */
  int64_t most_pages; /* largest number of pages of a sequence; fewer than for all positions if it releases old pages */
  int64_t free_pages; /* pages with reference count 0 */
  int32_t *holders;   /* [pages], a copy of the reference counts, which preemptions decrement */
} tri_schedule_limits;

/* Sets the results and has_place of all entries. If entries have unread tokens and none of them gets a row, an entry
 * was preempted: the caller must release the pages of preempted entries and call again, which then gives rows. */
void tri_schedule_rows(const tri_schedule_limits *limits, tri_schedule_entry *entries, int64_t count);

/* Returns the largest number of pages that a sequence of this length holds at a time. If `window` is above 0, tokens
 * attend to at most `window` tokens, and older pages are released after each step of up to `rows` rows. */
int64_t tri_schedule_pages(int64_t positions, int64_t page_rows, int64_t window, int64_t rows);

#endif
