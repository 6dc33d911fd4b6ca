/* The stages of a layout with their programs and their prices: what the simulator runs. Stages that hold alike layers
 * share everything but their programs. */
#ifndef TRI_PLAN_STAGES_H
#define TRI_PLAN_STAGES_H

#include "plan/call_price.h"
#include "plan/simulate.h"
#include "schedule/parts.h"

/* Sums over the calls before each of a chunk's list: [num_calls + 1]. */
typedef struct tri_chunk_prices {
  tri_price *forward, *backward_input, *backward_weight;
  tri_price *recompute; /* forwards that run again before a backward, at the call behind which they do */
  tri_price *together;  /* more, where both backwards are made at once */
  int64_t num_calls;
  tri_attention_price uneven; /* of a micro-batch: seconds that are in proportion to its documents' area */
} tri_chunk_prices;

typedef struct tri_stage_kind {
  tri_layout listed; /* the layout, but that it recomputes what the system makes of that */
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
  bool messages_hold; /* a sender does nothing else meanwhile */
  const double *more; /* of each micro-batch: its documents' area above that of the mean, as a share of it; or NULL */
} tri_stages;

/* Release with tri_stages_destroy. */
tri_status tri_stages_create(const tri_simulation_request *request, tri_stages *out);
void tri_stages_destroy(tri_stages *stages);

/* What the calls of an instruction compute: their forwards; or the backwards of inputs, weights or both, with the
 * forwards that run again before them. */
tri_price tri_stages_price_forward(const tri_stage_kind *kind, const tri_instruction *at);
tri_price tri_stages_price_backward(const tri_stage_kind *kind, const tri_instruction *at, bool inputs, bool weights);

#endif
