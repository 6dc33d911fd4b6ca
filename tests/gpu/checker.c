/* How a problem is tested. Each argument is in a piece of device memory of its own, between guards; outputs are NaN
 * before the call. The call is done once on the reference device and twice on the device: once with guards on both
 * sides of each argument, which must not change, and once with no memory after the arguments, so that a device that
 * guards its memory by pages detects reads there. The two results must be equal to the bit.
 *
 * In half of the problems addresses are shifted by a few elements, as in calls on a part of an array.
 *
 * Errors are measured by norm, with the tolerance of the stored type; and element by element, with ten times the
 * tolerance and relative to the root mean square, since a wrong element in a large array has little effect on a norm.
 */
#include "checker.h"
#include "device/exact_sum.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  GUARD_BYTES = 256,
  FRESH_BYTES = 1 << 20,
  SPACE_ALIGNMENT = 256,
  COARSER = 10,
  MOST_MEMORIES = MOST_ARGUMENTS + NUM_SPACES
};

#define ROW(name) {#name, offsetof(tri_device_kernels, name), cases_##name},
const kernel_cases all_kernels[] = {CHECKED_KERNELS(ROW){NULL, 0, NULL}};
_Static_assert(sizeof all_kernels / sizeof all_kernels[0] - 1 == sizeof(tri_device_kernels) / sizeof(void (*)(void)),
               "each kernel has its cases here");

void checker_is_out_of_memory(size_t bytes) {
  fprintf(stderr, "kernel_check: the host does not give %zu bytes\n", bytes);
  exit(6);
}

void poison(void *memory, size_t bytes, unsigned pattern) {
  uint16_t words[4];
  unsigned char *to = memory;
  size_t at = 0;
  for (int i = 0; i < 4; i++) words[i] = (uint16_t)pattern;
  for (; at + sizeof words <= bytes; at += sizeof words) memcpy(to + at, words, sizeof words);
  memcpy(to + at, words, bytes - at);
}

bool is_quick(const checker *c) { return c->quick; }
const tri_device *device_of(const checker *c) { return c->device; }

/* Small and odd; and of GPT-2 124M where there is time. The last ones are drawn. */
bool next_shape(checker *c, int i, int64_t *rows, int64_t *width) {
  static const int64_t fixed[][2] = {{1, 1}, {1, 7}, {3, 5}, {2, 64}, {0, 9}, {13, 129}, {67, 24}, {5, 770}};
  static const int64_t large[][2] = {{1, 768}, {257, 1600}, {2048, 768}, {4099, 31}, {512, 3072}};
  const int num_fixed = sizeof fixed / sizeof fixed[0], num_large = c->quick ? 0 : sizeof large / sizeof large[0];
  const int num_drawn = c->quick ? 3 : 12;
  if (i < num_fixed + num_large) {
    const int64_t *shape = i < num_fixed ? fixed[i] : large[i - num_fixed];
    *rows = shape[0];
    *width = shape[1];
  } else {
    *rows = draw_from(c, 1, 40);
    *width = draw_from(c, 1, i % 3 == 0 ? 1100 : 150);
  }
  return i < num_fixed + num_large + num_drawn;
}

/* ---- account ----------------------------------------------------------------------------------------------------- */

static void copy_note(const problem *p, const char *format, ...) TRI_PRINTF(2, 3);
static void copy_note(const problem *p, const char *format, ...) {
  kernel_result *r = p->checker->result;
  char text[700];
  va_list list;
  va_start(list, format);
  (void)vsnprintf(text, sizeof text, format, list);
  va_end(list);
  if (r->failures++ == 0) snprintf(r->first, sizeof r->first, "%s: %s", p->what, text);
}

/* ---- laying out -------------------------------------------------------------------------------------------------- */

typedef struct piece {
  char *memory; /* device memory, from the guard before the argument on; NULL for a space of no bytes */
  size_t lead_bytes, bytes, tail_bytes;
  unsigned guard;
} piece;

/* A problem in the memory of a device. */
typedef struct laid {
  tri_device *device;
  const problem *problem;
  int count;
  piece pieces[MOST_MEMORIES];          /* arguments, spaces */
  unsigned char *after[MOST_ARGUMENTS]; /* contents of the arguments after the call */
} laid;

static size_t all_bytes(const piece *x) { return x->lead_bytes + x->bytes + x->tail_bytes; }

/* Returns host memory of this size, filled with poison. */
static unsigned char *poison_of(size_t bytes, unsigned pattern) {
  unsigned char *host = malloc(bytes + 1);
  if (host == NULL) checker_is_out_of_memory(bytes);
  poison(host, bytes, pattern);
  return host;
}

static tri_status lay_argument(laid *x, const argument *a, size_t shift_bytes, bool tight) {
  /* An address is of the device's memory, even if no element is. */
  const size_t tail_bytes = tight && a->bytes > 0 ? 0 : GUARD_BYTES;
  piece own = {NULL, GUARD_BYTES + shift_bytes, a->bytes, tail_bytes, POISON_OF_FIRST + (unsigned)x->count};
  void *memory = NULL;
  TRI_TRY(tri_device_memory_create(x->device, all_bytes(&own), &memory));
  own.memory = memory;
  x->pieces[x->count++] = own;
  unsigned char *host = poison_of(all_bytes(&own), own.guard);
  memcpy(host + own.lead_bytes, a->before, a->bytes);
  tri_status status = tri_queue_upload_now(x->device->queue, memory, host, all_bytes(&own));
  free(host);
  return status;
}

static void forget_spaces(checker *c, tri_device *device) {
  for (int tight = 0; tight < 2; tight++) {
    for (int s = 0; s < NUM_SPACES; s++) {
      kept_space *k = &c->kept[device == c->reference][tight][s];
      tri_device_memory_destroy(device, k->memory, k->bytes);
      *k = (kept_space){0};
    }
  }
}

static tri_status grow(tri_device *device, kept_space *k, size_t bytes) {
  void *memory = NULL;
  if (k->bytes >= bytes) return TRI_OK;
  tri_device_memory_destroy(device, k->memory, k->bytes);
  *k = (kept_space){0};
  bytes += bytes / 4;
  TRI_TRY(tri_device_memory_create(device, bytes, &memory));
  *k = (kept_space){memory, bytes};
  unsigned char *host = poison_of(bytes, POISON_OF_SPACES);
  tri_status status = tri_queue_upload_now(device->queue, memory, host, bytes);
  free(host);
  return status;
}

/* Its guards are put up again, and poison where a call begins to use it. */
static tri_status lay_space(laid *x, size_t bytes, bool tight, kept_space *k) {
  const size_t tail_bytes = tight ? 0 : GUARD_BYTES, fresh = bytes < FRESH_BYTES ? bytes : FRESH_BYTES;
  tri_queue *queue = x->device->queue;
  if (bytes == 0) {
    x->pieces[x->count++] = (piece){0};
    return TRI_OK;
  }
  TRI_TRY(grow(x->device, k, GUARD_BYTES + bytes + tail_bytes + SPACE_ALIGNMENT));
  const size_t begin = (k->bytes - tail_bytes - bytes) / SPACE_ALIGNMENT * SPACE_ALIGNMENT;
  const piece own = {k->memory + begin - GUARD_BYTES, GUARD_BYTES, bytes, tail_bytes, POISON_OF_GUARDS};
  x->pieces[x->count++] = own;
  unsigned char *guard = poison_of(GUARD_BYTES, own.guard), *space = poison_of(fresh, POISON_OF_SPACES);
  tri_status status = tri_queue_upload_now(queue, own.memory, guard, GUARD_BYTES);
  if (status == TRI_OK) status = tri_queue_upload_now(queue, own.memory + GUARD_BYTES, space, fresh);
  if (status == TRI_OK && tail_bytes > 0)
    status = tri_queue_upload_now(queue, own.memory + GUARD_BYTES + bytes, guard, tail_bytes);
  free(guard);
  free(space);
  return status;
}

static tri_status lay_out(laid *x, const int *shifts, bool tight) {
  const problem *p = x->problem;
  checker *c = p->checker;
  size_t spaces[NUM_SPACES] = {0};
  for (int i = 0; i < p->count; i++) {
    const argument *a = &p->arguments[i];
    TRI_TRY(lay_argument(x, a, (size_t)shifts[i] * tri_dtype_bytes(a->type), tight));
  }
  if (p->spaces != NULL) TRI_TRY(p->spaces(p, &x->device->description, spaces));
  for (int s = 0; s < NUM_SPACES; s++)
    TRI_TRY(lay_space(x, spaces[s], tight, &c->kept[x->device == c->reference][tight][s]));
  return TRI_OK;
}

static void release_laid(laid *x) {
  tri_queue_drain(x->device->queue);
  for (int i = 0; i < x->count && i < x->problem->count; i++)
    tri_device_memory_destroy(x->device, x->pieces[i].memory, all_bytes(&x->pieces[i]));
  for (int i = 0; i < MOST_ARGUMENTS; i++) free(x->after[i]);
  *x = (laid){0};
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static const char *name_of(const laid *x, int i) {
  return i < x->problem->count ? x->problem->arguments[i].name : i == x->problem->count ? "workspace" : "packed b";
}

static void check_guard(const laid *x, int i, const unsigned char *guard, size_t bytes, bool before) {
  const uint16_t word = (uint16_t)x->pieces[i].guard;
  for (size_t at = 0; at < bytes; at++) {
    /* The pattern goes on from the beginning of what was laid. */
    const size_t place = before ? at : at + x->pieces[i].lead_bytes + x->pieces[i].bytes;
    if (guard[at] == ((const unsigned char *)&word)[(i < x->problem->count ? place : at) % 2]) continue;
    copy_note(x->problem, "wrote %zu bytes %s %s", before ? bytes - at : at, before ? "before" : "behind the end of",
              name_of(x, i));
    return;
  }
}

static tri_status fetch_argument(laid *x, int i) {
  const piece *own = &x->pieces[i];
  unsigned char *host = malloc(all_bytes(own) + 1);
  if (host == NULL) checker_is_out_of_memory(all_bytes(own));
  x->after[i] = host;
  TRI_TRY(tri_queue_download_now(x->device->queue, host, own->memory, all_bytes(own)));
  check_guard(x, i, host, own->lead_bytes, true);
  check_guard(x, i, host + own->lead_bytes + own->bytes, own->tail_bytes, false);
  memmove(host, host + own->lead_bytes, own->bytes);
  return TRI_OK;
}

static tri_status check_space(const laid *x, int i) {
  const piece *own = &x->pieces[i];
  unsigned char guard[GUARD_BYTES];
  if (own->memory == NULL) return TRI_OK;
  TRI_TRY(tri_queue_download_now(x->device->queue, guard, own->memory, GUARD_BYTES));
  check_guard(x, i, guard, GUARD_BYTES, true);
  if (own->tail_bytes == 0) return TRI_OK;
  TRI_TRY(tri_queue_download_now(x->device->queue, guard, own->memory + GUARD_BYTES + own->bytes, GUARD_BYTES));
  check_guard(x, i, guard, GUARD_BYTES, false);
  return TRI_OK;
}

static tri_status run(laid *x, const int *shifts, bool tight) {
  char *memory[MOST_MEMORIES];
  TRI_TRY(lay_out(x, shifts, tight));
  for (int i = 0; i < x->count; i++) {
    memory[i] = x->pieces[i].memory == NULL ? NULL : x->pieces[i].memory + x->pieces[i].lead_bytes;
  }
  tri_queue_at(x->device->queue, "kernel_check", x->problem->checker->result->cases, NULL);
  if (x->device == x->problem->checker->reference && x->problem->expect != NULL) {
    x->problem->expect(x->problem, memory); /* its memory is the host's */
  } else {
    TRI_TRY(x->problem->run(x->problem, x->device->queue, memory));
  }
  TRI_TRY(tri_queue_finish(x->device->queue));
  for (int i = 0; i < x->count; i++) TRI_TRY(i < x->problem->count ? fetch_argument(x, i) : check_space(x, i));
  return TRI_OK;
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

typedef struct sums {
  double difference, norm, worst, worst_got, worst_want;
  int64_t count, worst_at;
} sums;

/* Not-a-numbers and infinities are equal or not. */
static void add_element(sums *s, int64_t at, double got, double want, double yardstick) {
  double d = isfinite(want) ? fabs(got - want) : got == want || (isnan(got) && isnan(want)) ? 0 : INFINITY;
  if (isnan(d)) d = INFINITY;
  s->difference += d * d;
  if (isfinite(want)) s->norm += want * want;
  s->count++;
  double share = d / (isfinite(want) ? fabs(want) + yardstick : 1);
  if (share > s->worst) {
    s->worst = share;
    s->worst_at = at;
    s->worst_got = got;
    s->worst_want = want;
  }
}

typedef struct comparison {
  const problem *problem;
  const argument *argument;
  const unsigned char *got, *want;
  bool *written; /* for each element */
} comparison;

/* A function that is called for each range of a region. */
typedef void each(const comparison *x, void *with, int64_t first, int64_t width);

static void over_region(const comparison *x, const region *where, each *function, void *with) {
  for (int64_t r = 0; r < where->rows; r++) {
    for (int64_t g = 0; g < where->groups; g++)
      function(x, with, where->first + r * where->row_stride + g * where->group_stride, where->width);
  }
}

static void mark(const comparison *x, void *with, int64_t first, int64_t width) {
  (void)with;
  for (int64_t i = 0; i < width; i++) x->written[first + i] = true;
}

typedef struct measure {
  sums sums;
  double yardstick;
} measure;

static void measure_stretch(const comparison *x, void *with, int64_t first, int64_t width) {
  measure *m = with;
  const tri_dtype type = x->argument->type;
  for (int64_t at = first; at < first + width; at++)
    add_element(&m->sums, at, number_get(type, x->got, at), number_get(type, x->want, at), m->yardstick);
}

static bool same_element(const argument *a, const unsigned char *left, const unsigned char *right, int64_t at) {
  const size_t bytes = tri_dtype_bytes(a->type);
  return memcmp(left + (size_t)at * bytes, right + (size_t)at * bytes, bytes) == 0;
}

static void account(const comparison *x, const sums *s, double error) {
  kernel_result *r = x->problem->checker->result;
  const argument *a = x->argument;
  if (error / a->tolerance >= r->worst_share) {
    r->worst_share = error / a->tolerance;
    r->worst = error;
  }
  if (error <= a->tolerance && s->worst <= COARSER * a->tolerance) return;
  copy_note(x->problem, "%s is off by %.3g by norm (tolerance %g); element %lld of %lld is %.17g and should be %.17g",
            a->name, error, a->tolerance, (long long)s->worst_at, (long long)a->count, s->worst_got, s->worst_want);
}

static void compare_region(const comparison *x, const region *where) {
  const argument *a = x->argument;
  measure first = {.yardstick = 1}, second = {0};
  over_region(x, where, measure_stretch, &first);
  if (first.sums.count == 0) return;
  const double count = (double)first.sums.count, floor = a->yardstick * sqrt(count);
  const double norm = fmax(sqrt(first.sums.norm), floor);
  second.yardstick = norm / sqrt(count);
  over_region(x, where, measure_stretch, &second);
  account(x, &second.sums, sqrt(first.sums.difference) / norm);
}

/* Instructions that round to bf16 may take what is smaller than any normal number for zero. */
static bool is_flushed(tri_dtype type, double got, double want) {
  return type != TRI_FP64 && got == 0 && fabs(want) < 0x1p-126;
}

static void compare_exactly(const comparison *x) {
  const argument *a = x->argument;
  if (memcmp(x->got, x->want, a->bytes) == 0) return;
  for (int64_t at = 0; at < a->count; at++) {
    const double got = number_get(a->type, x->got, at), want = number_get(a->type, x->want, at);
    if (!x->written[at] || same_element(a, x->got, x->want, at) || (isnan(got) && isnan(want))) continue;
    if (is_flushed(a->type, got, want)) continue;
    copy_note(x->problem, "element %lld of %lld of %s is %.17g and should be %.17g to the bit", (long long)at,
              (long long)a->count, a->name, got, want);
    return;
  }
}

/* Limbs may be kept in different ways; exact: of the same number. */
static void compare_sums(const comparison *x) {
  tri_exact_sum got, want;
  memcpy(&got, x->got, sizeof got);
  memcpy(&want, x->want, sizeof want);
  sums s = {0};
  const double got_value = tri_exact_sum_value(&got), want_value = tri_exact_sum_value(&want);
  add_element(&s, 0, got_value, want_value, 0);
  account(x, &s, s.worst);
  if (!x->argument->exact || isnan(want_value)) return;
  if (memcmp(got.limbs, want.limbs, sizeof got.limbs) != 0)
    copy_note(x->problem, "%s is another number of %zu bits than it should be (%.17g)", x->argument->name,
              sizeof got.limbs * 4, want_value);
}

static void check_untouched(const comparison *x) {
  const argument *a = x->argument;
  if (memcmp(x->got, a->before, a->bytes) == 0) return;
  for (int64_t at = 0; at < a->count; at++) {
    if (x->written[at] || same_element(a, x->got, a->before, at)) continue;
    copy_note(x->problem, "wrote element %lld of %lld of %s, which is not its to write (%.9g)", (long long)at,
              (long long)a->count, a->name, number_get(a->type, x->got, at));
    return;
  }
}

static void compare(const problem *p, int i, const laid *got, const laid *want) {
  const argument *a = &p->arguments[i];
  comparison x = {p, a, got->after[i], want->after[i], calloc((size_t)a->count + 1, sizeof(bool))};
  if (x.written == NULL) checker_is_out_of_memory((size_t)a->count);
  for (int r = 0; r < a->num_regions; r++) over_region(&x, &a->regions[r], mark, NULL);
  check_untouched(&x);
  if (a->sum) {
    compare_sums(&x);
  } else if (a->exact) {
    compare_exactly(&x);
  } else {
    for (int r = 0; r < a->num_regions; r++) compare_region(&x, &a->regions[r]);
  }
  free(x.written);
}

/* ---- a problem --------------------------------------------------------------------------------------------------- */

static void renew(checker *c) {
  forget_spaces(c, c->device);
  tri_device_destroy(c->device);
  c->device = NULL;
  if (c->open(c->which, &c->device) != TRI_OK) c->device = NULL;
}

static void compare_all(const problem *p, const laid *guarded, const laid *tight, const laid *want) {
  for (int i = 0; i < p->count; i++) {
    compare(p, i, guarded, want);
    if (memcmp(guarded->after[i], tight->after[i], p->arguments[i].bytes) != 0)
      copy_note(p, "a second call on the same inputs gave other bits of %s", p->arguments[i].name);
  }
}

static void try_all(problem *p, const int *shifts) {
  checker *c = p->checker;
  laid want = {.device = c->reference, .problem = p}, guarded = {.device = c->device, .problem = p},
       tight = {.device = c->device, .problem = p};
  tri_status status = run(&want, shifts, false);
  if (status != TRI_OK) {
    copy_note(p, "the reference device failed: %s", tri_status_message());
    release_laid(&want);
    return;
  }
  status = run(&guarded, shifts, false);
  if (status == TRI_OK) status = run(&tight, shifts, true);
  if (status == TRI_OK) {
    compare_all(p, &guarded, &tight, &want);
  } else {
    copy_note(p, "%s", tri_status_message());
  }
  release_laid(&want);
  release_laid(&guarded);
  release_laid(&tight);
  if (status != TRI_OK) renew(c);
}

void check(problem *p) {
  checker *c = p->checker;
  int shifts[MOST_ARGUMENTS] = {0};
  const bool shifted = draw_bool(c);
  for (int i = 0; i < p->count; i++) {
    const argument *a = &p->arguments[i];
    if (shifted && !a->aligned) shifts[i] = (int)draw(c, (int64_t)(16 / tri_dtype_bytes(a->type)));
  }
  if (shifted) describe(p, ", shifted");
  if (c->device != NULL) try_all(p, shifts);
  c->result->cases++;
  problem_free(p);
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

tri_status checker_open(checker *c) {
  TRI_TRY(tri_device_create("reference", 1, &c->reference));
  tri_status status = c->open(c->which, &c->device);
  if (status != TRI_OK) {
    tri_device_destroy(c->reference);
    c->reference = NULL;
  }
  return status;
}

void checker_close(checker *c) {
  if (c->device != NULL) forget_spaces(c, c->device);
  forget_spaces(c, c->reference);
  tri_device_destroy(c->device);
  tri_device_destroy(c->reference);
}

static bool has(const checker *c, const kernel_cases *kernel) {
  void (*function)(void) = NULL;
  memcpy(&function, (const char *)c->device->kernels + kernel->slot, sizeof function);
  return function != NULL;
}

static bool is_of_blocks(const kernel_cases *kernel) {
  static const char *const names[] = {"pack_blocks", "unpack_blocks", "embedding_blocks", "block_matmul"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(kernel->name, names[i]) == 0) return true;
  }
  return false;
}

/* A device that does not pack matrices needs no kernel for packing, and one that refuses weights in blocks none for
 * these. */
static bool is_missing(const checker *c, const kernel_cases *kernel, tri_dtype type) {
  if (has(c, kernel)) return false;
  if (is_of_blocks(kernel)) return c->device->kernels->block_matmul != NULL;
  if (strcmp(kernel->name, "matmul_pack") != 0) return true;
  const tri_device_description *d = &c->device->description;
  const tri_matmul product = {512, 768, 768, 768, 768, 768, type, type, type, .b_transposed = true};
  size_t bytes = 0;
  return d->matmul_packed(d, &product, &bytes) != TRI_OK || bytes > 0;
}

tri_status checker_run(checker *c, const kernel_cases *kernel, tri_dtype type, kernel_result *out) {
  *out = (kernel_result){.kernel = kernel->name, .type = type};
  c->result = out;
  c->turns = 0;
  c->random = c->seed ^ (uint64_t)kernel->slot << 40 ^ (uint64_t)tri_dtype_bytes(type) << 60;
  out->missing = is_missing(c, kernel, type);
  if (out->missing) {
    out->failures = 1;
    snprintf(out->first, sizeof out->first, "the device has no such kernel");
    return TRI_OK;
  }
  if (has(c, kernel) || !is_of_blocks(kernel)) kernel->cases(c, type);
  if (c->device == NULL) {
    return tri_fail(TRI_DEVICE_FAILED, "after `%s` (%s) the device cannot be opened again: %s", kernel->name,
                    out->first, tri_status_message());
  }
  return TRI_OK;
}
