/* The stages of a layout with their prices, for the simulator. Stages with equal layers share a kind: parts and prices.
 */
#ifndef TRI_PLAN_STAGES_H
#define TRI_PLAN_STAGES_H

#include "plan/call_price.h"
#include "plan/simulate.h"
#include "schedule/parts.h"

/* Prefix sums of prices over a chunk's list, each [num_calls + 1]: entry c is the sum over the calls before c. */
typedef struct tri_chunk_prices {
  tri_price *forward, *backward_input, *backward_weight;
  tri_price *recompute; /* recomputed forwards, counted at the layer's last call; they run before its backward */
  tri_price *together;  /* added if both backwards are done at once (tri_call_price) */
  int64_t num_calls;
  tri_attention_price uneven; /* seconds of a micro-batch that are proportional to its attention fraction */
} tri_chunk_prices;

typedef struct tri_stage_kind {
  tri_layout listed; /* layout whose lists of operations are the system's (tri_system_listed) */
  tri_parts parts;   /* without a program */
  tri_chunk_prices *chunks;
  double *reduce_s, *gather_s, *partial_s; /* [buckets] */
  double prepare_s, update_s, clip_s, tied_s;
  bool tied;
} tri_stage_kind;

typedef struct tri_stages {
  const tri_simulation_request *request;
  int64_t num_stages, num_kinds;
  tri_stage_kind *kinds;
  int64_t *kind_of; /* [num_stages] */
  double message_s, count_s, clip_all_s;
  bool messages_hold; /* a stage cannot compute while it sends */
  bool forward_only;  /* simulate forwards without a step, in the order of an evaluation */
  const double
      *more; /* difference of each micro-batch's attention from the mean, as a share of the mean; NULL: all equal */
} tri_stages;

/* Release with tri_stages_destroy. */
tri_status tri_stages_create(const tri_simulation_request *request, tri_stages *out);
void tri_stages_destroy(tri_stages *stages);

/* Returns the request for the parts of a rank in a layout. */
tri_parts_request tri_stages_parts(const tri_simulation_request *request, const tri_layout *layout,
                                   int64_t micro_batches);

/* Return the price of an instruction's calls: their forwards, or their backwards (gradients of inputs, of weights, or
 * of both). A price of backwards includes the recomputed forwards. */
tri_price tri_stages_price_forward(const tri_stage_kind *kind, const tri_instruction *at);
tri_price tri_stages_price_backward(const tri_stage_kind *kind, const tri_instruction *at, bool inputs, bool weights);

#endif
