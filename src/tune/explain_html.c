/* The report as a page that needs no other file: plots are SVG, and styles are inline. On a phone wide plots shrink to
 * the screen's width; printed pages use the full width. */
#include "base/format.h"
#include "base/memory.h"
#include "page/chart.h"
#include "page/html.h"
#include "tune/explain.h"
#include "tune/loss_plot.h"
#include "tune/study_objective.h"

#include <math.h>

/* Begins a plot below a heading with its title. */
static void begin_plot(tri_chart *c, const tri_chart_form *form, const char *title, FILE *to) {
  fprintf(to, "<h2>%s</h2>\n", title);
  tri_chart_begin(c, form, title, to);
}

typedef struct spans {
  tri_chart_span value, memory; /* memory in per cent of the fullest device's memory; begins at 0 */
} spans;

/* Returns the ranges of value and memory over the finished trials, and over the finished recipes among the first
 * `num_known` known recipes. */
static spans spans_of(const tri_explanation *e, int64_t num_known) {
  spans found = {TRI_CHART_NO_SPAN, {0, 0}};
  for (int64_t i = 0; i < e->count + num_known; i++) {
    const tri_trial *t = i < e->count ? &e->trials[i] : &e->known[i - e->count];
    if (t->state != TRI_TRIAL_DONE) continue;
    tri_chart_span_add(&found.value, tri_explain_shown(e, t));
    tri_chart_span_add(&found.memory, 100 * t->memory);
  }
  return found;
}

/* Returns the words for known recipes in a legend; "" if none has finished. Their mark is a diamond, which no trial
 * has. */
static const char *known_legend(const tri_explanation *e) {
  bool any = false;
  for (int64_t r = 0; r < e->study->num_known; r++) any = any || e->known[r].state == TRI_TRIAL_DONE;
  return any ? "; ◆ a known recipe" : "";
}

/* Draws a dashed line at the value of each known recipe, with its name. */
static void print_known_lines(const tri_explanation *e, const tri_chart *c) {
  const double right = c->x.plot.high;
  for (int64_t r = 0; r < e->study->num_known; r++) {
    if (e->known[r].state != TRI_TRIAL_DONE) continue;
    const double value = e->known[r].value, y = tri_chart_y(c, value);
    tri_chart_segment(c, "class=\"known\"", c->x.plot.low, value, right, value);
    tri_chart_diamond(c, "class=\"known\"", right, value, e->study->known[r].name);
    tri_chart_text(c, "", tri_chart_x(c, right) - 10, c->y.plot.start - y < 20 ? y - 5 : y + 14, "end",
                   e->study->known[r].name);
  }
}

/* Draws the value of each trial in order, and a line for the best value so far. */
static void print_course(const tri_explanation *e, FILE *to) {
  tri_chart c;
  char name[80];
  const tri_trial *best = NULL;
  begin_plot(&c, &tri_chart_medium, "The best so far", to);
  snprintf(name, sizeof name, "trials, in their order (× failed%s)", known_legend(e));
  tri_chart_set_across(&c, name, (tri_chart_span){1, (double)e->count}, true);
  tri_chart_set_values(&c, NULL, spans_of(e, e->study->num_known).value, false);
  tri_chart_draw_axes(&c);
  for (int64_t i = 0; i < e->count; i++) {
    const tri_trial *t = &e->trials[i];
    if (t->state == TRI_TRIAL_DONE)
      tri_chart_dot(&c, "class=\"done\"", 3, (double)i + 1, tri_explain_shown(e, t), NULL);
    if (t->state != TRI_TRIAL_FAILED) continue;
    tri_chart_text(&c, "class=\"bad\"", tri_chart_x(&c, (double)i + 1), c.y.plot.start + 4, "middle", "×");
  }
  tri_chart_line line = tri_chart_line_begin(&c, "class=\"best\"");
  for (int64_t i = 0; i < e->count; i++) {
    const tri_trial *t = &e->trials[i];
    if (t->state == TRI_TRIAL_DONE && !t->early && (best == NULL || t->value > best->value)) best = t;
    tri_chart_line_to(&line, (double)i + 1, best == NULL ? NAN : tri_explain_shown(e, best));
  }
  tri_chart_line_end(&line);
  print_known_lines(e, &c);
  tri_chart_end(&c);
}

/* Draws a bar for the importance of each parameter, and a second bar for the importance with failures if trials have
 * failed. */
static void print_importance(const tri_explanation *e, FILE *to) {
  const tri_space *space = &e->study->space;
  const char *names[TRI_KNOBS];
  tri_chart c;
  tri_chart_form form = tri_chart_medium;
  tri_chart_span span = {0, 1e-12};
  const int row = e->failed > 0 ? 40 : 28;
  for (int64_t i = 0; i < space->num_knobs; i++) {
    const int32_t k = e->order[i];
    names[i] = space->knobs[k].name;
    tri_chart_span_add(&span, fmax(e->importance[k], e->with_failures[k]));
  }
  form.left = 150, form.right = 80, form.top = 4, form.bottom = 28;
  form.height = form.top + form.bottom + row * (int)space->num_knobs;
  begin_plot(&c, &form, "What mattered", to);
  tri_chart_set_across(&c, NULL, span, false);
  tri_chart_set_words_down(&c, names, space->num_knobs);
  tri_chart_draw_axes(&c);
  for (int64_t i = 0; i < space->num_knobs; i++) {
    for (int with = 0; with <= (e->failed > 0); with++) {
      const double value = with ? e->with_failures[e->order[i]] : e->importance[e->order[i]];
      const double right = tri_chart_x(&c, value), y = form.top + row * (double)i + 5 + 16 * with;
      char text[32];
      snprintf(text, sizeof text, "%.4g", value);
      tri_chart_box(&c, with ? "class=\"failing\"" : "class=\"bar\"", form.left, y, 1 + right - form.left, 15);
      tri_chart_text(&c, "", right + 8, y + 12, "start", text);
    }
  }
  tri_chart_end(&c);
  fprintf(to,
          "<p>The mean over the trials of the absolute Shapley value of each parameter in a model of the trials, "
          "in %s: <b class=\"key bar\"></b> of the trials that came to an end%s.</p>\n",
          tri_explain_unit(e->study),
          e->failed > 0 ? ", <b class=\"key failing\"></b> of all, those that failed counted as worth nothing" : "");
}

/* Draws the loss over each parameter, in a study of losses or accuracies at the end of the runs. */
static void print_losses(const tri_explanation *e, FILE *to) {
  const tri_study *study = e->study;
  tri_loss_mark *marks = NULL;
  int64_t n = 0;
  if (!tri_objective_is_last_loss(study->objective)) return;
  if (tri_alloc("marks", (size_t)e->count, sizeof *marks, &marks) != TRI_OK) return;
  for (int64_t i = 0; i < e->count; i++) {
    const tri_trial *t = &e->trials[i];
    if (t->state != TRI_TRIAL_DONE) continue;
    marks[n++] = (tri_loss_mark){&t->point, t->number, study->trial.steps, tri_explain_shown(e, t)};
  }
  for (int64_t k = 0; k < study->space.num_knobs; k++) tri_loss_plot(study, k, marks, n, to);
  tri_free(marks);
}

static void words_of(const tri_knob *knob, const char *words[TRI_KNOB_VALUES]) {
  for (int64_t v = 0; v < knob->count; v++) words[v] = knob->words[v];
}

/* Draws the panel of parameter k. For each of its values the panel has the value of each trial, their mean as a line,
 * and the share of failed trials as a bar. */
static void print_panel(const tri_explanation *e, int32_t k, FILE *to) {
  const tri_knob *knob = &e->study->space.knobs[k];
  const char *words[TRI_KNOB_VALUES];
  tri_chart c;
  words_of(knob, words);
  tri_chart_begin(&c, &tri_chart_small, knob->name, to);
  tri_chart_set_words_across(&c, words, knob->count);
  tri_chart_set_values(&c, NULL, spans_of(e, 0).value, false);
  tri_chart_draw_axes(&c);
  for (int64_t v = 0; v < knob->count; v++) {
    const double at = (double)v, failed = (double)e->failures[k][v], effect = e->effect[k][v];
    double seen = 0;
    for (int64_t i = 0; i < e->count; i++) {
      const tri_trial *t = &e->trials[i];
      if (t->point.at[k] != v || t->state != TRI_TRIAL_DONE) continue;
      seen++;
      tri_chart_dot(&c, "class=\"done\"", 2, at, tri_explain_shown(e, t), NULL);
    }
    if (seen > 0) tri_chart_segment(&c, "class=\"best\"", at - 0.35, effect, at + 0.35, effect);
    if (failed == 0) continue;
    const double left = tri_chart_x(&c, at - 0.4), wide = tri_chart_x(&c, at + 0.4) - left;
    tri_chart_box(&c, "class=\"failing\"", left, c.y.plot.start + 4, wide * failed / (failed + seen), 8);
  }
  tri_chart_end(&c);
}

static void print_effects(const tri_explanation *e, FILE *to) {
  fprintf(to, "<h2>Each parameter</h2>\n<div class=\"panels\">\n");
  for (int64_t i = 0; i < e->study->space.num_knobs; i++) print_panel(e, e->order[i], to);
  fprintf(to,
          "</div>\n<p>%s of each trial, and the mean of a column; below it, as red bars, the share that failed.</p>\n",
          tri_explain_unit(e->study));
}

/* Draws, for value v of parameter a and value w of parameter b, the number of failed trials and the number of all
 * trials. */
static void print_region(const tri_explanation *e, const tri_chart *c, int64_t a, int64_t v, int64_t b, int64_t w) {
  int64_t done = 0, failed = 0;
  char look[64], text[48];
  for (int64_t i = 0; i < e->count; i++) {
    if (e->trials[i].point.at[a] != v || e->trials[i].point.at[b] != w) continue;
    done += e->trials[i].state == TRI_TRIAL_DONE;
    failed += e->trials[i].state == TRI_TRIAL_FAILED;
  }
  if (done + failed == 0) return;
  const double left = tri_chart_x(c, (double)v - 0.5) + 1, wide = tri_chart_x(c, (double)v + 0.5) - 1 - left;
  const double y = tri_chart_y(c, (double)w);
  snprintf(look, sizeof look, "class=\"%s\" fill-opacity=\"%.2f\"", failed > 0 ? "failing" : "bar",
           failed > 0 ? 0.15 + 0.6 * (double)failed / (double)(done + failed) : 0.5);
  tri_chart_box(c, look, left, y - 10, wide, 20);
  snprintf(text, sizeof text, "%ld/%ld", (long)failed, (long)(done + failed));
  tri_chart_text(c, "", left + wide / 2, y + 4.5, "middle", text);
}

/* Draws a map of the failures over the two parameters that have the largest effect on failures. */
static void print_regions(const tri_explanation *e, FILE *to) {
  const tri_space *space = &e->study->space;
  int64_t a = 0, b = -1;
  if (e->failed == 0 || space->num_knobs < 2) return;
  for (int64_t k = 1; k < space->num_knobs; k++) a = e->with_failures[k] > e->with_failures[a] ? k : a;
  for (int64_t k = 0; k < space->num_knobs; k++) {
    if (k != a && (b < 0 || e->with_failures[k] > e->with_failures[b])) b = k;
  }
  const tri_knob *across = &space->knobs[a], *down = &space->knobs[b];
  const char *across_words[TRI_KNOB_VALUES], *down_words[TRI_KNOB_VALUES];
  tri_chart c;
  tri_chart_form form = tri_chart_medium;
  words_of(across, across_words);
  words_of(down, down_words);
  form.top = 4, form.bottom = 28;
  form.height = form.top + form.bottom + 22 * (int)down->count;
  begin_plot(&c, &form, "Failed trials", to);
  tri_chart_set_words_across(&c, across_words, across->count);
  tri_chart_set_words_down(&c, down_words, down->count);
  tri_chart_draw_axes(&c);
  for (int64_t i = 0; i < across->count * down->count; i++)
    print_region(e, &c, a, i % across->count, b, i / across->count);
  tri_chart_end(&c);
  fprintf(to, "<p>How many failed of all that were tried, by ");
  tri_html_text(across->name, to);
  fprintf(to, " (across) and ");
  tri_html_text(down->name, to);
  fprintf(to, " (down): what failures depend on most.</p>\n");
}

/* Draws the trials' values over their memory. Pareto-optimal trials have larger marks. */
static void print_pareto(const tri_explanation *e, FILE *to) {
  tri_chart c;
  const spans s = spans_of(e, e->study->num_known);
  if (s.memory.high <= 0 || tri_objective_is_last_loss(e->study->objective)) return;
  begin_plot(&c, &tri_chart_medium, "Value and memory", to);
  tri_chart_set_across(&c, "memory of the fullest device, %", s.memory, false);
  tri_chart_set_values(&c, NULL, s.value, false);
  tri_chart_draw_axes(&c);
  for (int64_t i = 0; i < e->count; i++) {
    const tri_trial *t = &e->trials[i];
    char title[40];
    if (t->state != TRI_TRIAL_DONE || t->memory <= 0) continue;
    const bool edge = tri_explain_is_pareto(e, i);
    snprintf(title, sizeof title, "trial %ld", (long)t->number);
    tri_chart_dot(&c, edge ? "class=\"edge\"" : "class=\"done\"", edge ? 5 : 3, 100 * t->memory, t->value, title);
  }
  for (int64_t r = 0; r < e->study->num_known; r++) {
    const tri_trial *t = &e->known[r];
    if (t->state != TRI_TRIAL_DONE || t->memory <= 0) continue;
    tri_chart_diamond(&c, "class=\"known\"", 100 * t->memory, t->value, e->study->known[r].name);
  }
  tri_chart_end(&c);
  fprintf(to,
          "<p>%s, by the share of its memory that the fullest device needs; large: no other trial has more of "
          "the one for less of the other%s.</p>\n",
          tri_explain_unit(e->study), known_legend(e));
}

static void print_known(const tri_explanation *e, FILE *to) {
  char beside[TRI_EXPLAIN_BESIDE_BYTES];
  if (e->study->num_known == 0) return;
  fprintf(to,
          "<h2>Known recipes</h2>\n<div class=\"wide\"><table><tr><th>recipe</th><th>layout</th><th>value</th>"
          "<th>place</th><th>relative to the best</th></tr>\n");
  for (int64_t r = 0; r < e->study->num_known; r++) {
    const tri_trial *t = &e->known[r];
    fprintf(to, "<tr><td>");
    tri_html_text(e->study->known[r].name, to);
    fprintf(to, "</td><td>");
    tri_html_text(e->study->known[r].layout, to);
    fprintf(to, "</td>");
    if (t->state == TRI_TRIAL_DONE) {
      fprintf(to, "<td>%.4f</td><td>%ld of %ld</td><td>%s</td></tr>\n", t->value, (long)tri_explain_rank(e, t->value),
              (long)e->done + 1, tri_explain_beside_best(e, t->value, beside));
    } else {
      fprintf(to, "<td colspan=\"3\">");
      tri_html_text(t->reason, to);
      fprintf(to, "</td></tr>\n");
    }
  }
  fprintf(to, "</table></div>\n");
}

static void print_trials(const tri_explanation *e, FILE *to) {
  char text[TRI_POINT_TEXT_BYTES];
  fprintf(
      to,
      "<h2>Trials</h2>\n<div class=\"wide\"><table><tr><th>trial</th><th>value</th><th>point</th><th>note</th></tr>\n");
  for (int64_t i = 0; i < e->count; i++) {
    const tri_trial *t = &e->trials[i];
    fprintf(to, "<tr%s><td>%ld</td><td>", i == e->best ? " class=\"winner\"" : "", (long)t->number);
    if (t->state == TRI_TRIAL_DONE) fprintf(to, "%.4f", tri_explain_shown(e, t));
    fprintf(to, "</td><td class=\"name\">");
    tri_html_list(tri_point_text(&e->study->space, &t->point, text, sizeof text), to);
    fprintf(to, "</td><td>");
    tri_html_text(t->reason, to);
    fprintf(to, "</td></tr>\n");
  }
  fprintf(to, "</table></div>\n");
}

void tri_explain_html(const tri_explanation *e, FILE *to) {
  tri_html_begin(e->study->name, to);
  char note[TRI_EXPLAIN_NOTE_BYTES];
  fprintf(to, "<p>%ld trial%s: %ld done, %ld failed.</p>\n", (long)e->count, TRI_PLURAL(e->count), (long)e->done,
          (long)e->failed);
  if (tri_explain_note(e->study, note)[0] != '\0') {
    fprintf(to, "<p>");
    tri_html_text(note, to);
    fprintf(to, "</p>\n");
  }
  if (e->best >= 0) {
    char text[TRI_POINT_TEXT_BYTES];
    fprintf(to, "<p>The best, trial %ld: <strong>%.4f</strong> %s with ", (long)e->trials[e->best].number,
            tri_explain_shown(e, &e->trials[e->best]), tri_explain_unit(e->study));
    tri_html_text(tri_point_text(&e->study->space, &e->trials[e->best].point, text, sizeof text), to);
    fprintf(to, ".</p>\n");
    print_losses(e, to);
    print_course(e, to);
    print_importance(e, to);
    print_known(e, to);
    print_effects(e, to);
    print_regions(e, to);
    print_pareto(e, to);
  }
  print_trials(e, to);
  tri_html_end(to);
}
