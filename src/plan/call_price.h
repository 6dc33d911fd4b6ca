/* Prices of the calls of a list: of each pass, of the recomputed forward, and the difference if the gradients of inputs
 * and of weights are computed together. Since layers repeat, prices are cached. */
#ifndef TRI_PLAN_CALL_PRICE_H
#define TRI_PLAN_CALL_PRICE_H

#include "ops/list.h"
#include "plan/price.h"

typedef struct tri_call_price {
  tri_price forward, backward_input, backward_weight;
  tri_price recompute; /* the forward that runs again before the layer's backward */
  tri_price together;  /* added if both backwards are done at once; may be negative */
} tri_call_price;

enum { TRI_PRICER_KNOWN = 64 };

typedef struct tri_pricer {
  const tri_cluster *cluster;
  const tri_system *system;
  const tri_layout *layout; /* its recompute and recompute_every are used */
  tri_mesh_shape shape;     /* the mesh of the layout */
  struct {
    const tri_op *op;
    tri_pass pass;
    bool fp8;
    tri_cost cost;
    tri_price price;
  } known[TRI_PRICER_KNOWN]; /* [count]: the cache */
  int count;
} tri_pricer;

/* Prices call number `call` of a list. */
void tri_pricer_call(tri_pricer *pricer, const tri_op_list *list, int64_t call, tri_call_price *out);

/* The seconds that attention spends on query-key pairs, without copies and communication; 0 if the call is not an
 * attention. A recomputed forward counts in the backward. */
typedef struct tri_attention_price {
  double forward_s, backward_s;
} tri_attention_price;

tri_attention_price tri_pricer_attention(tri_pricer *pricer, const tri_op_list *list, int64_t call);

/* Returns the bytes that the layer of `call` keeps of a micro-batch from the forward to the backward. */
double tri_price_kept_bytes(const tri_system *system, const tri_op_list *list, int64_t call);

/* Returns whether the rows that a call gathers from tensor ranks are gathered again for the gradients of weights,
 * instead of being kept. */
bool tri_price_gathers_again(const tri_system *system, const tri_op_list *list, const tri_op_call *call);

#endif
