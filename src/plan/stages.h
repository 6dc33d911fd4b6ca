/* The stages of a layout with their prices, for the simulator. Stages with equal layers have the same kind; a kind
 * has the parts and the prices of its stages. */
#ifndef TRI_PLAN_STAGES_H
#define TRI_PLAN_STAGES_H

#include "plan/call_price.h"
#include "plan/simulate.h"
#include "schedule/parts.h"

/* Prefix sums of prices over the list of a chunk, each [num_calls + 1]: entry c is the sum over the calls 0 .. c -
 * 1. */
typedef struct tri_chunk_prices {
  tri_price *forward, *backward_input, *backward_weight;
  tri_price *recompute; /* recomputed forwards. Those of a layer are all added at its last call, where its
                           backward begins */
  tri_price *together;  /* added if one instruction computes both backwards (tri_call_price) */
  int64_t num_calls;
  tri_attention_price uneven; /* seconds of attention in all calls of the chunk that grow with the attention fraction of
                                 the micro-batch */
} tri_chunk_prices;

/* Stages with equal layers. */
typedef struct tri_stage_kind {
  tri_layout listed;        /* layout of the lists of operations, adapted to the system (tri_system_listed) */
  tri_parts parts;          /* parts of one stage of this kind; without a program */
  tri_chunk_prices *chunks; /* [parts.num_chunks] */
  double *reduce_s, *gather_s, *partial_s;    /* seconds of the collectives of each bucket [buckets]: reduction of
                                                 gradients, gather of parameters, and all-reduce of partial gradients */
  double prepare_s, update_s, clip_s, tied_s; /* seconds of work once per step; prepare_s: packing and converting new
                                                 weights; tied_s: adding up the gradients of tied embeddings */
  bool tied;                                  /* the stage has a tied embedding, and takes the time tied_s */
} tri_stage_kind;

typedef struct tri_stages {
  const tri_simulation_request *request;
  int64_t num_stages, num_kinds;
  tri_stage_kind *kinds;                 /* [num_kinds] */
  int64_t *kind_of;                      /* index in `kinds` of the kind of each stage [num_stages] */
  double message_s, count_s, clip_all_s; /* seconds of a message between stages, of the sum of the token counts of a
                                            step, and of the sum of the squares of the gradient norm */
  bool messages_hold;                    /* a stage cannot compute while it sends */
  bool forward_only;                     /* simulate only the forwards, in the order of an evaluation */
  const double *more; /* attention of each micro-batch minus the mean, as a share of the mean [micro-batches]; NULL: all
                         are equal */
} tri_stages;

/* Creates the stages and computes their prices. The request must outlive them. Release with tri_stages_destroy. */
tri_status tri_stages_create(const tri_simulation_request *request, tri_stages *out);
void tri_stages_destroy(tri_stages *stages);

/* Returns the request for the parts of a rank (schedule/parts.h) in a layout, for planning. */
tri_parts_request tri_stages_parts(const tri_simulation_request *request, const tri_layout *layout,
                                   int64_t micro_batches);

/* Return the price of the forwards or of the backwards of an instruction's calls. Backwards compute the gradients of
 * inputs, of weights, or of both, and include recomputed forwards. */
tri_price tri_stages_price_forward(const tri_stage_kind *kind, const tri_instruction *at);
tri_price tri_stages_price_backward(const tri_stage_kind *kind, const tri_instruction *at, bool inputs, bool weights);

#endif
