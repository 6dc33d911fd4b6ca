/* The loss's kernels for GPUs, on the emulator, compared with the reference device on the same inputs: rows with
 * infinities and NaN, labels of other slices, and gradients that overwrite their own logits. */
#include "gpu_array.h"
#include "mesh/label.h"

typedef struct problem {
  tri_dtype type;
  int64_t rows, vocabulary, ld, first_id;
  size_t misaligned;
  bool special;  /* rows that are not all finite */
  bool in_place; /* the gradient overwrites the logits */
  tri_logit_form form;
} problem;

static tri_dtype wide_of(const problem *p) { return tri_dtype_wide(p->type); }
static size_t wide_bytes(const problem *p) { return tri_dtype_bytes(wide_of(p)); }

/* Changes row r to special logits, of a kind that depends on r. */
static void make_special(const problem *p, void *logits, int64_t r) {
  const int64_t at = r * p->ld, middle = at + p->vocabulary / 2;
  if (r % 8 == 1) gpu_store(wide_of(p), logits, middle, NAN);
  if (r % 8 == 2) gpu_store(wide_of(p), logits, middle, INFINITY);
  if (r % 8 == 3) gpu_store(wide_of(p), logits, middle, 2000);
  for (int64_t v = 0; v < p->vocabulary; v++) {
    if (r % 8 == 4 || (r % 8 == 5 && v % 3 != 1)) gpu_store(wide_of(p), logits, at + v, -INFINITY);
    if (r % 8 == 6) gpu_store(wide_of(p), logits, at + v, NAN);
  }
}

/* Returns the logits, with NaN between the rows, where nothing is read. */
static void *logits_of(const problem *p) {
  void *logits = gpu_values(wide_of(p), p->rows * p->ld, 4, 1);
  for (int64_t r = 0; r < p->rows; r++) {
    if (p->special) make_special(p, logits, r);
    for (int64_t v = p->vocabulary; v < p->ld; v++) gpu_store(wide_of(p), logits, r * p->ld + v, NAN);
  }
  return logits;
}

static int32_t label_of(const problem *p, int64_t r) {
  const tri_random_key key = tri_random_stream(6, TRI_RANDOM_TEST, 1);
  const int64_t label = (int64_t)tri_random_u32(key, (uint64_t)r) % p->vocabulary;
  if (r % 5 == 1) return r % 2 == 0 ? TRI_LABEL_NONE : TRI_LABEL_PADDING;
  if (r % 5 == 2) return (int32_t)(p->first_id + p->vocabulary + label);
  if (r % 5 == 3) return (int32_t)(p->first_id + (r % 2 == 0 ? 0 : p->vocabulary - 1));
  return (int32_t)(p->first_id + label);
}

static void *put(gpu_bench *b, const void *from, int64_t count, tri_dtype type) {
  return gpu_put(b, from, (size_t)count * tri_dtype_bytes(type), tri_dtype_bytes(type));
}

static void *set_and_free(gpu_bench *b, void *from, int64_t count, tri_dtype type) {
  void *out = put(b, from, count, type);
  free(from);
  return out;
}

static void *set_labels(gpu_bench *b, const problem *p) {
  int32_t *labels = gpu_bytes((size_t)p->rows * sizeof *labels);
  for (int64_t r = 0; r < p->rows; r++) labels[r] = label_of(p, r);
  return set_and_free(b, labels, p->rows, TRI_INT32);
}

static void *set_weights(gpu_bench *b, const problem *p) {
  float *weights = gpu_bytes((size_t)p->rows * sizeof *weights);
  for (int64_t r = 0; r < p->rows; r++) weights[r] = (float)(r % 3) * 0.5f + 0.25f;
  return set_and_free(b, weights, p->rows, TRI_FP32);
}

static void *set_poison(gpu_bench *b, int64_t count, tri_dtype type) {
  return set_and_free(b, gpu_values(type, count, NAN, 2), count, type);
}

#define KERNEL(name, ...) CHECK_OK(b->device->kernels->name(b->device->queue, __VA_ARGS__))

/* ---- the kernels ------------------------------------------------------------------------------------------------- */

/* Three numbers for each row; the losses computed from them; and the sums rescaled to the larger maximum of another
 * slice. */
enum { MAXIMUM, SUM, LABEL_LOGIT, LOSS, RESCALED, COLUMNS };

typedef struct statistics {
  unsigned char *columns[COLUMNS];
} statistics;

static void statistics_free(statistics *s) {
  for (int c = 0; c < COLUMNS; c++) free(s->columns[c]);
}

/* Computes the statistics. LOSS and RESCALED are computed from `given` if it is not NULL, so that errors do not add up.
 * */
static statistics run_statistics(gpu_bench *b, const problem *p, const statistics *given) {
  void *columns[COLUMNS];
  statistics out;
  b->misaligned = p->misaligned;
  void *logits = set_and_free(b, logits_of(p), p->rows * p->ld, wide_of(p)), *labels = set_labels(b, p);
  for (int c = 0; c < COLUMNS; c++) columns[c] = set_poison(b, p->rows, wide_of(p));
  KERNEL(softmax_statistics, p->type, p->rows, p->vocabulary, p->ld, logits, labels, p->first_id, columns[MAXIMUM],
         columns[SUM], columns[LABEL_LOGIT]);
  void *maximum = columns[MAXIMUM], *sum = columns[SUM], *label_logit = columns[LABEL_LOGIT];
  if (given != NULL) {
    maximum = put(b, given->columns[MAXIMUM], p->rows, wide_of(p));
    sum = put(b, given->columns[SUM], p->rows, wide_of(p));
    label_logit = put(b, given->columns[LABEL_LOGIT], p->rows, wide_of(p));
  }
  KERNEL(softmax_loss, p->type, p->rows, labels, set_weights(b, p), maximum, sum, label_logit, columns[LOSS]);
  void *larger = set_and_free(b, gpu_values(wide_of(p), p->rows, 5, 3), p->rows, wide_of(p));
  if (p->rows > 0) CHECK_OK(tri_queue_move(b->device->queue, columns[RESCALED], sum, (size_t)p->rows * wide_bytes(p)));
  KERNEL(softmax_rescale, p->type, p->rows, maximum, larger, columns[RESCALED]);
  for (int c = 0; c < COLUMNS; c++) {
    out.columns[c] = gpu_bytes((size_t)p->rows * wide_bytes(p));
    gpu_get(b, columns[c], out.columns[c]);
  }
  gpu_clear(b);
  return out;
}

/* Returns the gradient; if it overwrites the logits, all of their memory. */
static unsigned char *run_gradient(gpu_bench *b, const problem *p, const statistics *given) {
  const size_t narrow = tri_dtype_bytes(p->type);
  const int64_t ld = p->in_place ? p->ld * (int64_t)(wide_bytes(p) / narrow) : p->ld + 3;
  const tri_step_values values = {.loss_scale = 1.0 / 37, .lr = NAN};
  b->misaligned = p->misaligned;
  void *logits = set_and_free(b, logits_of(p), p->rows * p->ld, wide_of(p)), *labels = set_labels(b, p);
  void *maximum = put(b, given->columns[MAXIMUM], p->rows, wide_of(p));
  void *sum = put(b, given->columns[SUM], p->rows, wide_of(p));
  void *gradient = p->in_place ? logits : set_poison(b, p->rows * ld, p->type);
  b->misaligned = 0;
  const tri_step_values *step = gpu_put(b, &values, sizeof values, sizeof values);
  KERNEL(softmax_gradient, p->type, p->rows, p->vocabulary, p->ld, p->form, logits, labels, set_weights(b, p), NULL,
         p->first_id, step, maximum, sum, ld, gradient);
  unsigned char *out = gpu_bytes((size_t)(p->rows * ld) * narrow);
  gpu_get(b, gradient, out);
  gpu_clear(b);
  return out;
}

/* ---- one beside the other ---------------------------------------------------------------------------------------- */

static void say(const char *what, const char *device, const problem *p) {
  fail_msg("%s on %s: %s, %ld rows of %ld (ld %ld) from %ld, misaligned by %zu%s%s", what, device,
           tri_dtype_name(p->type), (long)p->rows, (long)p->vocabulary, (long)p->ld, (long)p->first_id, p->misaligned,
           p->special ? ", special" : "", p->in_place ? ", in place" : "");
}

static void check_statistics(gpu_benches *all, const problem *p, int devices) {
  static const char *const names[] = {"maximum", "sum", "label_logit", "loss", "rescaled"};
  statistics expected = run_statistics(&all->reference, p, NULL), first = {{0}};
  for (int d = 0; d < devices; d++) {
    statistics is = run_statistics(&all->each[d], p, &expected);
    for (int c = 0; c < COLUMNS; c++) {
      const double difference = gpu_difference(wide_of(p), p->rows, is.columns[c], expected.columns[c]);
      const bool exact = c == MAXIMUM || c == LABEL_LOGIT;
      if (!(difference <= (exact ? 0 : gpu_tolerance(wide_of(p))))) say(names[c], gpu_devices[d], p);
      if (d != 0 && d != GPU_FIRST_OF_64 &&
          memcmp(is.columns[c], first.columns[c], (size_t)p->rows * wide_bytes(p)) != 0)
        say("other bits", gpu_devices[d], p);
    }
    if (d == 0 || d == GPU_FIRST_OF_64) {
      statistics_free(&first);
      first = is;
    } else {
      statistics_free(&is);
    }
  }
  statistics_free(&first);
  statistics_free(&expected);
}

/* Compares the gradient with the reference's. All other bytes must be unchanged, as the reference leaves them. */
static void check_gradient(gpu_benches *all, const problem *p, int devices) {
  const size_t narrow = tri_dtype_bytes(p->type);
  const size_t row_bytes = p->in_place ? (size_t)p->ld * wide_bytes(p) : (size_t)(p->ld + 3) * narrow;
  const size_t written = (size_t)p->vocabulary * narrow;
  statistics given = run_statistics(&all->reference, p, NULL);
  unsigned char *expected = run_gradient(&all->reference, p, &given), *first = NULL;
  for (int d = 0; d < devices; d++) {
    unsigned char *is = run_gradient(&all->each[d], p, &given);
    for (int64_t r = 0; r < p->rows; r++) {
      const unsigned char *row = is + (size_t)r * row_bytes, *expected_row = expected + (size_t)r * row_bytes;
      if (!(gpu_difference(p->type, p->vocabulary, row, expected_row) <= gpu_tolerance(p->type)))
        say("another gradient", gpu_devices[d], p);
      if (memcmp(row + written, expected_row + written, row_bytes - written) != 0)
        say("written behind the gradient", gpu_devices[d], p);
    }
    if (first != NULL && memcmp(is, first, (size_t)p->rows * row_bytes) != 0) say("other bits", gpu_devices[d], p);
    if (first == NULL) {
      first = is;
    } else {
      free(is);
    }
  }
  free(first);
  free(expected);
  statistics_free(&given);
}

/* Scales products to logits in place; elements between the rows must not change. */
static unsigned char *run_logits(gpu_bench *b, const problem *p) {
  unsigned char *out = gpu_bytes((size_t)(p->rows * p->ld) * wide_bytes(p));
  b->misaligned = p->misaligned;
  void *logits = set_and_free(b, logits_of(p), p->rows * p->ld, wide_of(p));
  KERNEL(softmax_logits, p->type, p->rows, p->vocabulary, p->ld, p->form, logits);
  gpu_get(b, logits, out);
  gpu_clear(b);
  return out;
}

static void check_logits(gpu_benches *all, const problem *p, int devices) {
  const size_t row_bytes = (size_t)p->ld * wide_bytes(p), written = (size_t)p->vocabulary * wide_bytes(p);
  unsigned char *expected = run_logits(&all->reference, p);
  for (int d = 0; d < devices; d++) {
    unsigned char *is = run_logits(&all->each[d], p);
    for (int64_t r = 0; r < p->rows; r++) {
      const unsigned char *row = is + (size_t)r * row_bytes, *expected_row = expected + (size_t)r * row_bytes;
      if (!(gpu_difference(wide_of(p), p->vocabulary, row, expected_row) <= gpu_tolerance(wide_of(p))))
        say("other logits", gpu_devices[d], p);
      if (memcmp(row + written, expected_row + written, row_bytes - written) != 0)
        say("written behind the logits", gpu_devices[d], p);
    }
    free(is);
  }
  free(expected);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static const struct {
  int64_t rows, vocabulary, ld, first_id;
  size_t misaligned;
} shapes[] = {{0, 7, 8, 0, 0},       {1, 1, 1, 0, 0},       {9, 1, 5, 3, 1},       {17, 2, 2, 0, 0},
              {16, 33, 48, 5, 0},    {11, 129, 129, 0, 1},  {3, 1000, 1000, 0, 0}, {9, 1023, 1027, 100, 3},
              {8, 4097, 4112, 0, 0}, {2, 9000, 9001, 77, 1}};
enum { NUM_SHAPES = sizeof shapes / sizeof *shapes };

static const tri_logit_form forms[] = {{-0.3, 0}, {1.7, 5}};

static problem problem_of(int shape, int type) {
  return (problem){.type = gpu_types[type],
                   .rows = shapes[shape].rows,
                   .vocabulary = shapes[shape].vocabulary,
                   .ld = shapes[shape].ld,
                   .first_id = shapes[shape].first_id,
                   .misaligned = shapes[shape].misaligned,
                   .form = {1, 0}};
}

static void test_statistics_and_loss(void **state) {
  for (int s = 0; s < NUM_SHAPES; s++) {
    for (int t = 0; t < GPU_TYPES; t++) {
      for (int special = 0; special < 2; special++) {
        problem p = problem_of(s, t);
        p.special = special == 1;
        check_statistics(*state, &p, GPU_DEVICES);
      }
    }
  }
}

static void test_gradient(void **state) {
  for (int s = 0; s < NUM_SHAPES; s++) {
    for (int t = 0; t < GPU_TYPES; t++) {
      for (int kind = 0; kind < 6; kind++) {
        problem p = problem_of(s, t);
        p.special = kind % 2 == 1 && kind < 4;
        p.in_place = kind / 2 == 1;
        if (kind >= 4) p.form = forms[kind - 4];
        check_gradient(*state, &p, GPU_DEVICES);
      }
    }
  }
}

static void test_logits(void **state) {
  for (int s = 0; s < NUM_SHAPES; s++) {
    for (int t = 0; t < GPU_TYPES; t++) {
      for (int kind = 0; kind < 4; kind++) {
        problem p = problem_of(s, t);
        p.special = kind % 2 == 1;
        p.form = forms[kind / 2];
        check_logits(*state, &p, GPU_DEVICES);
      }
    }
  }
}

static void test_real_vocabularies(void **state) {
  static const int64_t sizes[][2] = {{50257, 50272}, {50257, 50257}, {128256, 128256}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    for (int t = 0; t < GPU_TYPES; t++) {
      problem p = {.type = gpu_types[t],
                   .rows = 2,
                   .vocabulary = sizes[i][0],
                   .ld = sizes[i][1],
                   .in_place = true,
                   .form = forms[1]};
      check_statistics(*state, &p, 2);
      check_gradient(*state, &p, 2);
    }
  }
}

/* The alignment of the arrays has no effect on the bits. */
static void test_misaligned_bits(void **state) {
  gpu_benches *all = *state;
  problem p = {.type = TRI_FP32, .rows = 5, .vocabulary = 5001, .ld = 5008, .form = {1, 0}};
  statistics aligned = run_statistics(&all->each[0], &p, NULL);
  unsigned char *aligned_gradient = run_gradient(&all->each[0], &p, &aligned);
  p.misaligned = 1;
  statistics misaligned = run_statistics(&all->each[0], &p, NULL);
  unsigned char *misaligned_gradient = run_gradient(&all->each[0], &p, &aligned);
  for (int c = 0; c < COLUMNS; c++) assert_memory_equal(aligned.columns[c], misaligned.columns[c], 5 * sizeof(float));
  assert_memory_equal(aligned_gradient, misaligned_gradient, 5 * 5011 * sizeof(float));
  statistics_free(&aligned);
  statistics_free(&misaligned);
  free(aligned_gradient);
  free(misaligned_gradient);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_statistics_and_loss),
      cmocka_unit_test(test_logits),
      cmocka_unit_test(test_gradient),
      cmocka_unit_test(test_real_vocabularies),
      cmocka_unit_test(test_misaligned_bits),
  };
  return cmocka_run_group_tests(tests, gpu_benches_create, gpu_benches_destroy);
}
