/* The connection of a rank to its parent, the process that started the job with `-n` (launch/launch.c): a socket, which
 * does not go through the launcher.
 *
 * A launcher that ends a job kills the ranks, and may lose what they wrote just before. So a rank that fails sends its
 * error message and exit status to the parent, and ends the job only when the parent has acknowledged them. A rank also
 * sends its log lines and, from a thread of its own, regular heartbeats; the parent sends requests to stop. A rank
 * whose parent is gone ends.
 *
 * Each message is one packet of a local socket: a head and text. A rank on another host, or in a network namespace of
 * its own, cannot reach the socket: it writes its error message to a file in a folder that the parent names, and to
 * standard error, which the launcher passes on. */
#ifndef TRI_BASE_PARENT_H
#define TRI_BASE_PARENT_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* Returns the number of this rank, read from the environment variables of Open MPI, MVAPICH, PMI, PALS, Flux, PMIx
 * or Slurm, which are known before MPI is initialised; -1 if none of them is set. */
int tri_parent_rank(void);

/* An environment variable of ranks: "SOCKET TOKEN BEAT_MS MACHINE FOLDER". TOKEN shows that a rank belongs to this
 * job. FOLDER is for error files. On the same MACHINE, a socket that no process serves means that the parent is
 * gone. */
#define TRI_PARENT "TRIREME_PARENT"
/* An environment variable of ranks that tri_launch started: "terminal" if the parent's standard error is a
 * terminal. */
#define TRI_LAUNCHED "TRIREME_LAUNCHED"
/* An environment variable of ranks: "1" if the parent gives its standard input and output to rank 0. */
#define TRI_STREAMS "TRIREME_STREAMS"

typedef enum tri_parent_kind {
  TRI_PARENT_HELLO, /* "TOKEN RANK LOCAL HOST"; number: process id. LOCAL: ranks on HOST. Unknown: RANK -1, LOCAL 0 */
  TRI_PARENT_LINE,  /* a line of the log */
  TRI_PARENT_PROGRESS,  /* a line that replaces the line before it */
  TRI_PARENT_NEWS,      /* a line of tri_log_to_parent: "rank 3 14342 pipeline 1", "step 12" */
  TRI_PARENT_BEAT,      /* a heartbeat */
  TRI_PARENT_WORDS,     /* number: exit status; text: error message of the rank. The parent acknowledges the message */
  TRI_PARENT_SECONDARY, /* like TRI_PARENT_WORDS, from a rank that ends because another rank did; if the text is "",
                           another rank reports the failure */
  TRI_PARENT_CRASH,     /* number: the signal that ends this rank */
  TRI_PARENT_LEAVE      /* sent at the very end; number: exit status */
} tri_parent_kind;

typedef struct tri_parent_head {
  int32_t kind, number;
} tri_parent_head;

enum { TRI_PARENT_TEXT_BYTES = 1 << 16 }; /* longer texts are cut */

/* Messages of the parent, one byte each. */
#define TRI_PARENT_HEARD 'h' /* acknowledges an error message */
#define TRI_PARENT_STOP 's'  /* asks the rank to stop */
#define TRI_PARENT_GIVE 'f'  /* carries the parent's standard input and output, for rank 0 */

enum { TRI_MACHINE_BYTES = 96 };
/* Makes a word that identifies this boot of this machine and this network namespace. Returns false if that is unknown;
 * two machines may then have the same word. */
bool tri_parent_machine(char out[TRI_MACHINE_BYTES]);

/* An argument that stands for `:` on a launcher's command line, where `:` separates programs. */
#define TRI_PARENT_COLON "\x1f:"
/* LOCAL. In a rank that tri_launch started, changes arguments TRI_PARENT_COLON back to `:`. */
void tri_parent_restore_arguments(int count, char **arguments);

/* LOCAL. Connects to the parent that the environment names, if any, starts the thread that listens to the parent and
 * sends heartbeats, makes the log send its lines to the parent (tri_log_set_sink), and handles the signals of
 * crashes. If the parent was on this machine and no process serves its socket, the parent is gone: prints that and
 * ends the process. If it cannot connect for another reason, goes on without a connection. Called once, before
 * anything is logged. */
void tri_parent_join(void);

/* LOCAL. Installs handlers for the signals of crashes, which report to the parent and then let the signal have its
 * default effect. Called again after MPI_Init: libraries below MPI (UCX) install their own handlers, which print a
 * backtrace and may hang. Does nothing without a parent, or in a program with a sanitizer. */
void tri_parent_handle_crashes(void);

/* LOCAL, on rank 0. Replaces this process's standard input and output by the parent's, if the parent gives them
 * (TRI_STREAMS). So the output does not go through the launcher, which may lose or cut the last output of a rank
 * before the job ends. Waits at most 60 s for the two descriptors. From then on this process ignores SIGTTIN and
 * SIGTTOU. Fails with TRI_UNSUPPORTED if this rank cannot reach the parent, as on another host, and with
 * TRI_IO_FAILED if the system refuses to replace the descriptors. */
tri_status tri_parent_use_streams(void);

/* Sends a TRI_PARENT_LINE, _PROGRESS or _NEWS, from any thread. Returns false if the text was not sent, because there
 * is no parent or its queue is full: then the caller writes it to standard error. Progress that cannot be sent to a
 * parent is dropped, with true. */
bool tri_parent_send(tri_parent_kind kind, const char *text);

/* Sends an error message (TRI_PARENT_WORDS or TRI_PARENT_SECONDARY) and waits, 15 s at most, until the parent has
 * acknowledged it. Returns true if it has. Otherwise, or if there is no connection, writes the error file, and
 * returns false. */
bool tri_parent_words(int exit_status, const char *text);

/* Marks later failures of this rank as secondary, because another rank has ended: they are sent as
 * TRI_PARENT_SECONDARY. */
void tri_parent_expect_secondary(void);

/* Sends TRI_PARENT_LEAVE: this process now ends with this exit status. */
void tri_parent_leave(int exit_status);

#endif
