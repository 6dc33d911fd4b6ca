#include "global.h"

#include "base/memory.h"

#include <string.h>

static void *array_of(const tri_engine *engine, tri_array array) {
  const tri_executor *executor = tri_engine_executor((tri_engine *)engine);
  switch (array) {
    case TRI_ARRAY_VALUES: return tri_weights_values(executor->weights);
    case TRI_ARRAY_GRADIENTS: return tri_weights_gradients(executor->weights);
  }
  return NULL;
}

static size_t element_bytes(const tri_engine *engine) {
  return tri_dtype_bytes(tri_dtype_wide(tri_engine_get_options(engine)->precision));
}

static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t at_least(int64_t a, int64_t b) { return a > b ? a : b; }

static const tri_bucket *bucket_of(const tri_engine *engine, int64_t index) {
  return tri_bucket_of(tri_engine_buckets(engine), tri_engine_parameters(engine), index);
}

/* Whether a data rank has its part alone. With ZeRO gradients are so after a step's reduction, whole as they may lie.
 */
static bool is_sharded(const tri_engine *engine, tri_array array, int64_t index) {
  const tri_bucket *bucket = bucket_of(engine, index);
  if (array == TRI_ARRAY_VALUES) return bucket != NULL && bucket->values_sharded;
  return tri_engine_get_options(engine)->layout->zero > 0;
}

static tri_element_range range_of(const tri_engine *engine, tri_array array, int64_t index) {
  const tri_buckets *buckets = tri_engine_buckets(engine);
  const tri_parameter_table *table = tri_engine_parameters(engine);
  const tri_bucket *bucket = bucket_of(engine, index);
  if (array == TRI_ARRAY_VALUES) return tri_element_range_of_values(buckets, table, index);
  tri_element_range range = tri_element_range_of_gradients(buckets, table, index);
  if (bucket == NULL || bucket->gradients_sharded) return range;
  const tri_parameter *entry = &table->entries[index]; /* the array is whole; only the rank's own part is reduced */
  const int64_t first = at_most(at_least(bucket->own_first - entry->offset, 0), entry->count);
  const int64_t end = at_most(at_least(bucket->own_end - entry->offset, 0), entry->count);
  return (tri_element_range){first, end - first, range.at + first};
}

/* Gathers the local part of an entry from the shards of all replicas. */
static tri_status collect_local(tri_engine *engine, tri_array array, int64_t index, char *out) {
  const tri_parameter *entry = &tri_engine_parameters(engine)->entries[index];
  const tri_group *replicas = tri_mesh_group(tri_engine_mesh(engine), entry->placement.replicas);
  tri_device *device = tri_engine_executor(engine)->device;
  size_t element = element_bytes(engine);
  tri_element_range own = range_of(engine, array, index);
  const char *from = (const char *)array_of(engine, array) + (size_t)own.at * element;
  TRI_TRY(tri_queue_download_now(device->queue, out + (size_t)own.first * element, from, (size_t)own.count * element));
  if (!is_sharded(engine, array, index) || replicas->size == 1) return TRI_OK;
  const tri_bucket *bucket = bucket_of(engine, index);
  int64_t *begins = NULL;
  TRI_TRY(tri_alloc("parts of a parameter", (size_t)replicas->size + 1, sizeof *begins, &begins));
  for (int r = 0; r <= replicas->size; r++) {
    begins[r] = at_most(at_least(bucket->first + bucket->begins[r] - entry->offset, 0), entry->count);
  }
  tri_status status = tri_all_gather(replicas, tri_dtype_wide(tri_engine_get_options(engine)->precision), begins, out);
  tri_free(begins);
  return status;
}

/* Copies a rank's local part to its place in the global tensor, or in those of a stack, one after the other; with
 * `back` from there. A parameter that is rows of a larger tensor on disk is a tensor of its own here. */
static void spread(const tri_parameter *entry, size_t element, char *local, char *global, bool back) {
  for (int64_t t = 0; t < tri_parameter_num_tensors(entry); t++) {
    int64_t first = 0;
    tri_parameter tensor = tri_parameter_tensor(entry, t, &first);
    tensor.within = (tri_rows_within){0};
    const int64_t length = tri_parameter_run_length(&tensor);
    char *whole = global + (size_t)(t * tri_parameter_global_count(&tensor)) * element;
    for (int64_t i = 0; length > 0 && i * length < tensor.count; i++) {
      char *there = whole + (size_t)tri_parameter_run(&tensor, i) * element;
      char *here = local + (size_t)(first + i * length) * element;
      memcpy(back ? here : there, back ? there : here, (size_t)length * element);
    }
  }
}

/* Returns the part of an entry on rank r of the domain that its parts are on. */
static tri_parameter part_of(const tri_mesh *mesh, const tri_parameter *entry, tri_domain parts, int r) {
  const tri_mesh_position position = {mesh->shape, tri_domain_coordinates(&mesh->shape, &mesh->place, parts, r)};
  return tri_parameter_of_position(entry, &position);
}

/* Gathers the local parts into the global tensor, on all ranks of the domain that the parts are on. */
static tri_status join_tensor(tri_engine *engine, int64_t index, const char *local, char *global) {
  const tri_parameter *entry = &tri_engine_parameters(engine)->entries[index];
  const tri_domain parts = entry->placement.has_holders ? TRI_DOMAIN_EXPERT : entry->placement.parts;
  const tri_mesh *mesh = tri_engine_mesh(engine);
  const tri_group *group = tri_mesh_group(mesh, parts);
  tri_dtype wide = tri_dtype_wide(tri_engine_get_options(engine)->precision);
  size_t element = tri_dtype_bytes(wide);
  int64_t *begins = NULL;
  char *all = NULL;
  tri_status status = TRI_OK;
  TRI_TRY_GOTO(tri_alloc("parts of a parameter", (size_t)group->size + 1, sizeof *begins, &begins), done);
  for (int r = 0; r < group->size; r++) {
    tri_parameter theirs = part_of(mesh, entry, parts, r);
    begins[r + 1] = begins[r] + theirs.count;
  }
  TRI_TRY_GOTO(tri_alloc("parts of a parameter", (size_t)begins[group->size], element, &all), done);
  memcpy(all + (size_t)begins[group->rank] * element, local, (size_t)entry->count * element);
  TRI_TRY_GOTO(tri_all_gather(group, wide, begins, all), done);
  for (int r = 0; r < group->size; r++) {
    tri_parameter theirs = part_of(mesh, entry, parts, r);
    spread(&theirs, element, all + (size_t)begins[r] * element, global, false);
  }
done:
  tri_free(all);
  tri_free(begins);
  return status;
}

static tri_status send_home(tri_engine *engine, int64_t stage, size_t bytes, char *global, void *out) {
  const tri_mesh *mesh = tri_engine_mesh(engine);
  const tri_group *pipeline = tri_mesh_group(mesh, TRI_DOMAIN_PIPELINE);
  tri_request *request = NULL;
  if (tri_mesh_group(mesh, TRI_DOMAIN_TENSOR)->rank > 0 || tri_mesh_group(mesh, TRI_DOMAIN_REPLICAS)->rank > 0)
    return TRI_OK;
  if (stage == 0 && pipeline->rank == 0) memcpy(out, global, bytes);
  if (stage == 0) return TRI_OK;
  if (pipeline->rank == stage) TRI_TRY(tri_send_start(pipeline, 0, 0, bytes, global, &request));
  if (pipeline->rank == 0) TRI_TRY(tri_receive_start(pipeline, (int)stage, 0, bytes, out, &request));
  return tri_request_wait(&request);
}

/* Returns the stage that has a layer; all ranks compute the same result. */
static int64_t stage_of(const tri_engine *engine, int64_t layer) {
  const tri_engine_options *options = tri_engine_get_options(engine);
  int64_t stages = options->layout->pipeline * options->layout->virtual_stages;
  for (int64_t v = 0; v < stages; v++) {
    tri_layer_range layers = tri_layout_layers(options->layout, options->model, v);
    if (layer >= layers.first && layer < layers.end) return v % options->layout->pipeline;
  }
  return 0;
}

tri_status tri_global_collect(tri_engine *engine, tri_array array, int64_t index, void *out) {
  const tri_parameter *entry = &tri_engine_parameters(engine)->entries[index];
  size_t element = element_bytes(engine), bytes = (size_t)tri_parameter_global_count(entry) * element;
  char *local = NULL, *global = NULL;
  tri_status status = TRI_OK;
  if (array != TRI_ARRAY_VALUES && !tri_parameter_has_gradient(entry)) {
    if (out != NULL) memset(out, 0, bytes);
    return TRI_OK;
  }
  int64_t stage = stage_of(engine, entry->layer);
  if (tri_mesh_group(tri_engine_mesh(engine), TRI_DOMAIN_PIPELINE)->rank == stage) {
    TRI_TRY_GOTO(tri_alloc("a parameter", (size_t)entry->count + 1, element, &local), done);
    TRI_TRY_GOTO(tri_alloc("a parameter", bytes, 1, &global), done);
    TRI_TRY_GOTO(collect_local(engine, array, index, local), done);
    TRI_TRY_GOTO(join_tensor(engine, index, local, global), done);
  }
  status = send_home(engine, stage, bytes, global, out);
done:
  tri_free(global);
  tri_free(local);
  return status;
}

/* Copies the rank's own range of the local part to its array of values. */
static tri_status upload_own(tri_engine *engine, int64_t index, const char *local) {
  const tri_executor *executor = tri_engine_executor(engine);
  const tri_element_range own = range_of(engine, TRI_ARRAY_VALUES, index);
  size_t element = element_bytes(engine);
  char *to = (char *)tri_weights_values(executor->weights) + (size_t)own.at * element;
  return tri_queue_upload_now(executor->device->queue, to, local + (size_t)own.first * element,
                              (size_t)own.count * element);
}

tri_status tri_global_place(tri_engine *engine, int64_t index, void *global) {
  const tri_parameter *entry = &tri_engine_parameters(engine)->entries[index];
  char *local = NULL;
  if (entry->count == 0) return TRI_OK;
  TRI_TRY(tri_alloc("a parameter", (size_t)entry->count, element_bytes(engine), &local));
  spread(entry, element_bytes(engine), local, global, true);
  tri_status status = upload_own(engine, index, local);
  tri_free(local);
  return status;
}
