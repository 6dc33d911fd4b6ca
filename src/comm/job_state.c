/* The job's state: its ranks, and its first failure. */
#include "base/parent.h"
#include "comm/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Exists once in a process, as MPI's own state. */
static tri_job job = {.size = 1, .local_size = 1, .world = {.name = "world", .size = 1}};

tri_job *tri_comm_job(void) { return &job; }

int tri_comm_rank(void) { return job.rank; }
int tri_comm_size(void) { return job.size; }

/* A node's number is the lowest rank on it. */
int tri_comm_num_nodes(void) {
  int nodes = 0;
  for (int r = 0; job.node_of != NULL && r < job.size; r++) nodes += job.node_of[r] == r;
  return nodes < 1 ? 1 : nodes;
}
int tri_comm_local_rank(void) { return job.local_rank; }
int tri_comm_local_size(void) { return job.local_size; }
int tri_comm_node_of(int rank) { return job.node_of == NULL ? 0 : job.node_of[rank]; }

/* ---- failures ---------------------------------------------------------------------------------------------------- */

tri_status tri_comm_check(void) { return job.failed ? tri_fail(TRI_COMM, "%s", job.failure) : TRI_OK; }

tri_status tri_comm_lost(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  if (!job.failed) vsnprintf(job.failure, sizeof job.failure, format, arguments);
  va_end(arguments);
  job.failed = true;
  return tri_comm_check();
}

tri_status tri_comm_mpi_failed(int code, const char *call, const char *what) {
  char reason[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(code, reason, &length);
  if (!job.failed) { /* a later failure does not say whether the first one was another rank's */
    job.secondary = true;
    tri_parent_expect_secondary();
  }
  return tri_comm_lost("%s: %.*s failed: %s; another rank has probably ended; see its error message", what,
                       (int)strcspn(call, "("), call, reason);
}
