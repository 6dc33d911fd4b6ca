#include "generation/runner_internal.h"

#include "base/count.h"
#include "base/memory.h"
#include "device/kernels.h"
#include "engine/block_loader.h"
#include "mesh/parts.h"
#include "model/family.h"
#include "model/trainable.h"
#include "model/window.h"

#include <omp.h>
#include <string.h>

enum { USUAL_ROWS = 256, USUAL_LOGIT_ROWS = 64 };

tri_runner_sizes tri_runner_sizes_for(int64_t sequences, int64_t positions) {
  const int64_t all = positions > INT32_MAX / sequences ? INT32_MAX : sequences * positions;
  const int64_t rows = tri_smaller(tri_larger(USUAL_ROWS, sequences), all);
  return (tri_runner_sizes){
      .sequences = sequences,
      .positions = positions,
      .rows = rows,
      .logit_rows = tri_smaller(tri_larger(USUAL_LOGIT_ROWS, sequences), rows),
      .pages = positions > INT32_MAX / sequences ? INT32_MAX : sequences * tri_runner_pages_of(positions),
      .prompt = 1};
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Returns the bytes of a page of one layer: keys and values of the rank's KV heads. If there are fewer KV heads than
 * ranks, each rank has one. */
static size_t page_layer_bytes(const tri_model *model, tri_dtype precision, int64_t tensor) {
  const int64_t heads = tri_larger(1, model->num_kv_heads / tensor);
  return 2 * (size_t)(TRI_PAGE_ROWS * heads * model->head_dim) * tri_dtype_bytes(precision);
}

size_t tri_runner_page_bytes(const tri_model *model, tri_dtype precision, int64_t tensor) {
  return page_layer_bytes(model, precision, tensor) * (size_t)model->num_layers;
}

int64_t tri_runner_window(const tri_model *model) {
  int64_t most = 0;
  for (int64_t layer = 0; layer < model->num_layers; layer++) {
    const int64_t window = tri_model_window(model, layer);
    if (window == 0) return 0;
    most = tri_larger(most, window);
  }
  return most;
}

/* Returns the bytes of the executor's scratch region. In lent memory the pages follow it. */
static size_t scratch_bytes(const tri_memory_plan *plan) { return tri_bytes_in_lines(plan->scratch_bytes); }

static tri_status create_cache(tri_runner *runner, tri_lent_memory lent) {
  const tri_model *model = &runner->model;
  const size_t page = page_layer_bytes(model, runner->precision, tri_runner_ranks(runner));
  const size_t layer_bytes = page * (size_t)runner->sizes.pages;
  runner->cache.pages = runner->sizes.pages;
  runner->cache.table_pages = runner->sizes.sequences * runner->pages_each;
  runner->cache_bytes = layer_bytes * (size_t)model->num_layers;
  TRI_TRY(
      tri_alloc("the cache's layers", (size_t)model->num_layers, sizeof *runner->cache.layers, &runner->cache.layers));
  char *first = lent.memory;
  if (first != NULL && lent.bytes < scratch_bytes(runner->executor->plan) + runner->cache_bytes)
    return tri_fail_internal("%zu bytes are lent to a runner, which are too few for its pages", lent.bytes);
  if (first == NULL) TRI_TRY(tri_device_memory_create(runner->device, runner->cache_bytes, &runner->cache_memory));
  first = first == NULL ? runner->cache_memory : first + scratch_bytes(runner->executor->plan);
  for (int64_t layer = 0; layer < model->num_layers; layer++)
    runner->cache.layers[layer] = first + (size_t)layer * layer_bytes;
  return TRI_OK;
}

/* Creates the list of operations. `shares`: the runner reads another executor's weights in place. */
static tri_status create_list(tri_runner *runner, bool shares) {
  const tri_runner_sizes *sizes = &runner->sizes;
  tri_list_request list = tri_list_request_whole(&runner->model, TRI_LIST_GENERATE, 1, sizes->rows, runner->precision);
  list.positions = sizes->positions;
  list.slots = sizes->sequences;
  list.logit_rows = sizes->logit_rows;
  list.table_pages = sizes->sequences * runner->pages_each;
  list.prompt = sizes->prompt;
  list.weights_shared = shares;
  list.shard.position = runner->position;
  return tri_model_operations(&runner->model, &list, &runner->list);
}

static size_t logit_bytes(const tri_runner *runner) { return tri_dtype_bytes(tri_dtype_wide(runner->precision)); }

/* Returns the bytes of the host's copy of the logits; 0 if the host reads all logits in device memory. */
static size_t logits_bytes(const tri_runner *runner, const tri_device *device) {
  if (device->info.host_access && tri_runner_ranks(runner) == 1) return 0;
  return (size_t)(runner->sizes.logit_rows * runner->model.vocab_size) * logit_bytes(runner);
}

/* Layout of the query memory: queries, then ids, then numbers. The numbers are last, because only the numbers of the
 * queries of the current call are downloaded. */
static size_t ids_offset(const tri_runner *runner) {
  return (size_t)tri_runner_most_queries(runner) * sizeof(tri_logit_query);
}
static size_t numbers_offset(const tri_runner *runner) { /* a multiple of 8, because the number of queries is even */
  return ids_offset(runner) + (size_t)tri_runner_most_queries(runner) * sizeof(int32_t);
}
static size_t numbers_bytes(int64_t queries) { return (size_t)queries * TRI_LOGIT_NUMBERS * sizeof(double); }
static size_t query_bytes(const tri_runner *runner) {
  return numbers_offset(runner) + numbers_bytes(tri_runner_most_queries(runner));
}

/* Freezes the whole model, so that the weights of GEMMs are kept only in the type in which the GEMMs read them. A model
 * with an adapter is kept as in training: frozen but for its factors, which are wide. */
static void freeze_weights(tri_model *model) {
  tri_trainable *tuning = &model->tuning;
  tuning->adapter.dropout = 0;
  if (!tri_trainable_has_adapter(tuning)) tri_trainable_freeze_all(tuning);
}

static tri_status create_table(tri_runner *runner) {
  return tri_parameter_table_create_at(&runner->model, &runner->position, &runner->table);
}

tri_status tri_runner_can_share(const tri_model *model, tri_dtype precision, const tri_weights *weights, bool *out) {
  tri_runner runner = {.model = *model, .position = tri_mesh_position_alone()};
  tri_weights *own = NULL;
  freeze_weights(&runner.model);
  TRI_TRY(create_table(&runner));
  const tri_status status = tri_weights_create(runner.table, NULL, precision, &own);
  if (status == TRI_OK) *out = tri_weights_can_share(own, weights);
  tri_weights_destroy(own);
  tri_parameter_table_destroy(runner.table);
  return status;
}

static tri_memory_request memory_request(tri_runner *runner, const tri_device *device) {
  tri_memory_request request =
      tri_memory_request_forward(&runner->list, runner->table->num_elements, &device->description);
  memcpy(request.num_frozen, runner->table->num_frozen, sizeof request.num_frozen);
  request.load_bytes = tri_weights_load_bytes(runner->table, NULL, runner->precision);
  tri_executor_add_exchange(&request, tri_runner_ranks(runner), device);
  return request;
}

static tri_status set_up(tri_runner *runner, const tri_weights *shared, const tri_mesh *mesh, tri_lent_memory lent) {
  TRI_TRY(tri_device_supports(runner->device, runner->precision));
  TRI_TRY(create_table(runner));
  TRI_TRY(tri_block_loader_check(runner->table, runner->precision, runner->device));
  TRI_TRY(create_list(runner, shared != NULL));
  tri_memory_request request = memory_request(runner, runner->device);
  request.lent = lent;
  TRI_TRY(tri_weights_create(runner->table, NULL, runner->precision, &runner->weights));
  if (shared != NULL && !tri_weights_can_share(runner->weights, shared))
    return tri_fail_internal("a generator was given weights that it cannot read in place");
  if (shared != NULL) tri_weights_share(runner->weights, shared);
  TRI_TRY(tri_executor_create(runner->weights, &request, runner->device, mesh, &runner->executor));
  tri_executor_set_slices(runner->executor, 0, runner->sizes.sequences);
  if (logits_bytes(runner, runner->device) > 0)
    TRI_TRY(tri_device_host_create(runner->device, logits_bytes(runner, runner->device), &runner->logits));
  TRI_TRY(tri_device_host_create(runner->device, query_bytes(runner), &runner->queries));
  TRI_TRY(tri_device_memory_create(runner->device, query_bytes(runner), &runner->device_queries));
  void *exchanged = NULL;
  if (mesh != NULL) TRI_TRY(tri_device_host_create(runner->device, tri_runner_exchanged_bytes(runner), &exchanged));
  runner->exchanged = exchanged;
  return create_cache(runner, lent);
}

static tri_status plan_bytes(tri_runner *runner, bool shares, const tri_device *device, tri_runner_need *out) {
  tri_memory_plan *plan = NULL;
  TRI_TRY(create_table(runner));
  TRI_TRY(tri_block_loader_check(runner->table, runner->precision, device));
  TRI_TRY(create_list(runner, shares));
  tri_memory_request request = memory_request(runner, device);
  request.has_weights = shares;
  TRI_TRY(tri_memory_plan_create(&request, &plan));
  out->shares = shares;
  out->cache_bytes =
      tri_runner_page_bytes(&runner->model, runner->precision, tri_runner_ranks(runner)) * (size_t)runner->sizes.pages;
  out->device_bytes = plan->device_bytes - plan->queue_bytes + out->cache_bytes + query_bytes(runner);
  out->scratch_bytes = scratch_bytes(plan) + out->cache_bytes;
  out->host_bytes = plan->host_bytes + query_bytes(runner) + logits_bytes(runner, device);
  if (tri_runner_ranks(runner) > 1) out->host_bytes += tri_runner_exchanged_bytes(runner);
  tri_memory_plan_destroy(plan);
  return TRI_OK;
}

static tri_status make(const tri_model *model, tri_dtype precision, const tri_runner_sizes *sizes,
                       const tri_mesh_position *position, tri_runner **out) {
  const int64_t pages_each = tri_runner_pages_of(sizes->positions);
  if (sizes->sequences < 1 || pages_each > INT32_MAX / TRI_PAGE_ROWS / sizes->sequences ||
      sizes->pages > INT32_MAX / TRI_PAGE_ROWS) {
    return tri_fail(TRI_BAD_USAGE, "%ld sequences of %ld positions side by side are more than can be numbered",
                    (long)sizes->sequences, (long)sizes->positions);
  }
  TRI_TRY(tri_alloc("a runner", 1, sizeof **out, out));
  **out = (tri_runner){.model = *model,
                       .precision = precision,
                       .sizes = *sizes,
                       .position = *position,
                       .pages_each = pages_each,
                       .version = -1};
  freeze_weights(&(*out)->model);
  tri_part_of(model->vocab_size, tri_runner_ranks(*out), position->place.at[TRI_AXIS_TENSOR], &(*out)->first_id,
              &(*out)->own_ids);
  return TRI_OK;
}

tri_mesh_shape tri_runner_shape(const tri_model *model, int64_t tensor) {
  tri_mesh_shape shape = tri_mesh_position_along(TRI_AXIS_TENSOR, tensor).shape;
  if (model->num_experts > 0) {
    shape.expert = 1;
    shape.expert_tensor = model->expert_ffn_size % tensor == 0 ? (int)tensor : 1;
  }
  return shape;
}

tri_status tri_runner_plan(const tri_model *model, tri_dtype precision, const tri_runner_sizes *sizes, bool shares,
                           int64_t tensor, const tri_device *device, tri_runner_need *out) {
  const tri_mesh_position position = {.shape = tri_runner_shape(model, tensor)};
  tri_runner *runner = NULL;
  TRI_TRY(make(model, precision, sizes, &position, &runner));
  const tri_status status = plan_bytes(runner, shares, device, out);
  tri_runner_destroy(runner);
  return status;
}

tri_status tri_runner_create(const tri_model *model, tri_dtype precision, const tri_runner_sizes *sizes,
                             const tri_weights *shared, const tri_mesh *mesh, tri_lent_memory lent, tri_device *device,
                             tri_runner **out) {
  const tri_mesh_position alone = tri_mesh_position_alone();
  const tri_mesh_position position = mesh == NULL ? alone : (tri_mesh_position){mesh->shape, mesh->place};
  tri_runner *runner = NULL;
  TRI_TRY(make(model, precision, sizes, &position, &runner));
  runner->device = device;
  if (tri_runner_ranks(runner) > 1) runner->tensor = tri_mesh_group(mesh, TRI_DOMAIN_TENSOR);
  const tri_status status = set_up(runner, shared, runner->tensor == NULL ? NULL : mesh, lent);
  if (status == TRI_OK) *out = runner;
  if (status != TRI_OK) tri_runner_destroy(runner);
  return status;
}

void tri_runner_destroy(tri_runner *runner) {
  if (runner == NULL) return;
  if (runner->device != NULL) {
    if (runner->cache_memory != NULL)
      tri_device_memory_destroy(runner->device, runner->cache_memory, runner->cache_bytes);
    tri_device_memory_destroy(runner->device, runner->device_queries, query_bytes(runner));
    tri_device_host_destroy(runner->device, runner->queries, query_bytes(runner));
    tri_device_host_destroy(runner->device, runner->logits, logits_bytes(runner, runner->device));
    if (runner->exchanged != NULL)
      tri_device_host_destroy(runner->device, runner->exchanged, tri_runner_exchanged_bytes(runner));
  }
  tri_free(runner->sent);
  tri_free(runner->cache.layers);
  tri_executor_destroy(runner->executor);
  tri_weights_destroy(runner->weights);
  tri_op_list_destroy(runner->list);
  tri_parameter_table_destroy(runner->table);
  tri_free(runner);
}

const tri_runner_sizes *tri_runner_sizes_of(const tri_runner *runner) { return &runner->sizes; }
int tri_runner_threads(const tri_runner *runner) {
  return runner->device->info.host_memory ? runner->device->description.threads : omp_get_max_threads();
}
tri_executor *tri_runner_executor(tri_runner *runner) { return runner->executor; }
const tri_parameter_table *tri_runner_parameters(const tri_runner *runner) { return runner->table; }
tri_weights_target tri_runner_target(tri_runner *runner) {
  return (tri_weights_target){runner->weights, tri_executor_memory(runner->executor)};
}

tri_status tri_runner_publish_own(tri_runner *runner) {
  TRI_TRY(tri_executor_prepare(runner->executor));
  runner->version = tri_weights_version(runner->weights);
  return TRI_OK;
}

int64_t tri_runner_version(const tri_runner *runner) { return runner->version; }

/* ---- runs -------------------------------------------------------------------------------------------------------- */

tri_status tri_runner_begin_own(tri_runner *runner) {
  const int64_t slices = runner->list->windows.count * runner->sizes.sequences;
  if (runner->version != tri_weights_version(runner->weights)) {
    return tri_fail_internal("the cached keys are of weights of version %ld, and the weights have version %ld by now",
                             (long)runner->version, (long)tri_weights_version(runner->weights));
  }
  TRI_TRY(tri_device_event_wait(&runner->uploaded)); /* the host batch is overwritten below */
  runner->host = tri_executor_host_batch(runner->executor, 0);
  for (int64_t i = 0; i < slices; i++) runner->host.slices[i] = (tri_attention_slice){0};
  runner->rows = runner->sequences = 0;
  if (runner->tensor != NULL && runner->tensor->rank == 0) runner->sent_bytes = 0;
  runner->cache.most_rows = runner->cache.positions = runner->cache.logit_rows = 0;
  return TRI_OK;
}

static tri_status check_rows(const tri_runner *runner, const tri_runner_rows *rows) {
  const tri_runner_sizes *sizes = &runner->sizes;
  const bool fits = rows->count >= 1 && runner->rows + rows->count <= sizes->rows && rows->first >= 0 &&
                    rows->first + rows->count <= sizes->positions && runner->sequences < sizes->sequences &&
                    rows->logits <= rows->count && runner->cache.logit_rows + rows->logits <= sizes->logit_rows;
  if (fits) return TRI_OK;
  return tri_fail_internal("%ld rows from position %ld on, %ld of them with logits, do not fit into a run",
                           (long)rows->count, (long)rows->first, (long)rows->logits);
}

static tri_status append(tri_runner *runner, const void *data, size_t bytes) {
  TRI_TRY(tri_reserve("a run's rows", 1, runner->sent_bytes + bytes, &runner->sent_room, &runner->sent));
  memcpy(runner->sent + runner->sent_bytes, data, bytes);
  runner->sent_bytes += bytes;
  return TRI_OK;
}

/* On the first of several tensor ranks, keeps the rows, to send them to the others. */
static tri_status note_rows(tri_runner *runner, const tri_runner_rows *rows) {
  const int64_t pages = tri_runner_pages_of(rows->first + rows->count);
  const int64_t head[] = {rows->first, rows->count, rows->logits};
  if (runner->tensor == NULL || runner->tensor->rank > 0) return TRI_OK;
  TRI_TRY(append(runner, head, sizeof head));
  TRI_TRY(append(runner, rows->ids, (size_t)rows->count * sizeof *rows->ids));
  return append(runner, rows->pages, (size_t)pages * sizeof *rows->pages);
}

tri_status tri_runner_add(tri_runner *runner, const tri_runner_rows *rows) {
  const tri_op_windows *windows = &runner->list->windows;
  const tri_batch *host = &runner->host;
  const int64_t table = runner->sequences * runner->pages_each, keys = rows->first + rows->count;
  TRI_TRY(check_rows(runner, rows));
  TRI_TRY(note_rows(runner, rows));
  for (int64_t i = 0; i < tri_runner_pages_of(keys); i++) host->pages[table + i] = rows->pages[i];
  for (int64_t i = 0; i < rows->count; i++) {
    const int64_t at = rows->first + i, row = runner->rows + i;
    host->ids[row] = rows->ids[i];
    host->positions[row] = (int32_t)at;
    host->cache_rows[row] = rows->pages[at / TRI_PAGE_ROWS] * TRI_PAGE_ROWS + (int32_t)(at % TRI_PAGE_ROWS);
  }
  for (int64_t i = rows->count - rows->logits; i < rows->count; i++)
    host->logit_rows[runner->cache.logit_rows++] = (int32_t)(runner->rows + i);
  for (int64_t w = 0; w < windows->count; w++) {
    tri_attention_slice *slice = &host->slices[w * runner->sizes.sequences + runner->sequences];
    *slice = windows->tokens[w] > 0
                 ? tri_slice_window(runner->rows, rows->count, table * TRI_PAGE_ROWS, keys, windows->tokens[w])
                 : tri_slice_causal(runner->rows, rows->count, table * TRI_PAGE_ROWS, keys);
  }
  runner->sequences++;
  runner->rows += rows->count;
  runner->cache.most_rows = tri_larger(runner->cache.most_rows, rows->count);
  runner->cache.positions = tri_larger(runner->cache.positions, keys);
  return TRI_OK;
}

static tri_status forward(tri_runner *runner, tri_run *run) {
  run->batch = 1;
  run->sequence = runner->rows;
  tri_executor_set_batch(runner->executor, 0, run);
  run->cache = &runner->cache;
  TRI_TRY(tri_executor_upload_batch(runner->executor, 0));
  TRI_TRY(tri_queue_mark(runner->device->queue, &runner->uploaded));
  return tri_executor_forward(runner->executor, 0, run);
}

tri_status tri_runner_run_own(tri_runner *runner) {
  const tri_op_call *last = &runner->list->calls[runner->list->num_calls - 1];
  tri_run run = tri_executor_run(runner->executor, 0, 0);
  const tri_status status = forward(runner, &run);
  runner->made = run.slots[last->outputs[0]];
  return status;
}

tri_status tri_runner_query_own(tri_runner *runner, const tri_logit_query *queries, int64_t count, const int32_t **ids,
                                const double **numbers) {
  tri_queue *queue = runner->device->queue;
  char *host = runner->queries, *device = runner->device_queries;
  const size_t first = ids_offset(runner), numbers_at = numbers_offset(runner);
  *numbers = (const double *)(void *)(host + numbers_at);
  *ids = (const int32_t *)(void *)(host + first);
  if (count == 0) return TRI_OK;
  memcpy(host, queries, (size_t)count * sizeof *queries);
  TRI_TRY(tri_queue_upload(queue, device, host, (size_t)count * sizeof *queries));
  TRI_KERNEL_CALL(queue, query_logits, runner->precision, count, runner->own_ids, runner->own_ids, runner->made,
                  (const tri_logit_query *)(void *)device, (int32_t *)(void *)(device + first),
                  (double *)(void *)(device + numbers_at));
  return tri_queue_download_now(queue, host + first, device + first, numbers_at - first + numbers_bytes(count));
}

tri_status tri_runner_logits_own(tri_runner *runner, int64_t first, int64_t count, const void **out) {
  const size_t row = (size_t)runner->own_ids * logit_bytes(runner), offset = (size_t)first * row;
  const char *made = (const char *)runner->made + offset;
  *out = made;
  if (runner->device->info.host_access) return tri_queue_finish(runner->device->queue);
  *out = (char *)runner->logits + offset;
  return tri_queue_download_now(runner->device->queue, (char *)runner->logits + offset, made, (size_t)count * row);
}

tri_status tri_runner_copy_logits(tri_runner *runner, int64_t row, void *out) {
  const size_t bytes = (size_t)runner->own_ids * logit_bytes(runner);
  const char *made = (const char *)runner->made + (size_t)row * bytes;
  if (!runner->device->info.host_access) return tri_queue_download_now(runner->device->queue, out, made, bytes);
  TRI_TRY(tri_queue_finish(runner->device->queue));
  memcpy(out, made, bytes);
  return TRI_OK;
}

tri_status tri_runner_copy_page_own(tri_runner *runner, int32_t from, int32_t to) {
  const size_t half = page_layer_bytes(&runner->model, runner->precision, tri_runner_ranks(runner)) / 2;
  const size_t values = half * (size_t)runner->sizes.pages;
  for (int64_t layer = 0; layer < runner->model.num_layers; layer++) {
    char *base = runner->cache.layers[layer];
    for (int part = 0; part < 2; part++) {
      char *of = base + (part == 0 ? 0 : values);
      TRI_TRY(tri_queue_move(runner->device->queue, of + (size_t)to * half, of + (size_t)from * half, half));
    }
  }
  return TRI_OK;
}
