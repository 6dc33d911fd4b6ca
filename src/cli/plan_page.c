#include "cli/plan_page.h"

#include "base/format.h"
#include "cli/plan_report.h"
#include "page/chart.h"
#include "plan/cost.h"
#include "plan/report.h"
#include "schedule/layout_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TITLE_BYTES = 256, VALUE_BYTES = 256, AMOUNT_BYTES = 32, MOST_BARS = 6 + TRI_STEP_AXES };

typedef struct plan_page {
  const tri_plan_options *options;
  const tri_simulation_request *request;
  const tri_prediction *prediction;
  const tri_search_result *result; /* NULL: no alternatives */
  tri_run_cost cost;
  FILE *to;
} plan_page;

static double devices_of(const plan_page *p) { return (double)tri_layout_ranks(p->request->layout); }

/* Returns the nodes of the layout, without spare ones. */
static int64_t nodes_of(const plan_page *p) { return (int64_t)p->cost.reserved_nodes - p->cost.spare_nodes; }

/* ---- texts ------------------------------------------------------------------------------------------------------- */

/* A text that the functions of the terminal's report write, to be shown as paragraphs. */
typedef struct paragraphs {
  FILE *to;
  char *bytes;
  size_t count;
} paragraphs;

static tri_status paragraphs_open(paragraphs *t) {
  *t = (paragraphs){0};
  t->to = open_memstream(&t->bytes, &t->count);
  return t->to != NULL ? TRI_OK : tri_fail(TRI_OUT_OF_MEMORY, "no memory for the texts of a page");
}

/* Writes a paragraph for each line of the text, if `status` is TRI_OK, and releases the text. */
static tri_status paragraphs_close(paragraphs *t, tri_status status, FILE *page) {
  if (fclose(t->to) != 0 && status == TRI_OK) status = tri_fail(TRI_OUT_OF_MEMORY, "no memory for the texts of a page");
  for (char *line = t->bytes; status == TRI_OK && line != NULL && *line != '\0';) {
    char *end = strchr(line, '\n');
    if (end != NULL) *end = '\0';
    fputs("<p>", page);
    tri_html_text(line, page);
    fputs("</p>\n", page);
    line = end == NULL ? NULL : end + 1;
  }
  free(t->bytes);
  return status;
}

static void write_heading(const char *text, FILE *to) {
  fputs("<h2>", to);
  tri_html_text(text, to);
  fputs("</h2>\n", to);
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

static void write_fact(const plan_page *p, const char *name, const char *value) {
  fputs("<tr><th>", p->to);
  tri_html_text(name, p->to);
  fputs("</th><td>", p->to);
  tri_html_list(value, p->to);
  fputs("</td></tr>\n", p->to);
}

/* Formats an amount: with two decimals below 100, else as 12.3K. */
static const char *format_amount(double amount, char out[AMOUNT_BYTES]) {
  if (amount >= 100 && amount < 1e15) return tri_format_count(amount, out, AMOUNT_BYTES);
  snprintf(out, AMOUNT_BYTES, amount < 100 ? "%.2f" : "%.3g", amount);
  return out;
}

/* Writes the hours of reserved devices or nodes. of: "" for the whole run, " of a step". without: the hours without
 * spare nodes. */
static void write_hours(const plan_page *p, const char *unit, const char *of, double hours, double without) {
  char name[64], value[VALUE_BYTES], amount[AMOUNT_BYTES], compute[AMOUNT_BYTES], spare[TRI_SPARE_TEXT_BYTES];
  snprintf(name, sizeof name, "%s-hours%s", unit, of);
  snprintf(value, sizeof value, "%s", format_amount(hours, amount));
  if (p->cost.spare_nodes > 0) {
    snprintf(value, sizeof value, "%s (%s; %s without)", amount, tri_run_cost_spare(&p->cost, spare),
             format_amount(without, compute));
  }
  write_fact(p, name, value);
}

/* Writes the facts of the whole run, if the number of its tokens is given, or of a step. */
static void write_totals(const plan_page *p) {
  char value[VALUE_BYTES], amount[AMOUNT_BYTES], name[64], many[32], time[32], counts[TRI_ENERGY_TEXT_BYTES];
  const bool whole = p->options->tokens > 0;
  const double steps = whole ? tri_run_cost_steps(p->request, &p->cost, p->options->tokens) : 1;
  const double seconds = steps * p->prediction->step_s, hours = seconds / 3600;
  tri_format_count(p->options->tokens, many, sizeof many);
  if (whole && steps <= 0) {
    write_fact(p, "time", "the run never ends: failures are more frequent than progress");
    return;
  }
  if (whole && seconds >= 86400) {
    snprintf(value, sizeof value, seconds < 1e11 ? "%.1f days for %s tokens" : "%.3g days for %s tokens",
             seconds / 86400, many);
  }
  if (whole && seconds < 86400)
    snprintf(value, sizeof value, "%s for %s tokens", tri_format_seconds(seconds, time, sizeof time), many);
  if (whole) write_fact(p, p->cost.interrupted ? "time, with failures" : "time", value);
  const char *of = whole ? "" : " of a step";
  write_hours(p, p->request->cluster->device_name, of, hours * p->cost.reserved_devices, hours * devices_of(p));
  write_hours(p, "node", of, hours * p->cost.reserved_nodes, hours * (double)nodes_of(p));
  if (p->cost.priced) {
    snprintf(name, sizeof name, "cost%s", of);
    snprintf(value, sizeof value, "%s %s", format_amount(steps * p->cost.price, amount),
             p->request->cluster->cost.currency);
    write_fact(p, name, value);
  }
  if (!p->cost.powered) return;
  snprintf(name, sizeof name, "energy%s", of);
  snprintf(value, sizeof value, "%s kWh of %s", format_amount(steps * p->cost.kwh, amount),
           tri_run_cost_energy(p->request->cluster, counts));
  write_fact(p, name, value);
}

static void write_answer(const plan_page *p) {
  const tri_prediction *made = p->prediction;
  char value[VALUE_BYTES], rate[32], peak[32], room[TRI_REPORT_MEMORY_BYTES], layout[TRI_LAYOUT_TEXT_BYTES];
  char devices[32], nodes[32];
  fputs("<table>\n", p->to);
  snprintf(value, sizeof value, "%s (%s node%s)", tri_format_grouped((int64_t)devices_of(p), devices, sizeof devices),
           tri_format_grouped(nodes_of(p), nodes, sizeof nodes), TRI_PLURAL(nodes_of(p)));
  write_fact(p, "devices", value);
  write_fact(p, "layout", tri_layout_text(p->request->layout, layout, sizeof layout));
  write_totals(p);
  snprintf(value, sizeof value, "%.4g s for %lld sequences: %s tokens/s", made->step_s,
           (long long)p->request->global_batch, tri_format_count(made->tokens_per_s, rate, sizeof rate));
  write_fact(p, "step", value);
  snprintf(value, sizeof value, "%.1f TFLOP/s for each device (MFU %.1f %%)", made->model_tflops_per_device,
           100 * made->mfu);
  write_fact(p, "use of the devices", value);
  snprintf(value, sizeof value, "%s of %s on the fullest device: %s",
           tri_format_bytes(made->memory.peak, peak, sizeof peak), tri_report_memory(p->request, room),
           made->fits ? "fits" : "does not fit");
  write_fact(p, "memory", value);
  fputs("</table>\n", p->to);
}

/* Writes the accuracy of predictions, the costs and the failures that the answer contains. */
static tri_status write_grounds(const plan_page *p) {
  paragraphs t;
  char attention[TRI_REPORT_ATTENTION_BYTES];
  write_heading("Assumptions and accuracy", p->to);
  TRI_TRY(paragraphs_open(&t));
  tri_report_accuracy(p->request->cluster, p->request->system, p->options->devices, t.to);
  fprintf(t.to, "%s\n", tri_report_attention(p->request, attention));
  return paragraphs_close(&t, tri_run_cost_text(p->request, p->prediction, p->options->tokens, t.to), p->to);
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

/* Horizontal bars. */
typedef struct bars {
  const char *names[MOST_BARS]; /* [count] */
  double values[MOST_BARS];     /* [count], in `unit` */
  int64_t count;
  const char *unit;
  double whole; /* value that counts as 100 % in the labels */
  double limit; /* a vertical line at this value; 0: none */
} bars;

static void add_bar(bars *b, const char *name, double value) {
  if (value <= 0) return;
  b->names[b->count] = name;
  b->values[b->count++] = value;
}

static void draw_bars(const bars *b, const char *title, FILE *to) {
  enum { HEIGHT = 28 };
  const tri_chart_form form = {
      .width = 680, .height = 60 + HEIGHT * (int)b->count, .left = 110, .right = 14, .top = 8, .bottom = 52};
  tri_chart chart;
  tri_chart_span span = {0, b->limit};
  for (int64_t i = 0; i < b->count; i++) tri_chart_span_add(&span, b->values[i]);
  span.high *= 1.3; /* room for the labels at the ends of the bars */
  tri_chart_begin(&chart, &form, title, to);
  tri_chart_set_across(&chart, b->unit, span, false);
  tri_chart_set_words_down(&chart, b->names, b->count);
  tri_chart_draw_axes(&chart);
  for (int64_t i = 0; i < b->count; i++) {
    char label[64];
    const double from = tri_chart_x(&chart, 0), end = tri_chart_x(&chart, b->values[i]);
    const double middle = tri_chart_y(&chart, (double)i);
    tri_chart_box(&chart, "class=\"bar\"", from, middle - 9, end - from, 18);
    snprintf(label, sizeof label, "%.4g %s, %.1f %%", b->values[i], b->unit,
             tri_format_rounded(100 * b->values[i] / b->whole, 1));
    tri_chart_text(&chart, "", end + 5, middle + 4.5, "start", label);
  }
  if (b->limit > 0) {
    tri_chart_segment(&chart, "stroke=\"#b5432a\" stroke-width=\"2\"", b->limit, -0.5, b->limit,
                      (double)b->count - 0.5);
  }
  tri_chart_end(&chart);
}

static void draw_memory(const plan_page *p) {
  const tri_memory_parts *m = &p->prediction->memory;
  const double gib = 1 << 30, room = tri_system_room(p->request->system, p->request->cluster);
  bars b = {.unit = "GiB", .whole = m->peak / gib, .limit = room / gib};
  char line[VALUE_BYTES], bytes[32];
  write_heading("Memory of the fullest device", p->to);
  add_bar(&b, "parameters", m->parameters / gib);
  add_bar(&b, "gradients", m->gradients / gib);
  add_bar(&b, "optimizer", m->optimizer / gib);
  add_bar(&b, "activations", m->activations / gib);
  add_bar(&b, "buffers", m->buffers / gib);
  add_bar(&b, "all", m->peak / gib);
  draw_bars(&b, "memory of the fullest device by part", p->to);
  snprintf(line, sizeof line, "The line is the memory that a run may use, %s.",
           tri_format_bytes(room, bytes, sizeof bytes));
  fprintf(p->to, "<p>%s</p>\n", line);
}

static void draw_time(const plan_page *p) {
  const tri_step_time *t = &p->prediction->time;
  bars b = {.unit = "s", .whole = p->prediction->step_s};
  write_heading("Time of a step", p->to);
  add_bar(&b, "computation", t->compute);
  for (int i = 0; i < TRI_STEP_AXES; i++) add_bar(&b, tri_axis_name(tri_step_axis(i)), t->along[tri_step_axis(i)]);
  add_bar(&b, "bubble", t->bubble);
  add_bar(&b, "optimizer", t->optimizer);
  add_bar(&b, "all", p->prediction->step_s);
  draw_bars(&b, "time of a step by part", p->to);
  fputs(
      "<p>Communication is the time in which a device waits for messages along an axis of the layout; the bubble is "
      "the time in which a stage of the pipeline has nothing to do.</p>\n",
      p->to);
}

/* ---- alternatives ------------------------------------------------------------------------------------------------ */

static tri_status write_alternatives(const plan_page *p) {
  paragraphs t;
  if (p->result == NULL) return TRI_OK;
  write_heading("Alternatives", p->to);
  fputs(
      "<div class=\"wide\"><table>\n<tr><th></th><th>step</th><th>MFU</th><th>bubble</th><th>peak "
      "memory</th><th>layout</th></tr>\n",
      p->to);
  for (int64_t i = 0; i < p->result->num_answers; i++) {
    const tri_answer *answer = &p->result->answers[i];
    char bytes[32], layout[TRI_LAYOUT_TEXT_BYTES];
    fprintf(p->to, "<tr%s><td>%ld</td><td>%.4g s</td><td>%.1f %%</td><td>%.1f %%</td><td>%s</td><td class=\"name\">",
            i == 0 ? " class=\"winner\"" : "", (long)i + 1, answer->prediction.step_s,
            tri_format_rounded(100 * answer->prediction.mfu, 1), tri_format_rounded(100 * answer->prediction.bubble, 1),
            tri_format_bytes(answer->prediction.memory.peak, bytes, sizeof bytes));
    tri_html_list(tri_layout_text(&answer->layout, layout, sizeof layout), p->to);
    fputs("</td></tr>\n", p->to);
  }
  fputs("</table></div>\n", p->to);
  TRI_TRY(paragraphs_open(&t));
  tri_plan_report_alternatives(p->result, t.to);
  tri_plan_report_searched(p->options, p->result, t.to);
  return paragraphs_close(&t, TRI_OK, p->to);
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

static tri_status write_all(const plan_page *p) {
  paragraphs t;
  write_answer(p);
  TRI_TRY(paragraphs_open(&t));
  tri_report_heading(p->request, t.to);
  TRI_TRY(paragraphs_close(&t, TRI_OK, p->to));
  TRI_TRY(write_grounds(p));
  draw_memory(p);
  draw_time(p);
  return write_alternatives(p);
}

tri_status tri_plan_page_write(const tri_plan_options *options, const tri_simulation_request *request,
                               const tri_prediction *prediction, const tri_search_result *result, const char *path) {
  plan_page p = {.options = options, .request = request, .prediction = prediction, .result = result};
  char title[TITLE_BYTES], devices[32];
  tri_page page;
  TRI_TRY(tri_run_cost_of(request, prediction, &p.cost));
  TRI_TRY(tri_page_open(&page, path));
  p.to = page.to;
  snprintf(title, sizeof title, "%s on %s device%s of %s", request->model->name,
           tri_format_grouped((int64_t)devices_of(&p), devices, sizeof devices), TRI_PLURAL((int64_t)devices_of(&p)),
           request->cluster->name);
  tri_html_begin(title, p.to);
  const tri_status status = write_all(&p);
  tri_html_end(p.to);
  return tri_page_close(&page, path, status);
}
