/* Opening and checking GGUF files. The header has no length in front, so it is read into a buffer that grows as the
 * parser advances; names and values are offsets in it until it is complete. Every length and count is compared with the
 * remaining bytes of the file before memory is allocated for it. */
#include "gguf/gguf.h"

#include "base/memory.h"
#include "files/file_kind.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  HEADER_LIMIT_BYTES = 1 << 28, /* ten times that of the largest vocabularies */
  FIRST_BYTES = 1 << 16,
  FIELD_BYTES = 320,
  KEY_NAME_BYTES = 65535,                 /* the format's limit */
  TENSOR_NAME_BYTES = 255,                /* ggml's limit is 63; some programs build it with 127 */
  LEAST_KEY_BYTES = 8 + 1 + 4 + 1,        /* name, type, value */
  LEAST_TENSOR_BYTES = 8 + 1 + 4 + 4 + 8, /* name, number of dimensions, type, offset */
};

typedef struct reader {
  tri_gguf_file *file;
  uint64_t at, held;              /* offset of the next byte; bytes of the file in the buffer */
  uint64_t num_keys, num_tensors; /* as the beginning of the file claims */
  int64_t keys_room, tensors_room;
  char field[FIELD_BYTES]; /* name of the current part of the header, for messages: "the value of key `x`" */
} reader;

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static tri_status read_range(const tri_gguf_file *file, uint64_t offset, uint64_t bytes, void *out) {
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t got = pread(file->file, (char *)out + done, (size_t)(bytes - done), (off_t)(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return tri_fail(TRI_BAD_FILE, "cannot read %s: %s", file->path, strerror(errno));
    if (got == 0) {
      return tri_fail(TRI_BAD_FILE, "%s has become shorter than %" PRIu64 " bytes while it was read", file->path,
                      offset + bytes);
    }
    done += (uint64_t)got;
  }
  return TRI_OK;
}

/* Sets the name of the field for messages. */
static void set_field(reader *r, const char *format, ...) TRI_PRINTF(2, 3);
static void set_field(reader *r, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(r->field, sizeof r->field, format, arguments);
  va_end(arguments);
}

/* Makes the next bytes of the file available in the buffer. */
static tri_status need(reader *r, uint64_t bytes) {
  const uint64_t rest = r->file->file_bytes - r->at, end = r->at + bytes;
  if (bytes > rest) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: %s needs %" PRIu64 " bytes at byte %" PRIu64 ", but only %" PRIu64
                    " follow; the file is truncated or damaged, copy or download it again",
                    r->file->path, r->field, bytes, r->at, rest);
  }
  if (end <= r->held) return TRI_OK;
  if (end > HEADER_LIMIT_BYTES) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: %s ends at byte %" PRIu64 "; at most %d bytes of keys and descriptions of tensors are read",
                    r->file->path, r->field, end, HEADER_LIMIT_BYTES);
  }
  uint64_t held = r->held == 0 ? FIRST_BYTES : 2 * r->held;
  if (held < end) held = end;
  if (held > r->file->file_bytes) held = r->file->file_bytes;
  TRI_TRY(tri_realloc("the header of a GGUF file", (size_t)held, 1, &r->file->header));
  TRI_TRY(read_range(r->file, r->held, held - r->held, r->file->header + r->held));
  r->held = held;
  return TRI_OK;
}

static tri_status read_bytes(reader *r, size_t bytes, void *out) {
  TRI_TRY(need(r, bytes));
  memcpy(out, r->file->header + r->at, bytes);
  r->at += bytes;
  return TRI_OK;
}

/* Reads a string: a length and its characters. Moves these over the last byte of the length, and writes a NUL after
 * them; sets *at to their offset in the header. */
static tri_status read_string(reader *r, uint64_t *at, uint64_t *bytes) {
  uint64_t length = 0;
  TRI_TRY(read_bytes(r, sizeof length, &length));
  TRI_TRY(need(r, length));
  char *text = r->file->header + r->at - 1;
  memmove(text, text + 1, (size_t)length);
  text[length] = '\0';
  *at = r->at - 1;
  *bytes = length;
  r->at += length;
  return TRI_OK;
}

/* Reads a name, whose characters must be printable, since messages contain it. */
static tri_status read_name(reader *r, uint64_t most, uint64_t *at) {
  uint64_t bytes = 0;
  TRI_TRY(read_string(r, at, &bytes));
  if (bytes == 0 || bytes > most) {
    return tri_fail(TRI_BAD_FILE, "%s: %s has %" PRIu64 " bytes, and must have 1 to %" PRIu64 "; the file is damaged",
                    r->file->path, r->field, bytes, most);
  }
  const unsigned char *text = (const unsigned char *)r->file->header + *at;
  for (uint64_t i = 0; i < bytes; i++) {
    if (text[i] >= ' ' && text[i] != 0x7F) continue;
    return tri_fail(TRI_BAD_FILE, "%s: %s contains the control character %d; the file is damaged", r->file->path,
                    r->field, text[i]);
  }
  return TRI_OK;
}

/* ---- the first bytes --------------------------------------------------------------------------------------------- */

static tri_status check_version(const tri_gguf_file *file) {
  if (file->version == 2 || file->version == 3) return TRI_OK;
  if ((file->version & 0xFFFF) == 0) {
    return tri_fail(TRI_BAD_FILE,
                    "%s is a GGUF file in big-endian byte order; convert it: pip install gguf; gguf-convert-endian %s "
                    "little",
                    file->path, file->path);
  }
  return tri_fail(TRI_BAD_FILE,
                  "%s has version %" PRIu32
                  " of the GGUF format; versions 2 and 3 are read; convert the model again, with a current llama.cpp",
                  file->path, file->version);
}

static tri_status check_count(const reader *r, uint64_t count, uint64_t least_bytes, const char *things) {
  const uint64_t rest = r->file->file_bytes - r->at;
  if (count <= rest / least_bytes) return TRI_OK;
  return tri_fail(TRI_BAD_FILE,
                  "%s: the number of %s is %" PRIu64 ", but only %" PRIu64
                  " bytes follow; the file is truncated or damaged, copy or download it again",
                  r->file->path, things, count, rest);
}

static tri_status read_beginning(reader *r) {
  char magic[TRI_FILE_KIND_BYTES] = {0};
  const size_t held = r->file->file_bytes < sizeof magic ? (size_t)r->file->file_bytes : sizeof magic;
  TRI_TRY(read_range(r->file, 0, held, magic));
  if (held < 4 || memcmp(magic, "GGUF", 4) != 0) {
    const tri_file_kind *kind = tri_file_kind_of(magic, held);
    if (kind != NULL) return tri_file_kind_refuse(TRI_BAD_FILE, r->file->path, kind, "a GGUF file");
    return tri_fail(TRI_BAD_FILE, "%s is not a GGUF file: it does not begin with `GGUF`", r->file->path);
  }
  r->at = 4;
  set_field(r, "the beginning of a GGUF file");
  TRI_TRY(read_bytes(r, sizeof r->file->version, &r->file->version));
  TRI_TRY(check_version(r->file));
  TRI_TRY(read_bytes(r, sizeof r->num_tensors, &r->num_tensors));
  TRI_TRY(read_bytes(r, sizeof r->num_keys, &r->num_keys));
  TRI_TRY(check_count(r, r->num_tensors, LEAST_TENSOR_BYTES, "tensors"));
  return check_count(r, r->num_keys, LEAST_KEY_BYTES, "keys");
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static tri_status read_value_type(reader *r, tri_gguf_value *out) {
  uint32_t type = 0;
  TRI_TRY(read_bytes(r, sizeof type, &type));
  if (type >= TRI_GGUF_VALUES) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: %s has the unknown type %" PRIu32
                    "; the file is damaged, or newer than this program; convert the model again",
                    r->file->path, r->field, type);
  }
  *out = (tri_gguf_value)type;
  return TRI_OK;
}

/* Skips the strings of an array. */
static tri_status skip_strings(reader *r, uint64_t count) {
  TRI_TRY(check_count(r, count, sizeof(uint64_t), "strings in an array"));
  for (uint64_t i = 0; i < count; i++) {
    uint64_t length = 0;
    TRI_TRY(read_bytes(r, sizeof length, &length));
    TRI_TRY(need(r, length));
    r->at += length;
  }
  return TRI_OK;
}

/* Skips `count` values of the key's type. */
static tri_status skip_values(reader *r, tri_gguf_key *key) {
  const uint64_t element = tri_gguf_value_bytes(key->type);
  uint64_t bytes = 0;
  key->data_at = r->at;
  if (key->type == TRI_GGUF_STRING) {
    TRI_TRY(skip_strings(r, key->count));
  } else {
    if (__builtin_mul_overflow(element, key->count, &bytes)) bytes = UINT64_MAX;
    TRI_TRY(need(r, bytes));
    r->at += bytes;
  }
  key->data_bytes = r->at - key->data_at;
  return TRI_OK;
}

static tri_status read_array(reader *r, tri_gguf_key *key) {
  TRI_TRY(read_value_type(r, &key->type));
  if (key->type == TRI_GGUF_ARRAY) {
    return tri_fail(TRI_BAD_FILE, "%s: %s is an array of arrays, which is not supported; remove the key", r->file->path,
                    r->field);
  }
  TRI_TRY(read_bytes(r, sizeof key->count, &key->count));
  return skip_values(r, key);
}

static tri_status read_key(reader *r, uint64_t index) {
  tri_gguf_key key = {.count = 1};
  set_field(r, "the name of key %" PRIu64, index);
  TRI_TRY(read_name(r, KEY_NAME_BYTES, &key.name_at));
  set_field(r, "the value of key `%.200s`", r->file->header + key.name_at);
  TRI_TRY(read_value_type(r, &key.type));
  key.is_array = key.type == TRI_GGUF_ARRAY;
  if (key.is_array) {
    TRI_TRY(read_array(r, &key));
  } else if (key.type == TRI_GGUF_STRING) {
    TRI_TRY(read_string(r, &key.data_at, &key.data_bytes));
  } else {
    TRI_TRY(skip_values(r, &key));
  }
  TRI_TRY(tri_grow("the keys of a GGUF file", sizeof key, r->file->num_keys, &r->keys_room, &r->file->keys));
  r->file->keys[r->file->num_keys++] = key;
  return TRI_OK;
}

static int compare_keys(const void *left, const void *right) {
  const tri_gguf_key *const *a = left, *const *b = right;
  return strcmp((*a)->name, (*b)->name);
}

/* Sets the pointers of all keys and sorts them by name. */
static tri_status index_keys(tri_gguf_file *file) {
  TRI_TRY(
      tri_alloc("the keys of a GGUF file", (size_t)file->num_keys, sizeof *file->keys_by_name, &file->keys_by_name));
  for (int64_t k = 0; k < file->num_keys; k++) {
    file->keys[k].name = file->header + file->keys[k].name_at;
    file->keys[k].data = file->header + file->keys[k].data_at;
    file->keys_by_name[k] = &file->keys[k];
  }
  qsort(file->keys_by_name, (size_t)file->num_keys, sizeof *file->keys_by_name, compare_keys);
  for (int64_t k = 1; k < file->num_keys; k++) {
    if (compare_keys(&file->keys_by_name[k - 1], &file->keys_by_name[k]) != 0) continue;
    return tri_fail(TRI_BAD_FILE, "%s has two keys `%.200s`; convert the model again", file->path,
                    file->keys_by_name[k]->name);
  }
  return TRI_OK;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static tri_status read_dims(reader *r, tri_gguf_tensor *tensor) {
  uint32_t count = 0;
  TRI_TRY(read_bytes(r, sizeof count, &count));
  if (count > TRI_GGUF_DIMS) {
    return tri_fail(TRI_BAD_FILE, "%s: %s has %" PRIu32 " dimensions; at most %d are possible; the file is damaged",
                    r->file->path, r->field, count, TRI_GGUF_DIMS);
  }
  tensor->num_dims = (int)count;
  return read_bytes(r, count * sizeof tensor->dims[0], tensor->dims);
}

bool tri_gguf_set_bytes(tri_gguf_tensor *tensor) {
  int64_t elements = 1, bytes = 0;
  for (int d = tensor->num_dims; d < TRI_GGUF_DIMS; d++) tensor->dims[d] = 1;
  for (int d = 0; d < TRI_GGUF_DIMS; d++) {
    if (tensor->dims[d] < 0 || __builtin_mul_overflow(elements, tensor->dims[d], &elements)) return false;
  }
  if (tensor->dims[0] % tensor->type->elements != 0) return false;
  if (__builtin_mul_overflow(elements / tensor->type->elements, tensor->type->bytes, &bytes)) return false;
  tensor->bytes = (uint64_t)bytes;
  return true;
}

static tri_status read_tensor_type(reader *r, tri_gguf_tensor *tensor) {
  uint32_t type = 0;
  TRI_TRY(read_bytes(r, sizeof type, &type));
  tensor->type = tri_gguf_type_of(type);
  if (tensor->type == NULL) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: %s has the unknown type %" PRIu32
                    "; the file is damaged, or newer than this program; convert the model to another type",
                    r->file->path, r->field, type);
  }
  if (!tri_gguf_set_bytes(tensor)) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: %s has %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64
                    " elements of the type %s, which is not a possible size (rows consist of blocks of %" PRId64
                    " elements); the file is damaged",
                    r->file->path, r->field, tensor->dims[0], tensor->dims[1], tensor->dims[2], tensor->dims[3],
                    tensor->type->name, tensor->type->elements);
  }
  return TRI_OK;
}

static tri_status read_tensor(reader *r, uint64_t index) {
  tri_gguf_tensor tensor = {0};
  set_field(r, "the name of tensor %" PRIu64, index);
  TRI_TRY(read_name(r, TENSOR_NAME_BYTES, &tensor.name_at));
  set_field(r, "tensor `%.255s`", r->file->header + tensor.name_at);
  TRI_TRY(read_dims(r, &tensor));
  TRI_TRY(read_tensor_type(r, &tensor));
  TRI_TRY(read_bytes(r, sizeof tensor.offset, &tensor.offset));
  TRI_TRY(
      tri_grow("the tensors of a GGUF file", sizeof tensor, r->file->num_tensors, &r->tensors_room, &r->file->tensors));
  r->file->tensors[r->file->num_tensors++] = tensor;
  return TRI_OK;
}

/* Sets the alignment and the offset of the tensors' bytes. */
static tri_status set_data_offset(const reader *r) {
  tri_gguf_file *file = r->file;
  int64_t alignment = TRI_GGUF_ALIGNMENT;
  if (tri_gguf_find_key(file, TRI_GGUF_KEY_ALIGNMENT) != NULL) {
    TRI_TRY(tri_gguf_get_integer(file, TRI_GGUF_KEY_ALIGNMENT, &alignment));
  }
  if (alignment < 1 || alignment > UINT32_MAX || (alignment & (alignment - 1)) != 0) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: the value of key `%s` is %" PRId64 ", and must be a power of two; the file is damaged",
                    file->path, TRI_GGUF_KEY_ALIGNMENT, alignment);
  }
  file->alignment = (uint64_t)alignment;
  file->data_offset = (r->at + file->alignment - 1) & ~(file->alignment - 1);
  return TRI_OK;
}

/* Checks the range of a tensor, and makes its offset one in the file. */
static tri_status place_tensor(const tri_gguf_file *file, tri_gguf_tensor *tensor) {
  const uint64_t data_bytes = file->file_bytes < file->data_offset ? 0 : file->file_bytes - file->data_offset;
  if (tensor->offset % file->alignment != 0) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: tensor `%s` has the offset %" PRIu64 ", which is not a multiple of the alignment %" PRIu64
                    "; the file is damaged",
                    file->path, tensor->name, tensor->offset, file->alignment);
  }
  if (tensor->offset > data_bytes || tensor->bytes > data_bytes - tensor->offset) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: tensor `%s` has %" PRIu64 " bytes at the offset %" PRIu64 ", but only %" PRIu64
                    " bytes of data exist; the file is truncated or damaged, copy or download it again",
                    file->path, tensor->name, tensor->bytes, tensor->offset, data_bytes);
  }
  tensor->offset += file->data_offset;
  return TRI_OK;
}

/* Orders tensors by offset, an empty tensor before the tensor at the same offset. */
static int compare_offsets(const void *left, const void *right) {
  const tri_gguf_tensor *const *a = left, *const *b = right;
  if ((*a)->offset != (*b)->offset) return (*a)->offset < (*b)->offset ? -1 : 1;
  return ((*a)->bytes > (*b)->bytes) - ((*a)->bytes < (*b)->bytes);
}

static tri_status check_overlaps(const tri_gguf_file *file) {
  const tri_gguf_tensor **sorted = file->tensors_by_name;
  qsort(sorted, (size_t)file->num_tensors, sizeof *sorted, compare_offsets);
  for (int64_t t = 1; t < file->num_tensors; t++) {
    if (sorted[t]->offset - sorted[t - 1]->offset >= sorted[t - 1]->bytes) continue;
    return tri_fail(TRI_BAD_FILE, "%s: tensors `%s` and `%s` overlap at byte %" PRIu64 "; the file is damaged",
                    file->path, sorted[t - 1]->name, sorted[t]->name, sorted[t]->offset);
  }
  return TRI_OK;
}

static int compare_tensors(const void *left, const void *right) {
  const tri_gguf_tensor *const *a = left, *const *b = right;
  return strcmp((*a)->name, (*b)->name);
}

/* Sets the pointers of all tensors, checks where they are, and sorts them by name. */
static tri_status index_tensors(tri_gguf_file *file) {
  TRI_TRY(tri_alloc("the tensors of a GGUF file", (size_t)file->num_tensors, sizeof *file->tensors_by_name,
                    &file->tensors_by_name));
  for (int64_t t = 0; t < file->num_tensors; t++) {
    file->tensors[t].name = file->header + file->tensors[t].name_at;
    TRI_TRY(place_tensor(file, &file->tensors[t]));
    file->tensors_by_name[t] = &file->tensors[t];
  }
  TRI_TRY(check_overlaps(file));
  qsort(file->tensors_by_name, (size_t)file->num_tensors, sizeof *file->tensors_by_name, compare_tensors);
  for (int64_t t = 1; t < file->num_tensors; t++) {
    if (compare_tensors(&file->tensors_by_name[t - 1], &file->tensors_by_name[t]) != 0) continue;
    return tri_fail(TRI_BAD_FILE, "%s has two tensors `%s`; convert the model again", file->path,
                    file->tensors_by_name[t]->name);
  }
  return TRI_OK;
}

static int compare_name(const void *name, const void *entry) {
  const tri_gguf_tensor *const *tensor = entry;
  return strcmp(name, (*tensor)->name);
}

const tri_gguf_tensor *tri_gguf_find_tensor(const tri_gguf_file *file, const char *name) {
  if (file->num_tensors == 0) return NULL;
  const tri_gguf_tensor *const *found =
      bsearch(name, file->tensors_by_name, (size_t)file->num_tensors, sizeof *file->tensors_by_name, compare_name);
  return found == NULL ? NULL : *found;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static tri_status read_header(tri_gguf_file *file) {
  reader r = {.file = file};
  TRI_TRY(read_beginning(&r));
  for (uint64_t k = 0; k < r.num_keys; k++) TRI_TRY(read_key(&r, k));
  for (uint64_t t = 0; t < r.num_tensors; t++) TRI_TRY(read_tensor(&r, t));
  TRI_TRY(index_keys(file));
  TRI_TRY(set_data_offset(&r));
  return index_tensors(file);
}

tri_status tri_gguf_open(const char *path, tri_gguf_file *out) {
  struct stat facts;
  tri_status status = TRI_OK;
  tri_gguf_file file = {.file = -1};
  if (strlen(path) >= sizeof file.path) return tri_fail(TRI_BAD_USAGE, "the path %s is too long", path);
  snprintf(file.path, sizeof file.path, "%s", path);
  TRI_TRY(tri_file_open_plain(path, &file.file));
  if (fstat(file.file, &facts) != 0) {
    status = tri_fail(TRI_IO_FAILED, "cannot look at %s: %s", path, strerror(errno));
    goto close_file;
  }
  file.file_bytes = (uint64_t)facts.st_size;
  TRI_TRY_GOTO(read_header(&file), close_file);
  *out = file;
  return TRI_OK;
close_file:
  tri_gguf_close(&file);
  return status;
}

void tri_gguf_close(tri_gguf_file *file) {
  if (file->file >= 0) close(file->file);
  tri_free(file->keys_by_name);
  tri_free(file->tensors_by_name);
  tri_free(file->keys);
  tri_free(file->tensors);
  tri_free(file->header);
  *file = (tri_gguf_file){.file = -1};
}

tri_status tri_gguf_read(const tri_gguf_file *file, const tri_gguf_tensor *tensor, uint64_t first, uint64_t bytes,
                         void *out) {
  if (first > tensor->bytes || bytes > tensor->bytes - first) {
    return tri_fail_internal("bytes [%" PRIu64 ", %" PRIu64 ") of tensor `%s`, which has %" PRIu64, first,
                             first + bytes, tensor->name, tensor->bytes);
  }
  return read_range(file, tensor->offset + first, bytes, out);
}
