/* The supervisor: the parent process of a job that `-n` starts.
 *
 * The problem. A job is started by an MPI launcher, which starts the ranks. If a rank fails, the launcher kills the
 * others at once, may lose what they wrote just before, and prints banners of its own. On Ctrl-C it kills the ranks,
 * although they could save a checkpoint first. It does not notice a rank that is stopped or hangs. So the user would
 * not learn which rank failed first, and why.
 *
 * The idea. The launcher runs as a child of this process, in a process group of its own that the terminal's signals do
 * not reach. Each rank on this host connects to a socket of the supervisor (listener.h, base/parent.h) and sends its
 * log lines, its heartbeats and its error message there, so that they do not pass through the launcher. Ranks on other
 * hosts use the launcher's output and error files (error_files.h). All reports are collected in a tri_ending, from
 * which cause.c determines the first cause. A stop request is sent to the ranks over their sockets, and as SIGUSR1
 * through the launcher if some ranks have no socket. Before the first step there is nothing to save, and a stop
 * request ends the job. A scheduler's request never ends the job itself: it is only passed on (handle_request).
 *
 * The invariants:
 * - All buffered messages are read before a rank is judged to be silent.
 * - Only time in which this process runs counts: each wait adds at most 2 SLICE_S to the clocks. So neither a suspended
 *   laptop nor a stopped supervisor looks like a hang.
 * - An error message of a rank that failed because another one ended (a *secondary* message) is acknowledged only when
 *   the cause is known or GRACE_S have passed. Until then its sender waits and does not exit, so that the launcher does
 *   not end the job before the cause has been reported.
 * - After the supervisor has ended the job, no failure is recorded, because failures are then a consequence of the end.
 * - If this process dies, the kernel kills the launcher, and the ranks end by themselves when their sockets close.
 *
 * An example. Rank 3 runs out of memory in step 12. It sends its error message (TRI_PARENT_WORDS), which is recorded
 * and acknowledged; then it ends, and the launcher kills the other ranks. Rank 1 may have reported in between that a
 * peer is gone (TRI_PARENT_SECONDARY), which is recorded separately. When the launcher has exited, attend() kills the
 * processes that are left and reads the remaining output; cause.c then reports the error message of rank 3. */
#include "launch/supervisor.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/parent.h"
#include "base/process_identity.h"
#include "base/stop.h"
#include "files/file.h"
#include "launch/error_files.h"
#include "launch/listener.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE_BYTES = 1 << 16, ENVIRONMENT_BYTES = 8192, FEW_FILES = 64 };

static const double SLICE_S = 0.25; /* longest wait for an event, before limits are checked again */
static const double GRACE_S = 3;    /* wait for the first cause after a secondary message */
static const double PATIENCE_S = 5; /* wait for a launcher that was asked to end, before it is killed */
static const double SETTLED_S = 30; /* longest wait for a launcher whose job is over */
static const double DRAIN_S = 2;    /* wait for the remaining output of dead processes */
static const double TOUCH_S =
    600; /* time between two touches of the error files' folder, which show that the folder is in use */
static const double LATE_S =
    30; /* longest time from the first connection of any rank to the last one, in addition to limit_s */
static const double START_S = 300; /* longest time until a process of any rank connects, in addition to limit_s */

/* State of a start of the launcher. */
typedef struct supervisor {
  const tri_start *start;
  tri_rank_news *ranks;
  tri_ending *ending;
  tri_listener listener;
  int signals, /* descriptor of the awaited signals (signalfd) */
      output;  /* descriptor of the launcher's output; -1: closed */
  pid_t launcher;
  bool reaped,   /* whether the launcher has ended */
      stopped,   /* whether the launcher is stopped */
      alive;     /* whether some rank has sent a message */
  double beat_s, /* seconds between heartbeats */
      limit_s;   /* longest silence of a rank in seconds; 0: no limit */
  /* Clocks. Only time in which this process runs counts (wait_some). */
  double ending_s,             /* seconds since end_job was called */
      grace_s,                 /* seconds in which secondary messages have waited */
      settled_s,               /* seconds since the job was over (end_settled) */
      stopped_s,               /* seconds since the launcher was stopped */
      quiet_s,                 /* seconds since the last report of a step, or since the report that the job serves */
      late_s;                  /* seconds in which some ranks of this host are connected and others are not */
  double touched_s;            /* seconds since the folder of error files was touched */
  bool stop_waits;             /* whether a stop request waits until all ranks are connected, or until the first step */
  char folder[TRI_PATH_BYTES]; /* folder for error messages that cannot be sent; "" if unused */
  char line[LINE_BYTES];       /* [held], output of the launcher that has not been split into lines yet */
  size_t held;
  bool skips; /* whether the rest of a line that is too long is skipped */
} supervisor;

double tri_supervisor_limit_s(double hang_timeout_s) {
  double more_s = hang_timeout_s / 4 > 5 ? hang_timeout_s / 4 : 5;
  return hang_timeout_s > 0 ? hang_timeout_s + more_s : 0;
}

/* ---- signals ----------------------------------------------------------------------------------------------------- */

static sigset_t awaited(void) {
  sigset_t set = tri_stop_signals();
  sigaddset(&set, SIGCHLD);
  return set;
}

void tri_supervisor_prepare(void) {
  sigset_t set = awaited();
  struct sigaction ignore = {.sa_handler = SIG_IGN}, plain = {.sa_handler = SIG_DFL};
  sigprocmask(SIG_BLOCK, &set, NULL);
  sigaction(SIGPIPE, &ignore, NULL);
  sigaction(SIGCHLD, &plain, NULL);          /* if it is ignored, children cannot be waited for */
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); /* ranks whose launcher was killed become children of this process */
}

int tri_supervisor_asked(void) {
  sigset_t set = tri_stop_signals();
  struct timespec none = {0};
  int asked = 0;
  while (sigtimedwait(&set, NULL, &none) > 0) asked++;
  return asked;
}

/* ---- ending the job ---------------------------------------------------------------------------------------------- */

/* Returns whether a process was started with this job's token in its environment. */
static bool is_of_job(const supervisor *a, pid_t pid) { return tri_process_environment_has(pid, a->listener.token); }

/* Kills all processes of the job on this host except the launcher. */
static void sweep(const supervisor *a) {
  DIR *folder = opendir("/proc");
  if (folder == NULL) return;
  for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    pid_t pid = (pid_t)atol(entry->d_name);
    if (pid <= 1 || pid == getpid() || pid == a->launcher || !is_of_job(a, pid)) continue;
    int handle = (int)syscall(SYS_pidfd_open, pid, 0); /* another process may have this process id by now */
    if (handle < 0) continue;
    if (is_of_job(a, pid)) syscall(SYS_pidfd_send_signal, handle, SIGKILL, NULL, 0);
    close(handle);
  }
  closedir(folder);
}

/* Ends the job at once. Ranks are killed first, because stopped ranks would outlive a launcher that is only asked to
 * end. The launcher then cleans up. */
static void end_job(supervisor *a) {
  if (a->ending->ended || a->reaped) return;
  a->ending->ended = true;
  a->ending_s = 0;
  sweep(a);
  kill(a->launcher, SIGTERM);
  kill(a->launcher, SIGCONT);
}

/* ---- reports from the ranks -------------------------------------------------------------------------------------- */

static void read_report(supervisor *a, const char *line) {
  long long rank = -1, step, all;
  long pid;
  int place = 0;
  if (sscanf(line, "rank %lld %ld %n", &rank, &pid, &place) == 2 && rank >= 0 && rank < a->start->num_ranks) {
    a->ranks[rank].pid = pid;
    snprintf(a->ranks[rank].place, TRI_PLACE_BYTES, "%s", line + place);
  } else if (sscanf(line, "step %lld", &step) == 1) {
    a->ending->steps = step;
    a->quiet_s = 0;
  } else if (sscanf(line, "texts %lld of %lld", &step, &all) == 2) {
    a->ending->texts = step;
    a->ending->all_texts = all;
  } else if (strcmp(line, "serving") == 0) {
    a->ending->serves = true;
    a->quiet_s = 0;
  }
}

static void record_failure(tri_ending *e, bool secondary, int exit_status, const char *text) {
  tri_status status = tri_status_of_exit(exit_status);
  if (status == TRI_OK) status = TRI_COMM; /* a rank that has not failed does not send an error message */
  tri_words *words = secondary ? &e->secondary : &e->own;
  if (status == TRI_INTERRUPTED) words = &e->interrupted;
  if (*text == '\0' || words->said || e->ended || (words == &e->own && e->crash_signal != 0)) return;
  words->said = true;
  words->status = status;
  snprintf(words->text, sizeof words->text, "%s", text);
}

/* Handles a line of the launcher's output. */
static void read_line(supervisor *a, char *line) {
  static const char failure[] = "trireme: ";
  tri_words *launcher_error = &a->ending->launcher_error;
  if (line[0] >= TRI_LOG_PARENT_MARK && line[0] <= TRI_LOG_PROGRESS_MARK) {
    a->alive = true;
    for (char *at = line; (at = strchr(at, TRI_LOG_NEW_LINE)) != NULL;) *at = '\n';
  }
  if (line[0] == TRI_LOG_PARENT_MARK) {
    read_report(a, line + 1);
  } else if (line[0] == TRI_LOG_MARK && strncmp(line + 1, failure, sizeof failure - 1) == 0) {
    if (launcher_error->said || a->ending->ended) return;
    launcher_error->said = true;
    snprintf(launcher_error->text, sizeof launcher_error->text, "%s", line + sizeof failure);
  } else if (line[0] == TRI_LOG_MARK) {
    tri_log("%s", line + 1);
  } else if (line[0] == TRI_LOG_PROGRESS_MARK) {
    tri_log_progress("%s", line + 1);
  } else {
    tri_noise_add(&a->ending->noise, line);
  }
}

/* Reads the launcher's output and splits it into lines. A line ends with a newline, or if the buffer is full. */
static void read_output(supervisor *a) {
  ssize_t got = read(a->output, a->line + a->held, LINE_BYTES - 1 - a->held);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {
    if (a->held > 0 && !a->skips) read_line(a, a->line);
    close(a->output);
    a->output = -1;
    return;
  }
  a->held += (size_t)got;
  a->line[a->held] = '\0';
  char *begin = a->line;
  for (char *end; (end = memchr(begin, '\n', a->held - (size_t)(begin - a->line))) != NULL; begin = end + 1) {
    *end = '\0';
    if (!a->skips) read_line(a, begin);
    a->skips = false;
  }
  a->held -= (size_t)(begin - a->line);
  memmove(a->line, begin, a->held);
  a->line[a->held] = '\0';
  if (a->held < LINE_BYTES - 1) return;
  if (!a->skips) read_line(a, a->line);
  a->skips = true;
  a->held = 0;
}

/* Handles a connection that was closed without TRI_PARENT_LEAVE and without an error message: a failure without a
 * report. */
static void handle_end(supervisor *a, const tri_speaker *from) {
  tri_ending *e = a->ending;
  if (from->left || from->spoke || e->ended || e->silent || e->own.said || e->crash_signal != 0) return;
  e->silent = true;
  e->silent_rank = from->rank < a->start->num_ranks ? from->rank : -1;
}

static void hear(void *context, tri_speaker *from, bool gone, tri_parent_kind kind, int number, const char *text) {
  supervisor *a = context;
  tri_ending *e = a->ending;
  bool known = from->rank >= 0 && from->rank < a->start->num_ranks;
  a->alive = true;
  if (known) {
    if (a->ranks[from->rank].pid == 0) a->ranks[from->rank].pid = from->pid;
    memcpy(a->ranks[from->rank].host, from->host, sizeof from->host);
  }
  if (gone) {
    handle_end(a, from);
    return;
  }
  switch (kind) {
    case TRI_PARENT_LINE: tri_log("%s", text); break;
    case TRI_PARENT_PROGRESS: tri_log_progress("%s", text); break;
    case TRI_PARENT_NEWS: read_report(a, text); break;
    case TRI_PARENT_WORDS:
    case TRI_PARENT_SECONDARY:
      from->spoke = true;
      record_failure(e, kind == TRI_PARENT_SECONDARY, number, text);
      from->waits = kind == TRI_PARENT_SECONDARY && !e->own.said && e->crash_signal == 0 && !e->ended;
      if (!from->waits) tri_listener_send(from, TRI_PARENT_HEARD);
      break;
    case TRI_PARENT_CRASH:
      from->spoke = true;
      if (e->own.said || e->crash_signal != 0 || e->ended) break;
      e->crash_signal = number;
      e->crashed = known ? from->rank : -1;
      break;
    case TRI_PARENT_LEAVE:
      from->left = true;
      from->exit_status = number;
      break;
    case TRI_PARENT_HELLO:
    case TRI_PARENT_BEAT: break;
  }
}

/* ---- the clock --------------------------------------------------------------------------------------------------- */

/* Acknowledges secondary messages when the cause is known or GRACE_S have passed. Until then the ranks that sent them
 * do not end the job. */
static void answer_secondary(supervisor *a, double passed_s) {
  bool waits = false;
  for (size_t i = 0; i < a->listener.count; i++) waits = waits || a->listener.speakers[i].waits;
  if (!waits) return;
  a->grace_s += passed_s;
  if (!a->ending->own.said && a->ending->crash_signal == 0 && a->grace_s < GRACE_S) return;
  for (size_t i = 0; i < a->listener.count; i++) {
    tri_speaker *speaker = &a->listener.speakers[i];
    if (speaker->waits) tri_listener_send(speaker, TRI_PARENT_HEARD);
    speaker->waits = false;
  }
}

static bool all_left(const supervisor *a) {
  int64_t left = 0, well = 0;
  for (size_t i = 0; i < a->listener.count; i++) {
    left += a->listener.speakers[i].left ? 1 : 0;
    well += a->listener.speakers[i].left && a->listener.speakers[i].exit_status == 0 ? 1 : 0;
  }
  return left >= a->start->num_ranks && well == left;
}

/* Returns whether no rank is connected any more, and either all ranks had connected, or a connected rank has failed. */
static bool all_gone(const supervisor *a) {
  int64_t known = 0;
  bool failed = false;
  for (size_t i = 0; i < a->listener.count; i++) {
    const tri_speaker *speaker = &a->listener.speakers[i];
    if (speaker->socket >= 0) return false;
    known += speaker->known ? 1 : 0;
    failed = failed || (speaker->known && (!speaker->left || speaker->exit_status != 0));
  }
  return known >= a->start->num_ranks || failed;
}

/* Updates ending->all_left. Ends a job that is over if the launcher does not notice within limit_s, or SETTLED_S if
 * that is less. */
static void end_settled(supervisor *a, double passed_s) {
  const tri_ending *e = a->ending;
  double limit_s = a->limit_s > 0 && a->limit_s < SETTLED_S ? a->limit_s : SETTLED_S;
  a->ending->all_left = all_left(a);
  bool settled = e->own.said || e->crash_signal != 0 || e->silent || e->interrupted.said || e->secondary.said ||
                 e->all_left || all_gone(a);
  a->settled_s = settled ? a->settled_s + passed_s : 0;
  if (a->settled_s > limit_s) end_job(a);
}

/* Returns the number of rank processes that have connected. */
static int64_t num_known(const supervisor *a) {
  int64_t count = 0;
  for (size_t i = 0; i < a->listener.count; i++) count += a->listener.speakers[i].known ? 1 : 0;
  return count;
}

/* Returns the number of the job's ranks on this host, as the ranks report it; 0: not known. */
static int64_t num_expected(const supervisor *a) {
  int64_t most = 0;
  for (size_t i = 0; i < a->listener.count; i++) {
    if (a->listener.speakers[i].num_local > most) most = a->listener.speakers[i].num_local;
  }
  return most;
}

static const tri_speaker *most_silent(const supervisor *a, int *num_silent, int *num_there) {
  const tri_speaker *most = NULL;
  *num_silent = *num_there = 0;
  for (size_t i = 0; i < a->listener.count; i++) {
    const tri_speaker *speaker = &a->listener.speakers[i];
    if (!speaker->known || speaker->socket < 0 || speaker->left) continue;
    ++*num_there;
    *num_silent += speaker->silent_s > a->limit_s - 2 * a->beat_s ? 1 : 0;
    if (speaker->silent_s <= a->limit_s) continue;
    if (most == NULL || speaker->silent_s > most->silent_s) most = speaker;
  }
  return most;
}

static void give_up(supervisor *a, const char *who, double silent_s) {
  char last[96] = "it had not made a step";
  tri_ending *e = a->ending;
  if (!e->resumes) {
    snprintf(e->hang, sizeof e->hang, "%s for %.0f s; the job of %lld ranks is ended", who, silent_s,
             (long long)a->start->num_ranks);
    end_job(a);
    return;
  }
  if (e->steps >= 0) snprintf(last, sizeof last, "the last step that was made is %lld", (long long)e->steps);
  snprintf(e->hang, sizeof e->hang,
           "%s for %.0f s, longer than hang_timeout allows; %s. The job of %lld ranks is ended, and the same command "
           "resumes from the newest checkpoint; a larger hang_timeout waits longer",
           who, silent_s, last, (long long)a->start->num_ranks);
  end_job(a);
}

/* Ends the job, with a message in ending->hang, if a rank is silent, some ranks of this host never connect, or the
 * launcher is stopped or starts no ranks. The watchdogs of ranks that are alive detect a stopped rank earlier
 * (recovery/watchdog.h). Without watchdogs, or if all ranks are stopped, it is only detected here. A rank sends
 * heartbeats also while it starts, loads or saves. */
static void judge(supervisor *a, double passed_s) {
  const tri_ending *e = a->ending;
  int num_silent, num_there;
  char who[384], name[TRI_PLACE_BYTES + 64];
  a->quiet_s += passed_s;
  a->late_s = num_known(a) > 0 && num_known(a) < num_expected(a) ? a->late_s + passed_s : 0;
  a->stopped_s = a->stopped ? a->stopped_s + passed_s : 0;
  if (a->limit_s <= 0 || e->ended || a->settled_s > 0) return;
  const tri_speaker *most = most_silent(a, &num_silent, &num_there);
  if (most != NULL) {
    tri_cause_name_rank(e, most->rank, name, sizeof name);
    snprintf(who, sizeof who, "%s on %s, process %ld,%s has given no sign of life", name, most->host, most->pid,
             num_silent < num_there ? ""
             : num_there > 1        ? " like all others here,"
                                    : "");
    give_up(a, who, most->silent_s);
  } else if (a->stopped_s > a->limit_s && a->quiet_s > a->limit_s) {
    snprintf(who, sizeof who, "the launcher, process %ld, has been stopped", (long)a->launcher);
    give_up(a, who, a->stopped_s);
  } else if (a->late_s > a->limit_s + LATE_S) {
    snprintf(who, sizeof who, "of %lld ranks on this host %lld have come to life, and no other",
             (long long)num_expected(a), (long long)num_known(a));
    give_up(a, who, a->late_s);
  } else if (!a->alive && a->quiet_s > a->limit_s + START_S) {
    snprintf(who, sizeof who, "the launcher, process %ld, has brought no rank to life", (long)a->launcher);
    give_up(a, who, a->quiet_s);
  }
}

static void keep_clock(supervisor *a, double passed_s) {
  if (passed_s > 2 * SLICE_S) passed_s = 2 * SLICE_S; /* this process was stopped, or the machine was suspended */
  for (size_t i = 0; i < a->listener.count; i++) a->listener.speakers[i].silent_s += passed_s;
  a->touched_s += passed_s;
  if (a->touched_s > TOUCH_S) {
    tri_error_files_touch(a->folder);
    a->touched_s = 0;
  }
  answer_secondary(a, passed_s);
  end_settled(a, passed_s);
  judge(a, passed_s);
  if (!a->ending->ended || a->reaped) return;
  a->ending_s += passed_s;
  if (a->ending_s < PATIENCE_S) return;
  kill(a->launcher, SIGKILL);
  sweep(a);
}

/* ---- requests to stop -------------------------------------------------------------------------------------------- */

static void forward_stop(supervisor *a) {
  int64_t reached = 0;
  for (size_t i = 0; i < a->listener.count; i++) {
    const tri_speaker *speaker = &a->listener.speakers[i];
    tri_listener_send(speaker, TRI_PARENT_STOP);
    reached += speaker->known ? 1 : 0;
  }
  if (reached < a->start->num_ranks && !a->reaped) kill(a->launcher, SIGUSR1);
}

/* Handles a signal to stop. The first is passed on to the ranks if there is something to save or to finish. A second
 * signal, or one before the job has begun, ends the job. */
static void handle_stop(supervisor *a) {
  tri_ending *e = a->ending;
  e->asked++;
  if (e->asked > 1 || !tri_ending_has_begun(e)) {
    end_job(a);
  } else {
    forward_stop(a);
  }
}

/* Handles a scheduler's request, which never ends the job, however often it comes. It is passed on when all ranks
 * are connected or, if some ranks are on other hosts, after the first step, because the launcher then sends signals,
 * for which every rank must be ready. */
static void handle_request(supervisor *a) {
  if (a->ending->requested || a->ending->asked > 0) return;
  a->ending->requested = true;
  a->stop_waits = true;
}

static void reap(supervisor *a) {
  int result;
  for (pid_t child; (child = waitpid(-1, &result, WNOHANG | WUNTRACED | WCONTINUED)) > 0;) {
    if (child != a->launcher) continue;
    if (WIFSTOPPED(result) || WIFCONTINUED(result)) {
      a->stopped = WIFSTOPPED(result);
    } else {
      a->reaped = true;
      a->ending->launcher_result = result;
    }
  }
}

static void handle_signals(supervisor *a) {
  struct signalfd_siginfo facts;
  while (read(a->signals, &facts, sizeof facts) == (ssize_t)sizeof facts) {
    if (facts.ssi_signo == SIGCHLD) {
      reap(a);
    } else if (tri_stop_is_request((int)facts.ssi_signo)) {
      handle_request(a);
    } else {
      handle_stop(a);
    }
  }
}

/* ---- one start --------------------------------------------------------------------------------------------------- */

/* Waits for at most `wait_s` seconds, handles all events, sends a stop request that has waited, if it need not wait
 * any longer, and advances the clocks. */
static tri_status wait_some(supervisor *a, double wait_s) {
  struct pollfd *polled = NULL;
  size_t lines = tri_listener_num_polled(&a->listener);
  TRI_TRY(tri_alloc("events to wait for", lines + 2, sizeof *polled, &polled));
  tri_listener_fill(&a->listener, polled);
  polled[lines] = (struct pollfd){.fd = a->signals, .events = POLLIN};
  polled[lines + 1] = (struct pollfd){.fd = a->output, .events = POLLIN};
  double begin_s = tri_clock_s();
  int ready = poll(polled, lines + 2, (int)(1000 * wait_s));
  if (ready > 0) {
    tri_listener_hear(&a->listener, polled, lines, hear, a);
    if (polled[lines + 1].revents != 0 && a->output >= 0) read_output(a);
    if (polled[lines].revents != 0) handle_signals(a);
  }
  tri_free(polled);
  if (a->stop_waits && (tri_ending_has_begun(a->ending) || num_known(a) >= a->start->num_ranks)) {
    a->stop_waits = false;
    forward_stop(a);
  }
  keep_clock(a, tri_clock_s() - begin_s);
  return TRI_OK;
}

static bool has_lines(const supervisor *a) {
  for (size_t i = 0; i < a->listener.count; i++) {
    if (a->listener.speakers[i].socket >= 0) return true;
  }
  return false;
}

/* Records an error message from an error file, which the rank could not send. */
static void record_left_failure(void *context, bool secondary, int exit_status, const char *text) {
  supervisor *a = context;
  record_failure(a->ending, secondary, exit_status, text);
}

/* Handles events until the launcher has exited. Then kills the rest of the job if the launcher failed, and handles
 * the remaining reports of the ranks for at most DRAIN_S. */
static tri_status attend(supervisor *a) {
  while (!a->reaped) TRI_TRY(wait_some(a, SLICE_S));
  bool good = WIFEXITED(a->ending->launcher_result) && WEXITSTATUS(a->ending->launcher_result) == 0;
  if (!good) sweep(a);
  for (double end_s = tri_clock_s() + DRAIN_S; (a->output >= 0 || has_lines(a)) && tri_clock_s() < end_s;) {
    TRI_TRY(wait_some(a, 0.02));
  }
  tri_log_progress_end();
  a->ending->all_left = all_left(a);
  tri_error_files_collect(a->folder, record_left_failure, a);
  return TRI_OK;
}

/* Ignores the signals of schedulers' requests in the launcher. LSF sends SIGXCPU to all processes of a job, and a
 * launcher that does not handle it would die. A launcher that passes a signal on to its ranks sets its own handler;
 * ranks block these signals and receive them in any case. */
static void ignore_requests(void) {
  struct sigaction ignore = {.sa_handler = SIG_IGN};
  for (int number = 1; number < NSIG; number++) {
    if (tri_stop_is_request(number)) sigaction(number, &ignore, NULL);
  }
}

static void become_launcher(const supervisor *a, int output, pid_t parent, bool terminal) {
  char text[ENVIRONMENT_BYTES];
  sigset_t none;
  struct sigaction plain = {.sa_handler = SIG_DFL};
  /* Not SIGTERM: Open MPI's handler of it deadlocks while the launcher is forking. Ranks of this host end when the
   * launcher dies (comm/job.c), ranks of other hosts when the daemons there notice it. */
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setpgid(0, 0);
  dup2(output, STDERR_FILENO);
  dup2(output, STDOUT_FILENO);   /* MPICH's launcher prints its banner on standard output; results do not go through the
                                    launcher */
  if (a->start->gives_streams) { /* otherwise the launcher would read input that is meant for rank 0 */
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  }
  setenv(TRI_LAUNCHED, terminal ? "terminal" : "1", 1);
  setenv(TRI_STREAMS, a->start->gives_streams ? "1" : "0", 1);
  tri_listener_environment(&a->listener, (int)(1000 * a->beat_s), a->folder, text, sizeof text);
  setenv(TRI_PARENT, text, 1);
  sigaction(SIGPIPE, &plain, NULL);
  ignore_requests();
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  if (getppid() != parent) _exit(127); /* the parent has just ended */
  execv(a->start->line[0], a->start->line);
  _exit(127);
}

static tri_status start_launcher(supervisor *a) {
  int ends[2];
  bool terminal = isatty(STDERR_FILENO) == 1;
  pid_t parent = getpid();
  if (pipe2(ends, O_CLOEXEC) != 0) return tri_fail(TRI_IO_FAILED, "cannot make a pipe: %s", strerror(errno));
  fflush(NULL);
  a->launcher = fork();
  if (a->launcher == 0) become_launcher(a, ends[1], parent, terminal);
  close(ends[1]);
  if (a->launcher < 0) {
    close(ends[0]);
    return tri_fail(TRI_IO_FAILED, "cannot start %s: %s", a->start->line[0], strerror(errno));
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  a->output = ends[0];
  return TRI_OK;
}

/* Raises the limit of open files to allow a socket for each rank of this host. */
static void raise_limit(int64_t ranks) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= (rlim_t)ranks + FEW_FILES) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

tri_status tri_supervise(const tri_start *start, tri_rank_news *ranks, tri_ending *ending) {
  supervisor *a = NULL;
  sigset_t set = awaited();
  TRI_TRY(tri_alloc("a job", 1, sizeof *a, &a));
  a->start = start;
  a->ranks = ranks;
  a->ending = ending;
  a->output = a->launcher = -1;
  a->limit_s = tri_supervisor_limit_s(start->hang_timeout_s);
  a->beat_s = a->limit_s > 0 && a->limit_s < 50 ? a->limit_s / 10 : 5;
  a->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  raise_limit(start->num_ranks);
  tri_error_files_make(start->output, a->folder);
  tri_status status = tri_listener_open(&a->listener);
  a->listener.gives_streams = start->gives_streams;
  if (status == TRI_OK && a->signals < 0) status = tri_fail(TRI_IO_FAILED, "no signalfd: %s", strerror(errno));
  if (status == TRI_OK) status = start_launcher(a);
  if (status == TRI_OK) status = attend(a);
  if (status != TRI_OK && a->launcher > 0 && !a->reaped) {
    kill(a->launcher, SIGKILL);
    sweep(a);
  }
  tri_error_files_collect(a->folder, record_left_failure, a); /* if attend has not collected them */
  if (a->signals >= 0) close(a->signals);
  if (a->output >= 0) close(a->output);
  tri_listener_close(&a->listener);
  tri_free(a);
  return status;
}
