#include "base/parent.h"

#include "base/log.h"
#include "base/sanitizer.h"
#include "base/stop.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
  ROOM_WAIT_MS = 10000,  /* longest wait for room in a full socket */
  HEARD_WAIT_MS = 15000, /* longest wait for the parent's acknowledgement */
  GIVEN_WAIT_MS = 60000, /* longest wait for the parent's standard input and output */
  LOST_EXIT = 9,         /* exit status of TRI_COMM */
  ALTERNATE_STACK_BYTES = 1 << 16
};

/* Global, because a process has one parent and signal handlers can only use globals. */
static struct {
  atomic_int socket; /* socket to the parent; -1: none */
  atomic_bool secondary;
  bool heard;     /* whether the parent has acknowledged the error message; guarded by the lock */
  int streams[2]; /* the parent's standard input and output; guarded by the lock. -1: not received */
  pthread_mutex_t lock;
  pthread_cond_t news; /* signals a change of `heard` or `streams` */
  int beat_ms;
  char token[64], folder[4096];
} parent = {.socket = -1, .streams = {-1, -1}, .lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- who we are -------------------------------------------------------------------------------------------------- */

/* Reads a number from the first environment variable of `names` that is set; MPI is not initialised yet, and may
 * never be. Returns `otherwise` if none is set. */
static int first_number_of(const char *const names[], int otherwise) {
  for (int i = 0; names[i] != NULL; i++) {
    const char *text = getenv(names[i]);
    if (text != NULL && *text != '\0') return atoi(text);
  }
  return otherwise;
}

int tri_parent_rank(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PMI_RANK",     "PALS_RANKID",
                                      "FLUX_TASK_RANK",       "PMIX_RANK",           "SLURM_PROCID", NULL};
  return first_number_of(names, -1);
}

static int local_ranks_of_environment(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", NULL};
  return first_number_of(names, 0);
}

bool tri_parent_machine(char out[TRI_MACHINE_BYTES]) {
  char boot[40] = "?", net[40] = "?";
  int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  ssize_t got = file < 0 ? -1 : read(file, boot, 36);
  if (file >= 0) close(file);
  bool known = got > 0;
  if (known) boot[got] = '\0';
  got = readlink("/proc/self/ns/net", net, sizeof net - 1);
  if (got > 0) net[got] = '\0';
  snprintf(out, TRI_MACHINE_BYTES, "%s/%s", boot, net);
  return known && got > 0;
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

static bool send_packet(int to, tri_parent_kind kind, int number, const char *text, int wait_ms) {
  tri_parent_head head = {(int32_t)kind, number};
  size_t length = strlen(text);
  struct iovec parts[] = {
      {&head, sizeof head},
      {(char *)(uintptr_t)text, length < TRI_PARENT_TEXT_BYTES ? length : TRI_PARENT_TEXT_BYTES - 1}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  for (;;) {
    if (sendmsg(to, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return true;
    if (errno == EINTR) continue;
    struct pollfd room = {.fd = to, .events = POLLOUT};
    if ((errno != EAGAIN && errno != EWOULDBLOCK) || wait_ms == 0 || poll(&room, 1, wait_ms) <= 0) return false;
    if ((room.revents & POLLOUT) == 0) return false;
  }
}

bool tri_parent_send(tri_parent_kind kind, const char *text) {
  int to = atomic_load(&parent.socket);
  if (to < 0) return false;
  return send_packet(to, kind, 0, text, 0) ||
         kind == TRI_PARENT_PROGRESS; /* training does not wait for progress lines */
}

void tri_parent_expect_secondary(void) { atomic_store(&parent.secondary, true); }

/* ---- error message ----------------------------------------------------------------------------------------------- */

/* Writes "STATUS KIND RANK" and the error message to a file, for a parent that reads the folder after the job has
 * ended.
 */
static void leave_file(tri_parent_kind kind, int exit_status, const char *text) {
  char host[64] = "", part[sizeof parent.folder + 128], whole[sizeof parent.folder + 128];
  if (parent.folder[0] == '\0') return;
  (void)gethostname(host, sizeof host - 1);
  snprintf(part, sizeof part, "%s/.%s-%ld", parent.folder, host, (long)getpid());
  snprintf(whole, sizeof whole, "%s/%s-%ld", parent.folder, host, (long)getpid());
  FILE *to = fopen(part, "we");
  if (to == NULL) return;
  bool written = fprintf(to, "%d %d %d\n%s", exit_status, (int)kind, tri_parent_rank(), text) > 0;
  written = fflush(to) == 0 && fsync(fileno(to)) == 0 && written;
  if (fclose(to) == 0 && written) rename(part, whole);
}

static struct timespec in_ms(int ms) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until); /* the clock with which parent.news waits */
  int64_t ns = until.tv_nsec + (int64_t)ms * 1000000;
  until.tv_sec += ns / 1000000000;
  until.tv_nsec = ns % 1000000000;
  return until;
}

bool tri_parent_words(int exit_status, const char *text) {
  int to = atomic_load(&parent.socket);
  tri_parent_kind kind = *text == '\0' || atomic_load(&parent.secondary) ? TRI_PARENT_SECONDARY : TRI_PARENT_WORDS;
  if (to < 0) {
    leave_file(kind, exit_status, text);
    return false;
  }
  struct timespec until = in_ms(HEARD_WAIT_MS);
  pthread_mutex_lock(&parent.lock);
  parent.heard = false;
  bool sent = send_packet(to, kind, exit_status, text, ROOM_WAIT_MS);
  while (sent && !parent.heard && pthread_cond_timedwait(&parent.news, &parent.lock, &until) == 0) continue;
  bool heard = parent.heard;
  pthread_mutex_unlock(&parent.lock);
  if (!heard) leave_file(kind, exit_status, text);
  return heard;
}

void tri_parent_leave(int exit_status) {
  int to = atomic_load(&parent.socket);
  if (to >= 0) (void)send_packet(to, TRI_PARENT_LEAVE, exit_status, "", ROOM_WAIT_MS);
}

/* ---- a crash ----------------------------------------------------------------------------------------------------- */

/* Handles the signal of a crash: sends one packet without a lock, and raises the signal again, which then has its
 * default effect. */
static void send_crash(int number) {
  tri_parent_head head = {TRI_PARENT_CRASH, number};
  (void)!send(atomic_load(&parent.socket), &head, sizeof head, MSG_DONTWAIT | MSG_NOSIGNAL);
  raise(number);
}

/* Whether the program has a sanitizer, whose own report of a crash is more useful. */
static const bool sanitized = TRI_ADDRESS_SANITIZER || TRI_THREAD_SANITIZER;

/* The calling thread gets an alternate stack for the handlers, because an overflowed stack has no room for them. In
 * other threads they run on the thread's own stack. */
void tri_parent_handle_crashes(void) {
  static char stack[ALTERNATE_STACK_BYTES];
  static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
  stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
  if (sanitized || atomic_load(&parent.socket) < 0) return;
  sigaltstack(&alternate, NULL);
  for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
    struct sigaction own = {.sa_handler = send_crash, .sa_flags = (int)(SA_RESETHAND | SA_NODEFER | SA_ONSTACK)};
    sigaction(signals[i], &own, NULL);
  }
}

/* ---- listening --------------------------------------------------------------------------------------------------- */

/* Receives a message of one byte, and the two descriptors that come with it, if any. */
static ssize_t receive(int from, char *word, int streams[2]) {
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(2 * sizeof(int))];
  } control;
  struct iovec part = {word, 1};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  const ssize_t got = recvmsg(from, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const struct cmsghdr *head = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
  if (head != NULL && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(2 * sizeof(int)))
    memcpy(streams, CMSG_DATA(head), 2 * sizeof(int));
  return got;
}

static void hear(int from) {
  char word;
  int streams[2] = {-1, -1};
  ssize_t got = receive(from, &word, streams);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) _exit(LOST_EXIT); /* the parent has ended, so no process waits for this job */
  if (word == TRI_PARENT_STOP) tri_stop_ask();
  if (word != TRI_PARENT_HEARD && word != TRI_PARENT_GIVE) return;
  pthread_mutex_lock(&parent.lock);
  if (word == TRI_PARENT_HEARD) parent.heard = true;
  if (word == TRI_PARENT_GIVE) memcpy(parent.streams, streams, sizeof streams);
  pthread_cond_broadcast(&parent.news);
  pthread_mutex_unlock(&parent.lock);
}

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void *listen_to_parent(void *unused) {
  int from = atomic_load(&parent.socket);
  int64_t next_ms = now_ms();
  for (;;) {
    int64_t left_ms = next_ms - now_ms();
    struct pollfd wait = {.fd = from, .events = POLLIN};
    if (left_ms > 0 && poll(&wait, 1, (int)left_ms) > 0) hear(from);
    if (now_ms() < next_ms) continue;
    (void)send_packet(from, TRI_PARENT_BEAT, 0, "", 0);
    next_ms = now_ms() + parent.beat_ms;
  }
  return unused;
}

tri_status tri_parent_use_streams(void) {
  const char *given = getenv(TRI_STREAMS);
  if (given == NULL || strcmp(given, "1") != 0) return TRI_OK;
  const struct timespec until = in_ms(GIVEN_WAIT_MS);
  pthread_mutex_lock(&parent.lock);
  if (atomic_load(&parent.socket) >= 0) {
    while (parent.streams[1] < 0 && pthread_cond_timedwait(&parent.news, &parent.lock, &until) == 0) continue;
  }
  const int input = parent.streams[0], output = parent.streams[1];
  parent.streams[0] = parent.streams[1] = -1;
  pthread_mutex_unlock(&parent.lock);
  if (output < 0) {
    return tri_fail(TRI_UNSUPPORTED,
                    "rank 0 cannot reach the program that started it with -n, so its output would be lost; start the "
                    "job with this machine's mpirun or srun, without -n");
  }
  signal(SIGTTIN, SIG_IGN); /* a terminal stops processes that are not in its foreground group, as this one */
  signal(SIGTTOU, SIG_IGN);
  const bool replaced = dup2(input, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0;
  close(input);
  close(output);
  return replaced ? TRI_OK : tri_fail(TRI_IO_FAILED, "cannot use the parent's standard output: %s", strerror(errno));
}

/* Starts the listener with all signals blocked; returns whether it runs. Waits for news use the monotonic clock. */
static bool start_listening(void) {
  pthread_t thread;
  pthread_condattr_t clock;
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&parent.news, &clock);
  pthread_condattr_destroy(&clock);
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  bool started =
      tri_thread_start("the thread that listens to the supervisor", listen_to_parent, NULL, &thread) == TRI_OK;
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  if (started) pthread_detach(thread);
  return started;
}

/* Connects to the parent; returns the socket, or -1 with the reason in errno. */
static int reach(const char *name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  size_t length = strlen(name);
  errno = ENAMETOOLONG;
  if (length + 1 > sizeof address.sun_path) return -1;
  memcpy(address.sun_path + 1, name, length); /* an abstract name, which disappears with its socket */
  int to = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (to < 0) return -1;
  socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
  while (connect(to, (struct sockaddr *)&address, bytes) != 0) {
    if (errno == EINTR) continue;
    int reason = errno;
    close(to);
    errno = reason;
    return -1;
  }
  return to;
}

static bool send_of_log(tri_log_kind kind, const char *text) {
  switch (kind) {
    case TRI_LOG_LINE: return tri_parent_send(TRI_PARENT_LINE, text);
    case TRI_LOG_PROGRESS: return tri_parent_send(TRI_PARENT_PROGRESS, text);
    case TRI_LOG_NEWS: return tri_parent_send(TRI_PARENT_NEWS, text);
  }
  return false;
}

void tri_parent_restore_arguments(int count, char **arguments) {
  static char colon[] = ":";
  for (int i = 0; i < count && getenv(TRI_LAUNCHED) != NULL; i++) {
    if (strcmp(arguments[i], TRI_PARENT_COLON) == 0) arguments[i] = colon;
  }
}

void tri_parent_join(void) {
  static const tri_log_sink sink = {send_of_log, tri_parent_words};
  char name[80], machine[TRI_MACHINE_BYTES], own[TRI_MACHINE_BYTES], host[64] = "", hello[256];
  const char *text = getenv(TRI_PARENT);
  int folder = 0;
  if (text == NULL) return;
  if (sscanf(text, "%79s %63s %d %95s %n", name, parent.token, &parent.beat_ms, machine, &folder) != 4) return;
  snprintf(parent.folder, sizeof parent.folder, "%s", text + folder);
  tri_log_set_sink(&sink);
  int to = reach(name);
  bool refused = to < 0 && errno == ECONNREFUSED;
  if (refused && tri_parent_machine(own) && strcmp(own, machine) == 0) {
    dprintf(STDERR_FILENO, "trireme: the program that started this job is gone, and process %ld ends with it\n",
            (long)getpid());
    _exit(LOST_EXIT);
  }
  if (to < 0) return;
  (void)gethostname(host, sizeof host - 1);
  snprintf(hello, sizeof hello, "%s %d %d %s", parent.token, tri_parent_rank(), local_ranks_of_environment(), host);
  atomic_store(&parent.socket, to);
  if (send_packet(to, TRI_PARENT_HELLO, (int)getpid(), hello, ROOM_WAIT_MS) && start_listening()) {
    tri_parent_handle_crashes();
    return;
  }
  atomic_store(&parent.socket, -1);
  close(to);
}
