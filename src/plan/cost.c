#include "plan/cost.h"

#include "base/format.h"
#include "schedule/layout_config.h"

#include <math.h>
#include <string.h>

static const double seconds_of_hour = 3600;

static double devices_of(const tri_simulation_request *request) { return (double)tri_layout_ranks(request->layout); }

static double nodes_of(const tri_simulation_request *request) {
  return ceil(devices_of(request) / (double)request->cluster->node_devices);
}

/* Returns the number of nodes of the machine that the run does not use. */
static int64_t other_nodes(const tri_simulation_request *request) {
  const tri_cluster *cluster = request->cluster;
  if (cluster->max_devices == 0) return INT64_MAX;
  const int64_t others = cluster->max_devices / cluster->node_devices - (int64_t)nodes_of(request);
  return others > 0 ? others : 0;
}

/* Returns the number of spare nodes, which are idle: those of the file, as far as the machine has them. */
static int64_t spare_nodes(const tri_simulation_request *request) {
  const int64_t spare = request->cluster->failures.spare_nodes, others = other_nodes(request);
  return others < spare ? others : spare;
}

/* Returns the energy of a step in kWh, with that of spare nodes and of the building (`pue`). A device draws its full
 * power while it computes, and its idle power while it waits for other ranks and messages. The power of the rest of
 * a node is constant. */
static double step_kwh(const tri_simulation_request *request, const tri_prediction *p, int64_t spare_nodes) {
  const tri_tariff *cost = &request->cluster->cost;
  double idle = cost->idle_power > 0 ? cost->idle_power : cost->device_power;
  double busy_s = fmin(p->time.compute + p->time.optimizer, p->step_s);
  double of_device = cost->device_power * busy_s + idle * (p->step_s - busy_s);
  double of_spare = (double)request->cluster->node_devices * idle + cost->node_power;
  double joules = devices_of(request) * of_device + nodes_of(request) * cost->node_power * p->step_s;
  joules += (double)spare_nodes * of_spare * p->step_s;
  return cost->pue * joules / seconds_of_hour / 1e3;
}

/* Computes the bytes of a checkpoint: weights and optimizer states in a layout with a single rank. Copies of weights
 * in 16 bits are not saved. */
static tri_status whole_state(const tri_simulation_request *request, double *bytes) {
  tri_layout layout;
  tri_memory_parts memory;
  tri_simulation_request single = *request;
  TRI_TRY(tri_layout_parse("zero=0,micro_batch=1", &layout));
  single.global_batch = 1;
  if (single.precision == TRI_BF16) single.precision = TRI_FP32;
  TRI_TRY(tri_layout_resolve(&layout, request->model, request->sequence, single.global_batch, 1));
  single.layout = &layout;
  TRI_TRY(tri_predict_memory(&single, 0, &memory));
  *bytes = memory.parameters + memory.optimizer;
  return TRI_OK;
}

static tri_status add_failures(const tri_simulation_request *request, tri_run_cost *out) {
  tri_failing_run run = {.keys = request->cluster->failures,
                         .devices = devices_of(request),
                         .nodes = nodes_of(request),
                         .other_nodes = other_nodes(request)};
  run.keys.spare_nodes = out->spare_nodes;
  TRI_TRY(whole_state(request, &run.checkpoint_bytes));
  const tri_run_goodput found = tri_failing_run_goodput(&run);
  out->checkpoint_bytes = run.checkpoint_bytes;
  out->writing = found.writing;
  out->shared = found.shared;
  out->failures = found.failures;
  out->interval_s = found.interval_s;
  out->availability = found.availability;
  out->goodput = found.goodput;
  out->advice = tri_failing_run_advise(&run);
  return TRI_OK;
}

tri_status tri_run_cost_of(const tri_simulation_request *request, const tri_prediction *p, tri_run_cost *out) {
  const tri_cluster *cluster = request->cluster;
  *out = (tri_run_cost){.priced = cluster->cost.price > 0,
                        .powered = cluster->cost.device_power > 0,
                        .interrupted = cluster->failures.node_mtbf_hours > 0,
                        .spare_nodes = spare_nodes(request),
                        .availability = 1,
                        .goodput = 1};
  out->reserved_nodes = nodes_of(request) + (double)out->spare_nodes;
  out->reserved_devices = devices_of(request) + (double)out->spare_nodes * (double)cluster->node_devices;
  out->price = cluster->cost.price * out->reserved_devices * p->step_s / seconds_of_hour;
  out->kwh = step_kwh(request, p, out->spare_nodes);
  return out->interrupted ? add_failures(request, out) : TRI_OK;
}

double tri_run_cost_steps(const tri_simulation_request *request, const tri_run_cost *e, double tokens) {
  if (e->goodput <= 0) return 0;
  return tokens / ((double)request->global_batch * (double)request->sequence) / e->goodput;
}

static void add_real(json_t *object, const char *name, double value) {
  json_object_set_new(object, name, json_real(value));
}

static void add_reserved(const tri_simulation_request *request, const tri_prediction *p, const tri_run_cost *e,
                         double steps, json_t *object) {
  const double hours = steps * p->step_s / seconds_of_hour;
  json_object_set_new(object, "device_name", json_string(request->cluster->device_name));
  json_object_set_new(object, "reserved_devices", json_integer((json_int_t)e->reserved_devices));
  json_object_set_new(object, "reserved_nodes", json_integer((json_int_t)e->reserved_nodes));
  if (steps <= 0) return;
  add_real(object, "reserved_device_hours", hours * e->reserved_devices);
  add_real(object, "reserved_node_hours", hours * e->reserved_nodes);
}

static void add_cost(const tri_simulation_request *request, const tri_run_cost *e, double steps, json_t *object) {
  json_t *cost = json_object();
  if (e->priced) {
    json_object_set_new(cost, "currency", json_string(request->cluster->cost.currency));
    add_real(cost, "price_per_step", e->price);
    if (steps > 0) add_real(cost, "price", steps * e->price);
  }
  if (e->powered) {
    json_object_set_new(cost, "kwh_of", json_string(request->cluster->cost.node_power > 0 ? "nodes" : "devices"));
    add_real(cost, "pue", request->cluster->cost.pue);
    add_real(cost, "kwh_per_step", e->kwh);
    if (steps > 0) add_real(cost, "kwh", steps * e->kwh);
  }
  json_object_set_new(object, "cost", cost);
}

/* Returns the key that limits the speed at which checkpoints are written. */
static const char *limit_of(const tri_run_cost *e) {
  return e->shared ? "failures.storage_bandwidth" : "failures.node_storage_bandwidth";
}

static void add_failures_json(const tri_prediction *p, const tri_run_cost *e, double steps, json_t *object) {
  json_t *failures = json_object();
  add_real(failures, "hours_between", e->failures.between_s / seconds_of_hour);
  add_real(failures, "restart_s", e->failures.restart_s);
  add_real(failures, "checkpoint_bytes", e->checkpoint_bytes);
  add_real(failures, "checkpoint_bytes_per_s", e->writing);
  json_object_set_new(failures, "checkpoint_limit", json_string(limit_of(e)));
  add_real(failures, "checkpoint_stops_s", e->failures.stop_s);
  add_real(failures, "checkpoint_behind_s", e->failures.behind_s);
  add_real(failures, "best_interval_s", e->interval_s);
  add_real(failures, "young_interval_s", tri_young_interval(&e->failures));
  add_real(failures, "daly_interval_s", tri_daly_interval(&e->failures));
  add_real(failures, "availability", e->availability);
  add_real(failures, "goodput", e->goodput);
  if (steps > 0) add_real(failures, "days", steps * p->step_s / seconds_of_hour / 24);
  if (e->advice.key != NULL) {
    json_object_set_new(failures, "advice",
                        json_pack("{s:s+, s:f, s:f}", "key", "failures.", e->advice.key, "value", e->advice.value,
                                  "goodput", e->advice.goodput));
  }
  json_object_set_new(object, "failures", failures);
}

tri_status tri_run_cost_json(const tri_simulation_request *request, const tri_prediction *p, double tokens,
                             json_t *object) {
  tri_run_cost e;
  TRI_TRY(tri_run_cost_of(request, p, &e));
  double steps = tri_run_cost_steps(request, &e, tokens);
  add_reserved(request, p, &e, steps, object);
  if (e.priced || e.powered) add_cost(request, &e, steps, object);
  if (e.interrupted) add_failures_json(p, &e, steps, object);
  return TRI_OK;
}

/* Formats a number with its unit: "6", "37.5 s", "16 GB/s". */
static char *format_value(double value, const char *unit, char *buffer, size_t bytes) {
  const bool rate = strcmp(unit, "B/s") == 0;
  const double scale = !rate || value < 1e6 ? 1 : value < 1e9 ? 1e6 : 1e9;
  const char *prefix = scale == 1 ? "" : scale == 1e6 ? "M" : "G";
  snprintf(buffer, bytes, "%.4g%s%s%s", value / scale, unit[0] == '\0' ? "" : " ", prefix, unit);
  return buffer;
}

/* Prints the key of `failures` that lowers the goodput most, and the goodput with another value. */
static void print_advice(const tri_run_cost *e, FILE *to) {
  const tri_goodput_advice *a = &e->advice;
  char value[32], given[32];
  if (a->key == NULL) return;
  fprintf(to,
          "advice: most of the lost time is due to failures.%s; with %s instead of %s, %.1f %% of the time would be "
          "progress\n",
          a->key, format_value(a->value, a->unit, value, sizeof value),
          format_value(a->instead_of, a->unit, given, sizeof given), tri_format_rounded(100 * a->goodput, 1));
}

static void print_failures(const tri_simulation_request *request, const tri_run_cost *e, FILE *to) {
  char bytes[32], writing[32];
  const tri_interruptions *f = &e->failures;
  fprintf(to,
          "failures: one in %.3g hours; a checkpoint of %s, written at %s by all nodes together (%s), pauses training "
          "for %.3g s",
          f->between_s / 3600, tri_format_bytes(e->checkpoint_bytes, bytes, sizeof bytes),
          format_value(e->writing, "B/s", writing, sizeof writing), limit_of(e), f->stop_s);
  if (f->behind_s > 0) fprintf(to, " and is complete %.3g s later", f->behind_s);
  fprintf(to, "; best every %.3g s of training (Young %.3g, Daly %.3g): %.2f %% of the time is progress\n",
          e->interval_s, tri_young_interval(f), tri_daly_interval(f), tri_format_rounded(100 * e->goodput, 2));
  if (e->availability < 1) {
    fprintf(to, "nodes: enough are working in %.3f %% of the time, with %lld spare node%s (failures.spare_nodes)\n",
            100 * e->availability, (long long)e->spare_nodes, TRI_PLURAL(e->spare_nodes));
  }
  const int64_t spare = request->cluster->failures.spare_nodes;
  if (e->spare_nodes < spare) {
    fprintf(to, "nodes: %lld of %lld spare nodes exist, because the machine has %lld devices (max_devices)\n",
            (long long)e->spare_nodes, (long long)spare, (long long)request->cluster->max_devices);
  }
  print_advice(e, to);
}

/* Formats hours, with two decimals below 100. */
static char *format_hours(double hours, char *buffer, size_t bytes) {
  if (hours >= 100 && hours < 1e15) return tri_format_count(hours, buffer, bytes);
  snprintf(buffer, bytes, hours < 100 ? "%.2f" : "%.3g", hours);
  return buffer;
}

/* Formats money or energy, with three digits from 1e15 on. */
static char *format_amount(double amount, char *buffer, size_t bytes) {
  if (amount < 1e15) return tri_format_count(amount, buffer, bytes);
  snprintf(buffer, bytes, "%.3g", amount);
  return buffer;
}

static char *format_days(double seconds, char *buffer, size_t bytes) {
  const double days = seconds / seconds_of_hour / 24;
  if (days < 1) return tri_format_seconds(seconds, buffer, bytes);
  snprintf(buffer, bytes, days < 1e6 ? "%.1f days" : "%.3g days", days);
  return buffer;
}

char *tri_run_cost_energy(const tri_cluster *cluster, char out[TRI_ENERGY_TEXT_BYTES]) {
  const tri_tariff *cost = &cluster->cost;
  const char *parts = cost->node_power > 0 ? "whole nodes" : "the devices alone";
  snprintf(out, TRI_ENERGY_TEXT_BYTES, cost->pue > 1 ? "%s, times a PUE of %.3g" : "%s", parts, cost->pue);
  return out;
}

char *tri_run_cost_spare(const tri_run_cost *e, char out[TRI_SPARE_TEXT_BYTES]) {
  out[0] = '\0';
  if (e->spare_nodes == 0) return out;
  snprintf(out, TRI_SPARE_TEXT_BYTES, "reserved with %lld spare node%s", (long long)e->spare_nodes,
           TRI_PLURAL(e->spare_nodes));
  return out;
}

/* Prints the totals of a run, with the cost of failures. */
static void print_run(const tri_simulation_request *request, const tri_prediction *p, const tri_run_cost *e,
                      double tokens, FILE *to) {
  char many[32], time[32], without[32], of_devices[32], of_nodes[32], money[32], energy[32];
  char spare[TRI_SPARE_TEXT_BYTES], counts[TRI_ENERGY_TEXT_BYTES];
  const double steps = tri_run_cost_steps(request, e, tokens), seconds = steps * p->step_s;
  if (steps <= 0) {
    fprintf(to, "%s tokens: the run never ends, because failures are more frequent than progress\n",
            tri_format_count(tokens, many, sizeof many));
    return;
  }
  fprintf(to, "%s tokens: %s", tri_format_count(tokens, many, sizeof many), format_days(seconds, time, sizeof time));
  if (e->interrupted)
    fprintf(to, " with failures (%s without)", format_days(seconds * e->goodput, without, sizeof without));
  const double hours = seconds / seconds_of_hour;
  fprintf(to, ", %s %s-hours, %s node-hours", format_hours(hours * e->reserved_devices, of_devices, sizeof of_devices),
          request->cluster->device_name, format_hours(hours * e->reserved_nodes, of_nodes, sizeof of_nodes));
  if (e->spare_nodes > 0) {
    format_hours(hours * devices_of(request), of_devices, sizeof of_devices);
    fprintf(to, " (%s; %s %s-hours without)", tri_run_cost_spare(e, spare), of_devices, request->cluster->device_name);
  }
  if (e->priced) {
    fprintf(to, ", %s %s", format_amount(steps * e->price, money, sizeof money), request->cluster->cost.currency);
  }
  if (e->powered) {
    fprintf(to, ", %s kWh of %s", format_amount(steps * e->kwh, energy, sizeof energy),
            tri_run_cost_energy(request->cluster, counts));
  }
  fprintf(to, "\n");
}

tri_status tri_run_cost_text(const tri_simulation_request *request, const tri_prediction *p, double tokens, FILE *to) {
  tri_run_cost e;
  char counts[TRI_ENERGY_TEXT_BYTES];
  TRI_TRY(tri_run_cost_of(request, p, &e));
  if (tokens > 0) print_run(request, p, &e, tokens, to);
  if (e.priced) fprintf(to, "a step costs %.4g %s\n", e.price, request->cluster->cost.currency);
  if (e.powered) {
    fprintf(to, "a step takes %.4g kWh of %s", e.kwh, tri_run_cost_energy(request->cluster, counts));
    fprintf(to, request->cluster->cost.node_power > 0 ? "\n" : ", without the rest of their nodes (cost.node_power)\n");
  }
  if (e.interrupted) print_failures(request, &e, to);
  return TRI_OK;
}
