/* One call of a kernel on random inputs, as data that any device can be given: what kernel_check is made of.
 *
 * A problem's arguments are arrays on the host. They are laid into the memory of a device, the call is run there, and
 * what it has left is compared with what the same call leaves on the reference device (checker.c). Elements that the
 * call has to write are named by regions; all else has to stay as it was, to the bit. */
#ifndef TRI_TESTS_GPU_PROBLEM_H
#define TRI_TESTS_GPU_PROBLEM_H

#include "device/device.h"
#include "device/kernels.h"
#include "device/queue.h"

enum { MOST_ARGUMENTS = 14, MOST_REGIONS = 3, NUM_SPACES = 2 };

typedef struct checker checker;
typedef struct problem problem;

/* Elements first + row * row_stride + group * group_stride + (0 .. width - 1). */
typedef struct region {
  int64_t first, rows, row_stride, groups, group_stride, width;
} region;

typedef struct argument {
  const char *name;
  tri_dtype type; /* TRI_INT32 also for structs */
  int64_t count;  /* elements                   */
  size_t bytes;
  unsigned char *before;
  region regions[MOST_REGIONS]; /* that the call writes */
  int num_regions;
  bool exact;       /* outputs have the reference's bits */
  bool sum;         /* a tri_exact_sum                                      */
  bool aligned;     /* begins on 16 bytes: structs                          */
  double tolerance; /* by norm                                              */
  double yardstick; /* at least so large are the elements that errors are measured by */
} argument;

struct problem {
  checker *checker;
  tri_dtype type, wide;
  argument arguments[MOST_ARGUMENTS];
  int count;
  char what[240];   /* its sizes, for a report */
  const void *with; /* what `run` knows about  */
  /* Queues the call. memory[i] is argument i, memory[count + s] space s (NULL for none). */
  tri_status (*run)(const problem *p, tri_queue *queue, char *const *memory);
  /* Computes the bytes of the spaces that a device needs for the call: scratch memory, a packed matrix. NULL: none. */
  tri_status (*spaces)(const problem *p, const tri_device_description *description, size_t bytes[NUM_SPACES]);
  /* Does the call on host memory, instead of the reference device, which would take too long. NULL: it does not. */
  void (*expect)(const problem *p, char *const *memory);
};

#define KERNEL(queue, name, ...) (queue)->device->kernels->name((queue), __VA_ARGS__)

/* ---- problem.c: numbers ------------------------------------------------------------------------------------------ */

double number_get(tri_dtype type, const void *array, int64_t i);
void number_set(tri_dtype type, void *array, int64_t i, double value); /* to nearest even */
double tolerance_of(tri_dtype type);

/* From the checker's seed: below `below`; from `least` to `most`; roughly normal, within 3.5 of 0. */
int64_t draw(checker *c, int64_t below);
int64_t draw_from(checker *c, int64_t least, int64_t most);
double draw_normal(checker *c);
bool draw_bool(checker *c);

/* ---- problem.c: arguments ---------------------------------------------------------------------------------------- */

problem problem_make(checker *c, tri_dtype type);
void problem_free(problem *p);

/* An array full of not-a-numbers; returns its number. */
int add_array(problem *p, const char *name, tri_dtype type, int64_t count);
/* The same of random numbers. */
int add_input(problem *p, const char *name, tri_dtype type, int64_t count, double centre, double scale);
/* A struct. */
int add_bytes(problem *p, const char *name, const void *from, size_t bytes);
/* The count of rows that `rows` will say: memory[number] is it, NULL where number is -1. Returns how many are live. */
int64_t add_rows(problem *p, int64_t capacity, int *number);
tri_rows rows_of(const problem *p, int64_t capacity, int number, char *const *memory);

region all_of(int64_t count);
region matrix_of(int64_t rows, int64_t stride, int64_t width);
void fill(problem *p, int number, region where, double centre, double scale);
/* Marks a region as an output; `filled`: the call adds to its contents. */
void writes(problem *p, int number, region where, bool filled);
int add_output(problem *p, const char *name, tri_dtype type, int64_t count, bool filled);

void describe(problem *p, const char *format, ...) TRI_PRINTF(2, 3);

/* ---- checker.c --------------------------------------------------------------------------------------------------- */

/* Runs the problem, compares, and takes note; releases the problem. */
void check(problem *p);

/* ---- cases_*.c: all problems of a kernel for a type -------------------------------------------------------------- */

typedef struct kernel_cases {
  const char *name;
  size_t slot; /* offset in tri_device_kernels */
  void (*cases)(checker *c, tri_dtype type);
} kernel_cases;

/* Every slot of the table. */
/* clang-format off */
#define CHECKED_KERNELS(X) \
  X(fill_zero) \
  X(convert) \
  X(copy_rows) \
  X(add) \
  X(scale) \
  X(column_sum) \
  X(magnitude_forward) \
  X(magnitude_backward) \
  X(embedding_forward) \
  X(embedding_backward) \
  X(position_backward) \
  X(layer_norm_forward) \
  X(layer_norm_backward_input) \
  X(layer_norm_backward_weight) \
  X(rms_norm_forward) \
  X(rms_norm_backward_input) \
  X(rms_norm_backward_weight) \
  X(activation_forward) \
  X(activation_backward) \
  X(gated_forward) \
  X(gated_backward) \
  X(weighted_gated_forward) \
  X(weighted_gated_backward) \
  X(dropout) \
  X(rope) \
  X(softmax_logits) \
  X(softmax_statistics) \
  X(softmax_rescale) \
  X(softmax_loss) \
  X(softmax_gradient) \
  X(query_logits) \
  X(label_log_probs) \
  X(completion_slopes) \
  X(label_factors) \
  X(softmax_spread) \
  X(entropy_terms) \
  X(softmax_gradient_entropy) \
  X(policy_sums) \
  X(policy_factors) \
  X(sum_doubles) \
  X(adamw) \
  X(lion) \
  X(sgd) \
  X(schedule_free) \
  X(lerp) \
  X(momentum) \
  X(matrix_normalise) \
  X(matrix_polynomial) \
  X(matrix_step) \
  X(matrix_squares) \
  X(adafactor_direction) \
  X(adafactor_step) \
  X(low_rank_adam) \
  X(low_rank_rest) \
  X(low_rank_growth) \
  X(low_rank_step) \
  X(quantise_blocks) \
  X(dequantise_blocks) \
  X(quantise_nf4) \
  X(cut_nf4) \
  X(dequantise_nf4) \
  X(pack_blocks) \
  X(unpack_blocks) \
  X(embedding_blocks) \
  X(block_matmul) \
  X(block_squares) \
  X(sum) \
  X(exact_add) \
  X(matmul_pack) \
  X(matmul) \
  X(attention_forward) \
  X(attention_backward) \
  X(append_keys) \
  X(attention_pages) \
  X(grouped_matmul) \
  X(group_rows) \
  X(sum_rows) \
  X(router_forward) \
  X(router_backward) \
  X(router_loads) \
  X(router_balance) \
  X(router_z_loss) \
  X(router_count)
/* clang-format on */

#define DECLARE_CASES(name) void cases_##name(checker *c, tri_dtype type);
CHECKED_KERNELS(DECLARE_CASES)
#undef DECLARE_CASES

/* Rows and widths for kernels that go over rows: number i, until it returns false. */
bool next_shape(checker *c, int i, int64_t *rows, int64_t *width);
bool is_quick(const checker *c);
const tri_device *device_of(const checker *c);

#endif
