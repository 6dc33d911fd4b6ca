#include "launch/launcher_messages.h"

#include <stdio.h>
#include <string.h>

/* Each parser returns false if its message is not found. This one parses "mpiexec noticed that process rank 1 with
 * PID 0 on node vm exited on signal 9 (Killed)." The PID is not reliable. Some versions break the line before
 * "node". */
static bool by_open_mpi(const char *text, tri_rank_death *out) {
  const char *at = strstr(text, "noticed that process rank ");
  return at != NULL && sscanf(at, "noticed that process rank %d with PID %*s on node %63s exited on signal %d",
                              &out->rank, out->node, &out->signal) == 3;
}

/* Parses "PID 14342 RUNNING AT vm", "EXIT CODE: 9"; and below it, for a signal, "EXIT STRING: Killed (signal 9)". */
static bool by_mpich(const char *text, tri_rank_death *out) {
  const char *at = strstr(text, "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES");
  const char *pid = at == NULL ? NULL : strstr(at, "PID ");
  if (pid == NULL || sscanf(pid, "PID %ld RUNNING AT %63s", &out->pid, out->node) != 2) return false;
  const char *code = strstr(pid, "EXIT CODE:"), *by_signal = strstr(pid, "(signal ");
  if (code != NULL) (void)sscanf(code, "EXIT CODE: %d", &out->exit_status);
  if (by_signal != NULL) (void)sscanf(by_signal, "(signal %d", &out->signal);
  return true;
}

/* Parses "srun: error: node7: task 3: Killed". */
static bool by_slurm(const char *text, tri_rank_death *out) {
  const char *at = strstr(text, "srun: error: ");
  char what[64];
  if (at == NULL || sscanf(at, "srun: error: %63[^:]: task %d: %63s", out->node, &out->rank, what) != 3) return false;
  out->signal = strcmp(what, "Killed") == 0 ? 9 : 0;
  return true;
}

bool tri_rank_death_find(const char *text, tri_rank_death *out) {
  static bool (*const ways[])(const char *, tri_rank_death *) = {by_open_mpi, by_mpich, by_slurm};
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
    tri_rank_death found = {.rank = -1};
    if (!ways[i](text, &found)) continue;
    *out = found;
    return true;
  }
  return false;
}

bool tri_launcher_lost_session_folder(const char *text) { return strstr(text, "orte_session_dir failed") != NULL; }
