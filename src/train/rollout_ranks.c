#include "train/rollout_ranks.h"

#include "base/count.h"
#include "base/flight_recorder.h"
#include "base/format.h"
#include "comm/agreement.h"
#include "engine/model_files.h"
#include "engine/send_weights.h"
#include "generation/scheduler.h"
#include "model/trainable.h"
#include "schedule/layout.h"

tri_sampling tri_rollout_held_out_sampling(const tri_rollout_settings *settings) {
  return (tri_sampling){.temperature = settings->validation_temperature,
                        .top_k = settings->validation_top_k,
                        .top_p = settings->validation_top_p,
                        .min_p = settings->validation_min_p,
                        .repetition_penalty = settings->validation_repetition_penalty};
}

tri_status tri_rollout_ranks_sizes(const tri_run_config *config, int64_t longest, tri_runner_sizes *out) {
  const tri_rollout_settings *r = &config->rollout;
  const size_t page = tri_runner_page_bytes(&config->model, config->precision, r->tensor);
  const int64_t most = tri_larger(r->prompts * r->num_generations, config->evaluation.sequences);
  const int64_t slots = tri_smaller(r->slots, most);
  *out = tri_runner_sizes_for(slots, longest + r->max_completion_length);
  out->prompt = longest;
  /* The last pages of two prompts are in use until all completions of their groups have copied them. */
  const int64_t window = tri_runner_window(&config->model), copied = 2;
  out->pages = tri_schedule_pages(out->positions, TRI_PAGE_ROWS, window, out->rows) * slots + copied;
  if (r->cache == 0) return TRI_OK;
  const int64_t pages = (int64_t)((size_t)r->cache / page);
  if (pages < 1) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`rollout.cache` %ld is too small for a page of %d positions, which takes %zu bytes",
                    (long)r->cache, (int)TRI_PAGE_ROWS, page);
  }
  if (pages < out->pages) out->pages = pages;
  return TRI_OK;
}

/* COLLECTIVE. Sets *out to whether the runners of all ranks can read the trained weights in place. */
static tri_status agree_on_place(tri_training *t, bool *out) {
  bool here = false;
  int64_t able = 0;
  tri_status status = TRI_OK;
  if (t->config->rollout.tensor == 1)
    status = tri_runner_can_share(&t->config->model, t->config->precision, tri_engine_weights(t->engine), &here);
  able = here;
  TRI_TRY(tri_common_status(&t->mesh.world, status));
  TRI_TRY(tri_all_sum_int64(&t->mesh.world, 1, &able));
  *out = able == t->mesh.world.size;
  return TRI_OK;
}

static tri_status create_generator(tri_training *t, tri_rollout_ranks *r) {
  const tri_run_config *config = t->config;
  const tri_mesh *mesh = tri_replicas_mesh(&r->replicas);
  tri_runner_sizes sizes;
  TRI_TRY(tri_rollout_ranks_sizes(config, tri_run_data_longest_prompt(&t->data), &sizes));
  TRI_TRY(tri_runner_create(&config->model, config->precision, &sizes,
                            r->in_place ? tri_engine_weights(t->engine) : NULL, mesh,
                            tri_executor_lend(tri_engine_executor(t->engine)), t->device, &r->runner));
  if (tri_replicas_leads(&r->replicas))
    TRI_TRY(tri_generator_create(&config->model, config->precision, r->runner, &r->generator));
  return tri_dispatcher_create(&r->replicas, r->runner, r->generator, &r->dispatcher);
}

/* COLLECTIVE over the replica. Loads the frozen base of an adapter, because `publish` only moves the factors. Does
 * nothing without an adapter, or if runners read the weights in place. */
static tri_status load_base(tri_training *t, tri_rollout_ranks *r) {
  const tri_checkpoint_use use = {0};
  tri_model model;
  tri_merged base = {0};
  if (r->in_place || !tri_runner_parameters(r->runner)->has_factors) return TRI_OK;
  tri_status status = tri_merged_open(t->identity.base, NULL, &use, &model, &base);
  status = tri_common_status(&r->replicas.replica, status);
  if (status == TRI_OK)
    status = tri_model_files_load(&base, TRI_MODEL_FILES_BASE, tri_runner_parameters(r->runner), &r->replicas.replica,
                                  tri_runner_executor(r->runner));
  tri_merged_close(&base);
  return status;
}

/* Checks that the ranks of a job are whole replicas, and that a replica's ranks can share each layer. */
static tri_status check_tensor(const tri_run_config *config, int64_t ranks) {
  const int64_t tensor = config->rollout.tensor;
  if (tensor <= ranks && ranks % tensor == 0) return tri_layout_check_tensor("rollout.tensor", tensor, &config->model);
  return tri_fail(TRI_BAD_CONFIG, "`rollout.tensor` %ld does not divide the %ld rank%s of this job into replicas",
                  (long)tensor, (long)ranks, TRI_PLURAL(ranks));
}

tri_status tri_rollout_ranks_create(tri_training *t, tri_rollout_ranks *out) {
  const tri_group *world = &t->mesh.world;
  const int64_t tensor = t->config->rollout.tensor;
  *out = (tri_rollout_ranks){.replicas = tri_replicas_alone(), .published = -1};
  TRI_TRY(check_tensor(t->config, world->size));
  TRI_TRY(tri_replicas_create(world, tensor, &t->config->model, NULL, &out->replicas));
  TRI_TRY(tri_engine_finish(t->engine));
  TRI_TRY(agree_on_place(t, &out->in_place));
  TRI_TRY(tri_common_status(world, create_generator(t, out)));
  return tri_common_status(world, load_base(t, out));
}

void tri_rollout_ranks_release(tri_rollout_ranks *r) {
  tri_dispatcher_destroy(r->dispatcher);
  tri_generator_destroy(r->generator);
  tri_runner_destroy(r->runner);
  tri_replicas_destroy(&r->replicas);
  *r = (tri_rollout_ranks){.replicas = tri_replicas_alone()};
}

/* COLLECTIVE, between steps. Gives the runners the weights of a policy, unless they have them. Weights that runners
 * read in place are replaced until restore_trained. */
static tri_status publish(tri_training *t, tri_rollout_ranks *r, tri_policy policy) {
  TRI_TRY(tri_engine_finish(t->engine)); /* the engine's last step uses the memory that the engine lends */
  if (r->in_place) return tri_engine_swap_in(t->engine, policy);
  const int64_t version = tri_weights_version(tri_engine_weights(t->engine));
  if (r->published == version && r->policy == policy) return TRI_OK;
  const tri_weights_target to = tri_runner_target(r->runner);
  r->published = version;
  r->policy = policy;
  return tri_engine_send_weights(t->engine, policy, &to);
}

/* COLLECTIVE, after a rollout. Puts the trained weights back in their place. */
static tri_status restore_trained(tri_training *t, const tri_rollout_ranks *r, tri_policy policy) {
  return r->in_place ? tri_engine_swap_back(t->engine, policy) : TRI_OK;
}

/* COLLECTIVE over the replica: its first rank calls this while its other ranks follow the runner. Lets the generator
 * use the weights as they are now, and forget the keys and values of earlier rollouts: a step may have overwritten
 * them. */
static tri_status begin_rollout(tri_rollout_ranks *r) {
  return r->generator == NULL ? TRI_OK : tri_generator_publish(r->generator, TRI_PUBLISH_BETWEEN);
}

/* COLLECTIVE. Sets r->wait_s to the mean of the seconds that replicas have waited so far. */
static tri_status add_waits(const tri_training *t, tri_rollout_ranks *r) {
  double sum = r->generator == NULL ? 0 : tri_dispatcher_waited_s(r->dispatcher);
  TRI_TRY(tri_all_reduce(&t->mesh.world, TRI_FP64, 1, &sum));
  r->wait_s = sum * (double)t->config->rollout.tensor / (double)t->mesh.world.size;
  return TRI_OK;
}

tri_status tri_rollout_ranks_run(tri_training *t, tri_rollout_ranks *r, tri_policy policy, tri_rollout_work *work,
                                 void *context, bool *stopped) {
  tri_record record = tri_record_make(TRI_RECORD_WORK, "sample completions");
  const bool averages = tri_optimizer_that_averages(&t->config->optimizer.settings) != NULL;
  int64_t stops = 0;
  record.code = TRI_RECORD_SAMPLE;
  if (!averages) policy = TRI_POLICY_TRAINED; /* both policies have the same weights, which need not be moved again */
  TRI_TRY(publish(t, r, policy));
  const uint64_t ticket = tri_recorder_begin(&record);
  *stopped = false;
  tri_status status = begin_rollout(r);
  if (!tri_training_is_rank0(t)) {
    if (status == TRI_OK) status = tri_dispatcher_follow(r->dispatcher);
  } else {
    if (status == TRI_OK) status = work(t, context, stopped);
    if (status == TRI_OK) status = tri_dispatcher_dismiss(r->dispatcher);
    if (status != TRI_OK) tri_dispatcher_give_up(r->dispatcher, status);
  }
  tri_recorder_end(ticket);
  /* The other replicas still follow or wait for events: they cannot agree on the failure, which ends the job. */
  if (status != TRI_OK && tri_dispatcher_replicas(r->dispatcher) > 1) return status;
  status = tri_common_status(&t->mesh.world, status);
  if (status == TRI_OK) status = add_waits(t, r);
  const tri_status back = restore_trained(t, r, policy);
  TRI_TRY(status);
  TRI_TRY(back);
  stops = *stopped;
  TRI_TRY(tri_all_sum_int64(&t->mesh.world, 1, &stops));
  *stopped = stops > 0;
  return TRI_OK;
}

/* Returns the bytes of the host's sampler. Only held-out completions need it: the device samples those that are trained
 * on. */
static size_t sampler_bytes(const tri_run_config *config, const tri_runner_sizes *sizes, const tri_device *device) {
  const tri_sampling sampling = tri_rollout_held_out_sampling(&config->rollout);
  const int64_t threads = tri_smaller(device->description.threads, sizes->sequences);
  if (config->data.validation_prompts[0] == '\0' || config->evaluation.every == 0) return 0;
  return tri_sampling_is_whole(&sampling) ? 0 : tri_generator_sampler_bytes(config->model.vocab_size, (int)threads);
}

tri_status tri_rollout_ranks_plan(const tri_run_config *config, const tri_engine_options *options, int64_t longest,
                                  tri_device *device, tri_runner_need *out) {
  const tri_mesh_coordinates first = {0};
  tri_parts parts = {0};
  tri_weights *weights = NULL;
  tri_runner_sizes sizes;
  bool in_place = false;
  *out = (tri_runner_need){0};
  if (config->data.prompts[0] == '\0') return TRI_OK;
  TRI_TRY(check_tensor(config, tri_layout_ranks(&config->layout)));
  TRI_TRY(tri_rollout_ranks_sizes(config, longest, &sizes));
  TRI_TRY(tri_engine_parts_create(options, &first, device, &parts));
  tri_status status = tri_weights_create(parts.table, parts.buckets, config->precision, &weights);
  if (status == TRI_OK && config->rollout.tensor == 1)
    status = tri_runner_can_share(&config->model, config->precision, weights, &in_place);
  tri_weights_destroy(weights);
  tri_parts_destroy(&parts);
  TRI_TRY(status);
  TRI_TRY(tri_runner_plan(&config->model, config->precision, &sizes, in_place, config->rollout.tensor, device, out));
  out->device_bytes -= out->scratch_bytes; /* lent by the training executor */
  out->host_bytes += sampler_bytes(config, &sizes, device);
  return TRI_OK;
}
