/* Matrix products of the CPU device, compared with sums in double, for every combination of types, transpositions,
 * leading dimensions, bias, accumulation and packing. Every buffer ends at a protected page and has guard bytes before
 * it, gaps between the rows of an input are NaN, and outputs are poisoned. */
#include "base/memory.h"
#include "check.h"
#include "device/cpu/cpu.h"
#include "device/cpu/matmul_plan.h"
#include "device/kernels.h"
#include "sanitized.h"

#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- guarded memory ---------------------------------------------------------------------------------------------- */

enum { GUARD = 0xa5, FRONT = 256 };

typedef struct guarded {
  char *mapped, *data;
  size_t mapped_bytes, bytes;
} guarded;

/* Returns `bytes` of memory that end at a protected page, or less than `alignment` before it. */
static guarded guarded_create(size_t bytes, size_t alignment) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t whole = (bytes + FRONT + alignment + page - 1) / page * page;
  guarded g = {.mapped_bytes = whole + page, .bytes = bytes};
  g.mapped = mmap(NULL, g.mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(g.mapped != MAP_FAILED);
  assert_int_equal(mprotect(g.mapped + whole, page, PROT_NONE), 0);
  memset(g.mapped, GUARD, whole);
  g.data = g.mapped + whole - bytes;
  g.data -= (uintptr_t)g.data % alignment;
  return g;
}

static void guarded_destroy(guarded *g) {
  for (const char *at = g->mapped; at < g->data; at++) assert_int_equal((unsigned char)*at, GUARD);
  const char *end = g->mapped + g->mapped_bytes - (size_t)sysconf(_SC_PAGESIZE);
  for (const char *at = g->data + g->bytes; at < end; at++) assert_int_equal((unsigned char)*at, GUARD);
  munmap(g->mapped, g->mapped_bytes);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static uint32_t random_state;

/* Each test draws its own numbers, independent of the tests before it. */
static int begin_test(void **unused) {
  (void)unused;
  random_state = 1;
  return 0;
}

static uint32_t random_bits(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 17;
  random_state ^= random_state << 5;
  return random_state;
}

static int64_t random_below(int64_t limit) { return (int64_t)(random_bits() % (uint64_t)limit); }

static void put(tri_dtype type, void *array, int64_t i, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  uint16_t high = (uint16_t)(bits >> 16);
  if (type == TRI_BF16) {
    memcpy((char *)array + 2 * i, &high, sizeof high);
  } else {
    memcpy((char *)array + 4 * i, &value, sizeof value);
  }
}

static double get(tri_dtype type, const void *array, int64_t i) {
  uint32_t bits = 0;
  if (type == TRI_BF16) {
    uint16_t high;
    memcpy(&high, (const char *)array + 2 * i, sizeof high);
    bits = (uint32_t)high << 16;
  } else {
    memcpy(&bits, (const char *)array + 4 * i, sizeof bits);
  }
  float value;
  memcpy(&value, &bits, sizeof value);
  return (double)value;
}

/* Returns a matrix of rows x columns with guards, and with NaN between the rows. The last row has no gap after it. */
static guarded matrix_create(tri_dtype type, int64_t rows, int64_t columns, int64_t ld) {
  guarded g = guarded_create((size_t)((rows - 1) * ld + columns) * tri_dtype_bytes(type), tri_dtype_bytes(type));
  for (int64_t i = 0; i < (rows - 1) * ld + columns; i++) {
    bool inside = i % ld < columns;
    put(type, g.data, i, inside ? (float)(int32_t)random_bits() * 4.6e-10f : NAN);
  }
  return g;
}

/* ---- one product ------------------------------------------------------------------------------------------------- */

typedef struct problem {
  tri_matmul product;
  guarded a, b, bias, c;
  char *c_before;
} problem;

static problem problem_create(const tri_matmul *product) {
  const tri_matmul *p = product;
  problem x = {.product = *p};
  x.a = matrix_create(p->a_type, p->a_transposed ? p->k : p->m, p->a_transposed ? p->m : p->k, p->lda);
  x.b = matrix_create(p->b_type, p->b_transposed ? p->n : p->k, p->b_transposed ? p->k : p->n, p->ldb);
  x.c = matrix_create(p->c_type, p->m, p->n, p->ldc); /* its gaps are NaN and must not change */
  x.bias = matrix_create(TRI_FP32, 1, p->n, p->n);
  if (!p->accumulate) {
    for (int64_t i = 0; i < p->m; i++) {
      for (int64_t j = 0; j < p->n; j++) put(p->c_type, x.c.data, i * p->ldc + j, NAN);
    }
  }
  CHECK_OK(tri_alloc("c", x.c.bytes, 1, &x.c_before));
  memcpy(x.c_before, x.c.data, x.c.bytes);
  return x;
}

static void problem_destroy(problem *x) {
  tri_free(x->c_before);
  guarded_destroy(&x->c);
  guarded_destroy(&x->bias);
  guarded_destroy(&x->b);
  guarded_destroy(&x->a);
}

/* Computes the sum of the products and the sum of their magnitudes. `plain` is the product whose b is in x->b. */
static void sum_of(const problem *x, int64_t i, int64_t j, double *sum, double *magnitude) {
  const tri_matmul *p = &x->product;
  *sum = *magnitude = 0;
  for (int64_t l = 0; l < p->k; l++) {
    double a = get(p->a_type, x->a.data, p->a_transposed ? l * p->lda + i : i * p->lda + l);
    double b = get(p->b_type, x->b.data, p->b_transposed ? j * p->ldb + l : l * p->ldb + j);
    *sum += a * b;
    *magnitude += fabs(a * b);
  }
  if (p->bias) *sum += get(TRI_FP32, x->bias.data, j);
  if (p->accumulate) *sum += get(p->c_type, x->c_before, i * p->ldc + j);
}

static const char *describe(const tri_matmul *p, char *text, size_t bytes) {
  snprintf(text, bytes, "%lldx%lldx%lld ld %lld %lld %lld, %s %s %s%s%s%s%s%s", (long long)p->m, (long long)p->n,
           (long long)p->k, (long long)p->lda, (long long)p->ldb, (long long)p->ldc, tri_dtype_name(p->a_type),
           tri_dtype_name(p->b_type), tri_dtype_name(p->c_type), p->a_transposed ? " a^T" : "",
           p->b_transposed ? " b^T" : "", p->accumulate ? " accumulate" : "", p->bias ? " bias" : "",
           p->b_packed ? " packed" : "");
  return text;
}

/* `rounded_b`: the product may have rounded an fp32 b to bf16. */
static void check_result(const problem *x, bool rounded_b) {
  const tri_matmul *p = &x->product;
  char text[200];
  for (int64_t at = 0; at < (p->m - 1) * p->ldc + p->n; at++) {
    int64_t i = at / p->ldc, j = at % p->ldc;
    if (j >= p->n) {
      size_t element = tri_dtype_bytes(p->c_type);
      if (memcmp(x->c.data + (size_t)at * element, x->c_before + (size_t)at * element, element) != 0) {
        fail_msg("%s: written between rows, at (%lld, %lld)", describe(p, text, sizeof text), (long long)i,
                 (long long)j);
      }
      continue;
    }
    double sum = 0, magnitude = 0;
    sum_of(x, i, j, &sum, &magnitude);
    double allowed = 4e-7 * sqrt((double)p->k) * (magnitude + fabs(sum)) + 1e-12;
    if (rounded_b) allowed += magnitude / 256;
    if (p->c_type == TRI_BF16) allowed += fabs(sum) / 256;
    double got = get(p->c_type, x->c.data, at);
    if (!(fabs(got - sum) <= allowed)) {
      fail_msg("%s: (%lld, %lld) is %.9g, should be %.9g within %.2g", describe(p, text, sizeof text), (long long)i,
               (long long)j, got, sum, allowed);
    }
  }
}

static void run_and_check(tri_device *device, const tri_matmul *product, bool rounded_b) {
  if (device == NULL) return; /* the analyzer does not know that it exists */
  problem x = problem_create(product);
  size_t bytes = 0;
  CHECK_OK(tri_cpu_matmul_workspace(&device->description, product, &bytes));
  guarded workspace = guarded_create(bytes, 64);
  CHECK_OK(tri_cpu_matmul(device->queue, product, x.a.data, x.b.data, x.bias.data, x.c.data, workspace.data));
  check_result(&x, rounded_b);
  guarded_destroy(&workspace);
  problem_destroy(&x);
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

/* Returns a device that computes bf16 products in one way. */
static tri_device *device_with(int threads, tri_cpu_bf16 bf16, bool pack_fp32) {
  tri_device *device = NULL;
  CHECK_OK(tri_device_create("cpu", threads, &device));
  tri_cpu_matmul_state_of(&device->description)->options.bf16 = bf16;
  tri_cpu_matmul_state_of(&device->description)->options.pack_fp32 = pack_fp32;
  return device;
}

/* Returns a device that packs and uses the CPU's bf16 instructions; NULL if the CPU has none. */
static tri_device *native_device(void) {
  bool native = false;
  double ratio = 0;
  tri_device *device = device_with(2, TRI_CPU_BF16_MEASURED, true);
  CHECK_OK(tri_cpu_matmul_bf16(tri_cpu_matmul_state_of(&device->description), &native, &ratio));
  assert_true(native == (ratio * 1.06 > 1));
  tri_cpu_matmul_state_of(&device->description)->options.bf16 = TRI_CPU_BF16_NATIVE;
  if (ratio > 0) return device;
  print_message("SKIPPED: oneDNN has no bf16 kernels for this CPU\n");
  tri_device_destroy(device);
  return NULL;
}

/* ---- all combinations -------------------------------------------------------------------------------------------- */

static const int64_t lengths[] = {1, 2, 3, 17, 63, 65, 127, 257};
enum { NUM_LENGTHS = sizeof lengths / sizeof lengths[0], SAMPLES = SANITIZED ? 1 : 5 };

static int64_t random_length(void) { return lengths[random_below(NUM_LENGTHS)]; }

/* Bits of `variant`: a^T, b^T, gaps between rows, and bias, accumulate or neither. */
enum { NUM_VARIANTS = 24 };

static tri_matmul random_product(int variant, tri_dtype a, tri_dtype b, tri_dtype c) {
  tri_matmul p = {.m = random_length(), .n = random_length(), .k = random_length()};
  p.a_type = a;
  p.b_type = b;
  p.c_type = c;
  p.a_transposed = (variant & 1) != 0;
  p.b_transposed = (variant & 2) != 0;
  bool gaps = (variant & 4) != 0;
  p.bias = variant / 8 == 1;
  p.accumulate = variant / 8 == 2;
  p.lda = (p.a_transposed ? p.m : p.k) + (gaps ? random_below(20) : 0);
  p.ldb = (p.b_transposed ? p.k : p.n) + (gaps ? random_below(20) : 0);
  p.ldc = p.n + (gaps ? random_below(20) : 0);
  return p;
}

static void check_all(tri_device *device, tri_dtype a, tri_dtype b, tri_dtype c) {
  bool native = tri_cpu_matmul_state_of(&device->description)->options.bf16 == TRI_CPU_BF16_NATIVE;
  for (int variant = 0; variant < NUM_VARIANTS; variant++) {
    for (int sample = 0; sample < SAMPLES; sample++) {
      tri_matmul p = random_product(variant, a, b, c);
      run_and_check(device, &p, native && b != a);
    }
  }
}

static void check_all_bf16(tri_device *device) {
  check_all(device, TRI_BF16, TRI_BF16, TRI_BF16);
  check_all(device, TRI_BF16, TRI_BF16, TRI_FP32);
  check_all(device, TRI_BF16, TRI_FP32, TRI_BF16);
  check_all(device, TRI_BF16, TRI_FP32, TRI_FP32);
}

static void test_fp32(void **unused) {
  (void)unused;
  tri_device *device = device_with(2, TRI_CPU_BF16_WIDENED, false);
  check_all(device, TRI_FP32, TRI_FP32, TRI_FP32);
  check_all(device, TRI_FP32, TRI_BF16, TRI_FP32);
  tri_device_destroy(device);
}

static void test_bf16_widened(void **unused) {
  (void)unused;
  tri_device *device = device_with(2, TRI_CPU_BF16_WIDENED, false);
  check_all_bf16(device);
  tri_device_destroy(device);
}

static void test_bf16_native(void **unused) {
  (void)unused;
  tri_device *device = native_device();
  if (device == NULL) skip();
  check_all_bf16(device);
  tri_device_destroy(device);
}

/* Products of generated text, on every vector unit: few rows, and more. */
static void check_few(tri_device *device, tri_dtype a, tri_dtype b, tri_dtype c) {
  for (int variant = 0; variant < NUM_VARIANTS; variant++) {
    for (int sample = 0; sample < SAMPLES; sample++) {
      tri_matmul p = random_product(variant & ~1, a, b, c);
      p.generating = true;
      run_and_check(device, &p, false);
    }
  }
}

static const char *const units[] = {"cpu:baseline", "cpu:avx2", "cpu:avx512", "cpu"};
enum { NUM_UNITS = sizeof units / sizeof units[0] };

/* Returns NULL if this CPU lacks the unit. `native`: with instructions for pairs of bf16, if the unit has them. */
static tri_device *device_of_unit(int unit, int threads, bool native) {
  tri_device *device = NULL;
  if (tri_device_create(units[unit], threads, &device) != TRI_OK) return NULL;
  tri_cpu_matmul_state_of(&device->description)->options.bf16 = native ? TRI_CPU_BF16_NATIVE : TRI_CPU_BF16_WIDENED;
  return device;
}

static void test_few_rows(void **unused) {
  (void)unused;
  for (int unit = 0; unit < NUM_UNITS; unit++) {
    tri_device *device = device_of_unit(unit, 1 + unit, false);
    if (device == NULL) continue; /* this CPU lacks the unit */
    check_few(device, TRI_FP32, TRI_FP32, TRI_FP32);
    check_few(device, TRI_BF16, TRI_BF16, TRI_BF16);
    check_few(device, TRI_BF16, TRI_FP32, TRI_FP32);
    tri_device_destroy(device);
  }
}

/* Weights of generated text are packed in panels of bf16: products read what matmul_pack has made from fp32 or bf16. */
static void check_panels(tri_device *device, tri_dtype plain_type, tri_dtype c) {
  for (int variant = 0; variant < NUM_VARIANTS; variant += 2) {
    tri_matmul p = random_product(variant, TRI_BF16, TRI_BF16, c);
    p.generating = true;
    tri_matmul plain = p, packed = p;
    plain.b_type = plain_type;
    packed.b_packed = true;
    problem x = problem_create(&plain);
    size_t bytes = 0, workspace_bytes = 0;
    CHECK_OK(tri_cpu_matmul_packed(&device->description, &p, &bytes));
    assert_true((int64_t)bytes >= 2 * p.n * p.k);
    guarded panels = guarded_create(bytes, 64);
    CHECK_OK(tri_cpu_matmul_pack(device->queue, &p, plain_type, x.b.data, panels.data));
    CHECK_OK(tri_cpu_matmul_workspace(&device->description, &packed, &workspace_bytes));
    guarded workspace = guarded_create(workspace_bytes, 64);
    CHECK_OK(tri_cpu_matmul(device->queue, &packed, x.a.data, panels.data, x.bias.data, x.c.data, workspace.data));
    check_result(&x, plain_type == TRI_FP32);
    guarded_destroy(&workspace);
    guarded_destroy(&panels);
    problem_destroy(&x);
  }
}

static void test_few_rows_packed(void **unused) {
  (void)unused;
  for (int unit = 0; unit < NUM_UNITS; unit++) {
    for (int native = 0; native < 2; native++) {
      tri_device *device = device_of_unit(unit, 1 + unit, native != 0);
      if (device == NULL) continue;
      check_panels(device, TRI_FP32, TRI_FP32);
      check_panels(device, TRI_BF16, TRI_BF16);
      tri_device_destroy(device);
    }
  }
}

/* ---- rows of generated text: the same bits in any company -------------------------------------------------------- */

/* Operands for the largest number of rows. */
typedef struct rows_problem {
  problem x;
  guarded panels;
} rows_problem;

/* Computes `m` of its rows, from row `first` on. */
static void rows_result(tri_device *device, const rows_problem *of, int64_t first, int64_t m, char *c) {
  tri_matmul p = of->x.product;
  p.m = m;
  size_t bytes = 0;
  CHECK_OK(tri_cpu_matmul_workspace(&device->description, &p, &bytes));
  guarded workspace = guarded_create(bytes, 64);
  const char *a = of->x.a.data + (size_t)(first * p.lda) * tri_dtype_bytes(p.a_type);
  const void *b = p.b_packed ? of->panels.data : of->x.b.data;
  CHECK_OK(tri_cpu_matmul(device->queue, &p, a, b, of->x.bias.data, c, workspace.data));
  guarded_destroy(&workspace);
}

static void check_company(tri_device *one, tri_device *three, const tri_matmul *product, bool packed) {
  static const int64_t counts[] = {1, 2, 3, 8, 9, 16, 17, 63, 64, 65, 130, 256, 257};
  enum { COUNTS = sizeof counts / sizeof counts[0], MOST = 257 };
  tri_matmul p = *product;
  p.m = MOST;
  p.generating = true;
  rows_problem of = {.x = problem_create(&p)};
  of.x.product.b_packed = packed;
  size_t bytes = 0;
  if (packed) CHECK_OK(tri_cpu_matmul_packed(&one->description, &p, &bytes));
  of.panels = guarded_create(bytes, 64);
  if (packed) CHECK_OK(tri_cpu_matmul_pack(one->queue, &p, p.b_type, of.x.b.data, of.panels.data));
  char *together = NULL, *alone = NULL, text[200];
  CHECK_OK(tri_alloc("c", of.x.c.bytes, 1, &alone));
  CHECK_OK(tri_alloc("c", of.x.c.bytes, 1, &together));
  const size_t pitch = (size_t)p.ldc * tri_dtype_bytes(p.c_type), row = (size_t)p.n * tri_dtype_bytes(p.c_type);
  memcpy(alone, of.x.c_before, of.x.c.bytes);
  for (int64_t i = 0; i < MOST; i++) rows_result(one, &of, i, 1, alone + (size_t)i * pitch);
  for (int which = 0; which < 2 * COUNTS; which++) {
    const int64_t m = counts[which / 2];
    memcpy(together, of.x.c_before, of.x.c.bytes);
    rows_result(which % 2 == 0 ? one : three, &of, 0, m, together);
    for (int64_t i = 0; i < m; i++) {
      if (memcmp(together + (size_t)i * pitch, alone + (size_t)i * pitch, row) == 0) continue;
      fail_msg("%s: row %lld has other bits beside %lld rows, with %d threads", describe(&p, text, sizeof text),
               (long long)i, (long long)m, which % 2 == 0 ? 1 : 3);
    }
  }
  tri_free(together);
  tri_free(alone);
  guarded_destroy(&of.panels);
  problem_destroy(&of.x);
}

/* Both layouts of b, in the types of runs, in bf16 also packed; sums begin with 0, a bias or c. */
static void check_companies(int unit, bool native) {
  static const tri_dtype types[][3] = {{TRI_FP32, TRI_FP32, TRI_FP32},
                                       {TRI_BF16, TRI_BF16, TRI_BF16},
                                       {TRI_BF16, TRI_FP32, TRI_BF16},
                                       {TRI_FP32, TRI_BF16, TRI_FP32}};
  static const int64_t shapes[][2] = {{97, 61}, {51, 805}, {150, 1601}};
  tri_device *one = device_of_unit(unit, 1, native), *three = device_of_unit(unit, 3, native);
  if (one == NULL || three == NULL) return;
  for (int which = 0; which < 4 * 2 * (SANITIZED ? 1 : 3); which++) {
    const tri_dtype *type = types[which % 4];
    const bool turned = which / 4 % 2 != 0;
    const int64_t n = shapes[which / 8][0], k = shapes[which / 8][1];
    const tri_matmul p = {.n = n,
                          .k = k,
                          .lda = k + 3,
                          .ldb = (turned ? k : n) + 5,
                          .ldc = n + 1,
                          .a_type = type[0],
                          .b_type = type[1],
                          .c_type = type[2],
                          .b_transposed = turned,
                          .bias = (which + which / 8) % 3 == 1,
                          .accumulate = (which + which / 8) % 3 == 2};
    check_company(one, three, &p, false);
    if (type[0] == TRI_BF16 && type[1] == TRI_BF16) check_company(one, three, &p, true);
  }
  tri_device_destroy(three);
  tri_device_destroy(one);
}

static void test_company(void **unused) {
  (void)unused;
  for (int unit = 0; unit < NUM_UNITS; unit++) {
    check_companies(unit, false);
    check_companies(unit, true);
  }
}

/* Rows, columns and depths that are longer than a chunk. */
static void check_chunks(tri_device *device) {
  static const int64_t shapes[][3] = {{1030, 5, 70}, {2100, 33, 3}, {9, 40, 4200}, {1027, 3, 4099}, {2, 1100, 9000}};
  for (int which = 0; which < 5; which++) {
    for (int variant = 0; variant < NUM_VARIANTS; variant += (SANITIZED ? 5 : 1) + which % 2) {
      tri_matmul p = random_product(variant, TRI_BF16, variant % 3 == 0 ? TRI_FP32 : TRI_BF16,
                                    variant % 2 == 0 ? TRI_BF16 : TRI_FP32);
      p.m = shapes[which][0];
      p.n = shapes[which][1];
      p.k = shapes[which][2];
      int64_t gap = (variant & 4) != 0 ? 7 : 0;
      p.lda = (p.a_transposed ? p.m : p.k) + gap;
      p.ldb = (p.b_transposed ? p.k : p.n) + gap;
      p.ldc = p.n + gap;
      run_and_check(device, &p, p.b_type == TRI_FP32);
    }
  }
}

/* An fp32 a that is copied because its rows alias in the cache. */
static void check_aliased(tri_device *device) {
  for (int which = 0; which < 4; which++) {
    tri_matmul p = {.m = 1024 + 3 * which, .n = 515, .k = 7, .ldb = 515, .ldc = 520, .a_transposed = true};
    p.a_type = p.b_type = p.c_type = TRI_FP32;
    p.lda = which == 0 ? 1024 : 2048;
    p.accumulate = which == 2;
    p.bias = which == 3;
    run_and_check(device, &p, false);
  }
}

static void test_chunks(void **unused) {
  (void)unused;
  tri_device *device = device_with(2, TRI_CPU_BF16_WIDENED, false);
  check_chunks(device);
  check_aliased(device);
  tri_device_destroy(device);
  device = native_device();
  if (device == NULL) return;
  check_chunks(device);
  tri_device_destroy(device);
}

/* Depths of 32 i + 31 with an incomplete block of rows or columns: on a CPU with a matrix unit oneDNN 2.6 executes an
 * illegal instruction at some of them, and computes others wrong. The deep ones are for CPUs whose cache they exceed.
 * */
static void test_depth_rests(void **unused) {
  (void)unused;
  static const int64_t rows[] = {17, 33, 40, 65}, columns[] = {24, 33, 64, 80, 130}, depths[] = {31, 63, 95, 4095};
  tri_device *device = native_device();
  if (device == NULL) skip();
  for (int which = 0; which < 4 * 5 * 4; which++) {
    tri_matmul p = {.m = rows[which % 4], .n = columns[which / 4 % 5], .k = depths[which / 20]};
    p.a_type = p.b_type = TRI_BF16;
    p.c_type = which % 3 == 0 ? TRI_FP32 : TRI_BF16;
    p.a_transposed = p.b_transposed = which % 2 == 0;
    p.lda = p.a_transposed ? p.m : p.k;
    p.ldb = p.b_transposed ? p.k : p.n;
    p.ldc = p.n;
    p.bias = true;
    run_and_check(device, &p, false);
  }
  tri_device_destroy(device);
}

/* ---- packed b ---------------------------------------------------------------------------------------------------- */

/* Packs once for many rows, and uses the result with other numbers of rows. Returns whether this product packs at all.
 * */
static bool check_packed(tri_device *device, tri_matmul p, tri_dtype plain_type) {
  if (device == NULL) return false;
  size_t bytes = 0;
  tri_matmul planned = p;
  planned.m = 512;
  CHECK_OK(tri_cpu_matmul_packed(&device->description, &planned, &bytes));
  if (bytes == 0) return false;
  tri_matmul plain = p;
  plain.b_type = plain_type;
  problem weights = problem_create(&plain);
  guarded packed = guarded_create(bytes, 64);
  CHECK_OK(tri_cpu_matmul_pack(device->queue, &planned, plain_type, weights.b.data, packed.data));
  for (int which = 0; which < NUM_LENGTHS; which++) {
    plain.m = p.m = lengths[which];
    p.b_packed = true;
    problem x = problem_create(&plain);
    memcpy(x.b.data, weights.b.data, x.b.bytes);
    size_t workspace_bytes = 0;
    CHECK_OK(tri_cpu_matmul_workspace(&device->description, &p, &workspace_bytes));
    guarded workspace = guarded_create(workspace_bytes, 64);
    CHECK_OK(tri_cpu_matmul(device->queue, &p, x.a.data, packed.data, x.bias.data, x.c.data, workspace.data));
    check_result(&x, plain_type != p.b_type);
    guarded_destroy(&workspace);
    problem_destroy(&x);
  }
  guarded_destroy(&packed);
  problem_destroy(&weights);
  return true;
}

/* Products that oneDNN before 2.7.4 and 3.1 computes wrong on some CPUs; see is_trusted in onednn.c. */
static bool may_not_pack(const tri_matmul *p) {
  return p->a_type == TRI_BF16 && (p->n < 64 ? p->k % 32 != 0 : p->k > 31 && p->k % 32 == 31);
}

/* Returns how many products pack: all or none, except for those that may not. */
static int check_packed_all(tri_device *device, tri_dtype type, tri_dtype plain_type, tri_dtype c) {
  int packed = 0, total = 0;
  for (int variant = 0; variant < NUM_VARIANTS; variant++) {
    if ((variant & 1) != 0) continue; /* a^T */
    for (int sample = 0; sample < (SANITIZED ? 1 : 3); sample++) {
      tri_matmul p = random_product(variant, type, type, c);
      bool packs = check_packed(device, p, plain_type);
      packed += packs;
      total += packs || !may_not_pack(&p);
    }
  }
  assert_true(packed == 0 || packed == total);
  return packed;
}

/* Runs on any CPU, even if oneDNN packs nothing. */
static void test_packed_fp32(void **unused) {
  (void)unused;
  tri_device *device = device_with(2, TRI_CPU_BF16_WIDENED, true);
  if (check_packed_all(device, TRI_FP32, TRI_FP32, TRI_FP32) == 0) print_message("oneDNN packs no fp32 on this CPU\n");
  tri_device_destroy(device);
}

static void test_packed_bf16(void **unused) {
  (void)unused;
  tri_device *device = native_device();
  if (device == NULL) skip();
  assert_true(check_packed_all(device, TRI_BF16, TRI_FP32, TRI_BF16) > 0);
  assert_true(check_packed_all(device, TRI_BF16, TRI_BF16, TRI_BF16) > 0);
  assert_true(check_packed_all(device, TRI_BF16, TRI_FP32, TRI_FP32) > 0);
  tri_device_destroy(device);
}

/* ---- promises of the interface ----------------------------------------------------------------------------------- */

enum { MOST_THREADS = 33 };

static void result_of(tri_device *device, const problem *x, const tri_matmul *p, char *out) {
  size_t bytes = 0;
  void *workspace = NULL;
  CHECK_OK(tri_cpu_matmul_workspace(&device->description, p, &bytes));
  CHECK_OK(tri_alloc("a workspace", bytes, 1, &workspace));
  memset(workspace, 0xff, bytes);
  memcpy(out, x->c_before, x->c.bytes);
  CHECK_OK(tri_cpu_matmul(device->queue, p, x->a.data, x->b.data, x->bias.data, out, workspace));
  tri_free(workspace);
}

static void check_with_threads(const tri_matmul *p, tri_cpu_bf16 bf16, const int *threads, size_t count) {
  problem x = problem_create(p);
  char *first = NULL, *again = NULL;
  CHECK_OK(tri_alloc("c", x.c.bytes, 1, &first));
  CHECK_OK(tri_alloc("c", x.c.bytes, 1, &again));
  for (size_t i = 0; i < count; i++) {
    tri_device *device = device_with(threads[i], bf16, false);
    char text[200];
    result_of(device, &x, p, i == 0 ? first : again);
    if (i > 0 && memcmp(first, again, x.c.bytes) != 0)
      fail_msg("%s: other bits with %d threads", describe(p, text, sizeof text), threads[i]);
    tri_device_destroy(device);
  }
  tri_free(again);
  tri_free(first);
  problem_destroy(&x);
}

/* The bits are the same with any number of threads. The shapes are those for which oneDNN is likely to split k. */
static void check_threads(tri_cpu_bf16 bf16, tri_dtype type) {
  static const int64_t shapes[][3] = {{64, 64, 4096}, {17, 33, 5000}, {8, 768, 3072},   {128, 128, 3000},
                                      {1, 300, 4096}, {32, 32, 9000}, {384, 384, 2048}, {200, 1, 5000}};
  static const int threads[] = {1, 2, 5, MOST_THREADS};
  for (int which = 0; which < 8 * 4; which++) {
    const int64_t *shape = shapes[which / 4];
    tri_matmul p = {.m = shape[0], .n = shape[1], .k = shape[2], .a_type = type, .b_type = type, .c_type = type};
    p.a_transposed = which % 2 == 1;
    p.b_transposed = which % 4 / 2 == 1;
    p.lda = p.a_transposed ? p.m : p.k;
    p.ldb = p.b_transposed ? p.k : p.n;
    p.ldc = p.n + which / 4 % 2;
    p.accumulate = which / 4 % 3 == 0;
    check_with_threads(&p, bf16, threads, sizeof threads / sizeof threads[0]);
  }
}

/* Products with LoRA factors, and frozen weights that a call with many rows packs itself. */
static void test_threads_lora(void **unused) {
  (void)unused;
  static const int threads[] = {1, 2, 5};
  static const int64_t shapes[][3] = {{130, 700, 16}, {61, 129, 31}, {700, 16, 130}, {129, 5, 61}, {1025, 130, 70}};
  tri_device *device = native_device();
  if (device == NULL) skip();
  tri_device_destroy(device);
  for (int which = 0; which < 5; which++) {
    const int64_t *shape = shapes[which];
    const bool adds = which < 2, gradient = which == 2 || which == 3;
    tri_matmul p = {.m = shape[0], .n = shape[1], .k = shape[2], .a_type = TRI_BF16};
    p.b_type = adds ? TRI_FP32 : TRI_BF16;
    p.c_type = gradient ? TRI_FP32 : TRI_BF16;
    p.a_transposed = gradient;
    p.b_transposed = adds;
    p.lda = (p.a_transposed ? p.m : p.k) + 3;
    p.ldb = p.b_transposed ? p.k : p.n;
    p.ldc = p.n + 1;
    p.accumulate = which != 2;
    check_with_threads(&p, TRI_CPU_BF16_NATIVE, threads, 3);
    device = device_with(2, TRI_CPU_BF16_NATIVE, false);
    run_and_check(device, &p, adds);
    tri_device_destroy(device);
  }
}

static void test_threads(void **unused) {
  (void)unused;
  check_threads(TRI_CPU_BF16_WIDENED, TRI_FP32);
  check_threads(TRI_CPU_BF16_WIDENED, TRI_BF16);
  tri_device *device = native_device();
  if (device == NULL) return;
  tri_device_destroy(device);
  check_threads(TRI_CPU_BF16_NATIVE, TRI_BF16);
}

/* More shapes than the cache of plans can hold. */
static void test_many_shapes(void **unused) {
  (void)unused;
  tri_device *device = device_with(1, TRI_CPU_BF16_WIDENED, true);
  for (int64_t m = 1; m <= 2 * TRI_MATMUL_CACHE; m++) {
    tri_matmul p = {.m = m, .n = 3, .k = 2, .lda = 2, .ldb = 3, .ldc = 3};
    p.a_type = p.b_type = p.c_type = TRI_FP32;
    run_and_check(device, &p, false);
  }
  tri_device_destroy(device);
}

static void test_nothing(void **unused) {
  (void)unused;
  tri_device *device = device_with(2, TRI_CPU_BF16_WIDENED, false);
  float c[6] = {1, 2, 3, 4, 5, 6}, bias[3] = {7, 8, 9};
  tri_matmul p = {.m = 0, .n = 3, .k = 2, .lda = 2, .ldb = 3, .ldc = 3};
  p.a_type = p.b_type = p.c_type = TRI_FP32;
  size_t bytes = 1;
  CHECK_OK(tri_cpu_matmul_workspace(&device->description, &p, &bytes));
  assert_int_equal(bytes, 0);
  CHECK_OK(tri_cpu_matmul(device->queue, &p, NULL, NULL, NULL, NULL, NULL));
  p.m = 2;
  p.k = 0;
  p.accumulate = true;
  CHECK_OK(tri_cpu_matmul(device->queue, &p, NULL, NULL, NULL, c, NULL));
  assert_true(c[0] == 1 && c[5] == 6);
  p.accumulate = false;
  p.bias = true;
  CHECK_OK(tri_cpu_matmul(device->queue, &p, NULL, NULL, bias, c, NULL));
  assert_true(c[0] == 7 && c[3] == 7 && c[5] == 9);
  p.bias = false;
  CHECK_OK(tri_cpu_matmul(device->queue, &p, NULL, NULL, NULL, c, NULL));
  for (int i = 0; i < 6; i++) assert_true(c[i] == 0);
  tri_device_destroy(device);
}

static void test_refused(void **unused) {
  (void)unused;
  tri_device *device = device_with(2, TRI_CPU_BF16_WIDENED, false);
  tri_matmul p = {.m = 4, .n = 3, .k = 2, .lda = 2, .ldb = 3, .ldc = 3};
  p.a_type = p.b_type = p.c_type = TRI_FP64;
  size_t bytes = 0;
  double x[16] = {0};
  CHECK_FAILS(tri_cpu_matmul(device->queue, &p, x, x, NULL, x, NULL), TRI_UNSUPPORTED, "device: reference");
  CHECK_FAILS(tri_cpu_matmul_workspace(&device->description, &p, &bytes), TRI_UNSUPPORTED, "fp64");
  p.a_type = p.b_type = TRI_FP32;
  p.c_type = TRI_BF16;
  CHECK_FAILS(tri_cpu_matmul(device->queue, &p, x, x, NULL, x, NULL), TRI_UNSUPPORTED, "fp32 and fp32 into bf16");
  p.c_type = TRI_FP32;
  p.lda = 1;
  CHECK_FAILS(tri_cpu_matmul(device->queue, &p, x, x, NULL, x, NULL), TRI_INTERNAL, "leading dimension");
  p.lda = 2;
  p.bias = p.accumulate = true;
  CHECK_FAILS(tri_cpu_matmul(device->queue, &p, x, x, x, x, NULL), TRI_INTERNAL, "bias and accumulate");
  p.bias = p.accumulate = false;
  CHECK_OK(tri_cpu_matmul_packed(&device->description, &p, &bytes));
  assert_int_equal(bytes, 0);
  CHECK_FAILS(tri_cpu_matmul_pack(device->queue, &p, TRI_FP32, x, x), TRI_INTERNAL, "matmul_packed");
  p.b_packed = true;
  CHECK_FAILS(tri_cpu_matmul(device->queue, &p, x, x, NULL, x, NULL), TRI_INTERNAL, "4 x 3 x 2");
  p.b_packed = false;
  p.a_type = p.b_type = p.c_type = TRI_BF16;
  CHECK_FAILS(tri_cpu_matmul(device->queue, &p, x, x, NULL, x, NULL), TRI_INTERNAL, "bytes of workspace");
  tri_device_destroy(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_fp32, begin_test),        cmocka_unit_test_setup(test_bf16_widened, begin_test),
      cmocka_unit_test_setup(test_bf16_native, begin_test), cmocka_unit_test_setup(test_chunks, begin_test),
      cmocka_unit_test_setup(test_packed_fp32, begin_test), cmocka_unit_test_setup(test_packed_bf16, begin_test),
      cmocka_unit_test_setup(test_threads, begin_test),     cmocka_unit_test_setup(test_threads_lora, begin_test),
      cmocka_unit_test_setup(test_many_shapes, begin_test), cmocka_unit_test_setup(test_nothing, begin_test),
      cmocka_unit_test_setup(test_refused, begin_test),     cmocka_unit_test_setup(test_depth_rests, begin_test),
      cmocka_unit_test_setup(test_few_rows, begin_test),    cmocka_unit_test_setup(test_few_rows_packed, begin_test),
      cmocka_unit_test_setup(test_company, begin_test),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
