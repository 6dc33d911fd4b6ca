#include "recovery/watchdog.h"

#include "base/clock.h"
#include "base/flight_recorder.h"
#include "base/format.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "comm/agreement.h"
#include "files/file.h"
#include "files/write_fault.h"
#include "recovery/flight_report.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tri_watchdog {
  const tri_mesh *mesh;
  /* Paths: the folder of the reports; the file with the id of the request in progress; a file that exists once a rank
   * has ended the job. */
  char folder[TRI_PATH_BYTES], asked[TRI_PATH_BYTES], ended[TRI_PATH_BYTES];
  double timeout_s, quiet_since_s;       /* quiet_since_s: time (tri_clock_s); idle time before it does not count */
  char answered[TRI_FLIGHT_ASKED_BYTES]; /* id of the last request that this rank has answered */
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t wake;
  bool stops;
};

/* ---- analysis of the reports ------------------------------------------------------------------------------------- */

/* The reports of all ranks. */
typedef struct answers {
  const tri_watchdog *watchdog;
  tri_flight_report *flights; /* report of each rank [world.size] */
  bool *known;                /* whether each rank has answered this request [world.size] */
} answers;

/* Returns the mesh with the position of another rank. Only the names of its groups are valid, since all ranks have
 * the same names. */
static tri_mesh mesh_of(const answers *a, int rank) {
  tri_mesh mesh = *a->watchdog->mesh;
  mesh.place = tri_mesh_coordinates_of(&mesh.shape, rank);
  return mesh;
}

/* Guesses the rank that `rank` waits for in a collective, if its report does not name one: the first rank of the
 * group that has not answered, else the one that has joined the fewest collectives. Returns -1 if all ranks of the
 * group have joined this collective, or if `rank` waits for something else. */
static int guess_behind(const answers *a, int rank) {
  const tri_flight_report *flight = &a->flights[rank];
  tri_mesh mesh = mesh_of(a, rank);
  int index = tri_flight_report_index(&mesh, flight->group), behind = -1;
  int size = tri_mesh_group_size(&mesh, flight->group);
  int64_t least = flight->number;
  for (int at = 0; at < size && flight->number > 0; at++) {
    int other = tri_mesh_world_rank(&mesh, flight->group, at);
    if (!a->known[other]) return other;
    if (a->flights[other].joined[index] >= least) continue;
    least = a->flights[other].joined[index];
    behind = other;
  }
  return behind;
}

static int waits_for(const answers *a, int rank) {
  const tri_flight_report *flight = &a->flights[rank];
  if (!a->known[rank] || flight->operation[0] == '\0') return -1;
  return flight->behind >= 0 ? flight->behind : guess_behind(a, rank);
}

/* Follows the waits from `rank` to the first rank that does not wait, has not answered, or waits for an unknown rank,
 * and returns this one. Sets *last to the rank that waits for it, or to -1 if it is `rank` itself. If ranks wait for
 * each other in a ring, returns a rank of the ring. */
static int find_culprit(const answers *a, int rank, int *last) {
  *last = -1;
  for (int hops = 0; hops <= a->watchdog->mesh->world.size; hops++) {
    int next = waits_for(a, rank);
    if (next < 0) return rank;
    *last = rank;
    rank = next;
  }
  return rank;
}

static const char *name_rank(const answers *a, int rank, char *text, size_t size) {
  char place[128];
  snprintf(text, size, "rank %d (%s)", rank, tri_mesh_describe(&a->watchdog->mesh->shape, rank, place, sizeof place));
  return text;
}

static const char *name_wait(const tri_flight_report *flight, char *text, size_t size) {
  char bytes[32], number[32] = "";
  if (flight->number > 0) snprintf(number, sizeof number, " number %lld", (long long)flight->number);
  snprintf(text, size, "%s%s over %s (%s)", flight->operation, number, flight->group,
           tri_format_bytes((double)flight->bytes, bytes, sizeof bytes));
  return text;
}

static void print_activity(const answers *a, int rank, char *text, size_t size) {
  const tri_flight_report *flight = &a->flights[rank];
  if (!a->known[rank]) {
    snprintf(text, size, "does not answer: its process is stopped or gone, or its node is");
  } else if (flight->operation[0] != '\0') {
    char wait[128];
    snprintf(text, size, "waits in %s itself, for %.1f s, in %s", name_wait(flight, wait, sizeof wait), flight->waits_s,
             flight->doing);
  } else {
    snprintf(text, size, "has been in %s for %.1f s, at step %lld",
             flight->doing[0] == '\0' ? "nothing recorded" : flight->doing, flight->doing_s, (long long)flight->step);
  }
}

static void watchdog_report(const answers *a, int culprit, int last) {
  const tri_watchdog *w = a->watchdog;
  char who[192], state[256], whom[192], wait[128], chain[512] = "", message[TRI_PATH_BYTES + 2048];
  name_rank(a, culprit, who, sizeof who);
  print_activity(a, culprit, state, sizeof state);
  if (last >= 0) {
    snprintf(chain, sizeof chain, "; %s waits for it in %s at step %lld, which it has not %s",
             name_rank(a, last, whom, sizeof whom), name_wait(&a->flights[last], wait, sizeof wait),
             (long long)a->flights[last].step, a->flights[last].number > 0 ? "joined" : "answered");
  }
  snprintf(message, sizeof message,
           "no progress for %.0f s (hang_timeout). %s is behind: it %s%s. The state of every rank is in %s; the same "
           "command resumes from the newest checkpoint, and a larger hang_timeout waits longer",
           w->timeout_s, who, state, chain, w->folder);
  tri_log_failure(TRI_COMM, message);
  fflush(stderr);
}

/* Reads the reports of all ranks into a->flights and a->known, which the caller frees also after a failure. A report
 * for an earlier request does not count, since its rank may have stopped since then. */
static tri_status read_answers(const tri_watchdog *w, const char *id, answers *a) {
  size_t ranks = (size_t)w->mesh->world.size;
  a->watchdog = w;
  TRI_TRY(tri_alloc("the answers of a watchdog", ranks, sizeof *a->flights, &a->flights));
  TRI_TRY(tri_alloc("the answers of a watchdog", ranks, sizeof *a->known, &a->known));
  for (int r = 0; r < w->mesh->world.size; r++) {
    a->known[r] = tri_flight_report_read(w->mesh, w->folder, r, &a->flights[r]) && strcmp(a->flights[r].asked, id) == 0;
  }
  return TRI_OK;
}

/* ---- thread ------------------------------------------------------------------------------------------------------ */

/* Returns the seconds between two looks of a rank at the folder, and so the longest time until it answers. */
static double period_s(const tri_watchdog *w) {
  double period = w->timeout_s / 10;
  return period < 0.05 ? 0.05 : period > 20 ? 20 : period;
}

static double idle_s(const tri_watchdog *w) {
  double last_s = tri_recorder_last_s();
  return tri_clock_s() - (last_s > w->quiet_since_s ? last_s : w->quiet_since_s);
}

/* Sleeps for `seconds`, or until the watchdog is stopped. Returns false if it was stopped. */
static bool sleep_some(tri_watchdog *w, double seconds) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  int64_t ns = until.tv_nsec + (int64_t)(1e9 * seconds);
  until.tv_sec += ns / 1000000000;
  until.tv_nsec = ns % 1000000000;
  pthread_mutex_lock(&w->lock);
  while (!w->stops && pthread_cond_timedwait(&w->wake, &w->lock, &until) == 0) continue;
  bool goes_on = !w->stops;
  pthread_mutex_unlock(&w->lock);
  return goes_on;
}

/* Ends the job: the watchdogs of other ranks see the file `ended`, and the launcher ends a job if a rank exits
 * without MPI_Finalize. No MPI function is called here: only the thread that is stuck may call them. */
static void end_job(const tri_watchdog *w) {
  int file = open(w->ended, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
  if (file >= 0) close(file);
  _exit(tri_status_exit(TRI_COMM));
}

/* Creates the file `asked` with the id of a new request. Returns false if another rank has asked already, or if the
 * id cannot be written. */
static bool create_request(const tri_watchdog *w, char id[TRI_FLIGHT_ASKED_BYTES]) {
  int file = open(w->asked, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
  if (file < 0) return false;
  const int length = snprintf(id, TRI_FLIGHT_ASKED_BYTES, "%d-%.9f", w->mesh->world.rank, tri_clock_s());
  const bool written = write(file, id, (size_t)length) == length;
  close(file);
  if (!written) unlink(w->asked);
  return written;
}

/* Reads the id of the request in progress from the file `asked`. Returns false if the file does not exist or has no
 * id yet. */
static bool read_request(const tri_watchdog *w, char id[TRI_FLIGHT_ASKED_BYTES]) {
  int file = open(w->asked, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t length = read(file, id, TRI_FLIGHT_ASKED_BYTES - 1);
  close(file);
  id[length > 0 ? length : 0] = '\0';
  return length > 0;
}

/* Asks all ranks for reports and evaluates them, unless another rank has asked already. If the rank at the end of the
 * chain of waits is stuck, reports it and ends the job; if it is only slow, waits for another `timeout_s` before the
 * next request. */
static void ask(tri_watchdog *w) {
  char id[TRI_FLIGHT_ASKED_BYTES];
  if (!create_request(w, id)) return;
  answers a = {0};
  int last = -1, culprit = -1;
  tri_status status = tri_flight_report_write(w->mesh, w->folder, id);
  if (status == TRI_OK && !sleep_some(w, 1.5 * period_s(w) + 0.2)) {
    unlink(w->asked);
    return;
  }
  if (status == TRI_OK) status = read_answers(w, id, &a);
  if (status == TRI_OK) culprit = find_culprit(&a, w->mesh->world.rank, &last);
  if (status != TRI_OK) {
    unlink(w->asked);                                                              /* this rank or another asks again */
  } else if (a.known[culprit] && a.flights[culprit].idle_s < 0.5 * w->timeout_s) { /* slow, but not stuck */
    unlink(w->asked);
    w->quiet_since_s = tri_clock_s();
  } else {
    watchdog_report(&a, culprit, last);
    end_job(w);
  }
  tri_free(a.flights);
  tri_free(a.known);
}

static void look(tri_watchdog *w) {
  char id[TRI_FLIGHT_ASKED_BYTES] = "";
  if (access(w->ended, F_OK) == 0) _exit(tri_status_exit(TRI_COMM));
  if (read_request(w, id) && strcmp(id, w->answered) != 0) {
    (void)tri_flight_report_write(w->mesh, w->folder, id); /* after a failure the rank that asks finds no report */
    snprintf(w->answered, sizeof w->answered, "%s", id);
  }
  if (access(w->asked, F_OK) != 0 && idle_s(w) > w->timeout_s) ask(w);
}

static void *watch(void *argument) {
  tri_watchdog *w = argument;
  while (sleep_some(w, period_s(w))) look(w);
  return NULL;
}

/* ---- start and stop ---------------------------------------------------------------------------------------------- */

/* Creates an empty folder. Keeps the folder of the previous run as FOLDER-last, in place of an older one. */
static tri_status empty_folder(const char *folder) {
  char last[TRI_PATH_BYTES];
  if (tri_path_exists(folder) && rmdir(folder) != 0) {
    if (snprintf(last, sizeof last, "%s-last", folder) >= (int)sizeof last) {
      return tri_fail(TRI_BAD_USAGE, "%s: the name is too long", folder);
    }
    TRI_TRY(tri_directory_remove(last));
    if (rename(folder, last) != 0) {
      return tri_fail(TRI_IO_FAILED, "cannot rename %s to %s: %s", folder, last, tri_write_fault(errno));
    }
  }
  return tri_directory_create(folder);
}

static void destroy(tri_watchdog *w) {
  pthread_cond_destroy(&w->wake);
  pthread_mutex_destroy(&w->lock);
  tri_free(w);
}

tri_status tri_watchdog_start(const tri_mesh *mesh, const char *folder, double timeout_s, tri_watchdog **out) {
  *out = NULL;
  if (mesh->world.size == 1) return TRI_OK;
  TRI_TRY(tri_first_rank_status(&mesh->world, mesh->world.rank == 0 ? empty_folder(folder) : TRI_OK));
  if (timeout_s == 0) return TRI_OK;
  tri_watchdog *w = NULL;
  pthread_condattr_t monotonic;
  TRI_TRY(tri_alloc("a watchdog", 1, sizeof *w, &w));
  w->mesh = mesh;
  w->timeout_s = timeout_s;
  w->quiet_since_s = tri_clock_s();
  snprintf(w->folder, sizeof w->folder, "%s", folder);
  tri_status status = tri_path_join(w->asked, folder, "asked");
  if (status == TRI_OK) status = tri_path_join(w->ended, folder, "ended");
  pthread_mutex_init(&w->lock, NULL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC); /* a change of the system's time must not prolong a sleep */
  pthread_cond_init(&w->wake, &monotonic);
  pthread_condattr_destroy(&monotonic);
  if (status == TRI_OK) status = tri_thread_start("the watchdog's thread", watch, w, &w->thread);
  if (status != TRI_OK) destroy(w);
  if (status == TRI_OK) *out = w;
  return status;
}

void tri_watchdog_stop(tri_watchdog *w) {
  if (w == NULL) return;
  pthread_mutex_lock(&w->lock);
  w->stops = true;
  pthread_cond_signal(&w->wake);
  pthread_mutex_unlock(&w->lock);
  pthread_join(w->thread, NULL);
  destroy(w);
}
