/* LoRA: low-rank factors added to a frozen matrix. */
#ifndef TRI_OPS_LORA_H
#define TRI_OPS_LORA_H

#include "ops/ops.h"
#include "ops/weight.h"

enum { TRI_FACTORS_MOST = 3 }; /* maximum number of matrices in one GEMM */

/* The factors of the matrices that share one GEMM: u = scale x A^T has a range of columns for each pair of factors, and
 * each B adds u B^T to its own range of columns of y. */
typedef struct tri_factors {
  tri_weight down; /* A factors of all matrices as one matrix, one after the other */
  int64_t count;   /* number of pairs of factors */
  int64_t rank[TRI_FACTORS_MOST], begin[TRI_FACTORS_MOST]; /* [count], columns [begin, begin + rank) of u, for
                                                              each pair */
  int64_t first[TRI_FACTORS_MOST],
      width[TRI_FACTORS_MOST];    /* [count], columns [first, first + width) of y, for each B */
  int64_t out;                    /* number of columns of y */
  double scale[TRI_FACTORS_MOST]; /* [count], scale of each pair */
} tri_factors;

/* Returns the factors of the matrices that share the GEMM of `weight`, which has `in` inputs on this rank; with
 * `firsts`, the factors' initial values, which are subtracted. The count is 0 if no matrix has factors. Sets *a and *b
 * to the numbers of the first A and the first B. */
tri_factors tri_factors_of(const tri_op_list *list, bool firsts, int64_t in, int32_t weight, int32_t *a, int32_t *b);

/* Appends the adapter's dropout on x if a matrix of `weight` has factors; else *out is x itself. */
tri_status tri_op_factor_dropout(tri_op_list *list, int64_t in, int32_t weight, int32_t x, int32_t *out);

/* Append the addition of scale x A^T B^T to y, which is the product of x[R, in] and the matrix `weight`, or the first
 * of several joined ones. They append nothing if no matrix has factors. No other call may read y. tri_op_lora applies
 * the adapter's dropout to x, and appends the subtraction of initial factors if there are any; the x of
 * tri_op_lora_dropped already has the dropout, and initial factors are not subtracted. */
tri_status tri_op_lora(tri_op_list *list, int64_t in, int32_t weight, int32_t x, int32_t y, int32_t *out);
tri_status tri_op_lora_dropped(tri_op_list *list, int64_t in, int32_t weight, int32_t x, int32_t y, int32_t *out);

/* Appends the addition of the factors of the embedding table to x, the rows of the table that the run's ids select.
 * vocab_size is the vocabulary's size on all ranks together. */
tri_status tri_op_lora_embedding(tri_op_list *list, int64_t width, int64_t vocab_size, int32_t token, int32_t x,
                                 int32_t *out);

#endif
