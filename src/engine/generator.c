#include "engine/generator.h"

#include "base/memory.h"
#include "model/family.h"

#include <string.h>

/* The program has two shapes: a piece of this many tokens, for prompts, and one token. What is left of a prompt behind
 * its last whole piece is read as a piece that begins earlier, and whose first positions are computed again; a prompt
 * shorter than a piece is filled up. */
enum { PIECE = 128 };

struct tri_generator {
  tri_model model;
  tri_device *device;
  tri_dtype precision;
  int64_t positions, prompt;
  tri_parameter_table *table;
  tri_op_list *list;
  tri_executor *executor;
  int32_t *ids; /* [positions], the sequence so far */
  int64_t count;
  tri_kv_cache cache;
  void *cache_memory;
  size_t cache_bytes;
  tri_device_event uploaded; /* the batch */
  bool prepared;
  void *wide_logits; /* [vocab_size], host */
  double *logits;    /* [vocab_size] */
};

static tri_status create_cache(tri_generator *generator) {
  const tri_model *model = &generator->model;
  size_t layer_bytes = 2 * (size_t)(generator->positions * model->num_kv_heads * model->head_dim) *
                       tri_dtype_bytes(generator->precision);
  generator->cache.capacity = generator->positions;
  generator->cache_bytes = layer_bytes * (size_t)model->num_layers;
  TRI_TRY(tri_alloc("the cache's layers", (size_t)model->num_layers, sizeof *generator->cache.layers,
                    &generator->cache.layers));
  TRI_TRY(tri_device_memory_create(generator->device, generator->cache_bytes, &generator->cache_memory));
  for (int64_t layer = 0; layer < model->num_layers; layer++) {
    generator->cache.layers[layer] = (char *)generator->cache_memory + (size_t)layer * layer_bytes;
  }
  return TRI_OK;
}

static tri_status set_up(tri_generator *generator) {
  const tri_model *model = &generator->model;
  int64_t piece = generator->positions < PIECE ? generator->positions : PIECE;
  size_t vocabulary = (size_t)model->vocab_size;
  TRI_TRY(tri_device_supports(generator->device, generator->precision));
  TRI_TRY(tri_parameter_table_create(model, NULL, &generator->table));
  tri_list_request list = tri_list_request_whole(model, TRI_LIST_GENERATE, 1, piece, generator->precision);
  list.positions = generator->positions;
  list.prompt = generator->prompt;
  TRI_TRY(tri_model_operations(model, &list, &generator->list));
  const int64_t one_frame = 1;
  tri_memory_request request = {
      .lists = (const tri_op_list *const *)&generator->list,
      .num_frames = &one_frame,
      .num_chunks = 1,
      .num_values = generator->table->num_elements,
      .num_batches = 1,
      .device = &generator->device->description,
  };
  TRI_TRY(tri_executor_create(generator->table, &request, generator->device, NULL, &generator->executor));
  TRI_TRY(tri_alloc("logits", vocabulary, sizeof(double), &generator->wide_logits));
  TRI_TRY(tri_alloc("logits", vocabulary, sizeof *generator->logits, &generator->logits));
  TRI_TRY(tri_alloc("the sequence", (size_t)generator->positions, sizeof *generator->ids, &generator->ids));
  return create_cache(generator);
}

tri_status tri_generator_create(const tri_model *model, tri_dtype precision, int64_t positions, int64_t prompt,
                                tri_device *device, tri_generator **out) {
  tri_generator *generator = NULL;
  TRI_TRY(tri_alloc("a generator", 1, sizeof *generator, &generator));
  generator->model = *model;
  generator->device = device;
  generator->precision = precision;
  generator->positions = positions;
  generator->prompt = prompt;
  tri_status status = set_up(generator);
  if (status != TRI_OK) {
    tri_generator_destroy(generator);
    return status;
  }
  *out = generator;
  return TRI_OK;
}

void tri_generator_destroy(tri_generator *generator) {
  if (generator == NULL) return;
  tri_device_memory_destroy(generator->device, generator->cache_memory, generator->cache_bytes);
  tri_free(generator->cache.layers);
  tri_free(generator->ids);
  tri_free(generator->logits);
  tri_free(generator->wide_logits);
  tri_executor_destroy(generator->executor);
  tri_op_list_destroy(generator->list);
  tri_parameter_table_destroy(generator->table);
  tri_free(generator);
}

tri_executor *tri_generator_executor(tri_generator *generator) { return generator->executor; }

const tri_parameter_table *tri_generator_parameters(const tri_generator *generator) { return generator->table; }

/* Runs positions [first, first + length), of which those below generator->count are there. */
static tri_status run_positions(tri_generator *generator, int64_t first, int64_t length) {
  const tri_op_windows *windows = &generator->list->windows;
  tri_batch host = tri_executor_host_batch(generator->executor, 0);
  tri_run run = tri_executor_run(generator->executor, 0, 0);
  run.batch = 1;
  run.sequence = length;
  run.valid = generator->count - first < length ? generator->count - first : length;
  tri_executor_set_batch(generator->executor, 0, &run);
  run.cache = &generator->cache;
  generator->cache.past = first;
  TRI_TRY(tri_device_event_wait(&generator->uploaded)); /* what host memory held before is there */
  for (int64_t i = 0; i < length; i++) {
    host.ids[i] = generator->ids[first + i];
    host.positions[i] = (int32_t)(first + i);
  }
  for (int64_t w = 0; w < windows->count; w++) { /* a list of one slice for each */
    host.slices[w] = tri_slice_causal(0, length, 0, first + length);
    if (windows->tokens[w] > 0) host.slices[w] = tri_slice_window(0, length, 0, first + length, windows->tokens[w]);
  }
  TRI_TRY(tri_executor_upload_batch(generator->executor, 0));
  TRI_TRY(tri_queue_mark(generator->device->queue, &generator->uploaded));
  return tri_executor_forward(generator->executor, 0, &run);
}

/* What the cache holds is written over before anybody sees it. */
void tri_generator_restart(tri_generator *generator) { generator->count = 0; }

tri_status tri_generator_append(tri_generator *generator, const int32_t *ids, int64_t count, const double **logits) {
  if (generator->count + count > generator->positions) {
    return tri_fail(TRI_INTERNAL, "%ld tokens do not fit behind %ld of %ld", (long)count, (long)generator->count,
                    (long)generator->positions);
  }
  if (!generator->prepared) TRI_TRY(tri_executor_prepare(generator->executor));
  generator->prepared = true;
  int64_t first = generator->count;
  int64_t piece = generator->list->sequence;
  memcpy(generator->ids + first, ids, (size_t)count * sizeof *ids);
  generator->count += count;
  if (count == 1) {
    TRI_TRY(run_positions(generator, first, 1));
  } else {
    for (; first + piece < generator->count; first += piece) TRI_TRY(run_positions(generator, first, piece));
    TRI_TRY(run_positions(generator, generator->count < piece ? 0 : generator->count - piece, piece));
  }
  /* The list ends in the logits. */
  const tri_op_call *last = &generator->list->calls[generator->list->num_calls - 1];
  tri_run run = tri_executor_run(generator->executor, 0, 0);
  tri_dtype wide = tri_dtype_wide(generator->precision);
  int64_t vocabulary = generator->model.vocab_size;
  TRI_TRY(tri_queue_download_now(generator->device->queue, generator->wide_logits, run.slots[last->outputs[0]],
                                 (size_t)vocabulary * tri_dtype_bytes(wide)));
  for (int64_t i = 0; i < vocabulary; i++) {
    generator->logits[i] = tri_wide_get(wide, generator->wide_logits, i);
  }
  *logits = generator->logits;
  return TRI_OK;
}
