/* Properties of GPU kernels that a layer of experts needs in addition to correct results (kernel_check tests those): a
 * row's product and a group's gradient have the same bits at any position and with any other groups, in small tiles and
 * in large ones; rows beyond the count are not changed; logits that are NaN; tables that do not fit. Warps of 32 and of
 * 64 threads. */
#include "gpu_array.h"

#include "base/router.h"

/* ---- products in groups ------------------------------------------------------------------------------------------ */

enum { IN = 100, OUT = 136, MOST_GROUPS = 56 };

/* Rows [first, first + rows) of `all` belong to group `which`; the other rows are distributed over the other groups. */
typedef struct placing {
  int64_t all, groups, which, first, rows;
} placing;

static void place_begins(const placing *p, int32_t begins[MOST_GROUPS + 1]) {
  for (int64_t g = 0; g <= p->groups; g++) {
    begins[g] = (int32_t)(g <= p->which ? p->first * g / (p->which == 0 ? 1 : p->which) : p->all);
  }
  begins[p->which] = (int32_t)p->first;
  begins[p->which + 1] = (int32_t)(p->first + p->rows);
}

/* Returns rows with `own` at its position, and random numbers around it. */
static void *place(tri_dtype type, const placing *p, int64_t width, const void *own, uint64_t stream) {
  const size_t row = (size_t)width * tri_dtype_bytes(type);
  char *all = gpu_values(type, p->all * width, 3, stream);
  memcpy(all + (size_t)p->first * row, own, (size_t)p->rows * row);
  return all;
}

/* Copies the product of the group's rows and its matrix, [rows, OUT], to `out`. */
static void multiply(gpu_bench *b, tri_dtype type, const placing *p, const void *rows, const void *matrix, void *out) {
  const size_t size = tri_dtype_bytes(type), each = (size_t)IN * OUT * size;
  int32_t begins[MOST_GROUPS + 1];
  tri_grouped_matmul call = {
      {.m = p->all, .n = OUT, .k = IN, .lda = IN, .ldb = OUT, .ldc = OUT}, p->groups, (int64_t)IN * OUT};
  call.product.a_type = call.product.b_type = call.product.c_type = type;
  place_begins(p, begins);
  void *a = place(type, p, IN, rows, 50), *matrices = gpu_values(type, p->groups * IN * OUT, 2, 51);
  char *c = gpu_bytes((size_t)(p->all * OUT) * size);
  memcpy((char *)matrices + (size_t)p->which * each, matrix, each);
  void *c_device = gpu_put(b, c, (size_t)(p->all * OUT) * size, size);
  CHECK_OK(b->device->kernels->grouped_matmul(b->device->queue, &call,
                                              gpu_put(b, begins, sizeof begins, sizeof begins[0]),
                                              gpu_put(b, a, (size_t)(p->all * IN) * size, size),
                                              gpu_put(b, matrices, (size_t)p->groups * each, size), c_device, NULL));
  gpu_get(b, c_device, c);
  memcpy(out, c + (size_t)(p->first * OUT) * size, (size_t)(p->rows * OUT) * size);
  gpu_clear(b);
  free(a);
  free(matrices);
  free(c);
}

/* Copies the gradient of the group's matrix, [IN, OUT], wide. */
static void multiply_gradient(gpu_bench *b, tri_dtype type, const placing *p, const void *rows, const void *gradients,
                              void *out) {
  const tri_dtype wide = tri_dtype_wide(type);
  const size_t size = tri_dtype_bytes(type), each = (size_t)IN * OUT * tri_dtype_bytes(wide);
  int32_t begins[MOST_GROUPS + 1];
  tri_grouped_matmul call = {
      {.m = IN, .n = OUT, .k = p->all, .lda = IN, .ldb = OUT, .ldc = OUT, .a_transposed = true, .c_type = wide},
      p->groups,
      (int64_t)IN * OUT};
  call.product.a_type = call.product.b_type = type;
  place_begins(p, begins);
  void *a = place(type, p, IN, rows, 52), *gradient = place(type, p, OUT, gradients, 53);
  char *c = gpu_bytes((size_t)p->groups * each);
  void *c_device = gpu_put(b, c, (size_t)p->groups * each, tri_dtype_bytes(wide));
  CHECK_OK(
      b->device->kernels->grouped_matmul(b->device->queue, &call, gpu_put(b, begins, sizeof begins, sizeof begins[0]),
                                         gpu_put(b, a, (size_t)(p->all * IN) * size, size),
                                         gpu_put(b, gradient, (size_t)(p->all * OUT) * size, size), c_device, NULL));
  gpu_get(b, c_device, c);
  memcpy(out, c + (size_t)p->which * each, each);
  gpu_clear(b);
  free(a);
  free(gradient);
  free(c);
}

/* The group alone; between others; after others, not aligned to 16 bytes; and with enough groups, or rows, for large
 * tiles. */
enum { ROWS = 37 };
static const placing placings[] = {{ROWS, 1, 0, 0, ROWS},
                                   {90, 4, 2, 41, ROWS},
                                   {ROWS + 60, 8, 7, 60, ROWS},
                                   {200, 56, 20, 70, ROWS},
                                   {7000, 2, 1, 6001, ROWS}};
enum { NUM_PLACINGS = sizeof placings / sizeof placings[0] };

static void test_a_row_does_not_see_other_groups(void **state) {
  gpu_benches *all = *state;
  for (int t = 0; t < GPU_TYPES; t++) {
    const tri_dtype type = gpu_types[t];
    const size_t bytes = (size_t)ROWS * OUT * tri_dtype_bytes(type);
    void *rows = gpu_values(type, ROWS * IN, 1, 60), *matrix = gpu_values(type, (int64_t)IN * OUT, 1, 61);
    void *alone = gpu_bytes(bytes), *among = gpu_bytes(bytes);
    for (int d = 0; d < GPU_DEVICES; d += GPU_FIRST_OF_64) {
      for (int i = 0; i < NUM_PLACINGS; i++) {
        all->each[d].misaligned = i == 2 ? 1 : 0;
        multiply(&all->each[d], type, &placings[i], rows, matrix, i == 0 ? alone : among);
        if (i > 0 && memcmp(alone, among, bytes) != 0)
          fail_msg("%s on %s: other bits at place %d", tri_dtype_name(type), gpu_devices[d], i);
      }
      all->each[d].misaligned = 0;
    }
    free(rows);
    free(matrix);
    free(alone);
    free(among);
  }
}

static void test_a_gradient_does_not_see_other_groups(void **state) {
  gpu_benches *all = *state;
  for (int t = 0; t < GPU_TYPES; t++) {
    const tri_dtype type = gpu_types[t];
    const size_t bytes = (size_t)IN * OUT * tri_dtype_bytes(tri_dtype_wide(type));
    void *rows = gpu_values(type, ROWS * IN, 1, 62), *gradients = gpu_values(type, ROWS * OUT, 1, 63);
    void *alone = gpu_bytes(bytes), *among = gpu_bytes(bytes);
    for (int d = 0; d < GPU_DEVICES; d += GPU_FIRST_OF_64) {
      for (int i = 0; i < NUM_PLACINGS - 1; i++) {
        all->each[d].misaligned = i == 2 ? 1 : 0;
        multiply_gradient(&all->each[d], type, &placings[i], rows, gradients, i == 0 ? alone : among);
        if (i > 0 && memcmp(alone, among, bytes) != 0)
          fail_msg("%s on %s: other bits at place %d", tri_dtype_name(type), gpu_devices[d], i);
      }
      all->each[d].misaligned = 0;
    }
    free(rows);
    free(gradients);
    free(alone);
    free(among);
  }
}

/* More rows than there is capacity for: the others are dropped. array_download detects writes beyond the end of c. */
static void test_more_rows_than_announced(void **state) {
  gpu_benches *all = *state;
  enum { ROOM = 20, GROUPS = 3 };
  const int32_t begins[GROUPS + 1] = {0, 15, 33, 900}, cut[GROUPS + 1] = {0, 15, ROOM, ROOM};
  float *a = gpu_values(TRI_FP32, ROOM * IN, 1, 64), *b = gpu_values(TRI_FP32, (int64_t)GROUPS * IN * OUT, 1, 65);
  float c[2][ROOM * OUT];
  tri_grouped_matmul call = {
      {.m = ROOM, .n = OUT, .k = IN, .lda = IN, .ldb = OUT, .ldc = OUT}, GROUPS, (int64_t)IN * OUT};
  call.product.a_type = call.product.b_type = call.product.c_type = TRI_FP32;
  for (int d = 0; d < GPU_DEVICES; d += GPU_FIRST_OF_64) {
    gpu_bench *on = &all->each[d];
    for (int i = 0; i < 2; i++) {
      void *out = gpu_put(on, c[i], sizeof c[i], 4);
      CHECK_OK(on->device->kernels->grouped_matmul(
          on->device->queue, &call, gpu_put(on, i == 0 ? begins : cut, sizeof begins, 4),
          gpu_put(on, a, (size_t)ROOM * IN * 4, 4), gpu_put(on, b, (size_t)GROUPS * IN * OUT * 4, 4), out, NULL));
      gpu_get(on, out, c[i]);
      gpu_clear(on);
    }
    assert_memory_equal(c[0], c[1], sizeof c[0]);
  }
  free(a);
  free(b);
}

static void test_products_that_make_no_sense(void **state) {
  gpu_benches *all = *state;
  tri_device *device = all->each[0].device;
  tri_grouped_matmul call = {{.m = 8, .n = 8, .k = 8, .lda = 8, .ldb = 8, .ldc = 8, .a_transposed = true}, 2, 64};
  call.product.a_type = call.product.b_type = call.product.c_type = TRI_FP32;
  call.product.b_transposed = true;
  CHECK_FAILS(device->kernels->grouped_matmul(device->queue, &call, NULL, NULL, NULL, NULL, NULL), TRI_INTERNAL,
              "a product of 2 groups with bias 0, a transposed 1, b transposed 1, packed 0 makes no sense");
  call.product.b_transposed = call.product.a_transposed = false;
  call.product.bias = true;
  CHECK_FAILS(device->kernels->grouped_matmul(device->queue, &call, NULL, NULL, NULL, NULL, NULL), TRI_INTERNAL,
              "a product of 2 groups with bias 1, a transposed 0, b transposed 0, packed 0 makes no sense");
}

/* ---- routers ----------------------------------------------------------------------------------------------------- */

enum { EXPERTS = 40, CHOSEN = 6, TOKENS = 5 };

static const tri_router odd_routers[] = {{EXPERTS, CHOSEN, 1, 1, 1, 1, TRI_ROUTER_SOFTMAX, false, true},
                                         {EXPERTS, CHOSEN, 8, 3, 2, 1, TRI_ROUTER_SIGMOID, false, true},
                                         {EXPERTS, CHOSEN, 4, 2, 3, 2, TRI_ROUTER_SIGMOID, true, false}};

/* Rows 0, 2 and 4 are valid, row 1 has one logit that is NaN, row 3 only such logits. */
static void check_odd_logits(gpu_bench *on, tri_dtype type, const tri_router *router) {
  const tri_dtype wide = tri_dtype_wide(type);
  const size_t size = tri_dtype_bytes(wide);
  double *logits = gpu_values(wide, (int64_t)TOKENS * EXPERTS, 1, 70);
  int32_t experts[TOKENS * CHOSEN];
  double weights[TOKENS * CHOSEN];
  gpu_store(wide, logits, EXPERTS + 17, NAN);
  for (int64_t i = 0; i < EXPERTS; i++) gpu_store(wide, logits, 3 * EXPERTS + i, NAN);
  memset(experts, 0, sizeof experts);
  memset(weights, 0, sizeof weights);
  void *e = gpu_put(on, experts, sizeof experts, 4), *w = gpu_put(on, weights, TOKENS * CHOSEN * size, size);
  CHECK_OK(on->device->kernels->router_forward(on->device->queue, type, tri_all_rows(TOKENS), router, NULL,
                                               gpu_put(on, logits, (size_t)TOKENS * EXPERTS * size, size), NULL, e, w));
  gpu_get(on, e, experts);
  gpu_get(on, w, weights);
  for (int64_t r = 0; r < TOKENS; r++) {
    bool seen[EXPERTS] = {false}, odd = false;
    for (int64_t j = 0; j < CHOSEN; j++) {
      const int32_t one = experts[r * CHOSEN + j];
      assert_in_range(one, 0, EXPERTS - 1);
      assert_false(seen[one]);
      seen[one] = true;
      odd = odd || !isfinite(gpu_load(wide, weights, r * CHOSEN + j));
    }
    assert_int_equal(odd, r == 1 || r == 3); /* counted, and the step is skipped */
  }
  gpu_clear(on);
  free(logits);
}

static void test_logits_that_are_not_numbers(void **state) {
  gpu_benches *all = *state;
  for (int d = 0; d < GPU_DEVICES; d += GPU_FIRST_OF_64) {
    for (int t = 0; t < GPU_TYPES; t++) {
      for (size_t i = 0; i < sizeof odd_routers / sizeof odd_routers[0]; i++)
        check_odd_logits(&all->each[d], gpu_types[t], &odd_routers[i]);
    }
  }
}

static void test_routers_that_make_no_sense(void **state) {
  gpu_benches *all = *state;
  tri_device *device = all->each[0].device;
  const tri_router more = {8, 9, 1, 1, 1, 1, TRI_ROUTER_SOFTMAX, false, true};
  const tri_router many = {TRI_ROUTER_EXPERTS + 1, 2, 1, 1, 1, 1, TRI_ROUTER_SOFTMAX, false, true};
  CHECK_FAILS(
      device->kernels->router_forward(device->queue, TRI_FP32, tri_all_rows(1), &more, NULL, NULL, NULL, NULL, NULL),
      TRI_INTERNAL, "a router of 9 of 8 experts, 1 of 1 groups by 1, makes no sense");
  CHECK_FAILS(
      device->kernels->router_forward(device->queue, TRI_FP32, tri_all_rows(1), &many, NULL, NULL, NULL, NULL, NULL),
      TRI_INTERNAL, "a router of 2 of 1025 experts, 1 of 1 groups by 1, makes no sense");
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

/* More tiles, and more groups, than a block of the scan has threads; and a count that needs no table. */
static void test_many_rows_into_groups(void **state) {
  gpu_benches *all = *state;
  static const int64_t sizes[][2] = {{270001, 3}, {2050, 1500}};
  for (int s = 0; s < 2; s++) {
    const int64_t rows = sizes[s][0], groups = sizes[s][1];
    const size_t bytes = (size_t)rows * 4;
    int32_t *experts = gpu_bytes(bytes), *order = gpu_bytes(bytes), *places = gpu_bytes(bytes);
    int32_t *begins = gpu_bytes((size_t)(groups + 1) * 4), *next = gpu_bytes((size_t)(groups + 1) * 4);
    for (int64_t r = 0; r < rows; r++) experts[r] = (int32_t)(r * 7919 % 100003 % groups);
    for (int d = 0; d < GPU_DEVICES; d += GPU_FIRST_OF_64) {
      gpu_bench *on = &all->each[d];
      void *b = gpu_put(on, begins, (size_t)(groups + 1) * 4, 4), *o = gpu_put(on, order, bytes, 4);
      void *sources = gpu_put(on, order, bytes, 4), *p = gpu_put(on, places, bytes, 4);
      CHECK_OK(on->device->kernels->group_rows(on->device->queue, tri_all_rows(rows), 1, groups,
                                               gpu_put(on, experts, bytes, 4), b, o, sources, p));
      gpu_get(on, b, begins);
      gpu_get(on, o, order);
      gpu_get(on, p, places);
      memcpy(next, begins, (size_t)(groups + 1) * 4);
      assert_int_equal(begins[0], 0);
      assert_int_equal(begins[groups], rows);
      for (int64_t r = 0; r < rows; r++) { /* the next row of its group, until the group is full */
        assert_int_equal(places[r], next[experts[r]]++);
        assert_int_equal(order[places[r]], r);
      }
      for (int64_t g = 0; g < groups; g++) assert_int_equal(next[g], begins[g + 1]);
      gpu_clear(on);
    }
    free(experts);
    free(order);
    free(places);
    free(begins);
    free(next);
  }
}

static void test_more_groups_than_tables_have_room_for(void **state) {
  gpu_benches *all = *state;
  tri_device *device = all->each[0].device;
  CHECK_FAILS(
      device->kernels->group_rows(device->queue, tri_all_rows((int64_t)1 << 24), 8, 1000, NULL, NULL, NULL, NULL, NULL),
      TRI_UNSUPPORTED,
      "16777216 rows of 8 experts each are more than a GPU brings into 1000 groups at once; smaller "
      "micro-batches ask for less");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_row_does_not_see_other_groups),
      cmocka_unit_test(test_a_gradient_does_not_see_other_groups),
      cmocka_unit_test(test_more_rows_than_announced),
      cmocka_unit_test(test_products_that_make_no_sense),
      cmocka_unit_test(test_logits_that_are_not_numbers),
      cmocka_unit_test(test_routers_that_make_no_sense),
      cmocka_unit_test(test_many_rows_into_groups),
      cmocka_unit_test(test_more_groups_than_tables_have_room_for),
  };
  return cmocka_run_group_tests(tests, gpu_benches_create, gpu_benches_destroy);
}
