/* Finds out why a job ended: the first cause of all reports, as one message. */
#ifndef TRI_LAUNCH_CAUSE_H
#define TRI_LAUNCH_CAUSE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRI_PLACE_BYTES = 96, TRI_NOISE_BYTES = 16384 };

/* Facts about a rank. */
typedef struct tri_rank_news {
  long pid;                    /* process id; 0: not known */
  char place[TRI_PLACE_BYTES]; /* the rank's coordinates in the mesh, as text */
  char host[64];
} tri_rank_news;

/* An error message of a rank. */
typedef struct tri_words {
  bool said; /* whether a message was received */
  tri_status status;
  char text[TRI_MESSAGE_BYTES];
} tri_words;

/* Output of the launcher and its helpers. The beginning and the newest lines are kept, since a launcher reports dead
 * ranks at the end of its output. */
typedef struct tri_noise {
  char text[TRI_NOISE_BYTES];
  size_t length;
} tri_noise;

typedef struct tri_ending {
  int64_t num_ranks;
  const tri_rank_news *ranks; /* [num_ranks] */
  bool resumes;               /* whether the same command resumes the run from its newest checkpoint */
  int64_t steps;              /* number of steps that the run has done; -1 before the run began */
  bool serves;                /* whether the job answers requests */
  int64_t texts,              /* number of texts in the output; -1 before the job began */
      all_texts;              /* number of texts to write */
  tri_words own;              /* first error message of a rank that failed by itself */
  tri_words secondary;        /* first error message of a rank that failed because another rank had ended */
  tri_words interrupted;      /* first error message of a rank that stopped because of a signal */
  tri_words launcher_error;   /* first error message that came through the launcher, with the launcher's status */
  int64_t crashed;            /* rank that crashed; -1: not known; valid only if crash_signal is not 0 */
  int crash_signal;           /* signal of a crash that was reported while `own` was empty; 0: none */
  bool silent;                /* whether the connection of a rank closed without a message */
  int64_t silent_rank;        /* the first rank whose connection closed without a message; -1: not known */
  bool all_left;              /* whether every rank has ended regularly, with exit status 0 */
  int asked;      /* number of signals that asked the supervisor to stop, a scheduler's requests not included */
  bool requested; /* whether a scheduler's request, which may be repeated (base/stop.h), has arrived */
  bool ended;     /* whether the supervisor has ended the job */
  char hang[TRI_MESSAGE_BYTES]; /* message of the supervisor's watchdog, or "" */
  int launcher_result;          /* exit status of the launcher, as waitpid returns it */
  tri_noise noise;
} tri_ending;

/* Returns whether the work of the job has begun (`steps`, `texts` or `serves` show it), so that a request to stop is
 * passed on to its ranks. */
bool tri_ending_has_begun(const tri_ending *ending);
/* Returns whether a signal or a scheduler's request has asked the supervisor to stop. */
bool tri_ending_was_asked(const tri_ending *ending);

/* Appends a line, cut to a quarter of TRI_NOISE_BYTES, and drops the oldest lines of the second half if it is full. */
void tri_noise_add(tri_noise *noise, const char *line);

/* LOCAL. Returns the status of the job, with a message unless it is TRI_OK. The first cause that applies is reported: a
 * hang; a rank's own error message or crash (the earlier of the two); a request to stop, unless an error message came
 * through the launcher before the job was ended; an error message that came through the launcher; a launcher that was
 * killed; a rank that the launcher reports as dead; a rank that stopped because of a signal; a rank whose connection
 * closed; an error message because of another rank; the launcher's output.
 */
tri_status tri_cause_report(const tri_ending *ending);

/* Writes "rank 3 (pipeline 1)", or "a rank" if rank is -1. Returns text. */
const char *tri_cause_name_rank(const tri_ending *ending, int64_t rank, char *text, size_t bytes);

#endif
