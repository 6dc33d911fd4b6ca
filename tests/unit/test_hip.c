/* Reading of AMD's code objects, of the names of chips, and of the device files of GPUs. */
#include "base/memory.h"
#include "check.h"
#include "device/gpu/code_object.h"
#include "device/gpu/hip_driver.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- a code object, by hand -------------------------------------------------------------------------------------- */

typedef struct bytes {
  unsigned char at[4096];
  size_t count;
} bytes;

static void put(bytes *b, const void *from, size_t count) {
  assert_true(count <= sizeof b->at - b->count);
  memcpy(b->at + b->count, from, count);
  b->count += count;
}

static void write_byte(bytes *b, int byte) { put(b, &(unsigned char){(unsigned char)byte}, 1); }

static void write_text(bytes *b, const char *text) {
  write_byte(b, 0xa0 | (int)strlen(text));
  put(b, text, strlen(text));
}

/* Writes keys that are not requested, with a value of each kind that the note may contain: they are skipped. */
static void write_others(bytes *b) {
  static const unsigned char others[] = {
      0x93, 0xc0, 0xc2, 0xc3,                                                 /* [nil, false, true] */
      0xca, 1,    2,    3,    4,   0xcb, 1,    2, 3,   4,    5,    6, 7, 8,   /* fp32, fp64 */
      0xd0, 1,    0xd1, 1,    2,   0xd2, 1,    2, 3,   4,                     /* signed */
      0xd3, 1,    2,    3,    4,   5,    6,    7, 8,   0xff,                  /* and a small negative one */
      0xd9, 3,    'a',  'b',  'c', 0xda, 0,    1, 'd',                        /* texts with lengths */
      0xdb, 0,    0,    0,    1,   'e',  0xdc, 0, 1,   7,    0xdd, 0, 0, 0, 0 /* arrays */
  };
  write_text(b, ".others");
  write_byte(b, 0xdc);
  write_byte(b, 0);
  write_byte(b, 14);
  put(b, others, sizeof others);
  write_byte(b, 0x81); /* {k: {}} */
  write_text(b, "k");
  write_byte(b, 0x80);
}

static void write_kernel(bytes *b) {
  write_byte(b, 0xde);
  write_byte(b, 0);
  write_byte(b, 8);
  write_others(b);
  write_text(b, ".name");
  write_text(b, "norm");
  write_text(b, ".vgpr_count");
  write_byte(b, 96);
  write_text(b, ".sgpr_count");
  put(b, (unsigned char[]){0xcc, 200}, 2);
  write_text(b, ".wavefront_size");
  write_byte(b, 64);
  write_text(b, ".max_flat_workgroup_size");
  put(b, (unsigned char[]){0xcd, 1, 0}, 3);
  write_text(b, ".group_segment_fixed_size");
  put(b, (unsigned char[]){0xce, 0, 1, 0, 0}, 5);
  write_text(b, ".kernarg_segment_size");
  put(b, (unsigned char[]){0xcf, 0, 0, 0, 0, 0, 0, 1, 8}, 9);
}

static void make_note(bytes *b) {
  write_byte(b, 0x82);
  write_others(b);
  write_text(b, "amdhsa.kernels");
  write_byte(b, 0x91);
  write_kernel(b);
}

/* Writes a file whose note is in its second part, after a note of another kind. */
static void make_file(bytes *b) {
  bytes note = {.count = 0};
  Elf64_Ehdr file = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64}, .e_phoff = sizeof file};
  Elf64_Phdr parts[2] = {{.p_type = PT_LOAD}, {.p_type = PT_NOTE, .p_offset = sizeof file + sizeof parts}};
  Elf64_Nhdr other = {.n_namesz = 4, .n_descsz = 5, .n_type = 32}, own = {.n_namesz = 7, .n_type = 32};
  make_note(&note);
  own.n_descsz = (Elf64_Word)note.count;
  file.e_phentsize = sizeof parts[0];
  file.e_phnum = 2;
  parts[1].p_filesz = sizeof other + 12 + sizeof own + 8 + note.count;
  put(b, &file, sizeof file);
  put(b, parts, sizeof parts);
  put(b, &other, sizeof other);
  put(b, "GNU\0hello\0\0\0", 12);
  put(b, &own, sizeof own);
  put(b, "AMDGPU\0\0", 8);
  put(b, note.at, note.count);
}

static void kernels_of_a_code_object(void **state) {
  (void)state;
  bytes b = {.count = 0};
  tri_gpu_code_kernel *kernels = NULL;
  int count = 0;
  make_file(&b);
  CHECK_OK(tri_gpu_code_kernels(b.at, b.count, &kernels, &count));
  assert_int_equal(count, 1);
  assert_string_equal(kernels[0].name, "norm");
  assert_int_equal(kernels[0].registers, 96);
  assert_int_equal(kernels[0].scalar_registers, 200);
  assert_int_equal(kernels[0].warp, 64);
  assert_int_equal(kernels[0].block_threads, 256);
  assert_int_equal(kernels[0].shared_bytes, 65536);
  assert_int_equal(kernels[0].argument_bytes, 264);
  assert_int_equal(kernels[0].private_bytes, 0);
  tri_free(kernels);
}

/* Reads a copy of exactly that size, so that sanitizers detect reads beyond the end. */
static tri_status read_copy(const bytes *b, size_t size, int *count) {
  tri_gpu_code_kernel *kernels = NULL;
  unsigned char *copy = malloc(size > 0 ? size : 1);
  assert_non_null(copy);
  memcpy(copy, b->at, size);
  tri_status status = tri_gpu_code_kernels(copy, size, &kernels, count);
  free(copy);
  if (status == TRI_OK) tri_free(kernels);
  return status;
}

static void damaged_code_objects(void **state) {
  (void)state;
  bytes b = {.count = 0};
  int count = 0;
  make_file(&b);
  for (size_t size = 0; size < b.count; size++)
    CHECK_FAILS(read_copy(&b, size, &count), TRI_BAD_FILE, "not a whole code object of AMD's");
  for (size_t i = 0; i < b.count; i++) {
    for (int bit = 0; bit < 8; bit++) {
      bytes other = b;
      other.at[i] ^= (unsigned char)(1 << bit);
      tri_status status = read_copy(&other, other.count, &count);
      assert_true(status == TRI_OK || status == TRI_BAD_FILE || status == TRI_OUT_OF_MEMORY);
    }
  }
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static void chips(void **state) {
  static const char *const names[][2] = {
      {"gfx90a:sramecc+:xnack-", "gfx90a"},
      {"gfx90a", "gfx90a"},
      {"gfx1030", "gfx1030"},
      {"gfx942:sramecc+", "gfx942"},
      {"", ""},
      {"gfx", ""},
      {"gfx90", ""},
      {"MI250X", ""},
      {"gfx90a+", ""},
      {"gfx9-4-generic", ""},
      {":gfx90a", ""},
      {"gfx90a90a90a90a90a90a90a90a90a90a90a90a", ""},
  };
  (void)state;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    char out[16];
    tri_hip_chip(names[i][0], out, sizeof out);
    assert_string_equal(out, names[i][1]);
  }
}

/* ---- why there is no GPU ----------------------------------------------------------------------------------------- */

/* Runs as a user other than root, because root may use every file. */
static void check_absence(const char *kfd, const char *nodes, const char *expected) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    char out[512];
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(2);
    tri_hip_absence(kfd, nodes, out, sizeof out);
    _exit(expected[0] == '\0' ? out[0] != '\0' : strstr(out, expected) == NULL);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (status != 0) fail_msg("not \"%s\" of %s and %s", expected, kfd, nodes);
}

static void files_of_gpus(void **state) {
  (void)state;
  char folder[] = "/tmp/test-hip-XXXXXX", kfd[64], node[64], nodes[64];
  assert_non_null(mkdtemp(folder));
  assert_int_equal(chmod(folder, 0755), 0);
  snprintf(kfd, sizeof kfd, "%s/kfd", folder);
  snprintf(node, sizeof node, "%s/renderD128", folder);
  snprintf(nodes, sizeof nodes, "%s/renderD*", folder);
  check_absence(kfd, nodes, "kfd: this machine has no GPU of AMD's, or its kernel has not loaded the driver amdgpu");
  close(open(kfd, O_CREAT | O_RDWR, 0600));
  assert_int_equal(chmod(kfd, 0000), 0);
  check_absence(kfd, nodes, "/kfd: let the administrator add them to the groups render and video");
  assert_int_equal(chmod(kfd, 0666), 0);
  check_absence(kfd, nodes, "/renderD*: let the administrator add them to the groups render and video");
  close(open(node, O_CREAT | O_RDWR, 0600));
  assert_int_equal(chmod(node, 0000), 0);
  check_absence(kfd, nodes, "/renderD*: let the administrator");
  assert_int_equal(chmod(node, 0666), 0);
  check_absence(kfd, nodes, "");
  unlink(kfd);
  unlink(node);
  rmdir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kernels_of_a_code_object),
      cmocka_unit_test(damaged_code_objects),
      cmocka_unit_test(chips),
      cmocka_unit_test(files_of_gpus),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
