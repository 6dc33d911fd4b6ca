/* The report as a page: plots are SVG, styles are in it, nothing is fetched; wide plots shrink to a phone's width, and
 * print is black on white. */
#include "report/html.h"
#include "tune/explain.h"
#include "tune/page.h"

#include <math.h>

enum { WIDTH = 680, HEIGHT = 240, LEFT = 64, BOTTOM = 28, ABOUT_TICKS = 4 };

static void begin_plot(const char *title, FILE *to) {
  fprintf(to, "<h2>%s</h2>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n", title, WIDTH, HEIGHT, title);
}

/* From the least value of a trial to the most. */
typedef struct span {
  double low, wide;
} span;

static double x_of(double share) { return LEFT + share * (WIDTH - LEFT - 12); }
static tri_plot_axis upward(span s) {
  return (tri_plot_axis){
      .low = s.low, .high = s.low + s.wide, .start = HEIGHT - BOTTOM, .size = -(HEIGHT - BOTTOM - 12)};
}

static span values_of(const tri_explanation *e) {
  double low = INFINITY, high = -INFINITY;
  for (int64_t i = 0; i < e->count; i++) {
    if (e->trials[i].state != TRI_TRIAL_DONE) continue;
    low = fmin(low, e->trials[i].value);
    high = fmax(high, e->trials[i].value);
  }
  return (span){low, high > low ? high - low : 1};
}

/* The same with the known recipes. */
static span values_with_known(const tri_explanation *e) {
  span s = values_of(e);
  double low = s.low, high = s.low + s.wide;
  for (int64_t r = 0; r < e->study->num_known; r++) {
    if (e->known[r].state != TRI_TRIAL_DONE) continue;
    low = fmin(low, e->known[r].value);
    high = fmax(high, e->known[r].value);
  }
  return (span){low, high - low};
}

static void print_diamond(double x, double y, const char *name, FILE *to) {
  fprintf(to, "<path class=\"known\" d=\"M%.1f %.1fl6 6 -6 6 -6 -6z\"><title>", x, y - 6);
  tri_html_text(name, to);
  fprintf(to, "</title></path>\n");
}

/* Whether a known recipe came out; its mark is a diamond, which no trial has. */
static bool any_known(const tri_explanation *e) {
  bool any = false;
  for (int64_t r = 0; r < e->study->num_known; r++) any = any || e->known[r].state == TRI_TRIAL_DONE;
  return any;
}

static const char *known_legend(const tri_explanation *e) { return any_known(e) ? "; ◆ a known recipe" : ""; }

/* A dashed line at the value of each known recipe, with its name. */
static void print_known_lines(const tri_explanation *e, const tri_plot_axis *up, FILE *to) {
  for (int64_t r = 0; r < e->study->num_known; r++) {
    if (e->known[r].state != TRI_TRIAL_DONE) continue;
    double y = tri_plot_place(up, e->known[r].value);
    fprintf(to, "<line class=\"known\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", LEFT, WIDTH - 12, y, y);
    print_diamond(WIDTH - 12, y, e->study->known[r].name, to);
    fprintf(to, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">", WIDTH - 22, up->start - y < 20 ? y - 5 : y + 14);
    tri_html_text(e->study->known[r].name, to);
    fprintf(to, "</text>\n");
  }
}

/* The value of each trial, and the best so far as a line. */
static void print_course(const tri_explanation *e, FILE *to) {
  const tri_plot_axis up = upward(values_with_known(e));
  double best = -INFINITY, n = e->count > 1 ? (double)(e->count - 1) : 1;
  begin_plot("The best so far", to);
  tri_page_axis(&up, ABOUT_TICKS, LEFT, WIDTH - 12, to);
  for (int64_t i = 0; i < e->count; i++) {
    const tri_trial *t = &e->trials[i];
    if (t->state == TRI_TRIAL_DONE) {
      fprintf(to, "<circle class=\"done\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>", x_of((double)i / n),
              tri_plot_place(&up, t->value));
    } else if (t->state == TRI_TRIAL_FAILED) {
      fprintf(to, "<text class=\"bad\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">×</text>", x_of((double)i / n),
              up.start + 4);
    }
  }
  fprintf(to, "\n<path class=\"best\" d=\"");
  bool begun = false;
  for (int64_t i = 0; i < e->count; i++) {
    const tri_trial *t = &e->trials[i];
    if (t->state == TRI_TRIAL_DONE && !t->early && t->value > best) best = t->value;
    if (isinf(best)) continue;
    fprintf(to, "%c%.1f %.1f", begun ? 'L' : 'M', x_of((double)i / n), tri_plot_place(&up, best));
    begun = true;
  }
  fprintf(to, "\"/>\n");
  print_known_lines(e, &up, to);
  fprintf(to, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">trials, in their order (× failed%s)</text>\n</svg>\n",
          WIDTH / 2, HEIGHT - 6, known_legend(e));
}

/* A pair of bars for each parameter. */
static void print_importance(const tri_explanation *e, FILE *to) {
  const tri_space *space = &e->study->space;
  double most = 1e-12;
  int row = e->failed > 0 ? 40 : 28, height = row * (int)space->num_knobs + 8;
  for (int64_t k = 0; k < space->num_knobs; k++) most = fmax(most, fmax(e->importance[k], e->with_failures[k]));
  fprintf(to, "<h2>What mattered</h2>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"What mattered\">\n", WIDTH,
          height);
  for (int64_t i = 0; i < space->num_knobs; i++) {
    int32_t k = e->order[i];
    double y = (double)row * (double)i + 4;
    fprintf(to, "<text x=\"140\" y=\"%.0f\" text-anchor=\"end\">", y + row / 2.0);
    tri_html_text(space->knobs[k].name, to);
    fprintf(to, "</text>");
    for (int with = 0; with <= (e->failed > 0); with++) {
      double value = with ? e->with_failures[k] : e->importance[k], wide = (WIDTH - 250) * value / most;
      fprintf(to, "<rect class=\"%s\" x=\"150\" y=\"%.0f\" width=\"%.1f\" height=\"15\"/>", with ? "failing" : "bar",
              y + 17 * with, 1 + wide);
      fprintf(to, "<text x=\"%.1f\" y=\"%.0f\">%.4g</text>\n", 158 + wide, y + 17 * with + 12, value);
    }
  }
  fprintf(
      to,
      "</svg>\n<p>The mean over the trials of the absolute Shapley value of each parameter in a model of the trials, "
      "in %s: <b class=\"key bar\"></b> of the trials that came to an end%s.</p>\n",
      tri_explain_unit(e->study),
      e->failed > 0 ? ", <b class=\"key failing\"></b> of all, those that failed counted as worth nothing" : "");
}

enum { PANEL_WIDTH = 330, PANEL_HEIGHT = 170, PANEL_LEFT = 48, PANEL_TOP = 24, PANEL_FOOT = 34 };

/* One parameter: each trial's value, the mean of each column as a bar, and how many of the column failed. */
static void print_panel(const tri_explanation *e, int32_t k, span s, FILE *to) {
  const tri_knob *knob = &e->study->space.knobs[k];
  double column = (double)(PANEL_WIDTH - PANEL_LEFT - 8) / (double)knob->count, floor = PANEL_HEIGHT - PANEL_FOOT;
  int64_t apart = 1 + knob->count / 10;
  fprintf(to, "<svg class=\"panel\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", PANEL_WIDTH, PANEL_HEIGHT);
  tri_html_text(knob->name, to);
  fprintf(to, "\"><text x=\"%d\" y=\"14\" class=\"title\">", PANEL_LEFT);
  tri_html_text(knob->name, to);
  fprintf(to, "</text>");
  const tri_plot_axis axis = {.low = s.low, .high = s.low + s.wide, .start = floor, .size = -(floor - PANEL_TOP)};
  tri_page_axis(&axis, ABOUT_TICKS / 2, PANEL_LEFT, PANEL_WIDTH - 8, to);
  for (int64_t v = 0; v < knob->count; v++) {
    double x = PANEL_LEFT + ((double)v + 0.5) * column, seen = 0;
    for (int64_t i = 0; i < e->count; i++) {
      const tri_trial *t = &e->trials[i];
      if (t->point.at[k] != v || t->state != TRI_TRIAL_DONE) continue;
      seen++;
      fprintf(to, "<circle class=\"done\" cx=\"%.1f\" cy=\"%.1f\" r=\"2\"/>", x, tri_plot_place(&axis, t->value));
    }
    if (seen > 0) {
      double y = tri_plot_place(&axis, e->effect[k][v]);
      fprintf(to, "<line class=\"best\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>", x - 0.35 * column,
              x + 0.35 * column, y, y);
    }
    if (e->failures[k][v] > 0) {
      double share = (double)e->failures[k][v] / ((double)e->failures[k][v] + seen);
      fprintf(to, "<rect class=\"failing\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"8\"/>", x - 0.4 * column,
              floor + 4, 0.8 * column * share);
    }
    if (v % apart == 0) fprintf(to, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">", x, PANEL_HEIGHT - 8);
    if (v % apart == 0) tri_html_text(knob->words[v], to);
    if (v % apart == 0) fprintf(to, "</text>\n");
  }
  fprintf(to, "</svg>\n");
}

static void print_effects(const tri_explanation *e, FILE *to) {
  span s = values_of(e);
  fprintf(to, "<h2>Each parameter</h2>\n<div class=\"panels\">\n");
  for (int64_t i = 0; i < e->study->space.num_knobs; i++) print_panel(e, e->order[i], s, to);
  fprintf(to,
          "</div>\n<p>%s of each trial, and the mean of a column; below it, as red bars, the share that failed.</p>\n",
          tri_explain_unit(e->study));
}

/* The two parameters on which failing hangs most, as a map. */
static void print_regions(const tri_explanation *e, FILE *to) {
  const tri_space *space = &e->study->space;
  int64_t a = 0, b = -1;
  if (e->failed == 0 || space->num_knobs < 2) return;
  for (int64_t k = 1; k < space->num_knobs; k++) a = e->with_failures[k] > e->with_failures[a] ? k : a;
  for (int64_t k = 0; k < space->num_knobs; k++) {
    if (k != a && (b < 0 || e->with_failures[k] > e->with_failures[b])) b = k;
  }
  const tri_knob *across = &space->knobs[a], *down = &space->knobs[b];
  double wide = (double)(WIDTH - LEFT - 12) / (double)across->count;
  int height = 22 * (int)down->count + 44;
  fprintf(to,
          "<h2>Where trials failed</h2>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"Where trials failed\">\n",
          WIDTH, height);
  for (int64_t v = 0; v < across->count; v++) {
    fprintf(to, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">", LEFT + ((double)v + 0.5) * wide, height - 24);
    tri_html_text(across->words[v], to);
    fprintf(to, "</text>");
  }
  for (int64_t w = 0; w < down->count; w++) {
    fprintf(to, "<text x=\"%d\" y=\"%ld\" text-anchor=\"end\">", LEFT - 6, (long)(22 * w + 16));
    tri_html_text(down->words[w], to);
    fprintf(to, "</text>");
    for (int64_t v = 0; v < across->count; v++) {
      int64_t done = 0, failed = 0;
      for (int64_t i = 0; i < e->count; i++) {
        if (e->trials[i].point.at[a] != v || e->trials[i].point.at[b] != w) continue;
        done += e->trials[i].state == TRI_TRIAL_DONE;
        failed += e->trials[i].state == TRI_TRIAL_FAILED;
      }
      if (done + failed == 0) continue;
      fprintf(to, "<rect class=\"%s\" fill-opacity=\"%.2f\" x=\"%.1f\" y=\"%ld\" width=\"%.1f\" height=\"20\"/>",
              failed > 0 ? "failing" : "bar", failed > 0 ? 0.15 + 0.6 * (double)failed / (double)(done + failed) : 0.5,
              LEFT + (double)v * wide + 1, (long)(22 * w), wide - 2);
      fprintf(to, "<text x=\"%.1f\" y=\"%ld\" text-anchor=\"middle\">%ld/%ld</text>\n", LEFT + ((double)v + 0.5) * wide,
              (long)(22 * w + 15), (long)failed, (long)(done + failed));
    }
  }
  fprintf(to, "</svg>\n<p>How many failed of all that were tried, by ");
  tri_html_text(across->name, to);
  fprintf(to, " (across) and ");
  tri_html_text(down->name, to);
  fprintf(to, " (down): what failing hangs on most.</p>\n");
}

/* Value against memory; those that no other beats in both are joined. */
static void print_pareto(const tri_explanation *e, FILE *to) {
  const tri_plot_axis up = upward(values_with_known(e));
  double most = 0;
  for (int64_t i = 0; i < e->count; i++) {
    if (e->trials[i].state == TRI_TRIAL_DONE) most = fmax(most, e->trials[i].memory);
  }
  for (int64_t r = 0; r < e->study->num_known; r++) {
    if (e->known[r].state == TRI_TRIAL_DONE) most = fmax(most, e->known[r].memory);
  }
  if (most <= 0) return;
  begin_plot("Value and memory", to);
  tri_page_axis(&up, ABOUT_TICKS, LEFT, WIDTH - 12, to);
  for (int64_t i = 0; i < e->count; i++) {
    const tri_trial *t = &e->trials[i];
    if (t->state != TRI_TRIAL_DONE || t->memory <= 0) continue;
    fprintf(to, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"><title>trial %ld</title></circle>\n",
            tri_explain_is_pareto(e, i) ? "edge" : "done", x_of(t->memory / most), tri_plot_place(&up, t->value),
            tri_explain_is_pareto(e, i) ? 5 : 3, (long)t->number);
  }
  for (int64_t r = 0; r < e->study->num_known; r++) {
    const tri_trial *t = &e->known[r];
    if (t->state != TRI_TRIAL_DONE || t->memory <= 0) continue;
    print_diamond(x_of(t->memory / most), tri_plot_place(&up, t->value), e->study->known[r].name, to);
  }
  const tri_plot_axis across = {.high = 100 * most, .start = x_of(0), .size = x_of(1) - x_of(0)};
  double ticks[TRI_PLOT_TICKS];
  int count = tri_plot_ticks(&across, ABOUT_TICKS, ticks);
  for (int i = 0; i < count; i++) {
    fprintf(to, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.6g %%</text>\n", tri_plot_place(&across, ticks[i]),
            HEIGHT - 12, ticks[i]);
  }
  fprintf(to,
          "</svg>\n<p>%s, by the share of its memory that the fullest device needs; large: no other trial has more of "
          "the one for less of the other%s.</p>\n",
          tri_explain_unit(e->study), known_legend(e));
}

static void print_known(const tri_explanation *e, FILE *to) {
  char beside[TRI_EXPLAIN_BESIDE_BYTES];
  if (e->study->num_known == 0) return;
  fprintf(to,
          "<h2>Known recipes</h2>\n<div class=\"wide\"><table><tr><th>recipe</th><th>layout</th><th>value</th>"
          "<th>place</th><th>beside the best</th></tr>\n");
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
    if (t->state == TRI_TRIAL_DONE) fprintf(to, "%.4f", t->value);
    fprintf(to, "</td><td>");
    tri_html_text(tri_point_text(&e->study->space, &t->point, text, sizeof text), to);
    fprintf(to, "</td><td>");
    tri_html_text(t->reason, to);
    fprintf(to, "</td></tr>\n");
  }
  fprintf(to, "</table></div>\n");
}

void tri_explain_html(const tri_explanation *e, FILE *to) {
  tri_html_begin(e->study->name, to);
  char note[TRI_EXPLAIN_NOTE_BYTES];
  fprintf(to, "<p>%ld trials: %ld done, %ld failed.</p>\n", (long)e->count, (long)e->done, (long)e->failed);
  if (tri_explain_note(e->study, note)[0] != '\0') {
    fprintf(to, "<p>");
    tri_html_text(note, to);
    fprintf(to, "</p>\n");
  }
  if (e->best >= 0) {
    char text[TRI_POINT_TEXT_BYTES];
    fprintf(to, "<p>The best, trial %ld: <strong>%.4f</strong> %s with ", (long)e->trials[e->best].number,
            e->trials[e->best].value, tri_explain_unit(e->study));
    tri_html_text(tri_point_text(&e->study->space, &e->trials[e->best].point, text, sizeof text), to);
    fprintf(to, ".</p>\n");
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
