/* What an adapter's base is, in two short words: an adapter multiplied into another model gives nonsense and no error.
 */
#ifndef TRI_CHECKPOINT_BASE_SIGNATURE_H
#define TRI_CHECKPOINT_BASE_SIGNATURE_H

#include "checkpoint/checkpoint.h"
#include "model/model.h"

enum { TRI_BASE_SIGNATURE_BYTES = 17 };

/* 16 hexadecimal digits each, or "" if it is not known. */
typedef struct tri_base_signature {
  char frame[TRI_BASE_SIGNATURE_BYTES];  /* of its tensors' names, types and shapes, and the keys that make its function
                                          */
  char values[TRI_BASE_SIGNATURE_BYTES]; /* of its tensors' checksums; a plain Hugging Face folder has none */
} tri_base_signature;

/* LOCAL. Of a folder that is open, and the model that its config.json describes. */
tri_status tri_base_signature_of(const tri_checkpoint *base, const tri_model *model, tri_base_signature *out);

/* Whether they may be of the same base: what one of them does not know is not compared. */
bool tri_base_signature_same(const tri_base_signature *a, const tri_base_signature *b);

/* "1f2e... (values 3c4d...)" */
enum { TRI_BASE_SIGNATURE_TEXT_BYTES = 64 };
const char *tri_base_signature_text(const tri_base_signature *signature, char text[TRI_BASE_SIGNATURE_TEXT_BYTES]);

#endif
