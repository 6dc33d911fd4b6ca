/* Reading and writing the safetensors file format.
 *
 * A file is eight bytes of little-endian length, a JSON header of that length, and the tensors' bytes one after the
 * other without gaps:
 *
 *   { "__metadata__": {"format": "pt"}, "wte.weight": {"dtype": "F32", "shape": [50257, 768], "data_offsets": [0, N]} }
 *
 * Offsets count from the end of the header. Files may come from untrusted sources, and the header determines which
 * bytes are read, so tri_safetensors_parse checks everything: the offsets against the size of the file, and that the
 * tensors cover the file's data exactly once. */
#ifndef TRI_CHECKPOINT_SAFETENSORS_H
#define TRI_CHECKPOINT_SAFETENSORS_H

#include "base/status.h"
#include "checkpoint/input.h"
#include "device/dtype.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* The number types of the format; not all have a tri_dtype. */
typedef enum tri_safetensors_type {
  TRI_SAFETENSORS_BOOL,
  TRI_SAFETENSORS_F4,
  TRI_SAFETENSORS_F6_E2M3,
  TRI_SAFETENSORS_F6_E3M2,
  TRI_SAFETENSORS_U8,
  TRI_SAFETENSORS_I8,
  TRI_SAFETENSORS_F8_E5M2,
  TRI_SAFETENSORS_F8_E4M3,
  TRI_SAFETENSORS_F8_E8M0,
  TRI_SAFETENSORS_I16,
  TRI_SAFETENSORS_U16,
  TRI_SAFETENSORS_F16,
  TRI_SAFETENSORS_BF16,
  TRI_SAFETENSORS_I32,
  TRI_SAFETENSORS_U32,
  TRI_SAFETENSORS_F32,
  TRI_SAFETENSORS_C64,
  TRI_SAFETENSORS_F64,
  TRI_SAFETENSORS_I64,
  TRI_SAFETENSORS_U64,
  TRI_SAFETENSORS_TYPES,
} tri_safetensors_type;

/* tri_safetensors_type_name returns the name of a type ("F32"), tri_safetensors_type_bits the number of bits of an
 * element, and tri_safetensors_type_of the type for a tri_dtype. */
const char *tri_safetensors_type_name(tri_safetensors_type type);
int tri_safetensors_type_bits(tri_safetensors_type type);
tri_safetensors_type tri_safetensors_type_of(tri_dtype type);

enum { TRI_SAFETENSORS_DIMS = 8, TRI_SAFETENSORS_SHAPE_BYTES = 192 };

/* One tensor of a file. */
typedef struct tri_safetensors_tensor {
  const char *name;
  tri_safetensors_type type;
  int num_dims;
  int64_t shape[TRI_SAFETENSORS_DIMS];
  uint64_t offset; /* offset of the tensor's first byte in the file */
  uint64_t bytes;
  const struct tri_four_bits *four_bits; /* description of a matrix in 4 bits (four_bits.h): the bytes are codes, type
                                            and shape are those of the dequantised matrix; NULL: plain values */
  bool hidden; /* whether four_bits.c is about to remove the tensor from the header; false at all other times */
} tri_safetensors_tensor;

/* Writes a shape, such as "[768, 2304]", to `text`, and returns `text`. */
const char *tri_safetensors_shape_text(int num_dims, const int64_t *shape, char text[TRI_SAFETENSORS_SHAPE_BYTES]);

/* ---- headers ----------------------------------------------------------------------------------------------------- */

typedef struct tri_safetensors_header {
  tri_safetensors_tensor *tensors;  /* [num_tensors], in the order of their bytes */
  tri_safetensors_tensor **by_name; /* [num_tensors], sorted by name */
  int64_t num_tensors;
  uint64_t data_offset; /* offset in the file of the end of the header, where the tensors' bytes begin */
  json_t *document;     /* the parsed header; owns the names in it */
  char *names;          /* owns names that were changed (wrapped_names.h); NULL: none */
} tri_safetensors_header;

/* Parses and checks the header of a file of file_bytes bytes whose first `held` bytes are at `data`; held must reach to
 * the end of the header or of the file. `path` is for messages. Fails with TRI_BAD_FILE. Release with
 * tri_safetensors_header_destroy. */
tri_status tri_safetensors_parse(const char *path, const void *data, size_t held, uint64_t file_bytes,
                                 tri_safetensors_header *out);
void tri_safetensors_header_destroy(tri_safetensors_header *header);

/* Rebuilds by_name after names have changed or tensors were removed. Fails with TRI_BAD_FILE if two tensors have the
 * same name. */
tri_status tri_safetensors_index(const char *path, tri_safetensors_header *header);

/* Returns the tensor with that name; NULL if there is no such tensor. */
const tri_safetensors_tensor *tri_safetensors_find(const tri_safetensors_header *header, const char *name);
/* Returns a value of `__metadata__`; NULL if it is absent. */
const char *tri_safetensors_metadata(const tri_safetensors_header *header, const char *key);

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct tri_safetensors_file {
  tri_input input;
  uint64_t file_bytes;
  tri_safetensors_header header;
} tri_safetensors_file;

/* LOCAL. Opens a file and reads its header; fails with TRI_BAD_FILE if the file is missing or the header is wrong.
 * Release with tri_safetensors_close. */
tri_status tri_safetensors_open(const char *path, tri_safetensors_file *out);
void tri_safetensors_close(tri_safetensors_file *file);

/* LOCAL. Reads bytes [first, first + bytes) of a tensor into `out`, without conversion. */
tri_status tri_safetensors_read_bytes(const tri_safetensors_file *file, const tri_safetensors_tensor *tensor,
                                      uint64_t first, uint64_t bytes, void *out);

/* LOCAL. Reads all elements as `type`. Elements of the same type are read directly into `out`; F16, BF16, F32 and F64
 * are converted to fp32, fp64 or bf16 through a small buffer, rounded to nearest even (F64 to bf16 twice, first to
 * fp32); matrices in 4 bits are dequantised; other conversions fail with TRI_UNSUPPORTED. */
tri_status tri_safetensors_read(const tri_safetensors_file *file, const tri_safetensors_tensor *tensor, tri_dtype type,
                                void *out);
/* LOCAL. Reads the elements [first, first + count) as tri_safetensors_read does. Adds their part of the tensor's
 * checksum (element_sum.h) to *sum, unless `sum` is NULL or the tensor is a matrix in 4 bits. */
tri_status tri_safetensors_read_some(const tri_safetensors_file *file, const tri_safetensors_tensor *tensor,
                                     tri_dtype type, int64_t first, int64_t count, void *out, uint64_t *sum);

enum { TRI_SAFETENSORS_SUM_BYTES = 1 << 20 };
/* LOCAL. Reads a whole tensor and sets *sum to its checksum (element_sum.h); buffer[TRI_SAFETENSORS_SUM_BYTES] is
 * scratch. Fails with TRI_UNSUPPORTED if an element has fewer than 8 bits. */
tri_status tri_safetensors_sum(const tri_safetensors_file *file, const tri_safetensors_tensor *tensor, char *buffer,
                               uint64_t *sum);

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Lays out a new file: sets offset and bytes of each tensor (wider types first, which keeps every element aligned;
 * otherwise in the given order) and makes the header, with its length in front. The result depends only on names, types
 * and shapes, so that every rank can compute it and write its own slices. `format` is the metadata that transformers
 * expects ("pt"); NULL: none. Fails with TRI_UNSUPPORTED if the header is longer than the format allows. Release
 * *header with tri_free. */
tri_status tri_safetensors_layout(tri_safetensors_tensor *tensors, int64_t count, const char *format, char **header,
                                  size_t *header_bytes, uint64_t *file_bytes);

/* LOCAL. Writes a whole file that must not exist, and flushes it to the disk. `tensors` has been through
 * tri_safetensors_layout; data[i] are the bytes of tensors[i]. Sets checksums[count + 1] (may be NULL) to the
 * checksums of the header and of the tensors. */
tri_status tri_safetensors_write(const char *path, const tri_safetensors_tensor *tensors, const void *const *data,
                                 int64_t count, const char *header, size_t header_bytes, uint64_t file_bytes,
                                 uint64_t *checksums);

#endif
