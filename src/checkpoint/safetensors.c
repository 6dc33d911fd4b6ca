/* Types and headers of safetensors files. Before a tensor is read, its header must meet these rules:
 *
 *  - the length before it is at most 100 MB (the format's limit) and ends inside the file;
 *  - the JSON is one object, without duplicate names in any object, followed only by blanks;
 *  - each tensor's type is known, its dimensions are integers >= 0 and their product in bits does not overflow;
 *  - each tensor's range is begin <= end, inside the data, and as long as type and shape say;
 *  - sorted by offset, each tensor begins at the end of the tensor before, the first at 0, and the last ends at the end
 * of the file.
 *
 * The last rule is the format's own ("no holes") and has a second use: a checksum of the header and one of each tensor
 * together cover every byte of the file. */
#include "checkpoint/safetensors.h"

#include "base/memory.h"
#include "files/file_kind.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors files are little-endian, and so must the machine be"
#endif

enum { LENGTH_BYTES = 8, HEADER_LIMIT_BYTES = 100000000, ALIGNMENT_BYTES = 8 };

const char *tri_safetensors_type_name(tri_safetensors_type type) {
  switch (type) {
    case TRI_SAFETENSORS_BOOL: return "BOOL";
    case TRI_SAFETENSORS_F4: return "F4";
    case TRI_SAFETENSORS_F6_E2M3: return "F6_E2M3";
    case TRI_SAFETENSORS_F6_E3M2: return "F6_E3M2";
    case TRI_SAFETENSORS_U8: return "U8";
    case TRI_SAFETENSORS_I8: return "I8";
    case TRI_SAFETENSORS_F8_E5M2: return "F8_E5M2";
    case TRI_SAFETENSORS_F8_E4M3: return "F8_E4M3";
    case TRI_SAFETENSORS_F8_E8M0: return "F8_E8M0";
    case TRI_SAFETENSORS_I16: return "I16";
    case TRI_SAFETENSORS_U16: return "U16";
    case TRI_SAFETENSORS_F16: return "F16";
    case TRI_SAFETENSORS_BF16: return "BF16";
    case TRI_SAFETENSORS_I32: return "I32";
    case TRI_SAFETENSORS_U32: return "U32";
    case TRI_SAFETENSORS_F32: return "F32";
    case TRI_SAFETENSORS_C64: return "C64";
    case TRI_SAFETENSORS_F64: return "F64";
    case TRI_SAFETENSORS_I64: return "I64";
    case TRI_SAFETENSORS_U64: return "U64";
    case TRI_SAFETENSORS_TYPES: break; /* the number of types */
  }
  return "?";
}

int tri_safetensors_type_bits(tri_safetensors_type type) {
  switch (type) {
    case TRI_SAFETENSORS_F4: return 4;
    case TRI_SAFETENSORS_F6_E2M3:
    case TRI_SAFETENSORS_F6_E3M2: return 6;
    case TRI_SAFETENSORS_BOOL:
    case TRI_SAFETENSORS_U8:
    case TRI_SAFETENSORS_I8:
    case TRI_SAFETENSORS_F8_E5M2:
    case TRI_SAFETENSORS_F8_E4M3:
    case TRI_SAFETENSORS_F8_E8M0: return 8;
    case TRI_SAFETENSORS_I16:
    case TRI_SAFETENSORS_U16:
    case TRI_SAFETENSORS_F16:
    case TRI_SAFETENSORS_BF16: return 16;
    case TRI_SAFETENSORS_I32:
    case TRI_SAFETENSORS_U32:
    case TRI_SAFETENSORS_F32: return 32;
    case TRI_SAFETENSORS_C64:
    case TRI_SAFETENSORS_F64:
    case TRI_SAFETENSORS_I64:
    case TRI_SAFETENSORS_U64: return 64;
    case TRI_SAFETENSORS_TYPES: break;
  }
  return 0;
}

tri_safetensors_type tri_safetensors_type_of(tri_dtype type) {
  switch (type) {
    case TRI_FP32: return TRI_SAFETENSORS_F32;
    case TRI_BF16: return TRI_SAFETENSORS_BF16;
    case TRI_FP64: return TRI_SAFETENSORS_F64;
    case TRI_INT32: return TRI_SAFETENSORS_I32;
  }
  return TRI_SAFETENSORS_F32;
}

const char *tri_safetensors_shape_text(int num_dims, const int64_t *shape, char text[TRI_SAFETENSORS_SHAPE_BYTES]) {
  size_t held = 0;
  text[held++] = '[';
  for (int d = 0; d < num_dims; d++) {
    held +=
        (size_t)snprintf(text + held, TRI_SAFETENSORS_SHAPE_BYTES - held, "%s%" PRId64, d == 0 ? "" : ", ", shape[d]);
  }
  snprintf(text + held, TRI_SAFETENSORS_SHAPE_BYTES - held, "]");
  return text;
}

/* Computes the bytes of a tensor from its type and shape; returns false on overflow, or if its bits are not a multiple
 * of 8. */
static bool tensor_bytes(const tri_safetensors_tensor *tensor, uint64_t *bytes) {
  uint64_t bits = (uint64_t)tri_safetensors_type_bits(tensor->type);
  bool overflow = false;
  for (int d = 0; d < tensor->num_dims; d++) {
    if (tensor->shape[d] == 0) {
      *bytes = 0;
      return true;
    }
    overflow = overflow || __builtin_mul_overflow(bits, (uint64_t)tensor->shape[d], &bits);
  }
  *bytes = bits / 8;
  return !overflow && bits % 8 == 0;
}

/* ---- parsing ----------------------------------------------------------------------------------------------------- */

static tri_status parse_type(const char *path, const char *name, const json_t *value, tri_safetensors_type *out) {
  const char *word = json_string_value(value);
  if (word == NULL) return tri_fail(TRI_BAD_FILE, "%s: tensor `%.200s` has no `dtype` string", path, name);
  for (int t = 0; t < TRI_SAFETENSORS_TYPES; t++) {
    if (strcmp(word, tri_safetensors_type_name((tri_safetensors_type)t)) == 0) {
      *out = (tri_safetensors_type)t;
      return TRI_OK;
    }
  }
  return tri_fail(TRI_BAD_FILE, "%s: tensor `%.200s` has the unknown type `%.40s`", path, name, word);
}

static tri_status parse_shape(const char *path, const json_t *value, tri_safetensors_tensor *out) {
  if (!json_is_array(value)) {
    return tri_fail(TRI_BAD_FILE, "%s: tensor `%.200s` has no `shape` list", path, out->name);
  }
  size_t count = json_array_size(value);
  if (count > TRI_SAFETENSORS_DIMS) {
    return tri_fail(TRI_BAD_FILE, "%s: tensor `%.200s` has %zu dimensions; at most %d are supported", path, out->name,
                    count, TRI_SAFETENSORS_DIMS);
  }
  out->num_dims = (int)count;
  for (size_t d = 0; d < count; d++) {
    const json_t *size = json_array_get(value, d);
    if (!json_is_integer(size)) {
      return tri_fail(TRI_BAD_FILE, "%s: dimension %zu of tensor `%.200s` is not an integer", path, d, out->name);
    }
    out->shape[d] = (int64_t)json_integer_value(size);
    if (out->shape[d] < 0) {
      return tri_fail(TRI_BAD_FILE, "%s: dimension %zu of tensor `%.200s` is %" PRId64, path, d, out->name,
                      out->shape[d]);
    }
  }
  return TRI_OK;
}

static tri_status parse_range(const char *path, const json_t *value, uint64_t data_offset, uint64_t data_bytes,
                              tri_safetensors_tensor *out) {
  const json_t *first = json_array_get(value, 0), *last = json_array_get(value, 1);
  if (json_array_size(value) != 2 || !json_is_integer(first) || !json_is_integer(last)) {
    return tri_fail(TRI_BAD_FILE, "%s: tensor `%.200s` has no `data_offsets` of two integers", path, out->name);
  }
  int64_t begin = (int64_t)json_integer_value(first), end = (int64_t)json_integer_value(last);
  if (begin < 0 || begin > end) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: tensor `%.200s` has the byte range [%" PRId64 ", %" PRId64 "), which is not valid", path,
                    out->name, begin, end);
  }
  if ((uint64_t)end > data_bytes) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: tensor `%.200s` has the byte range [%" PRId64 ", %" PRId64 "), but the file has only %" PRIu64
                    " bytes of data; it is truncated or damaged",
                    path, out->name, begin, end, data_bytes);
  }
  out->offset = data_offset + (uint64_t)begin;
  out->bytes = (uint64_t)(end - begin);
  uint64_t wanted = 0;
  char shape[TRI_SAFETENSORS_SHAPE_BYTES];
  tri_safetensors_shape_text(out->num_dims, out->shape, shape);
  if (!tensor_bytes(out, &wanted)) {
    return tri_fail(TRI_BAD_FILE, "%s: tensor `%.200s` of shape %s has no size in bytes that a file could have", path,
                    out->name, shape);
  }
  if (wanted != out->bytes) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: tensor `%.200s` has %" PRIu64 " bytes at [%" PRId64 ", %" PRId64
                    "), but %s of shape %s needs "
                    "%" PRIu64,
                    path, out->name, out->bytes, begin, end, tri_safetensors_type_name(out->type), shape, wanted);
  }
  return TRI_OK;
}

static tri_status check_metadata(const char *path, json_t *metadata) {
  if (!json_is_object(metadata)) return tri_fail(TRI_BAD_FILE, "%s: `__metadata__` is not an object", path);
  const char *key = NULL;
  json_t *value = NULL;
  json_object_foreach(metadata, key, value) {
    if (!json_is_string(value)) {
      return tri_fail(TRI_BAD_FILE, "%s: `%.200s` in `__metadata__` is not a string", path, key);
    }
  }
  return TRI_OK;
}

/* Compares the places of two tensors: orders them by offset, an empty tensor before the tensor at the same offset. */
static int compare_places(const void *left, const void *right) {
  const tri_safetensors_tensor *a = left, *b = right;
  if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
  return strcmp(a->name, b->name);
}

static tri_status check_coverage(const char *path, const tri_safetensors_header *header, uint64_t data_bytes) {
  uint64_t covered = 0;
  const char *before = NULL;
  for (int64_t i = 0; i < header->num_tensors; i++) {
    const tri_safetensors_tensor *tensor = &header->tensors[i];
    uint64_t begin = tensor->offset - header->data_offset;
    if (begin < covered) {
      return tri_fail(TRI_BAD_FILE,
                      "%s: tensor `%.200s` begins at byte %" PRIu64 ", inside tensor `%.200s`, which ends at %" PRIu64,
                      path, tensor->name, begin, before, covered);
    }
    if (begin > covered) {
      return tri_fail(TRI_BAD_FILE, "%s: bytes [%" PRIu64 ", %" PRIu64 ") before tensor `%.200s` belong to no tensor",
                      path, covered, begin, tensor->name);
    }
    covered += tensor->bytes;
    before = tensor->name;
  }
  if (covered == data_bytes) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "%s: the last %" PRIu64 " bytes of the file belong to no tensor", path,
                  data_bytes - covered);
}

static int compare_names(const void *left, const void *right) {
  const tri_safetensors_tensor *const *a = left, *const *b = right;
  return strcmp((*a)->name, (*b)->name);
}

static tri_status parse_tensors(const char *path, uint64_t file_bytes, tri_safetensors_header *header) {
  size_t room = json_object_size(header->document);
  TRI_TRY(tri_alloc("the table of a safetensors file", room, sizeof *header->tensors, &header->tensors));
  TRI_TRY(tri_alloc("the table of a safetensors file", room, sizeof(void *), &header->by_name));
  uint64_t data_bytes = file_bytes - header->data_offset;
  const char *name = NULL;
  json_t *value = NULL;
  json_object_foreach(header->document, name, value) {
    if (strcmp(name, "__metadata__") == 0) {
      TRI_TRY(check_metadata(path, value));
      continue;
    }
    if (!json_is_object(value)) return tri_fail(TRI_BAD_FILE, "%s: tensor `%.200s` is not an object", path, name);
    tri_safetensors_tensor *tensor = &header->tensors[header->num_tensors];
    tensor->name = name;
    TRI_TRY(parse_type(path, name, json_object_get(value, "dtype"), &tensor->type));
    TRI_TRY(parse_shape(path, json_object_get(value, "shape"), tensor));
    TRI_TRY(parse_range(path, json_object_get(value, "data_offsets"), header->data_offset, data_bytes, tensor));
    header->num_tensors++;
  }
  qsort(header->tensors, (size_t)header->num_tensors, sizeof *header->tensors, compare_places);
  TRI_TRY(check_coverage(path, header, data_bytes));
  return tri_safetensors_index(path, header);
}

tri_status tri_safetensors_index(const char *path, tri_safetensors_header *header) {
  for (int64_t i = 0; i < header->num_tensors; i++) header->by_name[i] = &header->tensors[i];
  qsort(header->by_name, (size_t)header->num_tensors, sizeof(void *), compare_names);
  for (int64_t i = 1; i < header->num_tensors; i++) {
    if (compare_names(&header->by_name[i - 1], &header->by_name[i]) != 0) continue;
    return tri_fail(TRI_BAD_FILE, "%s: two tensors are called `%.200s` without the wrappers' parts in their names",
                    path, header->by_name[i]->name);
  }
  return TRI_OK;
}

static tri_status check_length(const char *path, const void *data, size_t held, uint64_t file_bytes, uint64_t *length) {
  if (file_bytes < LENGTH_BYTES || held < LENGTH_BYTES) {
    return tri_fail(TRI_BAD_FILE,
                    "%s is not a safetensors file: it has %" PRIu64
                    " bytes, but the length of the header alone takes %d",
                    path, file_bytes, LENGTH_BYTES);
  }
  memcpy(length, data, LENGTH_BYTES);
  if (*length > HEADER_LIMIT_BYTES) {
    return tri_fail(TRI_BAD_FILE,
                    "%s is not a safetensors file: it claims a header of %" PRIu64 " bytes; the format allows %d", path,
                    *length, HEADER_LIMIT_BYTES);
  }
  if (*length > file_bytes - LENGTH_BYTES || *length > held - LENGTH_BYTES) {
    return tri_fail(TRI_BAD_FILE,
                    "%s claims a header of %" PRIu64 " bytes, but only %" PRIu64 " follow; it is truncated or damaged",
                    path, *length, file_bytes - LENGTH_BYTES);
  }
  return TRI_OK;
}

tri_status tri_safetensors_parse(const char *path, const void *data, size_t held, uint64_t file_bytes,
                                 tri_safetensors_header *out) {
  uint64_t length = 0;
  const char *text = (const char *)data + LENGTH_BYTES;
  if (held <= LENGTH_BYTES || text[0] != '{') {
    const tri_file_kind *kind = tri_file_kind_of(data, held);
    if (kind != NULL) return tri_file_kind_refuse(TRI_BAD_FILE, path, kind, "a safetensors file");
  }
  TRI_TRY(check_length(path, data, held, file_bytes, &length));
  tri_safetensors_header header = {.data_offset = LENGTH_BYTES + length};
  if (length == 0 || text[0] != '{') {
    return tri_fail(TRI_BAD_FILE, "%s is not a safetensors file: its header does not begin with `{`", path);
  }
  json_error_t fault;
  header.document = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &fault);
  if (header.document == NULL) {
    return tri_fail(TRI_BAD_FILE, "%s: the header is not valid JSON at byte %d: %s", path, fault.position, fault.text);
  }
  tri_status status = parse_tensors(path, file_bytes, &header);
  if (status == TRI_OK) {
    *out = header;
  } else {
    tri_safetensors_header_destroy(&header);
  }
  return status;
}

void tri_safetensors_header_destroy(tri_safetensors_header *header) {
  tri_free(header->by_name);
  tri_free(header->tensors);
  tri_free(header->names);
  json_decref(header->document);
  *header = (tri_safetensors_header){0};
}

const tri_safetensors_tensor *tri_safetensors_find(const tri_safetensors_header *header, const char *name) {
  int64_t low = 0, high = header->num_tensors;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    int order = strcmp(name, header->by_name[middle]->name);
    if (order == 0) return header->by_name[middle];
    if (order < 0) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return NULL;
}

const char *tri_safetensors_metadata(const tri_safetensors_header *header, const char *key) {
  return json_string_value(json_object_get(json_object_get(header->document, "__metadata__"), key));
}

/* ---- the layout of a new file ------------------------------------------------------------------------------------ */

/* Places a tensor at *offset: sets its offset and bytes, adds its entry to the header, and moves *offset to its end. */
static tri_status place_tensor(json_t *document, tri_safetensors_tensor *tensor, uint64_t *offset) {
  char shape_text[TRI_SAFETENSORS_SHAPE_BYTES];
  if (!tensor_bytes(tensor, &tensor->bytes) || __builtin_add_overflow(*offset, tensor->bytes, &(uint64_t){0})) {
    return tri_fail_internal("tensor `%s` of shape %s has no size in bytes", tensor->name,
                             tri_safetensors_shape_text(tensor->num_dims, tensor->shape, shape_text));
  }
  if (strcmp(tensor->name, "__metadata__") == 0 || json_object_get(document, tensor->name) != NULL) {
    return tri_fail_internal("a safetensors file cannot contain two entries with the name `%s`", tensor->name);
  }
  json_t *shape = json_array();
  for (int d = 0; d < tensor->num_dims; d++) {
    if (json_array_append_new(shape, json_integer(tensor->shape[d])) != 0) {
      json_decref(shape);
      return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: the header of a safetensors file");
    }
  }
  tensor->offset = *offset;
  *offset += tensor->bytes;
  json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", tri_safetensors_type_name(tensor->type), "shape", shape,
                            "data_offsets", (json_int_t)tensor->offset, (json_int_t)*offset);
  if (json_object_set_new(document, tensor->name, entry) != 0) {
    return tri_fail_internal("`%.200s` cannot be the name of a tensor: it is not UTF-8", tensor->name);
  }
  return TRI_OK;
}

/* Prints the header: the length, the JSON, and blanks up to the alignment. Fails with TRI_UNSUPPORTED if it is longer
 * than the format allows. */
static tri_status print_header(const json_t *document, char **out, size_t *out_bytes) {
  uint64_t used = json_dumpb(document, NULL, 0, JSON_COMPACT);
  uint64_t length = (used + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
  char *header = NULL;
  if (used == 0) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: the header of a safetensors file");
  if (length > HEADER_LIMIT_BYTES) {
    return tri_fail(TRI_UNSUPPORTED, "a safetensors header of %" PRIu64 " bytes: the format allows %d", length,
                    HEADER_LIMIT_BYTES);
  }
  TRI_TRY(tri_alloc("the header of a safetensors file", LENGTH_BYTES + length, 1, &header));
  memcpy(header, &length, LENGTH_BYTES);
  memset(header + LENGTH_BYTES, ' ', length);
  json_dumpb(document, header + LENGTH_BYTES, used, JSON_COMPACT);
  *out = header;
  *out_bytes = LENGTH_BYTES + length;
  return TRI_OK;
}

tri_status tri_safetensors_layout(tri_safetensors_tensor *tensors, int64_t count, const char *format, char **header,
                                  size_t *header_bytes, uint64_t *file_bytes) {
  static const int widths[] = {64, 32, 16, 8, 6, 4};
  tri_status status = TRI_OK;
  json_t *document = json_object();
  if (format != NULL) json_object_set_new(document, "__metadata__", json_pack("{s:s}", "format", format));
  uint64_t offset = 0;
  for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
    for (int64_t i = 0; i < count; i++) {
      if (tri_safetensors_type_bits(tensors[i].type) != widths[w]) continue;
      TRI_TRY_GOTO(place_tensor(document, &tensors[i], &offset), drop_document);
    }
  }
  TRI_TRY_GOTO(print_header(document, header, header_bytes), drop_document);
  for (int64_t i = 0; i < count; i++) tensors[i].offset += *header_bytes;
  *file_bytes = offset + *header_bytes;
drop_document:
  json_decref(document);
  return status;
}
