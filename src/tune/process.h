/* A subprocess in its own session, whose processes are all ended with it: a job with its launcher and its ranks. */
#ifndef TRI_TUNE_PROCESS_H
#define TRI_TUNE_PROCESS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct tri_process {
  pid_t id;   /* process and session; 0: none */
  int result; /* from waitpid, after it has ended */
} tri_process;

typedef struct tri_process_limits {
  size_t memory_bytes; /* maximum data of each process (RLIMIT_DATA); 0: no limit */
  int part, parts;     /* use part `part` (from 0) of `parts` equal parts of the cores; parts 0: all cores */
} tri_process_limits;

/* Starts the program line[0] with the arguments line[1], ..., up to NULL; standard output and error go to the file
 * `log`. The subprocess ends when this process ends. */
tri_status tri_process_start(char *const *line, const char *log, const tri_process_limits *limits, tri_process *out);

/* Returns whether the subprocess has ended, without waiting for it; if so, kills the other processes of its session. */
bool tri_process_ended(tri_process *process);

/* Asks the subprocess to end, kills it after 5 s, and waits at most 5 s until its session has no processes. */
void tri_process_stop(tri_process *process);

#endif
