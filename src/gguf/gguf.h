/* Reading GGUF files, versions 2 and 3, little-endian.
 *
 * A file is a magic ("GGUF"), a version, the numbers of tensors and of keys, the keys with their values, a description
 * of each tensor, and the tensors' bytes. Offsets of tensors count from the end of the descriptions, rounded up to the
 * alignment, which is 32 unless the key general.alignment has another power of two. Dimensions are in ggml's order: the
 * first one is the number of elements of a row, which are contiguous.
 *
 * Files may come from untrusted sources, so tri_gguf_open checks everything before a tensor is read: lengths and counts
 * against the size of the file, names, types, duplicates, and that the tensors are in the file and do not overlap. */
#ifndef TRI_GGUF_GGUF_H
#define TRI_GGUF_GGUF_H

#include "base/status.h"
#include "files/file.h"
#include "gguf/blocks.h"
#include "gguf/value.h"

#include <stdbool.h>
#include <stdint.h>

enum { TRI_GGUF_DIMS = 4, TRI_GGUF_ALIGNMENT = 32 };

/* The key that sets a file's alignment. */
#define TRI_GGUF_KEY_ALIGNMENT "general.alignment"

/* A key with its value. */
typedef struct tri_gguf_key {
  const char *name;
  tri_gguf_value type;       /* type of the value, or of the elements if it is an array; never TRI_GGUF_ARRAY */
  bool is_array;             /* whether the value is an array */
  uint64_t count;            /* number of elements; 1 if the value is not an array */
  const char *data;          /* the value's bytes, unaligned. A single string is its characters with a NUL after them;
                                each string of an array has its length, a uint64, before it */
  uint64_t data_bytes;       /* bytes of the value; for a single string, of its characters */
  uint64_t name_at, data_at; /* offsets in the header of name and data */
} tri_gguf_key;

typedef struct tri_gguf_tensor {
  const char *name;
  const tri_gguf_type *type;
  int num_dims;
  int64_t dims[TRI_GGUF_DIMS]; /* 1 from num_dims on */
  uint64_t offset;             /* offset of the tensor's first byte in the file */
  uint64_t bytes;
  uint64_t name_at; /* offset in the header of the name */
} tri_gguf_tensor;

typedef struct tri_gguf_file {
  char path[TRI_PATH_BYTES];
  int file; /* descriptor */
  uint64_t file_bytes;
  uint32_t version;
  uint64_t alignment;
  uint64_t data_offset;                    /* offset of the tensors' bytes in the file */
  tri_gguf_key *keys;                      /* [num_keys], in the order of the file */
  tri_gguf_tensor *tensors;                /* [num_tensors], in the order of their descriptions */
  const tri_gguf_key **keys_by_name;       /* [num_keys], sorted by name */
  const tri_gguf_tensor **tensors_by_name; /* [num_tensors], sorted by name */
  int64_t num_keys, num_tensors;
  char *header; /* the bytes before data_offset; owns names and values */
} tri_gguf_file;

/* LOCAL. Opens a file and reads all but the tensors' bytes. Fails with TRI_BAD_FILE if the file is missing or damaged.
 * Release with tri_gguf_close. */
tri_status tri_gguf_open(const char *path, tri_gguf_file *out);
void tri_gguf_close(tri_gguf_file *file);

/* ---- metadata ---------------------------------------------------------------------------------------------------- */

/* Returns the key with that name; NULL if there is no such key. */
const tri_gguf_key *tri_gguf_find_key(const tri_gguf_file *file, const char *name);

/* Get the value of a key. Fail with TRI_BAD_FILE if the key is missing or its value has another type: integers have any
 * width, numbers are float32 or float64. An integer above INT64_MAX is refused. Strings end with a NUL, and one with
 * another NUL in it is refused; they belong to the file. */
tri_status tri_gguf_get_string(const tri_gguf_file *file, const char *name, const char **out);
tri_status tri_gguf_get_integer(const tri_gguf_file *file, const char *name, int64_t *out);
tri_status tri_gguf_get_number(const tri_gguf_file *file, const char *name, double *out);
tri_status tri_gguf_get_bool(const tri_gguf_file *file, const char *name, bool *out);

/* The same for arrays: set *out to a new array of *count values. The texts of strings belong to the file. Release *out
 * with tri_free. */
tri_status tri_gguf_get_strings(const tri_gguf_file *file, const char *name, tri_gguf_text **out, int64_t *count);
tri_status tri_gguf_get_integers(const tri_gguf_file *file, const char *name, int64_t **out, int64_t *count);
tri_status tri_gguf_get_numbers(const tri_gguf_file *file, const char *name, double **out, int64_t *count);

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* Returns the tensor with that name; NULL if there is no such tensor. */
const tri_gguf_tensor *tri_gguf_find_tensor(const tri_gguf_file *file, const char *name);

/* LOCAL. Reads bytes [first, first + bytes) of a tensor into `out`, without conversion. Threads may call it at once. */
tri_status tri_gguf_read(const tri_gguf_file *file, const tri_gguf_tensor *tensor, uint64_t first, uint64_t bytes,
                         void *out);

/* Sets tensor->bytes from type and dimensions, and the dimensions from num_dims on to 1. Returns false if a dimension
 * is negative, the size overflows an int64_t, or a row does not consist of whole blocks. */
bool tri_gguf_set_bytes(tri_gguf_tensor *tensor);

#endif
