#include "launch/cause.h"

#include "launch/launcher_messages.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

void tri_noise_add(tri_noise *noise, const char *line) {
  size_t length = strlen(line), half = TRI_NOISE_BYTES / 2;
  if (length > half / 2) length = half / 2;
  size_t need = length + 2;
  if (noise->length + need > TRI_NOISE_BYTES) {
    size_t dropped = noise->length + need - TRI_NOISE_BYTES;
    const char *end = memchr(noise->text + half + dropped, '\n', noise->length - half - dropped);
    if (end != NULL) dropped = (size_t)(end + 1 - noise->text) - half;
    memmove(noise->text + half, noise->text + half + dropped, noise->length - half - dropped);
    noise->length -= dropped;
  }
  memcpy(noise->text + noise->length, line, length);
  noise->length += length;
  noise->text[noise->length++] = '\n';
  noise->text[noise->length] = '\0';
}

const char *tri_cause_name_rank(const tri_ending *ending, int64_t rank, char *text, size_t bytes) {
  const char *place = rank < 0 || rank >= ending->num_ranks ? "" : ending->ranks[rank].place;
  if (rank < 0) {
    snprintf(text, bytes, "a rank");
  } else {
    snprintf(text, bytes, "rank %lld%s%s%s", (long long)rank, *place == '\0' ? "" : " (", place,
             *place == '\0' ? "" : ")");
  }
  return text;
}

/* Returns the rank that a death belongs to; -1: not known. */
static int64_t rank_of(const tri_ending *e, const tri_rank_death *death) {
  if (death->rank >= 0 && death->rank < e->num_ranks) return death->rank;
  for (int64_t r = 0; r < e->num_ranks; r++) {
    if (death->pid > 0 && e->ranks[r].pid == death->pid) return r;
  }
  return -1;
}

bool tri_ending_has_begun(const tri_ending *e) { return e->steps >= 0 || e->texts >= 0 || e->serves; }

/* Writes the words about the time of a failure, such as ", at step 12", or "". Returns text. */
static const char *when(const tri_ending *e, char text[64]) {
  text[0] = '\0';
  if (e->resumes) snprintf(text, 64, ", before its first step");
  if (e->steps >= 0) snprintf(text, 64, ", at step %lld", (long long)e->steps + 1);
  return text;
}

/* Writes the words about results that remain after a failure, such as "; 12 of 200 texts are in the output", or "".
 * Returns text. */
static const char *kept(const tri_ending *e, char text[96]) {
  text[0] = '\0';
  if (e->resumes) {
    snprintf(text, 96, "; the same command resumes from the newest checkpoint");
  } else if (e->texts >= 0) {
    snprintf(text, 96, "; %lld of %lld texts are in the output", (long long)e->texts, (long long)e->all_texts);
  }
  return text;
}

static const char *node_of(const tri_ending *e, int64_t rank) {
  return rank < 0 || rank >= e->num_ranks || e->ranks[rank].host[0] == '\0' ? "its node" : e->ranks[rank].host;
}

static tri_status report_death(const tri_ending *e, int64_t rank, const char *node, int number) {
  char who[TRI_PLACE_BYTES + 64], at[64], rest[96];
  const char *hint =
      number == SIGKILL ? " (if no user did, the system did, because memory ran out: see dmesg there)" : "";
  return tri_fail(TRI_COMM, "%s on %s was killed by signal %d (%s)%s%s; the job of %lld ranks is ended%s",
                  tri_cause_name_rank(e, rank, who, sizeof who), node, number, strsignal(number), hint, when(e, at),
                  (long long)e->num_ranks, kept(e, rest));
}

static tri_status report_silence(const tri_ending *e) {
  char who[TRI_PLACE_BYTES + 64], at[64], rest[96];
  return tri_fail(
      TRI_COMM,
      "%s on %s ended without an error message%s; the job of %lld ranks is ended%s. Output of the launcher:\n"
      "%s",
      tri_cause_name_rank(e, e->silent_rank, who, sizeof who), node_of(e, e->silent_rank), when(e, at),
      (long long)e->num_ranks, kept(e, rest), e->noise.text);
}

bool tri_ending_was_asked(const tri_ending *e) { return e->asked > 0 || e->requested; }

static tri_status report_interruption(const tri_ending *e) {
  if (e->interrupted.said) return tri_fail(TRI_INTERRUPTED, "%s", e->interrupted.text);
  bool good = (WIFEXITED(e->launcher_result) && WEXITSTATUS(e->launcher_result) == 0) || e->all_left;
  char rest[96];
  if (!e->resumes) return tri_fail(TRI_INTERRUPTED, "interrupted%s", kept(e, rest));
  if (good) return tri_fail(TRI_INTERRUPTED, "interrupted as the last step was made; the run is complete");
  if (e->steps < 0) return tri_fail(TRI_INTERRUPTED, "interrupted before the first step; nothing is lost");
  return tri_fail(
      TRI_INTERRUPTED,
      "interrupted%s after step %lld, without a checkpoint of it; the same command resumes from the newest one",
      e->asked > 1 ? " twice, so at once," : "", (long long)e->steps);
}

static tri_status report_words(const tri_words *words) { return tri_fail(words->status, "%s", words->text); }

/* Fails with the first of the causes that remain if no rank has reported its own failure (tri_cause_report). */
static tri_status report_launcher(const tri_ending *e) {
  tri_rank_death death;
  char rest[96];
  int result = e->launcher_result;
  tri_status status = WIFEXITED(result) ? tri_status_of_exit(WEXITSTATUS(result)) : TRI_COMM;
  if (status == TRI_OK) status = TRI_COMM; /* a rank has failed nevertheless */
  int code = WIFEXITED(result) ? WEXITSTATUS(result) : 128 + WTERMSIG(result);
  bool killed = tri_rank_death_find(e->noise.text, &death) && death.signal > 0;
  if (e->launcher_error.said && !(killed && status == TRI_COMM)) return tri_fail(status, "%s", e->launcher_error.text);
  if (WIFSIGNALED(result) && !e->ended) {
    return tri_fail(TRI_COMM, "the launcher was killed by signal %d (%s), and the job of %lld ranks with it%s",
                    WTERMSIG(result), strsignal(WTERMSIG(result)), (long long)e->num_ranks, kept(e, rest));
  }
  if (killed) return report_death(e, rank_of(e, &death), death.node, death.signal);
  if (e->interrupted.said) return report_words(&e->interrupted);
  if (e->silent) return report_silence(e);
  if (e->secondary.said) return report_words(&e->secondary);
  if (status == TRI_INTERRUPTED) return tri_fail(status, "interrupted");
  return tri_fail(TRI_COMM,
                  "the job of %lld ranks ended with status %d, but no rank printed an error message%s. Output of the "
                  "launcher:\n%s",
                  (long long)e->num_ranks, code, kept(e, rest), e->noise.text);
}

tri_status tri_cause_report(const tri_ending *e) {
  if (e->hang[0] != '\0') return tri_fail(TRI_COMM, "%s", e->hang);
  if (e->own.said) return report_words(&e->own);
  if (e->crash_signal != 0) return report_death(e, e->crashed, node_of(e, e->crashed), e->crash_signal);
  bool good = WIFEXITED(e->launcher_result) && WEXITSTATUS(e->launcher_result) == 0;
  if (tri_ending_was_asked(e) && e->launcher_error.said && !e->ended && !good) return report_launcher(e);
  if (tri_ending_was_asked(e)) return report_interruption(e);
  if ((good && !e->silent && !e->secondary.said && !e->interrupted.said && !e->launcher_error.said) || e->all_left)
    return TRI_OK;
  return report_launcher(e);
}
