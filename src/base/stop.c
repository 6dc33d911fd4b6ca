#include "base/stop.h"

#include "base/log.h"
#include "base/thread.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Global, because signals are sent to the process. */
static atomic_bool deferred, asked, signalled;

/* The action of SIGHUP when the program was started. Before main, libraries install their own handlers (UCX, below
 * MPICH, does when it is loaded), so the action is read before libraries, or a sanitizer, are initialised. */
static unsigned long hangup[4]; /* the kernel's struct of an action, whose first member is the handler */

__attribute__((no_sanitize("address", "thread", "undefined"))) void tri_stop_look_at_hangup(void) {
  syscall(SYS_rt_sigaction, SIGHUP, NULL, hangup, 8);
}

/* Slurm (--signal), Grid Engine (-notify), LSF (-wa) and launchers send SIGUSR1 and SIGUSR2. At a limit of CPU time,
 * LSF sends SIGXCPU, and so does the kernel, once a second. Flux sends SIGALRM when a job's time is over. */
static const int requests[] = {SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM};
enum { NUM_REQUESTS = sizeof requests / sizeof requests[0] };

bool tri_stop_is_request(int number) {
  for (int i = 0; i < NUM_REQUESTS; i++) {
    if (requests[i] == number) return true;
  }
  return false;
}

/* Includes SIGHUP (of a closing terminal) unless it is ignored (nohup). */
sigset_t tri_stop_signals(void) {
  sigset_t set;
  struct sigaction action;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  for (int i = 0; i < NUM_REQUESTS; i++) sigaddset(&set, requests[i]);
  if (sigaction(SIGHUP, NULL, &action) == 0 && action.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);
  return set;
}

void tri_stop_hold(void) {
  struct sigaction ignore = {.sa_handler = SIG_IGN};
  if (hangup[0] == (unsigned long)SIG_IGN) sigaction(SIGHUP, &ignore, NULL);
  sigset_t set = tri_stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, NULL);
}

void tri_stop_release(void) {
  sigset_t set = tri_stop_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static _Atomic(const char *) twice_message;
static const char *interruption_message; /* set before the thread that reads it is started */

static pthread_mutex_t last_call_mutex = PTHREAD_MUTEX_INITIALIZER;
static void (*last_call)(void *context);
static void *last_call_context;

void tri_stop_before_end(void (*call)(void *context), void *context) {
  pthread_mutex_lock(&last_call_mutex);
  last_call = call;
  last_call_context = context;
  pthread_mutex_unlock(&last_call_mutex);
}

static void make_last_call(void) {
  pthread_mutex_lock(&last_call_mutex);
  if (last_call != NULL) last_call(last_call_context);
  pthread_mutex_unlock(&last_call_mutex);
}

static void die_of(int number) {
  struct sigaction plain = {.sa_handler = SIG_DFL};
  sigset_t set = tri_stop_signals(), clock;
  make_last_call();
  if (interruption_message != NULL) {
    sigemptyset(&clock);
    sigaddset(&clock, SIGALRM);
    sigaction(SIGALRM, &plain, NULL);
    pthread_sigmask(SIG_UNBLOCK, &clock, NULL);
    alarm(1); /* a pipe that is full and not read would block the message; SIGALRM then ends the process */
    tri_log_failure(TRI_INTERRUPTED, atomic_load(&deferred) ? atomic_load(&twice_message) : interruption_message);
    _exit(tri_status_exit(TRI_INTERRUPTED));
  }
  sigaction(number, &plain, NULL);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  raise(number);
}

static void *wait_for_signals(void *unused) {
  sigset_t set = tri_stop_signals();
  for (int number; sigwait(&set, &number) == 0;) {
    if (!tri_stop_is_request(number) && (!atomic_load(&deferred) || atomic_exchange(&signalled, true))) die_of(number);
    atomic_store(&asked, true);
  }
  return unused;
}

tri_status tri_stop_listen(const char *message) {
  interruption_message = message;
  pthread_t thread;
  sigset_t set = tri_stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, NULL); /* threads inherit the mask */
  TRI_TRY(tri_thread_start("the thread that waits for signals", wait_for_signals, NULL, &thread));
  pthread_detach(thread);
  return TRI_OK;
}

void tri_stop_ask(void) { atomic_store(&asked, true); }

void tri_stop_defer(const char *message) {
  atomic_store(&twice_message, message);
  atomic_store(&deferred, message != NULL);
}

bool tri_stop_asked(void) { return atomic_load(&asked); }
