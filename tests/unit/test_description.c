/* Plans for devices that this machine does not have, and weights whose packed form is the plain matrix. */
#include "check.h"
#include "device/description.h"
#include "device/kernels.h"
#include "ops/weight.h"

static const int64_t MIB = 1 << 20;

static tri_matmul product_of(tri_dtype type) {
  return (tri_matmul){
      .m = 64, .n = 300, .k = 200, .lda = 200, .ldb = 300, .ldc = 300, .a_type = type, .b_type = type, .c_type = type};
}

static void test_accelerator(void **state) {
  (void)state;
  const tri_device_description *d = &tri_description_accelerator;
  tri_matmul p = product_of(TRI_BF16);
  size_t bytes = 1;
  CHECK_OK(d->matmul_packed(d, &p, &bytes));
  assert_int_equal(bytes, 200 * 300 * 2); /* the narrow copy */
  CHECK_OK(d->matmul_workspace(d, &p, &bytes));
  assert_int_equal(bytes, 32 * MIB);
  p.b_type = TRI_FP32; /* not packed ahead: narrowed on the way */
  CHECK_OK(d->matmul_workspace(d, &p, &bytes));
  assert_int_equal(bytes, 32 * MIB + 200 * 300 * 2);
  for (int i = 0; i < 2; i++) {
    p = product_of(i == 0 ? TRI_FP32 : TRI_FP64); /* the optimizer's own serve */
    CHECK_OK(d->matmul_packed(d, &p, &bytes));
    assert_int_equal(bytes, 0);
  }
}

static void test_attention(void **state) {
  (void)state;
  const tri_device_description *d = &tri_description_accelerator;
  tri_attention a = {.type = TRI_BF16, .query_rows = 256, .key_rows = 256, .heads = 8, .kv_heads = 8, .head_dim = 64};
  size_t bytes = 0, grouped = 0, longer = 0;
  CHECK_OK(d->attention_workspace(d, &a, &bytes));
  assert_int_equal(bytes, 2 * 128 * 8 * (64 + 1) * 4);
  a.kv_heads = 2;
  CHECK_OK(d->attention_workspace(d, &a, &grouped));
  assert_int_equal(grouped - bytes, 2 * 2 * 128 * 8 * 64 * 2);
  a.query_rows = a.key_rows = 512;
  CHECK_OK(d->attention_workspace(d, &a, &longer));
  assert_int_equal(longer, 2 * grouped); /* never with queries x keys */
}

static void test_cpu(void **state) {
  (void)state;
  const tri_device_description *d = &tri_description_cpu;
  tri_matmul p = product_of(TRI_BF16);
  size_t bytes = 1;
  CHECK_OK(d->matmul_workspace(d, &p, &bytes));
  assert_int_equal(bytes, 0);
  CHECK_OK(d->matmul_packed(d, &p, &bytes));
  assert_int_equal(bytes, 200 * 300 * 2);
}

/* Scratch memory for the matrices of all groups. */
static void test_grouped(void **state) {
  (void)state;
  const tri_device_description *accelerator = &tri_description_accelerator, *cpu = &tri_description_cpu;
  tri_grouped_matmul g = {product_of(TRI_BF16), 6, (int64_t)200 * 300};
  size_t bytes = 1;
  CHECK_OK(accelerator->grouped_workspace(accelerator, &g, &bytes));
  assert_int_equal(bytes, 32 * MIB);
  CHECK_OK(cpu->grouped_workspace(cpu, &g, &bytes));
  assert_int_equal(bytes, 0);
  g.product.b_type = TRI_FP32; /* not packed ahead: narrowed on the way */
  CHECK_OK(accelerator->grouped_workspace(accelerator, &g, &bytes));
  assert_int_equal(bytes, 32 * MIB + 6 * 200 * 300 * 2);
  CHECK_OK(cpu->grouped_workspace(cpu, &g, &bytes));
  assert_int_equal(bytes, 6 * 200 * 300 * 2);
}

/* ---- one copy for both directions -------------------------------------------------------------------------------- */

static const void *packed_into[4], *multiplied[4];
static int num_packed, num_multiplied;

static tri_status note_pack(tri_queue *queue, const tri_matmul *product, tri_dtype type, const void *b, void *packed) {
  (void)queue, (void)product, (void)type, (void)b;
  packed_into[num_packed++] = packed;
  return TRI_OK;
}

static tri_status note_matmul(tri_queue *queue, const tri_matmul *product, const void *a, const void *b,
                              const void *bias, void *c, void *workspace) {
  (void)queue, (void)a, (void)bias, (void)c, (void)workspace;
  assert_true(product->b_packed);
  assert_int_equal(product->b_type, TRI_BF16);
  multiplied[num_multiplied++] = b;
  return TRI_OK;
}

static void walk(const tri_device_description *description, size_t buffer_bytes[TRI_OP_BUFFERS]) {
  const tri_device_kernels kernels = {.matmul_pack = note_pack, .matmul = note_matmul};
  tri_device device = {.kernels = &kernels, .description = *description};
  tri_queue queue = {.device = &device};
  char forward[1], backward[1], value[1];
  void *buffers[TRI_OP_BUFFERS] = {forward, backward};
  tri_run_parameter parameter = {.value = value};
  tri_run run = {.queue = &queue, .buffers = buffers, .parameters = &parameter};
  const tri_op_call call = {.type = TRI_BF16};
  const tri_weight weight = {.in = 200, .out = 300, .order = TRI_WEIGHT_IN_OUT};
  tri_op_memory memory = {0};
  num_packed = num_multiplied = 0;
  for (int i = 0; i < 2; i++) {
    tri_direction direction = (tri_direction)i;
    tri_matmul product = tri_weight_gemm(&call, &weight, direction, 64);
    CHECK_OK(tri_weight_memory(&call, description, &product, direction, &memory));
    CHECK_OK(tri_weight_prepare(&run, &call, &product, direction));
    CHECK_OK(tri_weight_multiply(&run, &call, &product, direction, value, NULL, value, NULL));
  }
  for (int i = 0; i < TRI_OP_BUFFERS; i++) buffer_bytes[i] = memory.buffer_bytes[i];
  assert_int_equal(num_multiplied, 2);
  assert_ptr_equal(multiplied[0], forward);
  assert_ptr_equal(packed_into[0], forward);
  assert_ptr_equal(multiplied[1], num_packed == 2 ? backward : forward);
}

static void test_a_plain_copy_serves_both_directions(void **state) {
  (void)state;
  size_t bytes[TRI_OP_BUFFERS];
  walk(&tri_description_accelerator, bytes);
  assert_int_equal(num_packed, 1);
  assert_int_equal(bytes[TRI_DIRECTION_FORWARD], 200 * 300 * 2);
  assert_int_equal(bytes[TRI_DIRECTION_BACKWARD], 0);
  walk(&tri_description_cpu, bytes);
  assert_int_equal(num_packed, 2);
  assert_int_equal(bytes[TRI_DIRECTION_FORWARD], 200 * 300 * 2);
  assert_int_equal(bytes[TRI_DIRECTION_BACKWARD], 200 * 300 * 2);
}

/* ---- a copy that the update writes ------------------------------------------------------------------------------- */

/* Two calls read one parameter, each with buffers of its own. Prepares both directions of both calls, and returns the
 * number of packs. */
static int prepare_twice(tri_run *run, tri_dtype type) {
  const tri_weight weight = {.in = 200, .out = 300, .order = TRI_WEIGHT_OUT_IN};
  num_packed = 0;
  for (int c = 0; c < 2; c++) {
    const tri_op_call call = {.type = type, .index = c};
    for (int i = 0; i < 2; i++) {
      tri_matmul product = tri_weight_gemm(&call, &weight, (tri_direction)i, 64);
      CHECK_OK(tri_weight_prepare(run, &call, &product, (tri_direction)i));
    }
  }
  return num_packed;
}

static void test_what_the_update_writes_is_not_packed(void **state) {
  (void)state;
  const tri_device_kernels kernels = {.matmul_pack = note_pack};
  tri_device device = {.kernels = &kernels, .description = tri_description_accelerator};
  tri_queue queue = {.device = &device};
  char memory[2 * TRI_OP_BUFFERS], value[1];
  void *buffers[] = {&memory[0], &memory[1], &memory[2], &memory[3]};
  tri_run_copy copy = {0};
  tri_run_parameter parameter = {.value = value, .copy = &copy};
  tri_run run = {.queue = &queue, .buffers = buffers, .parameters = &parameter};
  assert_int_equal(prepare_twice(&run, TRI_FP32), 0);
  assert_null(copy.values);
  assert_int_equal(prepare_twice(&run, TRI_BF16), 2);
  assert_ptr_equal(copy.values, buffers[0]);
  assert_int_equal(copy.count, 200 * 300);
  assert_int_equal(prepare_twice(&run, TRI_BF16), 2); /* it was not marked as written */
  copy.written = copy.count;
  assert_int_equal(prepare_twice(&run, TRI_BF16), 1);
  assert_ptr_equal(packed_into[0], buffers[TRI_OP_BUFFERS]); /* buffer of the second call */
  assert_int_equal(prepare_twice(&run, TRI_BF16), 2);        /* the mark is valid once only */
  copy.written = copy.count - 1;
  assert_int_equal(prepare_twice(&run, TRI_BF16), 2);
  copy = (tri_run_copy){0};
  device.description = tri_description_cpu; /* a packed weight may have any layout */
  assert_int_equal(prepare_twice(&run, TRI_BF16), 4);
  assert_null(copy.values);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_accelerator),
      cmocka_unit_test(test_grouped),
      cmocka_unit_test(test_attention),
      cmocka_unit_test(test_cpu),
      cmocka_unit_test(test_a_plain_copy_serves_both_directions),
      cmocka_unit_test(test_what_the_update_writes_is_not_packed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
