/* A layer of experts: the feed-forward part of a block, of which each token meets a few (Shazeer et al. 2017).
 *
 * One function appends all of its calls:
 *
 *   route      scores of the experts, the best of them, their weights              x -> experts, weights
 *   dispatch   a row for each token and expert is on its way to the rank that has the expert
 *              (meanwhile: a dense part that all tokens meet)
 *   arrive     the rows are there                                                      x -> rows
 *   experts    gated activation of each expert on its rows, times the row's weight               rows -> rows
 *   combine    they come back: their sum for each token                                rows -> out */
#ifndef TRI_OPS_EXPERTS_H
#define TRI_OPS_EXPERTS_H

#include "base/router.h"
#include "device/activation.h"
#include "ops/list.h"

typedef struct tri_expert_layer {
  tri_router router;
  int64_t width;             /* of the residual stream */
  int64_t ffn_size;          /* of an expert, whole */
  int64_t shared_ffn_size;   /* of what all tokens meet beside them, whole; 0: nothing */
  tri_activation activation; /* of its gate, and of what all tokens meet */
  tri_balance_experts balance;
  double balance_rate;
  double z_loss; /* coefficient of the mean of the squares of log(sum of exp(logits)); 0: none */
} tri_expert_layer;

/* Parameters by their number; -1: none. Matrices are [out, in]. */
typedef struct tri_expert_parameters {
  int32_t router;      /* [experts, width] */
  int32_t router_bias; /* [experts] */
  int32_t gate_up;     /* a stack: of each expert gate, then up: [ffn_size, width] */
  int32_t down;        /* a stack: of each expert [width, ffn_size] */
  int32_t shared_gate; /* [shared_ffn_size, width], and up joined to it */
  int32_t shared_down; /* [width, shared_ffn_size] */
} tri_expert_parameters;

/* Appends the layer: from x[R, width], behind the norm, to what is added to the residual stream. */
tri_status tri_op_expert_layer(tri_op_list *list, const tri_expert_layer *layer,
                               const tri_expert_parameters *parameters, int32_t x, int32_t *out);

/* What the layers of a list are priced for: the most rows that a rank's experts have of a micro-batch, the rows that
 * have room at a time, and in how many rounds they are worked on; `times` those that they have where all experts are
 * equally busy, which is less than was asked for where a token cannot meet an expert twice. All 0 of a list without
 * experts. */
typedef struct tri_expert_load {
  double rows;
  int64_t room, rounds;
  double times;
} tri_expert_load;

tri_expert_load tri_op_expert_load(const tri_op_list *list);

#endif
