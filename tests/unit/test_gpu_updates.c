/* GPU kernels of all optimizers but AdamW, on the emulator, compared with the reference device: element by element, for
 * matrices, with states of 8 bits and weights of 4 bits; the latter must have all bits of the reference. Scales of
 * states are in an array of fp32, and their codes in an array of words, as a whole weight is. */
#include "device/exact_sum.h"
#include "device/nf4.h"
#include "gpu_problem.h"

static const int64_t counts[] = {0, 1, 3, 4, 255, 1000, 4099};
enum { COUNTS = sizeof counts / sizeof counts[0] };

/* Array 1, of doubles: so are the numbers of a struct where it is moved by one. */
static void add_values(problem *p) {
  const tri_step_values values = {.lr = 0.1, .gradient_scale = 0.3, .loss_scale = NAN, .average = 0.2, .update = 3};
  memcpy(add_array(p, INPUT, TRI_FP64, sizeof values / sizeof(double), 0, 0)->before, &values, sizeof values);
}

/* Parameter, gradient, two states that are not negative, and the copy. */
static void add_elements(problem *p) {
  add_values(p);
  for (int i = 0; i < 4; i++) {
    array *a = add_array(p, i == 1 ? INPUT : BOTH, p->wide, p->width, p->width, 0);
    for (int64_t e = 0; i > 1 && e < p->width; e++)
      gpu_store(p->wide, a->before, e, fabs(gpu_load(p->wide, a->before, e)));
  }
  add_array(p, p->type == p->wide ? INPUT : OUTPUT, p->type, p->width, 0, 0);
}

#define COPY (p->type == p->wide ? NULL : at[6])

static tri_status call_lion(tri_queue *queue, const problem *p, void *const *at) {
  return KERNEL(lion, p->type, p->width, &(tri_lion){0.9, 0.99, 0.1, 0.5}, at[1], at[2], at[3], at[4], COPY);
}
static tri_status call_sgd(tri_queue *queue, const problem *p, void *const *at) {
  const tri_sgd options = {0.9, 0.1, 0.5, p->width % 2 == 0};
  return KERNEL(sgd, p->type, p->width, &options, at[1], at[2], at[3], at[4], COPY);
}
static tri_status call_schedule_free(tri_queue *queue, const problem *p, void *const *at) {
  const tri_adamw options = {0.9, 0.95, 1e-8, 0.1, 0.5};
  return KERNEL(schedule_free, p->type, p->width, &options, at[1], at[2], at[3], at[4], at[5], COPY);
}
static tri_status call_lerp(tri_queue *queue, const problem *p, void *const *at) {
  return KERNEL(lerp, p->type, p->width, -0.1, at[2], at[3], at[4]);
}
static tri_status call_momentum(tri_queue *queue, const problem *p, void *const *at) {
  return KERNEL(momentum, p->type, p->width, &(tri_momentum){0.95, p->width % 2 == 0}, at[1], at[3], at[4], at[5]);
}

static void test_elements(void **state) {
  static const struct {
    const char *name;
    problem_call *call;
  } kernels[] = {{"lion", call_lion},
                 {"sgd", call_sgd},
                 {"schedule_free", call_schedule_free},
                 {"lerp", call_lerp},
                 {"momentum", call_momentum}};
  (void)state;
  for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
    for (int t = 0; t < GPU_TYPES; t++) {
      for (int c = 0; c < COUNTS; c++) {
        problem p = begin(kernels[k].name, kernels[k].call, gpu_types[t], 1, -1, counts[c]);
        add_elements(&p);
        /* Elements that the reference does not write, such as those of an unused copy, must not change. */
        check(&p, false);
      }
    }
  }
}

/* ---- matrices ---------------------------------------------------------------------------------------------------- */

/* `pieces`: transposed. Rows are 3 elements longer than what is used of them. */
enum { MORE = 3 };

static tri_status call_normalise(tri_queue *queue, const problem *p, void *const *at) {
  const int64_t out_row = (p->pieces ? p->rows : p->width) + MORE;
  const tri_matrix_copy copy = {p->rows, p->width, p->width, p->pieces ? 1 : out_row, p->pieces ? out_row : 1};
  return KERNEL(matrix_normalise, p->type, &copy, at[2], at[1], 1e-7, at[3]);
}

static tri_status call_polynomial(tri_queue *queue, const problem *p, void *const *at) {
  const tri_matrix_polynomial polynomial = {p->width, {3.4445, -4.7750, 2.0315}};
  return KERNEL(matrix_polynomial, p->type, &polynomial, at[1], at[2], p->pieces ? at[2] : at[3]);
}

static tri_status call_step(tri_queue *queue, const problem *p, void *const *at) {
  const int64_t x_row = (p->pieces ? p->rows : p->width) + MORE;
  const tri_matrix_step step = {p->rows, p->width, p->width + MORE, p->pieces ? 1 : x_row, p->pieces ? x_row : 1, 0.1,
                                0.5,     0.2};
  return KERNEL(matrix_step, p->type, &step, at[1], at[2], at[3], p->type == p->wide ? NULL : at[4]);
}

static const int64_t sizes[][2] = {{1, 1}, {0, 3}, {3, 0}, {5, 130}, {130, 5}, {64, 64}, {65, 63}, {200, 131}};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void test_matrices(void **state) {
  (void)state;
  tri_exact_sum squares = {0};
  tri_exact_sum_add(&squares, 1.25);
  tri_exact_sum_add(&squares, 1e-20);
  for (int t = 0; t < GPU_TYPES; t++) {
    for (int i = 0; i < 2 * SIZES; i++) {
      const int64_t rows = sizes[i / 2][0], width = sizes[i / 2][1];
      const int64_t room =
          (rows > width ? rows : width) * ((rows < width ? rows : width) + MORE) + MORE * (rows + width);
      problem p = begin("matrix_normalise", call_normalise, gpu_types[t], rows, -1, width);
      p.pieces = i % 2 == 1;
      memcpy(add_array(&p, INPUT, TRI_FP64, sizeof squares / sizeof(double), 0, 0)->before, &squares, sizeof squares);
      add_array(&p, INPUT, p.wide, rows * width, rows * width, 0);
      add_array(&p, OUTPUT, p.type, room, 0, 0);
      check(&p, false);
      p = begin("matrix_polynomial", call_polynomial, gpu_types[t], width, -1, width);
      p.pieces = i % 2 == 1;
      add_array(&p, INPUT, p.type, width * width, width * width, 0);
      add_array(&p, p.pieces ? BOTH : INPUT, p.type, width * width, width * width, 0);
      add_array(&p, OUTPUT, p.type, width * width, 0, 0);
      check(&p, false);
      p = begin("matrix_step", call_step, gpu_types[t], rows, -1, width);
      p.pieces = i % 2 == 1;
      add_values(&p);
      add_array(&p, INPUT, p.type, room, room, 0);
      add_array(&p, BOTH, p.wide, rows * (width + MORE), rows * (width + MORE), 0);
      add_array(&p, OUTPUT, p.type, rows * (width + MORE), 0, 0);
      check(&p, false);
    }
  }
}

/* ---- states of 8 bits -------------------------------------------------------------------------------------------- */

/* Codes begin one byte on where `pieces` is set. */
static tri_status call_quantise(tri_queue *queue, const problem *p, void *const *at) {
  return KERNEL(quantise_blocks, p->type, p->width, p->rows == 2, at[1], (uint8_t *)at[2] + p->pieces, at[3]);
}

static tri_status call_dequantise(tri_queue *queue, const problem *p, void *const *at) {
  return KERNEL(dequantise_blocks, p->type, p->width, p->rows == 2, (uint8_t *)at[1] + p->pieces, at[2], at[3]);
}

static void test_quantised(void **state) {
  (void)state;
  for (int t = 0; t < GPU_TYPES; t++) {
    for (int i = 0; i < 4 * COUNTS; i++) {
      const int64_t count = counts[i / 4], blocks = (count + 255) / 256, words = (count + 7) / 4;
      problem p = begin("quantise_blocks", call_quantise, gpu_types[t], 1 + i % 2, -1, count);
      p.pieces = i % 4 > 1;
      array *in = add_array(&p, INPUT, p.wide, count, count, 0);
      for (int64_t e = 0; e < count; e++)
        gpu_store(p.wide, in->before, e, gpu_load(p.wide, in->before, e) * pow(10, -(double)(e % 7)));
      add_array(&p, OUTPUT, TRI_INT32, words, 0, 0);
      add_array(&p, OUTPUT, TRI_FP32, blocks, 0, 0);
      check(&p, true);
      p = begin("dequantise_blocks", call_dequantise, gpu_types[t], 1 + i % 2, -1, count);
      p.pieces = i % 4 > 1;
      array *codes = add_array(&p, INPUT, TRI_INT32, words, 0, 0);
      for (int64_t e = 0; e < 4 * words; e++) codes->before[e] = (unsigned char)(e * 37);
      add_array(&p, INPUT, TRI_FP32, blocks, blocks, 3);
      add_array(&p, OUTPUT, p.wide, count, 0, 0);
      check(&p, true);
    }
  }
}

/* ---- weights in 4 bits ------------------------------------------------------------------------------------------- */

/* A range of them from block `rows` on. */
static tri_status call_quantise_nf4(tri_queue *queue, const problem *p, void *const *at) {
  return KERNEL(quantise_nf4, p->type, p->width, at[1], at[2]);
}

static tri_status call_dequantise_nf4(tri_queue *queue, const problem *p, void *const *at) {
  const int64_t first = p->rows * TRI_NF4_BLOCK;
  const tri_nf4_cut whole = tri_nf4_whole(p->width);
  return KERNEL(dequantise_nf4, p->type, &whole, first, p->width - first, at[1], at[2]);
}

static void test_nf4(void **state) {
  static const int64_t totals[] = {0, 1, 64, 65, 1000, 16384 + 77};
  (void)state;
  for (int t = 0; t < GPU_TYPES; t++) {
    for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++) {
      const int64_t total = totals[i], words = (int64_t)tri_nf4_bytes(total) / 4;
      problem p = begin("quantise_nf4", call_quantise_nf4, gpu_types[t], 0, -1, total);
      add_array(&p, INPUT, p.type, total, total, 0);
      add_array(&p, OUTPUT, TRI_INT32, words, 0, 0);
      check(&p, true);
      p = begin("dequantise_nf4", call_dequantise_nf4, gpu_types[t], total / 150, -1, total);
      array *kept = add_array(&p, INPUT, TRI_INT32, words, 0, 0);
      for (int64_t b = 0; b < 4 * words; b++) kept->before[b] = (unsigned char)(b * 37 % 127); /* finite */
      add_array(&p, OUTPUT, p.type, total - total / 150 * TRI_NF4_BLOCK, 0, 0);
      check(&p, true);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_elements),
      cmocka_unit_test(test_matrices),
      cmocka_unit_test(test_quantised),
      cmocka_unit_test(test_nf4),
  };
  return cmocka_run_group_tests(tests, open_all, close_all);
}
