#include "device/kernel_times.h"

#include "base/clock.h"
#include "base/memory.h"
#include "device/kernels.h"

#include <stddef.h>
#include <string.h>

#define TRI_KERNEL(name_, ...) KERNEL_##name_,
enum {
#include "device/kernels.def"
  NUM_KERNELS
};

/* MOST: largest number of different shapes. ROOM: entries of the hash table. */
enum { MOST = 2048, ROOM = 2 * MOST, EMPTY = -1 };

struct tri_kernel_times {
  tri_device_kernels kernels; /* the first member, so that its address in the device leads to this struct */
  const tri_device_kernels *plain;
  tri_device *device;
  int64_t count;
  tri_kernel_time list[MOST + NUM_KERNELS]; /* [count] */
  int32_t at[ROOM];                         /* indices into list, by the hash; EMPTY: none */
  int32_t others[NUM_KERNELS];              /* index of a kernel's entry for shapes beyond MOST; EMPTY: not used */
};

/* ---- the work of a call ------------------------------------------------------------------------------------------ */

/* The work of a call: members of tri_kernel_time. */
typedef struct work {
  tri_matmul product;
  int64_t groups;
  double flops, bytes;
} work;

#define FIELD(argument) TRI_PAIR_DECLARED(argument);
#define TRI_KERNEL(name_, ...)                                                                                         \
  typedef struct name_##_arguments {                                                                                   \
    TRI_EACH(FIELD, __VA_ARGS__)                                                                                       \
  } name_##_arguments;
#include "device/kernels.def"

static double wide_bytes(tri_dtype type) { return (double)tri_dtype_bytes(tri_dtype_wide(type)); }

/* Return the bytes of `arrays` arrays of a type's elements: of rows of `width` elements, and of `count` elements of the
 * wide type. */
static double of_rows(tri_dtype type, tri_rows rows, int64_t width, double arrays) {
  return arrays * (double)(tri_rows_live(rows) * width) * (double)tri_dtype_bytes(type);
}

static double of_wide(tri_dtype type, int64_t count, double arrays) {
  return arrays * (double)count * wide_bytes(type);
}

static double of_norm(const tri_norm *norm, double arrays) {
  return of_rows(norm->type, norm->rows, norm->groups * norm->width, arrays);
}

static double of_copy(const tri_row_copy *copy) {
  const size_t element = tri_dtype_bytes(copy->from_type) + tri_dtype_bytes(copy->to_type);
  return (double)(tri_rows_live(copy->rows) * copy->width) * (double)element;
}

/* Returns the bytes of an update: `arrays` arrays of the wide type, and the copy of the parameter, if any. */
static double of_update(tri_dtype type, int64_t count, double arrays, const void *narrow) {
  return of_wide(type, count, arrays) + (narrow != NULL ? (double)count * (double)tri_dtype_bytes(type) : 0);
}

/* Bytes of the kernels that mostly move memory: X(kernel, bytes of a call with the arguments *a). */
#define BYTES(X)                                                                                                       \
  X(fill_zero, (double)a->bytes)                                                                                       \
  X(convert, (double)a->count *(double)(tri_dtype_bytes(a->from) + tri_dtype_bytes(a->to)))                            \
  X(copy_rows, of_copy(a->copy))                                                                                       \
  X(add, of_rows(a->type, a->rows, a->width, 3))                                                                       \
  X(scale, 2.0 * (double)a->count * (double)tri_dtype_bytes(a->type))                                                  \
  X(column_sum, of_rows(a->type, a->rows, a->width, 1))                                                                \
  X(embedding_forward, of_rows(a->type, a->rows, a->width, 2))                                                         \
  X(embedding_backward,                                                                                                \
    of_rows(a->type, a->rows, a->width, 1) + 2 * of_wide(a->type, tri_rows_live(a->rows) * a->width, 1))               \
  X(position_backward, of_rows(a->type, a->rows, a->width, 1))                                                         \
  X(layer_norm_forward, of_norm(a->norm, a->branch != NULL ? 4 : 2))                                                   \
  X(layer_norm_backward_input, of_norm(a->norm, a->accumulate ? 4 : 3))                                                \
  X(layer_norm_backward_weight, of_norm(a->norm, 2))                                                                   \
  X(rms_norm_forward, of_norm(a->norm, a->branch != NULL ? 4 : 2))                                                     \
  X(rms_norm_backward_input, of_norm(a->norm, a->accumulate ? 4 : 3))                                                  \
  X(rms_norm_backward_weight, of_norm(a->norm, 2))                                                                     \
  X(activation_forward, of_rows(a->type, a->rows, a->width, 2))                                                        \
  X(activation_backward, of_rows(a->type, a->rows, a->width, 3))                                                       \
  X(gated_forward, of_rows(a->type, a->rows, a->width, 3))                                                             \
  X(gated_backward, of_rows(a->type, a->rows, a->width, 5))                                                            \
  X(weighted_gated_forward, of_rows(a->type, a->rows, a->width, 3))                                                    \
  X(weighted_gated_backward, of_rows(a->type, a->rows, a->width, 5))                                                   \
  X(dropout, 2.0 * (double)a->count * (double)tri_dtype_bytes(a->type))                                                \
  X(rope, of_rows(a->type, a->rows, a->heads * a->head_dim, 2))                                                        \
  X(softmax_logits, of_wide(a->type, a->rows * a->vocabulary, 2))                                                      \
  X(softmax_statistics, of_wide(a->type, a->rows * a->vocabulary, 1))                                                  \
  X(softmax_spread, of_wide(a->type, a->rows * a->vocabulary, 1))                                                      \
  X(softmax_gradient, of_update(a->type, a->rows * a->vocabulary, 1, a->gradient))                                     \
  X(adamw, of_update(a->type, a->count, 7, a->narrow))                                                                 \
  X(lion, of_update(a->type, a->count, 5, a->narrow))                                                                  \
  X(sgd, of_update(a->type, a->count, 5, a->narrow))                                                                   \
  X(schedule_free, of_update(a->type, a->count, 7, a->narrow))                                                         \
  X(lerp, of_wide(a->type, a->count, 3))                                                                               \
  X(momentum, of_wide(a->type, a->count, 4))                                                                           \
  X(block_squares, of_wide(a->type, a->count, 1))                                                                      \
  X(sum, of_wide(a->type, a->count, 1))

#define DEFINE_BYTES(name_, bytes_)                                                                                    \
  static void bytes_of_##name_(const void *arguments, work *out) {                                                     \
    const name_##_arguments *a = arguments;                                                                            \
    out->bytes = bytes_;                                                                                               \
  }
BYTES(DEFINE_BYTES)

static double flops_of(const tri_matmul *p) { return 2.0 * (double)p->m * (double)p->n * (double)p->k; }

static void work_of_matmul(const void *arguments, work *out) {
  const matmul_arguments *a = arguments;
  out->product = *a->product;
  out->flops = flops_of(a->product);
}

static void work_of_grouped_matmul(const void *arguments, work *out) {
  const grouped_matmul_arguments *a = arguments;
  const tri_matmul *p = &a->product->product;
  const double most = (double)(p->a_transposed ? p->k : p->m), rows = (double)a->begins[a->product->groups];
  out->product = *p;
  out->groups = a->product->groups;
  out->flops = most > 0 ? flops_of(p) * rows / most : 0;
}

static void work_of_matmul_pack(const void *arguments, work *out) {
  const matmul_pack_arguments *a = arguments;
  const double element = (double)(tri_dtype_bytes(a->b_plain_type) + tri_dtype_bytes(a->product->b_type));
  out->bytes = (double)(a->product->k * a->product->n) * element;
}

/* Returns the number of pairs of a query and a key in the slices of a call. */
static double count_pairs(const tri_attention *call, const tri_attention_slice *slices) {
  double pairs = 0;
  for (int64_t s = 0; s < call->num_slices; s++) {
    const tri_attention_slice *slice = &slices[s];
    for (int64_t q = 0; q < slice->queries; q++) {
      const int64_t low = q + slice->from, high = q + slice->to;
      const int64_t first = low > 0 ? low : 0, last = high < slice->keys - 1 ? high : slice->keys - 1;
      if (last >= first) pairs += (double)(last - first + 1);
    }
  }
  return pairs;
}

/* Returns the FLOPs of `gemms` GEMMs of scores, as the costs of operations count them (ops/attention_shape.c). */
static double flops_of_attention(const tri_attention *call, const tri_attention_slice *slices, double gemms) {
  return gemms * 2.0 * count_pairs(call, slices) * (double)(call->heads * call->head_dim);
}

static void work_of_attention_forward(const void *arguments, work *out) {
  const attention_forward_arguments *a = arguments;
  out->flops = flops_of_attention(a->call, a->slices, 2);
}

static void work_of_attention_backward(const void *arguments, work *out) {
  const attention_backward_arguments *a = arguments;
  out->flops = flops_of_attention(a->call, a->slices, 5);
}

static void work_of_attention_pages(const void *arguments, work *out) {
  const attention_pages_arguments *a = arguments;
  out->flops = flops_of_attention(a->call, a->slices, 2);
}

/* Sets the members of a call's work; NULL: they stay 0. */
typedef void work_function(const void *arguments, work *out);

#define ENTRY(name_, bytes_) [KERNEL_##name_] = bytes_of_##name_,
static work_function *const works[NUM_KERNELS] = {[KERNEL_matmul] = work_of_matmul,
                                                  [KERNEL_grouped_matmul] = work_of_grouped_matmul,
                                                  [KERNEL_matmul_pack] = work_of_matmul_pack,
                                                  [KERNEL_attention_forward] = work_of_attention_forward,
                                                  [KERNEL_attention_backward] = work_of_attention_backward,
                                                  [KERNEL_attention_pages] = work_of_attention_pages,
                                                  BYTES(ENTRY)};

/* ---- the list ---------------------------------------------------------------------------------------------------- */

int tri_kernel_times_compare_products(const tri_matmul *a, const tri_matmul *b) {
  enum { MEMBERS = 11 };
  const int64_t of_a[MEMBERS] = {
      a->m,        a->n,          a->k,         a->a_type, a->b_type, a->c_type, a->a_transposed, a->b_transposed,
      a->b_packed, a->generating, a->accumulate};
  const int64_t of_b[MEMBERS] = {
      b->m,        b->n,          b->k,         b->a_type, b->b_type, b->c_type, b->a_transposed, b->b_transposed,
      b->b_packed, b->generating, b->accumulate};
  int i = 0;
  while (i < MEMBERS - 1 && of_a[i] == of_b[i]) i++;
  return of_a[i] < of_b[i] ? -1 : of_a[i] > of_b[i] ? 1 : 0;
}

bool tri_kernel_times_same_product(const tri_matmul *a, const tri_matmul *b) {
  return tri_kernel_times_compare_products(a, b) == 0;
}

static bool is_same(const tri_kernel_time *entry, const char *kernel, const tri_origin *origin, const work *w) {
  return entry->kernel == kernel && entry->operation == origin->name && entry->pass == origin->pass &&
         entry->groups == w->groups && tri_kernel_times_same_product(&entry->product, &w->product);
}

static uint64_t mix(uint64_t hash, uint64_t value) { return (hash ^ value) * 0x9e3779b97f4a7c15u; }

static uint64_t hash_of(const char *kernel, const tri_origin *origin, const work *w) {
  uint64_t hash = mix(mix(mix(0, (uintptr_t)kernel), (uintptr_t)origin->name), (uintptr_t)origin->pass);
  hash = mix(mix(mix(hash, (uint64_t)w->product.m), (uint64_t)w->product.n), (uint64_t)w->product.k);
  return hash >> 40;
}

static tri_kernel_time *add_entry(tri_kernel_times *t, const char *kernel, int32_t *index) {
  *index = (int32_t)t->count++;
  t->list[*index] = (tri_kernel_time){.kernel = kernel};
  return &t->list[*index];
}

/* Returns the entry for a call, and adds it if it is new; if the list is full, the kernel's entry for all other
 * calls. */
static tri_kernel_time *find(tri_kernel_times *t, int id, const char *kernel, const tri_origin *origin, const work *w) {
  uint64_t place = hash_of(kernel, origin, w) % ROOM;
  for (; t->at[place] != EMPTY; place = (place + 1) % ROOM) {
    if (is_same(&t->list[t->at[place]], kernel, origin, w)) return &t->list[t->at[place]];
  }
  if (t->count >= MOST) return t->others[id] != EMPTY ? &t->list[t->others[id]] : add_entry(t, kernel, &t->others[id]);
  tri_kernel_time *entry = add_entry(t, kernel, &t->at[place]);
  entry->operation = origin->name;
  entry->pass = origin->pass;
  entry->of_call = origin->index >= 0;
  entry->product = w->product;
  entry->groups = w->groups;
  return entry;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static tri_kernel_times *times_of(tri_queue *queue) {
  return (tri_kernel_times *)(void *)(uintptr_t)queue->device->kernels;
}

static void add_call(tri_queue *queue, int id, const char *kernel, const void *arguments, double seconds) {
  tri_kernel_times *t = times_of(queue);
  work w = {.groups = 0};
  if (works[id] != NULL) works[id](arguments, &w);
  tri_kernel_time *entry = find(t, id, kernel, &queue->origin, &w);
  entry->calls++;
  entry->seconds += seconds;
  entry->flops += w.flops;
  entry->bytes += w.bytes;
}

#define PUT(argument) .TRI_PAIR_NAME(argument) = TRI_PAIR_NAME(argument),
#define PASS_ON(argument) , TRI_PAIR_NAME(argument)

#define TRI_KERNEL(name_, ...)                                                                                         \
  static tri_status time_##name_(tri_queue *queue TRI_EACH(TRI_KERNEL_PARAMETER, __VA_ARGS__)) {                       \
    const tri_device_kernels *plain = times_of(queue)->plain;                                                          \
    const double begin_s = tri_clock_s();                                                                              \
    TRI_TRY(plain->name_(queue TRI_EACH(PASS_ON, __VA_ARGS__)));                                                       \
    const double seconds = tri_clock_s() - begin_s;                                                                    \
    const name_##_arguments arguments = {TRI_EACH(PUT, __VA_ARGS__)};                                                  \
    if (queue == queue->device->queue) add_call(queue, KERNEL_##name_, #name_, &arguments, seconds);                   \
    return TRI_OK;                                                                                                     \
  }
#include "device/kernels.def"

tri_status tri_kernel_times_create(tri_device *device, tri_kernel_times **out) {
  tri_kernel_times *t = NULL;
  if (device->driver->mark != NULL) {
    return tri_fail(
        TRI_UNSUPPORTED,
        "the kernels of the device %s run after the calls that queue them, so their times are unknown here; "
        "use the vendor's profiler (nsys, rocprof), or the device cpu",
        device->info.name);
  }
  TRI_TRY(tri_alloc("times of kernels", 1, sizeof *t, &t));
  t->device = device;
  t->plain = device->kernels;
  for (int i = 0; i < ROOM; i++) t->at[i] = EMPTY;
  for (int i = 0; i < NUM_KERNELS; i++) t->others[i] = EMPTY;
#define TRI_KERNEL(name_, ...) t->kernels.name_ = t->plain->name_ == NULL ? NULL : time_##name_;
#include "device/kernels.def"
  *out = t;
  return TRI_OK;
}

void tri_kernel_times_begin(tri_kernel_times *t) { t->device->kernels = &t->kernels; }

void tri_kernel_times_pause(tri_kernel_times *t) { t->device->kernels = t->plain; }

void tri_kernel_times_destroy(tri_kernel_times *t) {
  if (t == NULL) return;
  tri_kernel_times_pause(t);
  tri_free(t);
}

const tri_kernel_time *tri_kernel_times_list(const tri_kernel_times *t, int64_t *count) {
  *count = t->count;
  return t->list;
}
