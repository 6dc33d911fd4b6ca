/* Computes loss, gradients and logits of a model with given weights, for the Python tests in this folder.
 *
 *   parity_tool table MODEL.yaml
 *       the parameter table as JSON: name, shape and first element in the flat array of all weights; for rows within
 *       a larger tensor also their layout there
 *   parity_tool describe FOLDER
 *       the model of a folder as YAML
 *   parity_tool gradients MODEL.yaml DEVICE PRECISION SCHEDULE GLOBAL_BATCH MICRO_BATCH SEQUENCE WEIGHTS TOKENS OUT
 *       TOKENS: int32 ids, labels and, where documents are masked, positions. OUT: the gradients, flat. Prints {"loss",
 *       "router_loss", "grad_norm"}.
 *   parity_tool logits MODEL.yaml DEVICE PRECISION PIECE COUNT WEIGHTS TOKENS OUT
 *       reads TOKENS in pieces through the cache; OUT: the logits after each piece
 *   parity_tool rows MODEL.yaml DEVICE PRECISION THREADS ROWS COUNT WEIGHTS TOKENS PLAN OUT
 *       generates for ROWS sequences at once: each begins with a prompt and gets a token a step until it ends. TOKENS:
 *       [rows, count]; PLAN: [rows, 2], the lengths of its prompt and of itself. OUT: [rows, count, vocabulary], the
 *       logits after each token from the prompt's last one on, elsewhere NaN
 *   parity_tool samples PREFIX SEQUENCE VOCAB SEED COUNT OUT DOCUMENTS PACKING END_OF_TEXT
 *       the first COUNT samples of a corpus: int32 inputs, labels and positions of each. Prints {"per_epoch"}.
 *
 * Flat arrays are float64 in files whatever the precision. */
#include "../unit/runner_weights.h"
#include "base/memory.h"
#include "checkpoint/model_source.h"
#include "device/queue.h"
#include "engine/engine.h"
#include "files/file.h"
#include "generation/runner.h"
#include "model/model_config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tri_status read_array(const char *path, size_t bytes, void *out_pointer) {
  char *data = NULL;
  size_t got = 0;
  TRI_TRY(tri_file_read(path, (size_t)1 << 34, &data, &got));
  if (got != bytes) {
    tri_free(data);
    return tri_fail(TRI_BAD_FILE, "%s has %zu bytes, not %zu", path, got, bytes);
  }
  memcpy(out_pointer, &data, sizeof data);
  return TRI_OK;
}

static tri_dtype precision_of(const char *name) {
  return strcmp(name, "fp64") == 0 ? TRI_FP64 : strcmp(name, "bf16") == 0 ? TRI_BF16 : TRI_FP32;
}

/* Copies the gradients of an executor into a new array, in the order of the table. The caller frees *out. */
static tri_status get_gradients(const tri_executor *executor, const tri_parameter_table *table, double **out) {
  tri_dtype wide = tri_dtype_wide(executor->type);
  size_t bytes = (size_t)table->num_gradient_elements * tri_dtype_bytes(wide);
  void *gradients = NULL;
  TRI_TRY(tri_alloc("gradients", bytes, 1, &gradients));
  TRI_TRY(tri_queue_download_now(executor->device->queue, gradients, tri_weights_gradients(executor->weights), bytes));
  TRI_TRY(tri_alloc("gradients", (size_t)table->num_elements, sizeof **out, out));
  for (int64_t e = 0; e < table->num_entries; e++) {
    const tri_parameter *p = &table->entries[e];
    for (int64_t i = 0; i < p->count && !p->alias && tri_parameter_has_gradient(p); i++)
      (*out)[p->offset + i] = tri_wide_get(wide, gradients, p->gradient_offset + i);
  }
  tri_free(gradients);
  return TRI_OK;
}

static tri_status set_weights(const tri_parameter_table *table, const char *path, tri_executor *executor) {
  tri_dtype wide = tri_dtype_wide(executor->type);
  size_t bytes = (size_t)table->num_elements * tri_dtype_bytes(wide);
  double *weights = NULL;
  void *values = NULL;
  TRI_TRY(read_array(path, (size_t)table->num_elements * sizeof(double), &weights));
  TRI_TRY(tri_alloc("weights", bytes, 1, &values));
  for (int64_t i = 0; i < table->num_elements; i++) tri_wide_set(wide, values, i, weights[i]);
  TRI_TRY(tri_queue_upload_now(executor->device->queue, tri_weights_values(executor->weights), values, bytes));
  tri_free(values);
  tri_free(weights);
  return TRI_OK;
}

static tri_status table_command(char **a) {
  tri_model model;
  tri_parameter_table *table = NULL;
  TRI_TRY(tri_model_load(a[0], &model));
  TRI_TRY(tri_parameter_table_create(&model, NULL, &table));
  printf("{\"num_elements\": %" PRId64 ", \"parameters\": [", table->num_elements);
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *p = &table->entries[i];
    if (p->alias) continue;
    for (int64_t t = 0, first; t < tri_parameter_num_tensors(p); t++) {
      const tri_parameter tensor = tri_parameter_tensor(p, t, &first);
      printf("%s\n{\"name\": \"%s\", \"offset\": %" PRId64 ", \"decay\": %s, \"shape\": [%" PRId64,
             i + t == 0 ? "" : ",", tensor.name, p->offset + first,
             tri_parameter_group_of(p) != TRI_GROUP_VECTORS ? "true" : "false", p->shape[0]);
      if (p->num_dims > 1) printf(", %" PRId64, p->shape[1]);
      printf("]");
      if (p->within.rows > 0) {
        printf(", \"within\": [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "]", p->within.rows, p->within.first,
               p->within.block, p->within.stride);
      }
      printf("}");
    }
  }
  printf("]}\n");
  tri_parameter_table_destroy(table);
  return TRI_OK;
}

static tri_status describe_command(char **a) {
  tri_model model;
  char *text = NULL;
  TRI_TRY(tri_model_source_load(a[0], &model));
  TRI_TRY(tri_model_print(&model, &text));
  fputs(text, stdout);
  tri_free(text);
  return TRI_OK;
}

static tri_status gradients_command(char **a) {
  tri_model model;
  TRI_TRY(tri_model_load(a[0], &model));
  tri_layout layout = {.tensor = 1, .pipeline = 1, .context = 1, .data = 1, .virtual_stages = 1};
  layout.expert = layout.expert_tensor = 1;
  layout.expert_capacity = 1.5;
  layout.schedule = strcmp(a[3], "gpipe") == 0         ? TRI_SCHEDULE_GPIPE
                    : strcmp(a[3], "zero-bubble") == 0 ? TRI_SCHEDULE_ZERO_BUBBLE
                                                       : TRI_SCHEDULE_1F1B;
  layout.micro_batch = atoll(a[5]);
  layout.recompute_every = 1;
  layout.bucket_bytes = 1 << 20;
  tri_engine_options options = {
      .model = &model,
      .layout = &layout,
      .global_batch = atoll(a[4]),
      .sequence = atoll(a[6]),
      .precision = precision_of(a[2]),
      .seed = 1,
      .ignore_token = -1,
  };
  tri_device *device = NULL;
  tri_engine *engine = NULL;
  int32_t *tokens = NULL;
  double *out = NULL;
  tri_step step;
  size_t count = (size_t)(options.global_batch * options.sequence);
  size_t bytes = 0;
  TRI_TRY(tri_file_read(a[8], (size_t)1 << 34, (char **)(void *)&tokens, &bytes));
  const bool weighed = bytes == 4 * count * sizeof *tokens; /* floats */
  options.masked = weighed || bytes == 3 * count * sizeof *tokens;
  if (!options.masked && bytes != 2 * count * sizeof *tokens)
    return tri_fail(TRI_BAD_FILE, "%s: %zu bytes", a[8], bytes);
  tri_tokens given = {.ids = tokens,
                      .labels = tokens + count,
                      .positions = options.masked ? tokens + 2 * count : NULL,
                      .weights = weighed ? (const float *)(const void *)(tokens + 3 * count) : NULL};
  TRI_TRY(tri_device_create(a[1], 0, &device));
  TRI_TRY(tri_engine_create(&options, device, &engine));
  tri_executor *executor = tri_engine_executor(engine);
  const tri_parameter_table *table = tri_engine_parameters(engine);
  TRI_TRY(set_weights(table, a[7], executor));
  TRI_TRY(tri_engine_gradients(engine, &given, 0, &step));
  TRI_TRY(get_gradients(executor, table, &out));
  TRI_TRY(tri_file_replace(a[9], out, (size_t)table->num_elements * sizeof *out));
  printf("{\"loss\": %.17g, \"router_loss\": %.17g, \"grad_norm\": %.17g}\n", step.loss, step.router_loss,
         step.grad_norm);
  tri_free(out);
  tri_free(tokens);
  tri_engine_destroy(engine);
  tri_device_destroy(device);
  return TRI_OK;
}

/* A runner in which each sequence has its own pages, after those of the sequence before. */
typedef struct writing {
  tri_model model;
  tri_device *device;
  tri_runner *runner;
  tri_dtype wide;
  int64_t pages_each;
  int32_t *pages; /* [sequences, pages_each] */
} writing;

static double weight_of(const void *values, int64_t number) { return ((const double *)values)[number]; }

static tri_status open_writing(const char *model, const char *kind, int threads, tri_dtype precision, int64_t sequences,
                               int64_t positions, int64_t prompt, const char *weights, writing *out) {
  tri_runner_sizes sizes = tri_runner_sizes_for(sequences, positions);
  sizes.prompt = prompt;
  TRI_TRY(tri_model_load(model, &out->model));
  TRI_TRY(tri_device_create(kind, threads, &out->device));
  TRI_TRY(
      tri_runner_create(&out->model, precision, &sizes, NULL, NULL, (tri_lent_memory){0}, out->device, &out->runner));
  out->wide = tri_dtype_wide(precision);
  out->pages_each = sizes.pages / sequences;
  TRI_TRY(tri_alloc("pages", (size_t)sizes.pages, sizeof *out->pages, &out->pages));
  for (int64_t i = 0; i < sizes.pages; i++) out->pages[i] = (int32_t)i;
  double *values = NULL;
  tri_parameter_table *table = NULL;
  TRI_TRY(tri_parameter_table_create(&out->model, NULL, &table));
  TRI_TRY(read_array(weights, (size_t)table->num_elements * sizeof *values, &values));
  TRI_TRY(write_runner_weights(out->runner, &out->model, weight_of, values));
  tri_parameter_table_destroy(table);
  tri_free(values);
  return TRI_OK;
}

static void close_writing(writing *w) {
  tri_free(w->pages);
  tri_runner_destroy(w->runner);
  tri_device_destroy(w->device);
}

static void write_logits(const writing *w, const void *logits, int64_t row, double *out) {
  if (logits == NULL) return;
  const int64_t vocabulary = w->model.vocab_size;
  for (int64_t i = 0; i < vocabulary; i++)
    out[i] = w->wide == TRI_FP32 ? (double)((const float *)logits)[row * vocabulary + i]
                                 : ((const double *)logits)[row * vocabulary + i];
}

static tri_status add_rows(const writing *w, int64_t sequence, const int32_t *ids, int64_t first, int64_t count,
                           int64_t with_logits) {
  return tri_runner_add(w->runner, &(tri_runner_rows){.ids = ids + first,
                                                      .first = first,
                                                      .count = count,
                                                      .pages = w->pages + sequence * w->pages_each,
                                                      .logits = with_logits});
}

static tri_status logits_command(char **a) {
  writing w = {0};
  int32_t *tokens = NULL;
  double *out = NULL;
  const void *logits = NULL;
  const int64_t piece = atoll(a[3]), count = atoll(a[4]);
  int64_t made = 0;
  TRI_TRY(open_writing(a[0], a[1], 0, precision_of(a[2]), 1, count, piece < count ? piece : count, a[5], &w));
  TRI_TRY(read_array(a[6], (size_t)count * sizeof *tokens, &tokens));
  TRI_TRY(tri_alloc("logits", (size_t)(count * w.model.vocab_size), sizeof *out, &out));
  const int64_t most = tri_runner_sizes_of(w.runner)->rows;
  for (int64_t first = 0; first < count; first += piece) {
    const int64_t end = count - first < piece ? count : first + piece;
    for (int64_t at = first; at < end; at += most) {
      const int64_t rows = end - at < most ? end - at : most;
      TRI_TRY(tri_runner_begin(w.runner));
      TRI_TRY(add_rows(&w, 0, tokens, at, rows, at + rows == end));
      TRI_TRY(tri_runner_run(w.runner));
      TRI_TRY(tri_runner_logits(w.runner, 0, 1, &logits));
    }
    write_logits(&w, logits, 0, out + made++ * w.model.vocab_size);
  }
  TRI_TRY(tri_file_replace(a[7], out, (size_t)(made * w.model.vocab_size) * sizeof *out));
  tri_free(out);
  tri_free(tokens);
  close_writing(&w);
  return TRI_OK;
}

/* Runs of all sequences that have not ended: first their prompts, then a token of each. */
static tri_status write_rows(const writing *w, int64_t rows, int64_t count, const int32_t *tokens, const int32_t *plan,
                             int64_t *read, double *out, bool *going) {
  const int64_t most = tri_runner_sizes_of(w->runner)->rows;
  const void *logits = NULL;
  int64_t used = 0, made = 0, *whose = NULL;
  *going = false;
  TRI_TRY(tri_alloc("rows", (size_t)rows, sizeof *whose, &whose));
  TRI_TRY(tri_runner_begin(w->runner));
  for (int64_t r = 0; r < rows; r++) {
    const int64_t wanted = read[r] == 0 ? plan[2 * r] : 1;
    if (read[r] >= plan[2 * r + 1] || used + wanted > most) continue;
    TRI_TRY(add_rows(w, r, tokens + r * count, read[r], wanted, 1));
    read[r] += wanted;
    used += wanted;
    whose[made++] = r;
  }
  *going = made > 0;
  if (made > 0) TRI_TRY(tri_runner_run(w->runner));
  if (made > 0) TRI_TRY(tri_runner_logits(w->runner, 0, made, &logits));
  for (int64_t i = 0; i < made; i++)
    write_logits(w, logits, i, out + (whose[i] * count + read[whose[i]] - 1) * w->model.vocab_size);
  tri_free(whose);
  return TRI_OK;
}

static tri_status rows_command(char **a) {
  writing w = {0};
  int32_t *tokens = NULL, *plan = NULL;
  int64_t *read = NULL, prompt = 1;
  double *out = NULL;
  const int64_t rows = atoll(a[4]), count = atoll(a[5]);
  bool going = true;
  TRI_TRY(read_array(a[7], (size_t)(rows * count) * sizeof *tokens, &tokens));
  TRI_TRY(read_array(a[8], (size_t)(rows * 2) * sizeof *plan, &plan));
  for (int64_t r = 0; r < rows; r++) prompt = plan[2 * r] > prompt ? plan[2 * r] : prompt;
  TRI_TRY(open_writing(a[0], a[1], atoi(a[3]), precision_of(a[2]), rows, count, prompt, a[6], &w));
  const size_t bytes = (size_t)(rows * count * w.model.vocab_size) * sizeof *out;
  TRI_TRY(tri_alloc("logits", bytes, 1, &out));
  TRI_TRY(tri_alloc("rows", (size_t)rows, sizeof *read, &read));
  memset(out, 0xff, bytes);
  while (going) TRI_TRY(write_rows(&w, rows, count, tokens, plan, read, out, &going));
  TRI_TRY(tri_file_replace(a[9], out, bytes));
  tri_free(read);
  tri_free(out);
  tri_free(plan);
  tri_free(tokens);
  close_writing(&w);
  return TRI_OK;
}

static tri_status samples_command(char **a) {
  tri_corpus *corpus = NULL;
  tri_source source;
  int32_t *out = NULL;
  int64_t sequence = atoll(a[1]), count = atoll(a[4]);
  tri_source_options options = {
      .sequence = sequence,
      .vocab_size = atoll(a[2]),
      .seed = (uint64_t)atoll(a[3]),
      .documents = strcmp(a[6], "masked") == 0 ? TRI_DOCUMENTS_MASKED : TRI_DOCUMENTS_JOINED,
      .packing = strcmp(a[7], "documents") == 0 ? TRI_PACKING_DOCUMENTS : TRI_PACKING_WINDOWS,
      .end_of_text = atoi(a[8]),
  };
  TRI_TRY(tri_corpus_open(a[0], &corpus));
  TRI_TRY(tri_source_create(corpus, &options, &source));
  TRI_TRY(tri_alloc("samples", (size_t)(3 * sequence * count), sizeof *out, &out));
  for (int64_t i = 0; i < count; i++) {
    int32_t *at = out + 3 * i * sequence;
    TRI_TRY(
        tri_source_read(&source, i, &(tri_sample){.ids = at, .labels = at + sequence, .positions = at + 2 * sequence}));
  }
  TRI_TRY(tri_file_replace(a[5], out, (size_t)(3 * sequence * count) * sizeof *out));
  printf("{\"per_epoch\": %" PRId64 "}\n", source.per_epoch);
  tri_source_destroy(&source);
  tri_free(out);
  tri_corpus_close(corpus);
  return TRI_OK;
}

int main(int count, char **arguments) {
  static const struct {
    const char *name;
    int arguments;
    tri_status (*run)(char **a);
  } commands[] = {
      {"table", 1, table_command},   {"describe", 1, describe_command}, {"gradients", 10, gradients_command},
      {"logits", 8, logits_command}, {"rows", 10, rows_command},        {"samples", 9, samples_command},
  };
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
    if (count < 2 || strcmp(arguments[1], commands[i].name) != 0 || count != 2 + commands[i].arguments) continue;
    tri_status status = commands[i].run(arguments + 2);
    if (status != TRI_OK) fprintf(stderr, "parity_tool: %s\n", tri_status_message());
    return tri_status_exit(status);
  }
  fprintf(stderr, "parity_tool: see the comment in its source\n");
  return 2;
}
