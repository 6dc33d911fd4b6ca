/* GGUF files: a round trip, files with false values, and files that cannot be written. tests/oracle/test_gguf.py
 * compares with the format's own package. */
#include "check.h"

#include "base/half.h"
#include "base/memory.h"
#include "files/file.h"
#include "gguf/writer.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { IMAGE_BYTES = 1 << 17 };
#define FILE_NAME "test_gguf.gguf"

/* Makes a file from words with a blank between them: M is the magic, Bn a byte, In a uint32, Ln a uint64, Stext a
 * string, Zn n zeros, P zeros up to a multiple of 32 bytes. */
static size_t make_image(const char *words, char image[IMAGE_BYTES]) {
  size_t held = 0;
  for (const char *at = words; *at != '\0'; at += *at == ' ' ? 1 : 0) {
    const size_t length = strcspn(at, " ");
    const uint64_t number = *at == 'S' ? length - 1 : strtoull(at + 1, NULL, 0);
    const uint32_t single = (uint32_t)number;
    switch (*at) {
      case 'M':
        memcpy(image + held, "GGUF", 4);
        held += 4;
        break;
      case 'B': image[held++] = (char)number; break;
      case 'I':
        memcpy(image + held, &single, 4);
        held += 4;
        break;
      case 'L':
        memcpy(image + held, &number, 8);
        held += 8;
        break;
      case 'S':
        memcpy(image + held, &number, 8);
        memcpy(image + held + 8, at + 1, number);
        held += 8 + number;
        break;
      case 'Z':
        memset(image + held, 0, number);
        held += number;
        break;
      case 'P':
        while (held % 32 != 0) image[held++] = 0;
        break;
      default: fail_msg("the word %s", at);
    }
    at += length;
  }
  return held;
}

/* Writes the file, without flushing it, which takes longer. */
static void write_file(const char *image, size_t bytes) {
  FILE *file = fopen(FILE_NAME, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(image, 1, bytes, file), bytes);
  assert_int_equal(fclose(file), 0);
}

static tri_status open_image(const char *words, tri_gguf_file *out) {
  static char image[IMAGE_BYTES];
  const size_t bytes = make_image(words, image);
  write_file(image, bytes);
  return tri_gguf_open(FILE_NAME, out);
}

#define ONE_TENSOR "M I3 L1 L0 Sw I1 "

static const struct {
  const char *words, *message;
} hostile[] = {
    {"", FILE_NAME " is not a GGUF file: it does not begin with `GGUF`"},
    {"I3 L0 L0", "does not begin with `GGUF`"},
    {"I0x04034B50 L0", FILE_NAME " is a ZIP archive"},
    {"M", "the beginning of a GGUF file needs 4 bytes at byte 4, but only 0 follow; the file is truncated or damaged"},
    {"M I3 L0 I0", "needs 8 bytes at byte 16, but only 4 follow"},
    {"M I1 I0 I0", "has version 1 of the GGUF format; versions 2 and 3 are read; convert the model again"},
    {"M I4 L0 L0", "has version 4 of the GGUF format"},
    {"M I0x03000000 L0 L0",
     "is a GGUF file in big-endian byte order; convert it: pip install gguf; gguf-convert-endian"},
    {"M I3 L0x1000000000000000 L0 Z99",
     "the number of tensors is 1152921504606846976, but only 99 bytes follow; the file is truncated or damaged"},
    {"M I3 L0 L0x1000000000000000 Z99", "the number of keys is 1152921504606846976, but only 99 bytes follow"},
    {"M I3 L0 L1 L0 Z99", "the name of key 0 has 0 bytes, and must have 1 to 65535; the file is damaged"},
    {"M I3 L0 L1 L65536 Z70000", "the name of key 0 has 65536 bytes, and must have"},
    {"M I3 L0 L1 L0x7FFFFFFFFFFFFFFF Z99",
     "the name of key 0 needs 9223372036854775807 bytes at byte 32, but only 99 follow"},
    {"M I3 L0 L1 L0xFFFFFFFFFFFFFFFF Z99", "the name of key 0 needs 18446744073709551615 bytes"},
    {"M I3 L0 L1 Sa\nb I4 I7", "the name of key 0 contains the control character 10"},
    {"M I3 L0 L1 Sk I13 L0", "the value of key `k` has the unknown type 13; the file is damaged, or newer"},
    {"M I3 L0 L1 Skk I10 I0", "the value of key `kk` needs 8 bytes at byte 38, but only 4 follow"},
    {"M I3 L0 L1 Sk I8 L9 Z8", "the value of key `k` needs 9 bytes at byte 45, but only 8 follow"},
    {"M I3 L0 L1 Sk I9 I9 L1 I4 L1 I7", "the value of key `k` is an array of arrays, which is not supported"},
    {"M I3 L0 L1 Sk I9 I99 L1", "the value of key `k` has the unknown type 99"},
    {"M I3 L0 L1 Sk I9 I4 L0x1000000000000001 I7",
     "the value of key `k` needs 4611686018427387908 bytes at byte 49, but only 4 follow"},
    {"M I3 L0 L1 Sk I9 I10 L0x4000000000000001 I7", "the value of key `k` needs 18446744073709551615 bytes"},
    {"M I3 L0 L1 Sk I9 I8 L0x2000000000000000 L0",
     "the number of strings in an array is 2305843009213693952, but only 8 bytes"},
    {"M I3 L0 L1 Sk I9 I8 L2 Sa L9 B0", "the value of key `k` needs 9 bytes at byte 66, but only 1 follow"},
    {"M I3 L0 L2 Sk I4 I7 Sk I4 I7", "has two keys `k`; convert the model again"},
    {"M I3 L0 L1 Sgeneral.alignment I4 I48", "the value of key `general.alignment` is 48, and must be a power of two"},
    {"M I3 L0 L1 Sgeneral.alignment I4 I0", "the value of key `general.alignment` is 0, and must be a power of two"},
    {"M I3 L0 L1 Sgeneral.alignment I6 I32", "the value of key `general.alignment` has the type float32"},
    {"M I3 L1 L0 L256 Z999", "the name of tensor 0 has 256 bytes, and must have 1 to 255"},
    {ONE_TENSOR "L4 I0 I0", "tensor `w` needs 8 bytes at byte 49, but only 4 follow"},
    {"M I3 L1 L0 Sw I5 L1 L1 L1 L1 L1 I0 L0 P Z4", "tensor `w` has 5 dimensions; at most 4 are possible"},
    {ONE_TENSOR "L8 I4 L0 P Z99", "tensor `w` has the unknown type 4; the file is damaged, or newer than this program"},
    {ONE_TENSOR "L48 I2 L0 P Z99",
     "tensor `w` has 48 x 1 x 1 x 1 elements of the type Q4_0, which is not a possible size (rows consist of blocks of "
     "32 elements)"},
    {ONE_TENSOR "L0xFFFFFFFFFFFFFFFF I0 L0 P Z99", "tensor `w` has -1 x 1 x 1 x 1 elements of the type F32"},
    {"M I3 L1 L0 Sw I2 L0x100000000 L0x100000000 I24 L0 P Z9", "tensor `w` has 4294967296 x 4294967296 x 1 x 1"},
    {ONE_TENSOR "L0x4000000000000000 I0 L0 P Z99", "which is not a possible size"},
    {ONE_TENSOR "L4 I0 L16 P Z64",
     "tensor `w` has the offset 16, which is not a multiple of the alignment 32; the file is damaged"},
    {ONE_TENSOR "L4 I0 L32 P Z47",
     "tensor `w` has 16 bytes at the offset 32, but only 47 bytes of data exist; the file is truncated or damaged"},
    {ONE_TENSOR "L8 I0 L0xFFFFFFFFFFFFFFE0 P Z64", "tensor `w` has 32 bytes at the offset 18446744073709551584"},
    {ONE_TENSOR "L4 I0 L0", "tensor `w` has 16 bytes at the offset 0, but only 0 bytes of data exist"},
    {"M I3 L2 L0 Sw I1 L4 I0 L0 Sw I1 L4 I0 L32 P Z64", "has two tensors `w`; convert the model again"},
    {"M I3 L2 L0 Sv I1 L4 I0 L32 Sw I1 L9 I0 L0 P Z64", "tensors `w` and `v` overlap at byte "},
};

static void test_damaged_files_are_refused(void **state) {
  (void)state;
  tri_gguf_file file;
  const size_t held = tri_memory_bytes();
  for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
    CHECK_FAILS(open_image(hostile[i].words, &file), TRI_BAD_FILE, hostile[i].message);
  }
  CHECK_FAILS(tri_gguf_open("missing.gguf", &file), TRI_BAD_FILE, "cannot open missing.gguf: No such file");
  assert_int_equal(tri_memory_bytes(), held);
}

/* Every beginning of a file is refused. */
static void test_truncated_files_are_refused(void **state) {
  (void)state;
  static char image[IMAGE_BYTES];
  const char *words = "M I2 L1 L3 Sa I4 I7 Sb I8 Stext Sc I9 I8 L2 Sx Syz Sw I1 L4 I0 L0 P Z16";
  const size_t bytes = make_image(words, image);
  tri_gguf_file file;
  for (size_t cut = 0; cut < bytes; cut++) {
    write_file(image, cut);
    CHECK_FAILS(tri_gguf_open(FILE_NAME, &file), TRI_BAD_FILE, FILE_NAME);
  }
  CHECK_OK(open_image(words, &file));
  assert_int_equal(file.version, 2);
  tri_gguf_close(&file);
}

static void test_values_have_their_types(void **state) {
  (void)state;
  tri_gguf_file file;
  const char *text = NULL;
  int64_t integer = 0, count = 0, *integers = NULL;
  double number = 0, *numbers = NULL;
  bool truth = false;
  tri_gguf_text *texts = NULL;
  CHECK_OK(
      open_image("M I3 L0 L7 Si I1 B0x80 Sbig I10 L0x8000000000000000 Ss I8 Stext Snul I8 L1 B0 Sarray I9 I2 L2 "
                 "B1 B0 B0xFF B0xFF Sempty I9 I8 L0 Sf I6 I0x3F000000",
                 &file));
  CHECK_OK(tri_gguf_get_integer(&file, "i", &integer));
  assert_int_equal(integer, -128);
  CHECK_OK(tri_gguf_get_string(&file, "s", &text));
  assert_string_equal(text, "text");
  CHECK_OK(tri_gguf_get_number(&file, "f", &number));
  assert_true(number == 0.5);
  CHECK_OK(tri_gguf_get_integers(&file, "array", &integers, &count));
  assert_true(count == 2 && integers[0] == 1 && integers[1] == 65535);
  CHECK_OK(tri_gguf_get_strings(&file, "empty", &texts, &count));
  assert_int_equal(count, 0);
  tri_free(integers);
  tri_free(texts);
  CHECK_FAILS(tri_gguf_get_integer(&file, "none", &integer), TRI_BAD_FILE,
              FILE_NAME " has no key `none`, which is needed; convert the model again");
  CHECK_FAILS(tri_gguf_get_integer(&file, "big", &integer), TRI_BAD_FILE,
              "the value of key `big` is 9223372036854775808; at most 9223372036854775807 is supported");
  CHECK_FAILS(tri_gguf_get_integer(&file, "f", &integer), TRI_BAD_FILE,
              "the value of key `f` has the type float32, and must be an integer");
  CHECK_FAILS(tri_gguf_get_integer(&file, "array", &integer), TRI_BAD_FILE,
              "the value of key `array` is an array, and must be a single value");
  CHECK_FAILS(tri_gguf_get_integers(&file, "i", &integers, &count), TRI_BAD_FILE,
              "the value of key `i` is not an array, and must be an array");
  CHECK_FAILS(tri_gguf_get_numbers(&file, "array", &numbers, &count), TRI_BAD_FILE,
              "has the type uint16 of array elements, and must be float32 or float64");
  CHECK_FAILS(tri_gguf_get_string(&file, "i", &text), TRI_BAD_FILE, "has the type int8, and must be a string");
  CHECK_FAILS(tri_gguf_get_string(&file, "nul", &text), TRI_BAD_FILE, "the string of key `nul` contains a NUL");
  CHECK_FAILS(tri_gguf_get_bool(&file, "i", &truth), TRI_BAD_FILE, "has the type int8, and must be a bool");
  tri_gguf_close(&file);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Describes a file of two tensors, of 300 kB and 68 bytes. */
static tri_gguf_header *make_header(void) {
  static const int64_t large[] = {300, 250}, small[] = {32, 2, 1};
  static const int32_t numbers[] = {-1, 1 << 30};
  static const tri_gguf_text texts[] = {{"a", 1}, {"", 0}, {"b\0c", 3}};
  tri_gguf_header *header = NULL;
  CHECK_OK(tri_gguf_header_create(&header));
  CHECK_OK(tri_gguf_add_string(header, "general.architecture", "llama"));
  CHECK_OK(tri_gguf_add_uint32(header, "llama.block_count", 2));
  CHECK_OK(tri_gguf_add_float32(header, "llama.epsilon", 1e-5f));
  CHECK_OK(tri_gguf_add_bool(header, "tokenizer.add_bos", true));
  CHECK_OK(tri_gguf_add_values(header, "numbers", TRI_GGUF_INT32, 2, numbers));
  CHECK_OK(tri_gguf_add_strings(header, "texts", 3, texts));
  CHECK_OK(tri_gguf_add_tensor(header, "large", tri_gguf_type_of(TRI_GGUF_F32), 2, large));
  CHECK_OK(tri_gguf_add_tensor(header, "small", tri_gguf_type_of(TRI_GGUF_Q8_0), 3, small));
  CHECK_OK(tri_gguf_header_layout(header));
  return header;
}

/* Two ranks write; the second one the small tensor and the end of the large one. */
static void test_round_trip(void **state) {
  (void)state;
  enum { LARGE = 300000, SMALL = 68, CUT = 1001 };
  static char large[LARGE], small[SMALL], read[LARGE];
  tri_gguf_output *first = NULL, *second = NULL;
  tri_gguf_header *header = make_header();
  int64_t count = 0;
  const tri_gguf_tensor *tensors = tri_gguf_header_tensors(header, &count);
  for (int i = 0; i < LARGE; i++) large[i] = (char)(i * 7 + i / 251);
  for (int i = 0; i < SMALL; i++) small[i] = (char)(i + 1);
  unlink(FILE_NAME);
  CHECK_OK(tri_gguf_output_create(header, FILE_NAME, &first));
  CHECK_OK(tri_gguf_output_join(tri_gguf_output_temporary(first), &second));
  CHECK_OK(tri_gguf_put(second, &tensors[1], 0, SMALL, small));
  CHECK_OK(tri_gguf_put(second, &tensors[0], CUT, LARGE - CUT, large + CUT));
  CHECK_OK(tri_gguf_put(first, &tensors[0], 0, CUT, large));
  CHECK_FAILS(tri_gguf_put(first, &tensors[1], 60, 9, large), TRI_INTERNAL, "bytes [60, 69) of tensor `small`");
  CHECK_OK(tri_gguf_output_finish(second, TRI_OK));
  assert_false(tri_path_exists(FILE_NAME));
  CHECK_OK(tri_gguf_output_finish(first, TRI_OK));
  tri_gguf_file file;
  CHECK_OK(tri_gguf_open(FILE_NAME, &file));
  assert_true(count == 2 && file.num_tensors == 2 && file.num_keys == 6 && file.version == 3);
  assert_int_equal(file.file_bytes, tri_gguf_header_file_bytes(header));
  const tri_gguf_tensor *of_file = tri_gguf_find_tensor(&file, "large");
  assert_true(of_file->offset == tensors[0].offset && of_file->dims[0] == 300 && of_file->dims[1] == 250);
  CHECK_OK(tri_gguf_read(&file, of_file, 0, LARGE, read));
  assert_memory_equal(read, large, LARGE);
  CHECK_FAILS(tri_gguf_read(&file, of_file, 1, LARGE, read), TRI_INTERNAL, "of tensor `large`, which has 300000");
  CHECK_OK(tri_gguf_read(&file, tri_gguf_find_tensor(&file, "small"), 3, SMALL - 3, read));
  assert_memory_equal(read, small + 3, SMALL - 3);
  assert_null(tri_gguf_find_tensor(&file, "none"));
  tri_gguf_text *texts = NULL;
  CHECK_OK(tri_gguf_get_strings(&file, "texts", &texts, &count));
  assert_true(count == 3 && texts[1].bytes == 0 && texts[2].bytes == 3 && memcmp(texts[2].text, "b\0c", 3) == 0);
  tri_free(texts);
  tri_gguf_close(&file);
  tri_gguf_header_destroy(header);
  assert_int_equal(tri_memory_bytes(), 0);
}

/* The header is read in pieces, the first one of 64 KiB. */
static void test_long_headers(void **state) {
  (void)state;
  enum { TEXTS = 20000, TENSORS = 2000 };
  static char words[TEXTS][16];
  static tri_gguf_text texts[TEXTS];
  static const int64_t dims[] = {32};
  tri_gguf_header *header = NULL;
  tri_gguf_output *output = NULL;
  char name[32];
  CHECK_OK(tri_gguf_header_create(&header));
  for (int i = 0; i < TEXTS; i++) {
    texts[i] = (tri_gguf_text){words[i], (size_t)snprintf(words[i], sizeof words[i], "%d", i * i)};
  }
  CHECK_OK(tri_gguf_add_strings(header, "texts", TEXTS, texts));
  CHECK_OK(tri_gguf_add_string(header, "last", "x"));
  for (int i = 0; i < TENSORS; i++) {
    snprintf(name, sizeof name, "tensor.%d", i);
    CHECK_OK(tri_gguf_add_tensor(header, name, tri_gguf_type_of(TRI_GGUF_Q4_0), 1, dims));
  }
  CHECK_OK(tri_gguf_header_layout(header));
  CHECK_OK(tri_gguf_output_create(header, FILE_NAME, &output));
  CHECK_OK(tri_gguf_output_finish(output, TRI_OK));
  tri_gguf_file file;
  tri_gguf_text *read = NULL;
  int64_t count = 0;
  const char *last = NULL;
  CHECK_OK(tri_gguf_open(FILE_NAME, &file));
  CHECK_OK(tri_gguf_get_strings(&file, "texts", &read, &count));
  assert_int_equal(count, TEXTS);
  for (int i = 0; i < TEXTS; i++) {
    assert_int_equal(read[i].bytes, texts[i].bytes);
    assert_memory_equal(read[i].text, texts[i].text, texts[i].bytes);
  }
  CHECK_OK(tri_gguf_get_string(&file, "last", &last));
  assert_string_equal(last, "x");
  assert_string_equal(tri_gguf_find_tensor(&file, "tensor.1234")->name, file.tensors[1234].name);
  assert_int_equal(file.tensors[TENSORS - 1].offset - file.tensors[0].offset, 32 * (TENSORS - 1));
  tri_free(read);
  tri_gguf_close(&file);
  tri_gguf_header_destroy(header);
}

static void test_a_giant_header_is_refused(void **state) {
  (void)state;
  tri_gguf_file file;
  static char image[IMAGE_BYTES];
  const size_t bytes = make_image("M I3 L0 L1 Sk I9 I0 L0x20000000", image);
  write_file(image, bytes);
  assert_int_equal(truncate(FILE_NAME, 0x20000100), 0);
  CHECK_FAILS(tri_gguf_open(FILE_NAME, &file), TRI_BAD_FILE,
              "the value of key `k` ends at byte 536870961; at most 268435456 bytes of keys and descriptions");
}

/* The limit of a file's size stands for a full disk. */
static void test_a_failed_write_leaves_no_file(void **state) {
  (void)state;
  static char large[300000];
  tri_gguf_output *output = NULL;
  tri_gguf_header *header = make_header();
  int64_t count = 0;
  const tri_gguf_tensor *tensors = tri_gguf_header_tensors(header, &count);
  struct rlimit before;
  char temporary[TRI_PATH_BYTES];
  write_file("old", 3);
  CHECK_OK(tri_gguf_output_create(header, FILE_NAME, &output));
  snprintf(temporary, sizeof temporary, "%s", tri_gguf_output_temporary(output));
  signal(SIGXFSZ, SIG_IGN);
  getrlimit(RLIMIT_FSIZE, &before);
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 200000, .rlim_max = before.rlim_max});
  const tri_status status = tri_gguf_put(output, &tensors[0], 0, sizeof large, large);
  setrlimit(RLIMIT_FSIZE, &before);
  assert_true(tri_path_exists(temporary));
  CHECK_FAILS(tri_gguf_output_finish(output, status), TRI_IO_FAILED, "File too large");
  assert_false(tri_path_exists(temporary));
  tri_gguf_file file;
  CHECK_FAILS(tri_gguf_open(FILE_NAME, &file), TRI_BAD_FILE, "does not begin with `GGUF`");
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 200000, .rlim_max = before.rlim_max});
  const tri_status created = tri_gguf_output_create(header, FILE_NAME, &output);
  setrlimit(RLIMIT_FSIZE, &before);
  CHECK_FAILS(created, TRI_IO_FAILED, "File too large");
  assert_false(tri_path_exists(temporary));
  CHECK_FAILS(tri_gguf_output_create(header, "none/x.gguf", &output), TRI_IO_FAILED, "cannot create none/x.gguf");
  CHECK_FAILS(tri_gguf_output_join("none.tmp", &output), TRI_IO_FAILED,
              "cannot open none.tmp, which the first rank has created: No such file or directory; all ranks must see");
  tri_gguf_header_destroy(header);
}

static void test_impossible_content_is_refused(void **state) {
  (void)state;
  static const int64_t dims[] = {48, 2};
  const tri_gguf_type *q4_0 = tri_gguf_type_named("Q4_0"), *f32 = tri_gguf_type_named("F32");
  tri_gguf_header *header = NULL;
  char name[66] = {0};
  memset(name, 'x', 64);
  CHECK_OK(tri_gguf_header_create(&header));
  CHECK_OK(tri_gguf_add_uint32(header, "a", 1));
  CHECK_FAILS(tri_gguf_add_uint32(header, "a", 1), TRI_INTERNAL, "two keys `a`");
  CHECK_FAILS(tri_gguf_add_uint32(header, "general.alignment", 64), TRI_INTERNAL,
              "`general.alignment` cannot be a key");
  CHECK_FAILS(tri_gguf_add_tensor(header, "w", q4_0, 2, dims), TRI_UNSUPPORTED,
              "tensor `w` has rows of 48 elements, which Q4_0 cannot store: its blocks have 32; choose F16 or BF16");
  CHECK_FAILS(tri_gguf_add_tensor(header, name, f32, 2, dims), TRI_UNSUPPORTED, "has 64 bytes; a GGUF file allows 63");
  CHECK_OK(tri_gguf_add_tensor(header, name + 1, f32, 2, dims));
  CHECK_FAILS(tri_gguf_add_tensor(header, name + 1, f32, 2, dims), TRI_INTERNAL, "two tensors");
  tri_gguf_header_destroy(header);
  CHECK_FAILS(tri_gguf_encode(tri_gguf_type_named("Q6_K"), 0, NULL, NULL), TRI_UNSUPPORTED,
              "tensors of the type Q6_K cannot be written; choose F32");
  CHECK_FAILS(tri_gguf_decode(tri_gguf_type_named("Q2_K"), "F", 0, NULL, NULL), TRI_UNSUPPORTED,
              "F: tensors of the type Q2_K cannot be read; take a GGUF file of another type");
  assert_null(tri_gguf_type_named("Q4_K_M"));
}

/* ---- fp16 -------------------------------------------------------------------------------------------------------- */

static uint16_t neighbour(uint16_t half, float by) { return tri_f16_of(tri_float_of_f16(half) * by); }

/* All fp16 numbers keep their bits, and the middles between neighbours are rounded to even. */
static void test_half_precision(void **state) {
  (void)state;
  for (uint32_t h = 0; h < 0x7C00; h++) {
    const float value = tri_float_of_f16((uint16_t)h),
                next = h == 0x7BFF ? 65536.0f : tri_float_of_f16((uint16_t)(h + 1));
    const float middle = value + (next - value) / 2;
    assert_int_equal(tri_f16_of(value), h);
    assert_int_equal(tri_f16_of(-value), h | 0x8000);
    assert_int_equal(tri_f16_of(middle), h + (h & 1));
    assert_int_equal(tri_f16_of(nextafterf(middle, 0)), h);
    assert_int_equal(tri_f16_of(nextafterf(middle, INFINITY)), h + 1);
  }
  assert_int_equal(tri_f16_of(INFINITY), 0x7C00);
  assert_int_equal(tri_f16_of(-3e38f), 0xFC00);
  assert_true(isnan(tri_float_of_f16(tri_f16_of(NAN))));
  assert_int_equal(neighbour(1, 0.25f), 0);
}

int main(void) {
  char folder[] = "/tmp/trireme-gguf-XXXXXX";
  if (mkdtemp(folder) == NULL || chdir(folder) != 0) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_damaged_files_are_refused),
      cmocka_unit_test(test_truncated_files_are_refused),
      cmocka_unit_test(test_values_have_their_types),
      cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_a_failed_write_leaves_no_file),
      cmocka_unit_test(test_long_headers),
      cmocka_unit_test(test_a_giant_header_is_refused),
      cmocka_unit_test(test_impossible_content_is_refused),
      cmocka_unit_test(test_half_precision),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  if (chdir("/") != 0) return 1;
  if (tri_directory_remove(folder) != TRI_OK) return 1;
  return failed;
}
