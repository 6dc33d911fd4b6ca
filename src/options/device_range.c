#include "options/device_range.h"

#include "base/format.h"
#include "options/json.h"
#include "plan/cost.h"
#include "plan/report.h"
#include "schedule/layout_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A table in progress. Each row's efficiency is relative to the first row that fits. */
typedef struct range {
  const tri_device_range *of;
  const tri_plan_options *options;
  double tokens_per_s; /* tokens/s per device in the first row that fits; 0 if no row has fitted so far */
  json_t *list;        /* objects to print as JSON; NULL: a table is printed */
} range;

int64_t tri_device_range_next(const tri_plan_options *options, int64_t devices) {
  for (int64_t i = 0; i < options->num_listed; i++) {
    if (options->listed[i] > devices) return options->listed[i];
  }
  if (options->num_listed > 0) return INT64_MAX;
  return options->devices_step > 0 ? devices + options->devices_step : 2 * devices;
}

tri_status tri_device_range_check(const tri_plan_options *o) {
  for (int64_t n = o->devices; n <= o->devices_to; n = tri_device_range_next(o, n)) {
    TRI_TRY(tri_plan_options_check_devices(o, n));
  }
  return TRI_OK;
}

static void print_head(const range *r) {
  const tri_plan_options *o = r->options;
  char batch[32], sequence[32], hours[32];
  printf("%s, a global batch of %s sequences of %s tokens%s, on %s: %s\n", o->model.name,
         tri_format_grouped(o->global_batch, batch, sizeof batch),
         tri_format_grouped(o->sequence, sequence, sizeof sequence), tri_report_assumed(o->assumed_sequence),
         o->cluster.name, r->of->title);
  printf("%8s %10s %12s %8s %10s", "devices", "step s", "tokens/s", "MFU", "efficiency");
  if (o->cluster.failures.node_mtbf_hours > 0) printf(" %8s", "goodput");
  if (o->tokens > 0) printf(" %8s", "days");
  snprintf(hours, sizeof hours, "%s-h", o->cluster.device_name);
  printf(" %12s", hours);
  if (o->cluster.cost.price > 0) printf(" %12s", o->cluster.cost.currency);
  if (o->cluster.cost.device_power > 0) printf(" %10s", "kWh");
  printf(" %12s  layout\n", "peak memory");
}

char *tri_format_days(double days, char out[TRI_DAYS_BYTES]) {
  const bool plain = days >= 1 && days < 1e6;
  if (isfinite(days)) snprintf(out, TRI_DAYS_BYTES, plain ? "%.1f" : "%.3g", days);
  if (!isfinite(days)) snprintf(out, TRI_DAYS_BYTES, "never");
  return out;
}

/* Formats a sum; a large sum is formatted as an integer. "-" for 0, the sum of a run that never ends. */
static char *format_sum(double sum, char *buffer, size_t bytes) {
  if (sum == 0) {
    snprintf(buffer, bytes, "-");
    return buffer;
  }
  if (sum >= 10000 && sum < 1e15) return tri_format_grouped(llround(sum), buffer, bytes);
  snprintf(buffer, bytes, "%.4g", sum);
  return buffer;
}

/* Prints a row with an answer. efficiency: tokens/s per device, relative to the first such row. */
static void print_row(const range *r, const tri_device_row *row, const tri_simulation_request *request,
                      double efficiency, const tri_run_cost *e) {
  const tri_plan_options *o = r->options;
  const tri_prediction *p = &row->answer.prediction;
  char number[32], rate[32], sum[32], days[TRI_DAYS_BYTES], text[TRI_LAYOUT_TEXT_BYTES];
  const double steps = o->tokens > 0 ? tri_run_cost_steps(request, e, o->tokens) : 1;
  printf("%8s %10.4f %12s %6.1f %% %8.1f %%", tri_format_grouped(row->devices, number, sizeof number), p->step_s,
         tri_format_count(p->tokens_per_s, rate, sizeof rate), tri_format_rounded(100 * p->mfu, 1),
         tri_format_rounded(100 * efficiency, 1));
  if (e->interrupted) printf(" %6.1f %%", tri_format_rounded(100 * e->goodput, 1));
  if (o->tokens > 0) printf(" %8s", tri_format_days(row->days, days));
  printf(" %12s", format_sum(e->reserved_devices * steps * p->step_s / 3600, sum, sizeof sum));
  if (e->priced) printf(" %12s", format_sum(steps * e->price, sum, sizeof sum));
  if (e->powered) printf(" %10s", format_sum(steps * e->kwh, sum, sizeof sum));
  printf(" %12s  %s\n", tri_format_bytes(p->memory.peak, sum, sizeof sum),
         tri_layout_text(request->layout, text, sizeof text));
}

/* Prints a row without an answer; with --json adds an object for it to the list. */
static void add_none(const range *r, const tri_device_row *row) {
  if (r->list == NULL) {
    char number[32];
    printf("%8s %s: %s\n", tri_format_grouped(row->devices, number, sizeof number), r->of->nothing, row->reason);
    return;
  }
  json_array_append_new(
      r->list, json_pack("{s:I, s:b, s:s}", "devices", (json_int_t)row->devices, "fits", 0, "reason", row->reason));
}

static tri_status add_row(range *r, const tri_device_row *row) {
  const tri_prediction *p = &row->answer.prediction;
  const tri_simulation_request request = tri_plan_options_request(r->options, &row->answer.layout);
  if (row->status != TRI_OK) {
    add_none(r, row);
    return TRI_OK;
  }
  const double each = p->tokens_per_s / (double)row->devices;
  if (r->tokens_per_s == 0) r->tokens_per_s = each;
  const double efficiency = each / r->tokens_per_s;
  if (r->list == NULL) {
    tri_run_cost expense;
    TRI_TRY(tri_run_cost_of(&request, p, &expense));
    print_row(r, row, &request, efficiency, &expense);
    return TRI_OK;
  }
  json_t *object = tri_report_json(&request, p, r->options->tokens);
  json_array_append_new(r->list, object);
  json_object_set_new(object, "devices", json_integer((json_int_t)row->devices));
  json_object_set_new(object, "scaling_efficiency", json_real(efficiency));
  if (row->chosen) json_object_set_new(object, "chosen", json_true());
  return tri_run_cost_json(&request, p, r->options->tokens, object);
}

tri_status tri_device_range_ask(const tri_plan_options *options, const tri_device_range *of, int64_t devices,
                                tri_device_row *out) {
  *out = (tri_device_row){.devices = devices};
  out->status = of->answer(of->context, devices, &out->answer);
  if (out->status != TRI_OK) {
    snprintf(out->reason, sizeof out->reason, "%s", tri_status_message());
    if (out->status != TRI_BAD_LAYOUT && out->status != TRI_OUT_OF_MEMORY) return out->status;
    return TRI_OK;
  }
  if (options->tokens <= 0) return TRI_OK;
  const tri_simulation_request request = tri_plan_options_request(options, &out->answer.layout);
  tri_run_cost expense;
  TRI_TRY(tri_run_cost_of(&request, &out->answer.prediction, &expense));
  const double steps = tri_run_cost_steps(&request, &expense, options->tokens);
  out->days = steps > 0 ? steps * out->answer.prediction.step_s / 86400 : INFINITY;
  return TRI_OK;
}

static void print_foot(const range *r) {
  const tri_plan_options *o = r->options;
  const bool costs = o->cluster.cost.price > 0 || o->cluster.cost.device_power > 0;
  char tokens[32] = "a step", counts[TRI_ENERGY_TEXT_BYTES];
  if (o->tokens > 0) tri_format_count(o->tokens, tokens, sizeof tokens);
  printf("%s-hours%s are of %s%s%s\n", o->cluster.device_name, costs ? ", money and energy" : "", tokens,
         o->tokens > 0 ? " tokens" : "",
         o->cluster.failures.spare_nodes > 0 ? ", and count spare nodes, which are reserved" : "");
  if (o->cluster.cost.device_power > 0) printf("kWh are those of %s\n", tri_run_cost_energy(&o->cluster, counts));
  printf("efficiency: tokens/s per device relative to the first row that fits\n");
  tri_report_accuracy(&o->cluster, &o->system, o->devices_to, stdout);
}

/* Ends the table: prints its foot, or the list of JSON objects unless an earlier step has failed. */
static tri_status end(const range *r, tri_status status) {
  if (status == TRI_OK && r->list != NULL) return tri_print_json(r->list);
  if (status == TRI_OK) print_foot(r);
  json_decref(r->list);
  return status;
}

tri_status tri_device_range_print(const tri_plan_options *o, const tri_device_range *of) {
  range r = {.of = of, .options = o};
  tri_device_row row;
  TRI_TRY(tri_device_range_check(o)); /* before the first question, because a search takes time */
  if (o->json) r.list = json_array();
  if (!o->json) print_head(&r);
  tri_status status = TRI_OK;
  for (int64_t n = o->devices; status == TRI_OK && n <= o->devices_to; n = tri_device_range_next(o, n)) {
    status = tri_device_range_ask(o, of, n, &row);
    if (status == TRI_OK) status = add_row(&r, &row);
  }
  return end(&r, status);
}

tri_status tri_device_range_print_rows(const tri_plan_options *o, const tri_device_range *of,
                                       const tri_device_row *rows, int64_t count) {
  range r = {.of = of, .options = o, .list = o->json ? json_array() : NULL};
  tri_status status = TRI_OK;
  if (!o->json) print_head(&r);
  for (int64_t i = 0; i < count && status == TRI_OK; i++) status = add_row(&r, &rows[i]);
  return end(&r, status);
}
