/* A model's weights as they are used: a checkpoint's, or those of an adapter's base with the factors' products added,
 * W + alpha / rank B A. Sums are made in fp64 and rounded once, to what is asked for. Of an adapter that was trained
 * over a base in 4 bits, W is what those stand for. */
#ifndef TRI_CHECKPOINT_MERGED_H
#define TRI_CHECKPOINT_MERGED_H

#include "checkpoint/checkpoint.h"
#include "device/device.h"
#include "model/model.h"

typedef struct tri_merged {
  tri_checkpoint *named; /* what was named: weights, or an adapter */
  tri_checkpoint *base;  /* the adapter's; else NULL */
  int64_t rank;          /* of its factors */
  double scale;
  tri_device *quantiser; /* the base is taken through 4 bits with it; or NULL */
} tri_merged;

/* LOCAL. Opens what `given` means (tri_checkpoint_find) and reads the settings of its model. Of an adapter also its
 * base: the folder `base` or, where that is NULL, the one that the adapter names. TRI_BAD_CONFIG if the base has
 * another signature than the adapter was trained on; TRI_BAD_FILE names a tensor of the adapter that has no place in
 * the model, or one that contradicts config.json (config_vs_weights.h). `use` says whether all that is read is compared
 * with checksums, and whether averages of the weights are meant, of the adapter where there is one. Release with
 * tri_merged_close, which also takes what is all zero. */
tri_status tri_merged_open(const char *given, const char *base, const tri_checkpoint_use *use, tri_model *model,
                           tri_merged *out);
void tri_merged_close(tri_merged *merged);

/* The factors of a matrix: its row r gets scale times the sum over k of left[r, k] right[k, :]. And what the matrix was
 * in 4 bits. */
typedef struct tri_low_rank {
  double *left, *right; /* [rows, rank], [rank, columns]; NULL: there are none */
  int64_t columns, rank;
  double scale;
  float *whole; /* in the place of what the file has; or NULL */
} tri_low_rank;

/* Whether the matrix is what the file has. */
static inline bool tri_low_rank_is_plain(const tri_low_rank *factors) {
  return factors->left == NULL && factors->whole == NULL;
}

/* LOCAL. Those of a tensor of the model, in host memory. Release with tri_low_rank_release. */
tri_status tri_merged_factors(const tri_merged *merged, const tri_parameter *tensor, tri_low_rank *out);
void tri_low_rank_release(tri_low_rank *factors);

/* LOCAL. Elements [slice->first, slice->first + slice->count) of a tensor as `type`, into host memory, as
 * tri_checkpoint_read_part reads them; of one that is not plain `type` must be TRI_FP64. */
tri_status tri_merged_read_part(const tri_merged *merged, const tri_parameter *tensor, const tri_low_rank *factors,
                                tri_dtype type, const tri_checkpoint_slice *slice, uint64_t *sum);
/* Whether what all parts came to is the tensor's checksum. */
tri_status tri_merged_compare(const tri_merged *merged, const tri_parameter *tensor, uint64_t sum);

/* The folder that a tensor without factors is read from, or that with them is added to. */
const tri_checkpoint *tri_merged_source(const tri_merged *merged, const char *name);

#endif
