/* Compiles all kernels, for each type, for one of the chips of chips.h with its vendor's run-time compiler, and says
 * what each needs:
 *
 *   compile_kernels gfx90a [FOLDER]
 *
 * The images go into the folder, as MODULE-BITS.image. A compiler takes a quarter of a minute for a type: where
 * TRIREME_TEST_SEED is set (scripts/test.sh), one of them is compiled, another one for each of three chips, and all
 * where TRIREME_LAYOUTS=all.
 *
 * It fails where the compiler warns, where a kernel asks for more than the chip has, and where products or attention in
 * fp32 or bf16 keep registers in memory. 77 (SKIPPED) where there is no compiler. */
#include "base/memory.h"
#include "chips.h"
#include "device/gpu/compiler.h"
#include "device/gpu/kernel_list.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAILED = 1, SKIPPED = 77, NUM_TYPES = 3 };

typedef struct kernel_row {
  const char *name;
  int threads;
  size_t argument_bytes;
} kernel_row;

#define KERNEL_ROW(name, threads) {#name, threads, sizeof(name##_arguments)},
static const kernel_row kernels[] = {TRI_GPU_KERNELS(KERNEL_ROW)};

typedef struct module_row {
  const char *name;
  int num_kernels;
} module_row;

#define MODULE_ROW(name) {#name, 0 TRI_GPU_KERNELS_##name(TRI_GPU_ONE_)},
static const module_row modules[] = {TRI_GPU_MODULES(MODULE_ROW)};

typedef struct test {
  const chip *chip;
  const tri_gpu_compiler *compiler;
  const char *folder; /* or NULL */
  int faults;
} test;

static void fault(test *t, const char *kernel, int bits, const char *what) {
  printf("FAILED: kernel %s, %d bits, on %s: %s\n", kernel, bits, t->chip->architecture, what);
  t->faults++;
}

/* ---- one kernel -------------------------------------------------------------------------------------------------- */

typedef struct resources {
  char name[64];
  int registers;
  size_t shared_bytes, spilled_bytes;
} resources;

static bool read_resources(const char *line, resources *out) {
  int end = 0;
  return sscanf(line, "kernel %63[^:]: %d registers, %zu bytes of shared memory, %zu bytes spilled%n", out->name,
                &out->registers, &out->shared_bytes, &out->spilled_bytes, &end) == 4 &&
         line[end] == '\0';
}

/* Products and attention are what a step's time goes into: a spill there is a slow kernel. fp64 is for parity. */
static bool may_spill(const char *module, int bits) {
  return bits == 64 ||
         (strcmp(module, "matmul") != 0 && strcmp(module, "grouped") != 0 && strcmp(module, "attention") != 0);
}

static void check(test *t, const char *module, int bits, const kernel_row *k, const resources *r) {
  const chip *c = t->chip;
  char text[160];
  if (r->registers < 1) fault(t, k->name, bits, "no register was counted");
  if (r->spilled_bytes > 0 && !may_spill(module, bits)) fault(t, k->name, bits, "registers are spilled to memory");
  if (r->shared_bytes > c->shared_declared) {
    snprintf(text, sizeof text, "it declares %zu bytes of shared memory, more than %zu", r->shared_bytes,
             c->shared_declared);
    fault(t, k->name, bits, text);
  }
  if (k->threads % c->warp != 0 || k->threads < 64 || k->threads > (int)c->block_threads) {
    snprintf(text, sizeof text, "blocks of %d threads are none that it takes", k->threads);
    fault(t, k->name, bits, text);
  }
  if (r->registers > c->thread_registers ||
      (c->block_registers > 0 && (r->registers + 7) / 8 * 8 * k->threads > c->block_registers)) {
    snprintf(text, sizeof text, "%d registers are more than it has for %d threads", r->registers, k->threads);
    fault(t, k->name, bits, text);
  }
  if (k->argument_bytes > c->argument_bytes) fault(t, k->name, bits, "its arguments are too long");
}

/* ---- one module -------------------------------------------------------------------------------------------------- */

/* Each line of the log is about one of its kernels, and each kernel has a line: anything else is a warning. */
static void check_log(test *t, const module_row *m, int bits, const kernel_row *first, char *log) {
  int told = 0;
  char *rest = log;
  for (char *line = strtok_r(log, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
    resources r;
    const kernel_row *of = NULL;
    printf("%s %-9s %2d bits %s\n", t->chip->architecture, m->name, bits, line);
    if (read_resources(line, &r)) {
      for (int i = 0; i < m->num_kernels; i++) {
        if (strcmp(first[i].name, r.name) == 0) of = &first[i];
      }
    }
    if (of == NULL) {
      fault(t, m->name, bits, "the compiler says something that is not a kernel's line");
      continue;
    }
    told++;
    check(t, m->name, bits, of, &r);
  }
  if (told != m->num_kernels) fault(t, m->name, bits, "the log is not about all of its kernels, once each");
}

static void keep(test *t, const module_row *m, int bits, const void *image, size_t bytes) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s-%d.image", t->folder, m->name, bits);
  FILE *file = fopen(path, "wb");
  if (file == NULL || fwrite(image, 1, bytes, file) != bytes) fault(t, m->name, bits, "its image cannot be written");
  if (file != NULL) fclose(file);
}

static void compile(test *t, const module_row *m, int bits, const kernel_row *first) {
  char source[128], *log = NULL;
  void *image = NULL;
  size_t bytes = 0;
  snprintf(source, sizeof source, "device/gpu/kernels/%s.c", m->name);
  const tri_gpu_compilation what = {
      .source = source, .architecture = t->chip->architecture, .type_bits = bits, .show_resources = true};
  if (tri_gpu_compiler_compile(t->compiler, &what, &image, &bytes, &log) != TRI_OK) {
    fault(t, m->name, bits, tri_status_message());
    return;
  }
  check_log(t, m, bits, first, log);
  if (t->folder != NULL) keep(t, m, bits, image, bytes);
  tri_free(image);
  tri_free(log);
}

static const chip *chip_of(const char *architecture) {
  for (int i = 0; i < NUM_CHIPS; i++) {
    if (strcmp(chips[i].architecture, architecture) == 0) return &chips[i];
  }
  return NULL;
}

/* Whether this run of the tests compiles the type of this number for the chip. */
static bool is_drawn(const chip *of, int type) {
  const char *seed = getenv("TRIREME_TEST_SEED"), *which = getenv("TRIREME_LAYOUTS");
  if (seed == NULL || (which != NULL && strcmp(which, "all") == 0)) return true;
  return (strtol(seed, NULL, 10) + (of - chips)) % NUM_TYPES == type;
}

int main(int argc, char **argv) {
  static const int types[NUM_TYPES] = {64, 32, 16};
  test t = {.chip = argc == 2 || argc == 3 ? chip_of(argv[1]) : NULL, .folder = argc == 3 ? argv[2] : NULL};
  if (t.chip != NULL) t.compiler = tri_gpu_compiler_for(t.chip->architecture);
  if (t.compiler == NULL) {
    fprintf(stderr, "usage: compile_kernels CHIP [FOLDER], a chip of chips.h\n");
    return 2;
  }
  if (tri_gpu_compiler_open(t.compiler) != TRI_OK) {
    printf("SKIPPED: nothing was compiled for %s: %s\n", t.chip->architecture, tri_status_message());
    return SKIPPED;
  }
  printf("%s %s, %s\n", t.compiler->name, t.compiler->facts->version, t.compiler->facts->path);
  for (int i = 0; i < NUM_TYPES; i++) {
    const kernel_row *first = kernels;
    if (!is_drawn(t.chip, i)) continue;
    for (int m = 0; m < TRI_GPU_NUM_MODULES; first += modules[m++].num_kernels)
      compile(&t, &modules[m], types[i], first);
  }
  return t.faults == 0 ? 0 : FAILED;
}
