/* LoRA: low-rank factors beside a frozen matrix. */
#ifndef TRI_OPS_LORA_H
#define TRI_OPS_LORA_H

#include "ops/ops.h"
#include "ops/weight.h"

enum { TRI_FACTORS_MOST = 3 }; /* matrices in a product */

/* The factors of the matrices that are one in a product. */
typedef struct tri_factors {
  tri_weight down; /* all As */
  int64_t count;
  int64_t rank[TRI_FACTORS_MOST], begin[TRI_FACTORS_MOST];  /* columns of u, of each pair */
  int64_t first[TRI_FACTORS_MOST], width[TRI_FACTORS_MOST]; /* columns of y, of each B */
  int64_t out;                                              /* of y */
  double scale[TRI_FACTORS_MOST];
} tri_factors;

/* Of the matrices that are one with `weight`, of `in` inputs on this rank, or with `firsts` what those began as, to be
 * subtracted; count 0: none has any. *a and *b: numbers of the first A and B. */
tri_factors tri_factors_of(const tri_op_list *list, bool firsts, int64_t in, int32_t weight, int32_t *a, int32_t *b);

/* x with elements dropped as the adapter says, for factors beside a matrix that has some; else x itself. */
tri_status tri_op_factor_dropout(tri_op_list *list, int64_t in, int32_t weight, int32_t x, int32_t *out);

/* Adds the product of x[R, in] and a matrix's factors, if it has any, to the matrix's product y. `weight` is that
 * matrix, or the first of several joined ones. No other call may read y. tri_op_lora drops elements of x where the
 * adapter has dropout, and tri_op_lora_dropped is given such an x. */
tri_status tri_op_lora(tri_op_list *list, int64_t in, int32_t weight, int32_t x, int32_t y, int32_t *out);
tri_status tri_op_lora_dropped(tri_op_list *list, int64_t in, int32_t weight, int32_t x, int32_t y, int32_t *out);

/* The same of a table of tokens, for the rows x of it that the run's ids name. vocab_size is that of the whole model.
 */
tri_status tri_op_lora_embedding(tri_op_list *list, int64_t width, int64_t vocab_size, int32_t token, int32_t x,
                                 int32_t *out);

#endif
