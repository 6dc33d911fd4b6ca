/* Each kernel of the reference device, to be run later: a function with the kernel's signature that puts the arguments
 * away, and one that gives them to the reference device's, both made from a row of the list below.
 *
 * A row is the kernel's name and the types of its arguments behind the queue. A pointer among them is device memory,
 * which is looked up when the kernel runs; or NULL; or the description of a call (DESCRIPTION_BYTES), which is copied
 * as the call is queued. */
#include "device/guarded/internal.h"

#include "device/reference/reference.h"

#include <stdio.h>
#include <string.h>

#define KERNELS(X)                                                                                                     \
  X(matmul_pack, const tri_matmul *, tri_dtype, const void *, void *)                                                  \
  X(matmul, const tri_matmul *, const void *, const void *, const void *, void *, void *)                              \
  X(grouped_matmul, const tri_grouped_matmul *, const int32_t *, const void *, const void *, void *, void *)           \
  X(fill_zero, size_t, void *)                                                                                         \
  X(convert, int64_t, tri_dtype, const void *, tri_dtype, void *)                                                      \
  X(copy_rows, const tri_row_copy *, const int32_t *, const void *, const int32_t *, void *)                           \
  X(add, tri_dtype, tri_rows, int64_t, const void *, const void *, void *)                                             \
  X(scale, tri_dtype, int64_t, double, const void *, void *)                                                           \
  X(column_sum, tri_dtype, tri_rows, int64_t, int64_t, const void *, void *, bool)                                     \
  X(embedding_forward, tri_dtype, tri_rows, int64_t, const int32_t *, int64_t, int64_t, tri_dtype, const void *,       \
    const int32_t *, const void *, void *)                                                                             \
  X(embedding_backward, tri_dtype, tri_rows, int64_t, const int32_t *, int64_t, int64_t, const void *, void *)         \
  X(position_backward, tri_dtype, tri_rows, int64_t, const int32_t *, int64_t, const void *, void *, bool)             \
  X(layer_norm_forward, const tri_norm *, const void *, const void *, void *, const void *, const void *, void *,      \
    void *, void *)                                                                                                    \
  X(layer_norm_backward_input, const tri_norm *, const void *, const void *, const void *, const void *, const void *, \
    void *, bool)                                                                                                      \
  X(layer_norm_backward_weight, const tri_norm *, const void *, const void *, const void *, const void *, void *,      \
    void *, bool)                                                                                                      \
  X(rms_norm_forward, const tri_norm *, const void *, const void *, void *, const void *, void *, void *)              \
  X(rms_norm_backward_input, const tri_norm *, const void *, const void *, const void *, const void *, void *, bool)   \
  X(rms_norm_backward_weight, const tri_norm *, const void *, const void *, const void *, void *, bool)                \
  X(activation_forward, tri_dtype, tri_activation, tri_rows, int64_t, const void *, void *)                            \
  X(activation_backward, tri_dtype, tri_activation, tri_rows, int64_t, const void *, const void *, void *)             \
  X(gated_forward, tri_dtype, tri_activation, tri_rows, int64_t, const void *, void *)                                 \
  X(gated_backward, tri_dtype, tri_activation, tri_rows, int64_t, const void *, const void *, void *)                  \
  X(weighted_gated_forward, tri_dtype, tri_activation, tri_rows, int64_t, const void *, const void *, void *)          \
  X(weighted_gated_backward, tri_dtype, tri_activation, tri_rows, int64_t, const void *, const void *, const void *,   \
    void *, void *)                                                                                                    \
  X(dropout, tri_dtype, int64_t, const tri_dropout *, const tri_step_values *, const int32_t *, const void *, void *)  \
  X(rope, tri_dtype, tri_rows, int64_t, int64_t, int64_t, int64_t, const int32_t *, const void *, const void *, bool,  \
    void *)                                                                                                            \
  X(attention_forward, const tri_attention *, const tri_attention_slice *, const void *, const void *, const void *,   \
    void *, void *, void *)                                                                                            \
  X(attention_backward, const tri_attention *, const tri_attention_slice *, const void *, const void *, const void *,  \
    const void *, const void *, const void *, void *, void *, void *, void *)                                          \
  X(router_forward, tri_dtype, tri_rows, const tri_router *, const int32_t *, const void *, const void *, int32_t *,   \
    void *)                                                                                                            \
  X(router_backward, tri_dtype, tri_rows, const tri_router *, const void *, const int32_t *, const void *,             \
    const void *, const void *, int64_t, int64_t, double, const tri_step_values *, void *)                             \
  X(router_loads, tri_dtype, tri_rows, const tri_router *, const void *, const int32_t *, int64_t, int64_t, int64_t,   \
    void *)                                                                                                            \
  X(router_balance, tri_dtype, const tri_router *, int64_t, double, const tri_step_values *, const void *, void *,     \
    double *)                                                                                                          \
  X(router_z_loss, tri_dtype, tri_rows, const tri_router *, double, const tri_step_values *, const void *,             \
    const int32_t *, double *)                                                                                         \
  X(router_count, tri_dtype, tri_rows, const tri_router *, const int32_t *, const void *, int64_t *)                   \
  X(group_rows, tri_rows, int64_t, int64_t, const int32_t *, int32_t *, int32_t *, int32_t *, int32_t *)               \
  X(sum_rows, tri_dtype, tri_rows, int64_t, int64_t, const int32_t *, const void *, void *, bool)                      \
  X(softmax_logits, tri_dtype, int64_t, int64_t, int64_t, tri_logit_form, void *)                                      \
  X(softmax_statistics, tri_dtype, int64_t, int64_t, int64_t, const void *, const int32_t *, int64_t, void *, void *,  \
    void *)                                                                                                            \
  X(softmax_rescale, tri_dtype, int64_t, const void *, const void *, void *)                                           \
  X(softmax_loss, tri_dtype, int64_t, const int32_t *, const float *, const void *, const void *, const void *,        \
    void *)                                                                                                            \
  X(softmax_gradient, tri_dtype, int64_t, int64_t, int64_t, tri_logit_form, const void *, const int32_t *,             \
    const float *, int64_t, const tri_step_values *, const void *, const void *, int64_t, void *)                      \
  X(adamw, tri_dtype, int64_t, const tri_adamw *, const tri_step_values *, void *, const void *, void *, void *,       \
    void *)                                                                                                            \
  X(lion, tri_dtype, int64_t, const tri_lion *, const tri_step_values *, void *, const void *, void *, void *)         \
  X(sgd, tri_dtype, int64_t, const tri_sgd *, const tri_step_values *, void *, const void *, void *, void *)           \
  X(schedule_free, tri_dtype, int64_t, const tri_adamw *, const tri_step_values *, void *, const void *, void *,       \
    void *, void *)                                                                                                    \
  X(lerp, tri_dtype, int64_t, double, const void *, const void *, void *)                                              \
  X(momentum, tri_dtype, int64_t, const tri_momentum *, const tri_step_values *, const void *, void *, void *)         \
  X(matrix_normalise, tri_dtype, const tri_matrix_copy *, const void *, const tri_exact_sum *, double, void *)         \
  X(matrix_polynomial, tri_dtype, const tri_matrix_polynomial *, const void *, const void *, void *)                   \
  X(matrix_step, tri_dtype, const tri_matrix_step *, const tri_step_values *, const void *, void *, void *)            \
  X(matrix_squares, tri_dtype, const tri_matrix_squares *, const tri_step_values *, const void *, void *, void *)      \
  X(adafactor_direction, tri_dtype, const tri_adafactor *, const tri_step_values *, const void *, const void *,        \
    const tri_adafactor_sums *, void *)                                                                                \
  X(adafactor_step, tri_dtype, const tri_adafactor *, const tri_step_values *, const tri_adafactor_sums *,             \
    const void *, void *, void *)                                                                                      \
  X(low_rank_adam, tri_dtype, int64_t, const tri_adamw *, const tri_step_values *, const void *, void *, void *,       \
    void *)                                                                                                            \
  X(low_rank_rest, tri_dtype, const tri_low_rank_rest *, const tri_step_values *, const void *, const void *,          \
    const void *, void *)                                                                                              \
  X(low_rank_growth, tri_dtype, const tri_step_values *, const double *, void *, double *)                             \
  X(low_rank_step, tri_dtype, const tri_low_rank_step *, const tri_step_values *, const void *, const void *,          \
    const double *, void *, void *)                                                                                    \
  X(quantise_blocks, tri_dtype, int64_t, bool, const void *, uint8_t *, float *)                                       \
  X(dequantise_blocks, tri_dtype, int64_t, bool, const uint8_t *, const float *, void *)                               \
  X(quantise_nf4, tri_dtype, int64_t, const void *, void *)                                                            \
  X(dequantise_nf4, tri_dtype, int64_t, int64_t, int64_t, const void *, void *)                                        \
  X(block_squares, tri_dtype, int64_t, int64_t, const void *, tri_exact_sum *)                                         \
  X(sum, tri_dtype, int64_t, const void *, double *, bool)                                                             \
  X(exact_add, const double *, tri_exact_sum *)

/* Of what a pointer of a type points to, if that is the description of a call, else 0. */
#define DESCRIPTION_BYTES(T)                                                                                           \
  _Generic((T){0},                                                                                                     \
           const tri_matmul *: sizeof(tri_matmul),                                                                     \
           const tri_attention *: sizeof(tri_attention),                                                               \
           const tri_adamw *: sizeof(tri_adamw),                                                                       \
           const tri_lion *: sizeof(tri_lion),                                                                         \
           const tri_sgd *: sizeof(tri_sgd),                                                                           \
           const tri_momentum *: sizeof(tri_momentum),                                                                 \
           const tri_matrix_copy *: sizeof(tri_matrix_copy),                                                           \
           const tri_matrix_polynomial *: sizeof(tri_matrix_polynomial),                                               \
           const tri_matrix_squares *: sizeof(tri_matrix_squares),                                                     \
           const tri_adafactor *: sizeof(tri_adafactor),                                                               \
           const tri_low_rank_rest *: sizeof(tri_low_rank_rest),                                                       \
           const tri_low_rank_step *: sizeof(tri_low_rank_step),                                                       \
           const tri_matrix_step *: sizeof(tri_matrix_step),                                                           \
           const tri_dropout *: sizeof(tri_dropout),                                                                   \
           const tri_grouped_matmul *: sizeof(tri_grouped_matmul),                                                     \
           const tri_router *: sizeof(tri_router),                                                                     \
           const tri_norm *: sizeof(tri_norm),                                                                         \
           const tri_row_copy *: sizeof(tri_row_copy),                                                                 \
           default: 0)

/* Where a pointer to device memory lies in an argument that is not a pointer itself, or in a description; else 0. */
#define COUNT_OFFSET(T)                                                                                                \
  _Generic((T){0},                                                                                                     \
           tri_rows: offsetof(tri_rows, count),                                                                        \
           const tri_norm *: offsetof(tri_norm, rows.count),                                                           \
           const tri_row_copy *: offsetof(tri_row_copy, rows.count),                                                   \
           default: 0)

/* ---- a kernel whose arguments have been put away ----------------------------------------------------------------- */

typedef struct argument {
  size_t offset; /* in the kernel's struct of arguments */
  bool pointer;
  size_t description_bytes;
  size_t count_offset; /* of a number of rows; 0: it has none */
} argument;

typedef struct kernel {
  const char *name, *what;
  size_t bytes; /* of its struct of arguments */
  int num_arguments;
  const argument *arguments;
  tri_status (*run)(tri_queue *queue, const void *arguments);
} kernel;

enum { MOST_BYTES = 512, ALIGNMENT = 16 };

static size_t aligned(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

/* Descriptions follow the arguments, in order. */
static size_t data_bytes(const kernel *k) {
  size_t bytes = aligned(k->bytes);
  for (int i = 0; i < k->num_arguments; i++) bytes += aligned(k->arguments[i].description_bytes);
  return bytes;
}

static void *pointer_of(const char *arguments, const argument *which) {
  void *pointer;
  memcpy(&pointer, arguments + which->offset, sizeof pointer);
  return pointer;
}

static void set_pointer(char *arguments, const argument *which, const void *pointer) {
  memcpy(arguments + which->offset, &pointer, sizeof pointer);
}

/* The number of rows that a struct says where to find; opened in the struct itself. */
static tri_status open_count(tri_guarded_queue *queue, char *at) {
  void *given, *open = NULL;
  memcpy(&given, at, sizeof given);
  if (given == NULL) return TRI_OK;
  TRI_TRY(tri_guarded_open(queue->state, "its number of rows", given, sizeof(int32_t), &open));
  memcpy(at, &open, sizeof open);
  return TRI_OK;
}

static tri_status run_kernel(tri_guarded_queue *queue, const tri_guarded_work *work) {
  const kernel *k = work->kind;
  _Alignas(ALIGNMENT) char arguments[MOST_BYTES], descriptions[MOST_BYTES];
  memcpy(arguments, work->data, k->bytes);
  char *description = descriptions;
  memcpy(descriptions, work->data + aligned(k->bytes), data_bytes(k) - aligned(k->bytes));
  for (int i = 0; i < k->num_arguments; i++) {
    const argument *a = &k->arguments[i];
    if (!a->pointer && a->count_offset > 0) TRI_TRY(open_count(queue, arguments + a->offset + a->count_offset));
    void *given = a->pointer ? pointer_of(arguments, a) : NULL, *open = NULL;
    if (given == NULL) continue;
    if (a->description_bytes > 0) {
      if (a->count_offset > 0) TRI_TRY(open_count(queue, description + a->count_offset));
      set_pointer(arguments, a, description);
      description += aligned(a->description_bytes);
      continue;
    }
    char what[32];
    snprintf(what, sizeof what, "its argument %d", i + 1);
    /* Of no elements it may lie at the end; what is read there is the guards' matter. */
    TRI_TRY(tri_guarded_open(queue->state, what, given, 0, &open));
    set_pointer(arguments, a, open);
  }
  return k->run(queue->queue, arguments);
}

static void put_away(const kernel *k, const char *arguments, tri_guarded_work *work) {
  memcpy(work->data, arguments, k->bytes);
  char *description = work->data + aligned(k->bytes);
  for (int i = 0; i < k->num_arguments; i++) {
    const argument *a = &k->arguments[i];
    const void *given = a->description_bytes > 0 ? pointer_of(arguments, a) : NULL;
    if (given == NULL) continue;
    memcpy(description, given, a->description_bytes);
    description += aligned(a->description_bytes);
  }
}

static tri_status queue_kernel(tri_queue *queue, const kernel *k, const void *arguments) {
  tri_guarded_queue *own = queue->state;
  tri_guarded_state *state = own->state;
  tri_guarded_work *work = NULL;
  tri_guarded_lock(state);
  tri_status status = tri_guarded_queue_work(own, k->what, run_kernel, data_bytes(k), &work);
  uint64_t count = ++state->kernels_queued;
  if (work != NULL) {
    put_away(k, arguments, work);
    work->kind = k;
    work->count = count;
    if (count == state->options.fail_kernel) work->told_to_fail = "fail_kernel";
  }
  tri_guarded_unlock(state);
  return status;
}

/* ---- what a row becomes ------------------------------------------------------------------------------------------ */

/* EACH(f, A, B, C) is f(3, A) f(2, B) f(1, C). */
#define EACH_1(f, T) f(1, T)
#define EACH_2(f, T, ...) f(2, T) EACH_1(f, __VA_ARGS__)
#define EACH_3(f, T, ...) f(3, T) EACH_2(f, __VA_ARGS__)
#define EACH_4(f, T, ...) f(4, T) EACH_3(f, __VA_ARGS__)
#define EACH_5(f, T, ...) f(5, T) EACH_4(f, __VA_ARGS__)
#define EACH_6(f, T, ...) f(6, T) EACH_5(f, __VA_ARGS__)
#define EACH_7(f, T, ...) f(7, T) EACH_6(f, __VA_ARGS__)
#define EACH_8(f, T, ...) f(8, T) EACH_7(f, __VA_ARGS__)
#define EACH_9(f, T, ...) f(9, T) EACH_8(f, __VA_ARGS__)
#define EACH_10(f, T, ...) f(10, T) EACH_9(f, __VA_ARGS__)
#define EACH_11(f, T, ...) f(11, T) EACH_10(f, __VA_ARGS__)
#define EACH_12(f, T, ...) f(12, T) EACH_11(f, __VA_ARGS__)
#define EACH_13(f, T, ...) f(13, T) EACH_12(f, __VA_ARGS__)
#define EACH_14(f, T, ...) f(14, T) EACH_13(f, __VA_ARGS__)
#define EACH_15(f, T, ...) f(15, T) EACH_14(f, __VA_ARGS__)
#define EACH_16(f, T, ...) f(16, T) EACH_15(f, __VA_ARGS__)
#define EACH_17(f, T, ...) f(17, T) EACH_16(f, __VA_ARGS__)
#define EACH_18(f, T, ...) f(18, T) EACH_17(f, __VA_ARGS__)
#define EACH_19(f, T, ...) f(19, T) EACH_18(f, __VA_ARGS__)
#define EACH_20(f, T, ...) f(20, T) EACH_19(f, __VA_ARGS__)
#define EACH_OF(_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17, _18, _19, _20, each, ...)  \
  each
#define EACH(f, ...)                                                                                                   \
  EACH_OF(__VA_ARGS__, EACH_20, EACH_19, EACH_18, EACH_17, EACH_16, EACH_15, EACH_14, EACH_13, EACH_12, EACH_11,       \
          EACH_10, EACH_9, EACH_8, EACH_7, EACH_6, EACH_5, EACH_4, EACH_3, EACH_2, EACH_1, unused)                     \
  (f, __VA_ARGS__)

enum { POINTER_CLASS = 5 }; /* of __builtin_classify_type, in every compiler that has it */

#define FIELD(i, T) T a##i;
#define PARAMETER(i, T) , T a##i
#define PUT(i, T) .a##i = a##i,
#define TAKE(i, T) , taken->a##i
#define ONE_MORE(i, T) +1
#define SAY(i, T)                                                                                                      \
  {offsetof(own_arguments, a##i), __builtin_classify_type((T){0}) == POINTER_CLASS, DESCRIPTION_BYTES(T),              \
   COUNT_OFFSET(T)},

#define DEFINE(name_, ...)                                                                                             \
  typedef struct name_##_arguments {                                                                                   \
    EACH(FIELD, __VA_ARGS__)                                                                                           \
  } name_##_arguments;                                                                                                 \
  static tri_status run_##name_(tri_queue *queue, const void *arguments) {                                             \
    const name_##_arguments *taken = arguments;                                                                        \
    return tri_reference_kernels.name_(queue EACH(TAKE, __VA_ARGS__));                                                 \
  }                                                                                                                    \
  static tri_status queue_##name_(tri_queue *queue EACH(PARAMETER, __VA_ARGS__)) {                                     \
    typedef name_##_arguments own_arguments;                                                                           \
    static const argument list[] = {EACH(SAY, __VA_ARGS__)};                                                           \
    static const kernel own = {                                                                                        \
        #name_, "kernel `" #name_ "`", sizeof(own_arguments), 0 EACH(ONE_MORE, __VA_ARGS__), list, run_##name_};       \
    own_arguments arguments = {EACH(PUT, __VA_ARGS__)};                                                                \
    return queue_kernel(queue, &own, &arguments);                                                                      \
  }                                                                                                                    \
  _Static_assert(sizeof(name_##_arguments) <= MOST_BYTES, #name_);                                                     \
  _Static_assert(__builtin_types_compatible_p(typeof(&queue_##name_), typeof(((tri_device_kernels *)0)->name_)),       \
                 "the row of " #name_ " is not its signature");

KERNELS(DEFINE)

#define ONE_KERNEL(name_, ...) +1
_Static_assert(sizeof(tri_device_kernels) == (0 KERNELS(ONE_KERNEL)) * sizeof(void (*)(void)),
               "each kernel has its row here");

void tri_guarded_fill_kernels(tri_device_kernels *out) {
#define FILL(name_, ...) .name_ = tri_reference_kernels.name_ == NULL ? NULL : queue_##name_,
  *out = (tri_device_kernels){KERNELS(FILL)};
#undef FILL
}
