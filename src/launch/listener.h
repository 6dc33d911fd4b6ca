/* The supervisor's end of the connections from its ranks (base/parent.h). */
#ifndef TRI_LAUNCH_LISTENER_H
#define TRI_LAUNCH_LISTENER_H

#include "base/parent.h"
#include "base/status.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Connection of a rank's process to the supervisor. */
typedef struct tri_speaker {
  int socket;        /* socket of the connection; -1: closed */
  bool known;        /* whether the process has sent the token */
  bool left;         /* whether the process has ended regularly */
  int exit_status;   /* exit status of the process; valid if `left` */
  bool spoke;        /* whether the process has sent its error message, or reported its crash */
  bool waits;        /* whether the process waits for an acknowledgement */
  long pid;          /* process number, as the process itself sees it */
  int64_t rank;      /* rank of the process; -1: not known */
  int64_t num_local; /* number of the job's ranks on its host; 0: not known */
  char host[64];
  double silent_s; /* seconds since the last message of the process; the caller adds elapsed time */
} tri_speaker;

typedef struct tri_listener {
  int socket;
  char name[64], token[40];
  tri_speaker *speakers; /* [count]: connections; closed ones are kept unless they never sent the token */
  size_t count, room;
  char *packet;       /* [TRI_PARENT_TEXT_BYTES + sizeof(tri_parent_head) + 1], the message that is read */
  bool full;          /* whether the last connection could not be accepted, because too many files are open */
  bool gives_streams; /* whether rank 0 gets this process's standard input and output (tri_parent_use_streams) */
} tri_listener;

/* Function that is called for each message. `gone`: whether the connection was closed; kind, number and text then
 * have no meaning. */
typedef void (*tri_hearing)(void *context, tri_speaker *from, bool gone, tri_parent_kind kind, int number,
                            const char *text);

/* LOCAL. Opens a socket with a unique name. Fails with TRI_IO_FAILED if the system refuses it. Call
 * tri_listener_close also after a failure. */
tri_status tri_listener_open(tri_listener *out);
void tri_listener_close(tri_listener *listener);

/* Writes the value of TRI_PARENT for ranks: they send a heartbeat every beat_ms, and leave messages that cannot be sent
 * in `folder` (error_files.h). */
void tri_listener_environment(const tri_listener *listener, int beat_ms, const char *folder, char *out, size_t bytes);

/* Returns the length of the array for tri_listener_fill. */
size_t tri_listener_num_polled(const tri_listener *listener);
/* Sets polled[tri_listener_num_polled] for poll. */
void tri_listener_fill(tri_listener *listener, struct pollfd *polled);
/* After poll: reads all messages and calls `hear` for each, accepts new connections, and closes connections that have
 * not sent the token for 60 s. `count` is the length of `polled`. */
void tri_listener_hear(tri_listener *listener, const struct pollfd *polled, size_t count, tri_hearing hear,
                       void *context);

/* Sends one byte to a rank, TRI_PARENT_HEARD or TRI_PARENT_STOP, without waiting; a failure is ignored. */
void tri_listener_send(const tri_speaker *to, char word);

#endif
