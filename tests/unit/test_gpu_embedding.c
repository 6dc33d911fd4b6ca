/* The embedding's kernels for GPUs, on the emulator, compared with the reference device on the same inputs: forward,
 * and sums of the gradient's rows by id and by position. Sums have equal bits in every order of blocks and threads. */
#include "gpu_array.h"

enum { ALL_ROWS = INT32_MIN }; /* no count */

/* The ids of the rows. */
typedef enum pattern { RANDOM, EQUAL, DIFFERENT, OUTSIDE, REPEATED, MOSTLY_EQUAL, NUM_PATTERNS } pattern;

static const char *const pattern_names[] = {"random", "equal", "different", "outside", "repeated", "mostly equal"};

typedef struct problem {
  tri_dtype type;
  pattern ids;
  int64_t rows, width, table_rows, first_id;
  size_t misaligned;
  int32_t count;                           /* number of rows, on the device; or ALL_ROWS */
  bool with_positions, accumulate, narrow; /* narrow: the table is of `type` */
} problem;

static tri_dtype wide_of(const problem *p) { return tri_dtype_wide(p->type); }

static int64_t live_of(const problem *p) {
  return p->count == ALL_ROWS || p->count > p->rows ? p->rows : p->count < 0 ? 0 : p->count;
}

static int32_t id_of(const problem *p, int64_t r) {
  const tri_random_key key = tri_random_stream(5, TRI_RANDOM_TEST, 1);
  const int64_t drawn = (int64_t)tri_random_u32(key, (uint64_t)r);
  int64_t id = 0;
  switch (p->ids) {
    case RANDOM: id = drawn % (p->table_rows + 4) - 2; break; /* some of them beside the slice */
    case EQUAL: id = p->table_rows / 2; break;
    case DIFFERENT: id = r * 7 % p->table_rows; break;
    case OUTSIDE: id = r % 2 == 0 ? -1 - r : p->table_rows + r; break;
    case REPEATED: id = r % p->table_rows; break;
    case MOSTLY_EQUAL: id = drawn % 5 == 0 ? drawn / 5 % p->table_rows : 1 % p->table_rows; break;
    case NUM_PATTERNS: break;
  }
  return (int32_t)(id + p->first_id);
}

/* Returns the ids; those of unused rows are in the table, too. */
static int32_t *ids_of(const problem *p) {
  int32_t *ids = gpu_bytes((size_t)p->rows * sizeof *ids);
  for (int64_t r = 0; r < p->rows; r++)
    ids[r] = r < live_of(p) ? id_of(p, r) : (int32_t)(p->first_id + r % p->table_rows);
  return ids;
}

static int32_t *positions_of(const problem *p, bool inside) {
  problem q = *p;
  q.first_id = 0;
  int32_t *positions = ids_of(&q);
  for (int64_t r = 0; r < p->rows; r++) {
    if (positions[r] < 0 || positions[r] >= p->table_rows) positions[r] = (int32_t)(r % p->table_rows);
    if (r >= live_of(p)) positions[r] = inside ? 0 : (r % 2 == 0 ? INT32_MAX : INT32_MIN);
  }
  return positions;
}

/* Returns the gradient; unused rows are NaN. */
static void *gradient_of(const problem *p) {
  void *gradient = gpu_values(p->type, p->rows * p->width, 1, 7);
  for (int64_t i = live_of(p) * p->width; i < p->rows * p->width; i++) gpu_store(p->type, gradient, i, NAN);
  return gradient;
}

static tri_rows rows_of(gpu_bench *b, const problem *p) {
  tri_rows rows = tri_all_rows(p->rows);
  if (p->count != ALL_ROWS) rows.count = gpu_put(b, &p->count, sizeof p->count, sizeof p->count);
  return rows;
}

/* ---- the kernels ------------------------------------------------------------------------------------------------- */

#define KERNEL(name, ...) CHECK_OK(b->device->kernels->name(b->device->queue, __VA_ARGS__))

/* Copies the arguments to the device, queues the kernel, and returns its output. */
typedef void *run(gpu_bench *b, const problem *p);

static void *result(gpu_bench *b, const void *out, size_t bytes) {
  void *host = gpu_bytes(bytes);
  gpu_get(b, out, host);
  return host;
}

static size_t table_bytes(const problem *p) { return (size_t)(p->table_rows * p->width) * tri_dtype_bytes(wide_of(p)); }

static void *set_and_free(gpu_bench *b, void *host, int64_t count, tri_dtype type) {
  void *put = gpu_put(b, host, (size_t)count * tri_dtype_bytes(type), tri_dtype_bytes(type));
  free(host);
  return put;
}

static void *run_forward(gpu_bench *b, const problem *p) {
  const int64_t table = p->table_rows * p->width, out_count = p->rows * p->width;
  void *ids = set_and_free(b, ids_of(p), p->rows, TRI_INT32), *positions = NULL, *position_table = NULL;
  const tri_dtype table_type = p->narrow ? p->type : wide_of(p);
  void *token_table = set_and_free(b, gpu_values(table_type, table, 1, 1), table, table_type);
  if (p->with_positions) {
    positions = set_and_free(b, positions_of(p, false), p->rows, TRI_INT32);
    position_table = set_and_free(b, gpu_values(wide_of(p), table, 1, 2), table, wide_of(p));
  }
  void *out = set_and_free(b, gpu_values(p->type, out_count, NAN, 3), out_count, p->type);
  KERNEL(embedding_forward, p->type, rows_of(b, p), p->width, ids, p->first_id, p->table_rows, table_type, token_table,
         positions, position_table, out);
  return result(b, out, (size_t)out_count * tri_dtype_bytes(p->type));
}

static void *run_backward(gpu_bench *b, const problem *p) {
  const int64_t table = p->table_rows * p->width;
  void *ids = set_and_free(b, ids_of(p), p->rows, TRI_INT32);
  void *gradient = set_and_free(b, gradient_of(p), p->rows * p->width, p->type);
  void *out = set_and_free(b, gpu_values(wide_of(p), table, 1, 4), table, wide_of(p));
  KERNEL(embedding_backward, p->type, rows_of(b, p), p->width, ids, p->first_id, p->table_rows, gradient, out);
  return result(b, out, table_bytes(p));
}

static void *run_positions(gpu_bench *b, const problem *p) {
  const int64_t table = p->table_rows * p->width;
  void *positions = set_and_free(b, positions_of(p, true), p->rows, TRI_INT32);
  void *gradient = set_and_free(b, gradient_of(p), p->rows * p->width, p->type);
  void *out = set_and_free(b, gpu_values(wide_of(p), table, p->accumulate ? 1 : NAN, 5), table, wide_of(p));
  KERNEL(position_backward, p->type, rows_of(b, p), p->width, positions, p->table_rows, gradient, out, p->accumulate);
  return result(b, out, table_bytes(p));
}

static void *run_on(gpu_bench *b, run *of, const problem *p) {
  b->misaligned = p->misaligned;
  void *out = of(b, p);
  gpu_clear(b);
  return out;
}

/* ---- one beside the other ---------------------------------------------------------------------------------------- */

static void say(const char *what, const char *device, const problem *p) {
  fail_msg("%s on %s: %s, %s ids, %ld rows of %ld (count %d), table of %ld from %ld, misaligned by %zu%s%s%s", what,
           device, tri_dtype_name(p->type), pattern_names[p->ids], (long)p->rows, (long)p->width, p->count,
           (long)p->table_rows, (long)p->first_id, p->misaligned, p->with_positions ? ", positions" : "",
           p->accumulate ? ", accumulating" : "", p->narrow ? ", a narrow table" : "");
}

/* Checks the first `devices` devices; 0: all of them. */
static void check(gpu_benches *all, run *of, const problem *p, int devices) {
  const bool forward = of == run_forward;
  const tri_dtype type = forward ? p->type : wide_of(p);
  const int64_t count = (forward ? p->rows : p->table_rows) * p->width;
  const size_t bytes = (size_t)count * tri_dtype_bytes(type);
  void *expected = run_on(&all->reference, of, p), *first = run_on(&all->each[0], of, p);
  const double difference = gpu_difference(type, count, first, expected);
  if (!(difference <= gpu_tolerance(p->type))) {
    print_message("differs by %g\n", difference);
    say("another result", gpu_devices[0], p);
  }
  for (int d = 1; d < (devices == 0 ? GPU_DEVICES : devices); d++) {
    void *other = run_on(&all->each[d], of, p);
    if (memcmp(other, first, bytes) != 0) say("other bits", gpu_devices[d], p);
    free(other);
  }
  free(first);
  free(expected);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static const struct {
  int64_t rows, width, table_rows, first_id;
  size_t misaligned;
  int32_t count;
} shapes[] = {
    {0, 8, 5, 0, 0, ALL_ROWS},     {1, 1, 1, 0, 0, ALL_ROWS},      {1, 768, 3, 0, 0, ALL_ROWS},
    {7, 33, 11, 40, 1, ALL_ROWS},  {129, 40, 300, 0, 0, ALL_ROWS}, {300, 24, 17, 1000, 1, ALL_ROWS},
    {90, 12, 300, 0, 0, ALL_ROWS}, {200, 20, 9, 0, 0, ALL_ROWS},   {70, 16, 11, 3, 0, 0},
    {70, 16, 11, 3, 0, 1},         {70, 18, 11, -3, 0, 37},        {300, 16, 11, 3, 0, 257},
    {70, 16, 11, 3, 0, -3},        {70, 16, 11, 3, 0, 100},
};
enum { NUM_SHAPES = sizeof shapes / sizeof *shapes };

static problem problem_of(size_t shape, tri_dtype type, pattern ids) {
  return (problem){.type = type,
                   .ids = ids,
                   .rows = shapes[shape].rows,
                   .width = shapes[shape].width,
                   .table_rows = shapes[shape].table_rows,
                   .first_id = shapes[shape].first_id,
                   .misaligned = shapes[shape].misaligned,
                   .count = shapes[shape].count};
}

static void test_forward(void **state) {
  for (size_t s = 0; s < NUM_SHAPES; s++) {
    for (int t = 0; t < GPU_TYPES; t++) {
      for (int with = 0; with < 4; with++) {
        problem p = problem_of(s, gpu_types[t], with % 2 == 0 ? RANDOM : MOSTLY_EQUAL);
        p.with_positions = with % 2 == 1;
        p.narrow = with > 1;
        if (p.narrow && p.type == wide_of(&p)) continue; /* then both types are the same */
        check(*state, run_forward, &p, 0);
      }
    }
  }
}

static void test_backward(void **state) {
  for (size_t s = 0; s < NUM_SHAPES; s++) {
    for (int t = 0; t < GPU_TYPES; t++) {
      for (int ids = 0; ids < NUM_PATTERNS; ids++) {
        problem p = problem_of(s, gpu_types[t], (pattern)ids);
        check(*state, run_backward, &p, ids == RANDOM || ids == EQUAL ? 0 : 2);
      }
    }
  }
}

static void test_positions(void **state) {
  for (size_t s = 0; s < NUM_SHAPES; s++) {
    for (int t = 0; t < GPU_TYPES; t++) {
      for (int accumulate = 0; accumulate < 2; accumulate++) {
        problem p = problem_of(s, gpu_types[t], accumulate == 0 ? REPEATED : RANDOM);
        p.accumulate = accumulate == 1;
        check(*state, run_positions, &p, 0);
      }
    }
  }
}

/* Runs that are merged once, twice and three times; ids over many windows; rows in several pieces. */
static void test_many_rows(void **state) {
  static const int64_t rows[] = {1024, 1025, 3000, 8193, 70000};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    for (int ids = 0; ids < NUM_PATTERNS; ids++) {
      problem p = {.type = TRI_FP64, .ids = (pattern)ids, .rows = rows[i], .width = 3, .table_rows = 12345};
      p.count = ALL_ROWS;
      check(*state, run_backward, &p, rows[i] < 8000 ? 3 : 1);
      p.count = (int32_t)(rows[i] - 5);
      check(*state, run_backward, &p, 1);
    }
  }
  check(*state, run_backward,
        &(problem){
            .type = TRI_FP64, .ids = MOSTLY_EQUAL, .rows = 600001, .width = 1, .table_rows = 50257, .count = ALL_ROWS},
        1);
  /* More rows than a grid has warps. */
  check(*state, run_forward,
        &(problem){.type = TRI_BF16, .ids = RANDOM, .rows = 70000, .width = 9, .table_rows = 100, .count = ALL_ROWS},
        2);
}

/* A row of the table that no id names keeps its bits. */
static void test_other_rows_stay(void **state) {
  gpu_benches *all = *state;
  const problem p = {
      .type = TRI_FP32, .ids = EQUAL, .rows = 500, .width = 12, .table_rows = 9, .first_id = 5, .count = ALL_ROWS};
  float *before = gpu_values(TRI_FP32, 9 * 12, 1, 4), *after = run_on(&all->each[3], run_backward, &p);
  for (int i = 0; i < 9 * 12; i++) assert_true(i / 12 == 4 ? after[i] != before[i] : after[i] == before[i]);
  free(before);
  free(after);
}

/* A number of rows counted on the device gives the same bits as that number given by the host. */
static void test_counted_bits(void **state) {
  gpu_benches *all = *state;
  for (int t = 0; t < GPU_TYPES; t++) {
    problem p = {.type = gpu_types[t], .ids = RANDOM, .rows = 1500, .width = 10, .table_rows = 6, .count = 700};
    void *counted = run_on(&all->each[0], run_backward, &p);
    p.rows = 700;
    p.count = ALL_ROWS;
    void *alone = run_on(&all->each[0], run_backward, &p);
    assert_memory_equal(counted, alone, table_bytes(&p));
    free(counted);
    free(alone);
  }
}

static void test_too_wide(void **state) {
  gpu_benches *all = *state;
  gpu_bench *b = &all->each[0];
  int32_t id = 0;
  void *memory = gpu_put(b, &id, sizeof id, sizeof id);
  CHECK_FAILS(b->device->kernels->embedding_backward(b->device->queue, TRI_FP64, tri_all_rows(1), 3000000, memory, 0, 1,
                                                     memory, memory),
              TRI_UNSUPPORTED, "a GPU does not sum embeddings of 3000000 elements a row; at most about 2097152");
  gpu_clear(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_forward),   cmocka_unit_test(test_backward),        cmocka_unit_test(test_positions),
      cmocka_unit_test(test_many_rows), cmocka_unit_test(test_other_rows_stay), cmocka_unit_test(test_counted_bits),
      cmocka_unit_test(test_too_wide),
  };
  return cmocka_run_group_tests(tests, gpu_benches_create, gpu_benches_destroy);
}
