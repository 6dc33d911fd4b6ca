/* Rows given as a capacity and a count on the device. Each kernel with such rows, for counts of 0, some, all and more
 * rows than the capacity, has the same bits as with exactly that many rows. Unused rows have inputs of NaN, ids of the
 * table, and positions outside of it; they are not written. */
#include "base/random.h"
#include "check.h"
#include "device/kernels.h"
#include "vector_units.h"

#include <stdlib.h>

enum { CAPACITY = 70, WIDTH = 258, TABLE = 11, PIECES = 2, BYTES = CAPACITY * 4 * WIDTH * 8, UNTOUCHED = 0x5a };

typedef struct bench {
  tri_device *device;
  tri_dtype type, wide;
  unsigned char *x, *dy, *weight, *bias, *mean, *rstd; /* inputs */
  unsigned char *out[3];
  int32_t ids[CAPACITY], positions[CAPACITY], backwards[CAPACITY];
} bench;

#define KERNEL(name, ...) b->device->kernels->name(b->device->queue, __VA_ARGS__)

static tri_status add(bench *b, tri_rows rows) { return KERNEL(add, b->type, rows, WIDTH, b->x, b->dy, b->out[0]); }
static tri_status gelu(bench *b, tri_rows rows) {
  TRI_TRY(KERNEL(activation_forward, b->type, TRI_ACTIVATION_GELU_TANH, rows, WIDTH, b->x, b->out[0]));
  return KERNEL(activation_backward, b->type, TRI_ACTIVATION_GELU_ERF, rows, WIDTH, b->x, b->dy, b->out[1]);
}
static tri_status swiglu(bench *b, tri_rows rows) {
  TRI_TRY(KERNEL(gated_forward, b->type, TRI_ACTIVATION_SILU, rows, WIDTH, b->x, b->out[0]));
  return KERNEL(gated_backward, b->type, TRI_ACTIVATION_SILU, rows, WIDTH, b->x, b->dy, b->out[1]);
}
static tri_status column_sum(bench *b, tri_rows rows) {
  TRI_TRY(KERNEL(column_sum, b->type, rows, WIDTH, WIDTH, b->x, b->out[0], false));
  return KERNEL(column_sum, b->type, rows, WIDTH, WIDTH, b->x, b->out[1], true);
}
static tri_status embedding(bench *b, tri_rows rows) {
  TRI_TRY(KERNEL(embedding_forward, b->type, rows, WIDTH, b->ids, 0, TABLE, b->wide, b->weight, b->positions, b->bias,
                 b->out[0]));
  TRI_TRY(KERNEL(embedding_backward, b->type, rows, WIDTH, b->ids, 0, TABLE, b->x, b->out[1]));
  return KERNEL(position_backward, b->type, rows, WIDTH, b->positions, TABLE, b->x, b->out[2], false);
}
static tri_status rope(bench *b, tri_rows rows) {
  return KERNEL(rope, b->type, rows, WIDTH, 2, WIDTH / 2, 64, b->positions, b->weight, b->bias, false, b->out[0]);
}
/* Gathers rows of a table by `positions`, and scatters rows of x by `backwards`. */
static tri_status copy_rows(bench *b, tri_rows rows) {
  const tri_row_copy taken = {rows, WIDTH, b->wide, b->type, WIDTH, WIDTH + 3};
  const tri_row_copy given = {rows, WIDTH, b->type, b->type, WIDTH, 2 * WIDTH};
  TRI_TRY(KERNEL(copy_rows, &taken, b->positions, b->weight, NULL, b->out[0]));
  return KERNEL(copy_rows, &given, NULL, b->x, b->backwards, b->out[1]);
}
static tri_norm norm_of(const bench *b, tri_rows rows) {
  return (tri_norm){b->type, rows, PIECES, WIDTH / 3, WIDTH, WIDTH / 2, WIDTH, WIDTH / 2, 1e-5, 1};
}
static tri_status layer_norm(bench *b, tri_rows rows) {
  const tri_norm norm = norm_of(b, rows);
  return KERNEL(layer_norm_forward, &norm, b->x, NULL, NULL, b->weight, b->bias, b->out[0], b->out[1], b->out[2]);
}
static tri_status layer_norm_backward(bench *b, tri_rows rows) {
  const tri_norm norm = norm_of(b, rows);
  TRI_TRY(KERNEL(layer_norm_backward_input, &norm, b->dy, b->x, b->weight, b->mean, b->rstd, b->out[0], false));
  return KERNEL(layer_norm_backward_weight, &norm, b->dy, b->x, b->mean, b->rstd, b->out[1], b->out[2], false);
}
static tri_status rms_norm(bench *b, tri_rows rows) {
  const tri_norm norm = norm_of(b, rows);
  return KERNEL(rms_norm_forward, &norm, b->x, NULL, NULL, b->weight, b->out[0], b->out[1]);
}
static tri_status layer_norm_of_sum(bench *b, tri_rows rows) {
  const tri_norm norm = norm_of(b, rows);
  unsigned char *mean = b->out[1], *rstd = b->out[1] + BYTES / 2;
  return KERNEL(layer_norm_forward, &norm, b->x, b->dy, b->out[2], b->weight, b->bias, b->out[0], mean, rstd);
}
static tri_status rms_norm_backward(bench *b, tri_rows rows) {
  const tri_norm norm = norm_of(b, rows);
  TRI_TRY(KERNEL(rms_norm_backward_input, &norm, b->dy, b->x, b->weight, b->rstd, b->out[0], true));
  return KERNEL(rms_norm_backward_weight, &norm, b->dy, b->x, b->rstd, b->out[1], true);
}

static const struct {
  const char *name;
  tri_status (*call)(bench *b, tri_rows rows);
} cases[] = {{"add", add},
             {"gelu", gelu},
             {"swiglu", swiglu},
             {"column_sum", column_sum},
             {"embedding", embedding},
             {"rope", rope},
             {"copy_rows", copy_rows},
             {"layer_norm_forward", layer_norm},
             {"layer_norm_forward of a sum", layer_norm_of_sum},
             {"layer_norm_backward", layer_norm_backward},
             {"rms_norm_forward", rms_norm},
             {"rms_norm_backward", rms_norm_backward}};

static void put(tri_dtype type, void *data, int64_t i, double value) {
  float narrow = (float)value;
  uint32_t bits;
  memcpy(&bits, &narrow, sizeof bits);
  if (type == TRI_FP64) ((double *)data)[i] = value;
  if (type == TRI_FP32) ((float *)data)[i] = narrow;
  if (type == TRI_BF16) ((uint16_t *)data)[i] = (uint16_t)(bits >> 16);
}

/* Returns `live` random values, followed by NaN. */
static unsigned char *array(tri_dtype type, int64_t live, uint64_t stream) {
  unsigned char *data = malloc(BYTES);
  assert_non_null(data);
  memset(data, 0xff, BYTES);
  for (int64_t i = 0; i < live; i++)
    put(type, data, i, tri_random_normal(tri_random_stream(4, TRI_RANDOM_TEST, stream), (uint64_t)i));
  return data;
}

/* Rows of x have SwiGLU's width. For other kernels rows begin within these, so each case has an x of its own width. */
static bench bench_make(tri_device *device, tri_dtype type, int64_t live, int64_t x_width) {
  bench b = {.device = device, .type = type, .wide = tri_dtype_wide(type)};
  b.x = array(type, live * x_width, 1);
  b.dy = array(type, live * WIDTH, 2);
  b.weight = array(b.wide, (int64_t)TABLE * WIDTH, 3);
  b.bias = array(b.wide, (int64_t)TABLE * WIDTH, 4);
  b.mean = array(b.wide, live * PIECES, 5);
  b.rstd = array(b.wide, live * PIECES, 6);
  for (int i = 0; i < 3; i++) {
    b.out[i] = malloc(BYTES);
    assert_non_null(b.out[i]);
    memset(b.out[i], UNTOUCHED, BYTES);
  }
  for (int r = 0; r < CAPACITY; r++) {
    b.ids[r] = r < live ? r * 5 % (TABLE + 2) - 1 : r * 5 % TABLE; /* ids of unused rows are valid */
    b.backwards[r] = r < live ? CAPACITY - r : INT32_MAX;
    b.positions[r] = r < live ? r * 3 % TABLE : (r % 2 == 0 ? INT32_MAX : INT32_MIN);
  }
  return b;
}

static void bench_free(bench *b) {
  unsigned char *const all[] = {b->x, b->dy, b->weight, b->bias, b->mean, b->rstd, b->out[0], b->out[1], b->out[2]};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static void check_case(tri_device *device, size_t c, tri_dtype type, int32_t count) {
  const int64_t live = count < 0 ? 0 : count < CAPACITY ? count : CAPACITY;
  const int64_t x_width = cases[c].call == swiglu ? 2 * WIDTH : WIDTH;
  bench expected = bench_make(device, type, live, x_width);
  CHECK_OK(cases[c].call(&expected, tri_all_rows(live)));
  for (int threads = 1; threads <= 3; threads++) {
    bench b = bench_make(device, type, live, x_width);
    device->description.threads = threads;
    CHECK_OK(cases[c].call(&b, (tri_rows){CAPACITY, &count}));
    for (int i = 0; i < 3; i++) {
      if (memcmp(b.out[i], expected.out[i], BYTES) != 0) {
        fail_msg("%s on %s, %s: count %d of %d differs from as many rows in output %d", cases[c].name,
                 device->info.name, tri_dtype_name(type), count, CAPACITY, i);
      }
    }
    bench_free(&b);
  }
  bench_free(&expected);
}

static void check_device(const char *name, const tri_dtype *types, int num_types) {
  static const int32_t counts[] = {0, 1, 37, CAPACITY, CAPACITY + 30, -3};
  tri_device *device = NULL;
  if (tri_device_create(name, 1, &device) != TRI_OK) {
    print_message("SKIPPED: %s\n", tri_status_message());
    skip();
  }
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
    for (int t = 0; t < num_types; t++)
      for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) check_case(device, c, types[t], counts[i]);
  tri_device_destroy(device);
}

static void test_reference(void **state) {
  (void)state;
  check_device("reference", (const tri_dtype[]){TRI_FP64, TRI_FP32, TRI_BF16}, 3);
}

static void check_unit(const char *name) { check_device(name, (const tri_dtype[]){TRI_FP32, TRI_BF16}, 2); }

VECTOR_UNIT_TESTS(check_unit)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reference),
      VECTOR_UNIT_ENTRIES,
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
