/* The file format: round trips, conversions, and headers with false values. tests/oracle/test_safetensors.py checks
 * that other programs read our files, and that we read theirs. */
#include "check.h"

#include "base/memory.h"
#include "checkpoint/safetensors.h"
#include "files/file.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { IMAGE_BYTES = 1 << 16 };

/* Makes a file in memory: length, header, and `data_bytes` of 0, 1, 2, ... */
static size_t make_image(const char *header, size_t data_bytes, char image[IMAGE_BYTES]) {
  uint64_t length = strlen(header);
  memcpy(image, &length, 8);
  memcpy(image + 8, header, length + 1);
  for (size_t i = 0; i < data_bytes; i++) image[8 + length + i] = (char)i;
  return 8 + length + data_bytes;
}

static tri_status parse_text(const char *header, size_t data_bytes, tri_safetensors_header *out) {
  static char image[IMAGE_BYTES];
  size_t bytes = make_image(header, data_bytes, image);
  /* A copy of its exact size, so that the sanitizer detects reads beyond the end. */
  char *exact = malloc(bytes);
  memcpy(exact, image, bytes);
  tri_status status = tri_safetensors_parse("F", exact, bytes, bytes, out);
  free(exact);
  return status;
}

static const struct {
  const char *header;
  size_t data_bytes;
  const char *message;
} hostile[] = {
    {"", 0, "F is not a safetensors file: its header does not begin with `{`"},
    {" {}", 0, "does not begin with `{`"},
    {"[1]", 0, "does not begin with `{`"},
    {"{\"a\":", 0, "F: the header is not valid JSON at byte 5"},
    {"{}x", 0, "not valid JSON"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
     "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
     2, "duplicate object key near '\"a\"'"},
    {"{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "not valid JSON"},
    {"{\"a\":7}", 0, "F: tensor `a` is not an object"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "F: tensor `a` has no `dtype` string"},
    {"{\"a\":{\"dtype\":3,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "no `dtype` string"},
    {"{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "F: tensor `a` has the unknown type `F33`"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "F: tensor `a` has no `shape` list"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
     "F: tensor `a` has 9 dimensions; at most 8"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1.0],\"data_offsets\":[0,4]}}", 4,
     "F: dimension 1 of tensor `a` is not an integer"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[\"1\"],\"data_offsets\":[0,4]}}", 4, "dimension 0 of tensor `a` is not an"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1,-1],\"data_offsets\":[0,4]}}", 4, "F: dimension 0 of tensor `a` is -1"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,4]}}", 4, "too big integer"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
     "F: tensor `a` of shape [4294967296, 4294967296] has no size in bytes"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[576460752303423489],\"data_offsets\":[0,4]}}", 4, "has no size in bytes"},
    {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1, "has no size in bytes"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "F: tensor `a` has no `data_offsets` of two integers"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "no `data_offsets` of two integers"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 8, "no `data_offsets` of two integers"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4.0]}}", 4, "no `data_offsets` of two integers"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4,
     "F: tensor `a` has the byte range [-4, 0), which"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,4]}}", 8,
     "has the byte range [8, 4), which is not valid"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7,
     "F: tensor `a` has the byte range [0, 8), but the file has only 7 bytes of data; it is truncated or damaged"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,12]}}", 12,
     "F: tensor `a` has 12 bytes at [0, 12), but F32 of shape [2, 3] needs 24"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[4,12]}}",
     12, "F: tensor `b` begins at byte 4, inside tensor `a`, which ends at 8"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}",
     8, "F: tensor `b` begins at byte 0, inside tensor `a`, which ends at 8"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[9,17]}}",
     17, "F: bytes [8, 9) before tensor `b` belong to no tensor"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[1,9]}}", 9, "F: bytes [0, 1) before tensor `a`"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}", 11,
     "F: the last 3 bytes of the file belong to no tensor"},
    {"{\"__metadata__\":[]}", 0, "F: `__metadata__` is not an object"},
    {"{\"__metadata__\":{\"format\":\"pt\",\"x\":1}}", 0, "F: `x` in `__metadata__` is not a string"},
};

static void test_hostile_headers(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
    tri_safetensors_header header = {0};
    size_t before = tri_memory_bytes();
    CHECK_FAILS(parse_text(hostile[i].header, hostile[i].data_bytes, &header), TRI_BAD_FILE, hostile[i].message);
    assert_null(header.tensors); /* outputs only on success */
    assert_int_equal(tri_memory_bytes(), before);
  }
}

static void test_hostile_lengths(void **state) {
  (void)state;
  char image[64] = {0};
  tri_safetensors_header header;
  CHECK_FAILS(tri_safetensors_parse("F", image, 0, 0, &header), TRI_BAD_FILE,
              "F is not a safetensors file: it has 0 bytes");
  CHECK_FAILS(tri_safetensors_parse("F", image, 7, 7, &header), TRI_BAD_FILE, "it has 7 bytes, but the length");
  uint64_t length = 100000001;
  memcpy(image, &length, 8);
  CHECK_FAILS(tri_safetensors_parse("F", image, 64, 1u << 30, &header), TRI_BAD_FILE,
              "it claims a header of 100000001 bytes; the format allows 100000000");
  length = UINT64_MAX;
  memcpy(image, &length, 8);
  CHECK_FAILS(tri_safetensors_parse("F", image, 64, 64, &header), TRI_BAD_FILE,
              "18446744073709551615 bytes; the format");
  length = 57;
  memcpy(image, &length, 8);
  CHECK_FAILS(tri_safetensors_parse("F", image, 64, 64, &header), TRI_BAD_FILE,
              "F claims a header of 57 bytes, but only 56 follow; it is truncated or damaged");
}

/* Nested too deeply for a recursive parser. */
static void test_deep_header(void **state) {
  (void)state;
  size_t depth = 1000000;
  char *image = malloc(depth + 16);
  uint64_t length = depth + 1;
  memcpy(image, &length, 8);
  image[8] = '{';
  memcpy(image + 9, "\"a\":", 5);
  memset(image + 13, '[', depth - 4);
  tri_safetensors_header header;
  CHECK_FAILS(tri_safetensors_parse("F", image, depth + 9, depth + 9, &header), TRI_BAD_FILE, "depth");
  free(image);
}

static void test_parse(void **state) {
  (void)state;
  tri_safetensors_header header;
  CHECK_OK(
      parse_text("{\"__metadata__\":{\"format\":\"pt\"},"
                 "\"later\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[24,30],\"note\":1},"
                 "\"scalar\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[16,24]},"
                 "\"empty\":{\"dtype\":\"F32\",\"shape\":[0,9223372036854775807],\"data_offsets\":[16,16]},"
                 "\"first\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}    ",
                 30, &header));
  assert_int_equal(header.num_tensors, 4);
  const char *const order[] = {"first", "empty", "scalar", "later"};
  for (int i = 0; i < 4; i++) assert_string_equal(header.tensors[i].name, order[i]);
  const tri_safetensors_tensor *later = tri_safetensors_find(&header, "later");
  assert_int_equal(later->type, TRI_SAFETENSORS_BF16);
  assert_int_equal(later->offset, header.data_offset + 24);
  assert_int_equal(later->bytes, 6);
  assert_int_equal(tri_safetensors_find(&header, "scalar")->num_dims, 0);
  assert_null(tri_safetensors_find(&header, "first "));
  assert_null(tri_safetensors_find(&header, "__metadata__"));
  assert_string_equal(tri_safetensors_metadata(&header, "format"), "pt");
  assert_null(tri_safetensors_metadata(&header, "other"));
  tri_safetensors_header_destroy(&header);
  CHECK_OK(parse_text("{}", 0, &header));
  assert_int_equal(header.num_tensors, 0);
  assert_null(tri_safetensors_find(&header, ""));
  tri_safetensors_header_destroy(&header);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static char folder[TRI_PATH_BYTES];

static int make_folder(void **state) {
  (void)state;
  const char *base = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%s/trireme-safetensors-XXXXXX", base == NULL ? "/tmp" : base);
  return mkdtemp(folder) == NULL;
}

static int drop_folder(void **state) {
  (void)state;
  return tri_directory_remove(folder) != TRI_OK;
}

static const char *in_folder(const char *name) {
  static char path[TRI_PATH_BYTES];
  CHECK_OK(tri_path_join(path, folder, name));
  return path;
}

static void write_file(const char *path, tri_safetensors_tensor *tensors, const void *const *data, int64_t count) {
  char *header = NULL;
  size_t header_bytes = 0;
  uint64_t file_bytes = 0;
  CHECK_OK(tri_safetensors_layout(tensors, count, "pt", &header, &header_bytes, &file_bytes));
  assert_int_equal(header_bytes % 8, 0);
  CHECK_OK(tri_safetensors_write(path, tensors, data, count, header, header_bytes, file_bytes, NULL));
  tri_free(header);
}

static void test_round_trip(void **state) {
  (void)state;
  enum { COUNT = 40000 }; /* more elements than the buffer for conversions */
  uint16_t *half = malloc(COUNT * 2);
  float *single = malloc(COUNT * 4), *single_back = malloc(COUNT * 4);
  double *wide = malloc(COUNT * 8), *wide_back = malloc(COUNT * 8);
  for (int i = 0; i < COUNT; i++) {
    single[i] = ldexpf((float)(i - 20000), i % 60 - 30);
    wide[i] = ldexp((double)i / 3.0, i % 80 - 40);
    half[i] = (uint16_t)i;
  }
  tri_safetensors_tensor tensors[] = {
      {.name = "half", .type = TRI_SAFETENSORS_BF16, .num_dims = 1, .shape = {COUNT}},
      {.name = "single \"quoted\" \xc3\xa9", .type = TRI_SAFETENSORS_F32, .num_dims = 2, .shape = {COUNT / 8, 8}},
      {.name = "none", .type = TRI_SAFETENSORS_F32, .num_dims = 2, .shape = {0, 3}},
      {.name = "wide", .type = TRI_SAFETENSORS_F64, .num_dims = 3, .shape = {2, COUNT / 4, 2}},
  };
  const void *const data[] = {half, single, "", wide};
  const char *path = in_folder("round.safetensors");
  write_file(path, tensors, data, 4);
  assert_true(tensors[3].offset < tensors[1].offset && tensors[1].offset < tensors[0].offset); /* wider types first */

  tri_safetensors_file file;
  CHECK_OK(tri_safetensors_open(path, &file));
  assert_string_equal(tri_safetensors_metadata(&file.header, "format"), "pt");
  const tri_safetensors_tensor *found = tri_safetensors_find(&file.header, tensors[1].name);
  CHECK_OK(tri_safetensors_read(&file, found, TRI_FP32, single_back));
  assert_memory_equal(single, single_back, COUNT * 4);
  CHECK_OK(tri_safetensors_read(&file, found, TRI_FP64, wide_back));
  for (int i = 0; i < COUNT; i++) assert_true(wide_back[i] == (double)single[i]);
  found = tri_safetensors_find(&file.header, "wide");
  CHECK_OK(tri_safetensors_read(&file, found, TRI_FP64, wide_back));
  assert_memory_equal(wide, wide_back, COUNT * 8);
  CHECK_OK(tri_safetensors_read(&file, found, TRI_FP32, single_back));
  for (int i = 0; i < COUNT; i++) assert_true(single_back[i] == (float)wide[i]);
  double three[3];
  CHECK_OK(tri_safetensors_read_bytes(&file, found, 8 * 7, sizeof three, three));
  assert_memory_equal(three, wide + 7, sizeof three);
  CHECK_FAILS(tri_safetensors_read_bytes(&file, found, found->bytes - 8, 16, three), TRI_INTERNAL, "tensor `wide`");
  found = tri_safetensors_find(&file.header, "half");
  CHECK_OK(tri_safetensors_read(&file, found, TRI_BF16, single_back));
  assert_memory_equal(single_back, half, COUNT * 2);
  CHECK_FAILS(tri_safetensors_read(&file, found, TRI_INT32, single_back), TRI_UNSUPPORTED,
              "tensor `half` is BF16, which cannot be read as int32");
  CHECK_OK(tri_safetensors_read(&file, tri_safetensors_find(&file.header, "none"), TRI_FP32, single_back));
  tri_safetensors_close(&file);
  free(half), free(single), free(single_back), free(wide), free(wide_back);
}

/* Returns the value of a pattern of a 16-bit type, by the formula of the formats: (-1)^s 2^(e - bias) (1 + f /
 * 2^bits). */
static double from_bits(uint32_t bits, int exponent_bits, int fraction_bits) {
  int bias = (1 << (exponent_bits - 1)) - 1, exponent = (int)(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  double fraction = (double)(bits & ((1u << fraction_bits) - 1)) / (double)(1 << fraction_bits);
  double sign = bits >> (exponent_bits + fraction_bits) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) return fraction == 0 ? sign * INFINITY : NAN;
  return exponent == 0 ? sign * ldexp(fraction, 1 - bias) : sign * ldexp(1.0 + fraction, exponent - bias);
}

static void test_half_precision(void **state) {
  (void)state;
  enum { COUNT = 65536 };
  uint16_t *bits = malloc(COUNT * 2);
  float *single = malloc(COUNT * 4);
  double *wide = malloc(COUNT * 8);
  for (int i = 0; i < COUNT; i++) bits[i] = (uint16_t)i;
  tri_safetensors_tensor tensors[] = {{.name = "f16", .type = TRI_SAFETENSORS_F16, .num_dims = 1, .shape = {COUNT}},
                                      {.name = "bf16", .type = TRI_SAFETENSORS_BF16, .num_dims = 1, .shape = {COUNT}}};
  const void *const data[] = {bits, bits};
  const char *path = in_folder("half.safetensors");
  write_file(path, tensors, data, 2);
  tri_safetensors_file file;
  CHECK_OK(tri_safetensors_open(path, &file));
  for (int t = 0; t < 2; t++) {
    const tri_safetensors_tensor *found = tri_safetensors_find(&file.header, tensors[t].name);
    CHECK_OK(tri_safetensors_read(&file, found, TRI_FP32, single));
    CHECK_OK(tri_safetensors_read(&file, found, TRI_FP64, wide));
    for (uint32_t i = 0; i < COUNT; i++) {
      double wanted = t == 0 ? from_bits(i, 5, 10) : from_bits(i, 8, 7);
      if (isnan(wanted)) {
        assert_true(isnan(single[i]) && isnan(wide[i]));
      } else {
        assert_true(wide[i] == wanted && (double)single[i] == wanted && !signbit(wide[i]) == !signbit(wanted));
      }
    }
  }
  tri_safetensors_close(&file);
  free(bits), free(single), free(wide);
}

/* Files cut off at every length are refused, with a message that names the file. */
static void test_truncated_file(void **state) {
  (void)state;
  float values[12] = {1, 2, 3};
  tri_safetensors_tensor tensors[] = {{.name = "a", .type = TRI_SAFETENSORS_F32, .num_dims = 2, .shape = {3, 4}}};
  const void *const data[] = {values};
  const char *path = in_folder("cut.safetensors");
  write_file(path, tensors, data, 1);
  tri_safetensors_file file;
  CHECK_OK(tri_safetensors_open(path, &file));
  uint64_t bytes = file.file_bytes;
  tri_safetensors_close(&file);
  while (bytes-- > 0) {
    assert_int_equal(truncate(path, (off_t)bytes), 0);
    CHECK_FAILS(tri_safetensors_open(path, &file), TRI_BAD_FILE, "cut.safetensors");
  }
  CHECK_FAILS(tri_safetensors_open(in_folder("absent"), &file), TRI_BAD_FILE, "absent: No such file");
  CHECK_FAILS(tri_safetensors_open(folder, &file), TRI_BAD_FILE, "is a folder, not a plain file");
}

/* The file is truncated while it is open. */
static void test_shrunken_file(void **state) {
  (void)state;
  float values[12] = {0};
  tri_safetensors_tensor tensors[] = {{.name = "a", .type = TRI_SAFETENSORS_F32, .num_dims = 1, .shape = {12}}};
  const void *const data[] = {values};
  const char *path = in_folder("shrunk.safetensors");
  write_file(path, tensors, data, 1);
  tri_safetensors_file file;
  CHECK_OK(tri_safetensors_open(path, &file));
  assert_int_equal(truncate(path, (off_t)file.file_bytes - 4), 0);
  CHECK_FAILS(tri_safetensors_read(&file, &file.header.tensors[0], TRI_FP32, values), TRI_BAD_FILE,
              "where 4 more should follow");
  tri_safetensors_close(&file);
}

static void test_bad_requests(void **state) {
  (void)state;
  char *header = NULL;
  size_t header_bytes = 0;
  uint64_t file_bytes = 0;
  tri_safetensors_tensor twice[] = {{.name = "a", .type = TRI_SAFETENSORS_F32, .num_dims = 1, .shape = {1}},
                                    {.name = "a", .type = TRI_SAFETENSORS_F64, .num_dims = 1, .shape = {1}}};
  CHECK_FAILS(tri_safetensors_layout(twice, 2, NULL, &header, &header_bytes, &file_bytes), TRI_INTERNAL,
              "two entries with the name `a`");
  twice[1].name = "\xff";
  CHECK_FAILS(tri_safetensors_layout(twice, 2, NULL, &header, &header_bytes, &file_bytes), TRI_INTERNAL, "not UTF-8");
  twice[1] = (tri_safetensors_tensor){
      .name = "b", .type = TRI_SAFETENSORS_F32, .num_dims = 2, .shape = {INT64_C(1) << 40, INT64_C(1) << 40}};
  CHECK_FAILS(tri_safetensors_layout(twice, 2, NULL, &header, &header_bytes, &file_bytes), TRI_INTERNAL,
              "tensor `b` of shape [1099511627776, 1099511627776] has no size in bytes");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_parse),           cmocka_unit_test(test_hostile_headers),
      cmocka_unit_test(test_hostile_lengths), cmocka_unit_test(test_deep_header),
      cmocka_unit_test(test_round_trip),      cmocka_unit_test(test_half_precision),
      cmocka_unit_test(test_truncated_file),  cmocka_unit_test(test_shrunken_file),
      cmocka_unit_test(test_bad_requests),
  };
  return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
