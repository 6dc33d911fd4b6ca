/* Prices of the calls of a list of operations: the price of each pass and of the recomputed forward, and the change
 * of the price if the gradients of inputs and of weights are computed together. Since layers repeat, prices are
 * cached. */
#ifndef TRI_PLAN_CALL_PRICE_H
#define TRI_PLAN_CALL_PRICE_H

#include "ops/list.h"
#include "plan/price.h"

typedef struct tri_call_price {
  tri_price forward, backward_input, backward_weight;
  tri_price recompute; /* the forward that runs again before the layer's backward */
  tri_price together;  /* added if one instruction computes both backwards; may be negative, because of overlap */
} tri_call_price;

enum { TRI_PRICER_KNOWN = 64 };

/* Prices the calls of a layout. All pointers are owned by the caller. The cache begins with count 0. */
typedef struct tri_pricer {
  const tri_cluster *cluster;
  const tri_system *system;
  const tri_layout *layout; /* only its members recompute and recompute_every are read */
  tri_mesh_shape shape;     /* the mesh of the layout */
  struct {
    const tri_op *op;
    tri_pass pass;
    bool fp8;
    tri_cost cost;
    tri_price price;
  } known[TRI_PRICER_KNOWN]; /* cache [count] of the prices of passes */
  int count;
} tri_pricer;

/* Sets *out to the prices of call number `call` of a list. */
void tri_pricer_call(tri_pricer *pricer, const tri_op_list *list, int64_t call, tri_call_price *out);

/* The seconds of an attention on query-key pairs, without copies and communication. backward_s includes a recomputed
 * forward. */
typedef struct tri_attention_price {
  double forward_s, backward_s;
} tri_attention_price;

/* Returns the attention price of call number `call` of a list; 0 if the call is not an attention. */
tri_attention_price tri_pricer_attention(tri_pricer *pricer, const tri_op_list *list, int64_t call);

/* Returns the bytes of activations that the layer of call number `call` keeps from the forward to the backward of a
 * micro-batch. */
double tri_price_kept_bytes(const tri_system *system, const tri_op_list *list, int64_t call);

/* Returns whether the backward gathers the rows of a call again, instead of keeping those of the forward. The call
 * gathers rows from the tensor ranks, and the gradients of weights need them. */
bool tri_price_gathers_again(const tri_system *system, const tri_op_list *list, const tri_op_call *call);

#endif
