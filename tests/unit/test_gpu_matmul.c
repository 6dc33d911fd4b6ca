/* Matrix products by the GPU's own kernels, on the emulator, compared with the reference: types, transpositions,
 * leading dimensions, bias, accumulation, packing; sizes that no tile divides, addresses that are not multiples of 16
 * bytes. Warps of 32 and of 64 each give the same bits in every order of threads. */
#include "device/reference/reference.h"
#include "gpu_array.h"

/* ---- one product ------------------------------------------------------------------------------------------------- */

typedef struct product_case {
  tri_matmul product; /* b plain */
  size_t shift;       /* offset of addresses, in elements */
  bool packed;        /* through matmul_pack */
} product_case;

static size_t elements(int64_t rows, int64_t width, int64_t ld) {
  return rows == 0 || width == 0 ? 0 : (size_t)((rows - 1) * ld + width);
}

static gpu_array matrix(tri_device *device, tri_dtype type, int64_t rows, int64_t width, int64_t ld, size_t shift,
                        bool output, uint64_t stream) {
  const size_t bytes = tri_dtype_bytes(type);
  gpu_array x = array_make(device, elements(rows, width, ld) * bytes, shift * bytes, output);
  for (int64_t r = 0; r < rows && stream != 0; r++)
    for (int64_t i = 0; i < width; i++) gpu_store_random(type, array_host(&x), r * ld + i, stream);
  array_upload(&x);
  return x;
}

typedef struct operands {
  gpu_array a, b, bias, c, packed;
} operands;

static operands operands_make(tri_device *device, const product_case *of) {
  const tri_matmul *p = &of->product;
  operands x = {0};
  size_t packed = 0;
  x.a = matrix(device, p->a_type, p->a_transposed ? p->k : p->m, p->a_transposed ? p->m : p->k, p->lda, of->shift,
               false, 1);
  x.b = matrix(device, p->b_type, p->b_transposed ? p->n : p->k, p->b_transposed ? p->k : p->n, p->ldb, of->shift,
               false, 2);
  x.bias = matrix(device, tri_dtype_wide(p->a_type), 1, p->n, p->n, of->shift, false, 3);
  x.c = matrix(device, p->c_type, p->m, p->n, p->ldc, of->shift, true, p->accumulate ? 4 : 0);
  tri_matmul packs = *p;
  packs.b_type = p->a_type;
  CHECK_OK(device->description.matmul_packed(&device->description, &packs, &packed));
  x.packed = array_make(device, of->packed ? packed : 0, 0, true);
  array_upload(&x.packed);
  return x;
}

static void operands_free(operands *x) {
  array_free(&x->a);
  array_free(&x->b);
  array_free(&x->bias);
  array_free(&x->c);
  array_free(&x->packed);
}

/* A device, and one workspace for all of its products. */
typedef struct bench {
  const char *name;
  tri_device *device;
  void *workspace;
} bench;

enum { WORKSPACE_BYTES = 40 << 20 };

static void *workspace_of(const bench *b, const tri_matmul *p) {
  size_t bytes = 0;
  CHECK_OK(b->device->description.matmul_workspace(&b->device->description, p, &bytes));
  assert_true(bytes <= WORKSPACE_BYTES);
  return (char *)b->workspace + (WORKSPACE_BYTES - bytes) / 64 * 64; /* it ends where the device's guard begins */
}

static const char *describe(const char *device, const product_case *of, char text[256]) {
  const tri_matmul *p = &of->product;
  snprintf(text, 256, "%s: %lldx%lldx%lld ld %lld %lld %lld, %s %s %s%s%s%s%s%s, off by %zu", device, (long long)p->m,
           (long long)p->n, (long long)p->k, (long long)p->lda, (long long)p->ldb, (long long)p->ldc,
           tri_dtype_name(p->a_type), tri_dtype_name(p->b_type), tri_dtype_name(p->c_type),
           p->a_transposed ? " a^T" : "", p->b_transposed ? " b^T" : "", p->accumulate ? " accumulate" : "",
           p->bias ? " bias" : "", of->packed ? " packed" : "", of->shift);
  return text;
}

static double tolerance(const tri_matmul *p) {
  return p->c_type == TRI_FP64 ? 1e-12 : p->c_type == TRI_FP32 ? 1e-5 : 1e-2;
}

/* `expected`: the expected c, with the old contents between its rows. */
static void compare(const char *what, const tri_matmul *p, const gpu_array *c, const char *expected) {
  const size_t bytes = tri_dtype_bytes(p->c_type);
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < (int64_t)(c->bytes / bytes); i++) {
    const bool gap = i % p->ldc >= p->n;
    if (gap && memcmp((char *)array_host(c) + (size_t)i * bytes, expected + (size_t)i * bytes, bytes) != 0)
      fail_msg("%s: wrote between rows, at %lld", what, (long long)i);
    if (gap) continue;
    const double got = gpu_load(p->c_type, array_host(c), i), should = gpu_load(p->c_type, expected, i);
    difference += (got - should) * (got - should);
    norm += should * should;
  }
  if (!(sqrt(difference) <= tolerance(p) * sqrt(norm)))
    fail_msg("%s: off by %.3g of %.3g", what, sqrt(difference), sqrt(norm));
}

/* Returns the bytes of c, which the caller frees. */
static char *run(const bench *on, const product_case *of) {
  tri_device *device = on->device;
  operands x = operands_make(device, of);
  char text[256];
  const char *what = describe(on->name, of, text);
  char *expected = malloc(x.c.bytes + 1);
  memcpy(expected, array_host(&x.c), x.c.bytes);
  CHECK_OK(tri_reference_matmul(NULL, &of->product, array_host(&x.a), array_host(&x.b), array_host(&x.bias), expected,
                                NULL));
  tri_matmul p = of->product;
  const void *b = array_device(&x.b);
  if (of->packed) {
    tri_matmul packs = p;
    packs.b_type = p.a_type;
    CHECK_OK(device->kernels->matmul_pack(device->queue, &packs, p.b_type, b, array_device(&x.packed)));
    b = array_device(&x.packed);
    p.b_type = p.a_type;
    p.b_packed = true;
    p.ldb = -1; /* ignored */
  }
  CHECK_OK(device->kernels->matmul(device->queue, &p, array_device(&x.a), b, array_device(&x.bias), array_device(&x.c),
                                   workspace_of(on, &p)));
  array_download(what, &x.c);
  array_download(what, &x.packed);
  compare(what, &p, &x.c, expected);
  memcpy(expected, array_host(&x.c), x.c.bytes);
  operands_free(&x);
  return expected;
}

/* Checks the product on every device, with equal bits for each warp size. */
static void check(const bench on[GPU_TEST_DEVICES], const product_case *of, int num_devices) {
  char *results[GPU_TEST_DEVICES] = {0}, text[256];
  const tri_matmul *p = &of->product;
  const size_t bytes = elements(p->m, p->n, p->ldc) * tri_dtype_bytes(p->c_type);
  for (int i = 0; i < num_devices; i++) {
    results[i] = run(&on[i], of);
    if (memcmp(results[i], results[gpu_test_like(i)], bytes) != 0)
      fail_msg("%s: other bits", describe(on[i].name, of, text));
  }
  for (int i = 0; i < num_devices; i++) free(results[i]);
}

/* ---- all combinations -------------------------------------------------------------------------------------------- */

typedef struct fixture {
  bench on[GPU_TEST_DEVICES];
  uint64_t drawn;
} fixture;

static int set_up(void **state) {
  fixture *f = calloc(1, sizeof *f);
  assert_non_null(f);
  for (int i = 0; i < GPU_TEST_DEVICES; i++) {
    f->on[i].name = gpu_test_devices[i];
    CHECK_OK(tri_device_create(gpu_test_devices[i], 1, &f->on[i].device));
    CHECK_OK(tri_device_memory_create(f->on[i].device, WORKSPACE_BYTES, &f->on[i].workspace));
  }
  *state = f;
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  for (int i = 0; i < GPU_TEST_DEVICES; i++) {
    tri_device_memory_destroy(f->on[i].device, f->on[i].workspace, WORKSPACE_BYTES);
    tri_device_destroy(f->on[i].device);
  }
  free(f);
  return 0;
}

static int64_t roll(fixture *f, int64_t sides) {
  return tri_random_u32(tri_random_stream(4, TRI_RANDOM_TEST, 2), f->drawn++) % (uint32_t)sides;
}

/* Bits of `variant`: a^T, b^T, gaps between rows, and bias, accumulate or neither. */
enum { NUM_VARIANTS = 24 };

static product_case random_case(fixture *f, int variant, tri_dtype a, tri_dtype b, tri_dtype c) {
  static const int64_t lengths[] = {1, 2, 3, 8, 16, 33, 64, 71, 130};
  enum { NUM_LENGTHS = sizeof lengths / sizeof lengths[0] };
  const bool gaps = (variant & 4) != 0;
  product_case x = {.product = {.m = lengths[roll(f, NUM_LENGTHS)],
                                .n = lengths[roll(f, NUM_LENGTHS)],
                                .k = lengths[roll(f, NUM_LENGTHS)],
                                .a_type = a,
                                .b_type = b,
                                .c_type = c,
                                .a_transposed = (variant & 1) != 0,
                                .b_transposed = (variant & 2) != 0,
                                .bias = variant / 8 == 1,
                                .accumulate = variant / 8 == 2}};
  tri_matmul *p = &x.product;
  p->lda = (p->a_transposed ? p->m : p->k) + (gaps ? roll(f, 20) : 0);
  p->ldb = (p->b_transposed ? p->k : p->n) + (gaps ? roll(f, 20) : 0);
  p->ldc = p->n + (gaps ? roll(f, 20) : 0);
  x.shift = roll(f, 3) == 0 ? (size_t)(1 + roll(f, 7)) : 0;
  return x;
}

static void check_all(fixture *f, tri_dtype a, tri_dtype b, tri_dtype c) {
  for (int variant = 0; variant < NUM_VARIANTS; variant++) {
    for (int sample = 0; sample < 3; sample++) {
      const product_case x = random_case(f, variant, a, b, c);
      check(f->on, &x, sample == 0 ? GPU_TEST_DEVICES : 2);
    }
  }
}

static void test_fp64(void **state) { check_all(*state, TRI_FP64, TRI_FP64, TRI_FP64); }
static void test_fp32(void **state) { check_all(*state, TRI_FP32, TRI_FP32, TRI_FP32); }

static void test_bf16(void **state) {
  check_all(*state, TRI_BF16, TRI_BF16, TRI_BF16);
  check_all(*state, TRI_BF16, TRI_BF16, TRI_FP32);
}

static void test_bf16_narrowed(void **state) {
  check_all(*state, TRI_BF16, TRI_FP32, TRI_BF16);
  check_all(*state, TRI_BF16, TRI_FP32, TRI_FP32);
}

/* Packs a wide weight, and one that is narrow already. */
static void test_packed(void **state) {
  for (int variant = 0; variant < NUM_VARIANTS; variant++) {
    product_case x = random_case(*state, variant, TRI_BF16, variant % 3 == 0 ? TRI_BF16 : TRI_FP32,
                                 variant % 2 == 0 ? TRI_BF16 : TRI_FP32);
    x.packed = true;
    check(((fixture *)*state)->on, &x, 2);
  }
}

/* One packed weight serves two products: the one that it was packed for, and that of the backward. */
static void test_packed_once(void **state) {
  fixture *f = *state;
  tri_device *device = f->on[0].device;
  enum { IN = 40, OUT = 56, ROWS = 9 };
  const product_case of = {.product = {.m = ROWS,
                                       .n = OUT,
                                       .k = IN,
                                       .lda = IN,
                                       .ldb = OUT,
                                       .ldc = OUT,
                                       .a_type = TRI_BF16,
                                       .b_type = TRI_FP32,
                                       .c_type = TRI_FP32},
                           .packed = true};
  operands x = operands_make(device, &of);
  gpu_array y = matrix(device, TRI_BF16, ROWS, OUT, OUT, 0, false, 5),
            back = array_make(device, ROWS * IN * 4, 0, true);
  array_upload(&back);
  tri_matmul forward = of.product;
  forward.b_type = TRI_BF16;
  CHECK_OK(
      device->kernels->matmul_pack(device->queue, &forward, TRI_FP32, array_device(&x.b), array_device(&x.packed)));
  tri_matmul backward = {ROWS, IN, OUT, OUT, OUT, IN, TRI_BF16, TRI_BF16, TRI_FP32, .b_transposed = true};
  tri_matmul plain = backward;
  plain.b_type = TRI_FP32;
  float expected[ROWS * IN];
  CHECK_OK(tri_reference_matmul(NULL, &plain, array_host(&y), array_host(&x.b), NULL, expected, NULL));
  backward.b_packed = true;
  CHECK_OK(device->kernels->matmul(device->queue, &backward, array_device(&y), array_device(&x.packed), NULL,
                                   array_device(&back), workspace_of(&f->on[0], &backward)));
  array_download("backward", &back);
  compare("backward", &backward, &back, (const char *)expected);
  array_free(&y);
  array_free(&back);
  operands_free(&x);
}

/* A c that is large enough for large tiles: types, transpositions, and partial tiles at each side. */
static void test_large(void **state) {
  fixture *f = *state;
  static const tri_dtype types[] = {TRI_FP64, TRI_FP32, TRI_BF16};
  for (int i = 0; i < 12; i++) {
    product_case x = random_case(f, i % 4 + 4 * (i % 2) + 8 * (i % 3), types[i % 3], types[i % 3], types[i % 3]);
    tri_matmul *p = &x.product;
    p->m = 1025 + 40 * (i % 3);
    p->n = 1411 - 3 * (i % 5);
    p->k = 3 + i;
    p->lda = (p->a_transposed ? p->m : p->k) + i % 4 * 8 % 16;
    p->ldb = (p->b_transposed ? p->k : p->n) + i % 3;
    p->ldc = p->n + i % 2;
    check(f->on, &x, i == 5 ? 4 : 2);
  }
}

/* A long sum: many pieces along k. */
static void test_deep(void **state) {
  fixture *f = *state;
  for (int variant = 0; variant < 4; variant++) {
    product_case x = random_case(f, variant, TRI_BF16, TRI_BF16, TRI_FP32);
    tri_matmul *p = &x.product;
    p->m = 20;
    p->n = 30;
    p->k = 1000 + variant;
    p->lda = p->a_transposed ? p->m : p->k;
    p->ldb = p->b_transposed ? p->k : p->n;
    p->ldc = p->n;
    check(f->on, &x, GPU_TEST_DEVICES);
  }
}

/* ---- promises of the interface ----------------------------------------------------------------------------------- */

static void test_nothing(void **state) {
  fixture *f = *state;
  for (int variant = 0; variant < NUM_VARIANTS; variant++) {
    product_case x = random_case(f, variant, TRI_FP32, TRI_FP32, TRI_FP32);
    x.product.k = 0;
    check(f->on, &x, 2);
    x = random_case(f, variant, TRI_FP32, TRI_FP32, TRI_FP32);
    x.product.m = 0;
    check(f->on, &x, 1);
    x.product.m = 3;
    x.product.n = 0;
    x.product.lda += 3;
    check(f->on, &x, 1);
  }
}

static void test_refused(void **state) {
  fixture *f = *state;
  tri_device *device = f->on[0].device;
  const product_case of = {.product = {.m = 4,
                                       .n = 3,
                                       .k = 2,
                                       .lda = 2,
                                       .ldb = 3,
                                       .ldc = 3,
                                       .a_type = TRI_FP32,
                                       .b_type = TRI_FP32,
                                       .c_type = TRI_FP32}};
  operands x = operands_make(device, &of);
  const tri_matmul good = of.product;
#define TRY(p)                                                                                                         \
  device->kernels->matmul(device->queue, &(p), array_device(&x.a), array_device(&x.b), NULL, array_device(&x.c), NULL)
  tri_matmul p = good;
  p.c_type = TRI_BF16;
  CHECK_FAILS(TRY(p), TRI_UNSUPPORTED, "fp32 and fp32 into bf16");
  p = good;
  p.lda = 1;
  CHECK_FAILS(TRY(p), TRI_INTERNAL, "4 x 3 x 2");
  p = good;
  p.bias = p.accumulate = true;
  CHECK_FAILS(TRY(p), TRI_INTERNAL, "bias 1 and accumulate 1");
  CHECK_FAILS(device->kernels->matmul_pack(device->queue, &good, TRI_FP32, array_device(&x.b), array_device(&x.c)),
              TRI_INTERNAL, "matmul_packed");
#undef TRY
  operands_free(&x);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fp64),          cmocka_unit_test(test_fp32),   cmocka_unit_test(test_bf16),
      cmocka_unit_test(test_bf16_narrowed), cmocka_unit_test(test_packed), cmocka_unit_test(test_packed_once),
      cmocka_unit_test(test_large),         cmocka_unit_test(test_deep),   cmocka_unit_test(test_nothing),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
