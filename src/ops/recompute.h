/* Recompute: activations that are dropped after the forward and recomputed before the backward that reads them (Chen et
 * al. 2016; selective: Korthikanti et al. 2022).
 *
 * tri_op_list_recompute marks on the list which slots are not kept, and which calls are recomputed. Calls are
 * recomputed layer by layer, just before the layer's backward. The memory plan and the executor read the marks. */
#ifndef TRI_OPS_RECOMPUTE_H
#define TRI_OPS_RECOMPUTE_H

#include "ops/list.h"

typedef enum tri_recompute {
  TRI_RECOMPUTE_NONE,
  TRI_RECOMPUTE_SELECTIVE, /* outputs of norms and activation functions: large, and cheap to recompute */
  TRI_RECOMPUTE_EXPERTS,   /* inputs and outputs of experts: larger than others by the number of experts per token */
  TRI_RECOMPUTE_FULL,      /* everything in a layer except its input */
} tri_recompute;

/* The activations to drop, and to recompute. */
typedef struct tri_recompute_choice {
  tri_recompute what;
  int64_t every; /* TRI_RECOMPUTE_FULL: activations are dropped only in layers whose index is a multiple of `every` */
  bool gathered; /* whether rows that sequence parallelism gathers from the tensor ranks are also dropped, in all
                    layers, and gathered again (Korthikanti et al. 2022, section 4.2.2) */
} tri_recompute_choice;

/* Calls [first, end) of a layer. */
typedef struct tri_call_range {
  int32_t first, end;
} tri_call_range;

/* Marks the slots and calls of a finished list that are recomputed. A recomputed call must find the same values in its
 * inputs as in the forward, so outputs that would overwrite such an input get memory of their own (tri_op_list_place).
 * Fails with TRI_INTERNAL if an input would be overwritten all the same. */
tri_status tri_op_list_recompute(tri_op_list *list, const tri_recompute_choice *choice);

/* Returns the calls that belong to the same layer as `call`. */
tri_call_range tri_op_list_layer(const tri_op_list *list, int64_t call);

/* Returns whether a backward reads the memory of slot `root`, the first slot in that memory, through any of the slots
 * that share it. */
bool tri_op_list_keeps(const tri_op_list *list, int32_t root);

#endif
