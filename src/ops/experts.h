/* A layer of experts (mixture of experts): the feed-forward part of a layer has many small networks, the experts, and
 * each token uses a few of them (Shazeer et al. 2017).
 *
 * One function appends all of its calls:
 *
 *   route      scores of the experts, the best of them, their weights              x -> experts, weights
 *   dispatch   starts to send a row for each token and expert to the rank that has the expert
 *              (meanwhile: shared experts, which all tokens use)
 *   arrive     waits for the rows                                                      x -> rows
 *   experts    gated activation of each expert on its rows, times the row's weight               rows -> rows
 *   combine    sends the rows back, and sums them for each token                       rows -> out */
#ifndef TRI_OPS_EXPERTS_H
#define TRI_OPS_EXPERTS_H

#include "base/router.h"
#include "device/activation.h"
#include "ops/list.h"

typedef struct tri_expert_layer {
  tri_router router;
  int64_t width;           /* width of the residual stream */
  int64_t ffn_size;        /* hidden width of an expert, on all expert tensor ranks together */
  int64_t shared_ffn_size; /* hidden width of the shared experts, on all tensor ranks together; 0: no shared experts */
  tri_activation activation; /* activation of the gates of experts and shared experts */
  tri_balance_experts balance;
  double balance_rate; /* coefficient of the loss or of the update that balances the experts (base/router.h) */
  double z_loss;       /* coefficient of the mean of the squares of log(sum of exp(logits)); 0: no z-loss */
} tri_expert_layer;

/* Parameters' numbers in the list; -1: absent. Matrices are [out, in]. */
typedef struct tri_expert_parameters {
  int32_t router;      /* [experts, width] */
  int32_t router_bias; /* [experts] */
  int32_t gate_up;     /* stack; for each expert: gate [ffn_size, width], then up of the same shape */
  int32_t down;        /* stack; for each expert: [width, ffn_size] */
  int32_t shared_gate; /* [shared_ffn_size, width]; up of the same shape follows it in memory (joined) */
  int32_t shared_down; /* [width, shared_ffn_size] */
} tri_expert_parameters;

/* Appends the layer. x[R, width] is the input after the norm; *out is the value to add to the residual stream. */
tri_status tri_op_expert_layer(tri_op_list *list, const tri_expert_layer *layer,
                               const tri_expert_parameters *parameters, int32_t x, int32_t *out);

/* The load of experts that is assumed for a list's cost; all 0 for a list without experts. */
typedef struct tri_expert_load {
  double rows;          /* rows of a micro-batch on the rank with the most loaded experts */
  int64_t room, rounds; /* capacity in rows; number of windows (experts_internal.h) that `rows` rows take */
  double times; /* `rows` as a multiple of the rows under perfect balance; less than the requested imbalance if that is
                   impossible, since a token uses an expert only once */
} tri_expert_load;

tri_expert_load tri_op_expert_load(const tri_op_list *list);

#endif
