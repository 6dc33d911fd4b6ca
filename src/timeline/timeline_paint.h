/* Coloured spans of a lane at the resolution of a drawing, for timeline_svg.c. */
#ifndef TRI_TIMELINE_TIMELINE_PAINT_H
#define TRI_TIMELINE_TIMELINE_PAINT_H

#include "timeline/timeline.h"

/* Colours: idle, kinds of events that compute, and communication by axis. */
enum {
  TRI_PAINT_IDLE,
  TRI_PAINT_WORK,
  TRI_PAINT_AXES = TRI_PAINT_WORK + TRI_EVENT_COMMUNICATION,
  TRI_NUM_PAINTS = TRI_PAINT_AXES + TRI_EVENT_AXES,
};

/* Drawn range of time, and its width in pixels. */
typedef struct tri_view {
  double begin_s, end_s, pixels;
} tri_view;

double tri_view_place(const tri_view *view, double time_s); /* position of a time, limited to the view */

typedef struct tri_lane_span {
  int paint;
  double begin, end; /* pixels */
} tri_lane_span;

/* Starts as {0}; release the spans with tri_free. */
typedef struct tri_lane_spans {
  tri_lane_span *spans;
  int64_t count, capacity;
} tri_lane_spans;

/* Replaces the spans by those of a lane of a finished timeline, sorted and without overlap. Time without a span is
 * idle. There are at most about two spans per pixel, whatever the number of events, and each colour still has about its
 * right total width. */
tri_status tri_paint_lane(const tri_event_list *list, tri_event_lane lane, const tri_view *view, tri_lane_spans *out);

#endif
