/* Reports of a study by successive halving. */
#include "base/format.h"
#include "base/memory.h"
#include "page/html.h"
#include "tune/halving.h"
#include "tune/loss_plot.h"
#include "tune/study_objective.h"
#include "tune/trial_schedule.h"

#include <stdlib.h>
#include <string.h>

/* A trial, with the last round that it ended; or with its first round, if the trial has ended none. Standings are
 * sorted by round, the latest first, then by loss. Failed trials come last. */
typedef struct standing {
  const tri_member *last;
  double seconds; /* duration of all rounds of the trial together */
} standing;

static int compare_standings(const void *left, const void *right) {
  const tri_member *a = ((const standing *)left)->last, *b = ((const standing *)right)->last;
  const bool a_failed = a->state == TRI_TRIAL_FAILED, b_failed = b->state == TRI_TRIAL_FAILED;
  if (a_failed != b_failed) return a_failed ? 1 : -1;
  if (a->round != b->round) return a->round < b->round ? 1 : -1;
  const double la = tri_rounds_loss(a), lb = tri_rounds_loss(b);
  if (la != lb) return la > lb ? 1 : -1;
  return (a->member > b->member) - (a->member < b->member);
}

/* Sets *out to the sorted standings of all trials, and returns their number; 0 if there is not enough memory. Release
 * *out with tri_free. */
static int64_t stand(const tri_member *rows, int64_t count, standing **out) {
  int64_t found = 0;
  if (tri_alloc("standings", (size_t)count, sizeof **out, out) != TRI_OK) return 0;
  for (int64_t i = 0; i < count; i++) {
    int64_t at = 0;
    while (at < found && (*out)[at].last->member != rows[i].member) at++;
    const bool held = at < found, ended = rows[i].state != TRI_TRIAL_RUNNING;
    if (!held) (*out)[found++] = (standing){.last = &rows[i]};
    if (ended && rows[i].round >= (*out)[at].last->round) (*out)[at].last = &rows[i];
    (*out)[at].seconds += rows[i].seconds;
  }
  qsort(*out, (size_t)found, sizeof **out, compare_standings);
  return found;
}

/* Returns the number of steps of all rounds that have ended. A failed round counts with all its steps. */
static int64_t steps_made(const tri_study *study, const tri_member *rows, int64_t count) {
  int64_t steps = 0;
  for (int64_t i = 0; i < count; i++) {
    if (rows[i].state == TRI_TRIAL_RUNNING) continue;
    const int64_t before = rows[i].round == 1 ? 0 : tri_halving_last_step(study, rows[i].round - 1);
    steps += tri_halving_last_step(study, rows[i].round) - before;
  }
  return steps;
}

static const tri_member *winner_of(const tri_member *rows, int64_t count) {
  const tri_member *best = tri_rounds_best(rows, count);
  return best != NULL && best->round == TRI_HALVING_ROUNDS ? best : NULL;
}

static void write_note(const tri_study *study, const tri_member *row, char note[320]) {
  const long step = (long)tri_halving_last_step(study, row->round);
  switch (row->state) {
    case TRI_TRIAL_RUNNING: snprintf(note, 320, "running"); return;
    case TRI_TRIAL_FAILED: snprintf(note, 320, "%s", row->reason); return;
    case TRI_TRIAL_DONE: break;
  }
  snprintf(note, 320, row->round == TRI_HALVING_ROUNDS ? "after all %ld step%s" : "after %ld step%s", step,
           TRI_PLURAL(step));
}

static void print_rows(const tri_study *study, const standing *of, int64_t trials, FILE *to) {
  for (int64_t i = 0; i < trials; i++) {
    const tri_member *row = of[i].last;
    char text[TRI_POINT_TEXT_BYTES], note[320], loss[24] = "";
    write_note(study, row, note);
    if (row->state == TRI_TRIAL_DONE) snprintf(loss, sizeof loss, "%.4f", row->loss);
    fprintf(to, "%4ld  trial %-5ld %10s  %s  (%s)\n", (long)i + 1, (long)row->member, loss,
            tri_point_text(&study->space, &row->point, text, sizeof text), note);
  }
}

void tri_halving_text(const tri_study *study, const tri_member *rows, int64_t count, FILE *to) {
  standing *of = NULL;
  const int64_t trials = stand(rows, count, &of);
  const tri_member *winner = winner_of(rows, count);
  fprintf(to, "%s: halving of %ld trial%s, %ld steps made; each to its end would be %ld; %s\n", study->name,
          (long)trials, TRI_PLURAL(trials), (long)steps_made(study, rows, count), (long)(trials * study->trial.steps),
          tri_objective_loss_name(study->objective));
  print_rows(study, of, trials, to);
  tri_free(of);
  if (winner == NULL) {
    fprintf(to, "no trial has finished yet\n");
    return;
  }
  tri_trial_schedule_print_use(study, &winner->point, to);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static json_t *json_of_trial(const tri_study *study, const tri_member *rows, int64_t count, const standing *of) {
  const tri_member *row = of->last;
  char text[TRI_POINT_TEXT_BYTES];
  json_t *losses = json_array();
  for (int64_t i = 0; i < count; i++) {
    if (rows[i].member != row->member || rows[i].state != TRI_TRIAL_DONE) continue;
    json_array_append_new(
        losses,
        json_pack("{s:I, s:f}", "step", (json_int_t)tri_halving_last_step(study, rows[i].round), "loss", rows[i].loss));
  }
  const bool early = row->state == TRI_TRIAL_DONE && row->round < TRI_HALVING_ROUNDS;
  json_t *object = json_pack("{s:I, s:s, s:s, s:s, s:f, s:b, s:I, s:o}", "number", (json_int_t)row->member, "point",
                             tri_point_text(&study->space, &row->point, text, sizeof text), "state",
                             tri_trial_state_name(row->state), "reason", row->reason, "seconds", of->seconds, "early",
                             early, "steps", (json_int_t)tri_halving_last_step(study, row->round), "losses", losses);
  if (row->state == TRI_TRIAL_DONE) json_object_set_new(object, "value", json_real(row->loss));
  return object;
}

json_t *tri_halving_json(const tri_study *study, const tri_member *rows, int64_t count) {
  standing *of = NULL;
  char text[TRI_POINT_TEXT_BYTES];
  const int64_t trials = stand(rows, count, &of);
  const tri_member *winner = winner_of(rows, count);
  json_t *list = json_array();
  int64_t failed = 0;
  for (int64_t i = 0; i < trials; i++) {
    json_array_append_new(list, json_of_trial(study, rows, count, &of[i]));
    failed += of[i].last->state == TRI_TRIAL_FAILED;
  }
  tri_free(of);
  json_t *document =
      json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:o}", "study", study->name, "unit",
                tri_objective_unit(study->objective), "method", "halving", "done", (json_int_t)(trials - failed),
                "failed", (json_int_t)failed, "steps", (json_int_t)steps_made(study, rows, count), "steps_of_all",
                (json_int_t)(trials * study->trial.steps), "trials", list);
  if (document != NULL && winner != NULL) {
    json_object_set_new(document, "best",
                        json_pack("{s:I, s:f, s:s}", "number", (json_int_t)winner->member, "value", winner->loss,
                                  "point", tri_point_text(&study->space, &winner->point, text, sizeof text)));
  }
  return document;
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

/* Plots the losses over each parameter. The rows are sorted by round, and therefore by number of steps. */
static void print_plots(const tri_study *study, const tri_member *rows, int64_t count, FILE *to) {
  tri_loss_mark *marks = NULL;
  int64_t n = 0;
  if (tri_alloc("marks", (size_t)count, sizeof *marks, &marks) != TRI_OK) return;
  for (int64_t i = 0; i < count; i++) {
    if (rows[i].state != TRI_TRIAL_DONE) continue;
    marks[n++] =
        (tri_loss_mark){&rows[i].point, rows[i].member, tri_halving_last_step(study, rows[i].round), rows[i].loss};
  }
  for (int64_t k = 0; k < study->space.num_knobs && n > 0; k++) tri_loss_plot(study, k, marks, n, to);
  tri_free(marks);
}

static void print_table(const tri_study *study, const standing *of, int64_t trials, const tri_member *winner,
                        FILE *to) {
  fprintf(to,
          "<h2>Trials</h2>\n<div class=\"wide\"><table><tr><th>trial</th><th>loss</th><th>point</th><th>note</th>"
          "</tr>\n");
  for (int64_t i = 0; i < trials; i++) {
    const tri_member *row = of[i].last;
    char text[TRI_POINT_TEXT_BYTES], note[320];
    write_note(study, row, note);
    fprintf(to, "<tr%s><td>%ld</td><td>", row == winner ? " class=\"winner\"" : "", (long)row->member);
    if (row->state == TRI_TRIAL_DONE) fprintf(to, "%.4f", row->loss);
    fprintf(to, "</td><td class=\"name\">");
    tri_html_list(tri_point_text(&study->space, &row->point, text, sizeof text), to);
    fprintf(to, "</td><td>");
    tri_html_text(note, to);
    fprintf(to, "</td></tr>\n");
  }
  fprintf(to, "</table></div>\n");
}

void tri_halving_html(const tri_study *study, const tri_member *rows, int64_t count, FILE *to) {
  standing *of = NULL;
  const int64_t trials = stand(rows, count, &of);
  const tri_member *winner = winner_of(rows, count);
  tri_html_begin(study->name, to);
  fprintf(to,
          "<p>Successive halving of %ld trial%s: the worse half stops after an eighth, a quarter and a half of the "
          "%ld steps. %ld steps were made; each trial to its end would be %ld.</p>\n",
          (long)trials, TRI_PLURAL(trials), (long)study->trial.steps, (long)steps_made(study, rows, count),
          (long)(trials * study->trial.steps));
  if (winner != NULL) {
    char text[TRI_POINT_TEXT_BYTES];
    fprintf(to, "<p>The best, trial %ld: %s <strong>%.4f</strong> with ", (long)winner->member,
            tri_objective_loss_name(study->objective), winner->loss);
    tri_html_text(tri_point_text(&study->space, &winner->point, text, sizeof text), to);
    fprintf(to, ".</p>\n");
  }
  print_plots(study, rows, count, to);
  print_table(study, of, trials, winner, to);
  tri_free(of);
  tri_html_end(to);
}
