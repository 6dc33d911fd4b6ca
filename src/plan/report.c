#include "plan/report.h"

#include "base/format.h"
#include "model/parameters.h"
#include "plan/accuracy.h"
#include "plan/network.h"
#include "plan/row_pairs.h"
#include "schedule/layout_config.h"

#include <inttypes.h>
#include <string.h>

/* ---- layouts ----------------------------------------------------------------------------------------------------- */

static const char *word_of(const tri_config_key *key, const void *at) {
  for (const tri_config_word *word = key->words; word->name != NULL; word++) {
    if (word->value == *(const int *)at) return word->name;
  }
  return "";
}

static json_t *counts_json(const tri_count_list *list) {
  json_t *array = json_array();
  for (int64_t i = 0; list != NULL && i < list->count; i++) {
    json_array_append_new(array, json_integer((json_int_t)list->numbers[i]));
  }
  return array;
}

json_t *tri_report_layout(const tri_layout *layout) {
  json_t *object = json_object();
  for (size_t i = 0; i < tri_layout_table.num_keys; i++) {
    const tri_config_key *key = &tri_layout_table.keys[i];
    const void *at = (const char *)layout + key->offset;
    json_t *value = NULL;
    if (key->type == TRI_CONFIG_CHOICE) {
      value = json_string(word_of(key, at));
    } else if (key->type == TRI_CONFIG_BOOL) {
      value = json_boolean(*(const bool *)at);
    } else if (key->type == TRI_CONFIG_AUTO && *(const int64_t *)at == 0) {
      value = json_string("auto");
    } else if (key->type == TRI_CONFIG_COUNTS) {
      value = counts_json(*(const tri_count_list *const *)at);
    } else if (key->type == TRI_CONFIG_DOUBLE) {
      value = json_real(*(const double *)at);
    } else {
      value = json_integer((json_int_t) * (const int64_t *)at);
    }
    json_object_set_new(object, key->name, value);
  }
  return object;
}

void tri_report_paste(const tri_layout *layout, FILE *to) {
  char text[TRI_LAYOUT_TEXT_BYTES];
  tri_layout_text(layout, text, sizeof text);
  fprintf(to, "layout: {");
  for (const char *at = text; *at != '\0'; at++) {
    if (*at == '=') {
      fprintf(to, ": ");
    } else if (*at == ',') {
      fprintf(to, ", ");
    } else {
      fputc(*at, to);
    }
  }
  fprintf(to, "}\n");
}

/* ---- predictions ------------------------------------------------------------------------------------------------- */

static double devices_of(const tri_simulation_request *request) { return (double)tri_layout_ranks(request->layout); }

static double nodes_of(const tri_simulation_request *request) {
  double per_node = (double)request->cluster->node_devices, devices = devices_of(request);
  return devices < per_node ? 1 : devices / per_node;
}

static json_t *time_json(const tri_step_time *time) {
  json_t *object = json_pack("{s:f}", "compute", time->compute);
  for (int i = 0; i < TRI_STEP_AXES; i++) {
    tri_axis axis = tri_step_axis(i);
    json_object_set_new(object, tri_axis_name(axis), json_real(time->along[axis]));
  }
  json_object_set_new(object, "bubble", json_real(time->bubble));
  json_object_set_new(object, "optimizer", json_real(time->optimizer));
  return object;
}

static double imbalance_of(const tri_simulation_request *request) {
  return request->expert_imbalance > 0 ? request->expert_imbalance : 1;
}

json_t *tri_report_json(const tri_simulation_request *request, const tri_prediction *p, double tokens) {
  const tri_memory_parts *m = &p->memory;
  json_t *time = time_json(&p->time);
  json_t *memory =
      json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "parameters", (json_int_t)m->parameters, "gradients",
                (json_int_t)m->gradients, "optimizer", (json_int_t)m->optimizer, "activations",
                (json_int_t)m->activations, "buffers", (json_int_t)m->buffers, "peak", (json_int_t)m->peak);
  json_t *object =
      json_pack("{s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:o, s:o}", "layout", tri_report_layout(request->layout),
                "step_s", p->step_s, "tokens_per_s", p->tokens_per_s, "tflops_per_device", p->tflops_per_device, "mfu",
                p->mfu, "hfu", p->hfu, "bubble", p->bubble, "fits", (int)p->fits, "time", time, "memory", memory);
  if (object == NULL) return object;
  json_object_set_new(object, "model_tflops_per_device", json_real(p->model_tflops_per_device));
  json_object_set_new(object, "hardware_tflops_per_device", json_real(p->tflops_per_device));
  json_object_set_new(object, "sequence", json_integer((json_int_t)request->sequence));
  json_object_set_new(object, "sequence_assumed", json_boolean(request->assumed_sequence));
  json_object_set_new(object, "accuracy", tri_accuracy_json(request->cluster, request->system));
  json_object_set_new(object, "num_parameters", json_integer((json_int_t)tri_model_num_parameters(request->model)));
  const tri_document_imbalance *u = &p->uneven;
  if (u->micro_batches > 0) {
    json_object_set_new(
        object, "documents",
        json_pack("{s:I, s:f, s:f, s:f, s:f}", "micro_batches", (json_int_t)u->micro_batches, "area", u->mean,
                  "busiest_area", u->busiest, "worst_area", u->worst, "waiting_s", u->waiting_s));
  }
  if (p->experts.rounds > 0) {
    json_object_set_new(object, "experts",
                        json_pack("{s:f, s:f, s:I, s:I}", "imbalance", imbalance_of(request), "rows", p->experts.rows,
                                  "room", (json_int_t)p->experts.room, "rounds", (json_int_t)p->experts.rounds));
  }
  if (p->reference_s > 0) {
    json_object_set_new(object, "preferences",
                        json_pack("{s:f, s:f}", "mismatched_s", p->mismatched_s, "reference_s", p->reference_s));
  }
  if (tri_plan_row_pairs_differ(request->layout, p->row_pairs)) {
    json_object_set_new(object, "context_row_pairs_by_prices", json_integer((json_int_t)p->row_pairs));
  }
  if (tokens <= 0) return object;
  double hours = tokens / p->tokens_per_s / 3600;
  json_object_set_new(object, "tokens", json_real(tokens));
  json_object_set_new(object, "days", json_real(hours / 24));
  json_object_set_new(object, "node_hours", json_real(hours * nodes_of(request)));
  json_object_set_new(object, "device_hours", json_real(hours * devices_of(request)));
  return object;
}

static void print_part(const char *name, double seconds, double whole, FILE *to) {
  if (seconds > 0)
    fprintf(to, "  %-12s %10.4f s  %5.1f %%\n", name, seconds, tri_format_rounded(100 * seconds / whole, 1));
}

static void print_bytes(const char *name, double bytes, FILE *to) {
  char text[32];
  fprintf(to, "  %-12s %12s\n", name, tri_format_bytes(bytes, text, sizeof text));
}

static void print_uneven(const tri_document_imbalance *u, FILE *to) {
  if (u->micro_batches == 0) return;
  fprintf(
      to,
      "documents leave %.1f %% of attention's area; on the rank with the largest area %.1f %% on average over %ld "
      "sampled micro-batches and %.1f %% in the worst one, and a step waits %.4f s for that rank (counted as bubble)\n",
      100 * u->mean, 100 * u->busiest, (long)u->micro_batches, 100 * u->worst, u->waiting_s);
}

static void print_experts(const tri_expert_load *load, FILE *to) {
  char rows[32], room[32];
  if (load->rounds == 0) return;
  fprintf(
      to,
      "experts: %s rows of a micro-batch on the busiest rank (%.3g times those of equally busy ones), in %ld round%s "
      "of up to %s\n",
      tri_format_count(load->rows, rows, sizeof rows), load->times, (long)load->rounds, load->rounds == 1 ? "" : "s",
      tri_format_count((double)load->room, room, sizeof room));
}

static void print_row_pairs(const tri_layout *layout, int64_t row_pairs, FILE *to) {
  if (!tri_plan_row_pairs_differ(layout, row_pairs)) return;
  fprintf(
      to,
      "a row of keys from another context rank takes as long as %ld pairs of positions here, and documents are cut as "
      "if it were %ld: try context_row_pairs=%ld\n",
      (long)row_pairs, (long)layout->context_row_pairs, (long)row_pairs);
}

const char *tri_report_assumed(bool assumed) { return assumed ? " (the model's longest; --sequence for others)" : ""; }

const char *tri_report_attention(const tri_simulation_request *request, char out[TRI_REPORT_ATTENTION_BYTES]) {
  double fraction = tri_step_attention_fraction(request);
  if (fraction == 1) return "attention is counted without the causal mask";
  snprintf(out, TRI_REPORT_ATTENTION_BYTES,
           "attention is counted as %.3g %% of the full square, which masks and windows leave", 100 * fraction);
  return out;
}

void tri_report_accuracy(const tri_cluster *cluster, const tri_system *system, int64_t devices, FILE *to) {
  char text[TRI_ACCURACY_TEXT_BYTES];
  fprintf(to, "%s\n", tri_accuracy_text(cluster, devices, text));
  fprintf(to, "%s\n", tri_accuracy_fitted(cluster, text));
  if (tri_accuracy_kernels(cluster, system, text)[0] != '\0') fprintf(to, "%s\n", text);
}

char *tri_report_memory(const tri_simulation_request *request, char out[TRI_REPORT_MEMORY_BYTES]) {
  const tri_cluster *cluster = request->cluster;
  const double less = cluster->memory_bytes - tri_system_room(request->system, cluster);
  char reserved[32];
  tri_format_bytes(cluster->memory_bytes, out, TRI_REPORT_MEMORY_BYTES);
  const size_t held = strlen(out);
  if (less > 0) {
    snprintf(out + held, TRI_REPORT_MEMORY_BYTES - held, ", %s of them reserved",
             tri_format_bytes(less, reserved, sizeof reserved));
  }
  return out;
}

/* Prints "peak memory 75.71 of 79.65 GiB". Leaves out the first unit if both numbers have the same unit. */
static void print_peak(const tri_simulation_request *request, double peak, FILE *to) {
  char held[32], room[TRI_REPORT_MEMORY_BYTES];
  tri_format_bytes(peak, held, sizeof held);
  tri_report_memory(request, room);
  char *unit = strchr(held, ' ');
  const char *other = strchr(room, ' ');
  if (strncmp(unit, other, strlen(unit)) == 0) *unit = '\0';
  fprintf(to, "peak memory %s of %s", held, room);
}

/* Prints the overlap of communication with computation, if it is at least a hundredth of the step. */
static void print_overlap(const tri_simulation_request *request, const tri_prediction *p, FILE *to) {
  tri_overlap overlap;
  if (tri_simulate_overlap(request, p, &overlap) != TRI_OK || 100 * overlap.hidden_s < p->step_s) return;
  fprintf(to,
          "overlapped with computation: %.4f s of communication of gradients and parameters, which slows the "
          "computation by %.4f s\n",
          overlap.hidden_s, overlap.slower_s);
}

/* Prints the seconds of the additional forwards of a preference loss, in the step and before the first step. */
static void print_preferences(const tri_simulation_request *request, const tri_prediction *p, FILE *to) {
  const char *name = tri_step_preference_rules(request).name;
  char batch[32];
  if (p->mismatched_s > 0) {
    fprintf(to, "objective %s: %.4f s of the step are a forward of mismatched answers\n", name, p->mismatched_s);
  }
  if (p->reference_s > 0) {
    fprintf(to,
            "objective %s: before the first step the reference's log-probabilities of all data, once: %.4f s for every "
            "%s sequence%s\n",
            name, p->reference_s, tri_format_grouped(request->global_batch, batch, sizeof batch),
            TRI_PLURAL(request->global_batch));
  }
}

void tri_report_heading(const tri_simulation_request *request, FILE *to) {
  char size[32], sequence[32], devices[32];
  fprintf(to, "%s (%s parameters), sequences of %s tokens%s, on %s device%s of %s", request->model->name,
          tri_format_count(tri_model_num_parameters(request->model), size, sizeof size),
          tri_format_grouped(request->sequence, sequence, sizeof sequence),
          tri_report_assumed(request->assumed_sequence),
          tri_format_grouped((int64_t)devices_of(request), devices, sizeof devices), TRI_PLURAL(devices_of(request)),
          request->cluster->name);
  fprintf(to, "%s%s\n", request->cluster->about[0] == '\0' ? "" : ": ", request->cluster->about);
  if (request->cluster->assumed[0] != '\0')
    fprintf(to, "not in the file of the cluster, so taken from presets: %s\n", request->cluster->assumed);
}

/* Prints whether tensor groups are inside nodes, and the other groups that would fit into a node but are not all inside
 * one. */
static void print_nodes(const tri_simulation_request *request, FILE *to) {
  static const tri_domain domains[] = {TRI_DOMAIN_TENSOR, TRI_DOMAIN_CONTEXT, TRI_DOMAIN_EXPERT_TENSOR,
                                       TRI_DOMAIN_EXPERT};
  const int64_t node = request->cluster->node_devices;
  const tri_mesh_shape shape = tri_layout_mesh(request->layout);
  for (size_t i = 0; i < sizeof domains / sizeof domains[0]; i++) {
    const tri_group_extent extent = tri_network_extent(&shape, domains[i]);
    const char *name = tri_domain_name(domains[i]);
    int64_t crossing = 0, groups = 0;
    if (extent.size == 1) continue;
    tri_group_count_crossing(extent, node, &crossing, &groups);
    if (extent.size * extent.stride <= node && crossing > 0) {
      fprintf(to,
              "%s: %" PRId64 " of %" PRId64 " groups of %" PRId64 " ranks cross nodes of %" PRId64
              ", and the others wait for them\n",
              name, crossing, groups, extent.size, node);
    } else if (domains[i] == TRI_DOMAIN_TENSOR) {
      fprintf(to, "%s: %" PRId64 " ranks %s a node of %" PRId64 "\n", name, extent.size,
              crossing == 0 ? "stay inside" : "reach beyond", node);
    }
  }
}

void tri_report_speed(const tri_simulation_request *request, const tri_prediction *p, FILE *to) {
  char attention[TRI_REPORT_ATTENTION_BYTES], batch[32], rate[32];
  const tri_step_time *t = &p->time;
  tri_report_paste(request->layout, to);
  fprintf(to, "a step of %s sequence%s: %.4f s, %s tokens/s\n",
          tri_format_grouped(request->global_batch, batch, sizeof batch), TRI_PLURAL(request->global_batch), p->step_s,
          tri_format_count(p->tokens_per_s, rate, sizeof rate));
  fprintf(to, "per device: %.1f TFLOP/s (MFU %.1f %%); %.1f counting recomputation (HFU %.1f %%); %s\n",
          p->model_tflops_per_device, 100 * p->mfu, p->tflops_per_device, 100 * p->hfu,
          tri_report_attention(request, attention));
  if (request->system->fp8_products) {
    fprintf(to, "MFU and HFU are shares of the bf16 peak; MFU by the FP8 peak: %.1f %%\n",
            100 * p->model_tflops_per_device * 1e12 / request->cluster->peak_fp8);
  }
  print_part("compute", t->compute, p->step_s, to);
  for (int i = 0; i < TRI_STEP_AXES; i++) {
    print_part(tri_axis_name(tri_step_axis(i)), t->along[tri_step_axis(i)], p->step_s, to);
  }
  print_part("bubble", t->bubble, p->step_s, to);
  print_part("optimizer", t->optimizer, p->step_s, to);
  print_overlap(request, p, to);
  print_nodes(request, to);
  print_uneven(&p->uneven, to);
  print_experts(&p->experts, to);
  print_row_pairs(request->layout, p->row_pairs, to);
  print_preferences(request, p, to);
}

/* Ends the line about the memory; says how much is left if this is little and no part of the memory is kept free. */
static void print_spare(const tri_simulation_request *request, const tri_prediction *p, FILE *to) {
  static const double little = 0.02; /* share of the memory; contexts and buffers of libraries take as much */
  const double room = tri_system_room(request->system, request->cluster), spare = room - p->memory.peak;
  char bytes[32];
  const bool keeps = room < request->cluster->memory_bytes;
  if (!p->fits || keeps || spare >= little * room) {
    fputs("\n", to);
    return;
  }
  fprintf(to, ", with %s to spare: little for contexts and buffers of libraries (--margin 2GiB keeps more free)\n",
          tri_format_bytes(spare, bytes, sizeof bytes));
}

void tri_report_memory_parts(const tri_simulation_request *request, const tri_prediction *p, FILE *to) {
  print_peak(request, p->memory.peak, to);
  fprintf(to, " (a rank of stage %ld): %s", (long)p->fullest_stage, p->fits ? "fits" : "does not fit");
  print_spare(request, p, to);
  print_bytes("parameters", p->memory.parameters, to);
  print_bytes("gradients", p->memory.gradients, to);
  print_bytes("optimizer", p->memory.optimizer, to);
  print_bytes("activations", p->memory.activations, to);
  print_bytes("buffers", p->memory.buffers, to);
}
