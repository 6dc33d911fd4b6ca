/* Kinds of element-wise work, of operations and of other parts of a step. Tables of measured times have these names. */
#ifndef TRI_OPS_WORK_H
#define TRI_OPS_WORK_H

#define TRI_WORKS(X)                                                                                                   \
  X("add", TRI_WORK_ADD)                                                                                               \
  X("layer_norm", TRI_WORK_LAYER_NORM)                                                                                 \
  X("rms_norm", TRI_WORK_RMS_NORM)                                                                                     \
  X("gelu", TRI_WORK_GELU)                                                                                             \
  X("swiglu", TRI_WORK_SWIGLU)                                                                                         \
  X("weighted_swiglu", TRI_WORK_WEIGHTED_SWIGLU)                                                                       \
  X("route", TRI_WORK_ROUTE)       /* all but the GEMM; elements: tokens * experts */                                  \
  X("dispatch", TRI_WORK_DISPATCH) /* sorting rows by expert; elements: pairs of a token and an expert */              \
  X("combine",                                                                                                         \
    TRI_WORK_COMBINE) /* the sum of a token's rows; elements: pairs of a token and an expert, times the rows' width */ \
  X("embedding", TRI_WORK_EMBEDDING)                                                                                   \
  X("rope", TRI_WORK_ROPE)                                                                                             \
  X("linear", TRI_WORK_LINEAR)               /* the gradient of a bias */                                              \
  X("cross_entropy", TRI_WORK_CROSS_ENTROPY) /* all but the GEMM; elements: logits */                                  \
  X("copy", TRI_WORK_COPY)                                                                                             \
  X("add_to", TRI_WORK_ADD_TO) /* sum of two gradients of tied embeddings, in place */                                 \
  X("zero", TRI_WORK_ZERO)                                                                                             \
  X("pack", TRI_WORK_PACK)       /* packing of weights after an update */                                              \
  X("squares", TRI_WORK_SQUARES) /* squares of gradients, for their norm */                                            \
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
