/* Attention of generated text on pages. A query's result has the same bits if its sequence is read in one piece or
 * several, with other sequences, in other pages and on other threads; and it is near the reference device's in fp64. */
#include "attention_problem.h"

#include "device/device.h"

enum { MOST_KEYS = 3 * TRI_PAGE_ROWS + 9, PAGES = 12, OTHERS = 5 };

typedef struct page_shape {
  int64_t heads, kv_heads, head_dim, window;
  double soft_cap;
} page_shape;

typedef struct page_problem {
  page_shape of;
  int64_t keys;
  double *q, *k, *v; /* values that bf16 represents exactly */
} page_problem;

static double drawn_value(int64_t stream, int64_t i) {
  return floor(tri_random_uniform(tri_random_stream(7, TRI_RANDOM_TEST, (uint64_t)stream), (uint64_t)i) * 256 - 128) /
         64;
}

static page_problem make_problem(page_shape of, int64_t keys, int64_t stream) {
  const int64_t wide = keys * of.heads * of.head_dim, narrow = keys * of.kv_heads * of.head_dim;
  page_problem p = {of, keys, malloc((size_t)wide * 8), malloc((size_t)narrow * 8), malloc((size_t)narrow * 8)};
  for (int64_t i = 0; i < wide; i++) p.q[i] = drawn_value(3 * stream, i);
  for (int64_t i = 0; i < narrow; i++) p.k[i] = drawn_value(3 * stream + 1, i);
  for (int64_t i = 0; i < narrow; i++) p.v[i] = drawn_value(3 * stream + 2, i);
  return p;
}

static void free_problem(page_problem *p) {
  free(p->q);
  free(p->k);
  free(p->v);
}

/* A device with a cache whose pages begin as NaN, and the page tables of two sequences. */
typedef struct cache {
  tri_device *device;
  tri_dtype type;
  page_shape of;
  buffer keys, values;
  int32_t pages[2 * PAGES];
} cache;

static cache make_cache(const char *kind, int threads, tri_dtype type, page_shape of, int order) {
  cache c = {.type = type, .of = of};
  if (tri_device_create(kind, threads, &c.device) != TRI_OK) return c;
  const size_t bytes = (size_t)(2 * PAGES * TRI_PAGE_ROWS * of.kv_heads * of.head_dim) * tri_dtype_bytes(type);
  c.keys = buffer_make(bytes);
  c.values = buffer_make(bytes);
  for (int i = 0; i < 2 * PAGES; i++) c.pages[i] = (int32_t)((i * 5 + order) % (2 * PAGES));
  return c;
}

static void free_cache(cache *c) {
  buffer_free(&c->keys);
  buffer_free(&c->values);
  tri_device_destroy(c->device);
}

/* Rows of one or two sequences, each from position `first` on, for run_pieces; out[rows, heads, head_dim]. */
typedef struct piece {
  const page_problem *of;
  int sequence;
  int64_t first, count;
} piece;

static void run_pieces(cache *c, const piece *parts, int num_parts, double *out) {
  const page_shape *of = &c->of;
  const int64_t D = of->head_dim;
  tri_attention_slice slices[2] = {{0}};
  int64_t rows = 0;
  for (int i = 0; i < num_parts; i++) rows += parts[i].count;
  buffer q = buffer_make((size_t)(rows * of->heads * D) * tri_dtype_bytes(c->type));
  buffer k = buffer_make((size_t)(rows * of->kv_heads * D) * tri_dtype_bytes(c->type));
  buffer v = buffer_make((size_t)(rows * of->kv_heads * D) * tri_dtype_bytes(c->type));
  buffer o = buffer_make((size_t)(rows * of->heads * D) * tri_dtype_bytes(c->type));
  int32_t *cache_rows = malloc((size_t)rows * sizeof *cache_rows);
  tri_attention call = {.type = c->type,
                        .out_type = c->type,
                        .gradient_type = c->type,
                        .heads = of->heads,
                        .kv_heads = of->kv_heads,
                        .head_dim = D,
                        .scale = 1 / sqrt((double)D),
                        .soft_cap = of->soft_cap,
                        .query_rows = rows,
                        .key_rows = 2 * PAGES * TRI_PAGE_ROWS,
                        .q_row = of->heads * D,
                        .q_head = D,
                        .k_row = of->kv_heads * D,
                        .k_head = D,
                        .v_row = of->kv_heads * D,
                        .v_head = D,
                        .out_row = of->heads * D,
                        .out_head = D,
                        .num_slices = num_parts,
                        .paged = true};
  for (int64_t i = 0, row = 0; i < num_parts; i++) {
    const piece *p = &parts[i];
    const int64_t table = p->sequence * PAGES, keys = p->first + p->count;
    slices[i] = of->window > 0 ? tri_slice_window(row, p->count, table * TRI_PAGE_ROWS, keys, of->window)
                               : tri_slice_causal(row, p->count, table * TRI_PAGE_ROWS, keys);
    if (p->count > call.most_queries) call.most_queries = p->count;
    if (keys > call.most_keys) call.most_keys = keys;
    for (int64_t r = 0; r < p->count; r++, row++) {
      const int64_t at = p->first + r;
      cache_rows[row] = c->pages[table + at / TRI_PAGE_ROWS] * TRI_PAGE_ROWS + (int32_t)(at % TRI_PAGE_ROWS);
      for (int64_t e = 0; e < of->heads * D; e++)
        number_set(c->type, q.data, row * of->heads * D + e, p->of->q[at * of->heads * D + e]);
      for (int64_t e = 0; e < of->kv_heads * D; e++) {
        number_set(c->type, k.data, row * of->kv_heads * D + e, p->of->k[at * of->kv_heads * D + e]);
        number_set(c->type, v.data, row * of->kv_heads * D + e, p->of->v[at * of->kv_heads * D + e]);
      }
    }
  }
  size_t bytes = 0;
  assert_int_equal(c->device->description.attention_workspace(&c->device->description, &call, &bytes), TRI_OK);
  buffer workspace = buffer_make(bytes);
  const tri_device_kernels *kernels = c->device->kernels;
  tri_queue *queue = c->device->queue;
  assert_int_equal(kernels->append_keys(queue, &call, cache_rows, k.data, v.data, c->keys.data, c->values.data),
                   TRI_OK);
  assert_int_equal(kernels->attention_pages(queue, &call, slices, c->pages, q.data, c->keys.data, c->values.data,
                                            o.data, workspace.data),
                   TRI_OK);
  for (int64_t i = 0; i < rows * of->heads * D; i++) out[i] = number_get(c->type, o.data, i);
  free(cache_rows);
  buffer_free(&workspace);
  buffer_free(&q);
  buffer_free(&k);
  buffer_free(&v);
  buffer_free(&o);
}

/* Runs the sequence in one piece, alone. */
static bool run_whole(const char *kind, tri_dtype type, const page_problem *p, double *out) {
  cache c = make_cache(kind, 1, type, p->of, 0);
  if (c.device == NULL) return false;
  run_pieces(&c, &(piece){p, 0, 0, p->keys}, 1, out);
  free_cache(&c);
  return true;
}

/* Runs the sequence in random pieces, with another sequence, in other pages, on three threads. */
static void run_in_pieces(const char *kind, tri_dtype type, const page_problem *p, const page_problem *other,
                          int64_t stream, double *out) {
  const int64_t width = p->of.heads * p->of.head_dim;
  cache c = make_cache(kind, 3, type, p->of, 7);
  double *some = malloc((size_t)((p->keys + other->keys) * width) * sizeof *some);
  int64_t done = 0, other_done = 0;
  for (int64_t i = 0; done < p->keys; i++) {
    const double u = tri_random_uniform(tri_random_stream(11, TRI_RANDOM_TEST, (uint64_t)stream), (uint64_t)i);
    int64_t count = u < 0.4 ? 1 : 1 + (int64_t)(u * 70), beside = u < 0.6 ? 1 : 0;
    if (count > p->keys - done) count = p->keys - done;
    if (beside > other->keys - other_done) beside = other->keys - other_done;
    const piece parts[2] = {{other, 0, other_done, beside}, {p, 1, done, count}};
    run_pieces(&c, beside > 0 ? parts : parts + 1, beside > 0 ? 2 : 1, some);
    memcpy(out + done * width, some + beside * width, (size_t)(count * width) * sizeof *out);
    done += count;
    other_done += beside;
  }
  free(some);
  free_cache(&c);
}

static void check_shape(page_shape of, int64_t keys, int64_t stream) {
  static const char *const units[] = {"cpu:baseline", "cpu:avx2", "cpu:avx512", "cpu", "reference"};
  static const tri_dtype types[] = {TRI_FP32, TRI_BF16};
  page_problem p = make_problem(of, keys, stream), other = make_problem(of, OTHERS, stream + 100);
  const size_t count = (size_t)(keys * of.heads * of.head_dim);
  double *plain = malloc(count * sizeof *plain), *whole = malloc(count * sizeof *whole);
  double *pieces = malloc(count * sizeof *pieces);
  assert_true(run_whole("reference", TRI_FP64, &p, plain));
  for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
    for (int t = 0; t < 2; t++) {
      if (!run_whole(units[u], types[t], &p, whole)) continue; /* this CPU does not have the unit */
      run_in_pieces(units[u], types[t], &p, &other, stream, pieces);
      assert_memory_equal(whole, pieces, count * sizeof *whole);
      for (size_t i = 0; i < count; i++) {
        const double allowed = types[t] == TRI_FP32 ? 2e-5 : 2e-2;
        if (!(fabs(whole[i] - plain[i]) <= allowed * (1 + fabs(plain[i]))))
          fail_msg("%s %s, element %zu: %.9g, not %.9g", units[u], tri_dtype_name(types[t]), i, whole[i], plain[i]);
      }
    }
  }
  free(plain);
  free(whole);
  free(pieces);
  free_problem(&p);
  free_problem(&other);
}

static void test_bits(void **state) {
  (void)state;
  check_shape((page_shape){3, 3, 64, 0, 0}, MOST_KEYS, 1);
  check_shape((page_shape){6, 2, 40, 0, 0}, 2 * TRI_PAGE_ROWS, 2);
  check_shape((page_shape){14, 2, 16, 0, 0}, 150, 3);
  check_shape((page_shape){1, 1, 5, 0, 0}, 1, 4);
}

static void test_windows(void **state) {
  (void)state;
  check_shape((page_shape){4, 2, 24, 37, 0}, MOST_KEYS, 5);
  check_shape((page_shape){2, 1, 64, TRI_PAGE_ROWS, 0}, 2 * TRI_PAGE_ROWS + 1, 6);
  check_shape((page_shape){2, 2, 128, 1, 0}, 70, 7);
}

static void test_caps(void **state) {
  (void)state;
  check_shape((page_shape){4, 1, 32, 0, 2.5}, 140, 8);
  check_shape((page_shape){2, 2, 33, 50, 30}, 140, 9);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bits),
      cmocka_unit_test(test_windows),
      cmocka_unit_test(test_caps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
