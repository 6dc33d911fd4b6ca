/* A wish to stop: by SIGINT, SIGTERM or SIGHUP, unless it is ignored, of which a second one is an order; or by a
 * request, of schedulers and launchers, which they may repeat as often as they like: SIGUSR1, SIGUSR2, SIGXCPU or
 * SIGALRM.
 *
 * Signals are waited for by a thread of their own and blocked in all others. That is more than taste: oneDNN's matrix
 * kernels use the stack pointer as a register like any other, so a handler that ran on a computing thread's stack would
 * write its frame wherever that register points, into the middle of the heap. */
#ifndef TRI_BASE_STOP_H
#define TRI_BASE_STOP_H

#include "base/status.h"

#include <signal.h>
#include <stdbool.h>

/* For a program that holds signals: put at the head of its file, it looks whether SIGHUP is ignored before libraries
 * are begun, which may take it for themselves. (A library cannot; it holds nothing.) */
#define TRI_STOP_LOOK_BEFORE_LIBRARIES                                                                                 \
  __attribute__((section(".preinit_array"), used)) static void (*const tri_stop_before_libraries)(void) =              \
      tri_stop_look_at_hangup
void tri_stop_look_at_hangup(void);

/* All of them (without a SIGHUP that is ignored), and whether one is a request. */
sigset_t tri_stop_signals(void);
bool tri_stop_is_request(int number);

/* Holds them back from here on, over an exec too: the first thing in main, so that none is lost, or ends the process,
 * before somebody is there who knows what to do with it.
 * tri_stop_release lets them do what they do without us. */
void tri_stop_hold(void);
void tri_stop_release(void);

/* LOCAL. Once, before any other thread is started. Until tri_stop_defer the first signal ends the process, after it the
 * second: with the status of an interruption and these words, or, where they are NULL since the process is one of many
 * and somebody else speaks for them, in the system's way. A request never ends it. */
tri_status tri_stop_listen(const char *words);

/* From here on the first signal is a wish that the caller looks for, and the second ends the process; a request is a
 * wish too, and does not count. */
void tri_stop_defer(void);
bool tri_stop_asked(void);
/* Wishes for it, as often as one likes: what a parent passes on. */
void tri_stop_ask(void);

#endif
