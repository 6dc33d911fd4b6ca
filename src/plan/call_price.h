/* Prices of the calls of a list of operations. The pricer caches the prices of passes, since the layers of a list
 * repeat. */
#ifndef TRI_PLAN_CALL_PRICE_H
#define TRI_PLAN_CALL_PRICE_H

#include "ops/list.h"
#include "plan/price.h"

/* The prices of the passes of a call. */
typedef struct tri_call_price {
  tri_price forward, backward_input, backward_weight;
  tri_price recompute; /* price of the forward that runs again before the backward of the layer */
  /* Price that is added if one instruction computes both backwards; negative if collectives overlap. */
  tri_price together;
} tri_call_price;

enum { TRI_PRICER_KNOWN = 64 };

/* Prices the calls of a layout. All pointers are owned by the caller; `count` begins as 0. */
typedef struct tri_pricer {
  const tri_cluster *cluster;
  const tri_system *system;
  const tri_layout *layout; /* layout; only `recompute` and `recompute_every` are read */
  tri_mesh_shape shape;     /* the mesh of the layout */
  struct {
    const tri_op *op;
    tri_pass pass;
    bool fp8;
    tri_cost cost;
    tri_price price;
  } known[TRI_PRICER_KNOWN]; /* cache of the prices of passes [count] */
  int count;
} tri_pricer;

/* Sets *out to the prices of call number `call` of a list. */
void tri_pricer_call(tri_pricer *pricer, const tri_op_list *list, int64_t call, tri_call_price *out);

/* The seconds of the query-key pairs of an attention, without copies and communication. backward_s includes a
 * recomputed forward. */
typedef struct tri_attention_price {
  double forward_s, backward_s;
} tri_attention_price;

/* Returns the attention price of call number `call` of a list; {0, 0} if the call is not an attention. */
tri_attention_price tri_pricer_attention(tri_pricer *pricer, const tri_op_list *list, int64_t call);

/* Returns the bytes of activations that the layer of call number `call` keeps from the forward to the backward of a
 * micro-batch, on the device or on the host. */
double tri_price_kept_bytes(const tri_system *system, const tri_op_list *list, int64_t call);

/* Returns whether the system gathers the rows of a call again in the backward, instead of keeping those of the forward.
 * True only for a call that gathers rows from the tensor ranks for a GEMM, whose weight gradient needs these rows. */
bool tri_price_gathers_again(const tri_system *system, const tri_op_list *list, const tri_op_call *call);

#endif
