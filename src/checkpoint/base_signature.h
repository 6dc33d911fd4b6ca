/* Signature of an adapter's base: detects that an adapter is used with another base, which would give nonsense without
 * an error. */
#ifndef TRI_CHECKPOINT_BASE_SIGNATURE_H
#define TRI_CHECKPOINT_BASE_SIGNATURE_H

#include "checkpoint/checkpoint.h"
#include "model/model.h"

enum { TRI_BASE_SIGNATURE_BYTES = 17 };

/* Each hash has 16 hexadecimal digits; "" if it is unknown. */
typedef struct tri_base_signature {
  char frame[TRI_BASE_SIGNATURE_BYTES];  /* hash of the tensors' names, types and shapes, and of the model keys that
                                            change the model's function */
  char values[TRI_BASE_SIGNATURE_BYTES]; /* hash of the tensors' checksums */
} tri_base_signature;

/* LOCAL. Computes the signature of an open folder, whose config.json describes `model`. `sums`: the checksums of all
 * its tensors (tri_tensor_sums), used for tensors without a recorded checksum; NULL: `values` is "" if there are such
 * tensors. Fails with TRI_BAD_FILE if the folder lacks a tensor of the model. */
tri_status tri_base_signature_of(const tri_checkpoint *base, const tri_model *model, const uint64_t *sums,
                                 tri_base_signature *out);

/* Returns whether `a` and `b` may belong to the same base. A hash is compared only if both signatures have it. */
bool tri_base_signature_same(const tri_base_signature *a, const tri_base_signature *b);

/* Writes the signature as "1f2e... (values 3c4d...)", or "1f2e..." if `values` is unknown, and returns `text`. */
enum { TRI_BASE_SIGNATURE_TEXT_BYTES = 64 };
const char *tri_base_signature_text(const tri_base_signature *signature, char text[TRI_BASE_SIGNATURE_TEXT_BYTES]);

#endif
