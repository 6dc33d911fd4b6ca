/* Memory plans: intervals that share memory, and addresses of a list's slots. */
#include "base/random.h"
#include "schedule/memory_plan.h"
#include "schedule/parts.h"
#include "small_model.h"

enum { MOST = 60, TIMES = 40 };

/* ---- intervals --------------------------------------------------------------------------------------------------- */

static bool overlap(const tri_interval *a, const tri_interval *b) {
  return a->first <= b->last && b->first <= a->last && a->offset < b->offset + b->bytes &&
         b->offset < a->offset + a->bytes;
}

/* Finds the place by the header's definition, trying all offsets: the lowest of 0 and the ends of others that are
 * placed. */
static size_t lowest_free(const tri_interval *intervals, const int64_t *order, int64_t placed) {
  tri_interval trial = intervals[order[placed]];
  size_t lowest = SIZE_MAX;
  for (int64_t e = -1; e < placed; e++) {
    const tri_interval *before = e < 0 ? NULL : &intervals[order[e]];
    trial.offset = before == NULL ? 0 : before->offset + before->bytes;
    bool is_free = true;
    for (int64_t i = 0; i < placed && is_free; i++) is_free = !overlap(&trial, &intervals[order[i]]);
    if (is_free && trial.offset < lowest) lowest = trial.offset;
  }
  return lowest;
}

/* Checks the order: largest first; of equal ones the one that begins first, then the first of the array. */
static void check_places(const tri_interval *intervals, int64_t count) {
  int64_t order[MOST];
  for (int64_t i = 0; i < count; i++) {
    int64_t at = i;
    for (; at > 0; at--) {
      const tri_interval *before = &intervals[order[at - 1]];
      if (before->bytes > intervals[i].bytes) break;
      if (before->bytes == intervals[i].bytes && before->first <= intervals[i].first) break;
      order[at] = order[at - 1];
    }
    order[at] = i;
  }
  for (int64_t i = 0; i < count; i++) assert_int_equal(intervals[order[i]].offset, lowest_free(intervals, order, i));
}

static void test_intervals(void **state) {
  (void)state;
  tri_random_key key = tri_random_stream(1, TRI_RANDOM_TEST, 4);
  uint64_t draw = 0;
  for (int round = 0; round < 300; round++) {
    tri_interval intervals[MOST];
    size_t alive[TIMES] = {0}, least = 0, bytes = 0;
    const int64_t count = tri_random_u32(key, draw++) % (MOST + 1);
    const uint32_t longest = round % 3 == 0 ? TIMES : 9, largest = round % 2 == 0 ? 1000 : 4; /* 4: many equal ones */
    for (int64_t i = 0; i < count; i++) {
      int64_t first = tri_random_u32(key, draw++) % TIMES;
      int64_t last = first + tri_random_u32(key, draw++) % longest;
      if (last >= TIMES) last = TIMES - 1;
      intervals[i] = (tri_interval){first, last, tri_random_u32(key, draw++) % largest + 1, 0};
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
    check_places(intervals, count);
  }
}

/* ---- plans ------------------------------------------------------------------------------------------------------- */

/* Kept slots do not overlap, and are inside their frame; regions are adjacent, and their sizes add up. */
static void test_plan(void **state) {
  (void)state;
  tri_model model = small_model();
  tri_op_list *list = NULL;
  tri_parameter_table *table = NULL;
  CHECK_OK(tri_parameter_table_create(&model, NULL, &table));
  tri_list_request list_request = tri_list_request_whole(&model, TRI_LIST_TRAIN, 2, 32, TRI_FP32);
  CHECK_OK(tri_model_operations(&model, &list_request, &list));
  const tri_updates states = {.state_bytes = 8 * (size_t)table->num_elements};
  const tri_buckets buckets = {.gather_buffer_elements = 4000,
                               .reduce_buffer_elements = 3000}; /* ZeRO 3, one micro-batch */
  for (int split = 0; split < 2; split++) {
    for (int64_t frames = 1; frames <= 3; frames++) {
      tri_memory_request request = {.lists = (const tri_op_list *const *)&list,
                                    .num_chunks = 1,
                                    .num_values = table->num_elements,
                                    .num_gradients = table->num_gradient_elements,
                                    .updates = &states,
                                    .buckets = &buckets,
                                    .training = true,
                                    .split_backward = split == 1,
                                    .num_frames = &frames,
                                    .num_batches = 2,
                                    .device = frames == 2 ? &tri_description_accelerator : NULL};
      tri_memory_plan *plan = NULL;
      CHECK_OK(tri_memory_plan_create(&request, &plan));
      const tri_chunk_plan *chunk = &plan->chunks[0];
      assert_int_equal(plan->arena_bytes, plan->transient + plan->transient_bytes);
      assert_int_equal(plan->queue_bytes, frames == 2 ? (size_t)32 << 20 : 0);
      assert_int_equal(plan->device_bytes, plan->weights.bytes + plan->arena_bytes + plan->queue_bytes);
      assert_int_equal(plan->total_bytes, plan->device_bytes + plan->host_bytes);
      assert_int_equal(plan->transient, chunk->frames + (size_t)frames * chunk->frame_bytes);
      assert_int_equal(plan->parameter_bytes, plan->weights.bytes);
      assert_true(plan->weights.gather_buffers >= (size_t)table->num_elements * 4);
      assert_true(plan->weights.frozen[0] >= plan->weights.gather_buffers + (size_t)TRI_BUCKET_BUFFERS * 4000 * 4);
      assert_true(plan->sink >= plan->reduce_buffers + (size_t)TRI_BUCKET_BUFFERS * 3000 * 4);
      assert_int_equal(plan->optimizer_bytes, tri_padded_bytes(states.state_bytes));
      for (int64_t s = 0; s < list->num_slots; s++) {
        const tri_slot *slot = &list->slots[s];
        if (slot->kept) assert_int_equal(chunk->slots[s].region, TRI_REGION_FRAME);
        if (slot->has_gradient) assert_int_not_equal(chunk->gradients[s].region, TRI_REGION_NONE);
        if (chunk->slots[s].region != TRI_REGION_FRAME) continue;
        assert_true(chunk->slots[s].offset + tri_shape_bytes(&slot->shape) <= chunk->frame_bytes);
        for (int64_t o = 0; o < s; o++) {
          if (chunk->slots[o].region != TRI_REGION_FRAME || list->slots[o].memory_of == slot->memory_of) continue;
          size_t a = chunk->slots[s].offset, b = chunk->slots[o].offset;
          assert_true(a >= b + tri_shape_bytes(&list->slots[o].shape) || b >= a + tri_shape_bytes(&slot->shape));
        }
      }
      tri_memory_plan_destroy(plan);
    }
  }
  tri_op_list_destroy(list);
  tri_parameter_table_destroy(table);
}

/* Korthikanti et al. 2022 give 34 s b h bytes for a layer's activations in 16 bits without the attention matrix. This
 * list keeps the same ones except for dropout masks, in its own type. */
static void test_kept_bytes_of_a_layer(void **state) {
  (void)state;
  size_t frame[2] = {0};
  for (int64_t i = 0; i < 2; i++) {
    tri_model model = small_model();
    model.num_layers = 2 + i;
    tri_op_list *list = NULL;
    tri_memory_plan *plan = NULL;
    const int64_t one_frame = 1;
    tri_list_request list_request = tri_list_request_whole(&model, TRI_LIST_TRAIN, 2, 32, TRI_BF16);
    CHECK_OK(tri_model_operations(&model, &list_request, &list));
    tri_memory_request request = {.lists = (const tri_op_list *const *)&list,
                                  .num_chunks = 1,
                                  .num_values = 1,
                                  .training = true,
                                  .num_frames = &one_frame};
    CHECK_OK(tri_memory_plan_create(&request, &plan));
    frame[i] = plan->chunks[0].frame_bytes;
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

/* Returns whether two slots do not overlap. A sum that is fused into the next norm is read when the norm runs, so the
 * norm's outputs must not overlap it. */
static bool lie_apart(const tri_op_list *list, const tri_chunk_plan *chunk, int32_t a, int32_t b) {
  const tri_place p = chunk->slots[a], q = chunk->slots[b];
  return p.region != q.region || p.offset + tri_shape_bytes(&list->slots[a].shape) <= q.offset ||
         q.offset + tri_shape_bytes(&list->slots[b].shape) <= p.offset;
}

static void test_sums_left_to_norms(void **state) {
  (void)state;
  tri_model model = small_model();
  model.dropout = 0; /* else a branch is written in the place of a slot that is not kept */
  int64_t found = 0;
  for (int training = 0; training < 2; training++) {
    const tri_list_purpose use = training == 1 ? TRI_LIST_TRAIN : TRI_LIST_GENERATE;
    const int64_t one_frame = 1;
    tri_op_list *list = NULL;
    tri_memory_plan *plan = NULL;
    tri_list_request list_request = tri_list_request_whole(&model, use, 2, 32, TRI_FP32);
    CHECK_OK(tri_model_operations(&model, &list_request, &list));
    tri_memory_request request = {.lists = (const tri_op_list *const *)&list,
                                  .num_chunks = 1,
                                  .num_values = 1,
                                  .training = training == 1,
                                  .num_frames = &one_frame};
    CHECK_OK(tri_memory_plan_create(&request, &plan));
    for (int64_t c = 0; c < list->num_calls; c++) {
      const tri_op_call *norm = &list->calls[c], *sum = norm->sum < 0 ? NULL : &list->calls[norm->sum];
      if (sum == NULL) continue;
      found++;
      for (int i = 0; i < 2; i++) {
        for (int o = 0; o < TRI_OP_OUTPUTS; o++) {
          if (norm->outputs[o] >= 0) assert_true(lie_apart(list, &plan->chunks[0], sum->inputs[i], norm->outputs[o]));
        }
      }
    }
    tri_memory_plan_destroy(plan);
    tri_op_list_destroy(list);
  }
  assert_true(found >= 2 * model.num_layers);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_intervals),
      cmocka_unit_test(test_plan),
      cmocka_unit_test(test_kept_bytes_of_a_layer),
      cmocka_unit_test(test_sums_left_to_norms),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
