/* A safetensors file from memory: whatever its header says, what the parser lets through lies inside the file, covers
 * its data exactly once and can be found by name. */
#include "checkpoint/safetensors.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(int condition) {
  if (!condition) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  tri_safetensors_header header;
  if (tri_safetensors_parse("input", data, bytes, bytes, &header) != TRI_OK) return 0;
  uint64_t end = header.data_offset;
  for (int64_t i = 0; i < header.num_tensors; i++) {
    const tri_safetensors_tensor *tensor = &header.tensors[i];
    char shape[TRI_SAFETENSORS_SHAPE_BYTES];
    require(tensor->offset == end && tensor->num_dims >= 0 && tensor->num_dims <= TRI_SAFETENSORS_DIMS);
    require(tri_safetensors_find(&header, tensor->name) == tensor);
    require(tri_safetensors_shape_text(tensor->num_dims, tensor->shape, shape)[0] == '[');
    end += tensor->bytes;
  }
  require(end == bytes);
  tri_safetensors_metadata(&header, "format");
  tri_safetensors_header_destroy(&header);
  return 0;
}
