#include "gguf/writer.h"

#include "base/count.h"
#include "base/memory.h"
#include "files/write_fault.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VERSION = 3, NAME_BYTES = 63 };

/* Bytes that grow. */
typedef struct buffer {
  char *data;
  size_t held, room;
} buffer;

struct tri_gguf_header {
  buffer keys;  /* the keys as they are in the file */
  char **names; /* [num_keys], to find duplicates */
  tri_gguf_tensor *tensors;
  int64_t num_keys, names_room, num_tensors, tensors_room;
  buffer bytes;        /* all bytes before those of the tensors; empty before the layout */
  uint64_t file_bytes; /* 0 before the layout */
};

tri_status tri_gguf_header_create(tri_gguf_header **out) {
  return tri_alloc("the header of a GGUF file", 1, sizeof **out, out);
}

void tri_gguf_header_destroy(tri_gguf_header *header) {
  if (header == NULL) return;
  for (int64_t k = 0; k < header->num_keys; k++) tri_free(header->names[k]);
  for (int64_t t = 0; t < header->num_tensors; t++) tri_free((char *)header->tensors[t].name);
  tri_free(header->names);
  tri_free(header->tensors);
  tri_free(header->keys.data);
  tri_free(header->bytes.data);
  tri_free(header);
}

/* ---- bytes of the header ----------------------------------------------------------------------------------------- */

static tri_status append(buffer *to, const void *data, size_t bytes) {
  TRI_TRY(tri_reserve("the header of a GGUF file", 1, to->held + bytes, &to->room, &to->data));
  if (bytes > 0) memcpy(to->data + to->held, data, bytes);
  to->held += bytes;
  return TRI_OK;
}

static tri_status append_uint32(buffer *to, uint32_t value) { return append(to, &value, sizeof value); }
static tri_status append_uint64(buffer *to, uint64_t value) { return append(to, &value, sizeof value); }

static tri_status append_text(buffer *to, const char *text, size_t bytes) {
  TRI_TRY(append_uint64(to, bytes));
  return append(to, text, bytes);
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

/* Begins a key: its name, and the type of its value. */
static tri_status begin_key(tri_gguf_header *header, const char *key, tri_gguf_value type) {
  if (strcmp(key, TRI_GGUF_KEY_ALIGNMENT) == 0 || header->file_bytes != 0) {
    return tri_fail_internal("`%s` cannot be a key of a GGUF file here", key);
  }
  for (int64_t k = 0; k < header->num_keys; k++) {
    if (strcmp(header->names[k], key) == 0) return tri_fail_internal("a GGUF file cannot have two keys `%s`", key);
  }
  TRI_TRY(tri_grow("the keys of a GGUF file", sizeof *header->names, header->num_keys, &header->names_room,
                   &header->names));
  TRI_TRY(tri_strdup(key, &header->names[header->num_keys]));
  header->num_keys++;
  TRI_TRY(append_text(&header->keys, key, strlen(key)));
  return append_uint32(&header->keys, (uint32_t)type);
}

static tri_status begin_array(tri_gguf_header *header, const char *key, tri_gguf_value type, int64_t count) {
  TRI_TRY(begin_key(header, key, TRI_GGUF_ARRAY));
  TRI_TRY(append_uint32(&header->keys, (uint32_t)type));
  return append_uint64(&header->keys, (uint64_t)count);
}

tri_status tri_gguf_add_value(tri_gguf_header *header, const char *key, tri_gguf_value type, const void *value) {
  TRI_TRY(begin_key(header, key, type));
  return append(&header->keys, value, tri_gguf_value_bytes(type));
}

tri_status tri_gguf_add_values(tri_gguf_header *header, const char *key, tri_gguf_value type, int64_t count,
                               const void *values) {
  TRI_TRY(begin_array(header, key, type, count));
  return append(&header->keys, values, tri_bytes_times((size_t)count, tri_gguf_value_bytes(type)));
}

tri_status tri_gguf_add_string(tri_gguf_header *header, const char *key, const char *text) {
  TRI_TRY(begin_key(header, key, TRI_GGUF_STRING));
  return append_text(&header->keys, text, strlen(text));
}

tri_status tri_gguf_add_strings(tri_gguf_header *header, const char *key, int64_t count, const tri_gguf_text *texts) {
  TRI_TRY(begin_array(header, key, TRI_GGUF_STRING, count));
  for (int64_t i = 0; i < count; i++) TRI_TRY(append_text(&header->keys, texts[i].text, texts[i].bytes));
  return TRI_OK;
}

tri_status tri_gguf_add_uint32(tri_gguf_header *header, const char *key, uint32_t value) {
  return tri_gguf_add_value(header, key, TRI_GGUF_UINT32, &value);
}

tri_status tri_gguf_add_float32(tri_gguf_header *header, const char *key, float value) {
  return tri_gguf_add_value(header, key, TRI_GGUF_FLOAT32, &value);
}

tri_status tri_gguf_add_bool(tri_gguf_header *header, const char *key, bool value) {
  const uint8_t byte = value ? 1 : 0;
  return tri_gguf_add_value(header, key, TRI_GGUF_BOOL, &byte);
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

tri_status tri_gguf_add_tensor(tri_gguf_header *header, const char *name, const tri_gguf_type *type, int num_dims,
                               const int64_t *dims) {
  tri_gguf_tensor tensor = {.type = type, .num_dims = num_dims};
  char *copy = NULL;
  if (num_dims < 1 || num_dims > TRI_GGUF_DIMS || header->file_bytes != 0) {
    return tri_fail_internal("`%s` cannot be a tensor of a GGUF file here", name);
  }
  if (strlen(name) > NAME_BYTES) {
    return tri_fail(TRI_UNSUPPORTED, "the name `%s` of a tensor has %zu bytes; a GGUF file allows %d", name,
                    strlen(name), NAME_BYTES);
  }
  memcpy(tensor.dims, dims, (size_t)num_dims * sizeof *dims);
  if (!tri_gguf_set_bytes(&tensor)) {
    return tri_fail(TRI_UNSUPPORTED,
                    "tensor `%s` has rows of %" PRId64 " elements, which %s cannot store: its blocks have %" PRId64
                    "; choose F16 or BF16",
                    name, dims[0], type->name, type->elements);
  }
  for (int64_t t = 0; t < header->num_tensors; t++) {
    if (strcmp(header->tensors[t].name, name) == 0)
      return tri_fail_internal("a GGUF file cannot have two tensors `%s`", name);
  }
  TRI_TRY(tri_grow("the tensors of a GGUF file", sizeof tensor, header->num_tensors, &header->tensors_room,
                   &header->tensors));
  TRI_TRY(tri_strdup(name, &copy));
  tensor.name = copy;
  header->tensors[header->num_tensors++] = tensor;
  return TRI_OK;
}

static uint64_t aligned(uint64_t bytes) {
  return (bytes + TRI_GGUF_ALIGNMENT - 1) / TRI_GGUF_ALIGNMENT * TRI_GGUF_ALIGNMENT;
}

/* Appends the description of a tensor at the offset in the tensors' bytes. */
static tri_status append_tensor(buffer *to, const tri_gguf_tensor *tensor, uint64_t offset) {
  TRI_TRY(append_text(to, tensor->name, strlen(tensor->name)));
  TRI_TRY(append_uint32(to, (uint32_t)tensor->num_dims));
  for (int d = 0; d < tensor->num_dims; d++) TRI_TRY(append_uint64(to, (uint64_t)tensor->dims[d]));
  TRI_TRY(append_uint32(to, tensor->type->number));
  return append_uint64(to, offset);
}

tri_status tri_gguf_header_layout(tri_gguf_header *header) {
  static const char zeros[TRI_GGUF_ALIGNMENT];
  buffer *to = &header->bytes;
  uint64_t offset = 0;
  if (header->file_bytes != 0) return tri_fail_internal("a GGUF file is laid out twice");
  TRI_TRY(append(to, "GGUF", 4));
  TRI_TRY(append_uint32(to, VERSION));
  TRI_TRY(append_uint64(to, (uint64_t)header->num_tensors));
  TRI_TRY(append_uint64(to, (uint64_t)header->num_keys));
  TRI_TRY(append(to, header->keys.data, header->keys.held));
  for (int64_t t = 0; t < header->num_tensors; t++) {
    TRI_TRY(append_tensor(to, &header->tensors[t], offset));
    header->tensors[t].offset = offset;
    offset += aligned(header->tensors[t].bytes);
  }
  TRI_TRY(append(to, zeros, (size_t)(aligned(to->held) - to->held)));
  for (int64_t t = 0; t < header->num_tensors; t++) header->tensors[t].offset += to->held;
  header->file_bytes = to->held + offset;
  return TRI_OK;
}

const tri_gguf_tensor *tri_gguf_header_tensors(const tri_gguf_header *header, int64_t *count) {
  *count = header->num_tensors;
  return header->tensors;
}

uint64_t tri_gguf_header_file_bytes(const tri_gguf_header *header) { return header->file_bytes; }

/* ---- the file ---------------------------------------------------------------------------------------------------- */

struct tri_gguf_output {
  tri_file_replacement to;
  bool joined; /* whether another rank has created the file */
};

static tri_status write_range(const tri_gguf_output *output, uint64_t offset, const void *data, uint64_t bytes) {
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t put =
        pwrite(output->to.file, (const char *)data + done, (size_t)(bytes - done), (off_t)(offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return tri_fail(TRI_IO_FAILED, "cannot write %s: %s", output->to.temporary, tri_write_fault(errno));
    done += (uint64_t)put;
  }
  return TRI_OK;
}

static tri_status write_beginning(const tri_gguf_header *header, const tri_gguf_output *output) {
  if (ftruncate(output->to.file, (off_t)header->file_bytes) != 0) {
    return tri_fail(TRI_IO_FAILED, "cannot write %s: %s", output->to.temporary, tri_write_fault(errno));
  }
  return write_range(output, 0, header->bytes.data, header->bytes.held);
}

tri_status tri_gguf_output_create(const tri_gguf_header *header, const char *path, tri_gguf_output **out) {
  tri_gguf_output *output = NULL;
  if (header->file_bytes == 0) return tri_fail_internal("the GGUF file %s is not laid out", path);
  TRI_TRY(tri_alloc(path, 1, sizeof *output, &output));
  tri_status status = tri_file_begin_replacement(path, &output->to);
  if (status != TRI_OK) {
    tri_free(output);
    return status;
  }
  status = write_beginning(header, output);
  if (status != TRI_OK) return tri_gguf_output_finish(output, status);
  *out = output;
  return TRI_OK;
}

const char *tri_gguf_output_temporary(const tri_gguf_output *output) { return output->to.temporary; }

tri_status tri_gguf_output_join(const char *temporary, tri_gguf_output **out) {
  tri_gguf_output *output = NULL;
  TRI_TRY(tri_alloc(temporary, 1, sizeof *output, &output));
  output->joined = true;
  snprintf(output->to.temporary, sizeof output->to.temporary, "%s", temporary);
  output->to.file = open(temporary, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
  if (output->to.file < 0) {
    const int reason = errno;
    tri_free(output);
    return tri_fail(TRI_IO_FAILED,
                    "cannot open %s, which the first rank has created: %s; all ranks must see its folder", temporary,
                    strerror(reason));
  }
  *out = output;
  return TRI_OK;
}

tri_status tri_gguf_put(tri_gguf_output *output, const tri_gguf_tensor *tensor, uint64_t first, uint64_t bytes,
                        const void *data) {
  if (first > tensor->bytes || bytes > tensor->bytes - first) {
    return tri_fail_internal("bytes [%" PRIu64 ", %" PRIu64 ") of tensor `%s`, which has %" PRIu64, first,
                             first + bytes, tensor->name, tensor->bytes);
  }
  TRI_TRY(write_range(output, tensor->offset + first, data, bytes));
#if defined(__linux__)
  /* Starts to write the range to the disk now; errors are those of fsync at the end. */
  (void)sync_file_range(output->to.file, (off_t)(tensor->offset + first), (off_t)bytes, SYNC_FILE_RANGE_WRITE);
#endif
  return TRI_OK;
}

tri_status tri_gguf_output_finish(tri_gguf_output *output, tri_status status) {
  if (output->joined) {
    if (status == TRI_OK && fsync(output->to.file) != 0) {
      status = tri_fail(TRI_IO_FAILED, "cannot flush %s to disk: %s", output->to.temporary, tri_write_fault(errno));
    }
    close(output->to.file);
  } else {
    status = tri_file_end_replacement(&output->to, status);
  }
  tri_free(output);
  return status;
}
