/* Reports of a population: the line of ancestors of its best member as a schedule of the parameters, all members, and
 * which member each one continued from. */
#include "page/chart.h"
#include "page/html.h"
#include "tune/population.h"
#include "tune/trial_schedule.h"

#include <math.h>

/* Finds the ancestors of the best row. line[round - 1] is the ancestor in a round, or NULL if it is before a restart
 * with new weights. Returns the round of the best row; 0 if there is none. */
static int64_t line_of(const tri_member *rows, int64_t count, const tri_member *line[TRI_MOST_ROUNDS]) {
  const tri_member *at = tri_rounds_best(rows, count);
  int64_t length = at == NULL ? 0 : at->round;
  for (int64_t round = length; round > 0 && at != NULL; round--) {
    line[round - 1] = at;
    at = at->parent > 0 ? tri_rounds_find(rows, count, at->parent, round - 1) : NULL;
    if (at == NULL && round > 1) {
      for (int64_t i = round - 1; i > 0; i--) line[i - 1] = NULL;
      break;
    }
  }
  return length;
}

static int64_t takeovers(const tri_member *rows, int64_t count) {
  int64_t found = 0;
  for (int64_t i = 0; i < count; i++) found += rows[i].parent > 0 && rows[i].parent != rows[i].member;
  return found;
}

/* ---- text and JSON ----------------------------------------------------------------------------------------------- */

void tri_population_text(const tri_study *study, const tri_member *rows, int64_t count, FILE *to) {
  const tri_member *line[TRI_MOST_ROUNDS] = {NULL}, *best = tri_rounds_best(rows, count);
  int64_t length = line_of(rows, count, line);
  fprintf(to, "%s: %ld members, %ld rounds of %ld steps; %ld stretches done, %ld failed, %ld took another's weights\n",
          study->name, (long)study->population.members, (long)study->population.rounds, (long)study->population.steps,
          (long)tri_rounds_count(rows, count, TRI_TRIAL_DONE), (long)tri_rounds_count(rows, count, TRI_TRIAL_FAILED),
          (long)takeovers(rows, count));
  if (best == NULL) {
    fprintf(to, "no stretch has finished yet\n");
    return;
  }
  fprintf(to, "the best: member %ld after round %ld, validation loss %.4f\n\nits line:\n  round  member  %10s",
          (long)best->member, (long)best->round, best->loss, "loss");
  for (int64_t k = 0; k < study->space.num_knobs; k++) fprintf(to, "  %12s", study->space.knobs[k].name);
  fprintf(to, "\n");
  for (int64_t i = 0; i < length; i++) {
    if (line[i] == NULL) continue;
    fprintf(to, "  %5ld  %6ld  %10.4f", (long)i + 1, (long)line[i]->member, line[i]->loss);
    for (int64_t k = 0; k < study->space.num_knobs; k++) fprintf(to, "  %12.5g", line[i]->values[k]);
    fprintf(to, "\n");
  }
  tri_trial_schedule_print_range_ends(study, best->values, to);
}

static json_t *json_of(const tri_study *study, const tri_member *row) {
  json_t *values = json_object();
  for (int64_t k = 0; k < study->space.num_knobs; k++) {
    json_object_set_new(values, study->space.knobs[k].name, json_real(row->values[k]));
  }
  json_t *object =
      json_pack("{s:I, s:I, s:I, s:s, s:s, s:f, s:o}", "member", (json_int_t)row->member, "round",
                (json_int_t)row->round, "parent", (json_int_t)row->parent, "state", tri_trial_state_name(row->state),
                "reason", row->reason, "seconds", row->seconds, "values", values);
  if (row->state == TRI_TRIAL_DONE) json_object_set_new(object, "loss", json_real(row->loss));
  return object;
}

json_t *tri_population_json(const tri_study *study, const tri_member *rows, int64_t count) {
  const tri_member *best = tri_rounds_best(rows, count);
  json_t *members = json_array();
  for (int64_t i = 0; i < count; i++) json_array_append_new(members, json_of(study, &rows[i]));
  json_t *document = json_pack("{s:s, s:s, s:I, s:I, s:o}", "study", study->name, "unit", "validation loss", "done",
                               (json_int_t)tri_rounds_count(rows, count, TRI_TRIAL_DONE), "failed",
                               (json_int_t)tri_rounds_count(rows, count, TRI_TRIAL_FAILED), "members", members);
  if (document != NULL && best != NULL) json_object_set_new(document, "best", json_of(study, best));
  return document;
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

/* Returns the number of a row to plot: the loss if `what` is -1, otherwise parameter `what`. */
static double value_of(const tri_member *row, int64_t what) { return what < 0 ? row->loss : row->values[what]; }

/* Draws a dot for each finished round of a member, and a line to it from the round whose weights it began with. */
static void print_rounds(const tri_chart *c, const tri_member *rows, int64_t count, int64_t what) {
  for (int64_t i = 0; i < count; i++) {
    const tri_member *row = &rows[i], *from = tri_rounds_find(rows, count, row->parent, row->round - 1);
    char title[40];
    if (row->state != TRI_TRIAL_DONE) continue;
    if (from != NULL && from->state == TRI_TRIAL_DONE) {
      tri_chart_segment(c, row->parent == row->member ? "class=\"kin\"" : "class=\"taken\"", (double)from->round,
                        value_of(from, what), (double)row->round, value_of(row, what));
    }
    snprintf(title, sizeof title, "member %ld", (long)row->member);
    tri_chart_dot(c, "class=\"done\"", 3, (double)row->round, value_of(row, what), title);
  }
}

/* Plots all rounds. The ancestors of the best member have another colour. */
static void print_plot(const tri_study *study, const tri_member *rows, int64_t count, int64_t what, FILE *to) {
  const tri_member *line[TRI_MOST_ROUNDS] = {NULL};
  const int64_t length = line_of(rows, count, line);
  const char *name = what < 0 ? "validation loss" : study->space.knobs[what].name;
  char title[128];
  tri_chart c;
  tri_chart_span values = TRI_CHART_NO_SPAN;
  fprintf(to, "<h2>Lineage: ");
  tri_html_text(name, to);
  fprintf(to, "</h2>\n");
  snprintf(title, sizeof title, "%s by round", name);
  tri_chart_begin(&c, &tri_chart_medium, title, to);
  for (int64_t i = 0; i < count; i++) {
    if (rows[i].state == TRI_TRIAL_DONE) tri_chart_span_add(&values, rows[i].loss);
  }
  if (what >= 0) values = (tri_chart_span){study->space.knobs[what].low, study->space.knobs[what].high};
  tri_chart_set_across(&c, "round", (tri_chart_span){1, (double)study->population.rounds}, true);
  tri_chart_set_values(&c, NULL, values, what >= 0);
  tri_chart_draw_axes(&c);
  print_rounds(&c, rows, count, what);
  tri_chart_line best = tri_chart_line_begin(&c, "class=\"best\"");
  for (int64_t i = 0; i < length; i++) {
    if (line[i] != NULL) tri_chart_line_to(&best, (double)i + 1, value_of(line[i], what));
  }
  tri_chart_line_end(&best);
  tri_chart_end(&c);
}

static void print_rows(const tri_study *study, const tri_member *rows, int64_t count, FILE *to) {
  const tri_member *best = tri_rounds_best(rows, count);
  fprintf(to,
          "<h2>Stretches</h2>\n<div class=\"wide\"><table><tr><th>round</th><th>member</th><th>from</th><th>loss</th>");
  for (int64_t k = 0; k < study->space.num_knobs; k++) {
    fprintf(to, "<th>");
    tri_html_text(study->space.knobs[k].name, to);
    fprintf(to, "</th>");
  }
  fprintf(to, "<th>note</th></tr>\n");
  for (int64_t i = 0; i < count; i++) {
    fprintf(to, "<tr%s><td>%ld</td><td>%ld</td><td>", &rows[i] == best ? " class=\"winner\"" : "", (long)rows[i].round,
            (long)rows[i].member);
    if (rows[i].parent > 0) fprintf(to, "%ld", (long)rows[i].parent);
    fprintf(to, "</td><td>");
    if (rows[i].state == TRI_TRIAL_DONE) fprintf(to, "%.4f", rows[i].loss);
    fprintf(to, "</td>");
    for (int64_t k = 0; k < study->space.num_knobs; k++) fprintf(to, "<td>%.4g</td>", rows[i].values[k]);
    fprintf(to, "<td>");
    tri_html_text(rows[i].reason, to);
    fprintf(to, "</td></tr>\n");
  }
  fprintf(to, "</table></div>\n");
}

void tri_population_html(const tri_study *study, const tri_member *rows, int64_t count, FILE *to) {
  const tri_member *best = tri_rounds_best(rows, count);
  tri_html_begin(study->name, to);
  fprintf(to,
          "<p>%ld members, %ld rounds of %ld steps. In each round the worst continue from the weights of one of the "
          "best (red, dashed), with its parameters changed a little. The thick line leads to the best.</p>\n",
          (long)study->population.members, (long)study->population.rounds, (long)study->population.steps);
  if (best != NULL) {
    fprintf(to, "<p>The best: member %ld after round %ld, validation loss <strong>%.4f</strong>.</p>\n",
            (long)best->member, (long)best->round, best->loss);
    for (int64_t what = -1; what < study->space.num_knobs; what++) print_plot(study, rows, count, what, to);
  }
  print_rows(study, rows, count, to);
  tri_html_end(to);
}
