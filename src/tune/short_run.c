#include "tune/short_run.h"

#include "base/count.h"
#include "base/memory.h"
#include "base/system.h"
#include "files/lines.h"
#include "run/named_metrics.h"
#include "schedule/layout_config.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { MOST_STEPS = 4096, LONGEST_LINE_BYTES = 1 << 20 };

static void add_word(tri_short_run *run, const char *word) {
  if (run->count == TRI_RUN_WORDS) return;
  snprintf(run->words[run->count], TRI_RUN_WORD_BYTES, "%.4150s", word);
  run->line[run->count] = run->words[run->count];
  run->count++;
}

void tri_short_run_add(tri_short_run *run, const char *option, const char *value) {
  add_word(run, option);
  add_word(run, value);
}

void tri_short_run_set(tri_short_run *run, const char *key, const char *format, ...) {
  char value[TRI_PATH_BYTES], word[TRI_RUN_WORD_BYTES];
  va_list list;
  va_start(list, format);
  vsnprintf(value, sizeof value, format, list);
  va_end(list);
  snprintf(word, sizeof word, "%.48s=%.4095s", key, value);
  add_word(run, "--set");
  add_word(run, word);
}

tri_status tri_short_run_create(const tri_study *study, int64_t ranks, const char *folder, const char *resume,
                                tri_short_run **out) {
  char text[TRI_PATH_BYTES];
  tri_short_run *run = NULL;
  TRI_TRY(tri_system_own_path(text, sizeof text));
  TRI_TRY(tri_alloc("a command line", 1, sizeof *run, &run));
  add_word(run, text);
  add_word(run, "train");
  add_word(run, study->run);
  if (ranks > 1) {
    snprintf(text, sizeof text, "%lld", (long long)ranks);
    add_word(run, "-n");
    add_word(run, text);
  }
  tri_short_run_add(run, "--resume", resume);
  tri_short_run_set(run, "output", "%s", folder);
  tri_short_run_set(run, "max_restarts", "0");
  /* The study decides when a run ends, and which of the run's checkpoints stay. */
  tri_short_run_set(run, "evaluation.stop_after", "0");
  tri_short_run_set(run, "checkpoint.best", "false");
  tri_short_run_set(run, "samples.prompts", "[]"); /* the samples are unused, and random tokens have no text */
  *out = run;
  return TRI_OK;
}

void tri_short_run_plan(tri_short_run *run, const tri_study *study, const tri_trial_plan *plan) {
  char layout[TRI_LAYOUT_TEXT_BYTES], word[TRI_LAYOUT_WORD_BYTES];
  tri_layout_text_of_all(&plan->layout, layout, sizeof layout);
  for (const char *at = layout; tri_layout_next_word(&at, word);) {
    char key[TRI_LAYOUT_WORD_BYTES + 8], *value = strchr(word, '=');
    *value++ = '\0';
    snprintf(key, sizeof key, "layout.%s", word);
    tri_short_run_set(run, key, "%s", value);
  }
  for (int64_t k = 0; k < study->space.num_knobs; k++) {
    const char *knob = study->space.knobs[k].name, *chosen = tri_study_optimizer_word(knob, &plan->optimizer);
    if (chosen != NULL) tri_short_run_set(run, knob, "%s", chosen);
  }
  tri_short_run_set(run, "optimizer.global_batch", "%ld", (long)plan->global_batch);
  tri_short_run_set(run, "optimizer.steps", "%ld", (long)tri_study_trial_steps(study));
}

void tri_short_run_learn(tri_short_run *run, const tri_trial_plan *plan) {
  char settings[sizeof plan->settings], *rest = NULL;
  memcpy(settings, plan->settings, sizeof settings);
  for (char *key = strtok_r(settings, " ", &rest); key != NULL; key = strtok_r(NULL, " ", &rest)) {
    char *value = strchr(key, '=');
    *value++ = '\0';
    tri_short_run_set(run, key, "%s", value);
  }
}

tri_process_limits tri_short_run_limits(const tri_study *study, int part) {
  return (tri_process_limits){
      .memory_bytes = (size_t)(study->trial.memory_gib * 1073741824.0), .part = part, .parts = (int)study->parallel};
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

/* Reads the next line. Returns false at the end of the file. An error counts as the end. */
static bool next_line(tri_lines *lines, tri_line *line) {
  bool there = false;
  return lines != NULL && tri_lines_next_any(lines, line, &there) == TRI_OK && there;
}

/* Reads the number `key` of each line of metrics.jsonl after the first `skip` lines. The file has one line for each
 * step. Returns how many numbers were read. */
static int64_t read_metrics(const char *folder, const char *key, int64_t skip, double values[MOST_STEPS]) {
  char path[TRI_PATH_BYTES];
  tri_line line;
  tri_lines *lines = NULL;
  int64_t count = 0;
  if (tri_path_join(path, folder, "metrics.jsonl") != TRI_OK) return 0;
  if (tri_lines_open(path, LONGEST_LINE_BYTES, &lines) != TRI_OK) return 0;
  for (int64_t step = 0; count < MOST_STEPS && next_line(lines, &line); step++) {
    json_t *object = json_loadb(line.text, line.bytes, 0, NULL);
    json_t *value = json_object_get(object, key);
    if (step >= skip && json_is_number(value)) values[count++] = json_number_value(value);
    json_decref(object);
  }
  tri_lines_close(lines);
  return count;
}

double tri_short_run_step_s(const char *folder, int64_t skip, int64_t *count) {
  double seconds[MOST_STEPS];
  *count = read_metrics(folder, "step_s", skip, seconds);
  if (*count == 0) return 0;
  qsort(seconds, (size_t)*count, sizeof *seconds, tri_compare_doubles);
  return 0.5 * (seconds[(*count - 1) / 2] + seconds[*count / 2]);
}

double tri_short_run_loss(tri_objective objective, const char *folder, int64_t step) {
  char path[TRI_PATH_BYTES];
  tri_line line;
  tri_lines *lines = NULL;
  double found = NAN;
  if (tri_path_join(path, folder, "metrics.jsonl") != TRI_OK) return NAN;
  if (tri_lines_open(path, LONGEST_LINE_BYTES, &lines) != TRI_OK) return NAN;
  while (next_line(lines, &line)) {
    json_t *object = json_loadb(line.text, line.bytes, 0, NULL);
    const bool accuracy = objective == TRI_OBJECTIVE_VALIDATION_ACCURACY;
    const json_t *value = json_object_get(object, accuracy ? TRI_HELD_OUT_ACCURACY : "validation_loss");
    if (json_integer_value(json_object_get(object, "step")) == step) {
      const double number = json_is_number(value) ? json_number_value(value) : NAN;
      found = accuracy ? 1 - number : number;
    }
    json_decref(object);
  }
  tri_lines_close(lines);
  return found;
}

tri_way_to_loss tri_short_run_way_to_loss(const char *folder, double target) {
  char path[TRI_PATH_BYTES];
  tri_line line;
  tri_lines *lines = NULL;
  tri_way_to_loss way = {.loss = NAN};
  if (tri_path_join(path, folder, "metrics.jsonl") != TRI_OK) return way;
  if (tri_lines_open(path, LONGEST_LINE_BYTES, &lines) != TRI_OK) return way;
  while (!way.reached && next_line(lines, &line)) {
    json_t *object = json_loadb(line.text, line.bytes, 0, NULL);
    const json_t *loss = json_object_get(object, "validation_loss");
    way.seconds += json_number_value(json_object_get(object, "step_s"));
    if (object != NULL) way.step = json_integer_value(json_object_get(object, "step"));
    if (json_is_number(loss)) way.loss = json_number_value(loss);
    way.reached = json_is_number(loss) && way.loss <= target;
    json_decref(object);
  }
  tri_lines_close(lines);
  return way;
}

static bool ended_with(const tri_child *process, tri_status status) {
  return WIFEXITED(process->result) && WEXITSTATUS(process->result) == tri_status_exit(status);
}

bool tri_short_run_lacks_file(const tri_child *process) {
  return ended_with(process, TRI_BAD_FILE) || ended_with(process, TRI_IO_FAILED);
}

static bool is_refused(const tri_child *process) {
  return tri_short_run_lacks_file(process) || ended_with(process, TRI_BAD_CONFIG) || ended_with(process, TRI_BAD_USAGE);
}

void tri_short_run_reason(const tri_child *process, const char *log, char *reason, size_t bytes) {
  char words[224] = "it printed nothing";
  int result = process->result;
  tri_line line;
  tri_lines *lines = NULL;
  if (tri_lines_open(log, LONGEST_LINE_BYTES, &lines) != TRI_OK) lines = NULL;
  while (next_line(lines, &line)) { /* the program writes its error message to the log */
    if (strncmp(line.text, "trireme: ", 9) == 0) snprintf(words, sizeof words, "%s", line.text + 9);
  }
  if (strlen(words) == sizeof words - 1) { /* the message was longer: it is cut after its last whole word */
    char *blank = strrchr(words, ' ');
    if (blank != NULL) memcpy(blank, "...", blank + 4 > words + sizeof words ? 0 : 4);
  }
  tri_lines_close(lines);
  for (char *at = words; *at != '\0'; at++) { /* the cut may be in the middle of a letter of several bytes */
    if ((unsigned char)*at < ' ' || (unsigned char)*at > '~') *at = '?';
  }
  const char *kind = ended_with(process, TRI_OUT_OF_MEMORY) ? "out of memory: "
                     : WIFSIGNALED(result)                  ? "killed: "
                     : is_refused(process)                  ? TRI_TRIAL_REFUSED
                                                            : "failed: ";
  snprintf(reason, bytes, "%s%s", kind, words);
}
