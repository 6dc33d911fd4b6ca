/* Writing GGUF files, version 3.
 *
 * A tri_gguf_header is the content of a new file without the tensors' bytes: keys, then tensors, are added in the order
 * that they have in the file, and tri_gguf_header_layout gives each tensor its offset. The result depends only on the
 * added keys and tensors, so that every rank can compute it and write its own ranges:
 *
 *   the first rank:  tri_gguf_output_create, tri_gguf_put, ..., tri_gguf_output_finish after all ranks have finished
 *   other ranks:     tri_gguf_output_join, tri_gguf_put, ..., tri_gguf_output_finish
 */
#ifndef TRI_GGUF_WRITER_H
#define TRI_GGUF_WRITER_H

#include "base/status.h"
#include "gguf/gguf.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tri_gguf_header tri_gguf_header;

/* LOCAL. Creates an empty header. Release with tri_gguf_header_destroy; NULL is ignored. */
tri_status tri_gguf_header_create(tri_gguf_header **out);
void tri_gguf_header_destroy(tri_gguf_header *header);

/* Add a key with a value, or with an array of values, which are copied. Keys must differ, and must not be
 * general.alignment, since the writer's alignment is always TRI_GGUF_ALIGNMENT. `values` are count numbers or bools (of
 * one byte) in memory, of a type other than TRI_GGUF_STRING and TRI_GGUF_ARRAY. */
tri_status tri_gguf_add_value(tri_gguf_header *header, const char *key, tri_gguf_value type, const void *value);
tri_status tri_gguf_add_values(tri_gguf_header *header, const char *key, tri_gguf_value type, int64_t count,
                               const void *values);
tri_status tri_gguf_add_string(tri_gguf_header *header, const char *key, const char *text);
tri_status tri_gguf_add_strings(tri_gguf_header *header, const char *key, int64_t count, const tri_gguf_text *texts);
tri_status tri_gguf_add_uint32(tri_gguf_header *header, const char *key, uint32_t value);
tri_status tri_gguf_add_float32(tri_gguf_header *header, const char *key, float value);
tri_status tri_gguf_add_bool(tri_gguf_header *header, const char *key, bool value);

/* Adds a tensor. Names must differ. Fails with TRI_UNSUPPORTED if the name is longer than ggml's limit of 63 bytes, or
 * if a row does not consist of whole blocks of the type. */
tri_status tri_gguf_add_tensor(tri_gguf_header *header, const char *name, const tri_gguf_type *type, int num_dims,
                               const int64_t *dims);

/* Sets the offsets of all tensors. Nothing may be added later. */
tri_status tri_gguf_header_layout(tri_gguf_header *header);

/* Returns the tensors, in the order in which they were added, and sets *count; valid until the header is released. */
const tri_gguf_tensor *tri_gguf_header_tensors(const tri_gguf_header *header, int64_t *count);
/* Returns the size of the file, after tri_gguf_header_layout. */
uint64_t tri_gguf_header_file_bytes(const tri_gguf_header *header);

typedef struct tri_gguf_output tri_gguf_output;

/* LOCAL. Creates the file under a temporary name (files/temporary_name.h), in its full size, and writes all but the
 * tensors' bytes, which are 0. Release with tri_gguf_output_finish. */
tri_status tri_gguf_output_create(const tri_gguf_header *header, const char *path, tri_gguf_output **out);
/* Returns the temporary name, for tri_gguf_output_join. */
const char *tri_gguf_output_temporary(const tri_gguf_output *output);
/* LOCAL. Opens the file that another rank has created as `temporary`. Release with tri_gguf_output_finish. */
tri_status tri_gguf_output_join(const char *temporary, tri_gguf_output **out);

/* LOCAL. Writes bytes [first, first + bytes) of a tensor of the header. */
tri_status tri_gguf_put(tri_gguf_output *output, const tri_gguf_tensor *tensor, uint64_t first, uint64_t bytes,
                        const void *data);

/* LOCAL. Flushes and closes the file. On the rank that created it, renames it to its final name; if that fails, or
 * `status`, the result of all ranks, is a failure, the file is removed, and an older file of that name is kept.
 * Releases the output in any case, and returns the failure. */
tri_status tri_gguf_output_finish(tri_gguf_output *output, tri_status status);

#endif
