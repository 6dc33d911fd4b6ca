/* A model's effective weights: those of a checkpoint, or for an adapter W + scale B A, where W is a matrix of the base.
 * If training subtracted the factors' initial product (principal.h), the result is W + scale (B A - B0 A0); if the
 * adapter has magnitudes (DoRA), the rows of the result are scaled to them. Sums are computed in fp64 and rounded once,
 * to the requested type. If the adapter was trained on a base in 4 bits, W is the dequantised base. */
#ifndef TRI_CHECKPOINT_MERGED_H
#define TRI_CHECKPOINT_MERGED_H

#include "checkpoint/checkpoint.h"
#include "device/device.h"
#include "model/model.h"

typedef struct tri_merged {
  tri_checkpoint *named; /* the named folder: weights, or an adapter */
  tri_checkpoint *base;  /* the adapter's base; NULL without an adapter */
  tri_adapter *adapter;  /* settings of the factors (ranks, scales and others); NULL without an adapter */
  tri_device *quantiser; /* quantises the base to 4 bits and back; NULL: the base is used as it is */
} tri_merged;

/* LOCAL. Opens the folder that `given` means (tri_checkpoint_find) and reads the settings of its model. For an adapter
 * also opens its base: the folder `base`, or if that is NULL the folder that the adapter names. Fails with
 * TRI_BAD_USAGE if `base` is given and the folder is not an adapter, or if the adapter's base is unknown or not found,
 * with TRI_BAD_CONFIG if the base has another signature than the adapter's base (with use->unverified this is only a
 * warning), with TRI_BAD_FILE if a tensor of the adapter is not in the model or contradicts config.json
 * (config_vs_weights.h). `use`: whether checksums are compared, and whether averages of the weights (with an adapter:
 * of the adapter's) are read. Release with tri_merged_close, which also accepts {0}. */
tri_status tri_merged_open(const char *given, const char *base, const tri_checkpoint_use *use, tri_model *model,
                           tri_merged *out);
void tri_merged_close(tri_merged *merged);

/* LOCAL. Sets model->tuning to the adapter, without dropout, so that its factors stay beside the base, as in training;
 * does nothing without an adapter. Fails with TRI_UNSUPPORTED if the adapter's tensors are not those that its settings
 * describe; the message names --unmerged. */
tri_status tri_merged_keep_factors(const tri_merged *merged, tri_model *model);

/* The changes to a matrix of the base: scale * left right is added to the matrix, or to `whole`, which replaces it. */
typedef struct tri_low_rank {
  double *left, *right; /* [rows, rank], [rank, columns]; NULL: no factors */
  int64_t columns, rank;
  double scale;
  double *whole; /* [rows, columns]: values that replace those of the file: the matrix quantised to 4 bits and back, or
                    the result with magnitudes (then left and right are NULL); NULL: the file's values are used */
} tri_low_rank;

/* Returns whether the matrix is used unchanged. */
static inline bool tri_low_rank_is_plain(const tri_low_rank *factors) {
  return factors->left == NULL && factors->whole == NULL;
}

/* LOCAL. Reads the changes to a tensor of the model into host memory. Without an adapter, and for a tensor that is not
 * a matrix, *out has no changes (tri_low_rank_is_plain). Release with tri_low_rank_release. */
tri_status tri_merged_factors(const tri_merged *merged, const tri_parameter *tensor, tri_low_rank *out);
void tri_low_rank_release(tri_low_rank *factors);

/* LOCAL. Reads elements [slice->first, slice->first + slice->count) of a tensor as `type` into host memory, as
 * tri_checkpoint_read_part does, and applies `factors`; if these are not plain, `type` must be TRI_FP64. */
tri_status tri_merged_read_part(const tri_merged *merged, const tri_parameter *tensor, const tri_low_rank *factors,
                                tri_dtype type, const tri_checkpoint_slice *slice, uint64_t *sum);
/* LOCAL. Compares `sum`, to which tri_merged_read_part has added all parts, with the tensor's checksum; fails with
 * TRI_BAD_FILE if they differ. */
tri_status tri_merged_compare(const tri_merged *merged, const tri_parameter *tensor, uint64_t sum);

/* Returns the checkpoint from which a tensor is read, before factors are added. */
const tri_checkpoint *tri_merged_source(const tri_merged *merged, const char *name);

#endif
