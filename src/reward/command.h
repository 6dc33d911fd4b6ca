/* Rewards that a program of the user computes. The program runs as long as the reward exists, in several processes if
 * `workers` is more than 1. For each completion it reads a line of its standard input,
 *   {"id": N, "prompt": TEXT, "completion": TEXT, "finish": WORD, "tokens": N, ...}
 * with all other keys of the prompt's line, and writes an answer (answer.h) to its standard output, in any order. A
 * completion whose reward is null has no reward. A completion is *open* from the time at which it is sent to a worker
 * until that worker answers it or fails.
 *
 * A worker fails if it ends, if its oldest open completion has waited for `timeout_s`, or if it writes a line that is
 * not an answer. It is then killed, with all processes that it has started, and started again. The oldest open
 * completion counts as failed once, and is sent to a worker again, alone. The other open completions are sent again and
 * do not count as failed, so that one bad completion does not cost its neighbours. A completion that has failed twice
 * has no answer. If a worker fails three times in a row without any answer, all of its open completions have no answer.
 * A program that ends three times in a row without any answer is an error; until its first answer, no completion is
 * blamed for its ends.
 *
 * The program has the environment of this process without the variables of MPI and its launchers
 * (tri_child_environment), and with PYTHONUNBUFFERED=1. */
#ifndef TRI_REWARD_COMMAND_H
#define TRI_REWARD_COMMAND_H

#include "base/status.h"
#include "reward/answer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRI_COMMAND_BYTES = 1024, TRI_COMMAND_WORKERS = 64, TRI_COMMAND_BATCH = 65536 };

typedef struct tri_command_settings {
  char command[TRI_COMMAND_BYTES]; /* run by /bin/sh */
  int64_t workers;                 /* number of processes, at most TRI_COMMAND_WORKERS; 0: 1 */
  int64_t batch;    /* largest number of completions that are open in a worker, at most TRI_COMMAND_BATCH; 0: 64 */
  double timeout_s; /* time for an answer, counted while the completion is the oldest open one of its worker; 0: 60 */
} tri_command_settings;

/* A completion. The program reads bytes that are not UTF-8 as U+FFFD. */
typedef struct tri_command_item {
  const char *json; /* the prompt's line, a JSON object, whose other keys are passed on; NULL: no other keys */
  size_t json_bytes;
  const char *prompt, *completion;
  size_t prompt_bytes, completion_bytes;
  const char *finish; /* name of the reason for which the completion ended, for the program */
  int64_t tokens;     /* tokens of the completion */
  /* Results */
  bool done;              /* whether the completion has an answer or has failed */
  double reward;          /* NaN: null, or no answer */
  bool failed;            /* whether the completion has no answer, because it, or its worker, failed too often */
  tri_reward_part *parts; /* [num_parts]; NULL: the reward has no parts */
  int64_t num_parts;
} tri_command_item;

typedef struct tri_reward_command tri_reward_command;

/* LOCAL. Starts the workers, whose standard error is appended to the file `log_path`; NULL: it is the standard error of
 * this process. Workers end when the thread that started them ends: call this and tri_reward_command_score from a
 * thread that lives as long as the reward. Fails with TRI_BAD_CONFIG if a value is not valid; the message begins with
 * "reward command: KEY". */
tri_status tri_reward_command_create(const tri_command_settings *settings, const char *log_path,
                                     tri_reward_command **out);
/* LOCAL. Ends the workers: closes their standard input, sends SIGTERM to the workers that still run after 0.2 s, and
 * kills the workers that still run after 0.4 s. */
void tri_reward_command_destroy(tri_reward_command *reward);

/* LOCAL. Adds a completion, which is sent to a worker by tri_reward_command_attend. `item` and its texts must stay
 * valid until item->done is true, or until tri_reward_command_drop. Sets the results to those of a completion that has
 * not been answered. One thread at a time, as for the other calls. */
tri_status tri_reward_command_add(tri_reward_command *reward, tri_command_item *item);
/* LOCAL. Sends completions to workers, and receives answers. With `waits`, waits up to a fiftieth of a second for an
 * answer, unless no completion is left. The results of a program that answers each line independently do not depend on
 * the number of workers. Fails with TRI_BAD_CONFIG if the shell cannot execute the command, and with TRI_IO_FAILED if
 * the program ends three times in a row without an answer: the message has the command, its exit status and, if
 * log_path is a plain file, the last line of its standard error. Fails with TRI_BAD_FILE if the `json` of an item is
 * not a JSON object. After a failure, call tri_reward_command_drop. */
tri_status tri_reward_command_attend(tri_reward_command *reward, bool waits);
/* LOCAL. Forgets all completions that are not done. Kills the workers in which completions are open. */
void tri_reward_command_drop(tri_reward_command *reward);

/* LOCAL. Adds completions, and returns when each has a reward or has failed; fails like tri_reward_command_attend.
 * After a failure no item has parts; otherwise release them with tri_reward_command_release. */
tri_status tri_reward_command_score(tri_reward_command *reward, tri_command_item *items, int64_t count);
/* Releases the parts of items. */
void tri_reward_command_release(tri_command_item *items, int64_t count);

#endif
