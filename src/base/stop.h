/* Stopping by signals. SIGINT, SIGTERM and SIGHUP (unless SIGHUP is ignored) ask the program to stop, and a second
 * signal ends it at once. SIGUSR1, SIGUSR2, SIGXCPU and SIGALRM are *requests*, of schedulers and launchers: they also
 * ask the program to stop, and may be repeated.
 *
 * One thread waits for these signals, and all others block them. That is necessary: oneDNN's matrix kernels use the
 * stack pointer as an ordinary register, so a handler on a computing thread's stack would write its frame wherever that
 * register points, into the middle of the heap. */
#ifndef TRI_BASE_STOP_H
#define TRI_BASE_STOP_H

#include "base/status.h"

#include <signal.h>
#include <stdbool.h>

/* Belongs at the top of the file of a program that calls tri_stop_hold. Reads whether SIGHUP is ignored before
 * libraries are initialised, because they may install a handler of their own. (For programs only: a shared library has
 * no .preinit_array.) */
#define TRI_STOP_LOOK_BEFORE_LIBRARIES                                                                                 \
  __attribute__((section(".preinit_array"), used)) static void (*const tri_stop_before_libraries)(void) =              \
      tri_stop_look_at_hangup
void tri_stop_look_at_hangup(void);

/* Returns the set of all signals that ask to stop; SIGHUP is not among them if it is ignored. */
sigset_t tri_stop_signals(void);
/* Returns whether a signal is a request. */
bool tri_stop_is_request(int number);

/* Blocks the signals of tri_stop_signals, also across exec. Must be the first call in main, so that no signal is
 * lost or ends the process before the program is ready. If SIGHUP was ignored when the program was started, ignores
 * it again. tri_stop_release unblocks them; they then have their default effect. */
void tri_stop_hold(void);
void tri_stop_release(void);

/* LOCAL. Starts the thread that waits for signals; called once, before any other thread is started. The first signal
 * ends the process, or, after tri_stop_defer, the second signal: with the exit status of TRI_INTERRUPTED and
 * `message`, which is not copied, or by the signal itself if `message` is NULL, as in a rank whose supervisor
 * reports the signal. A request never ends the process. Fails with TRI_OUT_OF_MEMORY if the thread cannot be
 * started. */
tri_status tri_stop_listen(const char *message);

/* Makes the first signal only set tri_stop_asked, and the second one end the process with this message. A request also
 * sets tri_stop_asked, and is not counted. `message` NULL: the first signal ends the process again. */
void tri_stop_defer(const char *message);
/* Sets a function that the thread of the signals calls before a signal ends the process; NULL: none. It should take
 * less than a second: a launcher that ends a job kills ranks that do not end soon. After this function has returned, an
 * earlier function is not running and is not called any more. */
void tri_stop_before_end(void (*call)(void *context), void *context);
/* Returns whether a signal or tri_stop_ask has asked this process to stop. */
bool tri_stop_asked(void);
/* Asks this process to stop, as a request does; called when the parent sends TRI_PARENT_STOP. */
void tri_stop_ask(void);

#endif
