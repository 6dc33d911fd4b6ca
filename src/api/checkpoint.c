/* The public functions that read checkpoints. */
#include "checkpoint/checkpoint.h"

#include "api/api.h"

#include "trireme/checkpoint.h"

/* Casts the public type to tri_checkpoint. */
static const tri_checkpoint *own(const trireme_checkpoint *checkpoint) { return (const void *)checkpoint; }

/* Returns the tensor with an index; NULL if it does not exist. */
static const tri_safetensors_tensor *tensor_of(const trireme_checkpoint *checkpoint, int64_t index) {
  if (checkpoint == NULL || index < 0 || index >= tri_checkpoint_num_tensors(own(checkpoint))) return NULL;
  return tri_checkpoint_get_entry(own(checkpoint), index).tensor;
}

trireme_status trireme_checkpoint_open(const char *path, trireme_checkpoint **out) {
  TRI_API_PLAIN_NUMBERS;
  char folder[TRI_PATH_BYTES];
  const tri_checkpoint_use use = {0};
  tri_checkpoint *checkpoint = NULL;
  TRI_API_WANTS(path);
  TRI_API_WANTS(out);
  TRI_API_TRY(tri_checkpoint_find(path, &use, folder));
  TRI_API_TRY(tri_checkpoint_open_verified(folder, &use, &checkpoint));
  *out = (void *)checkpoint;
  return TRIREME_OK;
}

void trireme_checkpoint_close(trireme_checkpoint *checkpoint) { tri_checkpoint_close((void *)checkpoint); }

const char *trireme_checkpoint_path(const trireme_checkpoint *checkpoint) {
  return checkpoint == NULL ? NULL : tri_checkpoint_path(own(checkpoint));
}

int64_t trireme_checkpoint_step(const trireme_checkpoint *checkpoint) {
  const tri_checkpoint_state *state = checkpoint == NULL ? NULL : tri_checkpoint_get_state(own(checkpoint));
  return state == NULL ? -1 : state->step;
}

int64_t trireme_checkpoint_num_tensors(const trireme_checkpoint *checkpoint) {
  return checkpoint == NULL ? 0 : tri_checkpoint_num_tensors(own(checkpoint));
}

const char *trireme_checkpoint_name(const trireme_checkpoint *checkpoint, int64_t index) {
  const tri_safetensors_tensor *tensor = tensor_of(checkpoint, index);
  return tensor == NULL ? NULL : tensor->name;
}

const char *trireme_checkpoint_type(const trireme_checkpoint *checkpoint, int64_t index) {
  const tri_safetensors_tensor *tensor = tensor_of(checkpoint, index);
  return tensor == NULL ? NULL : tri_safetensors_type_name(tensor->type);
}

int trireme_checkpoint_num_dims(const trireme_checkpoint *checkpoint, int64_t index) {
  const tri_safetensors_tensor *tensor = tensor_of(checkpoint, index);
  return tensor == NULL ? -1 : tensor->num_dims;
}

int64_t trireme_checkpoint_length(const trireme_checkpoint *checkpoint, int64_t index, int dimension) {
  const tri_safetensors_tensor *tensor = tensor_of(checkpoint, index);
  if (tensor == NULL || dimension < 0 || dimension >= tensor->num_dims) return -1;
  return tensor->shape[dimension];
}

int64_t trireme_checkpoint_find(const trireme_checkpoint *checkpoint, const char *name) {
  return checkpoint == NULL || name == NULL ? -1 : tri_checkpoint_index_of(own(checkpoint), name);
}

trireme_status trireme_checkpoint_read(const trireme_checkpoint *checkpoint, int64_t index, trireme_type type, void *to,
                                       size_t bytes) {
  const tri_safetensors_tensor *tensor = tensor_of(checkpoint, index);
  tri_dtype wanted;
  TRI_API_WANTS(checkpoint);
  TRI_API_WANTS(to);
  if (tensor == NULL) return tri_api_status(tri_fail(TRI_BAD_USAGE, "there is no tensor %lld", (long long)index));
  if (!tri_api_type(type, &wanted)) return tri_api_status(tri_fail(TRI_BAD_USAGE, "there is no type %d", (int)type));
  size_t needed = tri_dtype_bytes(wanted);
  for (int d = 0; d < tensor->num_dims; d++) needed *= (size_t)tensor->shape[d];
  if (bytes != needed) {
    return tri_api_status(
        tri_fail(TRI_BAD_USAGE, "tensor `%s` takes %zu bytes so, not %zu", tensor->name, needed, bytes));
  }
  TRI_API_TRY(tri_checkpoint_read(own(checkpoint), tensor->name, wanted, tensor->num_dims, tensor->shape, NULL, to));
  return TRIREME_OK;
}
