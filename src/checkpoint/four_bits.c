#include "checkpoint/four_bits.h"

#include "base/dynamic_map.h"
#include "base/memory.h"
#include "device/nf4.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STATE_LIMIT_BYTES = 4096, NAME_BYTES = 512, PIECE_ELEMENTS = 1 << 18, PIECE_BLOCKS = PIECE_ELEMENTS / 32 + 2 };

/* A tensor that belongs to a matrix, and its file. The tensor is a copy, because tri_four_bits_find changes the files'
 * headers later. */
typedef struct part {
  tri_safetensors_tensor tensor;
  tri_input input;
} part;

struct tri_four_bits {
  char kind[8];                /* "nf4", "fp4" */
  part codes, largest, scales; /* codes; magnitudes of the blocks (absmax); if `nested`, scales of the magnitudes
                                  (nested_absmax) */
  bool nested;                 /* whether the magnitudes are codes themselves (double quantisation) */
  float numbers[TRI_NF4_CODES], nested_numbers[TRI_DYNAMIC_CODES]; /* values of the codes, and of the magnitudes'
                                                                      codes */
  float offset;         /* number that is added to each magnitude after its scale is applied; 0 unless `nested` */
  int64_t block, group; /* numbers of elements that share a magnitude, and of blocks that share a scale */
  int64_t count;        /* number of elements of the matrix */
};

/* ---- the tensors of a matrix ------------------------------------------------------------------------------------- */

static int64_t count_of(const tri_safetensors_tensor *tensor) {
  return (int64_t)(tensor->bytes * 8 / (uint64_t)tri_safetensors_type_bits(tensor->type));
}

static int64_t blocks_of(int64_t count, int64_t block) { return count / block + (count % block != 0); }

/* Returns whether a tensor is the JSON text of a matrix; sets `matrix` to the matrix's name and *kind to the end of the
 * tensor's name ("nf4", "fp4"), which is not checked here. */
static bool is_state(const char *name, char matrix[NAME_BYTES], const char **kind) {
  const char *at = strstr(name, TRI_FOUR_BITS_STATE);
  if (at == NULL || at - name >= NAME_BYTES) return false;
  snprintf(matrix, NAME_BYTES, "%.*s", (int)(at - name), name);
  *kind = at + strlen(TRI_FOUR_BITS_STATE);
  return true;
}

static bool find_part(const tri_safetensors_file *files, int64_t num_files, const char *matrix, const char *suffix,
                      part *out) {
  char name[NAME_BYTES + 32];
  snprintf(name, sizeof name, "%s%s", matrix, suffix);
  for (int64_t f = 0; f < num_files; f++) {
    const tri_safetensors_tensor *tensor = tri_safetensors_find(&files[f].header, name);
    if (tensor == NULL) continue;
    *out = (part){*tensor, files[f].input};
    return true;
  }
  return false;
}

static tri_status refuse(const part *p, const char *what) {
  return tri_fail(TRI_BAD_FILE,
                  "%s: tensor `%.200s`, of a matrix in 4 bits, %s; save the model again with bitsandbytes",
                  p->input.path, p->tensor.name, what);
}

/* Finds a required part; fails unless it has `count` elements of the type. */
static tri_status need_part(const tri_safetensors_file *files, int64_t num_files, const part *state, const char *matrix,
                            const char *suffix, tri_safetensors_type type, int64_t count, part *out) {
  char text[160];
  if (!find_part(files, num_files, matrix, suffix, out)) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: according to tensor `%.200s`, `%.200s` is in 4 bits, but the tensor `%.200s%s` is missing",
                    state->input.path, state->tensor.name, matrix, matrix, suffix);
  }
  if (out->tensor.type == type && count_of(&out->tensor) == count) return TRI_OK;
  snprintf(text, sizeof text, "has %" PRId64 " numbers of type %s, not %" PRId64 " of type %s", count_of(&out->tensor),
           tri_safetensors_type_name(out->tensor.type), count, tri_safetensors_type_name(type));
  return refuse(out, text);
}

static tri_status read_floats(const part *p, float *out) {
  return tri_input_read(&p->input, p->tensor.offset, p->tensor.bytes, out);
}

/* ---- the JSON text ----------------------------------------------------------------------------------------------- */

static tri_status parse_shape(const part *state, const json_t *shape, tri_safetensors_tensor *out, int64_t *count) {
  const size_t dims = json_array_size(shape);
  int64_t product = 1;
  if (dims < 1 || dims > 2) return refuse(state, "has no `shape` of one or two numbers");
  out->num_dims = (int)dims;
  for (size_t d = 0; d < dims; d++) {
    out->shape[d] = (int64_t)json_integer_value(json_array_get(shape, d));
    if (out->shape[d] < 1 || out->shape[d] > INT64_MAX / 4096 / product) return refuse(state, "has a wrong `shape`");
    product *= out->shape[d];
  }
  *count = product;
  return TRI_OK;
}

static tri_status parse_type(const part *state, const char *word, tri_safetensors_type *out) {
  static const struct {
    const char *word;
    tri_safetensors_type type;
  } types[] = {{"float32", TRI_SAFETENSORS_F32}, {"bfloat16", TRI_SAFETENSORS_BF16}, {"float16", TRI_SAFETENSORS_F16}};
  for (size_t i = 0; i < sizeof types / sizeof types[0] && word != NULL; i++) {
    if (strcmp(types[i].word, word) != 0) continue;
    *out = types[i].type;
    return TRI_OK;
  }
  return refuse(state, "has no `dtype` that is float32, bfloat16 or float16");
}

static tri_status parse_block(const part *state, const json_t *document, const char *key, int64_t *out) {
  char text[80];
  *out = (int64_t)json_integer_value(json_object_get(document, key));
  if (*out >= 32 && *out <= 4096 && (*out & (*out - 1)) == 0) return TRI_OK;
  snprintf(text, sizeof text, "has no `%s` that is a power of 2 from 32 to 4096", key);
  return refuse(state, text);
}

/* Sets kind, count, block, nested, offset and group of `m` from the JSON text `document` of `state`, and the shape and
 * type of `tensor` to those of the dequantised matrix. Fails if a value is missing or wrong, or if `kind` is unknown.
 */
static tri_status parse_state(const part *state, const char *kind, const json_t *document, tri_four_bits *m,
                              tri_safetensors_tensor *tensor) {
  const char *said = json_string_value(json_object_get(document, "quant_type"));
  if (said == NULL || strcmp(said, kind) != 0) return refuse(state, "has another `quant_type` than its name");
  if (strcmp(kind, "nf4") != 0 && strcmp(kind, "fp4") != 0) return refuse(state, "is of neither nf4 nor fp4");
  snprintf(m->kind, sizeof m->kind, "%s", kind);
  TRI_TRY(parse_shape(state, json_object_get(document, "shape"), tensor, &m->count));
  TRI_TRY(parse_type(state, json_string_value(json_object_get(document, "dtype")), &tensor->type));
  TRI_TRY(parse_block(state, document, "blocksize", &m->block));
  m->nested = json_object_get(document, "nested_blocksize") != NULL;
  if (!m->nested) return TRI_OK;
  const json_t *offset = json_object_get(document, "nested_offset");
  m->offset = (float)json_number_value(offset);
  if (!json_is_number(offset) || !isfinite(m->offset)) return refuse(state, "has no `nested_offset` that is finite");
  return parse_block(state, document, "nested_blocksize", &m->group);
}

static tri_status read_state(const part *state, json_t **out) {
  char text[STATE_LIMIT_BYTES];
  if (state->tensor.type != TRI_SAFETENSORS_U8 || state->tensor.bytes > sizeof text) {
    return refuse(state, "is not a text of at most 4096 bytes");
  }
  TRI_TRY(tri_input_read(&state->input, state->tensor.offset, state->tensor.bytes, text));
  return tri_json_parse(state->input.path, text, state->tensor.bytes, 0, out);
}

/* ---- a matrix ---------------------------------------------------------------------------------------------------- */

/* Returns whether numbers[TRI_DYNAMIC_CODES] are the values of our codes (tri_dynamic_number) up to the rounding of
 * fp32. */
static bool is_our_map(const float *numbers) {
  for (int32_t c = 0; c < TRI_DYNAMIC_CODES; c++) {
    const float ours = tri_dynamic_number(1, c);
    if (!(fabsf(numbers[c] - ours) <= 3e-7F * fabsf(ours))) return false;
  }
  return true;
}

static tri_status read_numbers(const part *map, const part *nested_map, tri_four_bits *m) {
  TRI_TRY(read_floats(map, m->numbers));
  if (!m->nested) return TRI_OK;
  TRI_TRY(read_floats(nested_map, m->nested_numbers));
  if (!is_our_map(m->nested_numbers)) return TRI_OK;
  for (int32_t c = 0; c < TRI_DYNAMIC_CODES; c++) m->nested_numbers[c] = tri_dynamic_number(1, c);
  return TRI_OK;
}

static tri_status describe(const tri_safetensors_file *files, int64_t num_files, const part *state, const char *name,
                           const char *kind, tri_four_bits *m, tri_safetensors_tensor *tensor) {
  json_t *document = NULL;
  part map = {.input = {.file = -1}}, nested_map = map;
  TRI_TRY(read_state(state, &document));
  tri_status status = parse_state(state, kind, document, m, tensor);
  json_decref(document);
  TRI_TRY(status);
  const int64_t blocks = blocks_of(m->count, m->block);
  const tri_safetensors_type byte = TRI_SAFETENSORS_U8, single = TRI_SAFETENSORS_F32;
  TRI_TRY(need_part(files, num_files, state, name, "", byte, (m->count + 1) / 2, &m->codes));
  TRI_TRY(need_part(files, num_files, state, name, TRI_FOUR_BITS_MAP, single, TRI_NF4_CODES, &map));
  TRI_TRY(
      need_part(files, num_files, state, name, TRI_FOUR_BITS_ABSMAX, m->nested ? byte : single, blocks, &m->largest));
  if (m->nested) {
    TRI_TRY(need_part(files, num_files, state, name, TRI_FOUR_BITS_NESTED_ABSMAX, single, blocks_of(blocks, m->group),
                      &m->scales));
    TRI_TRY(need_part(files, num_files, state, name, TRI_FOUR_BITS_NESTED_MAP, single, TRI_DYNAMIC_CODES, &nested_map));
  }
  return read_numbers(&map, &nested_map, m);
}

/* ---- all of a folder --------------------------------------------------------------------------------------------- */

static int64_t count_states(const tri_safetensors_file *files, int64_t num_files) {
  char name[NAME_BYTES];
  const char *kind = NULL;
  int64_t count = 0;
  for (int64_t f = 0; f < num_files; f++) {
    for (int64_t t = 0; t < files[f].header.num_tensors; t++) {
      count += is_state(files[f].header.tensors[t].name, name, &kind);
    }
  }
  return count;
}

static tri_safetensors_tensor *matrix_of(tri_safetensors_file *files, int64_t num_files, const char *name) {
  for (int64_t f = 0; f < num_files; f++) {
    const tri_safetensors_tensor *found = tri_safetensors_find(&files[f].header, name);
    if (found != NULL) return &files[f].header.tensors[found - files[f].header.tensors];
  }
  return NULL;
}

/* Returns whether a tensor is a part of a matrix in 4 bits other than its codes. */
static bool is_beside(tri_safetensors_file *files, int64_t num_files, const char *name) {
  static const char *const suffixes[] = {TRI_FOUR_BITS_ABSMAX, TRI_FOUR_BITS_MAP, TRI_FOUR_BITS_NESTED_ABSMAX,
                                         TRI_FOUR_BITS_NESTED_MAP};
  char matrix[NAME_BYTES];
  const char *kind = NULL;
  if (is_state(name, matrix, &kind)) return true;
  const size_t length = strlen(name);
  for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
    const size_t tail = strlen(suffixes[i]);
    if (length <= tail || length - tail >= sizeof matrix || strcmp(name + length - tail, suffixes[i]) != 0) continue;
    snprintf(matrix, sizeof matrix, "%.*s", (int)(length - tail), name);
    const tri_safetensors_tensor *tensor = matrix_of(files, num_files, matrix);
    if (tensor != NULL && tensor->four_bits != NULL) return true;
  }
  return false;
}

/* Removes the parts of matrices other than codes from the headers. All parts are marked before the first is removed,
 * because is_beside looks names up in the headers. */
static tri_status hide(tri_safetensors_file *files, int64_t num_files) {
  for (int64_t f = 0; f < num_files; f++) {
    tri_safetensors_header *header = &files[f].header;
    for (int64_t t = 0; t < header->num_tensors; t++) {
      header->tensors[t].hidden = is_beside(files, num_files, header->tensors[t].name);
    }
  }
  for (int64_t f = 0; f < num_files; f++) {
    tri_safetensors_header *header = &files[f].header;
    int64_t kept = 0;
    for (int64_t t = 0; t < header->num_tensors; t++) {
      if (!header->tensors[t].hidden) header->tensors[kept++] = header->tensors[t];
    }
    header->num_tensors = kept;
    TRI_TRY(tri_safetensors_index(files[f].input.path, header));
  }
  return TRI_OK;
}

static tri_status add_matrix(tri_safetensors_file *files, int64_t num_files, const part *state, tri_four_bits *m) {
  char name[NAME_BYTES];
  const char *kind = NULL;
  is_state(state->tensor.name, name, &kind);
  tri_safetensors_tensor *tensor = matrix_of(files, num_files, name), described;
  if (tensor == NULL) {
    return tri_fail(TRI_BAD_FILE, "%s has tensor `%.200s`, but not `%.200s`, the codes that it describes",
                    state->input.path, state->tensor.name, name);
  }
  if (tensor->type != TRI_SAFETENSORS_U8) {
    return tri_fail(TRI_UNSUPPORTED,
                    "%s: the codes of tensor `%.200s` are stored as %s; only those with bnb_4bit_quant_storage uint8 "
                    "are read: save the model again with that, or name the original model",
                    state->input.path, name, tri_safetensors_type_name(tensor->type));
  }
  described = *tensor;
  TRI_TRY(describe(files, num_files, state, name, kind, m, &described));
  *tensor = described;
  tensor->four_bits = m;
  return TRI_OK;
}

static tri_status add_matrices(tri_safetensors_file *files, int64_t num_files, tri_four_bits *matrices) {
  char name[NAME_BYTES];
  const char *kind = NULL;
  for (int64_t f = 0; f < num_files; f++) {
    for (int64_t t = 0; t < files[f].header.num_tensors; t++) {
      const part state = {files[f].header.tensors[t], files[f].input};
      if (is_state(state.tensor.name, name, &kind)) TRI_TRY(add_matrix(files, num_files, &state, matrices++));
    }
  }
  return TRI_OK;
}

tri_status tri_four_bits_find(tri_safetensors_file *files, int64_t num_files, tri_four_bits **out, int64_t *count) {
  tri_four_bits *matrices = NULL;
  *count = count_states(files, num_files);
  *out = NULL;
  if (*count == 0) return TRI_OK;
  TRI_TRY(tri_alloc("matrices in 4 bits", (size_t)*count, sizeof *matrices, &matrices));
  tri_status status = add_matrices(files, num_files, matrices);
  if (status == TRI_OK) status = hide(files, num_files);
  if (status == TRI_OK) *out = matrices;
  if (status != TRI_OK) tri_free(matrices);
  return status;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Reads the magnitudes of blocks [first, first + count); codes[count] is scratch. */
static tri_status read_largest(const tri_four_bits *m, int64_t first, int64_t count, uint8_t *codes, float *out) {
  const part *p = &m->largest;
  if (!m->nested) {
    const uint64_t width = sizeof *out;
    return tri_input_read(&p->input, p->tensor.offset + (uint64_t)first * width, (uint64_t)count * width, out);
  }
  float scales[PIECE_BLOCKS / 32 + 2];
  const int64_t group = first / m->group, groups = (first + count - 1) / m->group - group + 1;
  TRI_TRY(tri_input_read(&p->input, p->tensor.offset + (uint64_t)first, (uint64_t)count, codes));
  TRI_TRY(tri_input_read(&m->scales.input, m->scales.tensor.offset + (uint64_t)group * sizeof *scales,
                         (uint64_t)groups * sizeof *scales, scales));
  for (int64_t b = 0; b < count; b++) {
    const float product = m->nested_numbers[codes[b]] * scales[(first + b) / m->group - group];
    out[b] = product + m->offset;
  }
  return TRI_OK;
}

static void put(tri_dtype type, void *out, int64_t i, float value) {
  if (type == TRI_BF16) {
    ((uint16_t *)out)[i] = tri_bf16_of(value);
  } else {
    tri_wide_set(type, out, i, (double)value);
  }
}

typedef struct scratch {
  uint8_t codes[PIECE_ELEMENTS / 2 + 1], largest_codes[PIECE_BLOCKS];
  float largest[PIECE_BLOCKS];
} scratch;

static tri_status read_piece(const tri_four_bits *m, tri_dtype type, int64_t first, int64_t count, scratch *s,
                             void *out) {
  const int64_t byte = first / 2, bytes = (first + count + 1) / 2 - byte;
  const int64_t block = first / m->block, blocks = (first + count - 1) / m->block - block + 1;
  TRI_TRY(tri_input_read(&m->codes.input, m->codes.tensor.offset + (uint64_t)byte, (uint64_t)bytes, s->codes));
  TRI_TRY(read_largest(m, block, blocks, s->largest_codes, s->largest));
  for (int64_t i = 0; i < count; i++) {
    const int64_t element = first + i;
    const uint8_t pair = s->codes[element / 2 - byte];
    const int code = element % 2 == 0 ? pair >> 4 : pair & 15;
    put(type, out, i, m->numbers[code] * s->largest[element / m->block - block]);
  }
  return TRI_OK;
}

tri_status tri_four_bits_read(const tri_four_bits *m, tri_dtype type, int64_t first, int64_t count, void *out) {
  scratch *s = NULL;
  if (type == TRI_INT32) return tri_fail_internal("a matrix in 4 bits is read as %s", tri_dtype_name(type));
  TRI_TRY(tri_alloc("a piece of a matrix in 4 bits", 1, sizeof *s, &s));
  tri_status status = TRI_OK;
  for (int64_t done = 0; done < count && status == TRI_OK;) {
    const int64_t some = count - done < PIECE_ELEMENTS ? count - done : PIECE_ELEMENTS;
    status = read_piece(m, type, first + done, some, s, (char *)out + (size_t)done * tri_dtype_bytes(type));
    done += some;
  }
  tri_free(s);
  return status;
}

/* ---- codes ------------------------------------------------------------------------------------------------------- */

const char *tri_four_bits_kind(const tri_four_bits *m) { return m->kind; }

static bool has_our_numbers(const tri_four_bits *m) {
  for (int32_t c = 0; c < TRI_NF4_CODES; c++) {
    const float ours = tri_nf4_number(c);
    if (!(m->numbers[c] >= ours && m->numbers[c] <= ours)) return false;
  }
  return is_our_map(m->nested_numbers);
}

tri_status tri_four_bits_check_kind(const tri_four_bits *m) {
  char nested[80] = "without double quantisation";
  const bool ours = strcmp(m->kind, "nf4") == 0 && m->block == TRI_NF4_BLOCK && m->nested && m->group == TRI_NF4_GROUP;
  if (ours && has_our_numbers(m)) return TRI_OK;
  if (m->nested) snprintf(nested, sizeof nested, "whose scales are for %" PRId64 " blocks each", m->group);
  return tri_fail(
      TRI_UNSUPPORTED,
      "%s: tensor `%.200s` is in 4 bits of another kind (%s, blocks of %" PRId64
      " elements, %s%s) than "
      "`adapter.quantise: nf4` keeps (nf4, blocks of 64 elements, whose scales are for 256 blocks each); name the "
      "original model, which is then quantised, or leave out adapter.quantise, and the values are used as they are",
      m->codes.input.path, m->codes.tensor.name, m->kind, m->block, nested, ours ? ", with other numbers" : "");
}

tri_status tri_four_bits_read_codes(const tri_four_bits *m, void *out) {
  const tri_nf4_layout at = tri_nf4_layout_of(m->count);
  const part *const parts[] = {&m->codes, &m->largest, &m->scales};
  char *const begin = out, *const to[] = {begin, begin + at.largest, begin + at.scales};
  memset(out, 0, at.bytes);
  memset(out, TRI_NF4_ZERO << 4 | TRI_NF4_ZERO, (size_t)at.blocks * TRI_NF4_BLOCK_BYTES);
  for (int i = 0; i < 3; i++) {
    TRI_TRY(tri_input_read(&parts[i]->input, parts[i]->tensor.offset, parts[i]->tensor.bytes, to[i]));
  }
  if (m->count % 2 == 1) begin[m->count / 2] = (char)((begin[m->count / 2] & 0xf0) | TRI_NF4_ZERO);
  memcpy(begin + at.offset, &m->offset, sizeof m->offset);
  return TRI_OK;
}

/* ---- config.json ------------------------------------------------------------------------------------------------- */

static bool is_true(const json_t *object, const char *key) { return json_is_true(json_object_get(object, key)); }

tri_status tri_four_bits_check_config(const tri_json_reader *from) {
  const json_t *config = tri_reader_get(from, "quantization_config");
  if (config == NULL || json_is_null(config)) return TRI_OK;
  const char *method = json_string_value(json_object_get(config, "quant_method"));
  const bool four = is_true(config, "load_in_4bit") || is_true(config, "_load_in_4bit");
  const bool eight = is_true(config, "load_in_8bit") || is_true(config, "_load_in_8bit");
  if (four && !eight && (method == NULL || strcmp(method, "bitsandbytes") == 0)) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED,
                  "%s: quantized weights (`quantization_config`, `quant_method` %.60s%s) are not supported, except "
                  "bitsandbytes' in 4 bits; name the folder of the model that they were made of",
                  from->path, method == NULL ? "not given" : method, eight ? ", in 8 bits" : "");
}
