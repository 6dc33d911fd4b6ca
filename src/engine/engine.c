#include "engine/engine.h"

#include "base/memory.h"
#include "engine/checkpoint_map.h"
#include "engine/engine_internal.h"
#include "engine/initialise.h"

#include <string.h>

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static tri_parts_request parts_request(const tri_engine_options *options) {
  return (tri_parts_request){.model = options->model,
                             .layout = options->layout,
                             .micro_batches = tri_layout_micro_batches(options->layout, options->global_batch),
                             .sequence = options->sequence,
                             .precision = options->precision,
                             .optimizer = options->optimizer,
                             .masked = options->masked,
                             .objective = options->objective};
}

tri_status tri_engine_parts_create(const tri_engine_options *options, const tri_mesh_coordinates *place,
                                   tri_device *device, tri_parts *out) {
  tri_parts_request request = parts_request(options);
  TRI_TRY(tri_device_supports(device, options->precision));
  return tri_parts_create(&request, place, out);
}

static size_t staging_bytes(const tri_engine_options *options, const tri_parts *parts,
                            const tri_mesh_coordinates *place) {
  if (!options->saves) return 0;
  size_t copy = options->saves_in_background ? tri_checkpoint_map_planned_bytes(options, parts, place) : 0;
  return TRI_CHECKPOINT_BUFFER_BYTES + copy;
}

tri_memory_request tri_engine_memory_request(const tri_engine_options *options, const tri_parts *parts,
                                             const tri_mesh_coordinates *place, tri_device *device) {
  tri_parts_request of = parts_request(options);
  tri_memory_request request = tri_parts_memory(&of, parts);
  tri_mesh_shape shape = tri_layout_mesh(options->layout);
  request.staging_bytes = staging_bytes(options, parts, place);
  request.least_scratch = options->lent_bytes;
  tri_executor_add_exchange(&request, tri_mesh_num_ranks(&shape), device);
  request.device = &device->description;
  return request;
}

/* ---- engine ------------------------------------------------------------------------------------------------------ */

static tri_status set_up(tri_engine *engine) {
  const tri_engine_options *options = &engine->options;
  TRI_TRY(tri_engine_parts_create(options, &options->mesh->place, engine->device, &engine->parts));
  tri_memory_request request =
      tri_engine_memory_request(options, &engine->parts, &options->mesh->place, engine->device);
  TRI_TRY(tri_weights_create(engine->parts.table, engine->parts.buckets, options->precision, &engine->weights));
  TRI_TRY(tri_executor_create(engine->weights, &request, engine->device, options->mesh, &engine->executor));
  TRI_TRY(tri_routers_create(options->model, &engine->routers));
  engine->micro_batches = engine->parts.program->num_micro_batches;
  for (int kind = 0; kind < TRI_NUM_STAGE_BUFFER_KINDS; kind++) {
    if (request.stage_buffers[kind] > engine->most_stage_buffers)
      engine->most_stage_buffers = request.stage_buffers[kind];
  }
  TRI_TRY(tri_alloc("messages", (size_t)(TRI_NUM_STAGE_BUFFER_KINDS * engine->most_stage_buffers),
                    sizeof *engine->messages, &engine->messages));
  TRI_TRY(
      tri_alloc("reductions", (size_t)engine->parts.buckets->count, sizeof *engine->reductions, &engine->reductions));
  TRI_TRY(tri_alloc("gathers", (size_t)(engine->parts.buckets->count * BUCKET_GATHERS), sizeof *engine->gathers,
                    &engine->gathers));
  TRI_TRY(tri_alloc("batches", (size_t)engine->micro_batches + 1, sizeof *engine->uploaded, &engine->uploaded));
  TRI_TRY(tri_alloc("step programs", (size_t)engine->micro_batches, sizeof *engine->programs, &engine->programs));
  tri_value_arrays arrays = {.trained = tri_weights_values(engine->executor->weights)};
  for (int kept = 0; kept < TRI_NUM_STORED; kept++) {
    arrays.frozen[kept] = tri_weights_frozen(engine->executor->weights, (tri_stored)kept);
  }
  TRI_TRY(tri_initialise(engine->device, engine->parts.table, engine->parts.buckets, options->seed, options->precision,
                         &arrays));
  return tri_engine_begin_states(engine, NULL);
}

tri_status tri_engine_create(const tri_engine_options *options, tri_device *device, tri_engine **out) {
  tri_engine *engine = NULL;
  TRI_TRY(tri_alloc("an engine", 1, sizeof *engine, &engine));
  engine->options = *options;
  if (options->optimizer == NULL) engine->options.optimizer = tri_optimizer_settings_default();
  engine->alone = tri_mesh_alone();
  if (options->mesh == NULL) engine->options.mesh = &engine->alone;
  engine->device = device;
  tri_status status = set_up(engine);
  if (status == TRI_OK) *out = engine;
  if (status != TRI_OK) tri_engine_destroy(engine);
  return status;
}

/* Returns whether ranks add up gradients, or exchange rows for experts. */
static bool adds_up_between_ranks(const tri_mesh *mesh) {
  if (tri_domain_size(&mesh->shape, TRI_DOMAIN_REPLICAS) > 1) return true;
  if (mesh->shape.expert < 1) return false;
  return tri_mesh_stage_ranks(&mesh->shape) > 1; /* replicas of experts, or ranks that exchange rows */
}

tri_status tri_engine_share_gradients(tri_engine *engine) {
  const tri_memory_plan *plan = engine->executor->plan;
  char *gradients = engine->executor->arena + plan->gradient_values;
  bool seen;
  if (!adds_up_between_ranks(engine->options.mesh) || !engine->device->info.host_access) return TRI_OK;
  TRI_TRY(tri_comm_share(&engine->options.mesh->world, gradients, plan->gradient_bytes + plan->transfer_bytes, &seen));
  engine->shared = gradients;
  return TRI_OK;
}

void tri_engine_destroy(tri_engine *engine) {
  if (engine == NULL) return;
  if (engine->shared != NULL) tri_comm_unshare(engine->shared);
  tri_free(engine->gathers);
  tri_free(engine->reductions);
  tri_free(engine->messages);
  tri_routers_destroy(engine->routers);
  tri_executor_destroy(engine->executor);
  tri_weights_destroy(engine->weights);
  tri_free(engine->uploaded);
  for (int64_t m = 0; m < engine->micro_batches && engine->programs != NULL; m++)
    tri_program_destroy(engine->programs[m]);
  tri_free(engine->programs);
  tri_parts_destroy(&engine->parts);
  tri_free(engine);
}

size_t tri_engine_predicted_bytes(const tri_engine *engine) { return engine->executor->plan->total_bytes; }

size_t tri_engine_measured_bytes(const tri_engine *engine) {
  return engine->device->memory_peak_bytes + engine->device->host_peak_bytes;
}

tri_router_loads tri_engine_router_loads(const tri_engine *engine) { return tri_routers_loads(engine->routers); }

tri_status tri_engine_finish(tri_engine *engine) { return tri_queue_finish(engine->device->queue); }

void tri_engine_waits(const tri_engine *engine, double *results, double *staging) {
  double steps = engine->steps > 0 ? (double)engine->steps : 1;
  *results = (double)engine->result_waits / steps;
  *staging = (double)engine->staging_waits / steps;
}

void *tri_engine_staging(const tri_engine *engine, size_t *bytes) {
  *bytes = engine->executor->plan->staging_bytes;
  return *bytes == 0 ? NULL : engine->executor->host + engine->executor->plan->staging;
}

const tri_engine_options *tri_engine_get_options(const tri_engine *engine) { return &engine->options; }

const tri_mesh *tri_engine_mesh(const tri_engine *engine) { return engine->options.mesh; }

tri_executor *tri_engine_executor(tri_engine *engine) { return engine->executor; }

const tri_parameter_table *tri_engine_parameters(const tri_engine *engine) { return engine->parts.table; }

const tri_buckets *tri_engine_buckets(const tri_engine *engine) { return engine->parts.buckets; }
