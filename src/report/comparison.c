#include "report/comparison.h"

#include "base/format.h"
#include "page/chart.h"
#include "page/html.h"
#include "report/loss_curve.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 40 };

#define CHART_TITLE "training loss, and validation loss as circles"

/* The palette of Okabe and Ito, whose colours are distinguishable with colour blindness, too. Runs after the last
 * colour have the same colours again, dashed. */
typedef struct look {
  const char *colour, *line, *dashed, *dots;
} look;
#define LOOK(colour)                                                                                                   \
  {                                                                                                                    \
    colour, TRI_CHART_CURVE(colour), TRI_CHART_CURVE(colour) " stroke-dasharray=\"7 4\"",                              \
        "fill=\"white\" stroke-width=\"1.5\" stroke=\"" colour "\""                                                    \
  }
static const look looks[] = {LOOK("#0072b2"), LOOK("#d55e00"), LOOK("#009e73"), LOOK("#cc79a7"),
                             LOOK("#e69f00"), LOOK("#56b4e9"), LOOK("#444444")};
enum { NUM_LOOKS = sizeof looks / sizeof *looks };

bool tri_course_named(const char *name, tri_course *out) {
#define NAMED(VALUE, word, title)                                                                                      \
  if (strcmp(name, #word) == 0) {                                                                                      \
    *out = TRI_COURSE_##VALUE;                                                                                         \
    return true;                                                                                                       \
  }
  TRI_COURSES(NAMED)
#undef NAMED
  return false;
}

static const char *course_title(tri_course course) {
#define TITLE(VALUE, word, title)                                                                                      \
  case TRI_COURSE_##VALUE: return title;
  switch (course) {
    TRI_COURSES(TITLE)
    case TRI_NUM_COURSES: break;
  }
#undef TITLE
  return "";
}

/* ---- picture ----------------------------------------------------------------------------------------------------- */

/* The x axis: a course, and the unit of its numbers, which keeps them short. */
typedef struct scale {
  tri_course course;
  double unit;
  char name[48];
  bool whole; /* whether ticks are only at integers */
} scale;

static double course_position(const tri_compared *run, tri_course course, int64_t i) {
  switch (course) {
    case TRI_COURSE_STEP: return (double)run->history->steps[i].step;
    case TRI_COURSE_TOKENS: return (double)run->history->steps[i].tokens;
    case TRI_COURSE_TIME: return run->seconds[i];
    case TRI_NUM_COURSES: break;
  }
  return 0;
}

static void in_unit(scale *s, double unit, const char *word) {
  s->unit = unit;
  snprintf(s->name, sizeof s->name, "%s%s", course_title(s->course), word);
}

static scale scale_to(tri_course course, double last) {
  scale s = {.course = course};
  in_unit(&s, 1, "");
  switch (course) {
    case TRI_COURSE_STEP: s.whole = true; break;
    case TRI_COURSE_TOKENS:
      if (last >= 1e3) in_unit(&s, 1e3, " (thousands)");
      if (last >= 1e6) in_unit(&s, 1e6, " (millions)");
      if (last >= 1e9) in_unit(&s, 1e9, " (billions)");
      break;
    case TRI_COURSE_TIME:
      in_unit(&s, 1, " (seconds)");
      if (last >= 180) in_unit(&s, 60, " (minutes)");
      if (last >= 3 * 3600) in_unit(&s, 3600, " (hours)");
      if (last >= 3 * 86400.0) in_unit(&s, 86400, " (days)");
      break;
    case TRI_NUM_COURSES: break;
  }
  return s;
}

static const char *line_look(int64_t run) { return run < NUM_LOOKS ? looks[run].line : looks[run % NUM_LOOKS].dashed; }

static void draw_run(const tri_chart *c, const tri_compared *run, int64_t number, const scale *s) {
  const tri_metrics_history *h = run->history;
  tri_chart_line line = tri_chart_line_begin(c, line_look(number));
  for (int64_t i = 0; i < h->count; i = tri_loss_next(h, i)) {
    tri_chart_line_to(&line, course_position(run, s->course, i) / s->unit, tri_loss_smoothed(h, i));
  }
  tri_chart_line_end(&line);
  for (int64_t i = 0; i < h->count; i++) {
    const tri_step_metrics *step = &h->steps[i];
    if (!step->evaluated) continue;
    tri_chart_dot(c, looks[number % NUM_LOOKS].dots, 3, course_position(run, s->course, i) / s->unit,
                  step->validation_loss, NULL);
  }
}

/* Returns a name, or in `out` the end of a long name, which is more specific than its beginning. */
static const char *short_name(const char *name, char out[NAME_BYTES]) {
  const size_t length = strlen(name);
  if (length < NAME_BYTES) return name;
  const char *end = name + length - (NAME_BYTES - 4);
  while (((unsigned char)*end & 0xC0) == 0x80) end++; /* to the beginning of a UTF-8 character */
  snprintf(out, NAME_BYTES, "...%s", end);
  return out;
}

static void draw_runs(tri_chart *chart, const tri_compared *runs, int64_t count, tri_course course) {
  tri_chart_span across = TRI_CHART_NO_SPAN, loss = TRI_CHART_NO_SPAN;
  char name[NAME_BYTES];
  size_t letters = 0;
  for (int64_t r = 0; r < count; r++) {
    const tri_metrics_history *h = runs[r].history;
    const size_t length = strlen(short_name(runs[r].name, name));
    letters = length > letters ? length : letters;
    tri_chart_span_add(&across, course_position(&runs[r], course, 0));
    tri_chart_span_add(&across, course_position(&runs[r], course, h->count - 1));
    for (int64_t i = 0; i < h->count; i = tri_loss_next(h, i)) tri_chart_span_add(&loss, tri_loss_smoothed(h, i));
    for (int64_t i = 0; i < h->count; i++) {
      if (h->steps[i].evaluated) tri_chart_span_add(&loss, h->steps[i].validation_loss);
    }
  }
  const scale s = scale_to(course, across.high);
  across = (tri_chart_span){across.low / s.unit, across.high / s.unit};
  tri_chart_set_across(chart, s.name, across, s.whole);
  tri_chart_set_values(chart, "loss", loss, tri_chart_is_wide(loss));
  tri_chart_draw_axes(chart);
  for (int64_t r = 0; r < count; r++) draw_run(chart, &runs[r], r, &s);
  /* The legend is at the top, where falling curves leave room. */
  tri_chart_draw_legend(chart, false, count, (int)letters);
  for (int64_t r = 0; r < count; r++) {
    tri_chart_draw_key(chart, line_look(r), NULL, short_name(runs[r].name, name));
  }
}

tri_status tri_comparison_draw(const tri_compared *runs, int64_t count, tri_course course, const char *path) {
  tri_chart chart;
  TRI_TRY(tri_chart_open(&chart, CHART_TITLE, path));
  draw_runs(&chart, runs, count, course);
  return tri_chart_close(&chart, path);
}

bool tri_comparison_has_accuracies(const tri_compared *runs, int64_t count) {
  bool any = false;
  for (int64_t r = 0; r < count; r++) {
    any = any || isfinite(runs[r].summary->accuracy) || isfinite(runs[r].summary->held_out_accuracy);
  }
  return any;
}

/* ---- page -------------------------------------------------------------------------------------------------------- */

static void write_number(FILE *to, const char *format, double value) {
  fputs("<td>", to);
  if (isfinite(value)) fprintf(to, format, value); /* formats are literals of this file */
  fputs("</td>", to);
}

static void write_row(const tri_compared *run, int64_t number, bool accuracies, FILE *to) {
  const tri_run_summary *s = run->summary;
  const double seconds = run->seconds[run->history->count - 1];
  char text[32];
  fprintf(to, "<tr><td class=\"name\"><b class=\"key\" style=\"background:%s\"></b> ",
          looks[number % NUM_LOOKS].colour);
  tri_html_text(run->name, to);
  fputs("</td><td class=\"name\">", to);
  tri_html_text(run->model, to);
  fprintf(to, "</td><td>%lld</td><td>%s</td>", (long long)s->steps,
          tri_format_count((double)s->tokens, text, sizeof text));
  write_number(to, "%.4f", s->loss);
  write_number(to, "%.4f", s->validation_loss);
  write_number(to, "%.4f", s->best_validation_step > 0 ? s->best_validation_loss : NAN);
  fprintf(to, "<td>%s</td>", tri_format_count(s->tokens_per_s, text, sizeof text));
  write_number(to, "%.1f %%", 100 * s->mfu);
  fprintf(to, "<td>%s</td>", tri_format_seconds(seconds, text, sizeof text));
  fprintf(to, "<td>%s</td>", tri_format_bytes((double)s->peak_bytes_measured, text, sizeof text));
  if (accuracies) write_number(to, "%.4f", s->accuracy);
  if (accuracies) write_number(to, "%.4f", s->held_out_accuracy);
  fputs("</tr>\n", to);
}

/* Writes the table of the keys that differ: a row for each key, and a column for each run. */
static void write_keys(const tri_compared *runs, int64_t count, json_t *keys, FILE *to) {
  const char *key = NULL, *text = NULL;
  json_t *values = NULL;
  if (json_object_size(keys) == 0) return;
  fputs("<h2>Keys that differ</h2>\n<div class=\"wide\"><table><tr><th>key</th>", to);
  for (int64_t r = 0; r < count; r++) {
    fputs("<th>", to);
    tri_html_text(runs[r].name, to);
    fputs("</th>", to);
  }
  fputs("</tr>\n", to);
  json_object_foreach(keys, key, values) {
    fputs("<tr><td class=\"name\">", to);
    tri_html_text(key, to);
    fputs("</td>", to);
    for (int64_t r = 0; r < count; r++) {
      fputs("<td>", to);
      text = json_string_value(json_array_get(values, (size_t)r));
      tri_html_text(text == NULL ? "" : text, to);
      fputs("</td>", to);
    }
    fputs("</tr>\n", to);
  }
  fputs("</table></div>\n", to);
}

static void write_page(const tri_compared *runs, int64_t count, json_t *keys, FILE *to) {
  const bool accuracies = tri_comparison_has_accuracies(runs, count);
  tri_html_begin("Comparison of runs", to);
  for (int course = 0; course < TRI_NUM_COURSES; course++) {
    tri_chart chart;
    fprintf(to, "<h2>Over %s</h2>\n", course_title((tri_course)course));
    tri_chart_begin(&chart, &tri_chart_large, CHART_TITLE, to);
    draw_runs(&chart, runs, count, (tri_course)course);
    tri_chart_end(&chart);
  }
  fputs(
      "<h2>In numbers</h2>\n<div class=\"wide\"><table><tr><th>run</th><th>model</th><th>steps</th><th>tokens</th>"
      "<th>loss</th><th>validation</th><th>best validation</th><th>tokens/s</th><th>MFU</th><th>time</th><th>memory of "
      "a "
      "rank</th>",
      to);
  if (accuracies) fputs("<th>accuracy</th><th>held-out accuracy</th>", to);
  fputs("</tr>\n", to);
  for (int64_t r = 0; r < count; r++) write_row(&runs[r], r, accuracies, to);
  fputs(
      "</table></div>\n<p>Curves are running means over a fortieth of a run's steps. Rates are medians over the steps "
      "after the first few; time is that of steps, without evaluations and saves.</p>\n",
      to);
  write_keys(runs, count, keys, to);
  tri_html_end(to);
}

tri_status tri_comparison_write_page(const tri_compared *runs, int64_t count, json_t *keys, const char *path) {
  tri_page page;
  TRI_TRY(tri_page_open(&page, path));
  write_page(runs, count, keys, page.to);
  return tri_page_close(&page, path, TRI_OK);
}
