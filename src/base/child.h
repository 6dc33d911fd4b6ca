/* Child processes. A child has a session of its own. The processes that it starts end with it: those of its session,
 * and with pipes also those that have left the session. A child ends when the thread that started it ends, so that it
 * does not outlive this process. */
#ifndef TRI_BASE_CHILD_H
#define TRI_BASE_CHILD_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { TRI_CHILD_MARK_BYTES = 64 };

typedef struct tri_child {
  pid_t id;                        /* process id, which is also the id of its session; 0: no process */
  int result;                      /* exit status as waitpid returns it, after the child has ended */
  char mark[TRI_CHILD_MARK_BYTES]; /* with pipes, "TRIREME_CHILD=..." in the environment of all processes of the child;
                                      else "" */
  int to, from; /* pipes to the child's standard input and from its standard output, non-blocking; -1: no pipe */
} tri_child;

typedef struct tri_child_options {
  char *const *line;        /* path of the program ($PATH is not searched) and its arguments, with NULL at the end */
  char *const *environment; /* variables, with NULL at the end; a null pointer: the environment of this process */
  const char *log; /* file of the child's standard error, and without pipes also of its standard output; NULL: the
                      standard error of this process */
  bool pipes; /* whether the child's standard input and output are pipes, its other files are closed, and its log is
                 appended to; false: the child inherits standard input and files, and its log is emptied first */
  /* Runs in the child before the program, in the memory of this process: it may only make system calls that affect the
   * child alone. NULL: not called. */
  void (*prepare)(const void *context);
  const void *context;
} tri_child_options;

/* Starts a child. It blocks no signal, and ignores the signals that this process ignores, except SIGPIPE and
 * SIGCHLD. If the program cannot be executed, the child ends with exit status 127. Fails with TRI_IO_FAILED if a
 * pipe, the log or the process cannot be made; *out is then unchanged. Orphaned processes of the child become
 * children of this process from now on (PR_SET_CHILD_SUBREAPER). After the end of the child, call tri_child_close. */
tri_status tri_child_start(const tri_child_options *options, tri_child *out);

/* Makes a copy of this process's environment for a child. The copy does not have the variables of MPI, of its launchers
 * and of this program's own launcher, because with them a child would take itself for a rank of this job. Adds the
 * variable `more`, "NAME=VALUE", unless the user has set it. Release with tri_free. */
tri_status tri_child_environment(const char *more, char ***out);

/* Returns whether the child has ended, without waiting for it; if so, sets child->result, kills its other processes,
 * and waits at most 5 s until none of them is left. Do not call it again after it has returned true. */
bool tri_child_ended(tri_child *child);

/* Asks the child to end (SIGTERM). */
void tri_child_ask(const tri_child *child);
/* Asks the child to end, kills it after 5 s, and waits at most 6 s until none of its processes is left. Sets
 * child->result. */
void tri_child_stop(tri_child *child);
/* Kills the child and its processes at once, and waits at most 6 s until none of them is left. Sets child->result. */
void tri_child_kill(tri_child *child);

/* Write to the child and read from it, as much as is possible without waiting. Return the number of bytes; 0:
 * nothing is possible now; -1: the child has closed its end, or the system reports an error. */
ssize_t tri_child_write(const tri_child *child, const void *data, size_t bytes);
ssize_t tri_child_read(const tri_child *child, void *data, size_t bytes);

/* Close the pipe to the child's standard input; and both pipes. */
void tri_child_close_input(tri_child *child);
void tri_child_close(tri_child *child);

#endif
