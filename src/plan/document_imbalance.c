#include "plan/document_imbalance.h"

#include "base/memory.h"
#include "plan/event_sim.h"

#include <math.h>

/* Uses the drawn documents only for the differences between micro-batches. Their mean attention fraction is known: the
 * request has it. */
tri_status tri_document_imbalance_find(const tri_simulation_request *request, const tri_attention_fractions **drawn,
                                       tri_simulation_request *busiest) {
  *busiest = *request;
  *drawn = NULL;
  if (request->drawn == NULL || !request->masked || request->masked_attention_fraction <= 0) return TRI_OK;
  TRI_TRY(tri_attention_fraction_table_find(request->drawn, request->layout, drawn));
  double more = (*drawn)->busiest / (*drawn)->mean;
  if (more > 1) busiest->masked_attention_fraction = fmin(request->masked_attention_fraction * more, 1);
  return TRI_OK;
}

/* UNEVEN_FORWARDS: number of forwards to simulate for steps of unequal micro-batches. UNEVEN_ORDERS: largest number
 * of such steps, each with another order of the micro-batches. */
enum { UNEVEN_FORWARDS = 8192, UNEVEN_ORDERS = 8 };

/* Returns a number of micro-batches that is large enough to show how a step waits for slow ones: several times the
 * number in flight. It is smaller than the number in the whole step by a whole number of periods
 * (tri_schedule_period), so that both steps end alike. */
static int64_t fewer_micro_batches(const tri_layout *layout, int64_t micro_batches) {
  int64_t few = UNEVEN_FORWARDS / (layout->pipeline * layout->virtual_stages), least = 8 * layout->pipeline;
  int64_t period = tri_schedule_period(layout, micro_batches);
  if (few < least) few = least;
  return few >= micro_batches ? micro_batches : micro_batches - (micro_batches - few) / period * period;
}

/* Returns whether stages wait for slow micro-batches throughout the step. They do if the schedule limits the number
 * of micro-batches in flight. With GPipe stages wait only once, for the slowest micro-batch of all. */
static bool waits_all_the_time(tri_schedule_kind schedule) {
  switch (schedule) {
    case TRI_SCHEDULE_GPIPE: return false;
    case TRI_SCHEDULE_1F1B:
    case TRI_SCHEDULE_INTERLEAVED:
    case TRI_SCHEDULE_ZERO_BUBBLE: return true;
  }
  return false;
}

/* Computes the seconds that a pipeline waits because micro-batches differ: the mean time of steps with drawn
 * micro-batches (scaled to the same mean area), minus the time of a step with equal ones. */
static tri_status pipeline_waits(tri_stages *stages, const tri_attention_fractions *drawn, double *out) {
  const tri_layout *layout = stages->request->layout;
  int64_t micro_batches = tri_layout_micro_batches(layout, stages->request->global_batch);
  int64_t few = fewer_micro_batches(layout, micro_batches), orders = UNEVEN_FORWARDS / (layout->pipeline * few);
  double *more = NULL, sum = 0;
  tri_step_sample alike, differing;
  tri_status status = TRI_OK;
  *out = 0;
  if (layout->pipeline == 1 || few == 1) return TRI_OK;
  if (orders > UNEVEN_ORDERS) orders = UNEVEN_ORDERS;
  if (orders < 1) orders = 1;
  TRI_TRY(tri_alloc("drawn micro-batches", (size_t)few, sizeof *more, &more));
  TRI_TRY_GOTO(tri_event_sim_turns(stages, few, NULL, &alike), done);
  stages->more = more;
  for (int64_t order = 0; order < orders; order++) {
    tri_attention_fraction_order(drawn, few, order, more);
    TRI_TRY_GOTO(tri_event_sim_turns(stages, few, NULL, &differing), done);
    sum += differing.step_s - alike.step_s;
  }
  if (waits_all_the_time(layout->schedule)) sum *= (double)micro_batches / (double)few;
  if (sum > 0) *out = sum / (double)orders;
done:
  stages->more = NULL;
  tri_free(more);
  return status;
}

/* Returns the seconds of attention of one micro-batch that depend on its documents, on the stage with the most. */
static double uneven_s(const tri_stages *stages) {
  double most = 0;
  for (int64_t k = 0; k < stages->num_kinds; k++) {
    double sum = 0;
    for (int64_t c = 0; c < stages->kinds[k].parts.num_chunks; c++) {
      const tri_attention_price *uneven = &stages->kinds[k].chunks[c].uneven;
      sum += uneven->forward_s + uneven->backward_s;
    }
    if (sum > most) most = sum;
  }
  return most;
}

tri_status tri_document_imbalance_of(tri_stages *stages, const tri_simulation_request *request,
                                     const tri_attention_fractions *drawn, tri_document_imbalance *out) {
  const tri_layout *layout = request->layout;
  double scale = request->masked_attention_fraction / drawn->mean;
  int64_t micro_batches = tri_layout_micro_batches(layout, request->global_batch);
  tri_document_imbalance uneven = {.micro_batches = drawn->count,
                                   .mean = request->masked_attention_fraction,
                                   .busiest = stages->request->masked_attention_fraction,
                                   .worst = fmin(scale * drawn->areas[drawn->count - 1], 1)};
  TRI_TRY(pipeline_waits(stages, drawn, &uneven.waiting_s));
  uneven.waiting_s +=
      uneven_s(stages) / drawn->busiest * tri_attention_fraction_most_sum(drawn, micro_batches, layout->data);
  *out = uneven;
  return TRI_OK;
}
