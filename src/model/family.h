/* A family of models: what its parameters are and which operations they take part in. One file each (gpt2.c, llama.c).
 */
#ifndef TRI_MODEL_FAMILY_H
#define TRI_MODEL_FAMILY_H

#include "model/model.h"
#include "model/parameters.h"
#include "ops/list.h"

/* What a list is for. */
typedef enum tri_list_purpose {
  TRI_LIST_TRAIN,    /* ends in the loss; backward follows  */
  TRI_LIST_EVALUATE, /* ends in the loss                    */
  TRI_LIST_GENERATE, /* ends in the last position's logits  */
} tri_list_purpose;

typedef struct tri_family_table {
  const char *name;
  /* Appends the family's entries. */
  tri_status (*parameters)(const tri_model *model, tri_parameter_table *table);
  /* Appends all calls up to and with the last norm; *hidden is what the head takes. `positions` is the most that a
   * sequence can reach. Parameters are found by the order in which `parameters` made them. */
  tri_status (*operations)(const tri_model *model, int64_t positions, tri_op_list *list, int32_t *hidden,
                           int32_t *head_weight);
} tri_family_table;

extern const tri_family_table tri_family_gpt2;
extern const tri_family_table tri_family_llama;

const tri_family_table *tri_family_of(const tri_model *model);

/* The whole list of a complete model for micro-batches of batch x sequence tokens. positions >= sequence is how far
 * generation may go. Release with tri_op_list_destroy. */
tri_status tri_model_operations(const tri_model *model, tri_list_purpose purpose, int64_t batch, int64_t sequence,
                                int64_t positions, tri_dtype type, tri_op_list **out);

/* Floating-point operations of the matrix products of one trained token (forward and backward), as Megatron-LM counts
 * them: attention over the full square of positions, recomputation not counted. For MFU. */
double tri_model_flops_per_token(const tri_model *model, int64_t sequence);

#endif
