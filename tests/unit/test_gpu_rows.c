/* Kernels of GPUs that go over rows and elements, beside the reference device. */
#include "device/gpu/columns.h"
#include "gpu_problem.h"

/* ---- elements ---------------------------------------------------------------------------------------------------- */

static tri_status call_add(tri_queue *queue, const problem *p, void *const *at) {
  return KERNEL(add, p->type, rows_of(p, at), p->width, at[1], at[2], at[3]);
}
static tri_status call_add_in_place(tri_queue *queue, const problem *p, void *const *at) {
  return KERNEL(add, p->type, rows_of(p, at), p->width, at[1], at[2], at[2]);
}

static void fill_add(problem *p) {
  of_rows(p, INPUT, p->width);
  of_rows(p, INPUT, p->width);
  of_rows(p, OUTPUT, p->width);
}
static void fill_add_in_place(problem *p) {
  of_rows(p, INPUT, p->width);
  of_rows(p, BOTH, p->width);
}

static void test_add(void **state) {
  (void)state;
  check_shapes(&(problem){.name = "add", .call = call_add}, fill_add, true);
  check_shapes(&(problem){.name = "add in place", .call = call_add_in_place}, fill_add_in_place, true);
}

/* Products by numbers of few bits are rounded once, as the reference's are. */
static tri_status call_scale(tri_queue *queue, const problem *p, void *const *at) {
  TRI_TRY(KERNEL(scale, p->type, p->rows, -1.5, at[1], at[2]));
  return KERNEL(scale, p->type, p->rows, 0.125, at[3], at[3]);
}
static tri_status call_scale_by_thirds(tri_queue *queue, const problem *p, void *const *at) {
  TRI_TRY(KERNEL(scale, p->type, p->rows, 1.0 / 3, at[1], at[2]));
  return KERNEL(scale, p->type, p->rows, -2.0 / 3, at[3], at[3]);
}

static void test_scale(void **state) {
  (void)state;
  static const int64_t counts[] = {0, 1, 7, 8, 9, 31, 2048, 2051, 70001};
  for (int t = 0; t < 3; t++) {
    for (size_t c = 0; c < 2 * sizeof counts / sizeof counts[0]; c++) {
      const bool thirds = c % 2 == 1;
      problem p = begin("scale", thirds ? call_scale_by_thirds : call_scale, gpu_types[t], counts[c / 2], -1, 1);
      of_rows(&p, INPUT, 1);
      of_rows(&p, OUTPUT, 1);
      of_rows(&p, BOTH, 1);
      check(&p, !thirds);
    }
  }
}

static tri_status call_activation(tri_queue *queue, const problem *p, tri_activation kind, void *const *at) {
  TRI_TRY(KERNEL(activation_forward, p->type, kind, rows_of(p, at), p->width, at[1], at[3]));
  TRI_TRY(KERNEL(activation_backward, p->type, kind, rows_of(p, at), p->width, at[1], at[2], at[4]));
  return KERNEL(activation_backward, p->type, kind, rows_of(p, at), p->width, at[1], at[5], at[5]);
}
#define CALL_ACTIVATION(VALUE, name, ...)                                                                              \
  static tri_status call_##name(tri_queue *queue, const problem *p, void *const *at) {                                 \
    return call_activation(queue, p, TRI_ACTIVATION_##VALUE, at);                                                      \
  }
TRI_ACTIVATIONS(CALL_ACTIVATION)

static void fill_activation(problem *p) {
  of_rows(p, INPUT, p->width);
  of_rows(p, INPUT, p->width);
  of_rows(p, OUTPUT, p->width);
  of_rows(p, OUTPUT, p->width);
  of_rows(p, BOTH, p->width);
}

static void test_activation(void **state) {
  (void)state;
#define CHECK_ACTIVATION(VALUE, name_, ...)                                                                            \
  check_shapes(&(problem){.name = #name_, .call = call_##name_}, fill_activation, false);
  TRI_ACTIVATIONS(CHECK_ACTIVATION)
}

static tri_status call_gated(tri_queue *queue, const problem *p, tri_activation kind, void *const *at) {
  TRI_TRY(KERNEL(gated_forward, p->type, kind, rows_of(p, at), p->width, at[1], at[3]));
  return KERNEL(gated_backward, p->type, kind, rows_of(p, at), p->width, at[1], at[2], at[4]);
}
#define CALL_GATED(VALUE, name, ...)                                                                                   \
  static tri_status call_gated_##name(tri_queue *queue, const problem *p, void *const *at) {                           \
    return call_gated(queue, p, TRI_ACTIVATION_##VALUE, at);                                                           \
  }
TRI_ACTIVATIONS(CALL_GATED)

static void fill_gated(problem *p) {
  of_rows(p, INPUT, 2 * p->width);
  of_rows(p, INPUT, p->width);
  of_rows(p, OUTPUT, p->width);
  of_rows(p, OUTPUT, 2 * p->width);
}

static void test_gated(void **state) {
  (void)state;
#define CHECK_GATED(VALUE, name_, ...)                                                                                 \
  check_shapes(&(problem){.name = #name_ ", gated", .call = call_gated_##name_}, fill_gated, false);
  TRI_ACTIVATIONS(CHECK_GATED)
}

/* Rotates a part of each head of `width` elements. A row has three heads, and gaps between them. */
static tri_status call_rope(tri_queue *queue, const problem *p, void *const *at) {
  const int64_t stride = p->width + 8, turned = p->width / 2 * 2, row = 3 * stride + 8;
  TRI_TRY(KERNEL(rope, p->type, rows_of(p, at), row, 3, stride, turned, at[1], at[2], at[3], false, at[4]));
  return KERNEL(rope, p->type, rows_of(p, at), row, 3, stride, turned, at[1], at[2], at[3], true, at[5]);
}

static void fill_rope(problem *p) {
  enum { POSITIONS = 11 };
  array *positions = add_array(p, INPUT, TRI_INT32, p->rows, 0, 0);
  for (int64_t r = 0; r < p->rows; r++) {
    gpu_store(TRI_INT32, positions->before, r, r < p->live ? (double)(r * 5 % POSITIONS) : -1e9);
  }
  of_wides(p, INPUT, POSITIONS * (p->width / 2));
  of_wides(p, INPUT, POSITIONS * (p->width / 2));
  of_rows(p, BOTH, 3 * (p->width + 8) + 8);
  of_rows(p, BOTH, 3 * (p->width + 8) + 8);
}

static void test_rope(void **state) {
  (void)state;
  check_shapes(&(problem){.name = "rope", .call = call_rope}, fill_rope, false);
}

/* From the type to all three. Types are converted with one rounding, so there is one right answer. */
static tri_status call_convert(tri_queue *queue, const problem *p, void *const *at) {
  for (int t = 0; t < 3; t++) TRI_TRY(KERNEL(convert, p->rows, p->type, at[1], gpu_types[t], at[2 + t]));
  return TRI_OK;
}

static void test_convert(void **state) {
  (void)state;
  static const int64_t counts[] = {0, 1, 7, 8, 9, 31, 2048, 2051, 70001};
  for (int t = 0; t < 3; t++) {
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
      problem p = begin("convert", call_convert, gpu_types[t], counts[c], -1, 1);
      of_rows(&p, INPUT, 1);
      for (int to = 0; to < 3; to++) add_array(&p, OUTPUT, gpu_types[to], p.rows, 0, 0);
      check(&p, true);
    }
  }
  tri_queue *queue = all->emulated[0].device->queue;
  CHECK_FAILS(KERNEL(convert, 1, TRI_FP32, all->emulated[0].memory[0], TRI_INT32, all->emulated[0].memory[1]),
              TRI_UNSUPPORTED, "a GPU does not convert fp32 to int32");
}

/* ---- rows by their numbers --------------------------------------------------------------------------------------- */

enum { MORE_ROWS = 3 }; /* than there may be of them */

/* From the type to all three, and once without maps. */
static tri_status call_copy_rows(tri_queue *queue, const problem *p, void *const *at) {
  tri_row_copy copy = {rows_of(p, at), p->width, p->type, p->type, p->width + 8, p->width + 16};
  for (int t = 0; t < 3; t++) {
    copy.to_type = gpu_types[t];
    TRI_TRY(KERNEL(copy_rows, &copy, at[1], at[3], at[2], at[4 + t]));
  }
  copy.to_type = p->type;
  copy.to_stride = p->width;
  TRI_TRY(KERNEL(copy_rows, &copy, NULL, at[3], NULL, at[7]));
  copy.to_type = TRI_BF16;
  return KERNEL(copy_rows, &copy, at[1], at[3], NULL, at[8]);
}

static void fill_copy_rows(problem *p) {
  const int64_t all_rows = p->rows + MORE_ROWS, from = all_rows * (p->width + 8), to = all_rows * (p->width + 16);
  array *taken = add_array(p, INPUT, TRI_INT32, p->rows, 0, 0), *given = add_array(p, INPUT, TRI_INT32, p->rows, 0, 0);
  for (int64_t r = 0; r < p->rows; r++) {
    gpu_store(TRI_INT32, taken->before, r, r < p->live ? (double)(r * 5 % all_rows) : -1e9);
    gpu_store(TRI_INT32, given->before, r, r < p->live ? (double)(p->rows + 1 - r) : -1e9);
  }
  add_array(p, INPUT, p->type, from, from, 0.25);
  for (int t = 0; t < 3; t++) add_array(p, OUTPUT, gpu_types[t], to, 0, 0);
  of_rows(p, OUTPUT, p->width);
  add_array(p, OUTPUT, TRI_BF16, p->rows * p->width, 0, 0);
}

static void test_copy_rows(void **state) {
  (void)state;
  check_shapes(&(problem){.name = "copy_rows", .call = call_copy_rows}, fill_copy_rows, true);
}

/* Numbers of rows and ids are moved, and are not activations. */
static void test_copy_rows_of_numbers(void **state) {
  (void)state;
  enum { ROWS = 3, WIDTH = 5 };
  static const int32_t from[ROWS * WIDTH] = {0x7f800001, -1, 2, 3, 4, 5, INT32_MIN, 7, 8, 9, 10, 11, 12, 13, INT32_MAX};
  static const int32_t taken[ROWS] = {2, 0, 1};
  const tri_row_copy copy = {tri_all_rows(ROWS), WIDTH, TRI_INT32, TRI_INT32, WIDTH, WIDTH};
  const tri_row_copy turned = {tri_all_rows(ROWS), WIDTH, TRI_FP32, TRI_INT32, WIDTH, WIDTH};
  int32_t to[ROWS * WIDTH];
  bench *b = &all->emulated[0];
  tri_queue *queue = b->device->queue;
  CHECK_OK(tri_queue_upload_now(queue, b->memory[0], from, sizeof from));
  CHECK_OK(tri_queue_upload_now(queue, b->memory[1], taken, sizeof taken));
  CHECK_OK(KERNEL(copy_rows, &copy, b->memory[1], b->memory[0], NULL, b->memory[2]));
  CHECK_OK(tri_queue_download_now(queue, to, b->memory[2], sizeof to));
  for (int r = 0; r < ROWS; r++) assert_memory_equal(to + r * WIDTH, from + taken[r] * WIDTH, WIDTH * sizeof(int32_t));
  CHECK_FAILS(KERNEL(copy_rows, &turned, NULL, b->memory[0], NULL, b->memory[2]), TRI_UNSUPPORTED,
              "a GPU does not convert fp32 to int32");
}

/* ---- dropout ----------------------------------------------------------------------------------------------------- */

static const tri_dropout *dropped;

static tri_status call_dropout(tri_queue *queue, const problem *p, void *const *at) {
  const int64_t count = p->rows * p->width;
  const int32_t *rows = p->num_arrays > 5 ? at[5] : NULL;
  TRI_TRY(KERNEL(dropout, p->type, count, dropped, at[1], rows, at[2], at[3]));
  return KERNEL(dropout, p->type, count, dropped, at[1], rows, at[4], at[4]);
}

/* Compares dropout with the CPU's kernels, to the bit: with the reference in fp64, with kernels of vector units in fp32
 * and bf16. */
static void check_dropout(bench *host, tri_dtype type, int64_t rows, int64_t width, const tri_step_values *values) {
  unsigned char *want[MOST_ARRAYS] = {0}, *got[MOST_ARRAYS] = {0};
  problem p = begin("dropout", call_dropout, type, rows, -1, width);
  array *step = add_array(&p, INPUT, TRI_FP64, sizeof *values / sizeof(double), 0, 0);
  memcpy(step->before, values, sizeof *values);
  of_rows(&p, INPUT, width);
  of_rows(&p, OUTPUT, width);
  of_rows(&p, BOTH, width);
  if (dropped->width > 0) {
    array *numbers = add_array(&p, INPUT, TRI_INT32, rows, 0, 0);
    for (int64_t r = 0; r < rows; r++) {
      int64_t number = r * 7919 % 1000003 + r / 2;
      gpu_store(TRI_INT32, numbers->before, r, (double)number);
    }
  }
  run(host, &p, 0, want);
  for (int i = 0; i < GPU_DEVICES; i++) {
    if (!is_tried(&p, i)) continue;
    run(&all->emulated[i], &p, i % 2, got);
    same_bits(&p, want, got, gpu_devices[i]);
    release(&p, got);
  }
  release(&p, want);
  end(&p);
}

static void test_dropout(void **state) {
  (void)state;
  static const int64_t counts[] = {0, 1, 5, 64, 1001, 9000}, first[] = {0, 1, 2, 3, 4, 1027, (int64_t)1 << 40};
  const tri_random_key key = tri_random_stream(77, TRI_RANDOM_DROPOUT, 5 << 16 | 3);
  const double probabilities[] = {0, 0.1, (double)tri_random_u32(key, 0) * 0x1p-32, 1.0 - 0x1p-33};
  bench cpu;
  open_bench("cpu", &cpu);
  for (int t = 0; t < 3; t++) {
    for (int c = 0; c < 6; c++) {
      for (int f = 0; f < 7; f++) {
        const tri_step_values values = {.seed = 77, .step = 5, .first_sample = f > 3 ? 2 : 0};
        const tri_dropout options = {probabilities[(c + f) % 4], 3, 28, first[f], 0, 0};
        dropped = &options;
        check_dropout(gpu_types[t] == TRI_FP64 ? &all->reference : &cpu, gpu_types[t], counts[c], 1, &values);
      }
    }
    for (int w = 0; w < 5; w++) {
      static const int64_t rows[] = {70, 300, 33, 40, 0}, widths[] = {64, 1, 257, 24, 8};
      const tri_step_values values = {.seed = 77, .step = 5, .first_sample = 2};
      const tri_dropout options = {0.3, 3, 28, first[w], widths[w], 0};
      dropped = &options;
      check_dropout(gpu_types[t] == TRI_FP64 ? &all->reference : &cpu, gpu_types[t], rows[w], widths[w], &values);
    }
  }
  close_bench(&cpu);
}

/* ---- sums down columns ------------------------------------------------------------------------------------------- */

static tri_status call_column_sum(tri_queue *queue, const problem *p, void *const *at) {
  TRI_TRY(KERNEL(column_sum, p->type, rows_of(p, at), p->width, p->width + 3, at[1], at[2], false));
  TRI_TRY(KERNEL(column_sum, p->type, rows_of(p, at), p->width, p->width + 8, at[4], at[5], false));
  return KERNEL(column_sum, p->type, rows_of(p, at), p->width, p->width, at[6], at[3], true);
}

static void fill_column_sum(problem *p) {
  of_rows(p, INPUT, p->width + 3);
  of_wides(p, OUTPUT, p->width);
  of_wides(p, BOTH, p->width);
  of_rows(p, INPUT, p->width + 8);
  of_wides(p, OUTPUT, p->width);
  of_rows(p, INPUT, p->width);
}

static void test_column_sum(void **state) {
  (void)state;
  check_shapes(&(problem){.name = "column_sum", .call = call_column_sum, .tall = true}, fill_column_sum, false);
}

/* Sums that do not fit into the scratch memory need several launches: each row is in one of them, in ascending
 * order. */
static void test_columns_in_pieces(void **state) {
  (void)state;
  static const int64_t widths[] = {1, 128, 50257, 4 << 20}, rows[] = {0, 1, 128, 100000, (int64_t)1 << 40};
  for (int k = 0; k < 4 * 5 * 3; k++) {
    const tri_dtype type = gpu_types[k % 3];
    const int64_t width = widths[k / 3 % 4], wide_bytes = (int64_t)tri_dtype_bytes(tri_dtype_wide(type));
    const tri_rows some = tri_all_rows(rows[k / 12]);
    tri_gpu_columns columns;
    int64_t next = 0, launches = 0;
    CHECK_OK(tri_gpu_columns_create(type, some, 2, width, 1, &columns));
    do {
      const column_slabs cut = tri_gpu_columns_cut(&columns);
      const int64_t slabs = tri_gpu_columns_slabs(&columns);
      assert_true(cut.first_slab * cut.slab_rows == next);
      assert_true(slabs * width * wide_bytes <= TRI_GPU_SCRATCH_BYTES && slabs * columns.strips <= INT32_MAX);
      next += slabs * cut.slab_rows;
      launches++;
    } while (tri_gpu_columns_next(&columns) && launches < 1000);
    assert_true(next >= 2 * some.capacity || launches == 1000);
    assert_true(next < 2 * some.capacity + columns.slab_rows);
    assert_true(columns.strips * columns.across * 16 >= width * (int64_t)tri_dtype_bytes(type));
  }
  tri_gpu_columns columns;
  CHECK_FAILS(tri_gpu_columns_create(TRI_FP32, tri_all_rows(1), 1, 1 << 24, 1, &columns), TRI_UNSUPPORTED,
              "16777216 columns are more than a GPU adds up: there may be 8388608");
}

/* ---- norms ------------------------------------------------------------------------------------------------------- */

/* Two pieces to a row, with unused room between them; or whole rows. */
static tri_norm norm_of(const problem *p, void *const *at) {
  const int64_t w = p->width;
  if (!p->pieces) return tri_norm_of_rows(p->type, rows_of(p, at), w, 1e-5);
  return (tri_norm){p->type, rows_of(p, at), 2, w, 2 * w + 24, w + 8, 2 * w + 16, w + 16, 1e-5, 1};
}

static void of_x(problem *p, role is) { of_rows(p, is, p->pieces ? 2 * p->width + 24 : p->width); }
static void of_y(problem *p, role is) { of_rows(p, is, p->pieces ? 2 * p->width + 16 : p->width); }

/* A number to a piece. */
static void of_statistics(problem *p, role is, double mean) {
  const int64_t groups = p->pieces ? 2 : 1;
  add_array(p, is, p->wide, p->rows * groups, p->live * groups, mean);
}

static void check_norms(const char *name, problem_call *call, bool tall, void (*fill)(problem *p)) {
  for (int pieces = 0; pieces < 2; pieces++) {
    check_shapes(&(problem){.name = name, .call = call, .pieces = pieces > 0, .tall = tall}, fill, false);
  }
}

static tri_status call_forward(tri_queue *queue, const problem *p, void *const *at) {
  const tri_norm norm = norm_of(p, at);
  TRI_TRY(KERNEL(layer_norm_forward, &norm, at[1], NULL, NULL, at[2], at[3], at[4], at[5], at[6]));
  return KERNEL(rms_norm_forward, &norm, at[1], NULL, NULL, at[2], at[7], at[8]);
}

static void fill_forward(problem *p) {
  of_x(p, INPUT);
  of_wides(p, INPUT, p->width);
  of_wides(p, INPUT, p->width);
  of_y(p, OUTPUT);
  of_statistics(p, OUTPUT, 0);
  of_statistics(p, OUTPUT, 0);
  of_y(p, OUTPUT);
  of_statistics(p, OUTPUT, 0);
}

static void test_norm_forward(void **state) {
  (void)state;
  check_norms("norms", call_forward, false, fill_forward);
}

/* at: 1 gradient of y, 2 x, 3 weight, 4 mean, 5 rstd; 6 and 7 are gradients of x, 8 is both of them. */
static tri_status call_backward(tri_queue *queue, const problem *p, void *const *at) {
  tri_norm norm = norm_of(p, at);
  TRI_TRY(KERNEL(layer_norm_backward_input, &norm, at[1], at[2], at[3], at[4], at[5], at[6], false));
  TRI_TRY(KERNEL(rms_norm_backward_input, &norm, at[1], at[2], at[3], at[5], at[7], true));
  norm.y_row = norm.x_row;
  norm.y_group = norm.x_group;
  return KERNEL(layer_norm_backward_input, &norm, at[8], at[2], at[3], at[4], at[5], at[8], false);
}

static void fill_backward(problem *p) {
  of_y(p, INPUT);
  of_x(p, INPUT);
  of_wides(p, INPUT, p->width);
  of_statistics(p, INPUT, 0);
  of_statistics(p, INPUT, 1);
  of_x(p, OUTPUT);
  of_x(p, BOTH);
  of_x(p, BOTH);
}

static void test_norm_backward(void **state) {
  (void)state;
  check_norms("norms backward", call_backward, false, fill_backward);
}

/* at: 1 gradient of y, 2 x, 3 mean, 4 rstd; 5 and 6 are written, 7 and 8 added to. */
static tri_status call_weights(tri_queue *queue, const problem *p, void *const *at) {
  const tri_norm norm = norm_of(p, at);
  TRI_TRY(KERNEL(layer_norm_backward_weight, &norm, at[1], at[2], at[3], at[4], at[5], at[6], false));
  TRI_TRY(KERNEL(layer_norm_backward_weight, &norm, at[1], at[2], at[3], at[4], at[7], NULL, true));
  return KERNEL(rms_norm_backward_weight, &norm, at[1], at[2], at[4], at[8], true);
}

static void fill_weights(problem *p) {
  of_y(p, INPUT);
  of_x(p, INPUT);
  of_statistics(p, INPUT, 0);
  of_statistics(p, INPUT, 1);
  of_wides(p, OUTPUT, p->width);
  of_wides(p, OUTPUT, p->width);
  of_wides(p, BOTH, p->width);
  of_wides(p, BOTH, p->width);
}

static void test_norm_weights(void **state) {
  (void)state;
  check_norms("norms' weights", call_weights, true, fill_weights);
}

/* Rows far from zero: mean(x^2) - mean^2 would be ten times too far off. */
static tri_status call_far(tri_queue *queue, const problem *p, void *const *at) {
  const tri_norm norm = tri_norm_of_rows(p->type, tri_all_rows(p->rows), p->width, 1e-8);
  return KERNEL(layer_norm_forward, &norm, at[1], NULL, NULL, at[2], NULL, at[3], at[4], at[5]);
}

static void test_far_from_zero(void **state) {
  (void)state;
  static const int64_t widths[] = {40, 1000, 4096, 8200, 50257};
  for (int w = 0; w < 5; w++) {
    problem p = begin("norm far from zero", call_far, TRI_FP32, 2, -1, widths[w]);
    array *x = add_array(&p, INPUT, TRI_FP32, 2 * p.width, 0, 0);
    for (int64_t i = 0; i < x->count; i++) gpu_store(TRI_FP32, x->before, i, 16 + (double)(i * 37 % 64) / 64);
    of_wides(&p, INPUT, p.width);
    of_rows(&p, OUTPUT, p.width);
    of_statistics(&p, OUTPUT, 0);
    of_statistics(&p, OUTPUT, 0);
    check(&p, false);
  }
}

/* More pieces than a grid has warps. */
static tri_status call_many(tri_queue *queue, const problem *p, void *const *at) {
  const tri_norm norm = tri_norm_of_rows(p->type, rows_of(p, at), p->width, 1e-5);
  TRI_TRY(KERNEL(rms_norm_forward, &norm, at[1], NULL, NULL, at[2], at[3], at[4]));
  return KERNEL(rms_norm_backward_weight, &norm, at[1], at[1], at[4], at[5], false);
}

static void test_many_rows(void **state) {
  (void)state;
  problem p = begin("many rows", call_many, TRI_BF16, 33000, 32999, 3);
  of_rows(&p, INPUT, p.width);
  of_wides(&p, INPUT, p.width);
  of_rows(&p, OUTPUT, p.width);
  of_statistics(&p, OUTPUT, 0);
  of_wides(&p, OUTPUT, p.width);
  check(&p, false);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_add),          cmocka_unit_test(test_activation),
      cmocka_unit_test(test_gated),        cmocka_unit_test(test_scale),
      cmocka_unit_test(test_rope),         cmocka_unit_test(test_convert),
      cmocka_unit_test(test_copy_rows),    cmocka_unit_test(test_copy_rows_of_numbers),
      cmocka_unit_test(test_dropout),      cmocka_unit_test(test_column_sum),
      cmocka_unit_test(test_norm_forward), cmocka_unit_test(test_norm_backward),
      cmocka_unit_test(test_norm_weights), cmocka_unit_test(test_far_from_zero),
      cmocka_unit_test(test_many_rows),    cmocka_unit_test(test_columns_in_pieces),
  };
  return cmocka_run_group_tests(tests, open_all, close_all);
}
