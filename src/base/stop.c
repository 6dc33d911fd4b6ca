#include "base/stop.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

/* Signals belong to the process, and so does what they ask for. */
static atomic_bool deferred, asked;

static sigset_t wishes(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGUSR1);
  return set;
}

static void die_of(int number) {
  struct sigaction plain = {.sa_handler = SIG_DFL};
  sigset_t set = wishes();
  sigaction(number, &plain, NULL);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  raise(number);
}

static void *wait_for_wishes(void *unused) {
  sigset_t set = wishes();
  for (int number; sigwait(&set, &number) == 0;) {
    if (!atomic_load(&deferred) || atomic_load(&asked)) die_of(number);
    atomic_store(&asked, true);
  }
  return unused;
}

tri_status tri_stop_listen(void) {
  pthread_t thread;
  sigset_t set = wishes();
  pthread_sigmask(SIG_BLOCK, &set, NULL); /* threads started later begin with the mask of their parent */
  int fault = pthread_create(&thread, NULL, wait_for_wishes, NULL);
  if (fault != 0) return tri_fail(TRI_INTERNAL, "cannot start the thread that waits for signals: %s", strerror(fault));
  pthread_detach(thread);
  return TRI_OK;
}

void tri_stop_defer(void) { atomic_store(&deferred, true); }

bool tri_stop_asked(void) { return atomic_load(&asked); }
