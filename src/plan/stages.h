/* The stages of a layout with their prices, for the simulator. Stages with equal layers have the same kind, which holds
 * their parts and prices. */
#ifndef TRI_PLAN_STAGES_H
#define TRI_PLAN_STAGES_H

#include "plan/call_price.h"
#include "plan/simulate.h"
#include "schedule/parts.h"

/* Prefix sums of prices over a chunk's list, each [num_calls + 1]: entry c is the sum over the calls before c. */
typedef struct tri_chunk_prices {
  tri_price *forward, *backward_input, *backward_weight;
  tri_price *recompute; /* a layer's recomputed forwards, counted at its last call, whose backward follows them */
  tri_price *together;  /* added if one instruction computes both backwards (tri_call_price) */
  int64_t num_calls;
  tri_attention_price uneven; /* seconds of attention that are proportional to a micro-batch's attention fraction */
} tri_chunk_prices;

typedef struct tri_stage_kind {
  tri_layout listed; /* layout for the lists of operations, adapted to the system (tri_system_listed) */
  tri_parts parts;   /* has no program */
  tri_chunk_prices *chunks;
  double *reduce_s, *gather_s, *partial_s;    /* seconds of collectives [buckets]; partial_s: sums of partial
                                               * gradients */
  double prepare_s, update_s, clip_s, tied_s; /* seconds, once per step; prepare_s: packing and converting new weights;
                                               * tied_s: the sum of the tied embedding's gradients */
  bool tied;
} tri_stage_kind;

typedef struct tri_stages {
  const tri_simulation_request *request;
  int64_t num_stages, num_kinds;
  tri_stage_kind *kinds;
  int64_t *kind_of;                      /* [num_stages] */
  double message_s, count_s, clip_all_s; /* seconds; count_s: the sum of the token counts; clip_all_s: the sum of the
                                          * norm's squares */
  bool messages_hold;                    /* a stage cannot compute while it sends */
  bool forward_only;                     /* simulate forwards without a step, in the order of an evaluation */
  const double
      *more; /* [micro-batches], attention of each minus the mean, as a share of the mean; NULL: all are equal */
} tri_stages;

/* Creates and prices the stages. Release with tri_stages_destroy. */
tri_status tri_stages_create(const tri_simulation_request *request, tri_stages *out);
void tri_stages_destroy(tri_stages *stages);

/* Returns the request for the parts of a rank in a layout. */
tri_parts_request tri_stages_parts(const tri_simulation_request *request, const tri_layout *layout,
                                   int64_t micro_batches);

/* Return the price of an instruction's calls: their forwards, or their backwards (gradients of inputs, of weights, or
 * of both). The price of backwards includes recomputed forwards. */
tri_price tri_stages_price_forward(const tri_stage_kind *kind, const tri_instruction *at);
tri_price tri_stages_price_backward(const tri_stage_kind *kind, const tri_instruction *at, bool inputs, bool weights);

#endif
