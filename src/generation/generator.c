#include "generation/generator.h"

#include "base/flight_recorder.h"
#include "base/memory.h"
#include "model/family.h"

#include <string.h>

/* What is appended is read in runs of up to RUN_ROWS rows: of each sequence in turn what there is room for. A row's
 * bits do not depend on its company (tri_matmul.generating, attention_pages). */
enum { RUN_ROWS = 256 };

struct tri_generator {
  tri_model model;
  tri_device *device;
  tri_dtype precision;
  int64_t sequences, positions;
  int64_t run_rows;   /* of a run, at most */
  int64_t pages_each; /* of a sequence */
  tri_parameter_table *table;
  tri_op_list *list;
  tri_executor *executor;
  int32_t *ids;    /* [sequences, positions], each so far */
  int64_t *counts; /* [sequences], of them */
  int64_t *rows;   /* [sequences], where a run's logits go */
  tri_kv_cache cache;
  void *cache_memory;
  size_t cache_bytes;
  tri_device_event uploaded; /* the batch */
  bool prepared;
  void *wide_logits; /* [sequences, vocab_size], host */
  double *logits;    /* [sequences, vocab_size] */
};

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static void set_sizes(tri_generator *generator) {
  generator->run_rows = smaller(RUN_ROWS, generator->sequences * generator->positions);
  generator->pages_each = (generator->positions + TRI_PAGE_ROWS - 1) / TRI_PAGE_ROWS;
}

static size_t cache_layer_bytes(const tri_generator *generator) {
  const tri_model *model = &generator->model;
  const int64_t rows = generator->sequences * generator->pages_each * TRI_PAGE_ROWS;
  return 2 * (size_t)(rows * model->num_kv_heads * model->head_dim) * tri_dtype_bytes(generator->precision);
}

static tri_status create_cache(tri_generator *generator) {
  const tri_model *model = &generator->model;
  const size_t layer_bytes = cache_layer_bytes(generator);
  generator->cache.pages = generator->cache.table_pages = generator->sequences * generator->pages_each;
  generator->cache_bytes = layer_bytes * (size_t)model->num_layers;
  TRI_TRY(tri_alloc("the cache's layers", (size_t)model->num_layers, sizeof *generator->cache.layers,
                    &generator->cache.layers));
  TRI_TRY(tri_device_memory_create(generator->device, generator->cache_bytes, &generator->cache_memory));
  for (int64_t layer = 0; layer < model->num_layers; layer++) {
    generator->cache.layers[layer] = (char *)generator->cache_memory + (size_t)layer * layer_bytes;
  }
  return TRI_OK;
}

/* What the host keeps of the sequences. */
static tri_status create_sequences(tri_generator *generator) {
  const size_t sequences = (size_t)generator->sequences, positions = (size_t)generator->positions;
  const size_t logits = sequences * (size_t)generator->model.vocab_size;
  TRI_TRY(tri_alloc("logits", logits, sizeof(double), &generator->wide_logits));
  TRI_TRY(tri_alloc("logits", logits, sizeof *generator->logits, &generator->logits));
  TRI_TRY(tri_alloc("the sequences", sequences * positions, sizeof *generator->ids, &generator->ids));
  TRI_TRY(tri_alloc("the sequences", sequences, sizeof *generator->counts, &generator->counts));
  return tri_alloc("the sequences", sequences, sizeof *generator->rows, &generator->rows);
}

/* One length for all: a table of rotary positions goes by it. */
static tri_status prompt_of_all(const tri_generator *generator, const int64_t *prompts, int64_t *out) {
  const tri_rope_scaling *scaling = &generator->model.rope_scaling;
  int64_t least = prompts[0], most = prompts[0];
  for (int64_t i = 1; i < generator->sequences; i++) {
    if (prompts[i] < least) least = prompts[i];
    if (prompts[i] > most) most = prompts[i];
  }
  if (!tri_rope_can_share(scaling, least, most)) {
    return tri_fail(TRI_UNSUPPORTED,
                    "prompts of %ld to %ld tokens side by side: with rope_scaling `dynamic` positions beyond %ld go by "
                    "the length of each prompt; generate for prompts of one length, or one after the other",
                    (long)least, (long)most, (long)scaling->original_max_sequence);
  }
  *out = most;
  return TRI_OK;
}

/* prompts NULL: of one token each. */
static tri_status create_list(tri_generator *generator, const int64_t *prompts) {
  const tri_model *model = &generator->model;
  tri_list_request list =
      tri_list_request_whole(model, TRI_LIST_GENERATE, 1, generator->run_rows, generator->precision);
  list.positions = generator->positions;
  list.slots = generator->sequences;
  list.logit_rows = smaller(generator->sequences, generator->run_rows);
  list.table_pages = generator->sequences * generator->pages_each;
  list.prompt = 1;
  if (prompts != NULL) TRI_TRY(prompt_of_all(generator, prompts, &list.prompt));
  return tri_model_operations(model, &list, &generator->list);
}

static tri_status set_up(tri_generator *generator, const int64_t *prompts) {
  TRI_TRY(tri_device_supports(generator->device, generator->precision));
  TRI_TRY(tri_parameter_table_create(&generator->model, NULL, &generator->table));
  TRI_TRY(create_list(generator, prompts));
  const tri_memory_request request =
      tri_memory_request_forward(&generator->list, generator->table->num_elements, &generator->device->description);
  TRI_TRY(tri_executor_create(generator->table, &request, generator->device, NULL, &generator->executor));
  tri_executor_set_slices(generator->executor, 0, generator->sequences);
  TRI_TRY(create_sequences(generator));
  return create_cache(generator);
}

static tri_status plan_bytes(tri_generator *generator, const tri_device *device, tri_generator_need *out) {
  const size_t sequences = (size_t)generator->sequences, vocabulary = (size_t)generator->model.vocab_size;
  tri_memory_plan *plan = NULL;
  TRI_TRY(tri_parameter_table_create(&generator->model, NULL, &generator->table));
  TRI_TRY(create_list(generator, NULL));
  const tri_memory_request request =
      tri_memory_request_forward(&generator->list, generator->table->num_elements, &device->description);
  TRI_TRY(tri_memory_plan_create(&request, &plan));
  *out = (tri_generator_need){
      .device_bytes =
          plan->device_bytes - plan->queue_bytes + cache_layer_bytes(generator) * (size_t)generator->model.num_layers,
      .host_bytes = plan->host_bytes + sequences * (2 * vocabulary * sizeof(double) +
                                                    (size_t)generator->positions * sizeof *generator->ids)};
  tri_memory_plan_destroy(plan);
  return TRI_OK;
}

tri_status tri_generator_plan(const tri_model *model, tri_dtype precision, int64_t sequences, int64_t positions,
                              const tri_device *device, tri_generator_need *out) {
  tri_generator *generator = NULL;
  TRI_TRY(tri_alloc("a generator", 1, sizeof *generator, &generator));
  generator->model = *model;
  generator->precision = precision;
  generator->sequences = sequences;
  generator->positions = positions;
  set_sizes(generator);
  const tri_status status = plan_bytes(generator, device, out);
  tri_op_list_destroy(generator->list);
  tri_parameter_table_destroy(generator->table);
  tri_free(generator);
  return status;
}

tri_status tri_generator_create(const tri_model *model, tri_dtype precision, int64_t positions, int64_t prompt,
                                tri_device *device, tri_generator **out) {
  return tri_generator_create_many(model, precision, 1, positions, &prompt, device, out);
}

tri_status tri_generator_create_many(const tri_model *model, tri_dtype precision, int64_t sequences, int64_t positions,
                                     const int64_t *prompts, tri_device *device, tri_generator **out) {
  tri_generator *generator = NULL;
  if (sequences < 1 || (sequences > 1 && positions > INT32_MAX / sequences)) {
    return tri_fail(TRI_BAD_USAGE, "%ld sequences of %ld positions side by side are more than can be numbered",
                    (long)sequences, (long)positions);
  }
  TRI_TRY(tri_alloc("a generator", 1, sizeof *generator, &generator));
  generator->model = *model;
  generator->device = device;
  generator->precision = precision;
  generator->sequences = sequences;
  generator->positions = positions;
  set_sizes(generator);
  tri_status status = set_up(generator, prompts);
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
  tri_free(generator->rows);
  tri_free(generator->counts);
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

/* ---- a run ------------------------------------------------------------------------------------------------------- */

/* Rows of sequences so far, each behind the positions that it holds. */
typedef struct run_parts {
  tri_batch host;
  int64_t rows, logit_rows, slices;
  int64_t most_rows, positions; /* of a sequence */
} run_parts;

static run_parts begin_run(const tri_generator *generator) {
  run_parts parts = {.host = tri_executor_host_batch(generator->executor, 0)};
  const int64_t slices = generator->list->windows.count * generator->sequences;
  for (int64_t i = 0; i < slices; i++) parts.host.slices[i] = (tri_attention_slice){0};
  for (int64_t i = 0; i < generator->cache.table_pages; i++) parts.host.pages[i] = (int32_t)i;
  return parts;
}

/* Its tokens [first, first + count). */
static void add_rows(const tri_generator *generator, int64_t sequence, int64_t first, int64_t count, run_parts *to) {
  const tri_op_windows *windows = &generator->list->windows;
  const int64_t keys = sequence * generator->pages_each * TRI_PAGE_ROWS;
  for (int64_t i = 0; i < count; i++) {
    to->host.ids[to->rows + i] = generator->ids[sequence * generator->positions + first + i];
    to->host.positions[to->rows + i] = (int32_t)(first + i);
    to->host.cache_rows[to->rows + i] = (int32_t)(keys + first + i);
  }
  for (int64_t w = 0; w < windows->count; w++) {
    tri_attention_slice *slice = &to->host.slices[w * generator->sequences + to->slices];
    *slice = tri_slice_causal(to->rows, count, keys, first + count);
    if (windows->tokens[w] > 0) *slice = tri_slice_window(to->rows, count, keys, first + count, windows->tokens[w]);
  }
  to->slices++;
  to->rows += count;
  if (count > to->most_rows) to->most_rows = count;
  if (first + count > to->positions) to->positions = first + count;
}

static tri_status run_rows(tri_generator *generator, const run_parts *parts) {
  tri_run run = tri_executor_run(generator->executor, 0, 0);
  run.batch = 1;
  run.sequence = parts->rows;
  tri_executor_set_batch(generator->executor, 0, &run);
  run.cache = &generator->cache;
  generator->cache.most_rows = parts->most_rows;
  generator->cache.positions = parts->positions;
  generator->cache.logit_rows = parts->logit_rows;
  TRI_TRY(tri_executor_upload_batch(generator->executor, 0));
  TRI_TRY(tri_queue_mark(generator->device->queue, &generator->uploaded));
  const tri_record record = tri_record_make(TRI_RECORD_WORK, "write text");
  const uint64_t ticket = tri_recorder_begin(&record); /* a run that waits for its samples sees that they come */
  const tri_status status = tri_executor_forward(generator->executor, 0, &run);
  tri_recorder_end(ticket);
  return status;
}

/* ---- sequences --------------------------------------------------------------------------------------------------- */

int64_t tri_generator_length(const tri_generator *generator, int64_t sequence) { return generator->counts[sequence]; }

/* What the cache holds is written over before anybody sees it. */
void tri_generator_restart(tri_generator *generator) {
  memset(generator->counts, 0, (size_t)generator->sequences * sizeof *generator->counts);
}

void tri_generator_restart_one(tri_generator *generator, int64_t sequence) { generator->counts[sequence] = 0; }

static tri_status check_room(const tri_generator *generator, int64_t sequence, int64_t count) {
  if (sequence < 0 || sequence >= generator->sequences) {
    return tri_fail_internal("sequence %ld of %ld", (long)sequence, (long)generator->sequences);
  }
  if (count >= 1 && generator->counts[sequence] + count <= generator->positions) return TRI_OK;
  return tri_fail_internal("%ld tokens do not fit behind %ld of %ld", (long)count, (long)generator->counts[sequence],
                           (long)generator->positions);
}

static tri_status prepare(tri_generator *generator) {
  if (generator->prepared) return TRI_OK;
  TRI_TRY(tri_executor_prepare(generator->executor));
  generator->prepared = true;
  return TRI_OK;
}

/* The list ends in the logits, of `count` sequences: of sequence i, row rows[i] of all. */
static tri_status read_logits(tri_generator *generator, int64_t count, const int64_t *rows) {
  const tri_op_call *last = &generator->list->calls[generator->list->num_calls - 1];
  const tri_run run = tri_executor_run(generator->executor, 0, 0);
  const tri_dtype wide = tri_dtype_wide(generator->precision);
  const int64_t vocabulary = generator->model.vocab_size;
  TRI_TRY(tri_queue_download_now(generator->device->queue, generator->wide_logits, run.slots[last->outputs[0]],
                                 (size_t)(count * vocabulary) * tri_dtype_bytes(wide)));
  for (int64_t i = 0; i < count; i++) {
    double *to = generator->logits + rows[i] * vocabulary;
    if (wide == TRI_FP32) {
      const float *from = (const float *)generator->wide_logits + i * vocabulary;
      for (int64_t t = 0; t < vocabulary; t++) to[t] = (double)from[t];
    } else {
      memcpy(to, (const double *)generator->wide_logits + i * vocabulary, (size_t)vocabulary * sizeof *to);
    }
  }
  return TRI_OK;
}

/* Reads what has been put behind the sequences. */
static tri_status read_appended(tri_generator *generator, int64_t count, const int64_t *numbers,
                                const int64_t *lengths) {
  int64_t done = 0; /* of sequence i */
  for (int64_t i = 0; i < count;) {
    TRI_TRY(tri_device_event_wait(&generator->uploaded)); /* what host memory held before is there */
    run_parts parts = begin_run(generator);
    for (; i < count && parts.rows < generator->run_rows;) {
      const int64_t rows = smaller(lengths[i] - done, generator->run_rows - parts.rows);
      add_rows(generator, numbers[i], generator->counts[numbers[i]] - lengths[i] + done, rows, &parts);
      done += rows;
      if (done < lengths[i]) break;
      parts.host.logit_rows[parts.logit_rows] = (int32_t)parts.rows - 1;
      generator->rows[parts.logit_rows++] = i++;
      done = 0;
    }
    TRI_TRY(run_rows(generator, &parts));
    if (parts.logit_rows > 0) TRI_TRY(read_logits(generator, parts.logit_rows, generator->rows));
  }
  return TRI_OK;
}

static void put_behind(tri_generator *generator, int64_t sequence, const int32_t *ids, int64_t count) {
  int64_t *held = &generator->counts[sequence];
  memcpy(generator->ids + sequence * generator->positions + *held, ids, (size_t)count * sizeof *ids);
  *held += count;
}

tri_status tri_generator_append_each(tri_generator *generator, int64_t count, const int64_t *numbers,
                                     const int32_t *const *ids, const int64_t *lengths, const double **logits) {
  for (int64_t i = 0; i < count; i++) {
    if (i > 0 && numbers[i] <= numbers[i - 1]) return tri_fail_internal("sequences that do not ascend");
    TRI_TRY(check_room(generator, numbers[i], lengths[i]));
  }
  TRI_TRY(prepare(generator));
  for (int64_t i = 0; i < count; i++) put_behind(generator, numbers[i], ids[i], lengths[i]);
  TRI_TRY(read_appended(generator, count, numbers, lengths));
  *logits = generator->logits;
  return TRI_OK;
}

tri_status tri_generator_append_to(tri_generator *generator, int64_t sequence, const int32_t *ids, int64_t count,
                                   const double **logits) {
  return tri_generator_append_each(generator, 1, &sequence, &ids, &count, logits);
}

tri_status tri_generator_append(tri_generator *generator, const int32_t *ids, int64_t count, const double **logits) {
  return tri_generator_append_to(generator, 0, ids, count, logits);
}
