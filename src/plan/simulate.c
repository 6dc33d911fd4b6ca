#include "plan/simulate.h"

#include "model/family.h"
#include "model/window.h"
#include "plan/document_imbalance.h"
#include "plan/event_sim.h"
#include "plan/row_pairs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- many micro-batches ------------------------------------------------------------------------------------------ */

/* A guess where the middle of a step begins: from micro-batch `first` on, the step may repeat every `period`
 * micro-batches. */
typedef struct middle {
  int64_t first, period;
} middle;

/* Simulates a shorter step, and adds the time of the missing periods. Sets *settled to whether the middle of the
 * shorter step repeats; only then *out is valid. After the compared micro-batches, the shorter step has as many further
 * ones as can be in flight, so that its end does not affect the comparison. Does nothing if the shorter step has more
 * than half of the micro-batches, since this would save little time. */
static tri_status extrapolate(const tri_stages *stages, int64_t micro_batches, middle at, tri_step_sample *out,
                              bool *settled) {
  const tri_layout *layout = stages->request->layout;
  int64_t flying = layout->virtual_stages > 1 ? 2 * at.period : 2 * layout->pipeline;
  tri_step_probe looks = {.first = at.first, .count = at.period + flying, .period = at.period};
  int64_t few = looks.first + looks.count + flying;
  few += ((micro_batches - few) % at.period + at.period) % at.period;
  *settled = false;
  if (2 * few > micro_batches) return TRI_OK;
  TRI_TRY(tri_event_sim_turns(stages, few, &looks, out));
  *settled = looks.settled;
  int64_t periods = (micro_batches - few) / at.period;
  double more = (double)periods;
  out->step_s += more * looks.step_s;
  for (int i = 0; i < TRI_TIME_PARTS; i++) {
    tri_time_parts(&out->time)[i] += more * tri_time_parts(&looks.time)[i];
  }
  out->time.bubble += out->step_s - tri_step_time_sum(&out->time); /* the difference is rounding */
  return TRI_OK;
}

/* A step with at least this many forwards needs much memory for its turns, so only one thread of a search simulates
 * such a step at a time. */
enum { LONG_STEP = 1000000 };
/* A step with at most this many forwards is simulated in full, without testing whether its middle repeats. */
enum { SHORT_STEP = 4000 };

/* Returns whether a step of this schedule has a middle that repeats. */
static bool repeats_itself(tri_schedule_kind schedule) {
  switch (schedule) {
    case TRI_SCHEDULE_GPIPE: return false; /* all forwards, then all backwards */
    case TRI_SCHEDULE_1F1B:
    case TRI_SCHEDULE_INTERLEAVED:
    case TRI_SCHEDULE_ZERO_BUBBLE: return true;
  }
  return false;
}

/* Simulates a step, or its forwards if stages->forward_only is set: a shorter step if its middle repeats, else all
 * of it. */
static tri_status run_step(const tri_stages *stages, tri_step_sample *out) {
  bool settled = false;
  int64_t micro_batches = tri_layout_micro_batches(stages->request->layout, stages->request->global_batch);
  const tri_layout *layout = stages->request->layout;
  int64_t forwards = stages->num_stages * micro_batches * layout->virtual_stages;
  int64_t period = stages->forward_only ? layout->pipeline : tri_schedule_period(layout, micro_batches);
  int64_t filled = 2 * layout->pipeline;
  const middle tries[] = {{filled, layout->virtual_stages > 1 ? period : 4}, {4 * filled, period}};
  bool repeats = (stages->forward_only || repeats_itself(layout->schedule)) && forwards > SHORT_STEP;
  for (int i = 0; i < 2 && repeats && !settled; i++) {
    TRI_TRY(extrapolate(stages, micro_batches, tries[i], out, &settled));
  }
  if (settled) return TRI_OK;
  if (forwards < LONG_STEP) return tri_event_sim_turns(stages, micro_batches, NULL, out);
  tri_status status;
#pragma omp critical(tri_long_step)
  status = tri_event_sim_turns(stages, micro_batches, NULL, out);
  return status;
}

/* Simulates the forwards of a global batch. */
static tri_status run_forward(tri_stages *stages, tri_step_sample *out) {
  stages->forward_only = true;
  const tri_status status = run_step(stages, out);
  stages->forward_only = false;
  return status;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

tri_axis tri_step_axis(int i) {
  static const tri_domain domains[TRI_STEP_AXES] = {TRI_DOMAIN_TENSOR, TRI_DOMAIN_PIPELINE, TRI_DOMAIN_REPLICAS,
                                                    TRI_DOMAIN_CONTEXT, TRI_DOMAIN_EXPERT};
  return tri_domain_axis(domains[i]);
}

double tri_step_time_sum(const tri_step_time *time) {
  double sum = time->compute;
  for (int i = 0; i < TRI_STEP_AXES; i++) sum += time->along[tri_step_axis(i)];
  return sum + time->bubble + time->optimizer;
}

tri_preference_rules tri_step_preference_rules(const tri_simulation_request *request) {
  const tri_train_objective *objective = request->objective;
  if (objective == NULL) return (tri_preference_rules){0};
  switch (objective->loss.kind) {
    case TRI_LABEL_LOSS_CROSS_ENTROPY:
    case TRI_LABEL_LOSS_POLICY: return (tri_preference_rules){0};
    case TRI_LABEL_LOSS_PREFERENCE: break;
  }
  return tri_preference_rules_of((tri_preference_loss)objective->loss.preference.loss);
}

static double masked_fraction(const tri_simulation_request *request) {
  return request->masked && request->masked_attention_fraction > 0 ? request->masked_attention_fraction : 1;
}

double tri_step_attention_fraction(const tri_simulation_request *request) {
  return tri_model_attention_fraction(request->model, request->sequence, masked_fraction(request));
}

/* Returns the fraction of the layers that full recompute recomputes: those at multiples of recompute_every. */
static double recomputed_share(const tri_simulation_request *request) {
  const int64_t layers = request->model->num_layers, every = request->layout->recompute_every;
  const int64_t recomputed = (layers + every - 1) / every;
  return (double)recomputed / (double)layers;
}

/* Returns the mean attention fraction of the layers that full recompute recomputes. */
static double recomputed_fraction(const tri_simulation_request *request) {
  const tri_model *model = request->model;
  const double masked = masked_fraction(request);
  double sum = 0, layers = 0;
  if (model->window == 0) return masked;
  for (int64_t layer = 0; layer < model->num_layers; layer += request->layout->recompute_every) {
    sum += tri_op_window_fraction(masked, request->sequence, tri_model_window(model, layer));
    layers++;
  }
  return sum / layers;
}

double tri_step_model_flops(const tri_simulation_request *request) {
  return tri_model_flops_per_token(request->model, request->sequence, tri_step_attention_fraction(request)) *
         (double)request->global_batch * (double)request->sequence;
}

/* Returns the FLOPs of the GEMMs of attention in a step, forward and backward. These are the FLOPs that depend on
 * the length of sequences. */
static double attention_flops(const tri_simulation_request *request) {
  double per_token = tri_model_flops_per_token(request->model, request->sequence, tri_step_attention_fraction(request));
  return (per_token - tri_model_flops_per_token(request->model, 0, 1)) * (double)request->global_batch *
         (double)request->sequence;
}

/* Returns the FLOPs of recomputing experts: the GEMMs of gate and up. No backward reads the output of down, so the GEMM
 * of down is not recomputed. */
static double again_of_experts(const tri_simulation_request *request) {
  const tri_model *model = request->model;
  const double tokens = (double)request->global_batch * (double)request->sequence;
  const double each = 2.0 * (double)model->hidden_size * 2.0 * (double)model->expert_ffn_size;
  return tokens * (double)(model->num_layers - model->dense_layers) * (double)model->experts_per_token * each;
}

/* Adds the FLOPs of the forward of mismatched answers, and of recompute:
 *
 *   experts     the GEMMs of gate and up
 *   selective   in systems with selective_attention the forward of attention, a third of its FLOPs; else no GEMMs
 *   full        the forward of one in recompute_every layers, without the head */
double tri_step_hardware_flops(const tri_simulation_request *request) {
  const tri_layout *layout = request->layout;
  double all = tri_step_model_flops(request);
  const double forward =
      tri_model_forward_flops(request->model, request->sequence, tri_step_attention_fraction(request));
  const double head = 2.0 * (double)request->model->hidden_size * (double)request->model->vocab_size;
  const double tokens = (double)request->global_batch * (double)request->sequence;
  if (tri_step_preference_rules(request).kl) all += forward * tokens;
  switch (layout->recompute) {
    case TRI_RECOMPUTE_NONE: return all;
    case TRI_RECOMPUTE_EXPERTS: return all + again_of_experts(request);
    case TRI_RECOMPUTE_SELECTIVE:
      return request->system->selective_attention ? all + attention_flops(request) / 3.0 : all;
    case TRI_RECOMPUTE_FULL: {
      const double again = tri_model_forward_flops(request->model, request->sequence, recomputed_fraction(request));
      return all + (again - head) * tokens * recomputed_share(request);
    }
  }
  return all;
}

static tri_status check(const tri_simulation_request *request) {
  const tri_cluster *cluster = request->cluster;
  const tri_layout *layout = request->layout;
  int64_t devices = tri_layout_ranks(layout);
  if (tri_cluster_peak(cluster, request->precision) <= 0) {
    const char *type = tri_dtype_name(request->precision);
    return tri_fail(
        TRI_UNSUPPORTED,
        "the cluster %s has no peak for %s; measure the machine with `trireme calibrate OUT.yaml --precision "
        "%s`, or choose another --precision",
        cluster->name, type, type);
  }
  TRI_TRY(tri_system_check(request->system, cluster));
  if (request->system->fp8_products && request->precision != TRI_BF16) {
    return tri_fail(TRI_UNSUPPORTED,
                    "the system %s computes products in FP8 and bf16, but --precision is %s; leave --precision out, or "
                    "choose another --system",
                    request->system->name, tri_dtype_name(request->precision));
  }
  if (devices > 1 && cluster->num_links == 0) {
    return tri_fail(TRI_BAD_CONFIG, "the cluster %s has no links, but %ld devices need them; add `links` to its file",
                    cluster->name, (long)devices);
  }
  int64_t reach = cluster->num_links == 0 ? 1 : cluster->links[cluster->num_links - 1].spans;
  if (reach != 0 && devices > reach) {
    return tri_fail(TRI_BAD_LAYOUT, "the links of the cluster %s join %ld devices, but the layout has %ld",
                    cluster->name, (long)reach, (long)devices);
  }
  return TRI_OK;
}

/* Returns the load of the experts in the list of operations that has the most rows of experts, among the lists of all
 * chunks of all stages. */
static tri_expert_load expert_load(const tri_stages *stages) {
  tri_expert_load most = {0};
  for (int64_t k = 0; k < stages->num_kinds; k++) {
    const tri_parts *parts = &stages->kinds[k].parts;
    for (int64_t i = 0; i < parts->num_chunks; i++) {
      const tri_expert_load here = tri_op_expert_load(parts->lists[i]);
      if (here.rows > most.rows) most = here;
    }
  }
  return most;
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

/* Simulates the additional forwards that a preference loss needs. The forward of mismatched answers is added to
 * *step. */
static tri_status add_preferences(tri_stages *stages, tri_step_sample *step, tri_prediction *out) {
  const tri_preference_rules rules = tri_step_preference_rules(stages->request);
  tri_step_sample forward;
  if (!rules.reference) return TRI_OK;
  TRI_TRY(run_forward(stages, &forward));
  out->reference_s = forward.step_s;
  if (!rules.kl) return TRI_OK;
  out->reference_s = 2 * forward.step_s; /* for the answers and for mismatched answers */
  out->mismatched_s = forward.step_s;
  step->step_s += forward.step_s;
  for (int i = 0; i < TRI_TIME_PARTS; i++) tri_time_parts(&step->time)[i] += tri_time_parts(&forward.time)[i];
  return TRI_OK;
}

/* Computes a lower bound of the step time that tri_simulate_step predicts. */
static tri_status bound_step(tri_stages *stages, double *out) {
  double forward_s = 0;
  TRI_TRY(tri_event_sim_bound(stages, out));
  if (!tri_step_preference_rules(stages->request).kl) return TRI_OK;
  stages->forward_only = true;
  const tri_status status = tri_event_sim_bound(stages, &forward_s);
  stages->forward_only = false;
  *out += forward_s;
  return status;
}

/* Simulates a step, and writes all members of *out that depend on its time. `drawn`: see tri_document_imbalance_find.
 */
static tri_status time_step(const tri_simulation_request *request, tri_stages *stages,
                            const tri_attention_fractions *drawn, tri_prediction *out) {
  const double devices = (double)tri_layout_ranks(request->layout);
  const double peak = tri_cluster_peak(request->cluster, request->precision);
  tri_step_sample step;
  TRI_TRY(run_step(stages, &step));
  TRI_TRY(add_preferences(stages, &step, out));
  out->experts = expert_load(stages);
  if (drawn != NULL) TRI_TRY(tri_document_imbalance_of(stages, request, drawn, &out->uneven));
  step.step_s += out->uneven.waiting_s;
  step.time.bubble += out->uneven.waiting_s;
  out->step_s = step.step_s;
  out->time = step.time;
  out->bubble = step.time.bubble / step.step_s;
  out->tokens_per_s = (double)request->global_batch * (double)request->sequence / step.step_s;
  out->tflops_per_device = tri_step_hardware_flops(request) / step.step_s / devices / 1e12;
  out->hfu = out->tflops_per_device * 1e12 / peak;
  out->mfu = tri_step_model_flops(request) / step.step_s / devices / peak;
  out->model_tflops_per_device = out->mfu * peak / 1e12;
  return TRI_OK;
}

tri_status tri_simulate_within(const tri_simulation_request *request, const tri_simulation_limits *limits,
                               tri_prediction *out, tri_simulation_outcome *outcome) {
  tri_stages stages = {0};
  tri_simulation_request busiest;
  const tri_attention_fractions *drawn = NULL;
  tri_status status = TRI_OK;
  double bound_s = 0;
  *out = (tri_prediction){0};
  *outcome = TRI_OUTCOME_SIMULATED;
  TRI_TRY(check(request));
  TRI_TRY(tri_document_imbalance_find(request, &drawn, &busiest));
  TRI_TRY(tri_stages_create(&busiest, &stages));
  if (limits->step_s < INFINITY) TRI_TRY_GOTO(bound_step(&stages, &bound_s), done);
  if (bound_s > limits->step_s * (1 + TRI_BOUND_MARGIN)) {
    out->step_s = bound_s;
    *outcome = TRI_OUTCOME_TOO_SLOW;
    goto done;
  }
  if (limits->memory) {
    TRI_TRY_GOTO(tri_stages_predict_fullest(&stages, limits->bytes, &out->fullest_stage, &out->memory), done);
    if (out->memory.peak > limits->bytes) {
      *outcome = TRI_OUTCOME_TOO_LARGE;
      goto done;
    }
  }
  status = time_step(request, &stages, drawn, out);
done:
  tri_stages_destroy(&stages);
  return status;
}

tri_status tri_simulate_step(const tri_simulation_request *request, tri_prediction *out) {
  const tri_simulation_limits none = {.step_s = INFINITY, .bytes = INFINITY};
  tri_simulation_outcome outcome;
  return tri_simulate_within(request, &none, out, &outcome);
}

tri_status tri_simulate(const tri_simulation_request *request, tri_prediction *out) {
  const tri_simulation_limits none = {.step_s = INFINITY, .bytes = INFINITY, .memory = true};
  tri_simulation_outcome outcome;
  TRI_TRY(tri_simulate_within(request, &none, out, &outcome));
  out->fits = out->memory.peak <= tri_system_room(request->system, request->cluster);
  return tri_plan_row_pairs(request, &out->row_pairs);
}

/* Simulates the same step without overlap, and compares: hidden_s = communication without overlap - communication
 * with overlap, slower_s = computation with overlap - computation without overlap. */
tri_status tri_simulate_overlap(const tri_simulation_request *request, const tri_prediction *prediction,
                                tri_overlap *out) {
  const tri_axis axis = tri_domain_axis(TRI_DOMAIN_REPLICAS);
  tri_simulation_request open = *request;
  tri_system system = *request->system;
  tri_prediction exposed;
  *out = (tri_overlap){0};
  if (!system.overlap_reductions && !system.overlap_gathers) return TRI_OK;
  system.overlap_reductions = system.overlap_gathers = false;
  open.system = &system;
  TRI_TRY(tri_simulate_step(&open, &exposed));
  const double hidden_s = exposed.time.along[axis] - prediction->time.along[axis];
  const double slower_s = prediction->time.compute - exposed.time.compute;
  if (hidden_s > 0) *out = (tri_overlap){hidden_s, slower_s > 0 ? slower_s : 0};
  return TRI_OK;
}

/* Adds the forward of mismatched answers to the timeline, before the step: the events of the step, which are already
 * in the timeline, are moved to later times. The first simulation only measures the duration. */
static tri_status draw_forward(tri_stages *stages, tri_timeline *timeline) {
  const int64_t micro_batches = tri_layout_micro_batches(stages->request->layout, stages->request->global_batch);
  tri_step_sample forward;
  tri_status status = TRI_OK;
  stages->forward_only = true;
  TRI_TRY_GOTO(tri_event_sim_programs(stages, micro_batches, NULL, &forward), done);
  for (int r = 0; r < timeline->num_ranks; r++) {
    for (int64_t i = 0; i < timeline->ranks[r].count; i++) {
      timeline->ranks[r].events[i].begin_s += forward.step_s;
      timeline->ranks[r].events[i].end_s += forward.step_s;
    }
  }
  TRI_TRY_GOTO(tri_event_sim_programs(stages, micro_batches, timeline, &forward), done);
done:
  stages->forward_only = false;
  return status;
}

tri_status tri_simulate_timeline(const tri_simulation_request *request, tri_timeline **out) {
  tri_stages stages = {0};
  tri_timeline *timeline = NULL;
  tri_step_sample step;
  tri_simulation_request busiest;
  const tri_attention_fractions *drawn = NULL;
  tri_status status = check(request);
  TRI_TRY(status);
  TRI_TRY(tri_document_imbalance_find(request, &drawn, &busiest));
  TRI_TRY(tri_stages_create(&busiest, &stages));
  TRI_TRY_GOTO(tri_timeline_create((int)stages.num_stages, &timeline), done);
  for (int64_t s = 0; s < stages.num_stages; s++) {
    snprintf(timeline->labels[s], TRI_TIMELINE_LABEL_BYTES, "pipeline %ld", (long)s);
  }
  TRI_TRY_GOTO(tri_event_sim_programs(&stages, tri_layout_micro_batches(request->layout, request->global_batch),
                                      timeline, &step),
               done);
  if (tri_step_preference_rules(request).kl) TRI_TRY_GOTO(draw_forward(&stages, timeline), done);
  TRI_TRY_GOTO(tri_timeline_finish(timeline), done);
  *out = timeline;
  timeline = NULL;
done:
  tri_timeline_destroy(timeline);
  tri_stages_destroy(&stages);
  return status;
}
