#include "tune/page.h"

void tri_page_axis(const tri_plot_axis *axis, int wanted, int left, int right, FILE *to) {
  double ticks[TRI_PLOT_TICKS];
  int count = tri_plot_ticks(axis, wanted, ticks);
  for (int i = 0; i < count; i++) {
    double y = tri_plot_place(axis, ticks[i]);
    fprintf(to, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", left, right, y, y);
    fprintf(to, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.6g</text>\n", left - 6, y + 4, ticks[i]);
  }
}
