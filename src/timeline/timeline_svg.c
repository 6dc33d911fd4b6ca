/* A timeline as an SVG drawing that needs no scripts, style sheets or other files.
 *
 * Each rank has a row, with a lane for its own thread and a narrow lane for background communication. A row is drawn in
 * layers: the hatched background of idle time; one path for each colour (timeline_paint.h), which keeps the file small;
 * an invisible rectangle with a title for each event that is wide enough to point at; and the numbers of micro-batches.
 * The narrowest events get no titles, so that there are at most MOST_TITLES. */
#include "timeline/timeline.h"

#include "base/memory.h"
#include "base/plot_axis.h"
#include "files/file.h"
#include "timeline/timeline_paint.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

/* Sizes in pixels. */
enum { PLOT_WIDTH = 1360, MARGIN = 24, TOP = 118, BAR_TOP = 62, BAR_HEIGHT = 10, LEAST_OUTLINED = 5 };

enum { MOST_STEPS = 3, MOST_ROWS = 256, MOST_TITLES = 9000 };

static const char *const colours[TRI_NUM_PAINTS] = {
    [TRI_PAINT_IDLE] = "url(#idle)",
    [TRI_PAINT_WORK + TRI_EVENT_FORWARD] = "#3f7fc4",
    [TRI_PAINT_WORK + TRI_EVENT_BACKWARD] = "#2b8a6a",
    [TRI_PAINT_WORK + TRI_EVENT_BACKWARD_INPUT] = "#2f9f8d",
    [TRI_PAINT_WORK + TRI_EVENT_BACKWARD_WEIGHT] = "#86b94f",
    [TRI_PAINT_WORK + TRI_EVENT_OPTIMIZER] = "#7a5aa8",
    [TRI_PAINT_WORK + TRI_EVENT_LOAD] = "#9aa5b4",
    [TRI_PAINT_WORK + TRI_EVENT_SAMPLE] = "#c79a3b",
    [TRI_PAINT_AXES + TRI_AXIS_TENSOR] = "#f08a24",
    [TRI_PAINT_AXES + TRI_AXIS_CONTEXT_INNER] = "#e3c02c",
    [TRI_PAINT_AXES + TRI_AXIS_CONTEXT] = "#e3c02c",
    [TRI_PAINT_AXES + TRI_AXIS_DATA] = "#d8433f",
    [TRI_PAINT_AXES + TRI_AXIS_PIPELINE] = "#96603a",
    [TRI_PAINT_AXES + TRI_AXIS_EXPERT_TENSOR] = "#d661a8",
    [TRI_PAINT_AXES + TRI_AXIS_EXPERT] = "#d661a8",
    [TRI_PAINT_AXES + TRI_AXIS_EXPERT_DATA] = "#d8433f",
    [TRI_PAINT_AXES + TRI_EVENT_NO_AXIS] = "#4b4b55",
};

static const char *const work_names[] = {"forward",   "backward", "backward, inputs", "backward, weights",
                                         "optimizer", "load",     "sampling"};

typedef struct drawing {
  tri_file_writer *to;
  const tri_timeline *timeline;
  const tri_timeline_step *steps; /* steps to draw */
  int64_t num_steps;
  tri_timeline_shares shares;
  tri_view view;
  double narrowest; /* width in pixels of the narrowest event with a title */
  int rows;
  /* Pixels: the begin of the plot, and the heights of a row and of its lanes. */
  double left, row_height, compute_height, communication_height;
  tri_lane_spans spans;
} drawing;

/* ---- words ------------------------------------------------------------------------------------------------------- */

static bool is_utf8(const char *text) {
  json_t *string = json_string(text); /* NULL if the text is not UTF-8 */
  json_decref(string);
  return string != NULL;
}

/* Writes a text with <, > and & escaped, and without control characters, because XML does not allow them. If a letter
 * was truncated, writes only the ASCII characters of the text. */
static void write_text(drawing *d, const char *text) {
  bool whole = is_utf8(text);
  for (const char *c = text; *c != '\0'; c++) {
    switch (*c) {
      case '<': tri_file_writer_put(d->to, "&lt;"); break;
      case '>': tri_file_writer_put(d->to, "&gt;"); break;
      case '&': tri_file_writer_put(d->to, "&amp;"); break;
      default: {
        unsigned char byte = (unsigned char)*c;
        if (byte >= 0x20 && byte != 0x7f && (byte < 0x80 || whole)) tri_file_writer_put(d->to, "%c", *c);
      }
    }
  }
}

typedef struct unit {
  double seconds;
  const char *name;
} unit;

/* Returns the largest unit in which the number for a duration is at least `least`. */
static unit unit_of(double length_s, double least) {
  static const unit units[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}};
  int i = 0;
  while (i < 3 && length_s < least * units[i].seconds) i++;
  return units[i];
}

static void write_duration(drawing *d, double seconds) {
  unit in = unit_of(seconds, 1);
  double value = seconds / in.seconds;
  tri_file_writer_put(d->to, "%.*f %s", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, in.name);
}

static const char *colour_name(int paint) {
  if (paint == TRI_PAINT_IDLE) return "idle or waiting: the bubble";
  if (paint < TRI_PAINT_AXES) return work_names[paint - TRI_PAINT_WORK];
  return paint == TRI_PAINT_AXES + TRI_EVENT_NO_AXIS ? "all-rank" : tri_event_axis_name(paint - TRI_PAINT_AXES);
}

static double share_of(const tri_timeline_shares *shares, int paint) {
  if (paint == TRI_PAINT_IDLE) return shares->bubble;
  if (paint < TRI_PAINT_AXES) return shares->by_kind[paint - TRI_PAINT_WORK];
  return shares->exposed[paint - TRI_PAINT_AXES];
}

/* ---- the head ---------------------------------------------------------------------------------------------------- */

/* Smallest share that is printed as more than 0.0 %. */
static const double LEAST_SHARE = 0.0005;

static void write_axes(drawing *d, const char *what, const double by_axis[TRI_EVENT_AXES]) {
  double sum = 0;
  for (int axis = 0; axis < TRI_EVENT_AXES; axis++) sum += by_axis[axis];
  if (sum < LEAST_SHARE) return;
  tri_file_writer_put(d->to, " · <tspan font-weight=\"600\">%s %.1f %%</tspan>", what, 100 * sum);
  const char *separator = " (";
  for (int axis = 0; axis < TRI_EVENT_AXES; axis++) {
    if (by_axis[axis] < LEAST_SHARE) continue;
    tri_file_writer_put(d->to, "%s%s %.1f %%", separator, tri_event_axis_name(axis), 100 * by_axis[axis]);
    separator = ", ";
  }
  if (separator[0] == ',') tri_file_writer_put(d->to, ")");
}

static void draw_shares(drawing *d) {
  const tri_timeline_shares *shares = &d->shares;
  if (shares->num_steps == 0) return;
  tri_file_writer_put(d->to, "<text x=\"%d\" y=\"51\">%lld %s, ", MARGIN, (long long)shares->num_steps,
                      shares->num_steps == 1 ? "step" : "steps");
  write_duration(d, shares->step_s);
  tri_file_writer_put(d->to, "%s: <tspan font-weight=\"600\">compute %.1f %%</tspan>",
                      shares->num_steps == 1 ? "" : " each", 100 * shares->compute);
  write_axes(d, "exposed communication", shares->exposed);
  tri_file_writer_put(d->to, " · <tspan font-weight=\"600\">bubble %.1f %%</tspan>", 100 * shares->bubble);
  write_axes(d, "hidden communication", shares->hidden);
  tri_file_writer_put(d->to, "</text>\n");
}

/* Draws the shares as one bar. The bubble is the last part. */
static void draw_bar(drawing *d) {
  double width = d->left + PLOT_WIDTH - MARGIN, x = MARGIN;
  for (int i = 1; i <= TRI_NUM_PAINTS; i++) {
    int paint = i % TRI_NUM_PAINTS;
    double share = share_of(&d->shares, paint);
    if (share <= 0) continue;
    tri_file_writer_put(d->to,
                        "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"><title>%s %.1f %%</title>"
                        "</rect>\n",
                        x, BAR_TOP, width * share, BAR_HEIGHT, colours[paint], colour_name(paint), 100 * share);
    x += width * share;
  }
}

static bool is_seen(const drawing *d, int paint) {
  if (share_of(&d->shares, paint) > 0) return true;
  return paint >= TRI_PAINT_AXES && d->shares.hidden[paint - TRI_PAINT_AXES] > 0;
}

static void draw_legend(drawing *d) {
  double x = MARGIN;
  const int y = BAR_TOP + BAR_HEIGHT + 10;
  for (int i = 1; i <= TRI_NUM_PAINTS; i++) {
    int paint = i % TRI_NUM_PAINTS;
    bool axis = paint >= TRI_PAINT_AXES;
    if (!is_seen(d, paint)) continue;
    tri_file_writer_put(d->to,
                        "<rect x=\"%.0f\" y=\"%d\" width=\"12\" height=\"12\" fill=\"%s\"%s/>"
                        "<text x=\"%.0f\" y=\"%d\">%s%s</text>\n",
                        x, y, colours[paint], paint == (int)TRI_PAINT_IDLE ? " stroke=\"#b9bec6\"" : "", x + 17, y + 10,
                        colour_name(paint), axis ? " communication" : "");
    x += 17 + 6.1 * (double)(strlen(colour_name(paint)) + (axis ? strlen(" communication") : 0)) + 20;
  }
}

static void draw_head(drawing *d, const char *title) {
  double width = d->left + PLOT_WIDTH + MARGIN, height = TOP + d->rows * d->row_height + 52;
  tri_file_writer_put(
      d->to,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
      "style=\"max-width:max(100%%,960px);height:auto\" font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\" "
      "font-size=\"12\" fill=\"#23272e\">\n",
      width, height, width, height);
  tri_file_writer_put(d->to,
                      "<defs><pattern id=\"idle\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
                      "patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"#f1f2f4\"/>"
                      "<rect width=\"1.2\" height=\"6\" fill=\"#d3d7dd\"/></pattern></defs>\n");
  tri_file_writer_put(d->to, "<rect width=\"%.0f\" height=\"%.0f\" fill=\"#fff\"/>\n", width, height);
  tri_file_writer_put(d->to, "<text x=\"%d\" y=\"30\" font-size=\"17\" font-weight=\"600\">", MARGIN);
  write_text(d, title);
  tri_file_writer_put(d->to, "</text>\n");
  draw_shares(d);
  draw_bar(d);
  draw_legend(d);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static int rank_of_row(const drawing *d, int row) { return (int)((int64_t)row * d->timeline->num_ranks / d->rows); }

static double top_of_row(const drawing *d, int row) { return TOP + row * d->row_height; }

static double top_of_lane(const drawing *d, int row, tri_event_lane lane) {
  switch (lane) {
    case TRI_LANE_COMPUTE: return top_of_row(d, row);
    case TRI_LANE_COMMUNICATION: return top_of_row(d, row) + d->compute_height + 1;
  }
  return 0;
}

static double height_of_lane(const drawing *d, tri_event_lane lane) {
  switch (lane) {
    case TRI_LANE_COMPUTE: return d->compute_height;
    case TRI_LANE_COMMUNICATION: return d->communication_height;
  }
  return 0;
}

/* Draws the hatched background of all drawn steps, and the plain one of the communication lane. */
static void draw_ground(drawing *d, int row) {
  double end = 0;
  tri_file_writer_put(d->to, "<path fill=\"url(#idle)\" d=\"");
  for (int64_t i = 0; i < d->num_steps; i++) {
    double begin = fmax(end, tri_view_place(&d->view, d->steps[i].begin_s));
    end = fmax(end, tri_view_place(&d->view, d->steps[i].end_s));
    tri_file_writer_put(d->to, "M%.1f %.1fH%.1fv%.1fH%.1fz", d->left + begin, top_of_row(d, row), d->left + end,
                        d->compute_height, d->left + begin);
  }
  tri_file_writer_put(d->to, "\"/>\n<path fill=\"#f1f2f4\" d=\"M%.1f %.1fh%dv%.1fh-%dz\"/>\n", d->left,
                      top_of_lane(d, row, TRI_LANE_COMMUNICATION), PLOT_WIDTH, d->communication_height, PLOT_WIDTH);
}

static tri_status draw_lane(drawing *d, int row, tri_event_lane lane) {
  TRI_TRY(tri_paint_lane(&d->timeline->ranks[rank_of_row(d, row)], lane, &d->view, &d->spans));
  for (int paint = 1; paint < TRI_NUM_PAINTS; paint++) {
    bool any = false;
    for (int64_t i = 0; i < d->spans.count; i++) {
      const tri_lane_span *span = &d->spans.spans[i];
      if (span->paint != paint) continue;
      if (!any) tri_file_writer_put(d->to, "<path fill=\"%s\" d=\"", colours[paint]);
      any = true;
      tri_file_writer_put(d->to, "M%.2f %.1fH%.2fv%.1fH%.2fz", d->left + span->begin, top_of_lane(d, row, lane),
                          d->left + span->end, height_of_lane(d, lane), d->left + span->begin);
    }
    if (any) tri_file_writer_put(d->to, "\"/>\n");
  }
  return tri_file_writer_status(d->to);
}

static void write_title(drawing *d, const tri_event *event) {
  bool communicates = event->kind == TRI_EVENT_COMMUNICATION;
  write_text(d, event->name);
  if (communicates) tri_file_writer_put(d->to, " (%s)", tri_event_axis_name(event->axis));
  if (event->micro_batch >= 0) tri_file_writer_put(d->to, ", micro-batch %d", event->micro_batch);
  if (event->chunk >= 0) tri_file_writer_put(d->to, ", chunk %d", event->chunk);
  tri_file_writer_put(d->to, ", step %lld: ", (long long)event->step + 1);
  write_duration(d, event->end_s - event->begin_s);
  if (event->wait_s > 0) {
    tri_file_writer_put(d->to, ", including ");
    write_duration(d, event->wait_s);
    tri_file_writer_put(d->to, " waiting");
  }
  if (communicates && event->bytes > 0) tri_file_writer_put(d->to, ", %lld bytes", (long long)event->bytes);
}

static double width_of(const drawing *d, const tri_event *event) {
  return tri_view_place(&d->view, event->end_s) - tri_view_place(&d->view, event->begin_s);
}

/* Draws an event as an invisible rectangle with a title; nothing if it is narrower than d->narrowest. A wide event gets
 * an outline, except communication in the compute lane: it is usually nested in another event, where the outline would
 * look like a pause. The chunks have different shades. */
static void draw_event(drawing *d, int row, const tri_event *event) {
  static const double shades[] = {0, 0.28, 0.14, 0.4};
  double width = width_of(d, event);
  if (width < d->narrowest) return;
  double x = d->left + tri_view_place(&d->view, event->begin_s);
  tri_file_writer_put(d->to, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"", x,
                      top_of_lane(d, row, event->lane), width, height_of_lane(d, event->lane));
  if (event->chunk > 0 && event->kind <= TRI_EVENT_BACKWARD_WEIGHT && event->chunk % 4 != 0) {
    tri_file_writer_put(d->to, " fill-opacity=\"%.2f\"", shades[event->chunk % 4]);
  }
  bool inner = event->kind == TRI_EVENT_COMMUNICATION && event->lane == TRI_LANE_COMPUTE;
  if (width >= LEAST_OUTLINED && !inner) tri_file_writer_put(d->to, " stroke=\"#fff\"");
  tri_file_writer_put(d->to, "><title>");
  write_title(d, event);
  tri_file_writer_put(d->to, "</title></rect>\n");
}

static void draw_number(drawing *d, int row, const tri_event *event) {
  if (event->micro_batch < 0 || event->lane != TRI_LANE_COMPUTE || event->kind > TRI_EVENT_BACKWARD_WEIGHT) return;
  double size = fmin(11, d->compute_height - 3), width = width_of(d, event);
  int digits = event->micro_batch < 10 ? 1 : event->micro_batch < 100 ? 2 : event->micro_batch < 1000 ? 3 : 6;
  if (size < 6 || width < 0.6 * size * digits + 4) return;
  tri_file_writer_put(d->to, "<text x=\"%.1f\" y=\"%.1f\">%d</text>\n",
                      d->left + tri_view_place(&d->view, event->begin_s) + width / 2,
                      top_of_row(d, row) + d->compute_height / 2 + 0.36 * size, event->micro_batch);
}

static void draw_label(drawing *d, int row) {
  int rank = rank_of_row(d, row), every = 1;
  while (every * d->row_height < 9) every++;
  if (row % every != 0) return;
  double size = fmin(12, fmax(8, d->compute_height));
  tri_file_writer_put(d->to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\" font-size=\"%.1f\">", d->left - 10,
                      top_of_row(d, row) + d->compute_height / 2 + 0.36 * size, size);
  write_text(d, d->timeline->labels[rank]);
  tri_file_writer_put(d->to, "</text>\n");
}

static tri_status draw_row(drawing *d, int row) {
  const tri_event_list *list = &d->timeline->ranks[rank_of_row(d, row)];
  draw_label(d, row);
  draw_ground(d, row);
  TRI_TRY(draw_lane(d, row, TRI_LANE_COMPUTE));
  TRI_TRY(draw_lane(d, row, TRI_LANE_COMMUNICATION));
  tri_file_writer_put(d->to,
                      "<g fill=\"#fff\" fill-opacity=\"0\" stroke-width=\"0.8\" "
                      "pointer-events=\"all\">\n");
  for (int64_t i = 0; i < list->count; i++) draw_event(d, row, &list->events[i]);
  tri_file_writer_put(d->to,
                      "</g>\n<g fill=\"#fff\" font-size=\"%.1f\" text-anchor=\"middle\" pointer-events=\"none\" "
                      "stroke=\"#1b1e24\" stroke-opacity=\"0.35\" stroke-width=\"1.8\" paint-order=\"stroke\">\n",
                      fmin(11, d->compute_height - 3));
  for (int64_t i = 0; i < list->count; i++) draw_number(d, row, &list->events[i]);
  tri_file_writer_put(d->to, "</g>\n");
  return tri_file_writer_status(d->to);
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

/* Draws the time axis below the rows. It begins at the first drawn step. */
static void draw_time(drawing *d) {
  double length_s = d->view.end_s - d->view.begin_s, bottom = top_of_row(d, d->rows);
  unit in = unit_of(length_s, 2);
  const tri_plot_axis axis = {.high = length_s / in.seconds, .start = d->left, .size = PLOT_WIDTH};
  double ticks[TRI_PLOT_TICKS];
  int count = tri_plot_ticks(&axis, 12, ticks);
  tri_file_writer_put(d->to, "<g stroke=\"#8a919c\"><path d=\"M%.1f %.1fh%d\"/>\n", d->left, bottom + 4, PLOT_WIDTH);
  for (int i = 0; i < count; i++) {
    tri_file_writer_put(d->to, "<path d=\"M%.1f %.1fv5\"/>", tri_plot_place(&axis, ticks[i]), bottom + 4);
  }
  tri_file_writer_put(d->to, "</g>\n<g text-anchor=\"middle\" font-size=\"11\">\n");
  for (int i = 0; i < count; i++) {
    tri_file_writer_put(d->to, "<text x=\"%.1f\" y=\"%.1f\">%.6g</text>", tri_plot_place(&axis, ticks[i]), bottom + 22,
                        ticks[i]);
  }
  tri_file_writer_put(d->to, "\n<text x=\"%.1f\" y=\"%.1f\">%s</text></g>\n", d->left + PLOT_WIDTH / 2.0, bottom + 40,
                      in.name);
}

/* Prints which steps are drawn if there are more, and explains the numbers in the bars. */
static void draw_note(drawing *d) {
  const long long first = d->num_steps == 0 ? 0 : (long long)d->steps[0].step + 1;
  tri_file_writer_put(d->to, "<text x=\"%d\" y=\"%.1f\" font-size=\"11\">", MARGIN, top_of_row(d, d->rows) + 40);
  if (d->num_steps < d->shares.num_steps) {
    tri_file_writer_put(d->to, "drawn: steps %lld to %lld, the last of these %lld; ", first,
                        (long long)d->steps[d->num_steps - 1].step + 1, (long long)d->shares.num_steps);
  }
  tri_file_writer_put(d->to, "a number in a bar is its micro-batch, counted from 0</text>\n");
}

static void draw_steps(drawing *d) {
  for (int64_t i = 0; i < d->num_steps; i++) {
    double x = d->left + tri_view_place(&d->view, d->steps[i].begin_s);
    tri_file_writer_put(d->to,
                        "<path stroke=\"#23272e\" stroke-dasharray=\"4 3\" d=\"M%.1f %dV%.1f\"/>"
                        "<text x=\"%.1f\" y=\"%d\" font-size=\"11\">step %lld</text>\n",
                        x, TOP - 14, top_of_row(d, d->rows) + 4, x + 5, TOP - 5, (long long)d->steps[i].step + 1);
  }
}

/* ---- choices ----------------------------------------------------------------------------------------------------- */

static void choose_rows(drawing *d) {
  d->rows = d->timeline->num_ranks < MOST_ROWS ? d->timeline->num_ranks : MOST_ROWS;
  double room = d->rows <= 8 ? 46 : d->rows <= 16 ? 38 : fmax(9, 608.0 / d->rows);
  d->row_height = room;
  d->compute_height = 0.6 * room;
  d->communication_height = 0.2 * room;
  size_t longest = 0;
  for (int row = 0; row < d->rows; row++) {
    size_t length = strlen(d->timeline->labels[rank_of_row(d, row)]);
    longest = length > longest ? length : longest;
  }
  d->left = MARGIN + 10 + 6.2 * (double)longest;
}

static int64_t count_titles(const drawing *d) {
  int64_t titles = 0;
  for (int row = 0; row < d->rows; row++) {
    const tri_event_list *list = &d->timeline->ranks[rank_of_row(d, row)];
    for (int64_t i = 0; i < list->count; i++) titles += width_of(d, &list->events[i]) >= d->narrowest;
  }
  return titles;
}

/* Chooses the smallest width of events with titles at which there are not too many titles. */
static void choose_titles(drawing *d) {
  d->narrowest = 2;
  while (count_titles(d) > MOST_TITLES) d->narrowest *= 1.5;
}

static void choose_view(drawing *d, const tri_timeline_step *steps, int64_t count) {
  d->num_steps = count < MOST_STEPS ? count : MOST_STEPS;
  d->steps = steps + count - d->num_steps;
  d->view = (tri_view){0, 1e-9, PLOT_WIDTH};
  if (d->num_steps == 0) return;
  d->view.begin_s = d->steps[0].begin_s;
  d->view.end_s = -INFINITY;
  for (int64_t i = 0; i < d->num_steps; i++) {
    d->view.begin_s = fmin(d->view.begin_s, d->steps[i].begin_s);
    d->view.end_s = fmax(d->view.end_s, d->steps[i].end_s);
  }
  if (d->view.end_s <= d->view.begin_s) d->view.end_s = d->view.begin_s + 1e-9;
}

static tri_status timeline_svg_draw(drawing *d, const char *title) {
  tri_status status = TRI_OK;
  choose_rows(d);
  choose_titles(d);
  draw_head(d, title);
  for (int row = 0; row < d->rows && status == TRI_OK; row++) status = draw_row(d, row);
  draw_steps(d);
  draw_note(d);
  draw_time(d);
  tri_file_writer_put(d->to, "</svg>\n");
  tri_free(d->spans.spans);
  return status;
}

tri_status tri_timeline_write_svg(const tri_timeline *timeline, const char *title, const char *path) {
  drawing d = {.timeline = timeline};
  tri_timeline_step *steps = NULL;
  int64_t count = 0;
  TRI_TRY(tri_timeline_add_up(timeline, INT64_MIN, INT64_MAX, &d.shares));
  TRI_TRY(tri_timeline_steps(timeline, &steps, &count));
  choose_view(&d, steps, count);
  tri_status status = tri_file_writer_open(path, &d.to);
  if (status == TRI_OK) status = tri_file_writer_close(d.to, timeline_svg_draw(&d, title));
  tri_free(steps);
  return status;
}
