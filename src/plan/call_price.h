/* What the calls of a list cost: each pass by itself, what runs again before the backward, and what is saved where the
 * gradients of inputs and of weights are made together. Layers repeat, so what has been priced is found again. */
#ifndef TRI_PLAN_CALL_PRICE_H
#define TRI_PLAN_CALL_PRICE_H

#include "ops/list.h"
#include "plan/price.h"

typedef struct tri_call_price {
  tri_price forward, backward_input, backward_weight;
  tri_price recompute; /* the forward that runs again before the layer's backward */
  tri_price together;  /* more (or less, where it is negative) if both backwards are made at once */
} tri_call_price;

enum { TRI_PRICER_KNOWN = 64 };

typedef struct tri_pricer {
  const tri_cluster *cluster;
  const tri_system *system;
  const tri_layout *layout; /* with recompute, recompute_every */
  tri_mesh_shape shape;     /* of its mesh */
  struct {
    const tri_op *op;
    tri_pass pass;
    tri_cost cost;
    tri_price price;
  } known[TRI_PRICER_KNOWN];
  int count;
} tri_pricer;

void tri_pricer_call(tri_pricer *pricer, const tri_op_list *list, int64_t call, tri_call_price *out);

/* Seconds that a call computes pairs of positions for, without what it copies for that and what passes between ranks; 0
 * of a call that is not an attention. What runs again does so in the backward. */
typedef struct tri_attention_price {
  double forward_s, backward_s;
} tri_attention_price;

tri_attention_price tri_pricer_attention(tri_pricer *pricer, const tri_op_list *list, int64_t call);

/* Whether what a call collects from the ranks of its domain's slices is not kept for the gradients of weights that read
 * it, but collected again for them. */
bool tri_price_gathers_again(const tri_system *system, const tri_op_list *list, const tri_op_call *call);

#endif
