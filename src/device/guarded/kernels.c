/* The kernels of the reference device, run later. A row of kernels.def defines two functions: one with the kernel's
 * signature, which stores the arguments in a queue, and one that passes them to the reference device's kernel.
 *
 * A pointer among the arguments is one of three: the address of device memory, which is looked up when the kernel runs;
 * NULL; or the address of a description of a call (DESCRIPTION_BYTES), which is copied when the call is queued. */
#include "device/guarded/internal.h"

#include "device/reference/reference.h"

#include <stdio.h>
#include <string.h>

/* Size of the object that a pointer type points to, if that is the description of a call, else 0. */
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
           const tri_nf4_cut *: sizeof(tri_nf4_cut),                                                                   \
           const tri_block_matrix *: sizeof(tri_block_matrix),                                                         \
           const tri_block_part *: sizeof(tri_block_part),                                                             \
           const tri_block_product *: sizeof(tri_block_product),                                                       \
           const tri_completions *: sizeof(tri_completions),                                                           \
           const tri_policy_batch *: sizeof(tri_policy_batch),                                                                     \
           default: 0)

/* Offset of a pointer to a number of rows in device memory, within an argument that is not a pointer itself or within a
 * description; 0: there is no such pointer. */
#define COUNT_OFFSET(T)                                                                                                \
  _Generic((T){0},                                                                                                     \
           tri_rows: offsetof(tri_rows, count),                                                                        \
           const tri_norm *: offsetof(tri_norm, rows.count),                                                           \
           const tri_row_copy *: offsetof(tri_row_copy, rows.count),                                                   \
           default: 0)

/* ---- a kernel with stored arguments ------------------------------------------------------------------------------ */

typedef struct argument {
  size_t offset; /* offset in the kernel's struct of arguments */
  bool pointer;
  size_t description_bytes;
  size_t count_offset; /* offset of the address of a number of rows; 0: none */
} argument;

typedef struct kernel {
  const char *name, *what;
  size_t bytes; /* bytes of the kernel's struct of arguments */
  int num_arguments;
  const argument *arguments;
  tri_status (*run)(tri_queue *queue, const void *arguments);
} kernel;

enum { MOST_BYTES = 512, ALIGNMENT = 16 };

static size_t aligned(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

/* Returns the bytes of the stored arguments; descriptions follow the arguments, in order. */
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

/* Replaces the address of a number of rows, at `at`, by the address at which it can be accessed. */
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
    /* An empty array may be at the end of its memory; the guard pages detect reads of it. */
    TRI_TRY(tri_guarded_open(queue->state, what, given, 0, &open));
    set_pointer(arguments, a, open);
  }
  return k->run(queue->queue, arguments);
}

static void save_arguments(const kernel *k, const char *arguments, tri_guarded_work *work) {
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
    save_arguments(k, arguments, work);
    work->kind = k;
    work->count = count;
    if (count == state->options.fail_kernel) work->told_to_fail = "fail_kernel";
  }
  tri_guarded_unlock(state);
  return status;
}

/* ---- the definitions for a row ----------------------------------------------------------------------------------- */

enum { POINTER_CLASS = 5 }; /* __builtin_classify_type of a pointer, in every compiler that has it */

#define FIELD(argument) TRI_PAIR_DECLARED(argument);
#define PUT(argument) .TRI_PAIR_NAME(argument) = TRI_PAIR_NAME(argument),
#define TAKE(argument) , taken->TRI_PAIR_NAME(argument)
#define ONE_MORE(argument) +1
#define SAY(argument)                                                                                                  \
  {offsetof(own_arguments, TRI_PAIR_NAME(argument)),                                                                   \
   __builtin_classify_type((TRI_PAIR_TYPE(argument)){0}) == POINTER_CLASS, DESCRIPTION_BYTES(TRI_PAIR_TYPE(argument)), \
   COUNT_OFFSET(TRI_PAIR_TYPE(argument))},

#define TRI_KERNEL(name_, ...)                                                                                         \
  typedef struct name_##_arguments {                                                                                   \
    TRI_EACH(FIELD, __VA_ARGS__)                                                                                       \
  } name_##_arguments;                                                                                                 \
  static tri_status run_##name_(tri_queue *queue, const void *arguments) {                                             \
    const name_##_arguments *taken = arguments;                                                                        \
    return tri_reference_kernels.name_(queue TRI_EACH(TAKE, __VA_ARGS__));                                             \
  }                                                                                                                    \
  static tri_status queue_##name_(tri_queue *queue TRI_EACH(TRI_KERNEL_PARAMETER, __VA_ARGS__)) {                      \
    typedef name_##_arguments own_arguments;                                                                           \
    static const argument list[] = {TRI_EACH(SAY, __VA_ARGS__)};                                                       \
    static const kernel own = {                                                                                        \
        #name_, "kernel `" #name_ "`", sizeof(own_arguments), 0 TRI_EACH(ONE_MORE, __VA_ARGS__), list, run_##name_};   \
    own_arguments arguments = {TRI_EACH(PUT, __VA_ARGS__)};                                                            \
    return queue_kernel(queue, &own, &arguments);                                                                      \
  }                                                                                                                    \
  _Static_assert(sizeof(name_##_arguments) <= MOST_BYTES, #name_);
#include "device/kernels.def"

void tri_guarded_fill_kernels(tri_device_kernels *out) {
#define TRI_KERNEL(name_, ...) .name_ = tri_reference_kernels.name_ == NULL ? NULL : queue_##name_,
  *out = (tri_device_kernels){
#include "device/kernels.def"
  };
}
