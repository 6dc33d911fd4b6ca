/* Why a job ended: of all that was heard, the first cause, and one message. */
#ifndef TRI_LAUNCH_CAUSE_H
#define TRI_LAUNCH_CAUSE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRI_PLACE_BYTES = 96, TRI_NOISE_BYTES = 16384 };

/* What is known of a rank. */
typedef struct tri_rank_news {
  long pid;                    /* 0: not known */
  char place[TRI_PLACE_BYTES]; /* in the mesh */
  char host[64];
} tri_rank_news;

/* The error message of a rank. */
typedef struct tri_words {
  bool said;
  tri_status status;
  char text[TRI_MESSAGE_BYTES];
} tri_words;

/* What the launcher and its kind wrote: the first and the newest of it, since it says at the end who died. */
typedef struct tri_noise {
  char text[TRI_NOISE_BYTES];
  size_t length;
} tri_noise;

typedef struct tri_ending {
  int64_t num_ranks;
  const tri_rank_news *ranks;   /* [num_ranks] */
  int64_t steps;                /* that the run has made, or -1 before it began */
  tri_words own;                /* the first that were said of a rank's own accord, */
  tri_words echo;               /* because another had ended, */
  tri_words interrupted;        /* because of a signal */
  tri_words told;               /* that came through the launcher; the status is the launcher's */
  int64_t crashed;              /* the rank that told of its crash before anybody's own words, by crash_signal */
  int crash_signal;             /* 0: none did */
  bool silent;                  /* a rank's line went down without a word, */
  int64_t silent_rank;          /* that of the first; -1 if it is not known */
  bool all_left;                /* every rank has said goodbye, with exit status 0 */
  int asked;                    /* how often a signal asked the parent to stop, */
  bool requested;               /* and whether one did so that a scheduler may repeat (base/stop.h) */
  bool ended;                   /* the parent itself has ended the job */
  char hang[TRI_MESSAGE_BYTES]; /* what the parent's clock has to say, or "" */
  int launcher_result;          /* as waitpid says it */
  tri_noise noise;
} tri_ending;

/* Whether a signal, of either kind, has asked the parent to stop. */
bool tri_ending_was_asked(const tri_ending *ending);

void tri_noise_add(tri_noise *noise, const char *line);

/* LOCAL. The status of the job, and its message. In this order: what the clock says, a rank's own words or its crash,
 * whichever was first, a wish to stop, a launcher that was killed, a rank of which the launcher says so, a rank that
 * fell silent, an echo, and what the launcher says. */
tri_status tri_cause_tell(const tri_ending *ending);

/* "rank 3 (pipeline 1)", or "a rank" where rank is -1. */
const char *tri_cause_name_rank(const tri_ending *ending, int64_t rank, char *text, size_t bytes);

#endif
