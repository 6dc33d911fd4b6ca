/* The report as a page: plots are SVG, styles are in it, nothing is fetched; wide plots shrink to a phone's width, and
 * print is black on white. */
#include "tune/explain.h"
#include "tune/html.h"

#include <math.h>

enum { WIDTH = 680, HEIGHT = 240, LEFT = 64, BOTTOM = 28 };

static void begin_plot(const char *title, FILE *to) {
  fprintf(to, "<h2>%s</h2>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n", title, WIDTH, HEIGHT, title);
}

static double x_of(double share) { return LEFT + share * (WIDTH - LEFT - 12); }
static double y_of(double share) { return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - 12); }

static void print_axis(double low, double high, FILE *to) {
  for (int i = 0; i <= 4; i++) {
    double share = i / 4.0;
    fprintf(to, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", LEFT, WIDTH - 12, y_of(share),
            y_of(share));
    fprintf(to, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n", LEFT - 6, y_of(share) + 4,
            low + share * (high - low));
  }
}

/* The value of each trial, and the best so far as a line. */
static void print_course(const tri_explanation *e, FILE *to) {
  double low = INFINITY, high = -INFINITY, best = -INFINITY;
  for (int64_t i = 0; i < e->count; i++) {
    if (e->trials[i].state != TRI_TRIAL_DONE) continue;
    if (e->trials[i].value < low) low = e->trials[i].value;
    if (e->trials[i].value > high) high = e->trials[i].value;
  }
  begin_plot("The best so far", to);
  double span = high > low ? high - low : 1, n = e->count > 1 ? (double)(e->count - 1) : 1;
  print_axis(low, low + span, to);
  for (int64_t i = 0; i < e->count; i++) {
    const tri_trial *t = &e->trials[i];
    if (t->state == TRI_TRIAL_DONE) {
      fprintf(to, "<circle class=\"done\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>", x_of((double)i / n),
              y_of((t->value - low) / span));
    } else if (t->state == TRI_TRIAL_FAILED) {
      fprintf(to, "<text class=\"bad\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">×</text>", x_of((double)i / n),
              y_of(0) + 4);
    }
  }
  fprintf(to, "\n<path class=\"best\" d=\"");
  bool begun = false;
  for (int64_t i = 0; i < e->count; i++) {
    const tri_trial *t = &e->trials[i];
    if (t->state == TRI_TRIAL_DONE && t->value > best) best = t->value;
    if (isinf(best)) continue;
    fprintf(to, "%c%.1f %.1f", begun ? 'L' : 'M', x_of((double)i / n), y_of((best - low) / span));
    begun = true;
  }
  fprintf(to, "\"/>\n<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">trials, in their order (× failed)</text>\n</svg>\n",
          WIDTH / 2, HEIGHT - 6);
}

static void print_importance(const tri_explanation *e, FILE *to) {
  const tri_study *study = e->study;
  double most = e->importance[e->order[0]] > 0 ? e->importance[e->order[0]] : 1;
  int height = 28 * (int)study->space.num_knobs + 8;
  fprintf(to, "<h2>What mattered</h2>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"What mattered\">\n", WIDTH,
          height);
  for (int64_t i = 0; i < study->space.num_knobs; i++) {
    int32_t k = e->order[i];
    double y = 28.0 * (double)i + 4;
    fprintf(to, "<text x=\"140\" y=\"%.0f\" text-anchor=\"end\">", y + 16);
    tri_html_text(study->space.knobs[k].name, to);
    fprintf(to, "</text><rect class=\"bar\" x=\"150\" y=\"%.0f\" width=\"%.1f\" height=\"20\"/>", y,
            1 + (WIDTH - 250) * e->importance[k] / most);
    fprintf(to, "<text x=\"%.1f\" y=\"%.0f\">%.4g</text>\n", 158 + (WIDTH - 250) * e->importance[k] / most, y + 16,
            e->importance[k]);
  }
  fprintf(to,
          "</svg>\n<p>The mean over the trials of the absolute Shapley value of each parameter in the model of the "
          "trials, in "
          "units of the objective.</p>\n");
}

static void print_known(const tri_explanation *e, FILE *to) {
  if (e->study->num_known == 0) return;
  fprintf(to, "<h2>Known recipes</h2>\n<div class=\"wide\"><table><tr><th>recipe</th><th>layout</th><th>value</th>"
              "<th>place</th><th>beside the best</th></tr>\n");
  for (int64_t r = 0; r < e->study->num_known; r++) {
    const tri_trial *t = &e->known[r];
    fprintf(to, "<tr><td>");
    tri_html_text(e->study->known[r].name, to);
    fprintf(to, "</td><td>");
    tri_html_text(e->study->known[r].layout, to);
    fprintf(to, "</td>");
    if (t->state == TRI_TRIAL_DONE) {
      fprintf(to, "<td>%.4f</td><td>%ld of %ld</td><td>%+.1f %%</td></tr>\n", t->value,
              (long)tri_explain_rank(e, t->value), (long)e->done + 1,
              100 * (t->value / e->trials[e->best].value - 1));
    } else {
      fprintf(to, "<td colspan=\"3\">");
      tri_html_text(t->reason, to);
      fprintf(to, "</td></tr>\n");
    }
  }
  fprintf(to, "</table></div>\n");
}

static void print_effects(const tri_explanation *e, FILE *to) {
  const tri_study *study = e->study;
  fprintf(to,
          "<h2>Values and failures</h2>\n<div class=\"wide\"><table><tr><th>parameter</th><th>value</th><th>mean of "
          "its trials</th>"
          "<th>failed</th></tr>\n");
  for (int64_t i = 0; i < study->space.num_knobs; i++) {
    int32_t k = e->order[i];
    for (int64_t v = 0; v < study->space.knobs[k].count; v++) {
      if (isnan(e->effect[k][v]) && e->failures[k][v] == 0) continue;
      fprintf(to, "<tr><td>%s</td><td>%s</td><td>", study->space.knobs[k].name, study->space.knobs[k].words[v]);
      if (!isnan(e->effect[k][v])) fprintf(to, "%.4g", e->effect[k][v]);
      fprintf(to, "</td><td>%ld</td></tr>\n", (long)e->failures[k][v]);
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
  fprintf(to, "<p>%ld trials: %ld done, %ld failed.</p>\n", (long)e->count, (long)e->done, (long)e->failed);
  if (e->best >= 0) {
    char text[TRI_POINT_TEXT_BYTES];
    fprintf(to, "<p>The best, trial %ld: <strong>%.4f</strong> with ", (long)e->trials[e->best].number,
            e->trials[e->best].value);
    tri_html_text(tri_point_text(&e->study->space, &e->trials[e->best].point, text, sizeof text), to);
    fprintf(to, ".</p>\n");
    print_course(e, to);
    print_importance(e, to);
    print_effects(e, to);
    print_known(e, to);
  }
  print_trials(e, to);
  tri_html_end(to);
}
