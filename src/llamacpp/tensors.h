/* The tensors of a GGUF file, as functions of a model's tensors on disk.
 *
 * llama.cpp has its own names (blk.0.attn_q.weight), one tensor for the matrices of all experts of a layer, and another
 * order of some rows. A tensor has a *source* in the model, or several: the matrices of the experts. */
#ifndef TRI_LLAMACPP_TENSORS_H
#define TRI_LLAMACPP_TENSORS_H

#include "checkpoint/tensor_list.h"
#include "gguf/blocks.h"
#include "gguf/gguf.h"
#include "llamacpp/architecture.h"

/* The order of a tensor's rows in the file. */
typedef enum tri_llamacpp_order {
  TRI_LLAMACPP_AS_SOURCE,
  TRI_LLAMACPP_IN_PAIRS,   /* row 2 i + j of a head is row j d / 2 + i of the source's, d rows a head */
  TRI_LLAMACPP_BY_KIND,    /* all rows of q, all of k, all of v; the source alternates them (TRI_QKV_BY_HEADS) */
  TRI_LLAMACPP_TRANSPOSED, /* row i is column i of the source */
} tri_llamacpp_order;

typedef struct tri_llamacpp_tensor {
  char name[64];
  const tri_gguf_type *type;
  int num_dims;
  int64_t dims[TRI_GGUF_DIMS]; /* in ggml's order: elements of a row first */
  /* The sources are source[0], source[stride], ... [num_sources]; NULL: `values` or zeros. */
  const tri_parameter *source;
  int64_t num_sources, stride;
  tri_llamacpp_order order;
  int64_t heads, kv_heads; /* IN_PAIRS: heads of the tensor; BY_KIND: heads of q, and of k and v */
  double added;            /* number that is added to each element */
  float *values;           /* [dims[0]]; owned; NULL: the elements are the source's, or 0 without a source */
} tri_llamacpp_tensor;

typedef struct tri_llamacpp_tensors {
  tri_llamacpp_tensor *all; /* [count], in the order of the file */
  int64_t count;
  int64_t kept; /* number of matrices that are written in bf16, because their rows do not consist of whole blocks */
} tri_llamacpp_tensors;

/* Lists the tensors of a file. `list`: the model's tensors, which must outlive the result. `type`: type of matrices.
 * Others are f32: vectors, routers, learned positions. With Q4_0 the output projection is Q8_0, also if it is the
 * embedding. Release with tri_llamacpp_tensors_release, which also accepts {0}. */
tri_status tri_llamacpp_tensors_create(const tri_llamacpp_arch *arch, const tri_model *model,
                                       const tri_tensor_list *list, const tri_gguf_type *type,
                                       tri_llamacpp_tensors *out);
void tri_llamacpp_tensors_release(tri_llamacpp_tensors *tensors);

/* Returns whether the elements of each source are in the file in the same order. */
bool tri_llamacpp_keeps_order(const tri_llamacpp_tensor *tensor);

/* Orders the elements of a whole matrix or vector: `in` in the order of the source, `out` in that of the file; or the
 * other way round, if `back`. */
void tri_llamacpp_reorder(const tri_llamacpp_tensor *tensor, bool back, const float *in, float *out);

#endif
