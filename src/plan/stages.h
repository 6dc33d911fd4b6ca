/* The stages of a layout with their prices, for the simulator. Stages with equal layers have the same *kind*: they
 * share their parts (schedule/parts.h) and prices. */
#ifndef TRI_PLAN_STAGES_H
#define TRI_PLAN_STAGES_H

#include "plan/call_price.h"
#include "plan/simulate.h"
#include "schedule/parts.h"

/* Prefix sums of prices over the operations of a chunk, each [num_calls + 1]: entry c is the sum over calls 0 .. c -
 * 1. */
typedef struct tri_chunk_prices {
  tri_price *forward, *backward_input, *backward_weight;
  /* Recomputed forwards; the sum of a layer is added at its last call, where its backward begins. */
  tri_price *recompute;
  tri_price *together; /* prices that are added if one instruction computes both backwards (tri_call_price) */
  int64_t num_calls;
  /* Seconds of attention in all calls of the chunk that are proportional to the attention fraction. */
  tri_attention_price uneven;
} tri_chunk_prices;

/* Stages with equal layers. */
typedef struct tri_stage_kind {
  tri_layout listed;        /* layout for the lists of operations, adapted to the system (tri_system_listed) */
  tri_parts parts;          /* parts of the first stage of this kind, without a program */
  tri_chunk_prices *chunks; /* prices of each chunk [parts.num_chunks] */
  double *reduce_s, *gather_s, *partial_s; /* seconds of the collectives of each bucket [buckets]: reduction of
                                              gradients, gather of parameters, sum of partial gradients */
  /* Seconds of work once per step: packing and converting new weights; the update; the sum of squares for the
   * gradient norm; the sum of the gradients of tied embeddings. */
  double prepare_s, update_s, clip_s, tied_s;
  bool tied; /* whether the stage has a tied embedding */
} tri_stage_kind;

typedef struct tri_stages {
  const tri_simulation_request *request;
  int64_t num_stages, num_kinds;
  tri_stage_kind *kinds;                 /* kinds of stages of the layout [num_kinds] */
  int64_t *kind_of;                      /* index in `kinds` for each stage [num_stages] */
  double message_s, count_s, clip_all_s; /* seconds of a message between stages, of the all-reduce of token counts,
                                            and of the all-reduce of the gradient norm */
  bool messages_hold;                    /* whether a stage does not compute while it sends */
  bool forward_only;                     /* whether only the forwards of a step are simulated, in the order of an
                                            evaluation */
  const double *more; /* attention fraction of each micro-batch, as (fraction - mean) / mean [micro-batches]; NULL:
                         all are equal */
} tri_stages;

/* Creates the stages and computes their prices. The request must outlive the stages. Release with
 * tri_stages_destroy. */
tri_status tri_stages_create(const tri_simulation_request *request, tri_stages *out);
void tri_stages_destroy(tri_stages *stages);

/* Returns the request to create the parts of a rank (schedule/parts.h) in a layout, for planning. */
tri_parts_request tri_stages_parts(const tri_simulation_request *request, const tri_layout *layout,
                                   int64_t micro_batches);

/* Does the same as tri_predict_fullest for the request of the stages (memory.c). */
tri_status tri_stages_predict_fullest(const tri_stages *stages, double room, int64_t *stage, tri_memory_parts *out);

/* Return the price of an instruction, a forward or a backward over a range of calls. `inputs`, `weights`: the
 * gradients that the backward computes, at least one of them. Backwards include recomputed forwards. */
tri_price tri_stages_price_forward(const tri_stage_kind *kind, const tri_instruction *at);
tri_price tri_stages_price_backward(const tri_stage_kind *kind, const tri_instruction *at, bool inputs, bool weights);

#endif
