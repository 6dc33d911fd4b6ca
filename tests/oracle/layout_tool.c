/* The same model under many layouts, for tests/oracle/test_layouts.py: started once on as many ranks as the layouts
 * need.
 *
 *   layout_tool MODEL.yaml DEVICE PRECISION GLOBAL_BATCH SEQUENCE STEPS TOKENS LAYOUTS OUT [WEIGHTS [OBJECTIVE]]
 *
 * GLOBAL_BATCH may be MOST/SAMPLES: the engine is made for steps of MOST samples, and each step has SAMPLES of them.
 * TOKENS: int32 ids, then labels, then, where documents are masked, positions, then, where labels weigh, their weights
 * as floats: of every step, and of one where STEPS is 0. LAYOUTS: a line each: a name, and the layout as for --layout.
 * For each, OUT/NAME.bin gets every gradient of the first step, then every
 * value after the last, as float64 in the order of the table, a stack's tensors one behind the other; a line of JSON on
 * standard output has losses, norms, what routers add to losses, and each rank's bytes. WEIGHTS: the values to begin
 * with, in the same order; else ("" or none) they are drawn. OBJECTIVE: a loss of completions, as "NUMBER BETA
 * SMOOTHING GAMMA TAU DESIRABLE UNDESIRABLE KL CROSS_ENTROPY"; TOKENS then have segments and, as doubles, the
 * reference's log-probabilities behind the weights, and OUT/NAME.log-probs gets those of the first step's labels
 * [batch, sequence], which tri_engine_log_probs must find, too. Or a policy-gradient loss, as "policy OBJECTIVE
 * IMPORTANCE BY_SEQUENCE HAS_OLD EPSILON EPSILON_HIGH DELTA BETA MIN MAX OFF_POLICY_LIMIT TEMPERATURE ENTROPY_COEF";
 * then the tokens also have the doubles advantage, normaliser, old and behaviour. */
#include "global.h"

#include "base/memory.h"
#include "device/queue.h"
#include "engine/rank_device.h"
#include "files/file.h"
#include "model/model_config.h"
#include "schedule/layout_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct arguments {
  const char *device, *tokens, *layouts, *out, *weights;
  tri_train_objective objective; /* named NULL: cross entropy */
  double kl;
  tri_dtype precision;
  int64_t global_batch, samples, sequence, steps;
  int64_t columns; /* number of columns of the tokens */
} arguments;

static tri_status parse_layout(char *line, char name[256], tri_layout *out) {
  char *rest = line + strcspn(line, " ");
  snprintf(name, 256, "%.*s", (int)(rest - line), line);
  rest[strcspn(rest, "\n")] = '\0';
  return tri_layout_parse(rest + strspn(rest, " "), out);
}

/* Every tensor of an array, as doubles, behind one another in the file. */
static tri_status write_array(tri_engine *engine, tri_array array, FILE *to) {
  const tri_parameter_table *table = tri_engine_parameters(engine);
  tri_dtype wide = tri_dtype_wide(tri_engine_get_options(engine)->precision);
  for (int64_t i = 0; i < table->num_entries; i++) {
    if (table->entries[i].tied_to >= 0) continue;
    int64_t count = tri_parameter_global_count(&table->entries[i]);
    void *tensor = NULL;
    TRI_TRY(tri_alloc("a tensor", (size_t)count, tri_dtype_bytes(wide), &tensor));
    tri_status status = tri_global_collect(engine, array, i, tensor);
    for (int64_t k = 0; k < count && to != NULL && status == TRI_OK; k++) {
      double value = wide == TRI_FP64 ? ((double *)tensor)[k] : (double)((float *)tensor)[k];
      fwrite(&value, sizeof value, 1, to);
    }
    tri_free(tensor);
    TRI_TRY(status);
  }
  return TRI_OK;
}

static tri_status report_bytes(tri_engine *engine) {
  const tri_group *world = &tri_engine_mesh(engine)->world;
  int64_t own[2] = {(int64_t)tri_engine_predicted_bytes(engine), (int64_t)tri_engine_measured_bytes(engine)};
  int64_t *all = NULL;
  TRI_TRY(tri_alloc("bytes", 2 * (size_t)world->size, sizeof *all, &all));
  tri_status status = tri_gather_bytes(world, sizeof own, own, all);
  for (int r = 0; r < world->size && world->rank == 0; r++) {
    printf("%s[%ld, %ld]", r == 0 ? "\"bytes\": [" : ", ", (long)all[2 * r], (long)all[2 * r + 1]);
  }
  if (world->rank == 0) printf("]}\n");
  tri_free(all);
  return status;
}

/* Returns a column of doubles that begins at column number `first`; NULL if the tokens do not have it. */
static const double *doubles_at(const arguments *a, const int32_t *ids, int64_t first) {
  if (a->columns <= first) return NULL;
  return (const double *)(const void *)(ids + first * a->global_batch * a->sequence);
}

/* Returns the tokens of a step. */
static tri_tokens tokens_at(const arguments *a, const int32_t *tokens, int64_t step) {
  int64_t count = a->global_batch * a->sequence;
  const int32_t *ids = tokens + step * a->columns * count;
  return (tri_tokens){.ids = ids,
                      .labels = ids + count,
                      .positions = a->columns > 2 ? ids + 2 * count : NULL,
                      .weights = a->columns > 3 ? (const float *)(const void *)(ids + 3 * count) : NULL,
                      .segments = a->columns > 4 ? ids + 4 * count : NULL,
                      .reference = doubles_at(a, ids, 5),
                      .advantage = doubles_at(a, ids, 7),
                      .normaliser = doubles_at(a, ids, 9),
                      .old = doubles_at(a, ids, 11),
                      .behaviour = doubles_at(a, ids, 13)};
}

/* One tensor of the values, from where it begins in a file. */
static tri_status place(tri_engine *engine, int64_t index, const double *given) {
  tri_dtype wide = tri_dtype_wide(tri_engine_get_options(engine)->precision);
  const int64_t count = tri_parameter_global_count(&tri_engine_parameters(engine)->entries[index]);
  void *tensor = NULL;
  TRI_TRY(tri_alloc("a tensor", (size_t)count, tri_dtype_bytes(wide), &tensor));
  for (int64_t k = 0; k < count; k++) tri_wide_set(wide, tensor, k, given[k]);
  tri_status status = tri_global_place(engine, index, tensor);
  tri_free(tensor);
  return status;
}

/* Reads every tensor of the values from the file. A tied tensor is read from the embedding's place, at the beginning.
 */
static tri_status read_weights(const arguments *a, tri_engine *engine) {
  const tri_parameter_table *table = tri_engine_parameters(engine);
  double *given = NULL;
  size_t bytes = 0, at = 0;
  if (a->weights == NULL) return TRI_OK;
  tri_status status = tri_file_read(a->weights, (size_t)1 << 30, (char **)(void *)&given, &bytes);
  for (int64_t i = 0; i < table->num_entries && status == TRI_OK; i++) {
    const tri_parameter *entry = &table->entries[i];
    size_t count = (size_t)tri_parameter_global_count(entry);
    if (entry->tied_to >= 0) {
      if (!entry->alias) status = place(engine, i, given);
      continue;
    }
    if ((at + count) * sizeof *given > bytes) status = tri_fail(TRI_BAD_FILE, "%s is too short", a->weights);
    if (status == TRI_OK) status = place(engine, i, given + at);
    at += count;
  }
  tri_free(given);
  return status;
}

static void print_step(const char *before, const tri_step *step) {
  printf("%s[%.17g, %.17g, %.17g]", before, step->loss, step->grad_norm, step->router_loss);
}

/* Those of a step and those of the verb have the same bits. */
static tri_status write_log_probs(const arguments *a, tri_engine *engine, const tri_tokens *given, const char *name) {
  const size_t count = (size_t)(a->samples * a->sequence);
  const tri_tokens_at at = {*given, 0, a->sequence};
  const tri_feed feed = tri_tokens_feed(&at);
  double *of_step = NULL, *of_verb = NULL;
  char path[TRI_PATH_BYTES];
  TRI_TRY(tri_alloc("log-probabilities", count, sizeof *of_step, &of_step));
  TRI_TRY(tri_alloc("log-probabilities", count, sizeof *of_verb, &of_verb));
  TRI_TRY(tri_engine_step_log_probs(engine, of_step));
  TRI_TRY(tri_engine_log_probs(engine, &feed, a->samples, TRI_POLICY_TRAINED, of_verb));
  if (memcmp(of_step, of_verb, count * sizeof *of_step) != 0)
    return tri_fail(TRI_INTERNAL, "%s: log-probabilities of a step and of the verb differ in bits", name);
  snprintf(path, sizeof path, "%s/%s.log-probs", a->out, name);
  tri_status status = TRI_OK;
  if (tri_engine_mesh(engine)->world.rank == 0) status = tri_file_replace(path, of_step, count * sizeof *of_step);
  tri_free(of_verb);
  tri_free(of_step);
  return status;
}

static tri_status make_gradients(const arguments *a, tri_engine *engine, const tri_tokens *given, int64_t number,
                                 tri_step *out) {
  const tri_global_batch batch = {number, number * a->samples, a->samples};
  const tri_tokens_at at = {*given, batch.first, a->sequence};
  const tri_feed feed = tri_tokens_feed(&at);
  TRI_TRY(tri_engine_accumulate(engine, &feed, &batch));
  return tri_engine_reduce(engine, out);
}

static tri_status train(const arguments *a, const char *name, tri_engine *engine, const int32_t *tokens, FILE *to) {
  bool first = tri_engine_mesh(engine)->world.rank == 0;
  tri_step step;
  tri_tokens given = tokens_at(a, tokens, 0);
  TRI_TRY(make_gradients(a, engine, &given, 0, &step));
  TRI_TRY(write_array(engine, TRI_ARRAY_GRADIENTS, to));
  if (a->objective.name != NULL) TRI_TRY(write_log_probs(a, engine, &given, name));
  if (first) print_step("\"first\": ", &step);
  if (first) printf(", \"steps\": [");
  for (int64_t s = 0; s < a->steps; s++) {
    given = tokens_at(a, tokens, s);
    TRI_TRY(make_gradients(a, engine, &given, s, &step));
    TRI_TRY(tri_engine_update(engine, s, 1e-3));
    if (first) print_step(s == 0 ? "" : ", ", &step);
  }
  if (first) printf("], ");
  return write_array(engine, TRI_ARRAY_VALUES, to);
}

static tri_status run_on(const arguments *a, const char *name, const tri_model *model, const tri_layout *layout,
                         const tri_mesh *mesh, const int32_t *tokens, FILE *to) {
  tri_engine_options options = {
      .model = model,
      .layout = layout,
      .mesh = mesh,
      .global_batch = a->global_batch,
      .sequence = a->sequence,
      .precision = a->precision,
      .masked = a->columns > 2,
      .objective = a->objective.name == NULL ? NULL : &a->objective,
      .seed = 1,
      .ignore_token = -1,
      .optimizer = tri_optimizer_settings_default(),
      .clip = 1.0,
  };
  tri_device *device = NULL;
  tri_engine *engine = NULL;
  TRI_TRY(tri_rank_device_create(a->device, 1, &device));
  tri_status status = tri_engine_create(&options, device, &engine);
  if (status == TRI_OK) status = tri_engine_share_gradients(engine);
  if (status == TRI_OK) status = read_weights(a, engine);
  if (status == TRI_OK) tri_engine_set_kl(engine, a->kl);
  if (status == TRI_OK) status = train(a, name, engine, tokens, to);
  if (status == TRI_OK) status = report_bytes(engine);
  tri_engine_destroy(engine);
  tri_device_destroy(device);
  return status;
}

static tri_status run_layout(const arguments *a, const tri_model *model, char *line, const int32_t *tokens) {
  char name[256], path[TRI_PATH_BYTES];
  tri_layout layout;
  tri_mesh mesh;
  FILE *to = NULL;
  TRI_TRY(parse_layout(line, name, &layout));
  TRI_TRY(tri_layout_resolve(&layout, model, a->sequence, a->global_batch, tri_comm_size()));
  const tri_group world = tri_group_world();
  tri_mesh_shape shape = tri_layout_mesh_of(&layout, model);
  TRI_TRY(tri_mesh_create(&world, &shape, &mesh));
  snprintf(path, sizeof path, "%s/%s.bin", a->out, name);
  if (tri_comm_rank() == 0) {
    to = fopen(path, "wb");
    if (to == NULL) return tri_fail(TRI_IO_FAILED, "cannot write %s", path);
    printf("{\"name\": \"%s\", ", name);
  }
  tri_status status = run_on(a, name, model, &layout, &mesh, tokens, to);
  if (to != NULL) fclose(to);
  tri_mesh_destroy(&mesh);
  return status;
}

static tri_status run_all(arguments *a, const char *model_path) {
  tri_model model;
  char *layouts = NULL, *tokens = NULL;
  size_t bytes = 0;
  TRI_TRY(tri_comm_open());
  TRI_TRY(tri_model_load(model_path, &model));
  TRI_TRY(tri_file_read(a->layouts, (size_t)1 << 24, &layouts, &bytes));
  TRI_TRY(tri_file_read(a->tokens, (size_t)1 << 30, &tokens, &bytes));
  size_t steps = a->steps > 0 ? (size_t)a->steps : 1;
  a->columns = (int64_t)(bytes / (sizeof(int32_t) * steps * (size_t)(a->global_batch * a->sequence)));
  char *rest = NULL;
  for (char *line = strtok_r(layouts, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
    TRI_TRY(run_layout(a, &model, line, (const int32_t *)(void *)tokens));
  }
  tri_free(tokens);
  tri_free(layouts);
  tri_comm_close();
  return TRI_OK;
}

static void read_objective(const char *text, arguments *a) {
  tri_policy_settings policy = {0};
  double temperature = 1;
  if (sscanf(text, "policy %d %d %d %d %lf %lf %lf %lf %lf %lf %lf %lf %lf", &policy.objective, &policy.importance,
             &policy.by_sequence, &policy.has_old, &policy.epsilon, &policy.epsilon_high, &policy.delta, &policy.beta,
             &policy.importance_min, &policy.importance_max, &policy.off_policy_limit, &temperature,
             &policy.entropy_coef) == 13) {
    a->objective = tri_objective_policy(&policy, temperature);
    return;
  }
  tri_preference_settings s = {0};
  double cross_entropy = 0;
  if (sscanf(text, "%d %lf %lf %lf %lf %lf %lf %lf %lf", &s.loss, &s.beta, &s.label_smoothing, &s.simpo_gamma,
             &s.discopop_tau, &s.desirable_weight, &s.undesirable_weight, &a->kl, &cross_entropy) == 9)
    a->objective = tri_objective_preference(&s, cross_entropy);
}

int main(int count, char **given) {
  if (count < 10 || count > 12) {
    fprintf(stderr, "layout_tool: see the comment in its source\n");
    return 2;
  }
  arguments a = {
      .device = given[2],
      .precision = strcmp(given[3], "fp64") == 0   ? TRI_FP64
                   : strcmp(given[3], "bf16") == 0 ? TRI_BF16
                                                   : TRI_FP32,
      .global_batch = atoll(given[4]),
      .sequence = atoll(given[5]),
      .steps = atoll(given[6]),
      .tokens = given[7],
      .layouts = given[8],
      .out = given[9],
      .weights = count > 10 && given[10][0] != '\0' ? given[10] : NULL,
  };
  const char *of = strchr(given[4], '/');
  a.samples = of == NULL ? a.global_batch : atoll(of + 1);
  if (count > 11) read_objective(given[11], &a);
  tri_status status = run_all(&a, given[1]);
  if (status == TRI_OK) return 0;
  if (tri_status_message()[0] != '\0') fprintf(stderr, "layout_tool: %s\n", tri_status_message());
  tri_comm_abort(tri_status_exit(status));
  return tri_status_exit(status);
}
