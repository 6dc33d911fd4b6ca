/* ZB-H1 (Qi et al. 2023, "Zero Bubble Pipeline Parallelism", arXiv 2401.10241): 1F1B with a split backward. An
 * earlier stage waits only for the gradients of inputs. The gradients of weights are delayed by as many
 * micro-batches as there are earlier stages, and fill the bubble. Activations are kept until the backward of
 * weights: at most `stages` micro-batches on every stage, as many as on the first stage of 1F1B. If forwards,
 * backwards of inputs and backwards of weights take equally long, the bubble is a third of that of 1F1B. */
#include "schedule/schedule.h"

typedef struct counts {
  int64_t forwards, inputs, weights;
} counts;

static tri_status schedule_zero_bubble_forward(counts *done, tri_turns *out) {
  return tri_turns_append(out, (tri_turn){TRI_TURN_FORWARD, (int32_t)done->forwards++, 0});
}

static tri_status input(counts *done, tri_turns *out) {
  return tri_turns_append(out, (tri_turn){TRI_TURN_BACKWARD_INPUT, (int32_t)done->inputs++, 0});
}

static tri_status weight(counts *done, tri_turns *out) {
  return tri_turns_append(out, (tri_turn){TRI_TURN_BACKWARD_WEIGHT, (int32_t)done->weights++, 0});
}

static tri_status schedule_zero_bubble_turns(const tri_schedule_shape *shape, int64_t stage, tri_turns *out) {
  counts done = {0};
  int64_t count = shape->micro_batches, distance = shape->stages - 1 - stage;
  int64_t ahead = distance < count ? distance : count;
  while (done.forwards < ahead) TRI_TRY(schedule_zero_bubble_forward(&done, out));
  while (done.forwards < count) {
    TRI_TRY(schedule_zero_bubble_forward(&done, out));
    TRI_TRY(input(&done, out));
    if (done.inputs - done.weights > stage) TRI_TRY(weight(&done, out));
  }
  while (done.inputs < count) {
    TRI_TRY(input(&done, out));
    TRI_TRY(weight(&done, out));
  }
  while (done.weights < count) TRI_TRY(weight(&done, out));
  return TRI_OK;
}

const tri_schedule tri_schedule_zero_bubble = {.name = "zero-bubble",
                                               .split_backward = true,
                                               .check = tri_schedule_check_plain,
                                               .turns = schedule_zero_bubble_turns};
