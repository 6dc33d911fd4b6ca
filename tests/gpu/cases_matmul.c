/* Matrix products: every transposition and leading dimension, with a bias or what was there before, into the type of
 * the activations or wide, and of a plain wide weight; packed ones; and the products of GPT-2 124M. */
#include "problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AT(i) ((void *)memory[i])

typedef struct product_call {
  tri_matmul product;
  int a, b, bias, c;
  bool other_direction; /* a matrix that was packed for one product is read by the product of the other direction */
} product_call;

enum { WORKSPACE, PACKED };

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static int64_t elements(int64_t rows, int64_t columns, int64_t ld) {
  return rows == 0 ? 0 : (rows - 1) * ld + columns; /* no gap after the last row */
}

static int add_matrix(problem *p, const char *name, tri_dtype type, int64_t rows, int64_t columns, int64_t ld) {
  const int number = add_array(p, name, type, elements(rows, columns, ld));
  fill(p, number, matrix_of(rows, ld, columns), 0, 1);
  return number;
}

/* A wide weight may be narrowed on the way, and a tensor core adds in fp32 with less than its precision. */
static double product_tolerance(const tri_matmul *m) {
  if (m->a_type != TRI_BF16 || m->c_type == TRI_BF16) return tolerance_of(m->c_type);
  return m->b_type == TRI_BF16 ? 1e-4 : tolerance_of(TRI_BF16);
}

static void add_arguments(problem *p, product_call *x) {
  const tri_matmul *m = &x->product;
  x->a = add_matrix(p, "a", m->a_type, m->a_transposed ? m->k : m->m, m->a_transposed ? m->m : m->k, m->lda);
  x->b = add_matrix(p, "b", m->b_type, m->b_transposed ? m->n : m->k, m->b_transposed ? m->k : m->n, m->ldb);
  x->bias = m->bias ? add_input(p, "bias", p->wide, m->n, 0, 2) : -1;
  x->c = add_array(p, "c", m->c_type, elements(m->m, m->n, m->ldc));
  writes(p, x->c, matrix_of(m->m, m->ldc, m->n), m->accumulate);
  p->arguments[x->c].tolerance = product_tolerance(m);
  p->arguments[x->c].yardstick = 0.5 * sqrt((double)m->k); /* a sum of few may be near zero by chance */
}

static void say(problem *p, const tri_matmul *m) {
  describe(p, "%lldx%lldx%lld, ld %lld %lld %lld, %s %s %s%s%s%s%s", (long long)m->m, (long long)m->n, (long long)m->k,
           (long long)m->lda, (long long)m->ldb, (long long)m->ldc, tri_dtype_name(m->a_type),
           tri_dtype_name(m->b_type), tri_dtype_name(m->c_type), m->a_transposed ? ", a^T" : "",
           m->b_transposed ? ", b^T" : "", m->accumulate ? ", accumulated" : "", m->bias ? ", bias" : "");
}

static int64_t draw_length(checker *c) {
  static const int64_t lengths[] = {1, 2, 3, 5, 16, 17, 31, 33, 63, 64, 65, 127, 130};
  return lengths[draw(c, (int64_t)(sizeof lengths / sizeof lengths[0]))];
}

static int64_t draw_gap(checker *c) {
  static const int64_t gaps[] = {0, 0, 1, 3, 8, 16};
  return gaps[draw(c, 6)];
}

/* Bits of `form`: a^T, b^T; then bias, accumulate or neither. */
enum { NUM_FORMS = 12 };

static tri_matmul draw_product(checker *c, tri_dtype type, int form) {
  const tri_dtype wide = tri_dtype_wide(type);
  tri_matmul m = {.m = draw_length(c), .n = draw_length(c), .k = draw_length(c), .a_type = type};
  m.b_type = draw(c, 3) == 0 ? wide : type;
  m.c_type = draw(c, 3) == 0 ? wide : type;
  m.a_transposed = (form & 1) != 0;
  m.b_transposed = (form & 2) != 0;
  m.bias = form / 4 == 1;
  m.accumulate = form / 4 == 2;
  return m;
}

static void set_leads(checker *c, tri_matmul *m, bool gaps) {
  m->lda = (m->a_transposed ? m->m : m->k) + (gaps ? draw_gap(c) : 0);
  m->ldb = (m->b_transposed ? m->k : m->n) + (gaps ? draw_gap(c) : 0);
  m->ldc = m->n + (gaps ? draw_gap(c) : 0);
}

/* ---- matmul ------------------------------------------------------------------------------------------------------ */

static tri_status spaces_of_matmul(const problem *p, const tri_device_description *d, size_t bytes[NUM_SPACES]) {
  const product_call *x = p->with;
  return d->matmul_workspace(d, &x->product, &bytes[WORKSPACE]);
}

static tri_status run_matmul(const problem *p, tri_queue *queue, char *const *memory) {
  const product_call *x = p->with;
  return KERNEL(queue, matmul, &x->product, AT(x->a), AT(x->b), x->bias < 0 ? NULL : AT(x->bias), AT(x->c),
                AT(p->count + WORKSPACE));
}

/* A matrix [rows, columns] in double, dense. */
static double *plain(const void *from, tri_dtype type, int64_t rows, int64_t columns, int64_t ld, bool transposed) {
  double *out = malloc((size_t)(rows * columns) * sizeof(double));
  if (out == NULL) abort();
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < columns; j++)
      out[i * columns + j] = number_get(type, from, transposed ? j * ld + i : i * ld + j);
  }
  return out;
}

static void add_row(double *restrict sums, const double *restrict b, double factor, int64_t n) {
  for (int64_t j = 0; j < n; j++) sums[j] += factor * b[j];
}

enum { ROWS_AT_ONCE = 8 };

static void expect_rows(const problem *p, char *const *memory, const double *a, const double *b, int64_t first,
                        int64_t rows, double *sums) {
  const product_call *x = p->with;
  const tri_matmul *m = &x->product;
  for (int64_t i = 0; i < rows * m->n; i++) {
    const int64_t at = (first + i / m->n) * m->ldc + i % m->n;
    sums[i] = x->bias < 0 ? 0 : number_get(p->wide, AT(x->bias), i % m->n);
    if (m->accumulate) sums[i] += number_get(m->c_type, AT(x->c), at);
  }
  for (int64_t l = 0; l < m->k; l++) {
    for (int64_t i = 0; i < rows; i++) add_row(sums + i * m->n, b + l * m->n, a[(first + i) * m->k + l], m->n);
  }
  for (int64_t i = 0; i < rows * m->n; i++)
    number_set(m->c_type, AT(x->c), (first + i / m->n) * m->ldc + i % m->n, sums[i]);
}

/* Large products, in double, row by row of b: a hundred times as fast as the reference. */
static void expect_product(const problem *p, char *const *memory) {
  const product_call *x = p->with;
  const tri_matmul *m = &x->product;
  double *a = plain(AT(x->a), m->a_type, m->m, m->k, m->lda, m->a_transposed);
  double *b = plain(AT(x->b), m->b_type, m->k, m->n, m->ldb, m->b_transposed);
  double *sums = malloc((size_t)(ROWS_AT_ONCE * m->n) * sizeof(double));
  if (sums == NULL) abort();
  for (int64_t i = 0; i < m->m; i += ROWS_AT_ONCE)
    expect_rows(p, memory, a, b, i, m->m - i < ROWS_AT_ONCE ? m->m - i : ROWS_AT_ONCE, sums);
  free(sums);
  free(b);
  free(a);
}

static void one_product(checker *c, tri_dtype type, const tri_matmul *product, bool large) {
  problem p = problem_make(c, type);
  product_call x = {.product = *product};
  p.run = run_matmul;
  p.spaces = spaces_of_matmul;
  p.with = &x;
  if (large) p.expect = expect_product;
  add_arguments(&p, &x);
  say(&p, product);
  check(&p);
}

/* GPT-2 124M's, of 256 tokens: a weight forward, the gradient of its input, that of the weight; and logits of 16. */
static void large_products(checker *c, tri_dtype type) {
  const tri_dtype wide = tri_dtype_wide(type);
  static const int64_t shapes[][2] = {{768, 2304}, {768, 3072}, {3072, 768}};
  for (int s = 0; s < 3; s++) {
    const int64_t in = shapes[s][0], out = shapes[s][1], rows = 256;
    one_product(c, type, &(tri_matmul){rows, out, in, in, out, out, type, type, type, .bias = true}, true);
    one_product(c, type, &(tri_matmul){rows, in, out, out, out, in, type, type, type, .b_transposed = true}, true);
    one_product(c, type,
                &(tri_matmul){in, out, rows, in, out, out, type, type, wide, .a_transposed = true, .accumulate = s > 0},
                true);
  }
  one_product(c, type, &(tri_matmul){1030, 200, 520, 520, 200, 210, type, type, type, .accumulate = true}, true);
  if (type == TRI_FP64) return; /* which no model uses for that many logits */
  one_product(c, type, &(tri_matmul){16, 50257, 768, 768, 768, 50304, type, type, wide, .b_transposed = true}, true);
}

/* What factors of LoRA add to columns of a wider matrix, and the gradients of the second of them. */
static void thin_products(checker *c, tri_dtype type) {
  static const int64_t ranks[] = {1, 5, 8, 16, 31, 32}, widths[] = {128, 131, 160, 257};
  const tri_dtype wide = tri_dtype_wide(type);
  for (int i = 0; i < (is_quick(c) ? 4 : 24); i++) {
    const int64_t rank = ranks[i % 6], width = widths[(i / 6 + i) % 4], rows = draw_length(c);
    const int64_t ld = rank + draw_gap(c), ldc = width + draw_gap(c);
    const tri_matmul added = {
        rows, width, rank, ld, rank, ldc, type, wide, type, .b_transposed = true, .accumulate = true};
    tri_matmul gradient = {width, rank, rows, ldc, ld, rank, type, type, wide, .a_transposed = true};
    gradient.accumulate = draw_bool(c);
    one_product(c, type, &added, false);
    one_product(c, type, &gradient, false);
  }
}

void cases_matmul(checker *c, tri_dtype type) {
  thin_products(c, type);
  for (int i = 0; i < NUM_FORMS * (is_quick(c) ? 2 : 10); i++) {
    tri_matmul m = draw_product(c, type, i % NUM_FORMS);
    if (i == NUM_FORMS + 3) m.m = 0;
    if (i >= NUM_FORMS && i < NUM_FORMS + 3) m.k = 300; /* more than a tile has */
    set_leads(c, &m, i % 4 != 1);
    one_product(c, type, &m, false);
  }
  if (!is_quick(c)) large_products(c, type);
}

/* ---- matmul_pack ------------------------------------------------------------------------------------------------- */

/* b arrives wide, as weights are, and is packed in the type of a. */
static tri_matmul packed_product(const product_call *x) {
  tri_matmul m = x->product;
  m.b_type = m.a_type;
  return m;
}

/* As it is read: where b lies the other way round, the same numbers are those of a product with k and n in turn. */
static tri_matmul packing_product(const product_call *x) {
  tri_matmul m = packed_product(x);
  if (!x->other_direction) return m;
  m.b_transposed = !m.b_transposed;
  m.k = x->product.n;
  m.n = x->product.k;
  m.lda = m.a_transposed ? m.m : m.k;
  m.ldc = m.n;
  m.bias = false;
  return m;
}

static tri_status spaces_of_pack(const problem *p, const tri_device_description *d, size_t bytes[NUM_SPACES]) {
  const product_call *x = p->with;
  tri_matmul packing = packing_product(x), product = packed_product(x);
  TRI_TRY(d->matmul_packed(d, &packing, &bytes[PACKED]));
  product.b_packed = bytes[PACKED] > 0;
  if (!product.b_packed) product.b_type = x->product.b_type;
  return d->matmul_workspace(d, &product, &bytes[WORKSPACE]);
}

/* A device that packs nothing reads b as it is. */
static tri_status run_pack(const problem *p, tri_queue *queue, char *const *memory) {
  const product_call *x = p->with;
  if (memory[p->count + PACKED] == NULL) return run_matmul(p, queue, memory);
  const tri_matmul packing = packing_product(x);
  tri_matmul product = packed_product(x);
  product.b_packed = true;
  product.ldb = 0;
  TRI_TRY(KERNEL(queue, matmul_pack, &packing, x->product.b_type, AT(x->b), AT(p->count + PACKED)));
  return KERNEL(queue, matmul, &product, AT(x->a), AT(p->count + PACKED), x->bias < 0 ? NULL : AT(x->bias), AT(x->c),
                AT(p->count + WORKSPACE));
}

void cases_matmul_pack(checker *c, tri_dtype type) {
  for (int i = 0; i < NUM_FORMS * (is_quick(c) ? 1 : 5); i++) {
    problem p = problem_make(c, type);
    product_call x = {.product = draw_product(c, type, i % NUM_FORMS)};
    x.other_direction = device_of(c)->description.packs_plain && draw_bool(c);
    x.product.b_type = p.wide;
    set_leads(c, &x.product, !x.other_direction && i % 4 == 1);
    p.run = run_pack;
    p.spaces = spaces_of_pack;
    p.with = &x;
    add_arguments(&p, &x);
    say(&p, &x.product);
    if (x.other_direction) describe(&p, ", packed for the other direction");
    check(&p);
  }
}
