/* Recomputation: activations that are thrown away after the forward and made again before the backward that reads them
 * (Chen et al. 2016; selective: Korthikanti et al. 2022).
 *
 * Decided here once, on the list: which slots are not kept, and which calls run again. They run again layer by layer,
 * just before the layer's backward. The memory plan and the executor follow the marks. */
#ifndef TRI_OPS_RECOMPUTE_H
#define TRI_OPS_RECOMPUTE_H

#include "ops/list.h"

typedef enum tri_recompute {
  TRI_RECOMPUTE_NONE,
  TRI_RECOMPUTE_SELECTIVE, /* outputs of norms and activation functions: large, and cheap to make again            */
  TRI_RECOMPUTE_EXPERTS, /* rows of experts and what these make of them: as many times as large as experts are chosen */
  TRI_RECOMPUTE_FULL,    /* all of a layer but what it was given                                                 */
} tri_recompute;

/* Calls [first, end) of a layer. */
typedef struct tri_call_range {
  int32_t first, end;
} tri_call_range;

/* Marks a finished list: layers whose number is a multiple of `every`. What runs again must find in its inputs what it
 * found going forward: outputs that would be written over such an input get memory of their own (tri_op_list_place).
 * TRI_INTERNAL if one of its inputs would hold something else nevertheless. */
tri_status tri_op_list_recompute(tri_op_list *list, tri_recompute what, int64_t every);

/* The calls that belong to the same layer as `call`. */
tri_call_range tri_op_list_layer(const tri_op_list *list, int64_t call);

#endif
