#include "report/chart.h"

#include "base/file.h"
#include "report/html.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GRID_COLOUR "#e2e2e2"
#define TEXT_COLOUR "#222222"

void tri_chart_set_across(tri_chart *chart, const char *name, double first, double last) {
  if (!(last > first)) first -= 1, last += 1;
  chart->x = (tri_plot_axis){
      .low = first, .high = last, .start = TRI_CHART_LEFT, .size = TRI_CHART_WIDTH - TRI_CHART_LEFT - TRI_CHART_RIGHT};
  chart->across = name;
}

void tri_chart_set_steps(tri_chart *chart, double first, double last) {
  tri_chart_set_across(chart, "step", first, last);
  chart->x.whole = true;
}

void tri_chart_set_values(tri_chart *chart, double low, double high, bool may_be_logarithmic) {
  const bool logarithmic = may_be_logarithmic && low > 0 && high / low > 10;
  const double pad = logarithmic ? pow(high / low, 0.05) : high > low ? 0.05 * (high - low) : 0.5;
  chart->y = (tri_plot_axis){.low = logarithmic ? low / pad : low - pad,
                             .high = logarithmic ? high * pad : high + pad,
                             .start = TRI_CHART_HEIGHT - TRI_CHART_BOTTOM,
                             .size = -(TRI_CHART_HEIGHT - TRI_CHART_BOTTOM - TRI_CHART_TOP),
                             .logarithmic = logarithmic};
}

static void draw_tick_x(const tri_chart *c, double value) {
  double x = tri_plot_place(&c->x, value);
  fprintf(c->svg, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"" GRID_COLOUR "\"/>\n", x, TRI_CHART_TOP,
          x, TRI_CHART_HEIGHT - TRI_CHART_BOTTOM);
  fprintf(c->svg, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.12g</text>\n", x,
          TRI_CHART_HEIGHT - TRI_CHART_BOTTOM + 20, value);
}

static void draw_tick_y(const tri_chart *c, double value) {
  double y = tri_plot_place(&c->y, value);
  fprintf(c->svg, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"" GRID_COLOUR "\"/>\n", TRI_CHART_LEFT, y,
          TRI_CHART_WIDTH - TRI_CHART_RIGHT, y);
  fprintf(c->svg, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.6g</text>\n", TRI_CHART_LEFT - 8, y + 4.5, value);
}

void tri_chart_draw_axes(const tri_chart *c, const char *values) {
  double ticks[TRI_PLOT_TICKS];
  int count = tri_plot_ticks(&c->x, 8, ticks);
  for (int i = 0; i < count; i++) draw_tick_x(c, ticks[i]);
  count = tri_plot_ticks(&c->y, 6, ticks);
  for (int i = 0; i < count; i++) draw_tick_y(c, ticks[i]);
  fprintf(c->svg, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#777777\"/>\n",
          TRI_CHART_LEFT, TRI_CHART_TOP, TRI_CHART_WIDTH - TRI_CHART_LEFT - TRI_CHART_RIGHT,
          TRI_CHART_HEIGHT - TRI_CHART_TOP - TRI_CHART_BOTTOM);
  fprintf(c->svg, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
          TRI_CHART_LEFT + (TRI_CHART_WIDTH - TRI_CHART_LEFT - TRI_CHART_RIGHT) / 2, TRI_CHART_HEIGHT - 14, c->across);
  fprintf(c->svg, "<text x=\"18\" y=\"%d\" text-anchor=\"middle\" transform=\"rotate(-90 18 %d)\">%s%s</text>\n",
          TRI_CHART_TOP + (TRI_CHART_HEIGHT - TRI_CHART_TOP - TRI_CHART_BOTTOM) / 2,
          TRI_CHART_TOP + (TRI_CHART_HEIGHT - TRI_CHART_TOP - TRI_CHART_BOTTOM) / 2, values,
          c->y.logarithmic ? " (logarithmic)" : "");
}

tri_status tri_chart_open(tri_chart *chart, const char *title, const char *path) {
  *chart = (tri_chart){0};
  chart->svg = open_memstream(&chart->text, &chart->bytes);
  if (chart->svg == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "no memory to draw %s: %s", path, strerror(errno));
  fprintf(chart->svg,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
          "font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\" font-size=\"13\" fill=\"" TEXT_COLOUR "\">\n",
          TRI_CHART_WIDTH, TRI_CHART_HEIGHT, TRI_CHART_WIDTH, TRI_CHART_HEIGHT);
  fprintf(chart->svg, "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n", TRI_CHART_WIDTH, TRI_CHART_HEIGHT);
  fprintf(chart->svg, "<text x=\"%d\" y=\"32\" font-size=\"17\">", TRI_CHART_LEFT);
  tri_html_text(title, chart->svg);
  fprintf(chart->svg, "</text>\n");
  return TRI_OK;
}

/* The whole text. */
static tri_status end_text(tri_chart *chart, const char *path) {
  fprintf(chart->svg, "</svg>\n");
  if (fclose(chart->svg) == 0) return TRI_OK;
  return tri_fail(TRI_OUT_OF_MEMORY, "no memory to draw %s: %s", path, strerror(errno));
}

tri_status tri_chart_close_into(tri_chart *chart, FILE *page) {
  if (chart->svg == NULL) return TRI_OK;
  tri_status status = end_text(chart, "a page");
  if (status == TRI_OK) fwrite(chart->text, 1, chart->bytes, page);
  free(chart->text);
  *chart = (tri_chart){0};
  return status;
}

tri_status tri_chart_close(tri_chart *chart, const char *path) {
  if (chart->svg == NULL) return TRI_OK;
  tri_status status = end_text(chart, path);
  if (status == TRI_OK) status = tri_file_replace(path, chart->text, chart->bytes);
  free(chart->text);
  *chart = (tri_chart){0};
  return status;
}
