/* Recompute: activations that are dropped after the forward and computed again before the backward that reads them
 * (Chen et al. 2016; selective: Korthikanti et al. 2022).
 *
 * It is decided here, by marks on the list: which slots are not kept, and which calls run again. These run again layer
 * by layer, just before the layer's backward. The memory plan and the executor read the marks. */
#ifndef TRI_OPS_RECOMPUTE_H
#define TRI_OPS_RECOMPUTE_H

#include "ops/list.h"

typedef enum tri_recompute {
  TRI_RECOMPUTE_NONE,
  TRI_RECOMPUTE_SELECTIVE, /* outputs of norms and activation functions: large, and cheap to compute again */
  TRI_RECOMPUTE_EXPERTS,   /* inputs and outputs of experts: larger than others by the experts of a token */
  TRI_RECOMPUTE_FULL,      /* everything in a layer but its input */
} tri_recompute;

/* What is dropped. */
typedef struct tri_recompute_choice {
  tri_recompute what;
  int64_t every; /* TRI_RECOMPUTE_FULL: of the layers whose number is a multiple of it */
  bool gathered; /* in all layers also what sequence parallelism gathers from tensor ranks, which is gathered again
                    (Korthikanti et al. 2022, section 4.2.2) */
} tri_recompute_choice;

/* Calls [first, end) of a layer. */
typedef struct tri_call_range {
  int32_t first, end;
} tri_call_range;

/* Marks a finished list. Calls that run again must find the same values in their inputs as in the forward: outputs that
 * would overwrite such an input get their own memory (tri_op_list_place). TRI_INTERNAL if an input would still hold
 * other values. */
tri_status tri_op_list_recompute(tri_op_list *list, const tri_recompute_choice *choice);

/* The calls that belong to the same layer as `call`. */
tri_call_range tri_op_list_layer(const tri_op_list *list, int64_t call);

/* Whether a backward reads the memory of a slot, `root` the first in it, under any name. */
bool tri_op_list_keeps(const tri_op_list *list, int32_t root);

#endif
