/* Products of `device: gpu` with the calls of cuBLASLt, or with STAND_IN_HIPBLASLT of hipBLASLt, compared with the
 * reference: types, transpositions, leading dimensions, bias, accumulation, narrowing, unaligned addresses; the chosen
 * and used algorithms; and the messages if the library is too new, refuses or fails. The libraries are stand-ins
 * (stand_in.h), which check every call against the vendors' documents, and fill all of the workspace that they are
 * given. */
#include "base/memory.h"
#include "device/gemm_choices.h"
#include "device/queue.h"
#include "device/reference/reference.h"
#include "gpu_array.h"

#include <fcntl.h>
#include <unistd.h>

#if defined(STAND_IN_HIPBLASLT)
#define LIBRARY "hipBLASLt"
#define CHOOSER "hipBLASLt 1.0.0 on stand-in 0 (gfx90a, warps of 64, 1 processors)"
#define TOO_NEW "hipblaslt=2.0"
#define TOO_NEW_TEXT "is hipBLASLt 2.0.0, and this program knows versions from 0.7 to 1. It comes with"
#define TOO_OLD "hipblaslt=0.6"
#define TOO_OLD_TEXT "is hipBLASLt 0.6.0, and this program knows versions from 0.7 to 1. It comes with"
#define REFUSAL 3
#define REFUSAL_TEXT "status 3"
#define FAILURE 5
#define FAILURE_TEXT "status 5"
#else
#define LIBRARY "cuBLASLt"
#define CHOOSER "cuBLASLt 13.1.0 on stand-in 0 (sm_90a, warps of 32, 1 processors)"
#define TOO_NEW "cublaslt=14.0"
#define TOO_NEW_TEXT "is cuBLASLt 14.0.0, and this program knows versions from 12.0 to 13. It comes with"
#define TOO_OLD "cublaslt=11.8"
#define TOO_OLD_TEXT "is cuBLASLt 11.8.0, and this program knows versions from 12.0 to 13. It comes with"
#define REFUSAL 15
#define REFUSAL_TEXT "CUBLAS_STATUS_NOT_SUPPORTED"
#define FAILURE 13
#define FAILURE_TEXT "CUBLAS_STATUS_EXECUTION_FAILED"
#endif

enum { WORKSPACE_BYTES = 40 << 20 };

typedef struct fixture {
  tri_device *device;
  void *workspace;
  uint64_t drawn;
} fixture;

static void open_device(fixture *f, const char *stand_in) {
  setenv("TRI_STAND_IN", stand_in, 1);
  CHECK_OK(tri_device_create("gpu:0", 1, &f->device));
  CHECK_OK(tri_device_memory_create(f->device, WORKSPACE_BYTES, &f->workspace));
}

static void close_device(fixture *f) {
  tri_device_memory_destroy(f->device, f->workspace, WORKSPACE_BYTES);
  tri_device_destroy(f->device);
}

static int set_up(void **state) {
  static fixture f;
  f = (fixture){.drawn = 0};
  open_device(&f, "");
  *state = &f;
  return 0;
}

static int tear_down(void **state) {
  close_device(*state);
  return 0;
}

static int64_t roll(fixture *f, int64_t sides) {
  return tri_random_u32(tri_random_stream(4, TRI_RANDOM_TEST, 3), f->drawn++) % (uint32_t)sides;
}

/* ---- one product ------------------------------------------------------------------------------------------------- */

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
  gpu_array a, b, bias, c;
} operands;

static operands operands_make(fixture *f, const tri_matmul *p, size_t shift) {
  tri_device *device = f->device;
  return (operands){.a = matrix(device, p->a_type, p->a_transposed ? p->k : p->m, p->a_transposed ? p->m : p->k, p->lda,
                                shift, false, 1),
                    .b = matrix(device, p->b_type, p->b_transposed ? p->n : p->k, p->b_transposed ? p->k : p->n, p->ldb,
                                shift, false, 2),
                    .bias = matrix(device, tri_dtype_wide(p->a_type), 1, p->n, p->n, shift, false, 3),
                    .c = matrix(device, p->c_type, p->m, p->n, p->ldc, shift, true, p->accumulate ? 4 : 0)};
}

static void operands_free(operands *x) {
  array_free(&x->a);
  array_free(&x->b);
  array_free(&x->bias);
  array_free(&x->c);
}

/* It ends where the memory ends. */
static void *workspace_of(const fixture *f, const tri_matmul *p) {
  size_t bytes = 0;
  CHECK_OK(f->device->description.matmul_workspace(&f->device->description, p, &bytes));
  assert_true(bytes <= WORKSPACE_BYTES);
  return (char *)f->workspace + (WORKSPACE_BYTES - bytes) / 64 * 64;
}

static void describe(const tri_matmul *p, size_t shift, char text[256]) {
  snprintf(text, 256, "%lldx%lldx%lld ld %lld %lld %lld, %s %s %s%s%s%s%s, off by %zu", (long long)p->m,
           (long long)p->n, (long long)p->k, (long long)p->lda, (long long)p->ldb, (long long)p->ldc,
           tri_dtype_name(p->a_type), tri_dtype_name(p->b_type), tri_dtype_name(p->c_type),
           p->a_transposed ? " a^T" : "", p->b_transposed ? " b^T" : "", p->accumulate ? " accumulate" : "",
           p->bias ? " bias" : "", shift);
}

static double error_of(const char *what, const tri_matmul *p, const gpu_array *c, const char *expected) {
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
  return norm == 0 ? sqrt(difference) : sqrt(difference / norm);
}

/* Returns the error of the GPU's result: |difference| / |reference|. */
static double run(fixture *f, const tri_matmul *p, size_t shift) {
  operands x = operands_make(f, p, shift);
  char text[256];
  describe(p, shift, text);
  char *expected = malloc(x.c.bytes + 1);
  assert_non_null(expected);
  memcpy(expected, array_host(&x.c), x.c.bytes);
  CHECK_OK(tri_reference_matmul(NULL, p, array_host(&x.a), array_host(&x.b), array_host(&x.bias), expected, NULL));
  tri_status status = f->device->kernels->matmul(f->device->queue, p, array_device(&x.a), array_device(&x.b),
                                                 array_device(&x.bias), array_device(&x.c), workspace_of(f, p));
  if (status != TRI_OK) fail_msg("%s: %s", text, tri_status_message());
  array_download(text, &x.c);
  const double error = error_of(text, p, &x.c, expected);
  free(expected);
  operands_free(&x);
  return error;
}

static void check(fixture *f, const tri_matmul *p, size_t shift) {
  char text[256];
  const double allowed = p->c_type == TRI_FP64 ? 1e-12 : p->c_type == TRI_FP32 ? 1e-5 : 1e-2;
  const double error = run(f, p, shift);
  describe(p, shift, text);
  if (!(error <= allowed)) fail_msg("%s: off by %.3g", text, error);
}

/* ---- all combinations -------------------------------------------------------------------------------------------- */

/* Bits of `variant`: a^T, b^T, gaps between rows, and bias, accumulate or neither. */
enum { NUM_VARIANTS = 24 };

static tri_matmul random_product(fixture *f, int variant, tri_dtype a, tri_dtype b, tri_dtype c) {
  static const int64_t lengths[] = {1, 2, 3, 8, 16, 33, 64, 71};
  enum { NUM_LENGTHS = sizeof lengths / sizeof lengths[0] };
  const bool gaps = (variant & 4) != 0;
  tri_matmul p = {.m = lengths[roll(f, NUM_LENGTHS)],
                  .n = lengths[roll(f, NUM_LENGTHS)],
                  .k = lengths[roll(f, NUM_LENGTHS)],
                  .a_type = a,
                  .b_type = b,
                  .c_type = c,
                  .a_transposed = (variant & 1) != 0,
                  .b_transposed = (variant & 2) != 0,
                  .bias = variant / 8 == 1,
                  .accumulate = variant / 8 == 2};
  p.lda = (p.a_transposed ? p.m : p.k) + (gaps ? roll(f, 20) : 0);
  p.ldb = (p.b_transposed ? p.k : p.n) + (gaps ? roll(f, 20) : 0);
  p.ldc = p.n + (gaps ? roll(f, 20) : 0);
  return p;
}

static void check_all(fixture *f, tri_dtype a, tri_dtype b, tri_dtype c) {
  for (int variant = 0; variant < NUM_VARIANTS; variant++) {
    for (int sample = 0; sample < 3; sample++) {
      const tri_matmul p = random_product(f, variant, a, b, c);
      check(f, &p, roll(f, 3) == 0 ? (size_t)(1 + roll(f, 7)) : 0);
    }
  }
}

static void test_fp64(void **state) { check_all(*state, TRI_FP64, TRI_FP64, TRI_FP64); }
static void test_fp32(void **state) { check_all(*state, TRI_FP32, TRI_FP32, TRI_FP32); }

static void test_bf16(void **state) {
  check_all(*state, TRI_BF16, TRI_BF16, TRI_BF16);
  check_all(*state, TRI_BF16, TRI_BF16, TRI_FP32);
  check_all(*state, TRI_BF16, TRI_FP32, TRI_BF16);
  check_all(*state, TRI_BF16, TRI_FP32, TRI_FP32);
}

/* No rows, no columns, and sums without terms, which the library does not support. */
static void test_nothing(void **state) {
  fixture *f = *state;
  for (int variant = 0; variant < NUM_VARIANTS; variant++) {
    tri_matmul p = random_product(f, variant, TRI_FP32, TRI_FP32, TRI_FP32);
    p.k = 0;
    check(f, &p, 0);
    p = random_product(f, variant, TRI_FP32, TRI_FP32, TRI_FP32);
    p.m = 0;
    p.lda += 80;
    check(f, &p, 0);
  }
}

/* ---- choices ----------------------------------------------------------------------------------------------------- */

static const tri_matmul some = {.m = 24,
                                .n = 40,
                                .k = 16,
                                .lda = 16,
                                .ldb = 40,
                                .ldc = 40,
                                .a_type = TRI_BF16,
                                .b_type = TRI_BF16,
                                .c_type = TRI_BF16,
                                .bias = true};

static char *ask(fixture *f) {
  char *asked = NULL;
  size_t bytes = 0;
  CHECK_OK(f->device->description.matmul_workspace(&f->device->description, &some, &bytes));
  CHECK_OK(tri_device_gemms_asked(f->device, &asked));
  return asked;
}

static void expect_text(const char *text, const char *part) {
  if (strstr(text, part) == NULL) fail_msg("`%s` is not in: %s", part, text);
}

/* The library's first by rank; with timing one of its own; and what is taken is what runs. */
static void test_choices(void **state) {
  (void)state;
  fixture f = {.drawn = 0};
  char chooser[TRI_DEVICE_GEMM_LIBRARY_BYTES], *chosen = NULL, *timed = NULL;
  open_device(&f, "");
  tri_device_gemm_library(f.device, chooser);
  assert_string_equal(chooser, CHOOSER);
  char *asked = ask(&f);
  assert_string_equal(asked, "bf16 bf16 24 40 16 16 40 40 bias 16\n");
  CHECK_OK(tri_device_gemms_choose(f.device, asked, false, &chosen));
  expect_text(chosen, "bf16 bf16 24 40 16 16 40 40 bias 16 : " LIBRARY " 1048576 ");
  CHECK_OK(tri_device_gemms_choose(f.device, asked, true, &timed));
  expect_text(timed, " : " LIBRARY " ");
  CHECK_OK(tri_device_gemms_use(f.device, timed));
  check(&f, &some, 0);
  tri_free(asked);
  tri_free(chosen);
  tri_free(timed);
  close_device(&f);
}

/* Work that was queued before the failure still uses the operands. */
static void expect_failure(fixture *f, const char *message) {
  operands x = operands_make(f, &some, 0);
  CHECK_FAILS(f->device->kernels->matmul(f->device->queue, &some, array_device(&x.a), array_device(&x.b),
                                         array_device(&x.bias), array_device(&x.c), workspace_of(f, &some)),
              TRI_DEVICE_FAILED, message);
  CHECK_OK(tri_queue_finish(f->device->queue));
  operands_free(&x);
}

static void test_choices_that_are_none(void **state) {
  (void)state;
  fixture f = {.drawn = 0};
  char *chosen = NULL, *asked = NULL;
  open_device(&f, "");
  asked = ask(&f);
  CHECK_OK(tri_device_gemms_choose(f.device, asked, false, &chosen));
  static const char *const none[] = {
      "bf16 bf16 24 40 16 16 40 40 bias 16\n",
      "bf16 bf16 24 40 16 16 40 40 bias 16 : " LIBRARY " 99999999999 00\n",
      "bf16 bf16 24 40 16 16 40 40 bias 16 : otherLt 0 00\n",
      "bf16 bf16 24 40 16 16 40 40 bias 16 : " LIBRARY " 0 0\n",
      "bf16 bf16 24 40 16 16 40 40 bias 16 : " LIBRARY " 0 xx\n",
      "bf16 bf16 24 40 16 15 40 40 bias 16 : " LIBRARY " 0 00\n",
      "bf16 fp16 24 40 16 16 40 40 bias 16 : " LIBRARY " 0 00\n",
      "bf16 bf16 24 40 16 16 40 40 bies 16 : " LIBRARY " 0 00\n",
      "cuBLASLt\n",
  };
  for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
    CHECK_FAILS(tri_device_gemms_use(f.device, none[i]), TRI_BAD_FILE, "is not a choice of how to make");
  }
  tri_free(asked);
  tri_free(chosen);
  close_device(&f);
}

/* TF32 only where it is allowed, and where there is one. */
static void test_tf32(void **state) {
  (void)state;
  const tri_matmul p = {.m = 16,
                        .n = 24,
                        .k = 64,
                        .lda = 64,
                        .ldb = 24,
                        .ldc = 24,
                        .a_type = TRI_FP32,
                        .b_type = TRI_FP32,
                        .c_type = TRI_FP32};
  fixture f = {.drawn = 0};
  gpu_array one, other, c;
  for (int allowed = 0; allowed < 2; allowed++) {
    open_device(&f, "");
    if (allowed == 1) tri_device_allow_tf32(f.device);
    one = array_make(f.device, 64 * 16 * 4, 0, false);
    other = array_make(f.device, 64 * 24 * 4, 0, false);
    c = array_make(f.device, 16 * 24 * 4, 0, true);
    for (int i = 0; i < 64 * 16; i++) ((float *)array_host(&one))[i] = 1.0f + 0x1p-20f;
    for (int i = 0; i < 64 * 24; i++) ((float *)array_host(&other))[i] = 1;
    array_upload(&one);
    array_upload(&other);
    array_upload(&c);
    CHECK_OK(f.device->kernels->matmul(f.device->queue, &p, array_device(&one), array_device(&other), NULL,
                                       array_device(&c), workspace_of(&f, &p)));
    array_download("tf32", &c);
    const float got = ((const float *)array_host(&c))[0];
    const bool rounded = allowed == 1 && strcmp(LIBRARY, "cuBLASLt") == 0;
    assert_true(rounded ? got == 64.0f : got == 64.0f + 0x1p-14f);
    array_free(&one);
    array_free(&other);
    array_free(&c);
    close_device(&f);
  }
}

/* ---- unusable libraries ------------------------------------------------------------------------------------------ */

/* Redirects standard error to a file without a name. */
static int redirect(FILE **file) {
  fflush(stderr);
  *file = tmpfile();
  assert_non_null(*file);
  const int kept = dup(STDERR_FILENO);
  assert_true(kept >= 0);
  assert_true(dup2(fileno(*file), STDERR_FILENO) >= 0);
  return kept;
}

static void restore_output(int kept, FILE *file, char *text, size_t text_bytes) {
  fflush(stderr);
  assert_true(dup2(kept, STDERR_FILENO) >= 0);
  close(kept);
  rewind(file);
  text[fread(text, 1, text_bytes - 1, file)] = '\0';
  fclose(file);
}

/* The program's own kernel makes the products, and `message` is said once; NULL: nothing is. */
static void expect_tiled(const char *stand_in, const char *message) {
  fixture f = {.drawn = 0};
  char *chosen = NULL, said[4096];
  FILE *file = NULL;
  const int kept = redirect(&file);
  open_device(&f, stand_in);
  char *asked = ask(&f);
  CHECK_OK(tri_device_gemms_choose(f.device, asked, false, &chosen));
  restore_output(kept, file, said, sizeof said);
  expect_text(chosen, " : tiled 0 ");
  if (message == NULL) assert_string_equal(said, "");
  if (message != NULL) {
    expect_text(said, "warning: matrix products are made by this program's own kernels");
    expect_text(said, message);
    assert_ptr_equal(strchr(said, '\n') + 1, said + strlen(said));
  }
  check(&f, &some, 0);
  tri_free(asked);
  tri_free(chosen);
  close_device(&f);
}

static void test_refused(void **state) {
  (void)state;
  expect_tiled("refuses=1", NULL);
}

static void test_other_version(void **state) {
  (void)state;
  expect_tiled(TOO_NEW, TOO_NEW_TEXT);
  expect_tiled(TOO_OLD, TOO_OLD_TEXT);
}

static void test_failure(void **state) {
  (void)state;
  fixture f = {.drawn = 0};
  char stand_in[32];
  snprintf(stand_in, sizeof stand_in, "fails=%d", FAILURE);
  open_device(&f, stand_in);
  expect_failure(&f, "failed to multiply 24 x 40 x 16 (bf16): " FAILURE_TEXT);
  close_device(&f);
}

/* Products are right, and the library's message is in one warning. Runs twice, since another algorithm is then in use;
 * a product of another shape gives no second warning. */
static void expect_other_way(fixture *f, const char *message) {
  char said[4096];
  tri_matmul other = some;
  other.m = 8;
  FILE *file = NULL;
  const int kept = redirect(&file);
  check(f, &some, 0);
  check(f, &some, 0);
  check(f, &other, 0);
  restore_output(kept, file, said, sizeof said);
  expect_text(said, "warning: " LIBRARY " ");
  expect_text(said, message);
  expect_text(said,
              "; this product, and others that it refuses, use another algorithm. If products.json in the run's output "
              "names it, remove that file, and GEMM algorithms are tuned again\n");
  assert_ptr_equal(strchr(said, '\n') + 1, said + strlen(said));
}

/* An algorithm that a file has kept and the library does not take: its next one that it takes, at last the own kernel.
 */
static void test_choice_that_is_refused(void **state) {
  (void)state;
  fixture f = {.drawn = 0};
  char *chosen = NULL, *anew = NULL, stand_in[48];
  open_device(&f, "");
  char *asked = ask(&f);
  CHECK_OK(tri_device_gemms_choose(f.device, asked, false, &chosen));
  char *hex = strrchr(chosen, ' ') + 1;
  hex[0] = hex[0] == '0' ? '1' : '0'; /* of another product, for all that the library knows */
  CHECK_OK(tri_device_gemms_use(f.device, chosen));
  expect_other_way(&f, "failed to multiply 24 x 40 x 16 (bf16): ");
  close_device(&f);
  for (int least = 2; least >= 0; least--) { /* refused: the best, the best two, all */
    snprintf(stand_in, sizeof stand_in, "fails=%d,variant=%d", REFUSAL, least);
    open_device(&f, stand_in);
    expect_other_way(&f, "failed to multiply 24 x 40 x 16 (bf16): " REFUSAL_TEXT);
    tri_free(asked);
    asked = ask(&f);
    CHECK_OK(tri_device_gemms_choose(f.device, asked, true, &anew)); /* timing passes them over */
    CHECK_OK(tri_device_gemms_use(f.device, anew));
    check(&f, &some, 0);
    tri_free(anew);
    close_device(&f);
  }
  tri_free(asked);
  tri_free(chosen);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fp64),
      cmocka_unit_test(test_fp32),
      cmocka_unit_test(test_bf16),
      cmocka_unit_test(test_nothing),
      cmocka_unit_test(test_choices),
      cmocka_unit_test(test_choices_that_are_none),
      cmocka_unit_test(test_tf32),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_failure),
      cmocka_unit_test(test_other_version),
      cmocka_unit_test(test_choice_that_is_refused),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
