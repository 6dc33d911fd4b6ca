/* LOCK is a few lines of text:
 *
 *   trireme lock
 *   host node7
 *   boot 3f0c...            id of the kernel's start: process numbers are only valid within it
 *   processes 4026531836    name space of the process number: containers have their own
 *   process 12345 8837451   process number and its start, in ticks since the boot: numbers are reused
 *   job slurm:123 0         a start of a job; no such line, or a few
 *   mark 5d41402abc4b2a76   unique mark of this lock
 *
 * The file is written under a temporary name and linked to LOCK, so that it is complete or absent, also on NFS, and two
 * processes cannot both create it. To take over a lock, a process renames LOCK first and then reads it: if that is not
 * the lock that was judged dead, the file is linked back. */
#include "files/folder_lock.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process_identity.h"
#include "base/system.h"
#include "base/thread.h"
#include "files/file.h"
#include "files/write_fault.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_NAME "LOCK"

static const double beat_s = 5, /* seconds between touches */
    silence_s = 60;             /* seconds without a touch after which an owner is dead */
/* Seconds without a touch after which tri_folder_lock_is_left judges an owner dead. It looks only once, and clocks of
 * hosts may differ. */
static const double left_s = 600;
static const double dying_s = 10;      /* seconds that a process of this host may take to exit */
static const double look_here_s = 0.1, /* seconds between looks at an owner on this host */
    look_elsewhere_s = 1;              /* seconds between looks at an owner on another host */

enum { NOT_PLAIN = -1 }; /* a result of try_lock that is not a value of errno */
enum { TEXT_BYTES = 2048, MOST_JOBS = 3, WORD_BYTES = TRI_IDENTITY_WORD_BYTES, MARK_BYTES = TRI_UNIQUE_BYTES };

typedef struct job_start {
  char name[WORD_BYTES];
  int64_t start;
} job_start;

/* The content of a lock. */
typedef struct owner {
  tri_process_identity id;
  char mark[MARK_BYTES];
  job_start jobs[MOST_JOBS];
  int num_jobs;
} owner;

struct tri_folder_lock {
  char folder[TRI_PATH_BYTES], path[TRI_PATH_BYTES];
  owner self;
  int file; /* descriptor of LOCK, for touching it */
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t wake;
  bool has_thread, ends;
  atomic_bool lost;
};

/* ---- who we are -------------------------------------------------------------------------------------------------- */

static void add_job(owner *self, const char *kind, const char *name, int64_t start) {
  if (name == NULL || name[0] == '\0' || strpbrk(name, " \n") != NULL || self->num_jobs == MOST_JOBS) return;
  job_start *job = &self->jobs[self->num_jobs++];
  snprintf(job->name, sizeof job->name, "%s:%.*s", kind, WORD_BYTES - 16, name);
  job->start = start;
}

/* Finds the job starts to which this process belongs. Only Slurm counts the starts of a job. */
static void find_jobs(owner *self) {
  static const char *const systems[][3] = {{"slurm", "SLURM_JOB_ID", "SLURM_RESTART_COUNT"},
                                           {"pbs", "PBS_JOBID", ""},
                                           {"lsf", "LSB_JOBID", ""},
                                           {"flux", "FLUX_JOB_ID", ""}};
  const char *own = getenv(TRI_JOB_VARIABLE);
  char name[WORD_BYTES] = "";
  int64_t start = 0;
  if (own != NULL && sscanf(own, "%150s %" SCNd64, name, &start) == 2) add_job(self, "trireme", name, start);
  for (size_t i = 0; i < sizeof systems / sizeof systems[0]; i++) {
    const char *starts = systems[i][2][0] == '\0' ? NULL : getenv(systems[i][2]);
    add_job(self, systems[i][0], getenv(systems[i][1]), starts == NULL ? 0 : strtoll(starts, NULL, 10));
  }
}

static tri_status find_self(owner *self) {
  *self = (owner){.id = tri_process_identity_self()};
  TRI_TRY(tri_system_unique(self->mark));
  find_jobs(self);
  return TRI_OK;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static int print_owner(const owner *self, char text[TEXT_BYTES]) {
  int length = snprintf(text, TEXT_BYTES,
                        "trireme lock\nhost %s\nboot %s\nprocesses %" PRIu64 "\nprocess %" PRId64 " %" PRIu64 "\n",
                        self->id.host, self->id.boot, self->id.processes, self->id.process, self->id.start);
  for (int i = 0; i < self->num_jobs; i++) {
    length += snprintf(text + length, (size_t)(TEXT_BYTES - length), "job %s %" PRId64 "\n", self->jobs[i].name,
                       self->jobs[i].start);
  }
  length += snprintf(text + length, (size_t)(TEXT_BYTES - length), "mark %s\n", self->mark);
  return length;
}

/* Parses the text of a lock. Members of absent lines stay empty: such an owner is judged by its touches only. */
static void parse_owner(const char *text, owner *out) {
  *out = (owner){.id.process = -1};
  for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
    line += *line == '\n';
    job_start *job = &out->jobs[out->num_jobs < MOST_JOBS ? out->num_jobs : 0];
    (void)sscanf(line, "host %199s", out->id.host);
    (void)sscanf(line, "boot %199s", out->id.boot);
    (void)sscanf(line, "mark %32s", out->mark);
    (void)sscanf(line, "processes %" SCNu64, &out->id.processes);
    (void)sscanf(line, "process %" SCNd64 " %" SCNu64, &out->id.process, &out->id.start);
    if (out->num_jobs < MOST_JOBS && sscanf(line, "job %199s %" SCNd64, job->name, &job->start) == 2) out->num_jobs++;
  }
}

/* Reads the lock at `path` and the time of its last touch; returns 0, NOT_PLAIN, or the errno of a failure. Opening
 * makes a network file system ask its server. Others may write to the folder, so links are not followed and pipes not
 * awaited. */
static int try_lock(const char *path, owner *out, struct timespec *touched) {
  char text[TEXT_BYTES];
  struct stat facts = {0};
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return errno;
  int reason = fstat(file, &facts) != 0 ? errno : S_ISREG(facts.st_mode) ? 0 : NOT_PLAIN;
  ssize_t got = reason == 0 ? read(file, text, sizeof text - 1) : 0;
  if (got < 0) reason = errno;
  close(file);
  if (reason != 0) return reason;
  text[got] = '\0';
  parse_owner(text, out);
  *touched = facts.st_mtim;
  return 0;
}

/* Reads a lock as try_lock does, but fails with a message; *there is false if the file does not exist. */
static tri_status read_lock(const char *path, owner *out, struct timespec *touched, bool *there) {
  int reason = try_lock(path, out, touched);
  *there = reason == 0;
  if (reason == 0 || reason == ENOENT) return TRI_OK;
  if (reason == NOT_PLAIN || reason == ELOOP || reason == ENXIO) {
    return tri_fail(TRI_BAD_FILE, "%s is not a plain file, as a lock is; remove it", path);
  }
  return tri_fail(TRI_IO_FAILED, "cannot read %s: %s", path, strerror(reason));
}

static bool is_ours(const tri_folder_lock *lock) {
  owner now = {.id.process = -1};
  struct timespec touched = {0};
  return try_lock(lock->path, &now, &touched) == 0 && strcmp(now.mark, lock->self.mark) == 0;
}

/* ---- judging a lock ---------------------------------------------------------------------------------------------- */

typedef enum verdict {
  VERDICT_DEAD,
  VERDICT_ALIVE_HERE, /* a process of this host */
  VERDICT_UNKNOWN,    /* a process of another host, which only its touches show to be alive */
} verdict;

static bool is_earlier_start(const owner *other, const owner *self) {
  for (int i = 0; i < other->num_jobs; i++) {
    for (int k = 0; k < self->num_jobs; k++) {
      if (strcmp(other->jobs[i].name, self->jobs[k].name) == 0 && other->jobs[i].start < self->jobs[k].start) {
        return true;
      }
    }
  }
  return false;
}

static verdict judge(const owner *other, const owner *self) {
  const tri_process_identity *id = &other->id;
  if (is_earlier_start(other, self)) return VERDICT_DEAD;
  bool here = strcmp(id->boot, self->id.boot) == 0 && id->processes == self->id.processes && id->process > 0;
  if (!here || !tri_process_identity_is_known(&self->id)) return VERDICT_UNKNOWN;
  switch (tri_process_find(id->process, id->start)) {
    case TRI_PROCESS_DEAD: return VERDICT_DEAD;
    case TRI_PROCESS_ALIVE: return VERDICT_ALIVE_HERE;
    case TRI_PROCESS_UNKNOWN: break;
  }
  return VERDICT_UNKNOWN;
}

/* Computes the seconds since the lock was touched. The clock is that of the lock's file system: the time of a new file
 * on it. */
static tri_status silent_for(const tri_folder_lock *lock, struct timespec touched, double *out) {
  char path[TRI_PATH_BYTES];
  struct stat facts;
  TRI_TRY(tri_path_with(path, lock->path, "."));
  snprintf(path + strlen(path), sizeof path - strlen(path), "%s.clock", lock->self.mark);
  int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) return tri_fail(TRI_IO_FAILED, "cannot create %s: %s", path, tri_write_fault(errno));
  bool known = write(file, "\n", 1) == 1 && fsync(file) == 0 && fstat(file, &facts) == 0;
  int reason = errno;
  close(file);
  unlink(path);
  if (!known) return tri_fail(TRI_IO_FAILED, "cannot write %s: %s", path, tri_write_fault(reason));
  *out = (double)(facts.st_mtim.tv_sec - touched.tv_sec) + 1e-9 * (double)(facts.st_mtim.tv_nsec - touched.tv_nsec);
  return TRI_OK;
}

static void folder_lock_describe(const owner *other, char *out, size_t out_bytes) {
  char job[WORD_BYTES + 16] = "";
  if (other->num_jobs > 0) snprintf(job, sizeof job, ", job %s", other->jobs[other->num_jobs - 1].name);
  if (other->id.process > 0) {
    snprintf(out, out_bytes, "process %" PRId64 " on %s%s", other->id.process, other->id.host, job);
  } else {
    snprintf(out, out_bytes, "a run whose lock cannot be read");
  }
}

static tri_status busy(const tri_folder_lock *lock, const owner *other) {
  char who[512];
  folder_lock_describe(other, who, sizeof who);
  return tri_fail(TRI_BUSY,
                  "%s is in use by %s, which is alive; wait for it to end, or choose another `output`; nothing there "
                  "was read or written",
                  lock->folder, who);
}

/* ---- making and taking ------------------------------------------------------------------------------------------- */

/* Links a file with our text to LOCK. On a file system without links, LOCK is created exclusively. Sets *made to false
 * if LOCK exists already. */
static tri_status make_lock(const tri_folder_lock *lock, bool *made) {
  char temporary[TRI_PATH_BYTES], text[TEXT_BYTES];
  struct stat facts;
  int length = print_owner(&lock->self, text);
  TRI_TRY(tri_path_with(temporary, lock->path, "."));
  snprintf(temporary + strlen(temporary), sizeof temporary - strlen(temporary), "%s", lock->self.mark);
  int file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) return tri_fail(TRI_IO_FAILED, "cannot create %s: %s", temporary, tri_write_fault(errno));
  bool written = write(file, text, (size_t)length) == length && fsync(file) == 0;
  int reason = errno;
  close(file);
  if (!written) {
    unlink(temporary);
    return tri_fail(TRI_IO_FAILED, "cannot write %s: %s", temporary, tri_write_fault(reason));
  }
  int result = link(temporary, lock->path);
  reason = errno;
  /* NFS may have created the link and lost the reply. */
  *made = result == 0 || (stat(temporary, &facts) == 0 && facts.st_nlink == 2);
  if (!*made && (reason == EPERM || reason == EOPNOTSUPP || reason == ENOSYS || reason == EMLINK)) {
    file = open(lock->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    *made = file >= 0 && write(file, text, (size_t)length) == length && fsync(file) == 0;
    reason = errno;
    if (file >= 0) close(file);
    if (file >= 0 && !*made) unlink(lock->path);
  }
  unlink(temporary);
  if (*made || reason == EEXIST) return TRI_OK;
  return tri_fail(TRI_IO_FAILED, "cannot create %s: %s", lock->path, tri_write_fault(reason));
}

/* Removes the lock of a dead owner, by renaming it first. Another process may have removed it already and made its own
 * lock; then that lock was renamed, and is linked back. */
static tri_status remove_dead(const tri_folder_lock *lock, const owner *dead) {
  char aside[TRI_PATH_BYTES];
  struct timespec touched = {0};
  owner moved = {.id.process = -1};
  bool there = false;
  TRI_TRY(tri_path_with(aside, lock->path, "."));
  snprintf(aside + strlen(aside), sizeof aside - strlen(aside), "%s.dead", lock->self.mark);
  if (rename(lock->path, aside) != 0) {
    if (errno == ENOENT) return TRI_OK;
    return tri_fail(TRI_IO_FAILED, "cannot rename %s: %s", lock->path, tri_write_fault(errno));
  }
  TRI_TRY(read_lock(aside, &moved, &touched, &there));
  if (there && strcmp(moved.mark, dead->mark) != 0 && link(aside, lock->path) != 0 && errno != EEXIST) {
    (void)rename(aside, lock->path); /* a file system without links */
    return TRI_OK;
  }
  unlink(aside);
  return TRI_OK;
}

/* Observations of one owner's lock. */
typedef struct watch {
  char mark[MARK_BYTES];
  struct timespec touched;
  double since_s, /* time of the first look, on tri_clock_s */
      pause_s;    /* seconds before the next look */
  bool begun,     /* whether there was a first look */
      said;       /* whether the wait has been logged */
} watch;

/* Judges whether the owner is alive or dead; sets *alive and *dead to false while that is unknown. Updates `seen`, what
 * is known from earlier looks, and the pause until the next one. */
static tri_status look(const tri_folder_lock *lock, const owner *other, struct timespec touched, watch *seen,
                       bool *alive, bool *dead) {
  double silent = 0, now_s = tri_clock_s();
  bool same = seen->begun && strcmp(seen->mark, other->mark) == 0;
  bool moved = same && (touched.tv_sec != seen->touched.tv_sec || touched.tv_nsec != seen->touched.tv_nsec);
  if (!same) {
    *seen = (watch){.touched = touched, .since_s = now_s, .begun = true, .said = seen->said};
    snprintf(seen->mark, sizeof seen->mark, "%s", other->mark);
  }
  double watched_s = now_s - seen->since_s;
  *alive = *dead = false;
  switch (judge(other, &lock->self)) {
    case VERDICT_DEAD: *dead = true; break;
    case VERDICT_ALIVE_HERE:
      seen->pause_s = look_here_s;
      *alive = watched_s > dying_s;
      break;
    case VERDICT_UNKNOWN:
      seen->pause_s = look_elsewhere_s;
      TRI_TRY(silent_for(lock, touched, &silent));
      *alive = moved;
      /* On some file systems times come from the clocks of clients: a wrong clock must not make an owner dead at once.
       */
      *dead = !moved && watched_s > 2 * beat_s && (silent > silence_s || watched_s > silence_s);
      break;
  }
  return TRI_OK;
}

static tri_status wait_for_lock(tri_folder_lock *lock) {
  watch seen = {.begun = false};
  char who[512];
  for (;;) {
    owner other = {.id.process = -1};
    struct timespec touched = {0};
    bool made = false, there = false, alive = false, dead = false;
    TRI_TRY(read_lock(lock->path, &other, &touched, &there));
    if (!there) TRI_TRY(make_lock(lock, &made));
    if (made) return TRI_OK;
    if (!there) continue; /* another process was faster */
    TRI_TRY(look(lock, &other, touched, &seen, &alive, &dead));
    if (alive) return busy(lock, &other);
    folder_lock_describe(&other, who, sizeof who);
    if (dead) {
      if (!is_earlier_start(&other, &lock->self)) {
        tri_log("%s was in use by %s, which has ended: taking it over", lock->folder, who);
      }
      TRI_TRY(remove_dead(lock, &other));
      continue;
    }
    if (!seen.said) tri_log("%s is in use by %s: looking whether it is alive", lock->folder, who);
    seen.said = true;
    tri_pause_s(seen.pause_s);
  }
}

static bool is_empty(const char *folder) {
  DIR *directory = opendir(folder);
  int names = 0;
  if (directory == NULL) return false;
  while (names <= 2 && readdir(directory) != NULL) names++;
  closedir(directory);
  return names == 2; /* an empty folder has only "." and ".." */
}

bool tri_folder_lock_is_left(const char *folder) {
  tri_folder_lock lock = {.file = -1};
  owner other = {.id.process = -1};
  struct timespec touched = {0};
  struct stat facts;
  double silent = 0;
  snprintf(lock.folder, sizeof lock.folder, "%s", folder);
  if (tri_path_join(lock.path, folder, LOCK_NAME) != TRI_OK || find_self(&lock.self) != TRI_OK) return false;
  const int reason = try_lock(lock.path, &other, &touched);
  if (reason == ENOENT && is_empty(folder) && stat(folder, &facts) == 0) {
    touched = facts.st_mtim; /* the folder may be new, and its owner about to make the lock */
  } else if (reason != 0 || other.mark[0] == '\0') {
    return false;
  }
  if (reason == 0 && judge(&other, &lock.self) != VERDICT_UNKNOWN) return judge(&other, &lock.self) == VERDICT_DEAD;
  return silent_for(&lock, touched, &silent) == TRI_OK && silent > left_s;
}

/* ---- holding it -------------------------------------------------------------------------------------------------- */

tri_status tri_folder_lock_check(const tri_folder_lock *lock) {
  owner now = {.id.process = -1};
  struct timespec touched = {0};
  char who[512];
  bool there = false;
  TRI_TRY(read_lock(lock->path, &now, &touched, &there));
  if (there && strcmp(now.mark, lock->self.mark) == 0 && !atomic_load(&lock->lost)) return TRI_OK;
  folder_lock_describe(&now, who, sizeof who);
  if (!there) {
    return tri_fail(TRI_BUSY, "%s was removed, or its folder was; this run ends, so that two runs never write there",
                    lock->path);
  }
  return tri_fail(
      TRI_BUSY,
      "%s was taken over by %s while this run gave no sign of life; this run ends, so that two runs never write there",
      lock->folder, who);
}

bool tri_folder_lock_is_lost(const tri_folder_lock *lock) { return atomic_load(&lock->lost); }

/* Touches the lock, and finds out whether it is lost. It is lost if the file is gone or has another mark, but not if
 * the file system fails to reply. */
static void beat(tri_folder_lock *lock) {
  owner now = {.id.process = -1};
  struct timespec touched = {0};
  int reason = try_lock(lock->path, &now, &touched);
  if (reason == ENOENT || (reason == 0 && strcmp(now.mark, lock->self.mark) != 0)) atomic_store(&lock->lost, true);
  if (!atomic_load(&lock->lost)) (void)futimens(lock->file, NULL); /* the file system sets the time */
}

static void *keep(void *argument) {
  tri_folder_lock *lock = argument;
  pthread_mutex_lock(&lock->mutex);
  while (!lock->ends) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)beat_s;
    int result = pthread_cond_timedwait(&lock->wake, &lock->mutex, &until);
    if (lock->ends || result != ETIMEDOUT) continue;
    pthread_mutex_unlock(&lock->mutex);
    beat(lock);
    pthread_mutex_lock(&lock->mutex);
  }
  pthread_mutex_unlock(&lock->mutex);
  return NULL;
}

/* Removes files of processes that were killed while they took a lock: files that are older than any attempt lasts. */
static void clear_attempts(const tri_folder_lock *lock) {
  struct stat own, other;
  char path[TRI_PATH_BYTES];
  DIR *directory = opendir(lock->folder);
  if (directory == NULL) return;
  bool known = fstat(lock->file, &own) == 0;
  for (const struct dirent *entry; known && (entry = readdir(directory)) != NULL;) {
    if (strncmp(entry->d_name, LOCK_NAME ".", sizeof LOCK_NAME) != 0) continue;
    if (tri_path_join(path, lock->folder, entry->d_name) != TRI_OK || stat(path, &other) != 0) continue;
    if ((double)(own.st_mtim.tv_sec - other.st_mtim.tv_sec) > 2 * silence_s) (void)unlink(path);
  }
  closedir(directory);
}

static tri_status start_keeping(tri_folder_lock *lock) {
  pthread_condattr_t attributes;
  lock->file = open(lock->path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (lock->file < 0) return tri_fail(TRI_IO_FAILED, "cannot open %s: %s", lock->path, strerror(errno));
  clear_attempts(lock);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&lock->wake, &attributes);
  pthread_condattr_destroy(&attributes);
  pthread_mutex_init(&lock->mutex, NULL);
  tri_status status = tri_thread_start("the thread that keeps a lock", keep, lock, &lock->thread);
  lock->has_thread = status == TRI_OK;
  return status;
}

tri_status tri_folder_lock_acquire(const char *folder, tri_folder_lock **out) {
  tri_folder_lock *lock = NULL;
  TRI_TRY(tri_alloc("a lock", 1, sizeof *lock, &lock));
  lock->file = -1;
  snprintf(lock->folder, sizeof lock->folder, "%s", folder);
  tri_status status = tri_path_join(lock->path, folder, LOCK_NAME);
  if (status == TRI_OK) status = find_self(&lock->self);
  if (status == TRI_OK) status = wait_for_lock(lock);
  if (status != TRI_OK) {
    tri_free(lock);
    return status;
  }
  status = start_keeping(lock);
  if (status == TRI_OK) *out = lock;
  if (status != TRI_OK) tri_folder_lock_release(lock);
  return status;
}

void tri_folder_lock_release(tri_folder_lock *lock) {
  if (lock == NULL) return;
  if (lock->has_thread) {
    pthread_mutex_lock(&lock->mutex);
    lock->ends = true;
    pthread_cond_signal(&lock->wake);
    pthread_mutex_unlock(&lock->mutex);
    pthread_join(lock->thread, NULL);
    pthread_mutex_destroy(&lock->mutex);
    pthread_cond_destroy(&lock->wake);
  }
  if (lock->file >= 0) close(lock->file);
  if (is_ours(lock)) unlink(lock->path);
  tri_free(lock);
}
