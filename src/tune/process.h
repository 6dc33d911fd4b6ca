/* A program in a session of its own, of which nothing stays behind: a job with its launcher and its ranks. */
#ifndef TRI_TUNE_PROCESS_H
#define TRI_TUNE_PROCESS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct tri_process {
  pid_t id;   /* also of its session; 0: none */
  int result; /* as waitpid gives it, once it has ended */
} tri_process;

typedef struct tri_process_limits {
  size_t memory_bytes; /* of data in each of its processes (RLIMIT_DATA); 0: none */
  int part, parts;     /* it gets part `part` of `parts` of the cores; parts 0: all */
} tri_process_limits;

/* Starts line[0] with the arguments behind it, until a NULL; standard output and error go to `log`. It dies with this
 * process. */
tri_status tri_process_start(char *const *line, const char *log, const tri_process_limits *limits, tri_process *out);

/* Whether it has come to an end; does not wait. Whatever it has left in its session is ended then. */
bool tri_process_ended(tri_process *process);

/* Asks it to end, after five seconds makes it, and waits until nothing of its session is left. */
void tri_process_stop(tri_process *process);

#endif
