/* The choices of algorithms: a list of GEMMs, each with its algorithm. */
#include "device/gpu/gemm.h"

#include "base/log.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Alignment in bytes of planned GEMMs: planned memory is aligned to 64 bytes, and requests have at most 16. */
enum { PLANNED_ALIGNMENT = 16 };

/* ---- the library ------------------------------------------------------------------------------------------------- */

tri_status tri_gpu_gemms_create(tri_gpu *gpu, tri_gpu_gemms **out) {
  tri_gpu_gemms *products = NULL;
  TRI_TRY(tri_alloc("matrix products", 1, sizeof *products, &products));
  products->gpu = gpu;
  pthread_mutex_init(&products->lock, NULL);
  *out = products;
  return TRI_OK;
}

void tri_gpu_gemms_destroy(tri_gpu_gemms *products) {
  if (products == NULL) return;
  if (products->vendor != NULL) products->vendor->close(products->state);
  pthread_mutex_destroy(&products->lock);
  tri_free(products->entries);
  tri_free(products);
}

static void open_vendor(tri_gpu_gemms *products) {
  const tri_gpu_gemm_library *vendor = products->gpu->runtime->products;
  products->opened = true;
  if (vendor == NULL) return;
  if (vendor->open(vendor, products->gpu, &products->state) == TRI_OK) {
    products->vendor = vendor;
    return;
  }
  tri_warn("matrix products are made by this program's own kernels, which take several times as long: %s",
           tri_status_message());
}

tri_status tri_gpu_gemms_open(tri_gpu_gemms *products) {
  pthread_mutex_lock(&products->lock);
  if (!products->opened) open_vendor(products);
  pthread_mutex_unlock(&products->lock);
  return TRI_OK;
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

enum { NUM_NUMBERS = 14 };

static void numbers_of(const tri_gpu_gemm *p, int64_t out[NUM_NUMBERS]) {
  const int64_t all[NUM_NUMBERS] = {p->m,
                                    p->n,
                                    p->k,
                                    p->lda,
                                    p->ldb,
                                    p->ldc,
                                    (int64_t)p->in,
                                    (int64_t)p->out,
                                    p->a_transposed,
                                    p->b_transposed,
                                    p->accumulate,
                                    p->bias,
                                    p->tf32,
                                    p->alignment};
  memcpy(out, all, sizeof all);
}

/* Compares two GEMMs member by member, for qsort and for equality. */
static int compare_bytes(const void *left, const void *right) {
  int64_t a[NUM_NUMBERS], b[NUM_NUMBERS];
  numbers_of(left, a);
  numbers_of(right, b);
  for (int i = 0; i < NUM_NUMBERS; i++) {
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  }
  return 0;
}

/* Finds the GEMM's entry, or creates it. The caller holds the lock; *out is valid until the next call, which may move
 * the entries. */
static tri_status find(tri_gpu_gemms *products, const tri_gpu_gemm *product, tri_gpu_gemm_entry **out) {
  for (int64_t i = 0; i < products->num_entries; i++) {
    *out = &products->entries[i];
    if (compare_bytes(&(*out)->product, product) == 0) return TRI_OK;
  }
  TRI_TRY(tri_grow("matrix products", sizeof *products->entries, products->num_entries, &products->room,
                   &products->entries));
  *out = &products->entries[products->num_entries++];
  **out = (tri_gpu_gemm_entry){.product = *product};
  return TRI_OK;
}

tri_status tri_gpu_gemms_candidates(tri_gpu_gemms *products, const tri_gpu_gemm *product,
                                    tri_gpu_gemm_choice out[TRI_GPU_MOST_ALGORITHMS], int *count) {
  tri_gpu_algorithm algorithms[TRI_GPU_MOST_ALGORITHMS];
  const tri_gpu_gemm_library *library = products->vendor;
  const size_t bytes = tri_gpu_gemm_workspace(product);
  *count = 0;
  if (library != NULL && product->k > 0) {
    TRI_TRY(library->algorithms(products->state, product, bytes, algorithms, count));
  }
  if (*count == 0) {
    library = &tri_gpu_tiled;
    TRI_TRY(library->algorithms(NULL, product, bytes, algorithms, count));
  }
  for (int i = 0; i < *count; i++) out[i] = (tri_gpu_gemm_choice){library, algorithms[i]};
  return TRI_OK;
}

static tri_status choose_now(tri_gpu_gemms *products, const tri_gpu_gemm *product, tri_gpu_gemm_choice *out) {
  tri_gpu_gemm_entry *entry = NULL;
  tri_gpu_gemm_choice candidates[TRI_GPU_MOST_ALGORITHMS];
  int count = 0;
  TRI_TRY(find(products, product, &entry));
  if (!entry->chosen) {
    TRI_TRY(tri_gpu_gemms_candidates(products, product, candidates, &count));
    entry->choice = candidates[0];
    entry->chosen = true;
  }
  *out = entry->choice;
  return TRI_OK;
}

tri_status tri_gpu_gemms_choice(tri_gpu_gemms *products, const tri_gpu_gemm *product, tri_gpu_gemm_choice *out) {
  pthread_mutex_lock(&products->lock);
  tri_status status = choose_now(products, product, out);
  pthread_mutex_unlock(&products->lock);
  return status;
}

static bool same_choice(const tri_gpu_gemm_choice *a, const tri_gpu_gemm_choice *b) {
  return a->maker == b->maker && memcmp(a->algorithm.data, b->algorithm.data, sizeof a->algorithm.data) == 0;
}

static void warn_of_refusal(tri_gpu_gemms *products) {
  if (products->warned) return;
  products->warned = true;
  tri_warn(
      "%s; this product, and others that it refuses, use another algorithm. If products.json in the run's output names "
      "it, remove that file, and GEMM algorithms are tuned again",
      tri_status_message());
}

/* Replaces a refused choice by the next candidate, unless it has been replaced already; warns at the first refusal. The
 * caller holds the lock. */
static tri_status pass_over(tri_gpu_gemms *products, const tri_gpu_gemm *product, const tri_gpu_gemm_choice *refused,
                            tri_gpu_gemm_choice *out) {
  tri_gpu_gemm_entry *entry = NULL;
  tri_gpu_gemm_choice candidates[TRI_GPU_MOST_ALGORITHMS + 1];
  int count = 0;
  warn_of_refusal(products);
  TRI_TRY(find(products, product, &entry));
  if (same_choice(&entry->choice, refused)) {
    TRI_TRY(tri_gpu_gemms_candidates(products, product, candidates, &count));
    candidates[count] = (tri_gpu_gemm_choice){.maker = &tri_gpu_tiled};
    while (entry->passed < count && same_choice(&candidates[entry->passed], refused)) entry->passed++;
    entry->choice = candidates[entry->passed];
    if (entry->passed < count) entry->passed++;
  }
  *out = entry->choice;
  return TRI_OK;
}

tri_status tri_gpu_gemms_next(tri_gpu_gemms *products, const tri_gpu_gemm *product, const tri_gpu_gemm_choice *refused,
                              tri_gpu_gemm_choice *out) {
  pthread_mutex_lock(&products->lock);
  tri_status status = pass_over(products, product, refused, out);
  pthread_mutex_unlock(&products->lock);
  return status;
}

tri_status tri_gpu_gemms_set(tri_gpu_gemms *products, const tri_gpu_gemm *product, const tri_gpu_gemm_choice *choice) {
  tri_gpu_gemm_entry *entry = NULL;
  pthread_mutex_lock(&products->lock);
  tri_status status = find(products, product, &entry);
  if (status == TRI_OK) {
    entry->choice = *choice;
    entry->chosen = true;
  }
  pthread_mutex_unlock(&products->lock);
  return status;
}

tri_status tri_gpu_gemms_plan(tri_gpu_gemms *products, const tri_matmul *of) {
  tri_gpu_gemm_entry *entry = NULL;
  if (of->m == 0 || of->n == 0) return TRI_OK;
  TRI_TRY(tri_gpu_gemms_open(products));
  const tri_gpu_gemm product = tri_gpu_gemm_of(products, of, PLANNED_ALIGNMENT);
  pthread_mutex_lock(&products->lock);
  tri_status status = find(products, &product, &entry);
  if (status == TRI_OK) entry->planned = true;
  pthread_mutex_unlock(&products->lock);
  return status;
}

/* ---- device/gemm_choices.h --------------------------------------------------------------------------------------- */

static tri_gpu_gemms *products_of(tri_device *device) { return ((const tri_gpu *)device->state)->products; }

void tri_gpu_allow_tf32(tri_device *device) { products_of(device)->allow_tf32 = true; }

void tri_gpu_chooser(tri_device *device, char out[TRI_DEVICE_GEMM_LIBRARY_BYTES]) {
  tri_gpu_gemms *products = products_of(device);
  const tri_gpu_facts *facts = &products->gpu->facts;
  char version[TRI_GPU_GEMM_VERSION_BYTES] = "";
  const char *architecture = facts->architecture[0] == '\0' ? "host" : facts->architecture;
  if (tri_gpu_gemms_open(products) != TRI_OK) return;
  const tri_gpu_gemm_library *library = products->vendor == NULL ? &tri_gpu_tiled : products->vendor;
  library->version(products->state, version);
  snprintf(out, TRI_DEVICE_GEMM_LIBRARY_BYTES, "%s %s on %s (%s, warps of %d, %d processors)", library->name, version,
           facts->name, architecture, facts->warp, facts->processors);
}

/* A text that grows line by line. */
typedef struct lines {
  char *text;
  size_t length, room;
} lines;

static tri_status add_line(lines *to, const char *line) {
  const size_t length = strlen(line);
  if (to->length + length + 2 > to->room) {
    const size_t room = 2 * (to->length + length) + 256;
    TRI_TRY(tri_realloc("a list of matrix products", room, 1, &to->text));
    to->room = room;
  }
  memcpy(to->text + to->length, line, length);
  memcpy(to->text + to->length + length, "\n", 2);
  to->length += length + 1;
  return TRI_OK;
}

static tri_status end_lines(lines *from, tri_status status, char **out) {
  if (status == TRI_OK && from->text == NULL) status = tri_strdup("", &from->text);
  if (status == TRI_OK) *out = from->text;
  if (status != TRI_OK) tri_free(from->text);
  return status;
}

static int compare_entries(const void *left, const void *right) {
  return compare_bytes(&((const tri_gpu_gemm_entry *)left)->product, &((const tri_gpu_gemm_entry *)right)->product);
}

tri_status tri_gpu_gemms_asked(tri_device *device, char **out) {
  tri_gpu_gemms *products = products_of(device);
  lines all = {0};
  char text[TRI_GPU_GEMM_TEXT_BYTES];
  tri_status status = TRI_OK;
  pthread_mutex_lock(&products->lock);
  if (products->num_entries > 0) {
    qsort(products->entries, (size_t)products->num_entries, sizeof *products->entries, compare_entries);
  }
  for (int64_t i = 0; i < products->num_entries && status == TRI_OK; i++) {
    const tri_gpu_gemm_entry *entry = &products->entries[i];
    if (entry->planned) status = add_line(&all, tri_gpu_gemm_print(&entry->product, text));
  }
  pthread_mutex_unlock(&products->lock);
  return end_lines(&all, status, out);
}

/* Chooses an algorithm for this and later calls: the fastest if `timed`, else the first in the library's ranking. If
 * the memory is too small to time the candidates, warns and chooses the first. */
static tri_status choose_one(tri_device *device, const tri_gpu_gemm *product, bool timed, tri_gpu_gemm_choice *out) {
  tri_gpu_gemm_choice candidates[TRI_GPU_MOST_ALGORITHMS];
  int count = 0, best = 0;
  TRI_TRY(tri_gpu_gemms_candidates(products_of(device), product, candidates, &count));
  if (timed && count > 1) {
    tri_status status = tri_gpu_gemm_fastest(device, product, candidates, count, &best);
    if (status == TRI_OUT_OF_MEMORY) {
      tri_warn("the product %lld x %lld x %lld is not timed: %s", (long long)product->m, (long long)product->n,
               (long long)product->k, tri_status_message());
    } else if (status != TRI_OK) {
      return status;
    }
  }
  *out = candidates[best];
  return tri_gpu_gemms_set(products_of(device), product, out);
}

/* Calls `what` for each non-empty line of a text, without its newline. Fails with TRI_BAD_FILE at a line of
 * TRI_GPU_GEMM_TEXT_BYTES or more. */
static tri_status for_lines(const char *text, tri_status (*what)(void *context, const char *line), void *context) {
  char line[TRI_GPU_GEMM_TEXT_BYTES];
  while (*text != '\0') {
    const size_t length = strcspn(text, "\n");
    if (length >= sizeof line) return tri_fail(TRI_BAD_FILE, "`%.60s...` is not a matrix product", text);
    memcpy(line, text, length);
    line[length] = '\0';
    if (length > 0) TRI_TRY(what(context, line));
    text += length + (text[length] == '\n');
  }
  return TRI_OK;
}

typedef struct choosing {
  tri_device *device;
  bool timed;
  lines chosen;
} choosing;

static tri_status choose_line(void *context, const char *line) {
  choosing *c = context;
  tri_gpu_gemm product;
  tri_gpu_gemm_choice choice;
  char text[TRI_GPU_GEMM_TEXT_BYTES];
  if (!tri_gpu_gemm_parse(line, &product)) return tri_fail(TRI_BAD_FILE, "`%s` is not a matrix product", line);
  TRI_TRY(choose_one(c->device, &product, c->timed, &choice));
  return add_line(&c->chosen, tri_gpu_gemm_choice_print(&product, &choice, text));
}

tri_status tri_gpu_gemms_choose(tri_device *device, const char *products, bool timed, char **choices) {
  choosing c = {.device = device, .timed = timed};
  TRI_TRY(tri_gpu_gemms_open(products_of(device)));
  return end_lines(&c.chosen, for_lines(products, choose_line, &c), choices);
}

static tri_status read_choice_line(void *context, const char *line) {
  tri_gpu_gemms *products = context;
  tri_gpu_gemm product;
  tri_gpu_gemm_choice choice;
  if (!tri_gpu_gemm_choice_parse(line, products, &product, &choice)) {
    return tri_fail(TRI_BAD_FILE, "`%s` is not a choice of how to make a matrix product", line);
  }
  return tri_gpu_gemms_set(products, &product, &choice);
}

tri_status tri_gpu_gemms_read(tri_device *device, const char *choices) {
  TRI_TRY(tri_gpu_gemms_open(products_of(device)));
  return for_lines(choices, read_choice_line, products_of(device));
}
