#include "tune/trial.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "schedule/layout_config.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- simulated --------------------------------------------------------------------------------------------------- */

static void fail_trial(tri_trial *trial, const char *reason) {
  trial->state = TRI_TRIAL_FAILED;
  snprintf(trial->reason, sizeof trial->reason, "%s", reason);
}

static tri_status simulate(const tri_study *study, const tri_trial_plan *plan, tri_trial *trial) {
  tri_prediction prediction;
  tri_simulation_request request = tri_study_request(study, plan);
  TRI_TRY(tri_simulate(&request, &prediction));
  trial->memory = prediction.memory.peak / study->cluster.memory_bytes;
  if (!prediction.fits) {
    fail_trial(trial, "out of memory");
    return TRI_OK;
  }
  trial->state = TRI_TRIAL_DONE;
  trial->value = tri_study_value(study, plan, prediction.step_s);
  return TRI_OK;
}

tri_status tri_trial_expect(const tri_study *study, const tri_point *points, int64_t count, double *values) {
  for (int64_t i = 0; i < count; i++) {
    tri_trial trial = {.point = points[i]};
    tri_trial_plan plan;
    values[i] = 0;
    if (tri_point_plan(study, &points[i], &plan) != TRI_OK) continue;
    TRI_TRY(simulate(study, &plan, &trial));
    if (trial.state == TRI_TRIAL_DONE) values[i] = trial.value;
  }
  return TRI_OK;
}

/* ---- real -------------------------------------------------------------------------------------------------------- */

enum { MOST_WORDS = 64, WORD_BYTES = TRI_PATH_BYTES + 64, MOST_STEPS = 4096 };

typedef struct command {
  char words[MOST_WORDS][WORD_BYTES];
  char *line[MOST_WORDS + 1];
  int count;
} command;

static void add_word(command *c, const char *word) {
  if (c->count == MOST_WORDS) return;
  snprintf(c->words[c->count], WORD_BYTES, "%.4095s", word);
  c->line[c->count] = c->words[c->count];
  c->count++;
}

static void add_set(command *c, const char *key, const char *value) {
  add_word(c, "--set");
  if (c->count == MOST_WORDS) return;
  snprintf(c->words[c->count], WORD_BYTES, "%.32s=%.4095s", key, value);
  c->line[c->count] = c->words[c->count];
  c->count++;
}

static tri_status write_command(const tri_study *study, const tri_trial_plan *plan, const char *folder, command *c) {
  char text[TRI_PATH_BYTES], layout[TRI_LAYOUT_TEXT_BYTES];
  ssize_t length = readlink("/proc/self/exe", text, sizeof text - 1);
  if (length <= 0) return tri_fail(TRI_INTERNAL, "cannot find out this program's own path: %s", strerror(errno));
  text[length] = '\0';
  add_word(c, text);
  add_word(c, "train");
  add_word(c, study->run);
  if (plan->devices > 1) {
    snprintf(text, sizeof text, "%lld", (long long)plan->devices);
    add_word(c, "-n");
    add_word(c, text);
  }
  add_word(c, "--resume");
  add_word(c, "never");
  tri_layout_text(&plan->layout, layout, sizeof layout);
  for (char *at = layout, *next; at != NULL && *at != '\0'; at = next) {
    next = strchr(at, ',');
    if (next != NULL) *next++ = '\0';
    snprintf(text, sizeof text, "layout.%s", at);
    add_word(c, "--set");
    add_word(c, text);
  }
  snprintf(text, sizeof text, "%lld", (long long)plan->global_batch);
  add_set(c, "optimizer.global_batch", text);
  snprintf(text, sizeof text, "%ld", (long)study->trial.warmup + (long)study->trial.steps);
  add_set(c, "optimizer.steps", text);
  add_set(c, "output", folder);
  add_set(c, "evaluation.every", "0");
  add_set(c, "checkpoint.every", "0");
  add_set(c, "max_restarts", "0");
  c->line[c->count] = NULL;
  return TRI_OK;
}

static pid_t start(const command *c, const char *log) {
  pid_t parent = getpid(), child = fork();
  if (child != 0) return child;
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* a trial does not outlive its tuner */
  if (getppid() != parent) _exit(127);
  int file = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (file >= 0) {
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    close(file);
  }
  execv(c->line[0], c->line);
  _exit(127);
}

/* Asks it to stop, and after a while makes it. Its ranks end with it: they hear of their parent's death. */
static void stop(pid_t child, int *result) {
  kill(child, SIGTERM);
  for (int i = 0; i < 100; i++) {
    if (waitpid(child, result, WNOHANG) != 0) return;
    nanosleep(&(struct timespec){0, 50000000}, NULL);
  }
  kill(-child, SIGKILL);
  while (waitpid(child, result, 0) < 0 && errno == EINTR) {
  }
}

/* Seconds of the steps behind the warm-up, as far as they are there. */
static int64_t read_steps(const tri_study *study, const char *folder, double seconds[MOST_STEPS]) {
  char path[TRI_PATH_BYTES], line[4096];
  int64_t count = 0;
  if (tri_path_join(path, folder, "metrics.jsonl") != TRI_OK) return 0;
  FILE *from = fopen(path, "r");
  if (from == NULL) return 0;
  for (int64_t step = 0; fgets(line, sizeof line, from) != NULL && count < MOST_STEPS; step++) {
    json_t *object = json_loads(line, 0, NULL);
    double took = json_number_value(json_object_get(object, "step_s"));
    json_decref(object);
    if (step >= study->trial.warmup && took > 0) seconds[count++] = took;
  }
  fclose(from);
  return count;
}

static int compare(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

static double median_step(const tri_study *study, const char *folder, int64_t *count) {
  double seconds[MOST_STEPS];
  *count = read_steps(study, folder, seconds);
  if (*count == 0) return 0;
  qsort(seconds, (size_t)*count, sizeof *seconds, compare);
  return seconds[*count / 2];
}

/* The last line of what it said: the program says its failure there. */
static void last_words(const char *log, char *out, size_t bytes) {
  char line[1024];
  FILE *from = fopen(log, "r");
  snprintf(out, bytes, "it said nothing");
  if (from == NULL) return;
  while (fgets(line, sizeof line, from) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "trireme: ", 9) == 0) snprintf(out, bytes, "%.150s", line + 9);
  }
  fclose(from);
}

static void judge(const tri_study *study, const tri_trial_plan *plan, const char *folder, const char *log, int result,
                  bool early, tri_trial *trial) {
  char words[160];
  int64_t count = 0;
  double step_s = median_step(study, folder, &count);
  bool good = WIFEXITED(result) && WEXITSTATUS(result) == 0;
  if ((good || early) && count > 0) {
    trial->state = TRI_TRIAL_DONE;
    trial->value = tri_study_value(study, plan, step_s);
    if (early) snprintf(trial->reason, sizeof trial->reason, "stopped early: clearly slower than the best");
    return;
  }
  last_words(log, words, sizeof words);
  bool memory = WIFEXITED(result) && WEXITSTATUS(result) == tri_status_exit(TRI_OUT_OF_MEMORY);
  snprintf(trial->reason, sizeof trial->reason, "%s: %s",
           memory                ? "out of memory"
           : WIFSIGNALED(result) ? "killed"
                                 : "failed",
           words);
  trial->state = TRI_TRIAL_FAILED;
}

/* Whether it is clear by now that the trial is no good: halfway through, its steps take too long. */
static bool is_hopeless(const tri_study *study, const tri_trial_plan *plan, const char *folder, double best) {
  int64_t count = 0;
  double step_s = median_step(study, folder, &count);
  if (best <= 0 || count < (study->trial.steps + 1) / 2 || count >= study->trial.steps) return false;
  return tri_study_value(study, plan, step_s) * study->trial.worse < best;
}

static tri_status run_real(const tri_study *study, const tri_trial_plan *plan, const char *folder, double best,
                           tri_trial *trial) {
  char log[TRI_PATH_BYTES];
  command *c = NULL;
  int result = 0;
  bool early = false, late = false;
  TRI_TRY(tri_directory_create(folder));
  TRI_TRY(tri_path_join(log, folder, "log.txt"));
  TRI_TRY(tri_alloc("a command line", 1, sizeof *c, &c));
  tri_status status = write_command(study, plan, folder, c);
  double begin_s = tri_clock_s();
  pid_t child = status == TRI_OK ? start(c, log) : -1;
  tri_free(c);
  TRI_TRY(status);
  if (child < 0) return tri_fail(TRI_IO_FAILED, "cannot start a trial: %s", strerror(errno));
  while (waitpid(child, &result, WNOHANG) == 0) {
    nanosleep(&(struct timespec){0, 100000000}, NULL);
    late = tri_clock_s() - begin_s > 60 * study->trial.minutes;
    early = !late && is_hopeless(study, plan, folder, best);
    if (!late && !early) continue;
    stop(child, &result);
    break;
  }
  if (late) {
    fail_trial(trial, "out of time");
  } else {
    judge(study, plan, folder, log, result, early, trial);
  }
  return tri_directory_remove(folder);
}

tri_status tri_trial_run(const tri_study *study, const char *folder, double best, tri_trial *trial) {
  tri_trial_plan plan;
  double begin_s = tri_clock_s();
  tri_status status = tri_point_plan(study, &trial->point, &plan);
  if (status == TRI_BAD_LAYOUT || status == TRI_UNSUPPORTED) {
    char reason[sizeof trial->reason];
    snprintf(reason, sizeof reason, "not legal: %.200s", tri_status_message());
    fail_trial(trial, reason);
    return TRI_OK;
  }
  TRI_TRY(status);
  status = study->run[0] == '\0' ? simulate(study, &plan, trial) : run_real(study, &plan, folder, best, trial);
  trial->seconds = tri_clock_s() - begin_s;
  return status;
}
