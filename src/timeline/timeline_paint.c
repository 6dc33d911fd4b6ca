/* Converts events to coloured spans.
 *
 * First the events of a lane are flattened to pieces, so that the innermost event counts at each moment. A piece that
 * is at least a pixel wide becomes a span. The narrower pieces between such spans are *dust*. A colour that always has
 * the smaller part of a pixel must not vanish (for example, a collective in each layer of a forward). Dust is therefore
 * drawn as in dithering: each colour has a debt, the width that it is still owed; each pixel takes the colour with the
 * largest debt, and reduces this debt by a pixel. */
#include "timeline/timeline_paint.h"

#include "base/memory.h"

#include <math.h>

/* Dust between two spans that is narrower than this, in pixels, is added to the span before it. */
static const double NOTHING = 0.3;

typedef struct painter {
  const tri_view *view;
  tri_lane_spans *out;
  double dust_begin, dust_end; /* range of the pixel that is being filled, in pixels; empty if both are equal */
  double owed[TRI_NUM_PAINTS]; /* debt of each colour, in pixels */
} painter;

double tri_view_place(const tri_view *view, double time_s) {
  double share = (time_s - view->begin_s) / (view->end_s - view->begin_s);
  return view->pixels * fmin(fmax(share, 0), 1);
}

/* ---- spans ------------------------------------------------------------------------------------------------------- */

static tri_status add_span(painter *p, int paint, double begin, double end) {
  tri_lane_spans *out = p->out;
  if (paint == TRI_PAINT_IDLE) return TRI_OK;
  tri_lane_span *last = out->count > 0 ? &out->spans[out->count - 1] : NULL;
  if (last != NULL && last->paint == paint && last->end >= begin) {
    last->end = end;
    return TRI_OK;
  }
  TRI_TRY(tri_grow("a drawing", sizeof *out->spans, out->count, &out->capacity, &out->spans));
  out->spans[out->count++] = (tri_lane_span){paint, begin, end};
  return TRI_OK;
}

static tri_status settle_dust(painter *p) {
  double width = p->dust_end - p->dust_begin;
  int most = 0;
  for (int paint = 1; paint < TRI_NUM_PAINTS; paint++) {
    if (p->owed[paint] > p->owed[most]) most = paint;
  }
  p->owed[most] -= width;
  TRI_TRY(add_span(p, most, p->dust_begin, p->dust_end));
  p->dust_begin = p->dust_end;
  return TRI_OK;
}

/* Ends the dust before a wide piece, and clears all debts. */
static tri_status end_dust(painter *p) {
  double width = p->dust_end - p->dust_begin;
  tri_lane_span *last = p->out->count > 0 ? &p->out->spans[p->out->count - 1] : NULL;
  if (width >= NOTHING) {
    TRI_TRY(settle_dust(p));
  } else if (width > 0 && last != NULL && last->end >= p->dust_begin) {
    last->end = p->dust_end;
  }
  for (int paint = 0; paint < TRI_NUM_PAINTS; paint++) p->owed[paint] = 0;
  return TRI_OK;
}

static tri_status paint(painter *p, int colour, double begin_s, double end_s) {
  double begin = tri_view_place(p->view, begin_s), end = tri_view_place(p->view, end_s);
  if (end <= begin) return TRI_OK;
  if (end - begin >= 1) {
    TRI_TRY(end_dust(p));
    p->dust_begin = p->dust_end = end;
    return add_span(p, colour, begin, end);
  }
  p->dust_end = end;
  p->owed[colour] += end - begin;
  return p->dust_end - p->dust_begin >= 1 ? settle_dust(p) : TRI_OK;
}

/* ---- the innermost event ----------------------------------------------------------------------------------------- */

/* The events of a lane that have begun, stack[depth] with the innermost last, and the time up to which the lane is
 * painted. */
typedef struct walk {
  const tri_event **stack;
  int64_t depth;
  double now_s;
} walk;

static int colour_of(const tri_event *event, double time_s, double waited_s) {
  if (event->kind != TRI_EVENT_COMMUNICATION) return TRI_PAINT_WORK + (int)event->kind;
  return time_s < waited_s ? TRI_PAINT_IDLE : TRI_PAINT_AXES + event->axis;
}

/* Paints the innermost events from now_s to until_s. */
static tri_status walk_until(walk *w, painter *p, double until_s) {
  while (w->now_s < until_s) {
    while (w->depth > 0 && w->stack[w->depth - 1]->end_s <= w->now_s) w->depth--;
    if (w->depth == 0) {
      TRI_TRY(paint(p, TRI_PAINT_IDLE, w->now_s, until_s));
      w->now_s = until_s;
      return TRI_OK;
    }
    const tri_event *event = w->stack[w->depth - 1];
    double waited_s = fmin(event->begin_s + event->wait_s, event->end_s);
    double end_s = fmin(until_s, w->now_s < waited_s ? waited_s : event->end_s);
    TRI_TRY(paint(p, colour_of(event, w->now_s, waited_s), w->now_s, end_s));
    w->now_s = end_s;
  }
  return TRI_OK;
}

static tri_status walk_lane(const tri_event_list *list, tri_event_lane lane, walk *w, painter *p) {
  for (int64_t i = 0; i < list->count; i++) {
    const tri_event *event = &list->events[i];
    if (event->lane != lane) continue;
    TRI_TRY(walk_until(w, p, fmin(event->begin_s, p->view->end_s)));
    w->stack[w->depth++] = event;
  }
  TRI_TRY(walk_until(w, p, p->view->end_s));
  return end_dust(p);
}

tri_status tri_paint_lane(const tri_event_list *list, tri_event_lane lane, const tri_view *view, tri_lane_spans *out) {
  painter p = {.view = view, .out = out};
  walk w = {.now_s = view->begin_s};
  out->count = 0;
  TRI_TRY(tri_alloc("a drawing", (size_t)list->count, sizeof(tri_event *), &w.stack));
  tri_status status = walk_lane(list, lane, &w, &p);
  tri_free(w.stack);
  return status;
}
