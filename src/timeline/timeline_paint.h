/* Coloured spans of a lane at the resolution of a drawing; timeline_svg.c draws them. */
#ifndef TRI_TIMELINE_TIMELINE_PAINT_H
#define TRI_TIMELINE_TIMELINE_PAINT_H

#include "timeline/timeline.h"

/* Colours: one for idle time, one for each kind of event that computes, and one for communication along each axis. */
enum {
  TRI_PAINT_IDLE,
  TRI_PAINT_WORK,
  TRI_PAINT_AXES = TRI_PAINT_WORK + TRI_EVENT_COMMUNICATION,
  TRI_NUM_PAINTS = TRI_PAINT_AXES + TRI_EVENT_AXES,
};

/* Range of time that is drawn, in seconds, and its width in pixels. */
typedef struct tri_view {
  double begin_s, end_s, pixels;
} tri_view;

double tri_view_place(const tri_view *view,
                      double time_s); /* returns the position of a time in pixels, limited to the view */

typedef struct tri_lane_span {
  int paint;
  double begin, end; /* positions in pixels */
} tri_lane_span;

/* Starts as {0}; release the spans with tri_free. */
typedef struct tri_lane_spans {
  tri_lane_span *spans;
  int64_t count, capacity;
} tri_lane_spans;

/* Replaces the spans by those of a lane of a finished timeline. The spans are sorted and do not overlap; time without a
 * span is idle. There are at most about two spans per pixel, whatever the number of events. The total width of each
 * colour stays about right. */
tri_status tri_paint_lane(const tri_event_list *list, tri_event_lane lane, const tri_view *view, tri_lane_spans *out);

#endif
