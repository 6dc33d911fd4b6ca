/* Layouts, and the step programs made from them. */
#include "base/memory.h"
#include "base/random.h"
#include "check.h"
#include "model/family.h"
#include "schedule/parts.h"
#include "schedule/program.h"
#include "small_model.h"

#include <math.h>
#include <stdio.h>

static tri_layout layout_of(tri_schedule_kind schedule, int64_t stages, int64_t virtual_stages) {
  return (tri_layout){.tensor = 1,
                      .pipeline = stages,
                      .context = 1,
                      .data = 1,
                      .expert = 1,
                      .virtual_stages = virtual_stages,
                      .schedule = schedule,
                      .micro_batch = 2,
                      .recompute_every = 1,
                      .bucket_bytes = 1 << 20};
}

static tri_program *program_of(const tri_layout *layout, int64_t stage, int64_t micro_batches) {
  tri_program_request request = {.layout = layout, .stage = stage, .micro_batches = micro_batches};
  tri_program *program = NULL;
  CHECK_OK(tri_program_create(&request, &program));
  return program;
}

/* The program in one line: F0.0 is the forward of micro-batch 0 in frame 0, r0 waits for a message in box 0. */
static const char *text_of(const tri_program *program) {
  static const char letters[] = {
      [TRI_LOAD] = 'L',     [TRI_COUNT_LABELS] = 'C',   [TRI_PREPARE] = 'P',        [TRI_POST_RECEIVE] = 'p',
      [TRI_RECEIVE] = 'r',  [TRI_SEND] = 's',           [TRI_WAIT_SENT] = 'w',      [TRI_FORWARD] = 'F',
      [TRI_BACKWARD] = 'B', [TRI_BACKWARD_INPUT] = 'I', [TRI_BACKWARD_WEIGHT] = 'W'};
  static char text[1024];
  size_t used = 0;
  for (int64_t i = 0; i < program->num_instructions; i++) {
    const tri_instruction *at = &program->instructions[i];
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%c", i == 0 ? "" : " ", letters[at->kind]);
    if (at->micro_batch >= 0) used += (size_t)snprintf(text + used, sizeof text - used, "%d", at->micro_batch);
    if (at->frame >= 0) used += (size_t)snprintf(text + used, sizeof text - used, ".%d", at->frame);
    if (at->stage_buffer >= 0) used += (size_t)snprintf(text + used, sizeof text - used, "%d", at->stage_buffer);
  }
  return text;
}

static void check_program(tri_schedule_kind schedule, int64_t stages, int64_t stage, const char *expected,
                          int64_t frames) {
  tri_layout layout = layout_of(schedule, stages, 1);
  tri_program *program = program_of(&layout, stage, 3);
  assert_string_equal(text_of(program), expected);
  assert_int_equal(program->num_frames[0], frames);
  tri_program_destroy(program);
}

static void test_programs(void **state) {
  (void)state;
  check_program(TRI_SCHEDULE_1F1B, 1, 0, "L0 L1 L2 C P F0.0 B0.0 F1.0 B1.0 F2.0 B2.0", 1);
  check_program(TRI_SCHEDULE_GPIPE, 1, 0, "L0 L1 L2 C P F0.0 F1.1 F2.2 B0.0 B1.1 B2.2", 3);
  check_program(TRI_SCHEDULE_ZERO_BUBBLE, 1, 0, "L0 L1 L2 C P F0.0 I0.0 W0.0 F1.0 I1.0 W1.0 F2.0 I2.0 W2.0", 1);
  check_program(TRI_SCHEDULE_1F1B, 2, 0,
                "L0 L1 L2 C P p0 p1 F0.0 s0 F1.1 s1 r0 B0.0 p0 w0 F2.0 s0 r1 B1.1 r0 B2.0 w1 w0", 2);
  check_program(TRI_SCHEDULE_1F1B, 2, 1,
                "L0 L1 L2 C P p0 p1 r0 F0.0 p0 B0.0 s0 r1 F1.0 B1.0 s1 r0 F2.0 w0 B2.0 s0 w1 w0", 1);
}

/* ---- all sizes --------------------------------------------------------------------------------------------------- */

/* Checks that the turns of each chunk are complete: every micro-batch once, forwards before backwards, backwards in
 * order. */
static void check_turns(const tri_schedule *schedule, const tri_schedule_shape *shape, int64_t stage, int64_t most) {
  tri_turns turns = {0};
  int64_t forwards[8] = {0}, inputs[8] = {0}, weights[8] = {0}, held = 0;
  CHECK_OK(schedule->turns(shape, stage, &turns));
  for (int64_t i = 0; i < turns.count; i++) {
    const tri_turn *turn = &turns.turns[i];
    bool input = turn->kind == TRI_TURN_BACKWARD || turn->kind == TRI_TURN_BACKWARD_INPUT;
    bool weight = turn->kind == TRI_TURN_BACKWARD || turn->kind == TRI_TURN_BACKWARD_WEIGHT;
    if (turn->kind == TRI_TURN_FORWARD) assert_int_equal(turn->micro_batch, forwards[turn->chunk]++);
    if (input) assert_int_equal(turn->micro_batch, inputs[turn->chunk]++);
    if (weight) assert_int_equal(turn->micro_batch, weights[turn->chunk]++);
    assert_true(forwards[turn->chunk] >= inputs[turn->chunk] && inputs[turn->chunk] >= weights[turn->chunk]);
    held += (turn->kind == TRI_TURN_FORWARD) - (int)weight;
    if (held > most) fail_msg("%s holds %d micro-batches on stage %d", schedule->name, (int)held, (int)stage);
  }
  for (int64_t c = 0; c < shape->virtual_stages; c++) {
    assert_int_equal(forwards[c], shape->micro_batches);
    assert_int_equal(weights[c], shape->micro_batches);
  }
  tri_free(turns.turns);
}

static int64_t most_in_flight(tri_schedule_kind kind, const tri_schedule_shape *shape, int64_t stage) {
  int64_t behind = shape->stages - stage, group = tri_schedule_group(shape);
  switch (kind) {
    case TRI_SCHEDULE_GPIPE: return shape->micro_batches;
    case TRI_SCHEDULE_1F1B: return behind;
    case TRI_SCHEDULE_ZERO_BUBBLE: return shape->stages;
    case TRI_SCHEDULE_INTERLEAVED: break;
  }
  if (group > shape->micro_batches) group = shape->micro_batches;
  return (shape->virtual_stages - 1) * group + 2 * behind - 1;
}

static void check_shape_in_groups(tri_schedule_kind kind, int64_t stages, int64_t virtual_stages, int64_t micro_batches,
                                  int64_t group) {
  const tri_schedule *schedule = tri_schedule_of(kind);
  tri_schedule_shape shape = {stages, virtual_stages, micro_batches, group};
  tri_layout layout = layout_of(kind, stages, virtual_stages);
  tri_program *programs[16];
  layout.micro_batch_group = group;
  for (int64_t s = 0; s < stages; s++) {
    check_turns(schedule, &shape, s, most_in_flight(kind, &shape, s));
    programs[s] = program_of(&layout, s, micro_batches);
  }
  CHECK_OK(tri_program_check((const tri_program *const *)programs, stages));
  for (int64_t s = 0; s < stages; s++) tri_program_destroy(programs[s]);
}

static void check_shape(tri_schedule_kind kind, int64_t stages, int64_t virtual_stages, int64_t micro_batches) {
  check_shape_in_groups(kind, stages, virtual_stages, micro_batches, 0);
}

/* Schedules are complete, in order, and free of deadlock, even if a message is done only when both sides have started
 * it. */
static void test_all_sizes(void **state) {
  (void)state;
  for (int64_t stages = 1; stages <= 16; stages++) {
    for (int64_t micro_batches = 1; micro_batches <= 64; micro_batches++) {
      check_shape(TRI_SCHEDULE_GPIPE, stages, 1, micro_batches);
      check_shape(TRI_SCHEDULE_1F1B, stages, 1, micro_batches);
      check_shape(TRI_SCHEDULE_ZERO_BUBBLE, stages, 1, micro_batches);
      for (int64_t v = 2; v <= 4 && stages > 1; v++) check_shape(TRI_SCHEDULE_INTERLEAVED, stages, v, micro_batches);
    }
  }
}

/* ---- groups of micro-batches ------------------------------------------------------------------------------------- */

/* Every legal size of groups gives a complete schedule, and others are refused with a legal one in the message. */
static void test_groups(void **state) {
  (void)state;
  const tri_schedule *interleaved = tri_schedule_of(TRI_SCHEDULE_INTERLEAVED);
  for (int64_t stages = 2; stages <= 9; stages++) {
    for (int64_t micro_batches = 1; micro_batches <= 33; micro_batches++) {
      int64_t least = 0;
      for (int64_t group = micro_batches + 1; group >= 1; group--) {
        tri_schedule_shape shape = {stages, 3, micro_batches, group};
        int64_t last = micro_batches % group == 0 ? group : micro_batches % group;
        bool legal = group >= micro_batches || (group >= stages && last >= stages);
        assert_int_equal(interleaved->check(&shape), legal ? TRI_OK : TRI_BAD_LAYOUT);
        if (!legal) continue;
        check_shape_in_groups(TRI_SCHEDULE_INTERLEAVED, stages, 3, micro_batches, group);
        if (group >= stages) least = group;
      }
      tri_schedule_shape shape = {stages, 3, micro_batches, 0};
      assert_int_equal(tri_schedule_group(&shape), micro_batches < stages ? stages : least);
      if (micro_batches % stages == 0) assert_int_equal(tri_schedule_group(&shape), stages);
    }
  }
}

/* If the stages divide the micro-batches, the schedule is that of Narayanan et al. 2021, written here from the paper.
 * */
static void test_whole_groups(void **state) {
  (void)state;
  for (int64_t p = 2; p <= 6; p++) {
    for (int64_t v = 2; v <= 4; v++) {
      for (int64_t stage = 0; stage < p; stage++) {
        int64_t m = 3 * p, ahead = 2 * (p - 1 - stage) + (v - 1) * p, forwards = 0, backwards = 0;
        tri_schedule_shape shape = {p, v, m, 0};
        tri_turns turns = {0};
        CHECK_OK(tri_schedule_of(TRI_SCHEDULE_INTERLEAVED)->turns(&shape, stage, &turns));
        assert_int_equal(turns.count, 2 * m * v);
        for (int64_t i = 0; i < turns.count; i++) {
          bool forward = forwards < ahead || (forwards < m * v && forwards - ahead == backwards);
          int64_t number = forward ? forwards++ : backwards++, chunk = number / p % v;
          assert_int_equal(turns.turns[i].kind, forward ? TRI_TURN_FORWARD : TRI_TURN_BACKWARD);
          assert_int_equal(turns.turns[i].chunk, forward ? chunk : v - 1 - chunk);
          assert_int_equal(turns.turns[i].micro_batch, number / (p * v) * p + number % p);
        }
        tri_free(turns.turns);
      }
    }
  }
}

/* A replay of a step whose turns take equal time, with messages that take none. */
typedef struct replay {
  tri_turns turns[9];
  int64_t at[9], clock[9];
  int64_t ends[2][36][33]; /* forwards and backwards, [virtual stage][micro-batch]: 0 until it has run */
} replay;

static bool replay_turn(replay *r, const tri_schedule_shape *shape, int64_t stage) {
  const tri_turn *turn = &r->turns[stage].turns[r->at[stage]];
  int64_t last = shape->stages * shape->virtual_stages - 1, v = turn->chunk * shape->stages + stage, from = 0;
  bool forward = turn->kind == TRI_TURN_FORWARD;
  if (forward && v > 0) from = r->ends[0][v - 1][turn->micro_batch];
  if (!forward) from = v == last ? r->ends[0][v][turn->micro_batch] : r->ends[1][v + 1][turn->micro_batch];
  if (from == 0 && !(forward && v == 0)) return false;
  r->clock[stage] = (from > r->clock[stage] ? from : r->clock[stage]) + 1;
  r->ends[forward ? 0 : 1][v][turn->micro_batch] = r->clock[stage];
  r->at[stage]++;
  return true;
}

/* `forward_only`: the turns of an evaluation. */
static int64_t replay_length(const tri_schedule_shape *shape, bool forward_only) {
  static replay r;
  int64_t longest = 0;
  const tri_layout layout = layout_of(TRI_SCHEDULE_INTERLEAVED, shape->stages, shape->virtual_stages);
  r = (replay){0};
  for (int64_t s = 0; s < shape->stages; s++) {
    const tri_program_request request = {
        .layout = &layout, .stage = s, .micro_batches = shape->micro_batches, .forward_only = forward_only};
    CHECK_OK(tri_program_turns(&request, &r.turns[s]));
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (int64_t s = 0; s < shape->stages; s++) {
      while (r.at[s] < r.turns[s].count && replay_turn(&r, shape, s)) moved = true;
    }
  }
  for (int64_t s = 0; s < shape->stages; s++) {
    assert_int_equal(r.at[s], r.turns[s].count);
    if (r.clock[s] > longest) longest = r.clock[s];
    tri_free(r.turns[s].turns);
  }
  return longest;
}

/* The pipeline fills once and empties once, in (stages - 1) turns of a chunk each, with any number of micro-batches in
 * the last group. */
static void test_groups_leave_no_gaps(void **state) {
  (void)state;
  for (int64_t stages = 2; stages <= 9; stages++) {
    for (int64_t v = 2; v <= 4; v++) {
      for (int64_t micro_batches = stages; micro_batches <= 33; micro_batches++) {
        tri_schedule_shape shape = {stages, v, micro_batches, 0};
        int64_t length = replay_length(&shape, false);
        if (length != 2 * (micro_batches * v + stages - 1)) {
          fail_msg("%ld stages of %ld, %ld micro-batches: %ld turns", (long)stages, (long)v, (long)micro_batches,
                   (long)length);
        }
      }
    }
  }
}

/* The simulator and the memory plan run a shorter step: it has as many micro-batches in flight as the whole step. */
static void check_evaluation(int64_t stages, int64_t virtual_stages, int64_t micro_batches) {
  const tri_layout layout = layout_of(TRI_SCHEDULE_INTERLEAVED, stages, virtual_stages);
  tri_program *programs[16];
  for (int64_t s = 0; s < stages; s++) {
    const tri_program_request request = {
        .layout = &layout, .stage = s, .micro_batches = micro_batches, .forward_only = true};
    CHECK_OK(tri_program_create(&request, &programs[s]));
  }
  CHECK_OK(tri_program_check((const tri_program *const *)programs, stages));
  for (int64_t s = 0; s < stages; s++) tri_program_destroy(programs[s]);
}

/* The forwards of an evaluation: no gaps if all groups are whole, else the last group waits for those that are missing
 * in each further chunk. Programs are free of deadlock. */
static void test_evaluations_leave_no_gaps(void **state) {
  (void)state;
  for (int64_t stages = 2; stages <= 6; stages++) {
    for (int64_t v = 1; v <= 3; v++) {
      for (int64_t micro_batches = 1; micro_batches <= 13; micro_batches++) {
        const tri_schedule_shape shape = {stages, v, micro_batches, 0};
        const int64_t missing = (stages - micro_batches % stages) % stages;
        const int64_t expected = micro_batches * v + stages - 1 + (v - 1) * missing;
        const int64_t length = replay_length(&shape, true);
        if (length != expected)
          fail_msg("%ld stages of %ld, %ld micro-batches: %ld turns, not %ld", (long)stages, (long)v,
                   (long)micro_batches, (long)length, (long)expected);
        check_evaluation(stages, v, micro_batches);
      }
    }
  }
}

static void test_settled_groups(void **state) {
  (void)state;
  for (int64_t micro_batches = 90; micro_batches <= 140; micro_batches++) {
    tri_layout layout = layout_of(TRI_SCHEDULE_INTERLEAVED, 5, 3);
    tri_layout settled = tri_schedule_settle(&layout, micro_batches);
    int64_t few = 60 + (micro_batches - 60) % settled.micro_batch_group;
    for (int64_t s = 0; s < 5; s++) {
      tri_program *whole = program_of(&layout, s, micro_batches), *shorter = program_of(&settled, s, few);
      for (int64_t c = 0; c < 3; c++) assert_int_equal(whole->num_frames[c], shorter->num_frames[c]);
      for (int k = 0; k < TRI_NUM_STAGE_BUFFER_KINDS; k++)
        assert_int_equal(whole->stage_buffers[k], shorter->stage_buffers[k]);
      tri_program_destroy(whole);
      tri_program_destroy(shorter);
    }
  }
}

/* Checks all shorter steps of a step with `most` micro-batches: they do not deadlock, and need no more memory. */
static void check_shorter(const tri_layout *layout, int64_t most) {
  const tri_layout settled = tri_schedule_settle(layout, most);
  for (int64_t least = 1; least <= most; least++) {
    const int64_t count = tri_schedule_shorter(layout, least, most);
    tri_program *programs[8];
    assert_true(count >= least && count <= most && count < least + 2 * layout->pipeline + 1);
    for (int64_t s = 0; s < layout->pipeline; s++) {
      tri_program *whole = program_of(layout, s, most);
      programs[s] = program_of(&settled, s, count);
      for (int64_t c = 0; c < layout->virtual_stages; c++)
        assert_true(programs[s]->num_frames[c] <= whole->num_frames[c]);
      for (int k = 0; k < TRI_NUM_STAGE_BUFFER_KINDS; k++)
        assert_true(programs[s]->stage_buffers[k] <= whole->stage_buffers[k]);
      tri_program_destroy(whole);
    }
    CHECK_OK(tri_program_check((const tri_program *const *)programs, layout->pipeline));
    for (int64_t s = 0; s < layout->pipeline; s++) tri_program_destroy(programs[s]);
  }
}

static void test_shorter_steps(void **state) {
  (void)state;
  static const tri_schedule_kind plain[] = {TRI_SCHEDULE_GPIPE, TRI_SCHEDULE_1F1B, TRI_SCHEDULE_ZERO_BUBBLE};
  for (int64_t stages = 1; stages <= 5; stages++) {
    for (int64_t most = 1; most <= 13; most++) {
      for (int k = 0; k < 3; k++) {
        const tri_layout layout = layout_of(plain[k], stages, 1);
        check_shorter(&layout, most);
      }
      for (int64_t v = 2; v <= 3 && stages > 1; v++) {
        const tri_layout layout = layout_of(TRI_SCHEDULE_INTERLEAVED, stages, v);
        check_shorter(&layout, most);
      }
    }
  }
}

/* The checker finds faults: a program without one of its sends, and one that waits for a later message. */
static void test_the_checker(void **state) {
  (void)state;
  tri_layout layout = layout_of(TRI_SCHEDULE_1F1B, 2, 1);
  for (int broken = 0; broken < 2; broken++) {
    tri_program *programs[2] = {program_of(&layout, 0, 3), program_of(&layout, 1, 3)};
    tri_instruction *send = programs[0]->instructions;
    while (send->kind != TRI_SEND) send++;
    if (broken == 0) {
      send->kind = TRI_PREPARE;
    } else {
      while (send->kind != TRI_RECEIVE) send++;
      tri_instruction receive = *send; /* moved to the front */
      for (; send > programs[0]->instructions && send[-1].kind != TRI_POST_RECEIVE; send--) *send = send[-1];
      *send = receive;
    }
    CHECK_FAILS(tri_program_check((const tri_program *const *)programs, 2), TRI_INTERNAL, "never end: stage");
    tri_program_destroy(programs[0]);
    tri_program_destroy(programs[1]);
  }
}

/* ---- the end of a step ------------------------------------------------------------------------------------------- */

/* Prints the instructions from the first sum of a tied pair on: "update", and "gather0" for one on bucket 0. */
static void write_end(const tri_program *program, int64_t first, char *text, size_t bytes) {
  size_t used = 0;
  text[0] = '\0';
  for (int64_t i = first; i < program->num_instructions; i++) {
    const tri_instruction *at = &program->instructions[i];
    used += (size_t)snprintf(text + used, bytes - used, "%s%s", i == first ? "" : " ", tri_instruction_name(at->kind));
    if (at->bucket >= 0) used += (size_t)snprintf(text + used, bytes - used, "%d", at->bucket);
    assert_true(used < bytes);
  }
}

static int64_t first_of(const tri_program *program, tri_instruction_kind kind) {
  int64_t i = 0;
  while (i < program->num_instructions && program->instructions[i].kind != kind) i++;
  return i;
}

static void test_ends(void **state) {
  (void)state;
  tri_model model = small_model();
  tri_layout layout = layout_of(TRI_SCHEDULE_1F1B, 1, 1);
  tri_mesh_coordinates place = {{0}};
  tri_parts parts = {0};
  layout.data = 2;
  layout.zero = 1;
  layout.bucket_bytes = 1 << 18;
  tri_parts_request of = {.model = &model,
                          .layout = &layout,
                          .micro_batches = 2,
                          .sequence = 32,
                          .precision = TRI_FP32,
                          .without_program = true};
  CHECK_OK(tri_parts_create(&of, &place, &parts));
  tri_program_request request = {.layout = &layout,
                                 .micro_batches = 2,
                                 .lists = (const tri_op_list *const *)parts.lists,
                                 .buckets = parts.buckets,
                                 .tied_pair = true};
  tri_program *program = NULL;
  char text[1024];
  CHECK_OK(tri_program_create(&request, &program));
  write_end(program, first_of(program, TRI_SUM_TIED), text, sizeof text);
  assert_string_equal(text,
                      "sum_tied reduce0 wait_reduced0 wait_reduced1 wait_reduced2 clip update gather0 gather1 gather2 "
                      "wait_gathered0 wait_gathered1 wait_gathered2");
  const tri_program *alone = program;
  CHECK_OK(tri_program_check(&alone, 1));
  tri_program_destroy(program);
  tri_parts_destroy(&parts);
}

/* ---- layouts ----------------------------------------------------------------------------------------------------- */

static void test_layouts_that_do_not_fit(void **state) {
  (void)state;
  tri_model model = small_model();
  tri_layout layout = layout_of(TRI_SCHEDULE_1F1B, 2, 1);
  layout.data = 3;
  CHECK_FAILS(tri_layout_resolve(&layout, &model, 32, 12, 8), TRI_BAD_LAYOUT,
              "tensor 1 x pipeline 2 x context 1 x data 3 = 6 ranks, and this job has 8; start the job with that many "
              "(-n), or set layout.data=4");
  layout = layout_of(TRI_SCHEDULE_1F1B, 3, 1);
  layout.data = 0;
  CHECK_FAILS(tri_layout_resolve(&layout, &model, 32, 12, 8), TRI_BAD_LAYOUT, "= 3 does not divide the 8 ranks");
  layout = layout_of(TRI_SCHEDULE_1F1B, 1, 1);
  layout.tensor = 3;
  CHECK_FAILS(tri_layout_resolve(&layout, &model, 32, 12, 3), TRI_BAD_LAYOUT,
              "layout.tensor 3 does not divide the model's 4 heads; 2 or 4 would");
  layout.tensor = 8;
  CHECK_FAILS(tri_layout_resolve(&layout, &model, 32, 12, 8), TRI_BAD_LAYOUT,
              "layout.tensor 8 does not divide the model's 4 heads; 4 would");
  layout = layout_of(TRI_SCHEDULE_1F1B, 6, 1);
  CHECK_FAILS(tri_layout_resolve(&layout, &model, 32, 12, 6), TRI_BAD_LAYOUT,
              "6 stages, and the model has 3 layers: every stage needs one, except the first and the last, which may "
              "have only the embedding and the output projection; set layout.pipeline to 5 or less");
  layout = layout_of(TRI_SCHEDULE_1F1B, 2, 1);
  layout.head_as_layers = 1;
  CHECK_FAILS(tri_layout_resolve(&layout, &model, 32, 12, 2), TRI_BAD_LAYOUT,
              "layout.embedding_as_layers is 0 and layout.head_as_layers 1, which layout.balance=work does not use; "
              "leave them out or set layout.balance=layers");
  layout = layout_of(TRI_SCHEDULE_1F1B, 1, 1);
  layout.data = 4;
  CHECK_FAILS(tri_layout_resolve(&layout, &model, 32, 12, 4), TRI_BAD_LAYOUT, "= 8; try 8 or 16");
  layout = layout_of(TRI_SCHEDULE_1F1B, 1, 1);
  layout.context = 2;
  CHECK_FAILS(tri_layout_resolve(&layout, &model, 1, 12, 2), TRI_BAD_LAYOUT,
              "layout.context 2 leaves ranks without a token of a sequence of 1");
  tri_schedule_shape shape = {1, 1, 3, 0};
  CHECK_FAILS(tri_schedule_of(TRI_SCHEDULE_INTERLEAVED)->check(&shape), TRI_BAD_LAYOUT, "set layout.schedule=1f1b");
  shape = (tri_schedule_shape){4, 2, 11, 4};
  CHECK_FAILS(tri_schedule_of(TRI_SCHEDULE_INTERLEAVED)->check(&shape), TRI_BAD_LAYOUT,
              "layout.micro_batch_group 4 divides the 11 micro-batches of a rank (optimizer.global_batch / "
              "(layout.micro_batch x layout.data)) into groups, but one group has fewer than layout.pipeline 4; use 6, "
              "or auto");
  shape = (tri_schedule_shape){4, 1, 11, 4};
  CHECK_FAILS(tri_schedule_of(TRI_SCHEDULE_1F1B)->check(&shape), TRI_BAD_LAYOUT,
              "layout.micro_batch_group is 4, which only the interleaved schedule uses");
  shape = (tri_schedule_shape){4, 2, 6, 0};
  CHECK_FAILS(tri_schedule_of(TRI_SCHEDULE_1F1B)->check(&shape), TRI_BAD_LAYOUT, "layout.virtual_stages=1");
}

/* Returns the least work of the busiest stage over all divisions of `layers`, with the work of the embedding and of the
 * head. Stages in the middle have at least one layer. */
static double least_work(int64_t layers, int64_t stages, double embedding, double head, bool first) {
  if (stages == 1) return embedding + (double)layers + head;
  double best = INFINITY;
  for (int64_t mine = first ? 0 : 1; mine <= layers; mine++) {
    best = fmin(best, fmax(embedding + (double)mine, least_work(layers - mine, stages - 1, 0, head, false)));
  }
  return best;
}

static int64_t layers_in(const tri_model *model, tri_layer_range range) {
  int64_t first = range.first < 0 ? 0 : range.first;
  return (range.end > model->num_layers ? model->num_layers : range.end) - first;
}

/* Checks that every layer is on one stage, in order, that only the first and the last stage may have none, and that the
 * busiest has the least possible work. */
static void check_stages(const tri_model *model, const tri_layout *layout, double embedding, double head) {
  int64_t next = -1, stages = layout->pipeline;
  double most = 0;
  for (int64_t v = 0; v < stages; v++) {
    tri_layer_range layers = tri_layout_layers(layout, model, v);
    int64_t count = layers_in(model, layers);
    assert_int_equal(layers.first, next);
    assert_true(layers.end > layers.first && count >= 0);
    assert_true(count > 0 || v == 0 || v == stages - 1);
    most = fmax(most, (double)count + (v == 0 ? embedding : 0) + (v == stages - 1 ? head : 0));
    next = layers.end;
  }
  assert_int_equal(next, model->num_layers + 1);
  double best = least_work(model->num_layers, stages, embedding, head, true);
  if (!(fabs(most - best) <= 1e-9)) {
    fail_msg("%ld layers, embedding %g, head %g, %ld stages: %g, not %g", (long)model->num_layers, embedding, head,
             (long)stages, most, best);
  }
}

static void test_stages(void **state) {
  (void)state;
  tri_model model = small_model();
  static const int64_t vocabularies[] = {1, 100, 1000, 4000, 20000};
  for (model.num_layers = 1; model.num_layers <= 10; model.num_layers++) {
    for (int64_t stages = 1; stages <= model.num_layers + 2; stages++) {
      tri_layout layout = {.pipeline = stages, .virtual_stages = 1};
      for (int k = 0; k < 5; k++) {
        model.vocab_size = vocabularies[k];
        check_stages(&model, &layout, 0, tri_model_head_in_layers(&model));
      }
      layout.balance = TRI_BALANCE_LAYERS;
      for (int k = 0; k < 12; k++) {
        layout.embedding_as_layers = k % 4;
        layout.head_as_layers = k / 4;
        check_stages(&model, &layout, (double)layout.embedding_as_layers, (double)layout.head_as_layers);
      }
    }
  }
}

/* Llama 3 405B (Grattafiori et al. 2024, section 3.3.2): 126 layers, with one layer less on the first stage and on the
 * last; in 16 x 8 chunks the first and the last chunk have only the embedding and the head. */
static void test_stages_of_llama_3(void **state) {
  (void)state;
  tri_model model = {.family = TRI_FAMILY_LLAMA,
                     .num_layers = 126,
                     .hidden_size = 16384,
                     .num_heads = 128,
                     .num_kv_heads = 8,
                     .ffn_size = 53248,
                     .vocab_size = 128256,
                     .max_sequence = 8192};
  CHECK_OK(tri_model_complete(&model));
  tri_layout layout = layout_of(TRI_SCHEDULE_INTERLEAVED, 16, 8);
  for (int counted = 0; counted < 3; counted++) {
    layout.balance = counted == 0 ? TRI_BALANCE_WORK : TRI_BALANCE_LAYERS; /* only one division has that many stages */
    layout.embedding_as_layers = layout.head_as_layers = counted == 2 ? 1 : 0;
    layout.data = 0;
    CHECK_OK(tri_layout_resolve(&layout, &model, 32, 32, 16));
    for (int64_t v = 0; v < 128; v++) {
      int64_t count = layers_in(&model, tri_layout_layers(&layout, &model, v));
      assert_int_equal(count, v == 0 || v == 127 ? 0 : 1);
    }
  }
  layout = layout_of(TRI_SCHEDULE_1F1B, 16, 1);
  layout.balance = TRI_BALANCE_LAYERS;
  layout.embedding_as_layers = layout.head_as_layers = 1;
  for (int64_t v = 0; v < 16; v++) {
    int64_t count = layers_in(&model, tri_layout_layers(&layout, &model, v));
    assert_int_equal(count, v == 0 || v == 15 ? 7 : 8);
  }
}

/* Returns a model with the members that a layout with experts needs. */
static tri_model model_of_experts(int64_t experts, int64_t width) {
  tri_model model = small_model();
  model.num_experts = experts;
  model.experts_per_token = 2;
  model.expert_ffn_size = width;
  return model;
}

static void test_layouts_of_experts(void **state) {
  (void)state;
  tri_model dense = small_model(), model = model_of_experts(6, 48);
  tri_layout layout = layout_of(TRI_SCHEDULE_1F1B, 1, 1);
  layout.data = 4;
  layout.micro_batch = 1;
  layout.expert = 2;
  CHECK_FAILS(tri_layout_resolve(&layout, &dense, 32, 4, 4), TRI_BAD_LAYOUT,
              "layout.expert is 2, and the model has no experts; set layout.expert to 1");
  layout.expert = 0;
  layout.expert_tensor = 2;
  CHECK_FAILS(tri_layout_resolve(&layout, &dense, 32, 4, 4), TRI_BAD_LAYOUT,
              "layout.expert_tensor is 2, and the model has no experts; set layout.expert_tensor to 1");
  layout.expert_tensor = 5;
  CHECK_FAILS(tri_layout_resolve(&layout, &model, 32, 4, 4), TRI_BAD_LAYOUT,
              "layout.expert_tensor 5 does not divide model.expert_ffn_size 48; 4 or 6 would");
  layout.expert_tensor = 3;
  CHECK_FAILS(tri_layout_resolve(&layout, &model, 32, 4, 4), TRI_BAD_LAYOUT,
              "layout.expert_tensor 3 does not divide the 4 ranks of a stage (tensor 1 x context 1 x data 4); 2 or 4 "
              "would");
  layout.expert_tensor = 2;
  layout.expert = 4;
  CHECK_FAILS(tri_layout_resolve(&layout, &model, 32, 4, 4), TRI_BAD_LAYOUT,
              "layout: expert_tensor 2 x expert 4 = 8 does not divide the 4 ranks of a stage (tensor 1 x context 1 x "
              "data 4); layout.expert 2 would");
  layout.expert_tensor = 1;
  layout.expert = 3;
  CHECK_FAILS(tri_layout_resolve(&layout, &model, 32, 4, 4), TRI_BAD_LAYOUT, "layout.expert 2 or 4 would");
  layout.expert = 8;
  CHECK_FAILS(tri_layout_resolve(&layout, &model, 32, 4, 4), TRI_BAD_LAYOUT,
              "layout.expert 8 leaves ranks without one of the model's 6 experts; set it to 4");
  layout.expert = -1;
  CHECK_FAILS(tri_layout_resolve(&layout, &model, 32, 4, 4), TRI_BAD_LAYOUT, "layout.expert is -1");
  /* More ranks than divide the number of experts: 6 experts over 4. No axis of one view is a part of an axis of the
   * other: 2 x 3. */
  layout.expert = 4;
  CHECK_OK(tri_layout_resolve(&layout, &model, 32, 4, 4));
  layout.tensor = layout.expert = 2;
  layout.data = layout.expert_tensor = 3;
  CHECK_OK(tri_layout_resolve(&layout, &model, 32, 3, 6));
  tri_mesh_shape shape = tri_layout_mesh_of(&layout, &model);
  assert_int_equal(tri_domain_size(&shape, TRI_DOMAIN_EXPERT), 6);
  assert_int_equal(tri_domain_size(&shape, TRI_DOMAIN_EXPERT_REPLICAS), 1);
  assert_int_equal(shape.expert, 2);
  assert_int_equal(tri_layout_mesh_of(&layout, &dense).expert, 0);
}

/* The nearest experts that fit the other sizes, found by trying all. */
static void test_nearest_experts(void **state) {
  (void)state;
  tri_model model = model_of_experts(6, 48);
  model.num_layers = 4;
  for (int64_t ranks = 1; ranks <= 12; ranks++) {
    for (int64_t i = 0; i < 36; i++) {
      tri_layout wanted = layout_of(TRI_SCHEDULE_1F1B, 1 + i % 2, 1), found;
      wanted.micro_batch = 1;
      wanted.expert = 1 + i % 6;
      wanted.expert_tensor = 1 + i / 6;
      if (tri_layout_nearest(&wanted, &model, 32, 12, ranks, &found) != TRI_OK) continue;
      tri_layout again = found;
      CHECK_OK(tri_layout_resolve(&again, &model, 32, 12, ranks));
      double least = INFINITY, has = 0;
      for (int64_t e = 1; e <= ranks; e++) {
        for (int64_t t = 1; t <= ranks; t++) {
          tri_layout layout = found;
          layout.expert = e;
          layout.expert_tensor = t;
          if (tri_layout_resolve(&layout, &model, 32, 12, ranks) != TRI_OK) continue;
          double distance = 1e6 * fabs(log2((double)e / (double)wanted.expert)) +
                            fabs(log2((double)t / (double)wanted.expert_tensor));
          if (distance < least) least = distance;
          if (e == found.expert && t == found.expert_tensor) has = distance;
        }
      }
      assert_true(has <= least);
    }
  }
}

/* The nearest layout, found by trying all in the documented order. */
static void test_nearest_layout(void **state) {
  (void)state;
  tri_model model = small_model();
  model.num_layers = 4;
  for (int64_t ranks = 1; ranks <= 12; ranks++) {
    for (int64_t batch = 1; batch <= 24; batch++) {
      tri_layout wanted = layout_of(TRI_SCHEDULE_1F1B, 2, 1), found, best = wanted;
      wanted.tensor = 2;
      wanted.micro_batch = 4;
      wanted.context = 1 + batch % 2;
      double least = INFINITY;
      for (int64_t t = 1; t <= ranks; t++) {
        for (int64_t i = 0; i < ranks * ranks; i++) {
          int64_t p = 1 + i / ranks, context = 1 + i % ranks;
          for (int64_t size = 1; size <= wanted.micro_batch; size++) {
            tri_layout layout = wanted;
            layout.tensor = t;
            layout.pipeline = p;
            layout.context = context;
            layout.data = 0;
            layout.micro_batch = size;
            if (tri_layout_resolve(&layout, &model, 32, batch, ranks) != TRI_OK) continue;
            double distance = 1e9 * fabs(log2((double)t / 2)) + 1e6 * fabs(log2((double)p / 2)) +
                              1e3 * fabs(log2((double)context / (double)wanted.context)) + 2 - log2((double)size);
            if (distance >= least) continue;
            least = distance;
            best = layout;
          }
        }
      }
      tri_status status = tri_layout_nearest(&wanted, &model, 32, batch, ranks, &found);
      assert_int_equal(status, isfinite(least) ? TRI_OK : TRI_BAD_LAYOUT);
      if (status != TRI_OK) continue;
      assert_int_equal(found.tensor * found.pipeline * found.context * found.data, ranks);
      assert_int_equal(found.context, best.context);
      assert_int_equal(found.tensor, best.tensor);
      assert_int_equal(found.pipeline, best.pipeline);
      assert_int_equal(found.micro_batch, best.micro_batch);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_programs),
      cmocka_unit_test(test_all_sizes),
      cmocka_unit_test(test_groups),
      cmocka_unit_test(test_whole_groups),
      cmocka_unit_test(test_groups_leave_no_gaps),
      cmocka_unit_test(test_evaluations_leave_no_gaps),
      cmocka_unit_test(test_settled_groups),
      cmocka_unit_test(test_shorter_steps),
      cmocka_unit_test(test_the_checker),
      cmocka_unit_test(test_ends),
      cmocka_unit_test(test_layouts_that_do_not_fit),
      cmocka_unit_test(test_stages),
      cmocka_unit_test(test_stages_of_llama_3),
      cmocka_unit_test(test_nearest_layout),
      cmocka_unit_test(test_layouts_of_experts),
      cmocka_unit_test(test_nearest_experts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
