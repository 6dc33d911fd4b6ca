/* Routers: the experts of a token, and their weights. Formulas only; independent of devices. */
#ifndef TRI_BASE_ROUTER_H
#define TRI_BASE_ROUTER_H

#include <stdbool.h>
#include <stdint.h>

/* Function from a token's logits to scores p. */
typedef enum tri_router_scoring {
  TRI_ROUTER_SOFTMAX, /* softmax over all experts */
  TRI_ROUTER_SIGMOID, /* sigmoid of each logit (DeepSeek-V3) */
} tri_router_scoring;

/* The router chooses experts for each token from its logits over `experts`:
 *
 *  1. scores p; choice = p + bias (a router may have a bias, which follows the load and has no gradient);
 *  2. experts are divided into `groups` of adjacent experts, equally many in each. A group's score is the sum of its
 *     `best_of_group` best choices. Only experts of the `kept_groups` groups with the best scores may be chosen (all if
 *     kept_groups equals groups);
 *  3. the `chosen` best choices among these, in descending order; with `quota`, the
 *     chosen / kept_groups best of each kept group, then sorted in descending order. Experts of equal choice are in the
 *     order of their numbers;
 *  4. weights: their scores p, without the bias; `normalised`: divided by their sum, plus 1e-20 for a sigmoid; times
 *     `scale`.
 *
 * NaN logits still choose experts, each once, with NaN weights. */
typedef struct tri_router {
  int64_t experts, chosen;
  int64_t groups, kept_groups, best_of_group; /* 1, 1 and 1: experts are not in groups */
  double scale;
  tri_router_scoring scoring;
  bool quota;
  bool normalised;
} tri_router;

/* Method of balancing the load of experts. Each depends on sequences or on the global batch, never on a micro-batch,
 * whose size depends on the layout. `balance_rate` is a key of the model's configuration. */
typedef enum tri_balance_experts {
  TRI_BALANCE_EXPERTS_NONE,
  TRI_BALANCE_EXPERTS_SEQUENCE, /* a loss for each sequence (DeepSeek-V3), with the coefficient balance_rate */
  TRI_BALANCE_EXPERTS_BIAS,     /* once a step the router's bias changes by balance_rate: up for experts below the mean
                                   load, down for experts above it */
} tri_balance_experts;

static inline bool tri_balances_by_bias(tri_balance_experts balance) {
  switch (balance) {
    case TRI_BALANCE_EXPERTS_NONE:
    case TRI_BALANCE_EXPERTS_SEQUENCE: return false;
    case TRI_BALANCE_EXPERTS_BIAS: return true;
  }
  return false;
}

/* Maximum numbers of experts and of chosen experts. They are above those of any known model; kernels keep a token's
 * experts in fast memory. */
enum { TRI_ROUTER_EXPERTS = 1024, TRI_ROUTER_CHOSEN = 64 };

#endif
