/* Calls of kernels on the emulator, compared with the reference device: warps of 32 and 64, five orders of threads for
 * each, addresses that are not multiples of 16, counted rows. Inputs, and outputs of unused rows, must not change by a
 * bit; inputs of unused rows are NaN. */
#ifndef TRI_TESTS_GPU_PROBLEM_H
#define TRI_TESTS_GPU_PROBLEM_H

#include "gpu_array.h"
#include "sanitized.h"
#include "share.h"

enum { MOST_ARRAYS = 9, GUARD = 64, ROOM = 4 << 20, UNTOUCHED = 0x5a, POISON = 0xff };

typedef enum role { INPUT, OUTPUT, BOTH } role;

typedef struct array {
  tri_dtype type;
  int64_t count;
  role role;
  unsigned char *before; /* contents when the kernel begins */
} array;

/* A call: arrays[0] is the count of rows. */
typedef struct problem problem;
typedef tri_status problem_call(tri_queue *queue, const problem *p, void *const *at);
struct problem {
  const char *name;
  problem_call *call;
  tri_dtype type, wide;
  int64_t rows, live, width;
  bool counted;
  bool pieces; /* of norms: two pieces in each row */
  bool tall;   /* sums of rows: tested with many rows, and not with the widest */
  array arrays[MOST_ARRAYS];
  int num_arrays;
};

#define KERNEL(name, ...) queue->device->kernels->name(queue, __VA_ARGS__)

static inline tri_rows rows_of(const problem *p, void *const *at) {
  return (tri_rows){p->rows, p->counted ? (const int32_t *)at[0] : NULL};
}

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

static inline size_t bytes_of(const array *a) { return (size_t)a->count * tri_dtype_bytes(a->type); }

/* Adds an array of `live` random numbers around `mean`, followed by NaN. An output has only NaN. */
static inline array *add_array(problem *p, role is, tri_dtype type, int64_t count, int64_t live, double mean) {
  array *a = &p->arrays[p->num_arrays++];
  const tri_random_key key = tri_random_stream(11, TRI_RANDOM_TEST, (uint64_t)p->num_arrays);
  *a = (array){.type = type, .count = count, .role = is};
  a->before = malloc(bytes_of(a) + 1);
  assert_non_null(a->before);
  memset(a->before, POISON, bytes_of(a));
  for (int64_t i = 0; i < live && is != OUTPUT; i++) {
    gpu_store(type, a->before, i, mean + tri_random_normal(key, (uint64_t)i));
  }
  return a;
}

static inline void of_rows(problem *p, role is, int64_t width) {
  add_array(p, is, p->type, p->rows * width, p->live * width, 0.25);
}
static inline void of_wides(problem *p, role is, int64_t count) { add_array(p, is, p->wide, count, count, 1.0); }

/* Begins a problem with `live` counted rows; -1: all rows, without a count. */
static inline problem begin(const char *name, problem_call *call, tri_dtype type, int64_t rows, int64_t live,
                            int64_t width) {
  problem p = {.name = name, .call = call, .type = type, .wide = tri_dtype_wide(type), .rows = rows, .width = width};
  p.counted = live >= 0;
  p.live = live < 0 || live > rows ? rows : live;
  gpu_store(TRI_INT32, add_array(&p, INPUT, TRI_INT32, 1, 0, 0)->before, 0, (double)live);
  return p;
}

static inline void end(problem *p) {
  for (int i = 0; i < p->num_arrays; i++) free(p->arrays[i].before);
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

/* A device, with memory for each array of a problem. */
typedef struct bench {
  tri_device *device;
  void *memory[MOST_ARRAYS];
} bench;

static inline void open_bench(const char *name, bench *out) {
  CHECK_OK(tri_device_create(name, 1, &out->device));
  for (int i = 0; i < MOST_ARRAYS; i++) CHECK_OK(tri_device_memory_create(out->device, ROOM, &out->memory[i]));
}

static inline void close_bench(bench *b) {
  for (int i = 0; i < MOST_ARRAYS; i++) tri_device_memory_destroy(b->device, b->memory[i], ROOM);
  tri_device_destroy(b->device);
}

/* Runs the call with all arrays `offset` elements after a multiple of 64 bytes. Sets after[i] to their contents. */
static inline void run(bench *b, const problem *p, int64_t offset, unsigned char *after[MOST_ARRAYS]) {
  unsigned char *images[MOST_ARRAYS] = {0};
  void *at[MOST_ARRAYS] = {0};
  size_t sizes[MOST_ARRAYS] = {0}, leads[MOST_ARRAYS] = {0};
  for (int i = 0; i < p->num_arrays; i++) {
    const array *a = &p->arrays[i];
    leads[i] = GUARD + (size_t)offset * tri_dtype_bytes(a->type);
    sizes[i] = leads[i] + bytes_of(a) + GUARD;
    assert_true(sizes[i] <= ROOM);
    images[i] = malloc(sizes[i]);
    assert_non_null(images[i]);
    memset(images[i], UNTOUCHED, sizes[i]);
    memcpy(images[i] + leads[i], a->before, bytes_of(a));
    at[i] = (char *)b->memory[i] + leads[i];
    CHECK_OK(tri_queue_upload_now(b->device->queue, b->memory[i], images[i], sizes[i]));
  }
  if (p->call(b->device->queue, p, at) != TRI_OK) fail_msg("%s: %s", p->name, tri_status_message());
  for (int i = 0; i < p->num_arrays; i++) {
    const array *a = &p->arrays[i];
    CHECK_OK(tri_queue_download_now(b->device->queue, images[i], b->memory[i], sizes[i]));
    after[i] = malloc(bytes_of(a) + 1);
    assert_non_null(after[i]);
    memcpy(after[i], images[i] + leads[i], bytes_of(a));
    for (size_t k = 0; k < sizes[i]; k++) {
      if (k >= leads[i] && k < leads[i] + bytes_of(a)) continue;
      if (images[i][k] != UNTOUCHED) fail_msg("%s: array %d was written beyond its ends", p->name, i);
    }
    if (a->role == INPUT && memcmp(after[i], a->before, bytes_of(a)) != 0) {
      fail_msg("%s: input %d was written", p->name, i);
    }
    free(images[i]);
  }
}

static inline void release(const problem *p, unsigned char *after[MOST_ARRAYS]) {
  for (int i = 0; i < p->num_arrays; i++) free(after[i]);
}

/* ---- comparisons ------------------------------------------------------------------------------------------------- */

/* Compares by norm. Elements that the reference has not written must be equal to the bit. */
static inline void compare(const problem *p, unsigned char *want[MOST_ARRAYS], unsigned char *got[MOST_ARRAYS],
                           const char *who) {
  for (int i = 0; i < p->num_arrays; i++) {
    const array *a = &p->arrays[i];
    const size_t size = tri_dtype_bytes(a->type);
    double error = 0, norm = 0;
    if (a->role == INPUT) continue;
    for (int64_t k = 0; k < a->count; k++) {
      const size_t from = (size_t)k * size;
      if (memcmp(want[i] + from, a->before + from, size) == 0 && memcmp(got[i] + from, a->before + from, size) != 0 &&
          a->role == OUTPUT) {
        fail_msg("%s (%s) on %s: element %lld of array %d was written", p->name, tri_dtype_name(p->type), who,
                 (long long)k, i);
      }
      if (memcmp(want[i] + from, got[i] + from, size) == 0) {
        norm += isfinite(gpu_load(a->type, want[i], k)) ? pow(gpu_load(a->type, want[i], k), 2) : 0;
        continue;
      }
      error += pow(gpu_load(a->type, want[i], k) - gpu_load(a->type, got[i], k), 2);
      norm += pow(gpu_load(a->type, want[i], k), 2);
    }
    if (!(sqrt(error) <= gpu_tolerance(a->type) * sqrt(norm))) {
      fail_msg("%s (%s, %lld of %lld rows of %lld) on %s: array %d is off by %.3g of %.3g", p->name,
               tri_dtype_name(p->type), (long long)p->live, (long long)p->rows, (long long)p->width, who, i,
               sqrt(error), sqrt(norm));
    }
  }
}

static inline void same_bits(const problem *p, unsigned char *want[MOST_ARRAYS], unsigned char *got[MOST_ARRAYS],
                             const char *who) {
  for (int i = 0; i < p->num_arrays; i++) {
    if (memcmp(want[i], got[i], bytes_of(&p->arrays[i])) == 0) continue;
    for (int64_t k = 0, shown = 0; k < p->arrays[i].count && shown < 4; k++) {
      const double a = gpu_load(p->arrays[i].type, want[i], k), b = gpu_load(p->arrays[i].type, got[i], k);
      if (a == b) continue;
      print_message("  element %lld: %.17g, not %.17g\n", (long long)k, b, a);
      shown++;
    }
    fail_msg("%s (%s, %lld of %lld rows of %lld): array %d has other bits on %s", p->name, tri_dtype_name(p->type),
             (long long)p->live, (long long)p->rows, (long long)p->width, i, who);
  }
}

typedef struct benches {
  bench reference, emulated[GPU_DEVICES];
} benches;

static benches *all;

static inline int open_all(void **state) {
  (void)state;
  all = calloc(1, sizeof *all);
  assert_non_null(all);
  open_bench("reference", &all->reference);
  for (int i = 0; i < GPU_DEVICES; i++) open_bench(gpu_devices[i], &all->emulated[i]);
  return 0;
}

static inline int close_all(void **state) {
  (void)state;
  close_bench(&all->reference);
  for (int i = 0; i < GPU_DEVICES; i++) close_bench(&all->emulated[i]);
  free(all);
  return 0;
}

/* Returns whether to test this device: orders of threads do not depend on the type, so only fp32 is tested with all of
 * them. */
static inline bool is_tried(const problem *p, int name) { return p->type == TRI_FP32 || name % GPU_FIRST_OF_64 < 2; }

/* Checks the problem on the emulated GPUs. The alignment of an array must not change any bit. */
static inline void check(problem *p, bool bits_of_the_reference) {
  unsigned char *want[MOST_ARRAYS] = {0}, *first[MOST_ARRAYS] = {0}, *got[MOST_ARRAYS] = {0};
  run(&all->reference, p, 0, want);
  for (int i = 0; i < GPU_DEVICES; i++) {
    unsigned char **to = i == 0 || i == GPU_FIRST_OF_64 ? first : got;
    if (i == GPU_FIRST_OF_64) release(p, first);
    if (!is_tried(p, i)) continue;
    run(&all->emulated[i], p, 0, to);
    if (to == got) {
      same_bits(p, first, got, gpu_devices[i]);
      release(p, got);
      continue;
    }
    compare(p, want, first, gpu_devices[i]);
    if (bits_of_the_reference) same_bits(p, want, first, gpu_devices[i]);
    run(&all->emulated[i], p, 1, got);
    same_bits(p, first, got, "an odd address");
    release(p, got);
  }
  release(p, first);
  release(p, want);
  end(p);
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

/* live -1: all rows, without a count. Norms change kernels above widths of 1024 and 8192; sums of columns change at 256
 * columns of bf16 and at 4096 rows of one column. */
typedef struct shape {
  int64_t rows, live, width;
} shape;

static const shape shapes[] = {{1, -1, 1},   {1, -1, 7}, {3, -1, 16},   {5, 3, 33},    {70, 37, 64},  {70, 0, 24},
                               {9, 12, 257}, {4, -3, 8}, {2, -1, 1024}, {2, 1, 1032},  {2, -1, 1029}, {1, -1, 8192},
                               {2, 1, 8200}, {0, -1, 5}, {300, -1, 3},  {100, 99, 40}, {5000, -1, 1}, {4100, 4097, 2}};
enum { NUM_SHAPES = sizeof shapes / sizeof shapes[0] };

/* `fill` adds a problem's arrays. */
static inline void check_shapes(const problem *like, void (*fill)(problem *p), bool bits_of_the_reference) {
  for (int t = 0; t < 3; t++) {
    for (int s = 0; s < NUM_SHAPES; s++) {
      if (like->tall ? shapes[s].width > 2000 : shapes[s].rows > 2000) continue;
      if (SANITIZED && !in_share(t + s, 4)) continue;
      problem p = begin(like->name, like->call, gpu_types[t], shapes[s].rows, shapes[s].live, shapes[s].width);
      p.pieces = like->pieces;
      fill(&p);
      check(&p, bits_of_the_reference);
    }
  }
}

#endif
