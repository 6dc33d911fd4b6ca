#include "train/engine.h"

#include "base/memory.h"
#include "model/family.h"
#include "train/initialise.h"

#include <math.h>

struct tri_engine {
  tri_engine_options options;
  tri_device *device;
  tri_engine_parts parts;
  tri_executor *executor;
  int32_t *ids, *labels; /* [global_batch, sequence], in the arena */
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

tri_status tri_engine_parts_create(const tri_engine_options *options, tri_device *device, tri_engine_parts *out) {
  const tri_layout *layout = options->layout;
  if (layout->micro_batch < 1 || options->global_batch % layout->micro_batch != 0) {
    return tri_fail(TRI_BAD_LAYOUT, "optimizer.global_batch %ld is not a multiple of layout.micro_batch %ld",
                    (long)options->global_batch, (long)layout->micro_batch);
  }
  TRI_TRY(tri_device_supports(device, options->precision));
  tri_engine_parts parts = {0};
  tri_status status = TRI_OK;
  TRI_TRY_GOTO(tri_program_create(layout, options->global_batch / layout->micro_batch, &parts.program), failed);
  TRI_TRY_GOTO(tri_parameter_table_create(options->model, &parts.table), failed);
  TRI_TRY_GOTO(tri_model_operations(options->model, TRI_LIST_TRAIN, layout->micro_batch, options->sequence,
                                    options->sequence, options->precision, &parts.list),
               failed);
  *out = parts;
  return TRI_OK;
failed:
  tri_engine_parts_destroy(&parts);
  return status;
}

void tri_engine_parts_destroy(tri_engine_parts *parts) {
  tri_op_list_destroy(parts->list);
  tri_parameter_table_destroy(parts->table);
  tri_program_destroy(parts->program);
  *parts = (tri_engine_parts){0};
}

tri_memory_request tri_engine_memory_request(const tri_engine_options *options, const tri_engine_parts *parts,
                                             tri_device *device) {
  return (tri_memory_request){
      .list = parts->list,
      .num_values = parts->table->num_elements,
      .training = true,
      .split_backward = parts->program->split_backward,
      .num_frames = parts->program->num_frames,
      .num_tokens = (options->global_batch + options->layout->micro_batch) * options->sequence,
      .device = device,
  };
}

static tri_status set_up(tri_engine *engine) {
  const tri_engine_options *options = &engine->options;
  int64_t tokens = options->global_batch * options->sequence;
  TRI_TRY(tri_engine_parts_create(options, engine->device, &engine->parts));
  tri_memory_request request = tri_engine_memory_request(options, &engine->parts, engine->device);
  TRI_TRY(tri_executor_create(engine->parts.table, &request, &engine->executor));
  engine->ids = tri_executor_tokens(engine->executor);
  engine->labels = engine->ids + tokens;
  return tri_initialise(engine->device, engine->parts.table, options->seed, tri_dtype_wide(options->precision),
                        tri_executor_values(engine->executor));
}

tri_status tri_engine_create(const tri_engine_options *options, tri_device *device, tri_engine **out) {
  tri_engine *engine = NULL;
  TRI_TRY(tri_alloc("an engine", 1, sizeof *engine, &engine));
  engine->options = *options;
  engine->device = device;
  tri_status status = set_up(engine);
  if (status != TRI_OK) {
    tri_engine_destroy(engine);
    return status;
  }
  *out = engine;
  return TRI_OK;
}

void tri_engine_destroy(tri_engine *engine) {
  if (engine == NULL) return;
  tri_executor_destroy(engine->executor);
  tri_engine_parts_destroy(&engine->parts);
  tri_free(engine);
}

size_t tri_engine_predicted_bytes(const tri_engine *engine) { return engine->executor->plan->total_bytes; }

size_t tri_engine_measured_bytes(const tri_engine *engine) { return engine->device->memory_peak_bytes; }

void tri_engine_parameters_changed(tri_engine *engine) { engine->prepared = false; }

tri_executor *tri_engine_executor(tri_engine *engine) { return engine->executor; }

const tri_program *tri_engine_program(const tri_engine *engine) { return engine->parts.program; }

const tri_parameter_table *tri_engine_parameters(const tri_engine *engine) { return engine->parts.table; }

const tri_op_list *tri_engine_operations(const tri_engine *engine) { return engine->parts.list; }

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
  TRI_KERNEL_CALL(engine->device, sum_of_squares, engine->options.precision, engine->parts.table->num_elements,
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
  for (int64_t i = 0; i < engine->parts.table->num_entries; i++) {
    const tri_parameter *parameter = &engine->parts.table->entries[i];
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
  for (int64_t i = 0; i < engine->parts.table->num_entries; i++)
    engine->executor->parameters[i].gradient_written = false;
  for (int64_t i = 0; i < engine->parts.program->num_instructions; i++) {
    TRI_TRY(execute(engine, state, &engine->parts.program->instructions[i]));
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

tri_status tri_engine_evaluate(tri_engine *engine, const tri_sampler *sampler, int64_t windows, tri_evaluation *out) {
  TRI_TRY(prepare(engine));
  int32_t *scratch = engine->labels + engine->options.global_batch * engine->options.sequence;
  return tri_evaluate_windows(engine->executor, sampler, windows, engine->options.ignore_token, scratch, out);
}
