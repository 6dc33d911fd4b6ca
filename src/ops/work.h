/* What goes over elements one by one, by the names under which it is measured and priced: operations by their own, and
 * what a step does beside them. */
#ifndef TRI_OPS_WORK_H
#define TRI_OPS_WORK_H

#define TRI_WORKS(X)                                                                                                   \
  X("add", TRI_WORK_ADD)                                                                                               \
  X("layer_norm", TRI_WORK_LAYER_NORM)                                                                                 \
  X("rms_norm", TRI_WORK_RMS_NORM)                                                                                     \
  X("gelu", TRI_WORK_GELU)                                                                                             \
  X("swiglu", TRI_WORK_SWIGLU)                                                                                         \
  X("weighted_swiglu", TRI_WORK_WEIGHTED_SWIGLU)                                                                       \
  X("route", TRI_WORK_ROUTE)       /* all that is not a product, for each token and expert */                          \
  X("dispatch", TRI_WORK_DISPATCH) /* rows by their experts, for each pair of a token and an expert */                 \
  X("combine", TRI_WORK_COMBINE)   /* the sum of a token's rows, for each element of them */                           \
  X("embedding", TRI_WORK_EMBEDDING)                                                                                   \
  X("rope", TRI_WORK_ROPE)                                                                                             \
  X("linear", TRI_WORK_LINEAR)               /* the gradient of a bias */                                              \
  X("cross_entropy", TRI_WORK_CROSS_ENTROPY) /* all that is not a product, for each logit */                           \
  X("copy", TRI_WORK_COPY)                                                                                             \
  X("add_to", TRI_WORK_ADD_TO) /* of two gradients of a tied pair, in place */                                         \
  X("zero", TRI_WORK_ZERO)                                                                                             \
  X("pack", TRI_WORK_PACK)       /* of new weights */                                                                  \
  X("squares", TRI_WORK_SQUARES) /* of gradients, for their norm */                                                    \
  X("update", TRI_WORK_UPDATE)   /* AdamW */

typedef enum tri_work {
  TRI_WORK_ADD,
  TRI_WORK_LAYER_NORM,
  TRI_WORK_RMS_NORM,
  TRI_WORK_GELU,
  TRI_WORK_SWIGLU,
  TRI_WORK_WEIGHTED_SWIGLU,
  TRI_WORK_ROUTE,
  TRI_WORK_DISPATCH,
  TRI_WORK_COMBINE,
  TRI_WORK_EMBEDDING,
  TRI_WORK_ROPE,
  TRI_WORK_LINEAR,
  TRI_WORK_CROSS_ENTROPY,
  TRI_WORK_COPY,
  TRI_WORK_ADD_TO,
  TRI_WORK_ZERO,
  TRI_WORK_PACK,
  TRI_WORK_SQUARES,
  TRI_WORK_UPDATE,
} tri_work;

#endif
