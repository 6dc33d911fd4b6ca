#include "tune/loss_plot.h"
#include "tune/study_objective.h"

#include "base/format.h"
#include "page/chart.h"
#include "page/html.h"

#include <string.h>

#define COLOURS(X) X("#8a94a0") X("#c2781a") X("#3a8f4b") X("#1f6fc0")
#define CURVE(COLOUR) TRI_CHART_CURVE(COLOUR),
#define DOTS(COLOUR) TRI_CHART_DOTS(COLOUR),
static const char *const curves[] = {COLOURS(CURVE)};
static const char *const dots[] = {COLOURS(DOTS)};
enum { COLOURS_HELD = sizeof curves / sizeof *curves };

/* Returns the position of a mark on the axis. For a category the position is the index of the value. */
static double place_of(const tri_knob *knob, const tri_loss_mark *mark, int64_t k) {
  return knob->is_category ? mark->point->at[k] : knob->numbers[mark->point->at[k]];
}

/* Returns the end of the run of marks from `first` on that have the same number of steps. */
static int64_t end_of_series(const tri_loss_mark *marks, int64_t count, int64_t first) {
  int64_t end = first;
  while (end < count && marks[end].steps == marks[first].steps) end++;
  return end;
}

static int64_t count_series(const tri_loss_mark *marks, int64_t count) {
  int64_t series = 0;
  for (int64_t i = 0; i < count; i = end_of_series(marks, count, i)) series++;
  return series;
}

/* Draws a line through the marks in the order of the parameter's values. */
static void draw_line(const tri_chart *c, const tri_knob *knob, int64_t k, const tri_loss_mark *marks, int64_t first,
                      int64_t end, const char *look) {
  tri_chart_line line = tri_chart_line_begin(c, look);
  for (int32_t v = 0; v < knob->count; v++) {
    for (int64_t i = first; i < end; i++) {
      if (marks[i].point->at[k] == v) tri_chart_line_to(&line, place_of(knob, &marks[i], k), marks[i].loss);
    }
  }
  tri_chart_line_end(&line);
}

static void draw_series(tri_chart *c, const tri_study *study, int64_t k, const tri_loss_mark *marks, int64_t count) {
  const tri_knob *knob = &study->space.knobs[k];
  const int64_t all = count_series(marks, count);
  int64_t at = all > COLOURS_HELD ? 0 : COLOURS_HELD - all;
  if (all > 1) tri_chart_draw_legend(c, false, all, 20);
  for (int64_t first = 0; first < count;) {
    const int64_t end = end_of_series(marks, count, first);
    char name[48];
    if (study->space.num_knobs == 1 && !knob->is_category) draw_line(c, knob, k, marks, first, end, curves[at]);
    for (int64_t i = first; i < end; i++) {
      char title[96];
      snprintf(title, sizeof title, "trial %ld, %s: %.4f", (long)marks[i].number, knob->words[marks[i].point->at[k]],
               marks[i].loss);
      tri_chart_dot(c, dots[at], 4, place_of(knob, &marks[i], k), marks[i].loss, title);
    }
    snprintf(name, sizeof name, "after %ld step%s", (long)marks[first].steps, TRI_PLURAL(marks[first].steps));
    if (all > 1) tri_chart_draw_key(c, curves[at], dots[at], name);
    at = (at + 1) % COLOURS_HELD;
    first = end;
  }
}

void tri_loss_plot(const tri_study *study, int64_t k, const tri_loss_mark *marks, int64_t count, FILE *to) {
  const tri_knob *knob = &study->space.knobs[k];
  const char *words[TRI_KNOB_VALUES];
  char title[96];
  tri_chart_span across = TRI_CHART_NO_SPAN, losses = TRI_CHART_NO_SPAN;
  tri_chart c;
  for (int64_t v = 0; v < knob->count; v++) {
    words[v] = knob->words[v];
    tri_chart_span_add(&across, knob->numbers[v]);
  }
  for (int64_t i = 0; i < count; i++) tri_chart_span_add(&losses, marks[i].loss);
  snprintf(title, sizeof title, "Loss over %s", knob->name);
  fprintf(to, "<h2>");
  tri_html_text(title, to);
  fprintf(to, "</h2>\n");
  tri_chart_begin(&c, &tri_chart_medium, title, to);
  if (knob->is_category) {
    tri_chart_set_words_across(&c, words, knob->count);
  } else if (across.low > 0 && tri_chart_is_wide(across)) {
    tri_chart_set_across_logarithmic(&c, knob->name, across);
  } else {
    const double pad = 0.05 * (across.high - across.low); /* space that keeps dots and their numbers off the frame */
    across = (tri_chart_span){across.low - pad, across.high + pad};
    tri_chart_set_across(&c, knob->name, across, false);
  }
  tri_chart_set_values(&c, tri_objective_loss_name(study->objective), losses, tri_chart_is_wide(losses));
  tri_chart_draw_axes(&c);
  draw_series(&c, study, k, marks, count);
  tri_chart_end(&c);
}
