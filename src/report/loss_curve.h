/* The loss of a run as a picture. */
#ifndef TRI_REPORT_LOSS_CURVE_H
#define TRI_REPORT_LOSS_CURVE_H

#include "base/status.h"
#include "report/metrics.h"

/* The mean of the finite losses around entry i, without a lag: what is drawn strong. NaN: no finite loss. */
double tri_loss_smoothed(const tri_metrics_history *history, int64_t i);
/* The entry after i of which that is drawn, of some hundred and the last; `count` or more: there is none. */
int64_t tri_loss_next(const tri_metrics_history *history, int64_t i);

/* LOCAL. Draws the training loss (each step pale, their running mean strong) and the validation losses as an SVG and
 * replaces the file at svg_path with it. The loss has a logarithmic axis where it spans more than a factor of ten. A
 * history without a finite loss gives a picture that says so. */
tri_status tri_loss_curve_write(const tri_metrics_history *history, const char *title, const char *svg_path);

#endif
