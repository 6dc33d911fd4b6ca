/* Whole safetensors files: opening and reading, with conversion, and writing. */
#include "checkpoint/element_sum.h"
#include "checkpoint/four_bits.h"
#include "checkpoint/output.h"
#include "checkpoint/safetensors.h"

#include "base/flight_recorder.h"
#include "base/half.h"
#include "base/memory.h"
#include "files/file_kind.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONVERT_ELEMENTS = 32768 };

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Reads the header, whose length is in the first bytes. If the file is too short for the header, reads only the first
 * bytes. */
static tri_status read_header(tri_safetensors_file *file) {
  uint64_t length = 0, held = file->file_bytes < sizeof length ? file->file_bytes : sizeof length;
  TRI_TRY(tri_input_read(&file->input, 0, held, &length));
  char *data = NULL;
  tri_status status = TRI_OK;
  if (held == sizeof length && length <= file->file_bytes - held && length <= (1u << 30)) {
    held += length;
  } else { /* the first bytes are enough to recognise another kind of file */
    held = file->file_bytes < TRI_FILE_KIND_BYTES ? file->file_bytes : TRI_FILE_KIND_BYTES;
  }
  TRI_TRY_GOTO(tri_alloc(file->input.path, held, 1, &data), free_data);
  TRI_TRY_GOTO(tri_input_read(&file->input, 0, held, data), free_data);
  status = tri_safetensors_parse(file->input.path, data, held, file->file_bytes, &file->header);
free_data:
  tri_free(data);
  return status;
}

tri_status tri_safetensors_open(const char *path, tri_safetensors_file *out) {
  tri_safetensors_file file = {.input = {.file = -1, .direct = -1}};
  if (strlen(path) >= sizeof file.input.path) return tri_fail(TRI_BAD_USAGE, "the path %s is too long", path);
  TRI_TRY(tri_input_open(path, &file.input));
  tri_status status = TRI_OK;
  struct stat facts;
  if (fstat(file.input.file, &facts) != 0) {
    status = tri_fail(TRI_IO_FAILED, "cannot look at %s: %s", path, strerror(errno));
    goto close_file;
  }
  file.file_bytes = (uint64_t)facts.st_size;
  TRI_TRY_GOTO(read_header(&file), close_file);
  *out = file;
  return TRI_OK;
close_file:
  tri_input_close(&file.input);
  return status;
}

void tri_safetensors_close(tri_safetensors_file *file) {
  tri_safetensors_header_destroy(&file->header);
  tri_input_close(&file->input);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

tri_status tri_safetensors_read_bytes(const tri_safetensors_file *file, const tri_safetensors_tensor *tensor,
                                      uint64_t first, uint64_t bytes, void *out) {
  if (first > tensor->bytes || bytes > tensor->bytes - first) {
    return tri_fail_internal("bytes [%" PRIu64 ", %" PRIu64 ") of tensor `%s`, which has %" PRIu64, first,
                             first + bytes, tensor->name, tensor->bytes);
  }
  return tri_input_read(&file->input, tensor->offset + first, bytes, out);
}

static float from_bf16(uint16_t value) {
  uint32_t bits = (uint32_t)value << 16;
  float out;
  memcpy(&out, &bits, sizeof out);
  return out;
}

static double element(tri_safetensors_type type, const char *raw, int64_t index) {
  uint16_t half;
  float single;
  double wide;
  switch ((int)type) { /* is_real has checked the type */
    case TRI_SAFETENSORS_F16: memcpy(&half, raw + 2 * index, 2); return (double)tri_float_of_f16(half);
    case TRI_SAFETENSORS_BF16: memcpy(&half, raw + 2 * index, 2); return (double)from_bf16(half);
    case TRI_SAFETENSORS_F32: memcpy(&single, raw + 4 * index, 4); return (double)single;
    default: memcpy(&wide, raw + 8 * index, 8); return wide;
  }
}

static bool is_real(tri_safetensors_type type) {
  return type == TRI_SAFETENSORS_F16 || type == TRI_SAFETENSORS_BF16 || type == TRI_SAFETENSORS_F32 ||
         type == TRI_SAFETENSORS_F64;
}

/* Sets element i of an array of fp32, fp64 or bf16. */
static void store_element(tri_dtype type, void *out, int64_t i, double value) {
  const uint16_t narrow = tri_bf16_of(tri_float_to_odd(value));
  if (type == TRI_BF16) {
    memcpy((char *)out + 2 * i, &narrow, sizeof narrow);
  } else {
    tri_wide_set(type, out, i, value);
  }
}

/* Converts elements between the types of most files and of most runs, with the results of store_element. Returns
 * whether it has a loop for these types. */
static bool convert_quickly(tri_safetensors_type from, tri_dtype type, int64_t count, const char *raw, char *out) {
  if (from == TRI_SAFETENSORS_BF16 && type == TRI_FP32) {
    for (int64_t i = 0; i < count; i++) {
      uint16_t half;
      memcpy(&half, raw + 2 * i, sizeof half);
      const float value = from_bf16(half);
      memcpy(out + 4 * i, &value, sizeof value);
    }
    return true;
  }
  if (from == TRI_SAFETENSORS_F32 && type == TRI_BF16) {
    for (int64_t i = 0; i < count; i++) {
      float value;
      memcpy(&value, raw + 4 * i, sizeof value);
      const uint16_t narrow = tri_bf16_of(value);
      memcpy(out + 2 * i, &narrow, sizeof narrow);
    }
    return true;
  }
  return false;
}

static tri_status read_converted(const tri_safetensors_file *file, const tri_safetensors_tensor *tensor, tri_dtype type,
                                 int64_t first, int64_t count, void *out, uint64_t *sum) {
  int64_t width = tri_safetensors_type_bits(tensor->type) / 8;
  char *raw = NULL;
  int64_t room = count < CONVERT_ELEMENTS ? count : CONVERT_ELEMENTS;
  TRI_TRY(tri_alloc("the buffer that converts a tensor", (size_t)room, (size_t)width, &raw));
  tri_status status = TRI_OK;
  for (int64_t done = 0; done < count;) {
    int64_t piece = count - done < room ? count - done : room;
    TRI_TRY_GOTO(
        tri_safetensors_read_bytes(file, tensor, (uint64_t)((first + done) * width), (uint64_t)(piece * width), raw),
        free_raw);
    if (sum != NULL) *sum += tri_element_sum((size_t)width, first + done, piece, raw);
    char *to = (char *)out + (size_t)done * tri_dtype_bytes(type);
    if (!convert_quickly(tensor->type, type, piece, raw, to)) {
      for (int64_t i = 0; i < piece; i++) store_element(type, to, i, element(tensor->type, raw, i));
    }
    done += piece;
  }
free_raw:
  tri_free(raw);
  return status;
}

tri_status tri_safetensors_read_some(const tri_safetensors_file *file, const tri_safetensors_tensor *tensor,
                                     tri_dtype type, int64_t first, int64_t count, void *out, uint64_t *sum) {
  uint64_t width = (uint64_t)tri_safetensors_type_bits(tensor->type) / 8;
  if (tensor->four_bits != NULL) return tri_four_bits_read(tensor->four_bits, type, first, count, out);
  if (tensor->type == tri_safetensors_type_of(type)) {
    TRI_TRY(tri_safetensors_read_bytes(file, tensor, (uint64_t)first * width, (uint64_t)count * width, out));
    if (sum != NULL) *sum += tri_element_sum_parallel((size_t)width, first, count, out);
    return TRI_OK;
  }
  if (is_real(tensor->type) && (type == TRI_FP32 || type == TRI_FP64 || type == TRI_BF16)) {
    return read_converted(file, tensor, type, first, count, out, sum);
  }
  return tri_fail(TRI_UNSUPPORTED, "%s: tensor `%.200s` is %s, which cannot be read as %s", file->input.path,
                  tensor->name, tri_safetensors_type_name(tensor->type), tri_dtype_name(type));
}

tri_status tri_safetensors_read(const tri_safetensors_file *file, const tri_safetensors_tensor *tensor, tri_dtype type,
                                void *out) {
  int64_t count = 1;
  for (int d = 0; d < tensor->num_dims; d++) count *= tensor->shape[d];
  return tri_safetensors_read_some(file, tensor, type, 0, count, out, NULL);
}

tri_status tri_safetensors_sum(const tri_safetensors_file *file, const tri_safetensors_tensor *tensor, char *buffer,
                               uint64_t *sum) {
  const uint64_t element = (uint64_t)tri_safetensors_type_bits(tensor->type) / 8;
  tri_record record = tri_record_make(TRI_RECORD_WORK, "sum a tensor");
  tri_status status = TRI_OK;
  *sum = 0;
  if (element == 0) return tri_fail(TRI_UNSUPPORTED, "%s: `%.200s` has no whole bytes", file->input.path, tensor->name);
  const uint64_t ticket = tri_recorder_begin(&record);
  for (uint64_t done = 0; done < tensor->bytes && status == TRI_OK;) {
    const uint64_t rest = tensor->bytes - done,
                   piece = rest < TRI_SAFETENSORS_SUM_BYTES ? rest : TRI_SAFETENSORS_SUM_BYTES;
    status = tri_safetensors_read_bytes(file, tensor, done, piece, buffer);
    if (status == TRI_OK)
      *sum += tri_element_sum((size_t)element, (int64_t)(done / element), (int64_t)(piece / element), buffer);
    done += piece;
  }
  tri_recorder_end(ticket);
  return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

tri_status tri_safetensors_write(const char *path, const tri_safetensors_tensor *tensors, const void *const *data,
                                 int64_t count, const char *header, size_t header_bytes, uint64_t file_bytes,
                                 uint64_t *checksums) {
  tri_output output = {.file = -1, .direct = -1};
  TRI_TRY(tri_output_create(path, file_bytes, &output));
  tri_status status = TRI_OK;
  TRI_TRY_GOTO(tri_output_write(&output, 0, header, header_bytes, checksums), abandon_output);
  for (int64_t i = 0; i < count; i++) {
    uint64_t *checksum = checksums == NULL ? NULL : &checksums[i + 1];
    TRI_TRY_GOTO(tri_output_write(&output, tensors[i].offset, data[i], tensors[i].bytes, checksum), abandon_output);
  }
  return tri_output_finish(&output);
abandon_output:
  tri_output_abandon(&output);
  return status;
}
