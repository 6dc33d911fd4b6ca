/* The parent's end of the line from its ranks (base/parent.h). */
#ifndef TRI_LAUNCH_LISTENER_H
#define TRI_LAUNCH_LISTENER_H

#include "base/parent.h"
#include "base/status.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A rank's process on the line. */
typedef struct tri_speaker {
  int socket;        /* -1: the line is down */
  bool known;        /* it has shown the token */
  bool left;         /* it has said goodbye, */
  int exit_status;   /* with this */
  bool spoke;        /* its error message, or its crash */
  bool waits;        /* for the parent to acknowledge it */
  long pid;          /* as itself sees it */
  int64_t rank;      /* -1: not known yet */
  int64_t num_local; /* ranks of its job on its host; 0: not known */
  char host[64];
  double silent_s; /* since its last message; the caller adds the time that passes */
} tri_speaker;

typedef struct tri_listener {
  int socket;
  char name[64], token[40];
  tri_speaker *speakers; /* [count] in the order in which they came */
  size_t count, room;
  char *packet; /* [TRI_PARENT_TEXT_BYTES + head + 1] */
} tri_listener;

/* What is heard. Where `gone`, the line of a speaker went down, and kind has no meaning. */
typedef void (*tri_hearing)(void *context, tri_speaker *from, bool gone, tri_parent_kind kind, int number,
                            const char *text);

/* LOCAL. A socket under a unique name. tri_listener_close in any case. */
tri_status tri_listener_open(tri_listener *out);
void tri_listener_close(tri_listener *listener);

/* What ranks find in TRI_PARENT: they beat so often, and leave words that cannot be sent in this folder. */
void tri_listener_environment(const tri_listener *listener, int beat_ms, const char *folder, char *out, size_t bytes);

/* As many as tri_listener_fill needs. */
size_t tri_listener_num_polled(const tri_listener *listener);
/* What to poll: then give the same array to tri_listener_hear, which calls `hear` for all that has come. */
void tri_listener_fill(const tri_listener *listener, struct pollfd *polled);
void tri_listener_hear(tri_listener *listener, const struct pollfd *polled, size_t count, tri_hearing hear,
                       void *context);

/* Says one byte to a speaker: TRI_PARENT_HEARD or TRI_PARENT_STOP. */
void tri_listener_say(const tri_speaker *to, char word);

#endif
