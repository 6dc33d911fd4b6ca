/* A subprocess that uses a share of the machine: a job, which consists of its launcher and its ranks. */
#ifndef TRI_TUNE_PROCESS_H
#define TRI_TUNE_PROCESS_H

#include "base/child.h"

typedef struct tri_process_limits {
  size_t memory_bytes; /* maximum bytes of data of each process (RLIMIT_DATA); 0: no limit */
  int part, parts; /* the cores are divided into `parts` equal parts, and the job uses part `part` (from 0); parts 0:
                      the job uses all cores */
} tri_process_limits;

/* Starts the program line[0] with the arguments line[1], line[2], ..., which NULL ends. Its standard output and error
 * go to the file `log`. The subprocess ends when this process ends, and gets the limits. */
tri_status tri_process_start(char *const *line, const char *log, const tri_process_limits *limits, tri_child *out);

#endif
