/* The functions that a training loop calls: accumulate, reduce, update and score; and step, which calls the first three
 * in order.
 *
 * The instructions of a step are one program, since reductions of gradients start inside its backward. Each verb
 * executes a part of this program. The state that later verbs need is in tri_engine.step. */
#include "base/count.h"
#include "engine/engine_internal.h"
#include "schedule/schedule.h"

#include <string.h>

/* ---- steps ------------------------------------------------------------------------------------------------------- */

tri_global_batch tri_engine_full_batch(const tri_engine *engine, int64_t step) {
  const int64_t count = engine->options.global_batch;
  return (tri_global_batch){step, step * count, count};
}

/* Returns the number of micro-batches that each rank has for a number of samples. */
static int64_t micro_batches_for(const tri_engine *engine, int64_t samples) {
  const tri_layout *layout = engine->options.layout;
  const int64_t readers = tri_mesh_group(engine->options.mesh, TRI_DOMAIN_BATCH)->size;
  return tri_divide_up(tri_divide_up(samples, layout->micro_batch), readers);
}

/* Finds the program of a step with at least `micro_batches` micro-batches. Programs are created when they are first
 * needed. */
static tri_status find_program(tri_engine *engine, int64_t micro_batches, const tri_program **out) {
  const int64_t most = engine->micro_batches, stage = engine->options.mesh->place.at[TRI_AXIS_PIPELINE];
  const int64_t count = tri_schedule_shorter(engine->options.layout, micro_batches, most);
  *out = engine->parts.program;
  if (count == most) return TRI_OK;
  if (engine->programs[count] == NULL)
    TRI_TRY(tri_parts_program(&engine->parts, stage, count, &engine->programs[count]));
  *out = engine->programs[count];
  return TRI_OK;
}

tri_status tri_engine_accumulate(tri_engine *engine, const tri_feed *feed, const tri_global_batch *batch) {
  const tri_program *program = NULL;
  if (batch->count < 1 || batch->count > engine->options.global_batch) {
    return tri_fail_internal("a step has %ld samples, but the engine was created for 1 to %ld", (long)batch->count,
                             (long)engine->options.global_batch);
  }
  TRI_TRY(find_program(engine, micro_batches_for(engine, batch->count), &program));
  engine->step = (tri_step_state){.feed = feed, .program = program, .batch = *batch};
  TRI_TRY(tri_engine_begin(engine, false));
  engine->steps++;
  TRI_TRY(tri_engine_execute(engine, program, (tri_program_part){0, program->reduce_first}, &engine->step));
  engine->step.feed = NULL;
  engine->step.phase = TRI_STEP_ACCUMULATED;
  return TRI_OK;
}

static const char *next_verb(tri_step_phase phase) {
  switch (phase) {
    case TRI_STEP_NONE: return "accumulate";
    case TRI_STEP_ACCUMULATED: return "reduce";
    case TRI_STEP_REDUCED: return "update";
  }
  return "";
}

static tri_status check_phase(const tri_engine *engine, tri_step_phase wanted) {
  if (engine->step.phase == wanted) return TRI_OK;
  return tri_fail_internal("the engine was called to %s, but the next verb of its step is %s", next_verb(wanted),
                           next_verb(engine->step.phase));
}

tri_status tri_engine_reduce(tri_engine *engine, tri_step *out) {
  TRI_TRY(check_phase(engine, TRI_STEP_ACCUMULATED));
  const tri_program *program = engine->step.program;
  const tri_program_part part = {program->reduce_first, program->update_first};
  TRI_TRY(tri_engine_execute(engine, program, part, &engine->step));
  engine->step.phase = TRI_STEP_REDUCED;
  *out = engine->step.result;
  return TRI_OK;
}

tri_status tri_engine_update(tri_engine *engine, int64_t updates, double lr) {
  TRI_TRY(check_phase(engine, TRI_STEP_REDUCED));
  const tri_program *program = engine->step.program;
  const tri_program_part part = {program->update_first, program->num_instructions};
  engine->step.updates = updates;
  engine->step.lr = lr;
  engine->step.phase = TRI_STEP_NONE;
  return tri_engine_execute(engine, program, part, &engine->step);
}

tri_status tri_engine_step(tri_engine *engine, const tri_feed *feed, const tri_global_batch *batch, int64_t updates,
                           double lr, tri_step *out) {
  tri_step made;
  TRI_TRY(tri_engine_accumulate(engine, feed, batch));
  TRI_TRY(tri_engine_reduce(engine, &made));
  TRI_TRY(tri_engine_update(engine, updates, lr));
  *out = made;
  return TRI_OK;
}

/* ---- given tokens ------------------------------------------------------------------------------------------------ */

static tri_status read_tokens(const void *from, int64_t index, const tri_sample *out) {
  const tri_tokens_at *at = from;
  tri_sample_fill(&at->tokens, (index - at->first) * at->sequence, at->sequence, out);
  return TRI_OK;
}

tri_feed tri_tokens_feed(const tri_tokens_at *at) { return (tri_feed){read_tokens, at}; }

tri_status tri_engine_step_on(tri_engine *engine, const tri_tokens *tokens, int64_t step, int64_t updates, double lr,
                              tri_step *out) {
  const tri_global_batch batch = tri_engine_full_batch(engine, step);
  const tri_tokens_at at = {*tokens, batch.first, engine->options.sequence};
  const tri_feed feed = tri_tokens_feed(&at);
  return tri_engine_step(engine, &feed, &batch, updates, lr, out);
}

tri_status tri_engine_gradients(tri_engine *engine, const tri_tokens *tokens, int64_t step, tri_step *out) {
  const tri_global_batch batch = tri_engine_full_batch(engine, step);
  const tri_tokens_at at = {*tokens, batch.first, engine->options.sequence};
  const tri_feed feed = tri_tokens_feed(&at);
  TRI_TRY(tri_engine_accumulate(engine, &feed, &batch));
  return tri_engine_reduce(engine, out);
}

/* ---- scores ------------------------------------------------------------------------------------------------------ */

/* Runs the forward of a score. Micro-batches are assigned to ranks as in a step, and pass through the stages of the
 * pipeline. All ranks have the same number of micro-batches, because they may gather parameters together; the last ones
 * may be padding. */
static tri_status forward(tri_engine *engine, tri_step_state *state, int64_t *micro_batches) {
  tri_program_request request = {
      .layout = engine->options.layout,
      .stage = engine->options.mesh->place.at[TRI_AXIS_PIPELINE],
      .micro_batches = micro_batches_for(engine, state->samples),
      .lists = (const tri_op_list *const *)engine->parts.lists,
      .buckets = engine->parts.buckets,
      .forward_only = true,
  };
  tri_program *program = NULL;
  *micro_batches = request.micro_batches;
  TRI_TRY(tri_program_create(&request, &program));
  const tri_program_part all = {0, program->num_instructions};
  tri_status status = tri_engine_begin(engine, true);
  if (status == TRI_OK) status = tri_engine_execute(engine, program, all, state);
  tri_program_destroy(program);
  return status;
}

tri_status tri_engine_forward(tri_engine *engine, const tri_feed *feed, int64_t samples, bool without_factors,
                              int64_t *micro_batches) {
  tri_step_state state = {.feed = feed, .evaluating = true, .samples = samples, .without_factors = without_factors};
  return forward(engine, &state, micro_batches);
}

tri_status tri_engine_score(tri_engine *engine, const tri_feed *feed, int64_t samples, tri_evaluation *out) {
  tri_step_state state = {.feed = feed, .evaluating = true, .samples = samples};
  const tri_step_results *results = NULL;
  int64_t micro_batches = 0;
  TRI_TRY(tri_engine_swap_in(engine, TRI_POLICY_EVALUATED));
  const tri_status status = forward(engine, &state, &micro_batches);
  const tri_status swapped = tri_engine_swap_back(engine, TRI_POLICY_EVALUATED);
  TRI_TRY(status);
  TRI_TRY(swapped);
  TRI_TRY(tri_executor_read_results(engine->executor, &results));
  return tri_evaluation_join(engine->options.mesh, &results->losses, &state.counted, out);
}

tri_status tri_engine_evaluate(tri_engine *engine, const tri_sampler *sampler, int64_t windows, tri_evaluation *out) {
  const tri_sampler_spread spread = {sampler, windows < sampler->per_epoch ? windows : sampler->per_epoch};
  const tri_feed feed = tri_sampler_spread_feed(&spread);
  return tri_engine_score(engine, &feed, spread.count, out);
}
