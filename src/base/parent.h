/* The line from a rank to the parent that `-n` leaves behind (launch/launch.c): a socket of the parent's, past the
 * launcher.
 *
 * A launcher that is told to end a job kills, and what ranks had written to it an instant before it may or may not have
 * passed on. So a rank hands its error message and exit status to the parent itself, which acknowledges them; only then
 * the rank ends the job. The same line carries what the rank logs, and a sign of life from a thread of its
 * own now and then; the other way comes the wish to stop. A rank whose parent is gone ends.
 *
 * Each message is one packet of a local socket: a head and text. A rank on another host, or in a network namespace of
 * its own, cannot reach it: its words go into a file in a folder that the parent names, and through the launcher as
 * ever. */
#ifndef TRI_BASE_PARENT_H
#define TRI_BASE_PARENT_H

#include <stdbool.h>
#include <stdint.h>

/* The number of this process in its job, as its launcher says in the environment, before there is MPI; -1 outside of
 * one. */
int tri_parent_rank(void);

/* In the environment of ranks: "SOCKET TOKEN BEAT_MS MACHINE FOLDER". The token shows that a caller is of this job, the
 * machine that a socket which no process serves means that the parent is gone. */
#define TRI_PARENT "TRIREME_PARENT"
/* Of ranks that tri_launch started: "terminal" where the parent's standard error is one. */
#define TRI_LAUNCHED "TRIREME_LAUNCHED"

typedef enum tri_parent_kind {
  TRI_PARENT_HELLO, /* "TOKEN RANK LOCAL HOST"; number: the process. RANK is -1, LOCAL (ranks on HOST) 0 if not known */
  TRI_PARENT_LINE,  /* a line of the log */
  TRI_PARENT_PROGRESS, /* a line that replaces the one before */
  TRI_PARENT_NEWS,     /* "rank 3 14342 pipeline 1", "step 12" */
  TRI_PARENT_BEAT,     /* a sign of life */
  TRI_PARENT_WORDS,    /* number: exit status; text: why this rank ends the job. To be acknowledged */
  TRI_PARENT_ECHO,     /* the same, of a rank that ends because another did, or whose reason another tells ("") */
  TRI_PARENT_CRASH,    /* number: the signal that ends this rank */
  TRI_PARENT_LEAVE     /* number: exit status, at the very end */
} tri_parent_kind;

typedef struct tri_parent_head {
  int32_t kind, number;
} tri_parent_head;

enum { TRI_PARENT_TEXT_BYTES = 1 << 16 }; /* longer texts are cut */

/* What the parent says: one byte each. */
#define TRI_PARENT_HEARD 'h' /* the words */
#define TRI_PARENT_STOP 's'

enum { TRI_MACHINE_BYTES = 96 };
/* What tells this machine, since it was started, and this network namespace from others: one word. False where that
 * cannot be found out: then two machines may have the same word. */
bool tri_parent_machine(char out[TRI_MACHINE_BYTES]);

/* LOCAL. Reaches for the parent that the environment names, if it names one, and starts the thread that listens to it
 * and gives signs of life; takes the signals of crashes. Ends the process, which says so, where the parent is gone: it
 * was on this machine, and no process serves its socket. Once, before
 * anything is logged. */
void tri_parent_join(void);

/* LOCAL. Takes the signals of crashes, to tell the parent of them; what they do then is what they do without us. Once
 * more behind MPI_Init: libraries below MPI take them too (UCX), to print where they were, and may hang in that.
 * Nothing if there is no parent. */
void tri_parent_take_crashes(void);

/* Sends a line, a progress or news; false if the parent cannot be reached, or has no room: then it goes through the
 * launcher. From any thread. Progress is dropped where there is no room. */
bool tri_parent_send(tri_parent_kind kind, const char *text);

/* Sends the error message, and waits, some seconds at most, until the parent has it. False if it has not. */
bool tri_parent_words(int exit_status, const char *text);

/* What this rank fails with from here on is likely the end of another. */
void tri_parent_expect_echoes(void);

/* Says goodbye: this process ends now with this status. */
void tri_parent_leave(int exit_status);

#endif
