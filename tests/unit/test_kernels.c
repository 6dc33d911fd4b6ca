/* All kernels of the CPU device, on every vector unit of this CPU, in fp32 and bf16, compared with the reference device
 * on the same inputs. Attention and matrix products have tests of their own. Every buffer has guard bytes around it,
 * and outputs are poisoned with NaN before. Each case runs on one, two and three threads, which must give the same
 * bits; on three, every buffer ends at a protected page. */
#include "base/random.h"
#include "check.h"
#include "device/exact_sum.h"
#include "device/kernels.h"
#include "device/reference/reference.h"

#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { GUARD = 64, BUFFERS = 8 };

static const int64_t sizes[] = {1, 2, 3, 5, 15, 16, 17, 31, 63, 65, 127, 129, 768, 1000};
enum { NUM_SIZES = sizeof sizes / sizeof sizes[0] };

/* An argument of a kernel: created as doubles, and converted for each device. */
typedef struct buffer {
  tri_dtype type;
  int64_t count;
  double *values;
  unsigned char *memory; /* whole pages, the last of them forbidden                                */
  size_t mapped;
  unsigned char *data; /* the elements: GUARD bytes after the beginning, or before the last page */
  bool output;
} buffer;

typedef struct bench {
  tri_dtype type, wide;
  buffer buffers[BUFFERS];
  int count;
  int64_t rows, width;
  uint64_t stream;
  bool flag;
} bench;

static size_t bytes_of(const buffer *b) { return (size_t)b->count * tri_dtype_bytes(b->type); }
static void *data_of(bench *b, int i) { return b->buffers[i].data; }

static double load(tri_dtype type, const void *data, int64_t i) {
  if (type == TRI_FP32) return (double)((const float *)data)[i];
  if (type == TRI_FP64) return ((const double *)data)[i];
  if (type == TRI_INT32) return ((const int32_t *)data)[i];
  uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return (double)value;
}

static void store(tri_dtype type, void *data, int64_t i, double value) {
  float narrow = (float)value;
  if (type == TRI_FP32) {
    ((float *)data)[i] = narrow;
  } else {
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    ((uint16_t *)data)[i] = (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
  }
}

/* Adds an argument: normal values of this scale and centre, or NaN if it is only written. */
static int add(bench *b, tri_dtype type, int64_t count, double centre, double scale) {
  buffer *new = &b->buffers[b->count];
  *new = (buffer){.type = type, .count = count, .values = malloc((size_t)count * sizeof(double) + 1)};
  tri_random_key key = tri_random_stream(3, TRI_RANDOM_TEST, ++b->stream);
  for (int64_t i = 0; i < count; i++) {
    new->values[i] = isnan(centre) ? NAN : centre + scale *tri_random_normal(key, (uint64_t)i);
  }
  return b->count++;
}

static int input(bench *b, tri_dtype type, int64_t count) { return add(b, type, count, 0.0, 1.0); }

static int output(bench *b, tri_dtype type, int64_t count, bool accumulate) {
  int index = add(b, type, count, accumulate ? 0.5 : NAN, 1.0);
  b->buffers[index].output = true;
  return index;
}

static void map(buffer *at) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  at->mapped = (bytes_of(at) + 2 * GUARD + page - 1) / page * page + page;
  at->memory = mmap(NULL, at->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(at->memory != MAP_FAILED);
  assert_int_equal(mprotect(at->memory + at->mapped - page, page, PROT_NONE), 0);
}

static void lay_out(bench *b, bool at_the_end) {
  for (int i = 0; i < b->count; i++) {
    buffer *at = &b->buffers[i];
    if (at->memory == NULL) map(at);
    size_t usable = at->mapped - (size_t)sysconf(_SC_PAGESIZE);
    memset(at->memory, 0xA5, usable);
    at->data = at_the_end ? at->memory + usable - bytes_of(at) : at->memory + GUARD;
    for (int64_t e = 0; e < at->count; e++) store(at->type, at->data, e, at->values[e]);
  }
}

static void check_guards(const bench *b, const char *name) {
  for (int i = 0; i < b->count; i++) {
    const buffer *at = &b->buffers[i];
    const unsigned char *end = at->data + bytes_of(at), *limit = at->memory + at->mapped - sysconf(_SC_PAGESIZE);
    for (int g = 0; g < GUARD; g++) {
      if (at->data[g - GUARD] != 0xA5) fail_msg("%s wrote before argument %d", name, i);
      if (end + g < limit && end[g] != 0xA5) fail_msg("%s wrote beyond argument %d", name, i);
    }
  }
}

static void release(bench *b) {
  for (int i = 0; i < b->count; i++) {
    free(b->buffers[i].values);
    munmap(b->buffers[i].memory, b->buffers[i].mapped);
  }
}

/* ---- the cases --------------------------------------------------------------------------------------------------- */

/* Adds the arguments of a kernel, and calls it. */
typedef struct kernel_case {
  const char *name;
  void (*arguments)(bench *b);
  tri_status (*call)(tri_device *device, bench *b);
  double tolerance; /* of fp32, relative to the largest element of an output */
} kernel_case;

#define KERNEL(name, ...) device->kernels->name(device->queue, __VA_ARGS__)

static void add_arguments(bench *b) {
  input(b, b->type, b->rows * b->width);
  input(b, b->type, b->rows * b->width);
  output(b, b->type, b->rows * b->width, false);
}
static tri_status add_call(tri_device *device, bench *b) {
  return KERNEL(add, b->type, tri_all_rows(b->rows), b->width, data_of(b, 0), data_of(b, 1), data_of(b, 2));
}

static void add_in_place_arguments(bench *b) {
  input(b, b->type, b->rows * b->width);
  output(b, b->type, b->rows * b->width, true);
}
static tri_status add_in_place_call(tri_device *device, bench *b) {
  return KERNEL(add, b->type, tri_all_rows(b->rows), b->width, data_of(b, 1), data_of(b, 0), data_of(b, 1));
}

static void scale_arguments(bench *b) {
  input(b, b->type, b->rows * b->width);
  output(b, b->type, b->rows * b->width, false);
  output(b, b->type, b->rows * b->width, true);
}
static tri_status scale_call(tri_device *device, bench *b) {
  const int64_t count = b->rows * b->width;
  TRI_TRY(KERNEL(scale, b->type, count, b->flag ? -0.3 : 2.0, data_of(b, 0), data_of(b, 1)));
  return KERNEL(scale, b->type, count, b->flag ? 1.0 / 3 : 0.0, data_of(b, 2), data_of(b, 2));
}

static void column_sum_arguments(bench *b) {
  input(b, b->type, b->rows * (b->width + (b->flag ? 5 : 0)));
  output(b, b->wide, b->width, b->flag);
}
static tri_status column_sum_call(tri_device *device, bench *b) {
  return KERNEL(column_sum, b->type, tri_all_rows(b->rows), b->width, b->width + (b->flag ? 5 : 0), data_of(b, 0),
                data_of(b, 1), b->flag);
}

static void convert_arguments(bench *b) {
  input(b, b->type, b->rows * b->width);
  output(b, b->flag ? TRI_BF16 : TRI_FP32, b->rows * b->width, false);
}
static tri_status convert_call(tri_device *device, bench *b) {
  return KERNEL(convert, b->rows * b->width, b->type, data_of(b, 0), b->buffers[1].type, data_of(b, 1));
}

static const int32_t *ids_of(const bench *b) {
  static int32_t ids[4096];
  for (int64_t r = 0; r < b->rows; r++)
    ids[r] = (int32_t)((r * 7 + r * r) % 13) - 1; /* -1 and 11 belong to other slices */
  return ids;
}

enum { POSITIONS = 9 };

/* Returns positions in no order, some repeated, and some not used. */
static const int32_t *positions_of(const bench *b) {
  static int32_t positions[4096];
  tri_random_key key = tri_random_stream(11, TRI_RANDOM_TEST, (uint64_t)b->rows);
  for (int64_t r = 0; r < b->rows; r++) positions[r] = (int32_t)(tri_random_u32(key, (uint64_t)r) % (POSITIONS - 1));
  return positions;
}

static void embedding_arguments(bench *b) {
  input(b, b->wide, 10 * b->width);
  input(b, b->wide, POSITIONS * b->width);
  output(b, b->type, b->rows * b->width, false);
}
static tri_status embedding_call(tri_device *device, bench *b) {
  return KERNEL(embedding_forward, b->type, tri_all_rows(b->rows), b->width, ids_of(b), 1, 10, b->buffers[0].type,
                data_of(b, 0), b->flag ? positions_of(b) : NULL, b->flag ? data_of(b, 1) : NULL, data_of(b, 2));
}
static void embedding_narrow_arguments(bench *b) {
  input(b, b->type, 10 * b->width);
  input(b, b->wide, POSITIONS * b->width);
  output(b, b->type, b->rows * b->width, false);
}

static void embedding_backward_arguments(bench *b) {
  input(b, b->type, b->rows * b->width);
  output(b, b->wide, 10 * b->width, true);
  output(b, b->wide, POSITIONS * b->width, b->flag);
}
static tri_status embedding_backward_call(tri_device *device, bench *b) {
  TRI_TRY(KERNEL(embedding_backward, b->type, tri_all_rows(b->rows), b->width, ids_of(b), 1, 10, data_of(b, 0),
                 data_of(b, 1)));
  return KERNEL(position_backward, b->type, tri_all_rows(b->rows), b->width, positions_of(b), POSITIONS, data_of(b, 0),
                data_of(b, 2), b->flag);
}

static const tri_norm *norm_of(const bench *b, double eps) {
  static tri_norm norm;
  norm = tri_norm_of_rows(b->type, tri_all_rows(b->rows), b->width, eps);
  norm.offset = b->flag ? 1 : 0;
  return &norm;
}

static void layer_norm_arguments(bench *b) {
  add(b, b->type, b->rows * b->width, 3.0, 1.5);
  input(b, b->wide, b->width);
  input(b, b->wide, b->width);
  output(b, b->type, b->rows * b->width, false);
  output(b, b->wide, b->rows, false);
  output(b, b->wide, b->rows, false);
}
static tri_status layer_norm_call(tri_device *device, bench *b) {
  return KERNEL(layer_norm_forward, norm_of(b, 1e-5), data_of(b, 0), NULL, NULL, data_of(b, 1),
                b->flag ? data_of(b, 2) : NULL, data_of(b, 3), data_of(b, 4), data_of(b, 5));
}

static void norm_backward_arguments(bench *b) {
  input(b, b->type, b->rows * b->width);         /* dy     */
  add(b, b->type, b->rows * b->width, 0.3, 1.0); /* x      */
  input(b, b->wide, b->width);                   /* weight */
  add(b, b->wide, b->rows, 0.3, 0.1);            /* mean   */
  add(b, b->wide, b->rows, 1.0, 0.1);            /* rstd   */
  output(b, b->type, b->rows * b->width, b->flag);
  output(b, b->wide, b->width, b->flag);
  output(b, b->wide, b->width, b->flag);
}
static tri_status layer_norm_backward_call(tri_device *device, bench *b) {
  TRI_TRY(KERNEL(layer_norm_backward_input, norm_of(b, 0), data_of(b, 0), data_of(b, 1), data_of(b, 2), data_of(b, 3),
                 data_of(b, 4), data_of(b, 5), b->flag));
  return KERNEL(layer_norm_backward_weight, norm_of(b, 0), data_of(b, 0), data_of(b, 1), data_of(b, 3), data_of(b, 4),
                data_of(b, 6), data_of(b, 7), b->flag);
}
static tri_status rms_norm_backward_call(tri_device *device, bench *b) {
  TRI_TRY(KERNEL(rms_norm_backward_input, norm_of(b, 0), data_of(b, 0), data_of(b, 1), data_of(b, 2), data_of(b, 4),
                 data_of(b, 5), b->flag));
  TRI_TRY(KERNEL(rms_norm_backward_weight, norm_of(b, 0), data_of(b, 0), data_of(b, 1), data_of(b, 4), data_of(b, 6),
                 b->flag));
  return KERNEL(column_sum, b->type, tri_all_rows(b->rows), b->width, b->width, data_of(b, 0), data_of(b, 7), b->flag);
}

static void rms_norm_arguments(bench *b) {
  input(b, b->type, b->rows * b->width);
  input(b, b->wide, b->width);
  output(b, b->type, b->rows * b->width, false);
  output(b, b->wide, b->rows, false);
}
static tri_status rms_norm_call(tri_device *device, bench *b) {
  return KERNEL(rms_norm_forward, norm_of(b, 1e-6), data_of(b, 0), NULL, NULL, data_of(b, 1), data_of(b, 2),
                data_of(b, 3));
}

/* Heads of q in rows of q, k and v: 3 pieces of each row, with gaps between them, to rows of a different layout. */
enum { PIECES = 3 };
static const tri_norm *pieces_of(const bench *b, double eps) {
  static tri_norm norm;
  int64_t x = b->width + 2, y = b->width + 1;
  norm = (tri_norm){b->type, tri_all_rows(b->rows), PIECES, b->width, (PIECES + 2) * x,
                    x,       PIECES * y + 3,        y,      eps,      b->flag ? 1 : 0};
  return &norm;
}
static int64_t x_elements(const bench *b) { return b->rows * (PIECES + 2) * (b->width + 2); }
static int64_t y_elements(const bench *b) { return b->rows * (PIECES * (b->width + 1) + 3); }

static void pieces_arguments(bench *b) {
  add(b, b->type, x_elements(b), 1.0, 1.5);
  input(b, b->wide, b->width);
  output(b, b->type, y_elements(b), true); /* elements between the pieces are not changed */
  output(b, b->wide, b->rows * PIECES, false);
  output(b, b->wide, b->rows * PIECES, false);
}
static tri_status layer_norm_pieces_call(tri_device *device, bench *b) {
  return KERNEL(layer_norm_forward, pieces_of(b, 1e-5), data_of(b, 0), NULL, NULL, data_of(b, 1), NULL, data_of(b, 2),
                data_of(b, 3), data_of(b, 4));
}
static tri_status rms_norm_pieces_call(tri_device *device, bench *b) {
  memset(data_of(b, 4), 0, bytes_of(&b->buffers[4]));
  return KERNEL(rms_norm_forward, pieces_of(b, 1e-6), data_of(b, 0), NULL, NULL, data_of(b, 1), data_of(b, 2),
                data_of(b, 3));
}

static void pieces_backward_arguments(bench *b) {
  input(b, b->type, y_elements(b));            /* dy     */
  add(b, b->type, x_elements(b), 0.3, 1.0);    /* x      */
  input(b, b->wide, b->width);                 /* weight */
  add(b, b->wide, b->rows * PIECES, 0.3, 0.1); /* mean   */
  add(b, b->wide, b->rows * PIECES, 1.0, 0.1); /* rstd   */
  output(b, b->type, x_elements(b), true);     /* elements between the pieces are not changed */
  output(b, b->wide, b->width, b->flag);
  output(b, b->wide, b->width, b->flag);
}
static tri_status layer_norm_pieces_backward_call(tri_device *device, bench *b) {
  TRI_TRY(KERNEL(layer_norm_backward_input, pieces_of(b, 0), data_of(b, 0), data_of(b, 1), data_of(b, 2), data_of(b, 3),
                 data_of(b, 4), data_of(b, 5), b->flag));
  return KERNEL(layer_norm_backward_weight, pieces_of(b, 0), data_of(b, 0), data_of(b, 1), data_of(b, 3), data_of(b, 4),
                data_of(b, 6), data_of(b, 7), b->flag);
}
static tri_status rms_norm_pieces_backward_call(tri_device *device, bench *b) {
  if (!b->flag) memset(data_of(b, 7), 0, bytes_of(&b->buffers[7]));
  TRI_TRY(KERNEL(rms_norm_backward_input, pieces_of(b, 0), data_of(b, 0), data_of(b, 1), data_of(b, 2), data_of(b, 4),
                 data_of(b, 5), b->flag));
  return KERNEL(rms_norm_backward_weight, pieces_of(b, 0), data_of(b, 0), data_of(b, 1), data_of(b, 4), data_of(b, 6),
                b->flag);
}

/* Returns a different activation for each case. */
static tri_activation kind_of(const bench *b) {
#define KIND(VALUE, ...) TRI_ACTIVATION_##VALUE,
  static const tri_activation all[] = {TRI_ACTIVATIONS(KIND)};
  return all[(b->rows + b->width + (b->flag ? 1 : 0)) % (int64_t)(sizeof all / sizeof all[0])];
}

static void activation_arguments(bench *b) {
  add(b, b->type, b->rows * b->width, 0.0, 4.0);
  input(b, b->type, b->rows * b->width);
  output(b, b->type, b->rows * b->width, false);
  output(b, b->type, b->rows * b->width, false);
}
static tri_status activation_call(tri_device *device, bench *b) {
  TRI_TRY(
      KERNEL(activation_forward, b->type, kind_of(b), tri_all_rows(b->rows), b->width, data_of(b, 0), data_of(b, 2)));
  return KERNEL(activation_backward, b->type, kind_of(b), tri_all_rows(b->rows), b->width, data_of(b, 0), data_of(b, 1),
                data_of(b, 3));
}

static void activation_in_place_arguments(bench *b) {
  add(b, b->type, b->rows * b->width, 0.0, 30.0); /* also large values: no NaN, no overflow */
  output(b, b->type, b->rows * b->width, true);
}
static tri_status activation_in_place_call(tri_device *device, bench *b) {
  return KERNEL(activation_backward, b->type, kind_of(b), tri_all_rows(b->rows), b->width, data_of(b, 0), data_of(b, 1),
                data_of(b, 1));
}

static void gated_arguments(bench *b) {
  add(b, b->type, 2 * b->rows * b->width, 0.0, b->flag ? 60.0 : 2.0);
  input(b, b->type, b->rows * b->width);
  output(b, b->type, b->rows * b->width, false);
  output(b, b->type, 2 * b->rows * b->width, false);
}
static tri_status gated_call(tri_device *device, bench *b) {
  TRI_TRY(KERNEL(gated_forward, b->type, kind_of(b), tri_all_rows(b->rows), b->width, data_of(b, 0), data_of(b, 2)));
  return KERNEL(gated_backward, b->type, kind_of(b), tri_all_rows(b->rows), b->width, data_of(b, 0), data_of(b, 1),
                data_of(b, 3));
}

static void dropout_arguments(bench *b) {
  input(b, b->type, b->rows * b->width);
  output(b, b->type, b->rows * b->width, false);
  output(b, b->type, b->rows * b->width, true);
}
static tri_status dropout_call(tri_device *device, bench *b) {
  tri_step_values values = {.seed = 9, .step = 2, .first_sample = b->flag ? 1000000 : 0};
  tri_dropout options = {.probability = 0.3, .site = 77, .sample_elements = 1000, .first = b->flag ? 7 : 0};
  TRI_TRY(KERNEL(dropout, b->type, b->rows * b->width, &options, &values, NULL, data_of(b, 0), data_of(b, 1)));
  return KERNEL(dropout, b->type, b->rows * b->width, &options, &values, NULL, data_of(b, 2), data_of(b, 2));
}

/* Returns row numbers in descending order, from rows + 1 to 2. Rows 0 and 1 are not used. */
static const int32_t *backwards(const bench *b) {
  static int32_t rows[4096];
  for (int64_t r = 0; r < b->rows; r++) rows[r] = (int32_t)(b->rows + 1 - r);
  return rows;
}

static void dropout_by_rows_arguments(bench *b) {
  input(b, b->type, b->rows * b->width);
  output(b, b->type, b->rows * b->width, false);
  output(b, b->type, b->rows * b->width, true);
}
static tri_status dropout_by_rows_call(tri_device *device, bench *b) {
  tri_step_values values = {.seed = 9, .step = 2, .first_sample = 3};
  tri_dropout options = {0.3, 77, 1000, b->flag ? 7 : 0, b->width, b->flag ? 3 * b->width + 1 : 0};
  const int64_t count = b->rows * b->width;
  TRI_TRY(KERNEL(dropout, b->type, count, &options, &values, backwards(b), data_of(b, 0), data_of(b, 1)));
  return KERNEL(dropout, b->type, count, &options, &values, positions_of(b), data_of(b, 2), data_of(b, 2));
}

enum { MORE_ROWS = 5, GAP = 3 }; /* additional rows that are not copied; elements between rows */
static void copy_rows_arguments(bench *b) {
  const int64_t rows = b->rows + MORE_ROWS + POSITIONS;
  input(b, b->type, rows * (b->width + GAP));
  output(b, b->type, rows * (b->width + GAP), true);
  output(b, b->type, rows * b->width, true);
  output(b, b->flag ? TRI_FP32 : TRI_BF16, rows * (b->width + 1), true);
  output(b, b->type, rows * b->width, true);
}
static tri_status copy_rows_call(tri_device *device, bench *b) {
  const int32_t some = (int32_t)(b->rows / 2);
  tri_row_copy copy = {tri_all_rows(b->rows), b->width, b->type, b->type, b->width + GAP, b->width + GAP};
  TRI_TRY(KERNEL(copy_rows, &copy, positions_of(b), data_of(b, 0), backwards(b), data_of(b, 1)));
  copy.to_stride = b->width;
  TRI_TRY(KERNEL(copy_rows, &copy, NULL, data_of(b, 0), NULL, data_of(b, 2)));
  copy.to_type = b->buffers[3].type;
  copy.to_stride = b->width + 1;
  TRI_TRY(KERNEL(copy_rows, &copy, backwards(b), data_of(b, 0), NULL, data_of(b, 3)));
  copy = (tri_row_copy){{b->rows, &some}, b->width, b->type, b->type, b->width + GAP, b->width};
  return KERNEL(copy_rows, &copy, NULL, data_of(b, 0), backwards(b), data_of(b, 4));
}

static void rope_arguments(bench *b) {
  add(b, b->wide, POSITIONS * b->width, 0.0, 0.5);
  add(b, b->wide, POSITIONS * b->width, 0.0, 0.5);
  output(b, b->type, b->rows * (5 * 2 * b->width), true);
}
static tri_status rope_call(tri_device *device, bench *b) {
  return KERNEL(rope, b->type, tri_all_rows(b->rows), 10 * b->width, 3, 2 * b->width, 2 * b->width, positions_of(b),
                data_of(b, 0), data_of(b, 1), b->flag, data_of(b, 2));
}

/* The layout of GPT-NeoX: q, k and v for each head, and only a part of each head is rotated. */
static void rope_apart_arguments(bench *b) {
  rope_arguments(b);
  output(b, b->type, b->rows * 2 * 3 * (2 * b->width + 3), true);
}
static tri_status rope_apart_call(tri_device *device, bench *b) {
  int64_t head = 2 * b->width + 3; /* 3 elements of each do not change */
  for (int i = 0; i < 2; i++) {
    char *x = (char *)data_of(b, 3) + (size_t)(i * head) * tri_dtype_bytes(b->type);
    TRI_TRY(KERNEL(rope, b->type, tri_all_rows(b->rows), 6 * head, 2, 3 * head, 2 * b->width, positions_of(b),
                   data_of(b, 0), data_of(b, 1), b->flag, x));
  }
  return TRI_OK;
}

static const int32_t *labels_of(const bench *b) {
  static int32_t labels[4096];
  for (int64_t r = 0; r < b->rows; r++)
    labels[r] = r % 5 == 3 ? -1 - (int32_t)(r % 2) : (int32_t)((r * 31) % (b->width + 6)) + 3;
  return labels;
}

static const float *weights_of(const bench *b) {
  static float weights[4096];
  for (int64_t r = 0; r < b->rows; r++) weights[r] = (float)(r % 3) * 0.5f + 0.25f;
  return weights;
}

/* Rows of logits are longer than the vocabulary; the largest logits are too large for exp. */
static void softmax_arguments(bench *b) {
  add(b, b->wide, b->rows * (b->width + 3), b->flag ? 500.0 : 0.0, b->flag ? 4000.0 : 3.0);
  output(b, b->wide, b->rows, false);
  output(b, b->wide, b->rows, false);
  output(b, b->wide, b->rows, false);
  output(b, b->wide, b->rows, false);
  output(b, b->type, b->rows * (b->width + 1), true); /* one element of each row is not written */
}
static tri_status softmax_call(tri_device *device, bench *b) {
  const int32_t *labels = labels_of(b);
  TRI_TRY(KERNEL(softmax_statistics, b->type, b->rows, b->width, b->width + 3, data_of(b, 0), labels, 3, data_of(b, 1),
                 data_of(b, 2), data_of(b, 3)));
  TRI_TRY(KERNEL(softmax_loss, b->type, b->rows, labels, weights_of(b), data_of(b, 1), data_of(b, 2), data_of(b, 3),
                 data_of(b, 4)));
  return KERNEL(softmax_gradient, b->type, b->rows, b->width, b->width + 3, (tri_logit_form){1, 0}, data_of(b, 0),
                labels, weights_of(b), NULL, 3, &(tri_step_values){.loss_scale = 0.125}, data_of(b, 1), data_of(b, 2),
                b->width + 1, data_of(b, 5));
}

/* Given tokens, the likeliest ones, and sampled ones. */
static void query_arguments(bench *b) {
  add(b, b->wide, b->rows * (b->width + 3), b->flag ? 500.0 : 0.0, b->flag ? 4000.0 : 3.0);
  output(b, TRI_INT32, b->rows, false);
  output(b, TRI_FP64, TRI_LOGIT_NUMBERS * b->rows, false);
}
static tri_status query_call(tri_device *device, bench *b) {
  static const double temperatures[] = {1, 0.5, 0, 2};
  static tri_logit_query queries[4096];
  const tri_random_key key = tri_random_stream(8, TRI_RANDOM_TEST, 1);
  for (int64_t r = 0; r < b->rows; r++)
    queries[r] = (tri_logit_query){.temperature = temperatures[r % 4],
                                   .uniform = tri_random_uniform(key, (uint64_t)r),
                                   .row = (int32_t)((r * 7) % b->rows),
                                   .given = r % 3 == 0 ? (int32_t)((r * 5) % b->width) : -1};
  return KERNEL(query_logits, b->type, b->rows, b->width, b->width + 3, data_of(b, 0), queries, data_of(b, 1),
                data_of(b, 2));
}

/* Scales logits in place, and with `flag` also caps them; then computes their statistics and gradient. */
static void logits_arguments(bench *b) {
  const int logits = add(b, b->wide, b->rows * (b->width + 3), 0.0, b->flag ? 30.0 : 3.0);
  b->buffers[logits].output = true;
  output(b, b->wide, b->rows, false);
  output(b, b->wide, b->rows, false);
  output(b, b->wide, b->rows, false);
  output(b, b->type, b->rows * (b->width + 1), true);
}
static tri_status logits_call(tri_device *device, bench *b) {
  const int32_t *labels = labels_of(b);
  const tri_logit_form form = {b->flag ? 0.7 : -1.3, b->flag ? 20 : 0};
  TRI_TRY(KERNEL(softmax_logits, b->type, b->rows, b->width, b->width + 3, form, data_of(b, 0)));
  TRI_TRY(KERNEL(softmax_statistics, b->type, b->rows, b->width, b->width + 3, data_of(b, 0), labels, 3, data_of(b, 1),
                 data_of(b, 2), data_of(b, 3)));
  return KERNEL(softmax_gradient, b->type, b->rows, b->width, b->width + 3, form, data_of(b, 0), labels, weights_of(b),
                NULL, 3, &(tri_step_values){.loss_scale = 0.125}, data_of(b, 1), data_of(b, 2), b->width + 1,
                data_of(b, 4));
}

static void adamw_arguments(bench *b) {
  input(b, b->wide, b->rows * b->width);
  output(b, b->wide, b->rows * b->width, true);
  output(b, b->wide, b->rows * b->width, true);
  add(b, b->wide, b->rows * b->width, 4.0, 0.5); /* second moments are positive */
  b->buffers[3].output = true;
}
static tri_status adamw_call(tri_device *device, bench *b) {
  tri_adamw options = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .lr_scale = 1};
  tri_step_values values = {.lr = 1e-2, .gradient_scale = 0.7, .update = b->flag ? 1000 : 1};
  return KERNEL(adamw, b->type, b->rows * b->width, &options, &values, data_of(b, 1), data_of(b, 0), data_of(b, 2),
                data_of(b, 3), NULL);
}
static void adamw_narrow_arguments(bench *b) {
  adamw_arguments(b);
  output(b, b->type, b->rows * b->width, false);
}
/* Also writes the copy, which must have the bits that `convert` computes from the parameter. */
static tri_status adamw_narrow_call(tri_device *device, bench *b) {
  tri_adamw options = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .lr_scale = 1};
  tri_step_values values = {.lr = 1e-2, .gradient_scale = 0.7, .update = b->flag ? 1000 : 1};
  int64_t count = b->rows * b->width;
  size_t wide_bytes = (size_t)count * tri_dtype_bytes(b->wide), bytes = (size_t)count * tri_dtype_bytes(b->type);
  unsigned char *alone[4] = {NULL}, *converted = malloc(bytes + 1);
  for (int i = 0; i < 4; i++) {
    alone[i] = malloc(wide_bytes + 1);
    if (alone[i] == NULL || converted == NULL) abort();
    memcpy(alone[i], data_of(b, i), wide_bytes);
  }
  TRI_TRY(KERNEL(adamw, b->type, count, &options, &values, alone[1], alone[0], alone[2], alone[3], NULL));
  TRI_TRY(KERNEL(adamw, b->type, count, &options, &values, data_of(b, 1), data_of(b, 0), data_of(b, 2), data_of(b, 3),
                 b->type == b->wide ? NULL : data_of(b, 4)));
  for (int i = 0; i < 4; i++) assert_memory_equal(alone[i], data_of(b, i), wide_bytes);
  TRI_TRY(KERNEL(convert, count, b->wide, data_of(b, 1), b->type, converted));
  if (b->type == b->wide) memcpy(data_of(b, 4), converted, bytes); /* no kernel writes a copy */
  assert_memory_equal(converted, data_of(b, 4), bytes);
  for (int i = 0; i < 4; i++) free(alone[i]);
  free(converted);
  return TRI_OK;
}

static void sum_arguments(bench *b) {
  input(b, b->wide, b->rows * b->width);
  output(b, TRI_FP32, 2, false);
}
static tri_status sum_call(tri_device *device, bench *b) {
  double sum = 0;
  tri_exact_sum squares = {{0}, 0, 0};
  TRI_TRY(KERNEL(sum, b->type, b->rows * b->width, data_of(b, 0), &sum, false));
  TRI_TRY(KERNEL(block_squares, b->type, b->rows * b->width, b->rows * b->width + 1, data_of(b, 0), &squares));
  ((float *)data_of(b, 1))[0] = (float)sum;
  ((float *)data_of(b, 1))[1] = (float)tri_exact_sum_value(&squares);
  return TRI_OK;
}

static void zero_arguments(bench *b) { output(b, b->type, b->rows * b->width, true); }
static tri_status zero_call(tri_device *device, bench *b) {
  return KERNEL(fill_zero, (size_t)(b->rows * b->width) * tri_dtype_bytes(b->type), data_of(b, 0));
}

static const kernel_case cases[] = {
    {"add", add_arguments, add_call, 2e-7},
    {"add in place", add_in_place_arguments, add_in_place_call, 2e-7},
    {"scale", scale_arguments, scale_call, 2e-7},
    {"column_sum", column_sum_arguments, column_sum_call, 2e-6},
    {"convert", convert_arguments, convert_call, 0},
    {"embedding_forward", embedding_arguments, embedding_call, 2e-7},
    {"embedding_forward of the type", embedding_narrow_arguments, embedding_call, 2e-7},
    {"embedding and position backward", embedding_backward_arguments, embedding_backward_call, 2e-6},
    {"layer_norm_forward", layer_norm_arguments, layer_norm_call, 2e-5}, /* a row of 3 may have a tiny variance */
    {"layer_norm_backward", norm_backward_arguments, layer_norm_backward_call, 3e-6},
    {"rms_norm_forward", rms_norm_arguments, rms_norm_call, 2e-6},
    {"rms_norm_backward", norm_backward_arguments, rms_norm_backward_call, 3e-6},
    {"layer_norm_forward of pieces", pieces_arguments, layer_norm_pieces_call, 2e-5},
    {"layer_norm_backward of pieces", pieces_backward_arguments, layer_norm_pieces_backward_call, 1e-5},
    {"rms_norm_forward of pieces", pieces_arguments, rms_norm_pieces_call, 2e-6},
    {"rms_norm_backward of pieces", pieces_backward_arguments, rms_norm_pieces_backward_call, 1e-5},
    {"activation", activation_arguments, activation_call, 3e-6},
    {"activation_backward in place", activation_in_place_arguments, activation_in_place_call, 3e-6},
    {"gated", gated_arguments, gated_call, 3e-6},
    {"dropout", dropout_arguments, dropout_call, 2e-7},
    {"dropout by rows", dropout_by_rows_arguments, dropout_by_rows_call, 2e-7},
    {"copy_rows", copy_rows_arguments, copy_rows_call, 0},
    {"rope", rope_arguments, rope_call, 1e-6},
    {"rope head by head", rope_apart_arguments, rope_apart_call, 1e-6},
    {"softmax", softmax_arguments, softmax_call, 2e-6},
    {"query_logits", query_arguments, query_call, 1e-6},
    {"softmax of scaled and capped logits", logits_arguments, logits_call, 4e-6},
    {"adamw", adamw_arguments, adamw_call, 2e-6},
    {"adamw with a copy", adamw_narrow_arguments, adamw_narrow_call, 2e-6},
    {"sums", sum_arguments, sum_call, 2e-6},
    {"fill_zero", zero_arguments, zero_call, 0},
};

/* ---- running them ------------------------------------------------------------------------------------------------ */

/* Computes the outputs on the reference device. Sets expected[i] to the elements of output b->buffers[i], as
 * doubles. */
static void find_expected(tri_device *reference, const kernel_case *test, bench *b, double *expected[BUFFERS]) {
  lay_out(b, false);
  CHECK_OK(test->call(reference, b));
  check_guards(b, test->name);
  for (int i = 0; i < b->count; i++) {
    const buffer *at = &b->buffers[i];
    if (!at->output) continue;
    expected[i] = malloc((size_t)at->count * sizeof(double) + 1);
    if (expected[i] == NULL) abort();
    for (int64_t e = 0; e < at->count; e++) expected[i][e] = load(at->type, at->data, e);
  }
}

static void compare(const tri_device *device, const kernel_case *test, bench *b, double *expected[BUFFERS]) {
  for (int i = 0; i < b->count; i++) {
    const buffer *at = &b->buffers[i];
    if (!at->output || expected[i] == NULL) continue;
    double largest = 0;
    for (int64_t e = 0; e < at->count; e++) largest = fmax(largest, fabs(expected[i][e]));
    /* Both results are rounded to bf16, so they may differ by one step. */
    double limit = test->tolerance * largest + 1e-30;
    for (int64_t e = 0; e < at->count; e++) {
      double got = load(at->type, at->data, e);
      double room = limit + (at->type == TRI_BF16 && test->tolerance > 0 ? fabs(expected[i][e]) * 0x1p-7 : 0.0);
      if (!(fabs(got - expected[i][e]) <= room)) {
        fail_msg("%s on %s, %s, %d x %d, flag %d: argument %d element %d is %.9g, reference %.9g", test->name,
                 device->info.name, tri_dtype_name(b->type), (int)b->rows, (int)b->width, b->flag, i, (int)e, got,
                 expected[i][e]);
      }
    }
  }
}

static void run_case(tri_device *device, tri_device *reference, const kernel_case *test, tri_dtype type, int64_t rows,
                     int64_t width, bool flag) {
  bench b = {.type = type, .wide = TRI_FP32, .rows = rows, .width = width, .flag = flag};
  double *expected[BUFFERS] = {0};
  unsigned char *first[BUFFERS] = {0};
  test->arguments(&b);
  find_expected(reference, test, &b, expected);
  for (int threads = 1; threads <= 3; threads++) {
    device->description.threads = threads;
    lay_out(&b, threads == 3);
    CHECK_OK(test->call(device, &b));
    check_guards(&b, test->name);
    compare(device, test, &b, expected);
    for (int i = 0; i < b.count; i++) {
      size_t bytes = bytes_of(&b.buffers[i]);
      if (threads == 1) {
        first[i] = malloc(bytes + 1);
        memcpy(first[i], data_of(&b, i), bytes);
      } else if (memcmp(first[i], data_of(&b, i), bytes) != 0) {
        fail_msg("%s on %s gives other bits on %d threads", test->name, device->info.name, threads);
      }
    }
  }
  for (int i = 0; i < BUFFERS; i++) {
    free(expected[i]);
    free(first[i]);
  }
  release(&b);
}

static void run_all(const char *name) {
  tri_device *device = NULL, *reference = NULL;
  if (tri_device_create(name, 1, &device) != TRI_OK) {
    print_message("SKIPPED: %s\n", tri_status_message());
    skip();
  }
  CHECK_OK(tri_device_create("reference", 1, &reference));
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    for (int variant = 0; variant < 4; variant++) {
      tri_dtype type = variant % 2 == 0 ? TRI_FP32 : TRI_BF16;
      for (int s = 0; s < NUM_SIZES; s++) {
        int64_t rows = s % 3 == 0 ? 7 : s % 3 == 1 ? 1 : 40;
        run_case(device, reference, &cases[c], type, rows, sizes[s], variant >= 2);
      }
      run_case(device, reference, &cases[c], type, 0, 17, variant >= 2);
      run_case(device, reference, &cases[c], type, 150, 129,
               variant >= 2); /* more elements than one thread processes alone */
    }
  }
  const kernel_case *softmax = NULL;
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    if (strcmp(cases[c].name, "softmax") == 0) softmax = &cases[c];
  }
  run_case(device, reference, softmax, TRI_FP32, 3, 50257, false);
  run_case(device, reference, softmax, TRI_BF16, 3, 50257, false);
  run_case(device, reference, softmax + 1, TRI_FP32, 40, 50257, false); /* query_logits */
  tri_device_destroy(reference);
  tri_device_destroy(device);
}

static void test_baseline(void **state) {
  (void)state;
  run_all("cpu:baseline");
}
static void test_avx2(void **state) {
  (void)state;
  run_all("cpu:avx2");
}
static void test_avx512(void **state) {
  (void)state;
  run_all("cpu:avx512");
}
static void test_avx512bf16(void **state) {
  (void)state;
  run_all("cpu:avx512bf16");
}

/* ---- by other means ---------------------------------------------------------------------------------------------- */

/* A bf16 gradient may begin at the address of the fp32 row from which it is computed. */
static void test_softmax_gradient_over_its_logits(void **state) {
  (void)state;
  enum { ROWS = 5, WIDTH = 1003, LD = 1008 };
  tri_device *device = NULL;
  CHECK_OK(tri_device_create("cpu", 2, &device));
  static float logits[ROWS * LD], maximum[ROWS], sum[ROWS], label_logit[ROWS];
  static uint16_t apart[ROWS * 2 * LD];
  const tri_step_values values = {.loss_scale = 1.0};
  int32_t labels[ROWS] = {0, WIDTH - 1, 17, -1, 500};
  const float weights[ROWS] = {1, 0.5f, 2, 1, 0.1f};
  tri_random_key key = tri_random_stream(3, TRI_RANDOM_TEST, 99);
  for (int i = 0; i < ROWS * LD; i++) logits[i] = (float)tri_random_normal(key, (uint64_t)i);
  CHECK_OK(KERNEL(softmax_statistics, TRI_BF16, ROWS, WIDTH, LD, logits, labels, 0, maximum, sum, label_logit));
  CHECK_OK(KERNEL(softmax_gradient, TRI_BF16, ROWS, WIDTH, LD, (tri_logit_form){1, 0}, logits, labels, weights, NULL, 0,
                  &values, maximum, sum, 2 * LD, apart));
  CHECK_OK(KERNEL(softmax_gradient, TRI_BF16, ROWS, WIDTH, LD, (tri_logit_form){1, 0}, logits, labels, weights, NULL, 0,
                  &values, maximum, sum, 2 * LD, logits));
  for (int r = 0; r < ROWS; r++) {
    assert_memory_equal(apart + r * 2 * LD, (const uint16_t *)(const void *)logits + r * 2 * LD,
                        WIDTH * sizeof(uint16_t));
  }
  tri_device_destroy(device);
}

static void test_sums_notice_what_is_not_finite(void **state) {
  (void)state;
  static float values[100000];
  const char *const devices[] = {"cpu", "reference"};
  const float bad[] = {NAN, INFINITY, -INFINITY};
  for (int d = 0; d < 2; d++) {
    tri_device *device = NULL;
    CHECK_OK(tri_device_create(devices[d], 2, &device));
    for (int i = 0; i < 9; i++) {
      int at = (i * 49999 + 7) % 100000;
      values[at] = bad[i % 3];
      tri_exact_sum squares = {{0}, 0, 0};
      CHECK_OK(KERNEL(block_squares, TRI_FP32, 100000, 100000, values, &squares));
      assert_false(isfinite(tri_exact_sum_value(&squares)));
      values[at] = 0;
    }
    tri_device_destroy(device);
  }
}

/* Known answers published with the generator (Random123, Salmon et al. 2011). */
static void test_philox_known_answers(void **state) {
  (void)state;
  uint32_t words[4];
  tri_random_block((tri_random_key){0}, 0, words);
  assert_int_equal(words[0], 0x6627e8d5u);
  assert_int_equal(words[1], 0xe169c58du);
  assert_int_equal(words[2], 0xbc57ac4cu);
  assert_int_equal(words[3], 0x9b00dbd8u);
  tri_random_block((tri_random_key){0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu}, 0xffffffffffffffffull, words);
  assert_int_equal(words[0], 0x408f276du);
  assert_int_equal(words[1], 0x41c83b0eu);
  assert_int_equal(words[2], 0xa20bc7c6u);
  assert_int_equal(words[3], 0x6d5451fdu);
}

/* One step by hand: m = 0.1 g, v = 0.05 g^2; after correction they are g and g^2, so the step is lr sign(g). */
static void test_adamw_first_step(void **state) {
  (void)state;
  tri_device *device = NULL;
  CHECK_OK(tri_device_create("reference", 1, &device));
  double p[2] = {1.0, -2.0}, g[2] = {0.5, -3.0}, m[2] = {0}, v[2] = {0};
  tri_adamw options = {.beta1 = 0.9, .beta2 = 0.95, .weight_decay = 0.1, .lr_scale = 1};
  tri_step_values values = {.lr = 0.01, .gradient_scale = 1, .update = 1};
  CHECK_OK(KERNEL(adamw, TRI_FP64, 2, &options, &values, p, g, m, v, NULL));
  assert_true(fabs(p[0] - (1.0 * 0.999 - 0.01)) < 1e-15);
  assert_true(fabs(p[1] - (-2.0 * 0.999 + 0.01)) < 1e-15);
  assert_true(fabs(m[1] + 0.3) < 1e-15 && fabs(v[1] - 0.45) < 1e-15);
  tri_device_destroy(device);
}

static void test_device_names(void **state) {
  (void)state;
  tri_device *device = NULL;
  CHECK_FAILS(tri_device_create("gpus", 1, &device), TRI_BAD_CONFIG, "`gpus` is not a device; there are auto, cpu");
  CHECK_FAILS(tri_device_create("cpu:avx1024", 1, &device), TRI_UNSUPPORTED, "no kernels for `avx1024`; it runs");
  CHECK_OK(tri_device_create("cpu", 3, &device));
  assert_int_equal(device->description.threads, 3);
  CHECK_FAILS(tri_device_supports(device, TRI_FP64), TRI_UNSUPPORTED, "does not run precision fp64; it runs fp32");
  tri_device_destroy(device);
}

/* Lists the kernels that the CPU device takes from the reference, because it has none of its own yet: the list is
 * empty. A new kernel is added here with its issue; a kernel that is listed by mistake must be restored. */
static void test_kernels_of_reference(void **state) {
  static const char *const devices[] = {"cpu:baseline", "cpu:avx2", "cpu:avx512", "cpu:avx512bf16"};
  (void)state;
  for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
    char listed[2048] = "";
    tri_device *device = NULL;
    if (tri_device_create(devices[i], 1, &device) != TRI_OK) continue; /* not on this CPU */
    const tri_device_description *of = &device->description;
#define LIST(is_reference, name)                                                                                       \
  if (is_reference) strcat(strcat(listed, name), " ");
#define TRI_KERNEL(name, ...) LIST(device->kernels->name == tri_reference_kernels.name, #name)
#include "device/kernels.def"
    LIST(of->matmul_workspace == tri_reference_matmul_workspace, "matmul_workspace")
    LIST(of->matmul_packed == tri_reference_matmul_packed, "matmul_packed")
    LIST(of->grouped_workspace == tri_reference_grouped_workspace, "grouped_workspace")
    LIST(of->attention_workspace == tri_reference_attention_workspace, "attention_workspace")
    assert_string_equal(listed, "");
    tri_device_destroy(device);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_philox_known_answers),
      cmocka_unit_test(test_adamw_first_step),
      cmocka_unit_test(test_device_names),
      cmocka_unit_test(test_kernels_of_reference),
      cmocka_unit_test(test_sums_notice_what_is_not_finite),
      cmocka_unit_test(test_softmax_gradient_over_its_logits),
      cmocka_unit_test(test_baseline),
      cmocka_unit_test(test_avx2),
      cmocka_unit_test(test_avx512),
      cmocka_unit_test(test_avx512bf16),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
