/* Draws the loss of a run. */
#ifndef TRI_REPORT_LOSS_CURVE_H
#define TRI_REPORT_LOSS_CURVE_H

#include "base/status.h"
#include "report/metrics.h"

/* Returns the running mean at entry i: the mean of the finite losses of a fortieth of all entries around it; NaN if
 * these have no finite loss. */
double tri_loss_smoothed(const tri_metrics_history *history, int64_t i);
/* Returns the next entry after i whose running mean is drawn; `count` or more: no further entry. Some hundred entries
 * are drawn, and always the last one. */
int64_t tri_loss_next(const tri_metrics_history *history, int64_t i);

/* LOCAL. Draws the training loss (each step pale, their running mean strong) and the validation losses as SVG, and
 * replaces the file at svg_path. The loss axis is logarithmic if the losses span more than a factor of ten. Without a
 * finite loss the picture says so. */
tri_status tri_loss_curve_write(const tri_metrics_history *history, const char *title, const char *svg_path);

#endif
