/* Step programs, and the memory plans made from them. */
#include "base/memory.h"
#include "base/random.h"
#include "check.h"
#include "model/family.h"
#include "schedule/memory_plan.h"
#include "schedule/program.h"

#include <stdio.h>

static tri_layout one_rank(tri_schedule_kind schedule) {
  return (tri_layout){.tensor = 1,
                      .pipeline = 1,
                      .context = 1,
                      .data = 1,
                      .expert = 1,
                      .virtual_stages = 1,
                      .schedule = schedule,
                      .micro_batch = 2};
}

/* The program in one line: F0.0 is the forward of micro-batch 0 in frame 0. */
static const char *text_of(const tri_program *program) {
  static const char letters[] = {'L', 'C', 'P', 'F', 'B', 'I', 'W', 'c', 'U'};
  static char text[512];
  size_t used = 0;
  for (int64_t i = 0; i < program->num_instructions; i++) {
    const tri_instruction *at = &program->instructions[i];
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%c", i == 0 ? "" : " ", letters[at->kind]);
    if (at->micro_batch >= 0) used += (size_t)snprintf(text + used, sizeof text - used, "%d", at->micro_batch);
    if (at->frame >= 0) used += (size_t)snprintf(text + used, sizeof text - used, ".%d", at->frame);
  }
  return text;
}

static void check_program(tri_schedule_kind schedule, const char *expected, int64_t frames) {
  tri_layout layout = one_rank(schedule);
  tri_program *program = NULL;
  CHECK_OK(tri_program_create(&layout, 3, &program));
  assert_string_equal(text_of(program), expected);
  assert_int_equal(program->num_frames, frames);
  tri_program_destroy(program);
}

static void test_programs(void **state) {
  (void)state;
  check_program(TRI_SCHEDULE_1F1B, "L0 L1 L2 C P F0.0 B0.0 F1.0 B1.0 F2.0 B2.0 c U", 1);
  check_program(TRI_SCHEDULE_GPIPE, "L0 L1 L2 C P F0.0 F1.1 F2.2 B0.0 B1.1 B2.2 c U", 3);
  check_program(TRI_SCHEDULE_ZERO_BUBBLE, "L0 L1 L2 C P F0.0 I0.0 W0.0 F1.0 I1.0 W1.0 F2.0 I2.0 W2.0 c U", 1);
}

/* A stage of 1F1B holds at most as many micro-batches as there are stages from it to the last, and each is done once.
 */
static void test_1f1b_of_many_stages(void **state) {
  (void)state;
  const tri_schedule *schedule = tri_schedule_of(TRI_SCHEDULE_1F1B);
  for (int64_t stages = 1; stages <= 8; stages++) {
    for (int64_t stage = 0; stage < stages; stage++) {
      for (int64_t micro_batches = 1; micro_batches <= 12; micro_batches++) {
        tri_stream stream = {0};
        CHECK_OK(schedule->stream(stages, stage, micro_batches, &stream));
        int64_t forward = 0, backward = 0, most = 0;
        for (int64_t i = 0; i < stream.count; i++) {
          bool is_forward = stream.instructions[i].kind == TRI_FORWARD;
          assert_int_equal(stream.instructions[i].micro_batch, is_forward ? forward : backward);
          if (is_forward) {
            forward++;
          } else {
            backward++;
          }
          assert_true(forward >= backward);
          if (forward - backward > most) most = forward - backward;
        }
        assert_int_equal(forward, micro_batches);
        assert_int_equal(backward, micro_batches);
        assert_true(most <= stages - stage);
        tri_free(stream.instructions);
      }
    }
  }
}

static void test_what_one_rank_cannot(void **state) {
  (void)state;
  tri_program *program = NULL;
  tri_layout layout = one_rank(TRI_SCHEDULE_INTERLEAVED);
  CHECK_FAILS(tri_program_create(&layout, 3, &program), TRI_BAD_LAYOUT, "set layout.schedule=1f1b");
  layout = one_rank(TRI_SCHEDULE_1F1B);
  layout.pipeline = 4;
  CHECK_FAILS(tri_program_create(&layout, 3, &program), TRI_UNSUPPORTED, "layout.pipeline is 4");
  layout = one_rank(TRI_SCHEDULE_1F1B);
  layout.zero = 2;
  CHECK_FAILS(tri_program_create(&layout, 3, &program), TRI_UNSUPPORTED, "set layout.zero=0");
  layout = one_rank(TRI_SCHEDULE_1F1B);
  layout.recompute = TRI_RECOMPUTE_FULL;
  CHECK_FAILS(tri_program_create(&layout, 3, &program), TRI_UNSUPPORTED, "set layout.recompute=none");
}

/* ---- intervals --------------------------------------------------------------------------------------------------- */

static bool overlap(const tri_interval *a, const tri_interval *b) {
  return a->first <= b->last && b->first <= a->last && a->offset < b->offset + b->bytes &&
         b->offset < a->offset + a->bytes;
}

static void test_intervals(void **state) {
  (void)state;
  enum { MOST = 60, TIMES = 40 };
  tri_random_key key = tri_random_stream(1, TRI_RANDOM_TEST, 4);
  uint64_t draw = 0;
  for (int round = 0; round < 300; round++) {
    tri_interval intervals[MOST];
    size_t alive[TIMES] = {0}, least = 0, bytes = 0;
    int64_t count = tri_random_u32(key, draw++) % MOST + 1;
    for (int64_t i = 0; i < count; i++) {
      int64_t first = tri_random_u32(key, draw++) % TIMES;
      int64_t last = first + tri_random_u32(key, draw++) % 9;
      if (last >= TIMES) last = TIMES - 1;
      intervals[i] = (tri_interval){first, last, tri_random_u32(key, draw++) % 1000 + 1, 0};
      for (int64_t t = first; t <= last; t++) alive[t] += intervals[i].bytes;
    }
    for (int t = 0; t < TIMES; t++) least = alive[t] > least ? alive[t] : least;
    CHECK_OK(tri_intervals_place(intervals, count, &bytes));
    size_t reach = 0;
    for (int64_t i = 0; i < count; i++) {
      for (int64_t j = 0; j < i; j++) assert_false(overlap(&intervals[i], &intervals[j]));
      if (intervals[i].offset + intervals[i].bytes > reach) reach = intervals[i].offset + intervals[i].bytes;
    }
    assert_int_equal(reach, bytes);
    assert_true(bytes >= least && bytes <= 2 * least);
  }
}

/* ---- plans ------------------------------------------------------------------------------------------------------- */

static tri_model small_model(void) {
  tri_model model = {.family = TRI_FAMILY_GPT2,
                     .num_layers = 3,
                     .hidden_size = 64,
                     .num_heads = 4,
                     .num_kv_heads = 4,
                     .vocab_size = 300,
                     .max_sequence = 32,
                     .tied = true,
                     .norm_eps = 1e-5,
                     .init_std = 0.02,
                     .dropout = 0.1};
  CHECK_OK(tri_model_complete(&model));
  return model;
}

/* Everything that is kept lies apart, and inside its frame; regions follow one another and add up. */
static void test_plan(void **state) {
  (void)state;
  tri_model model = small_model();
  tri_op_list *list = NULL;
  tri_parameter_table *table = NULL;
  CHECK_OK(tri_parameter_table_create(&model, &table));
  CHECK_OK(tri_model_operations(&model, TRI_LIST_TRAIN, 2, 32, 32, TRI_FP32, &list));
  for (int split = 0; split < 2; split++) {
    for (int64_t frames = 1; frames <= 3; frames++) {
      tri_memory_request request = {.list = list,
                                    .num_values = table->num_elements,
                                    .training = true,
                                    .split_backward = split == 1,
                                    .num_frames = frames,
                                    .num_tokens = 100};
      tri_memory_plan *plan = NULL;
      CHECK_OK(tri_memory_plan_create(&request, &plan));
      assert_int_equal(plan->total_bytes, plan->transient + plan->transient_bytes);
      assert_int_equal(plan->transient, plan->frames + (size_t)frames * plan->frame_bytes);
      assert_true(plan->gradient_values >= plan->parameters + (size_t)table->num_elements * 4);
      assert_int_equal(plan->optimizer_bytes, 2 * plan->gradient_bytes);
      for (int64_t s = 0; s < list->num_slots; s++) {
        const tri_slot *slot = &list->slots[s];
        if (slot->kept) assert_int_equal(plan->slots[s].region, TRI_REGION_FRAME);
        if (slot->has_gradient) assert_int_not_equal(plan->gradients[s].region, TRI_REGION_NONE);
        if (plan->slots[s].region != TRI_REGION_FRAME) continue;
        assert_true(plan->slots[s].offset + tri_shape_bytes(&slot->shape) <= plan->frame_bytes);
        for (int64_t o = 0; o < s; o++) {
          if (plan->slots[o].region != TRI_REGION_FRAME || list->slots[o].memory_of == slot->memory_of) continue;
          size_t a = plan->slots[s].offset, b = plan->slots[o].offset;
          assert_true(a >= b + tri_shape_bytes(&list->slots[o].shape) || b >= a + tri_shape_bytes(&slot->shape));
        }
      }
      tri_memory_plan_destroy(plan);
    }
  }
  tri_op_list_destroy(list);
  tri_parameter_table_destroy(table);
}

/* The closed form of Korthikanti et al. 2022 for a layer's activations, 34 s b h bytes in 16 bits without the attention
 * matrix, counts what is kept there: this list keeps the same but for dropout masks, in its own type. */
static void test_kept_bytes_of_a_layer(void **state) {
  (void)state;
  size_t frame[2] = {0};
  for (int64_t i = 0; i < 2; i++) {
    tri_model model = small_model();
    model.num_layers = 2 + i;
    tri_op_list *list = NULL;
    tri_memory_plan *plan = NULL;
    CHECK_OK(tri_model_operations(&model, TRI_LIST_TRAIN, 2, 32, 32, TRI_BF16, &list));
    tri_memory_request request = {.list = list, .num_values = 1, .training = true, .num_frames = 1};
    CHECK_OK(tri_memory_plan_create(&request, &plan));
    frame[i] = plan->frame_bytes;
    tri_memory_plan_destroy(plan);
    tri_op_list_destroy(list);
  }
  size_t rows = 64, width = 64;
  /* Two norm inputs and outputs, q k v, attention's output, GELU's input and output: 2+2+3+1+4+4 widths of 2 bytes; and
   * mean, rstd (twice) and the log-sum-exp of 4 heads in 4. */
  size_t expected = rows * width * 16 * 2 + rows * (4 + 4) * 4;
  size_t tensors = 10 + 5;
  assert_true(frame[1] - frame[0] >= expected && frame[1] - frame[0] <= expected + tensors * 384);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_programs),  cmocka_unit_test(test_1f1b_of_many_stages),
      cmocka_unit_test(test_intervals), cmocka_unit_test(test_what_one_rank_cannot),
      cmocka_unit_test(test_plan),      cmocka_unit_test(test_kept_bytes_of_a_layer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
