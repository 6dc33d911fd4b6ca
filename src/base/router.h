/* Routers: which experts a token goes to, and with what weights. Formulas only; no device. */
#ifndef TRI_BASE_ROUTER_H
#define TRI_BASE_ROUTER_H

#include <stdbool.h>
#include <stdint.h>

/* What a token's logits become: scores p. */
typedef enum tri_router_scoring {
  TRI_ROUTER_SOFTMAX, /* over all experts */
  TRI_ROUTER_SIGMOID, /* of each expert by itself (DeepSeek-V3) */
} tri_router_scoring;

/* Of each token, by its logits over `experts`:
 *
 *  1. scores p; choice = p + bias (p without a bias: a router may have one, which follows the load and has no
 * gradient);
 *  2. experts lie in `groups` of neighbours, equally many in each. A group's score is the sum of its `best_of_group`
 *     best choices; experts of the `kept_groups` groups with the best scores may be chosen (all of them where
 *     kept_groups is groups);
 *  3. the `chosen` best choices of these, in falling order; with `quota`, the chosen / kept_groups best of each kept
 *     group, and then all of these in falling order. Of equals the one with the lower number comes first;
 *  4. weights: their scores p, without the bias; `normalised`: divided by their sum, plus 1e-20 for a sigmoid; times
 *     `scale`.
 *
 * Logits that are not numbers choose some experts nevertheless, each once, and their weights are not numbers. */
typedef struct tri_router {
  int64_t experts, chosen;
  int64_t groups, kept_groups, best_of_group; /* 1, 1 and 1: no groups */
  double scale;
  tri_router_scoring scoring;
  bool quota;
  bool normalised;
} tri_router;

/* What keeps experts equally busy. Either is of sequences or of the global batch, never of a micro-batch, whose size is
 * a matter of the layout. */
typedef enum tri_balance_experts {
  TRI_BALANCE_EXPERTS_NONE,
  TRI_BALANCE_EXPERTS_SEQUENCE, /* a loss for each sequence (DeepSeek-V3): rate is its coefficient */
  TRI_BALANCE_EXPERTS_BIAS, /* the router's bias goes by `rate` towards those with less than the mean, once a step */
} tri_balance_experts;

static inline bool tri_balances_by_bias(tri_balance_experts balance) {
  switch (balance) {
    case TRI_BALANCE_EXPERTS_NONE:
    case TRI_BALANCE_EXPERTS_SEQUENCE: return false;
    case TRI_BALANCE_EXPERTS_BIAS: return true;
  }
  return false;
}

/* More experts than in any known model: kernels hold a token's in fast memory. */
enum { TRI_ROUTER_EXPERTS = 1024, TRI_ROUTER_CHOSEN = 64 };

#endif
