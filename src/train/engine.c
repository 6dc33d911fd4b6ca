#include "train/engine.h"

#include "base/memory.h"
#include "model/family.h"
#include "train/initialise.h"

#include <math.h>

struct tri_engine {
  tri_engine_options options;
  tri_device *device;
  tri_parameter_table *table;
  tri_op_list *list;
  tri_program *program;
  tri_executor *executor;
  int32_t *ids, *labels; /* [global_batch, sequence] */
  bool prepared;         /* packed weights are those of the parameters */
};

/* What the instructions of one step hand to each other. */
typedef struct step_state {
  const tri_sampler *sampler; /* NULL: ids and labels are filled in already */
  int64_t step, updates;
  double lr;
  bool update;
  double loss_sum, gradient_scale;
  tri_step result;
} step_state;

tri_status tri_engine_create(const tri_engine_options *options, tri_device *device, tri_engine **out) {
  const tri_layout *layout = options->layout;
  if (layout->micro_batch < 1 || options->global_batch % layout->micro_batch != 0) {
    return tri_fail(TRI_BAD_LAYOUT, "optimizer.global_batch %ld is not a multiple of layout.micro_batch %ld",
                    (long)options->global_batch, (long)layout->micro_batch);
  }
  TRI_TRY(tri_device_supports(device, options->precision));
  tri_engine *engine = NULL;
  tri_status status = TRI_OK;
  TRI_TRY(tri_alloc("an engine", 1, sizeof *engine, &engine));
  engine->options = *options;
  engine->device = device;
  size_t tokens = (size_t)(options->global_batch * options->sequence);
  TRI_TRY_GOTO(tri_program_create(layout, options->global_batch / layout->micro_batch, &engine->program), failed);
  TRI_TRY_GOTO(tri_parameter_table_create(options->model, &engine->table), failed);
  TRI_TRY_GOTO(tri_model_operations(options->model, TRI_LIST_TRAIN, layout->micro_batch, options->sequence,
                                    options->sequence, options->precision, &engine->list),
               failed);
  TRI_TRY_GOTO(tri_executor_create(device, engine->table, engine->list, engine->program->num_frames,
                                   engine->program->split_backward, &engine->executor),
               failed);
  TRI_TRY_GOTO(tri_alloc("the tokens of a step", tokens, sizeof *engine->ids, &engine->ids), failed);
  TRI_TRY_GOTO(tri_alloc("the tokens of a step", tokens, sizeof *engine->labels, &engine->labels), failed);
  TRI_TRY_GOTO(tri_initialise(device, engine->table, options->seed, tri_dtype_wide(options->precision),
                              tri_executor_values(engine->executor)),
               failed);
  *out = engine;
  return TRI_OK;
failed:
  tri_engine_destroy(engine);
  return status;
}

void tri_engine_destroy(tri_engine *engine) {
  if (engine == NULL) return;
  tri_free(engine->labels);
  tri_free(engine->ids);
  tri_executor_destroy(engine->executor);
  tri_op_list_destroy(engine->list);
  tri_parameter_table_destroy(engine->table);
  tri_program_destroy(engine->program);
  tri_free(engine);
}

void tri_engine_parameters_changed(tri_engine *engine) { engine->prepared = false; }

tri_executor *tri_engine_executor(tri_engine *engine) { return engine->executor; }

const tri_program *tri_engine_program(const tri_engine *engine) { return engine->program; }

const tri_parameter_table *tri_engine_parameters(const tri_engine *engine) { return engine->table; }

const tri_op_list *tri_engine_operations(const tri_engine *engine) { return engine->list; }

/* ---- instructions ---------------------------------------------------------------------------------------------- */

static tri_status load(tri_engine *engine, step_state *state, int64_t micro_batch) {
  if (state->sampler == NULL) return TRI_OK;
  int64_t sequence = engine->options.sequence;
  int64_t size = engine->options.layout->micro_batch;
  for (int64_t row = micro_batch * size; row < (micro_batch + 1) * size; row++) {
    int64_t sample = state->step * engine->options.global_batch + row;
    TRI_TRY(tri_sampler_read(state->sampler, sample, engine->ids + row * sequence, engine->labels + row * sequence));
  }
  return TRI_OK;
}

static bool counts(const tri_engine *engine, int32_t label) {
  return label >= 0 && label != engine->options.ignore_token;
}

/* Marks the labels that do not count with -1, which is what the loss passes over. */
static int64_t count_labels(const tri_engine *engine, int64_t tokens, int32_t *labels) {
  int64_t counted = 0;
  for (int64_t i = 0; i < tokens; i++) {
    if (counts(engine, labels[i])) {
      counted++;
    } else {
      labels[i] = -1;
    }
  }
  return counted;
}

static tri_status prepare(tri_engine *engine) {
  if (!engine->prepared) TRI_TRY(tri_executor_prepare(engine->executor));
  engine->prepared = true;
  return TRI_OK;
}

static tri_run run_of(tri_engine *engine, const step_state *state, const tri_instruction *at) {
  int64_t size = engine->options.layout->micro_batch;
  int64_t first_row = at->micro_batch * size;
  tri_run run = tri_executor_run(engine->executor, at->frame);
  run.training = true;
  run.batch = size;
  run.sequence = engine->options.sequence;
  run.ids = engine->ids + first_row * run.sequence;
  run.labels = engine->labels + first_row * run.sequence;
  run.seed = engine->options.seed;
  run.step = state->step;
  run.first_sample = state->step * engine->options.global_batch + first_row;
  run.loss_scale = state->result.counted == 0 ? 0.0 : 1.0 / (double)state->result.counted;
  return run;
}

static tri_status forward(tri_engine *engine, step_state *state, const tri_instruction *at) {
  tri_run run = run_of(engine, state, at);
  TRI_TRY(tri_executor_forward(engine->executor, &run));
  state->loss_sum += run.loss_sum;
  return TRI_OK;
}

static tri_status backward(tri_engine *engine, step_state *state, const tri_instruction *at, bool inputs,
                           bool weights) {
  tri_run run = run_of(engine, state, at);
  return tri_executor_backward(engine->executor, &run, inputs, weights);
}

/* A step whose loss or norm is not a number makes no update: one bad batch must not spoil the weights. */
static tri_status clip(tri_engine *engine, step_state *state) {
  double squares = 0;
  TRI_KERNEL_CALL(engine->device, sum_of_squares, engine->options.precision, engine->table->num_elements,
                  tri_executor_gradients(engine->executor), &squares);
  double norm = sqrt(squares);
  state->result.grad_norm = norm;
  state->result.loss = state->result.counted == 0 ? 0.0 : state->loss_sum / (double)state->result.counted;
  state->result.skipped = !isfinite(norm) || !isfinite(state->result.loss);
  double limit = engine->options.clip;
  state->gradient_scale = limit > 0 && norm > limit ? limit / norm : 1.0;
  return TRI_OK;
}

static tri_status update(tri_engine *engine, step_state *state) {
  if (!state->update || state->result.skipped) return TRI_OK;
  const tri_engine_options *options = &engine->options;
  tri_adamw adamw = {
      .lr = state->lr,
      .beta1 = options->beta1,
      .beta2 = options->beta2,
      .eps = options->eps,
      .gradient_scale = state->gradient_scale,
      .step = state->updates + 1,
  };
  size_t element = tri_dtype_bytes(tri_dtype_wide(options->precision));
  for (int64_t i = 0; i < engine->table->num_entries; i++) {
    const tri_parameter *parameter = &engine->table->entries[i];
    size_t offset = (size_t)parameter->offset * element;
    adamw.weight_decay = parameter->decay ? options->weight_decay : 0.0;
    TRI_KERNEL_CALL(engine->device, adamw, options->precision, parameter->count, &adamw,
                    (char *)tri_executor_values(engine->executor) + offset,
                    (char *)tri_executor_gradients(engine->executor) + offset,
                    (char *)tri_executor_moment1(engine->executor) + offset,
                    (char *)tri_executor_moment2(engine->executor) + offset);
  }
  engine->prepared = false;
  return TRI_OK;
}

static tri_status execute(tri_engine *engine, step_state *state, const tri_instruction *at) {
  switch (at->kind) {
    case TRI_LOAD: return load(engine, state, at->micro_batch);
    case TRI_COUNT_LABELS:
      state->result.counted =
          count_labels(engine, engine->options.global_batch * engine->options.sequence, engine->labels);
      return TRI_OK;
    case TRI_PREPARE: return prepare(engine);
    case TRI_FORWARD: return forward(engine, state, at);
    case TRI_BACKWARD: return backward(engine, state, at, true, true);
    case TRI_BACKWARD_INPUT: return backward(engine, state, at, true, false);
    case TRI_BACKWARD_WEIGHT: return backward(engine, state, at, false, true);
    case TRI_CLIP: return clip(engine, state);
    case TRI_UPDATE: return update(engine, state);
  }
  return tri_fail(TRI_INTERNAL, "instruction %d is not one that the engine knows", (int)at->kind);
}

static tri_status execute_program(tri_engine *engine, step_state *state) {
  for (int64_t i = 0; i < engine->table->num_entries; i++) engine->executor->parameters[i].gradient_written = false;
  for (int64_t i = 0; i < engine->program->num_instructions; i++) {
    TRI_TRY(execute(engine, state, &engine->program->instructions[i]));
  }
  return TRI_OK;
}

/* ---- steps ----------------------------------------------------------------------------------------------------- */

tri_status tri_engine_step(tri_engine *engine, const tri_sampler *sampler, int64_t step, int64_t updates, double lr,
                           tri_step *out) {
  step_state state = {.sampler = sampler, .step = step, .updates = updates, .lr = lr, .update = true};
  TRI_TRY(execute_program(engine, &state));
  *out = state.result;
  return TRI_OK;
}

tri_status tri_engine_gradients(tri_engine *engine, const int32_t *ids, const int32_t *labels, int64_t step,
                                tri_step *out) {
  int64_t tokens = engine->options.global_batch * engine->options.sequence;
  for (int64_t i = 0; i < tokens; i++) {
    engine->ids[i] = ids[i];
    engine->labels[i] = labels[i];
  }
  step_state state = {.step = step};
  TRI_TRY(execute_program(engine, &state));
  *out = state.result;
  return TRI_OK;
}

tri_status tri_engine_evaluate(tri_engine *engine, int64_t count, const int32_t *ids, const int32_t *labels,
                               double *loss_sum, int64_t *counted) {
  int64_t size = engine->options.layout->micro_batch;
  int64_t sequence = engine->options.sequence;
  double sum = 0;
  int64_t number = 0;
  TRI_TRY(prepare(engine));
  for (int64_t first = 0; first < count; first += size) {
    int64_t rows = count - first < size ? count - first : size;
    for (int64_t i = 0; i < rows * sequence; i++) {
      engine->ids[i] = ids[first * sequence + i];
      engine->labels[i] = labels[first * sequence + i];
    }
    number += count_labels(engine, rows * sequence, engine->labels);
    tri_run run = tri_executor_run(engine->executor, 0);
    run.batch = rows;
    run.sequence = sequence;
    run.ids = engine->ids;
    run.labels = engine->labels;
    TRI_TRY(tri_executor_forward(engine->executor, &run));
    sum += run.loss_sum;
  }
  *loss_sum = sum;
  *counted = number;
  return TRI_OK;
}
