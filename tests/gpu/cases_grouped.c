/* Rows in groups: products of each group's rows with a matrix of its own, and the gradients of those matrices; which
 * rows a group has; sums of rows that come back. Groups of equally many rows, of none, all rows in one, and fewer rows
 * than there is room for. */
#include "problem.h"

#include <math.h>
#include <string.h>

#define AT(i) ((void *)memory[i])

/* ---- how rows fall into groups ----------------------------------------------------------------------------------- */

typedef enum division { EVEN, DRAWN, ONE, NOTHING, NUM_DIVISIONS } division;

static const char *division_text(division how) {
  switch (how) {
    case EVEN: return "even";
    case DRAWN: return "drawn";
    case ONE: return "all in one";
    case NOTHING:
    case NUM_DIVISIONS: break;
  }
  return "no rows";
}

/* Sets begins[groups + 1] for `rows` rows. Some rows may have no group. Returns the number of rows in groups. */
static int64_t divide(checker *c, division how, int64_t rows, int64_t groups, int32_t *begins) {
  const int64_t one = draw(c, groups);
  int64_t at = 0;
  for (int64_t g = 0; g < groups; g++) {
    begins[g] = (int32_t)at;
    switch (how) {
      case EVEN: at += rows / groups; break;
      case DRAWN: at += draw(c, 3) == 0 ? 0 : draw(c, (rows - at) * 2 / (groups - g) + 1); break;
      case ONE: at += g == one ? rows : 0; break;
      case NOTHING:
      case NUM_DIVISIONS: break;
    }
    if (at > rows) at = rows;
  }
  begins[groups] = (int32_t)at;
  return at;
}

/* ---- grouped_matmul ---------------------------------------------------------------------------------------------- */

enum { MOST_GROUPS = 40, WORKSPACE = 0, PACKED = 1 };

typedef struct grouped_call {
  tri_grouped_matmul call;
  int64_t rows, live; /* in groups */
  int32_t begins_of[MOST_GROUPS + 1];
  int begins, a, b, c;
  bool packed; /* b, one group's after the other's */
} grouped_call;

static tri_matmul packing_of(const grouped_call *x) {
  tri_matmul packing = x->call.product;
  packing.b_type = packing.a_type;
  return packing;
}

static tri_grouped_matmul packed_of(const grouped_call *x, size_t each_bytes) {
  tri_grouped_matmul packed = x->call;
  packed.product.b_type = packed.product.a_type;
  packed.product.b_packed = true;
  packed.product.ldb = 0;
  packed.stride = (int64_t)each_bytes;
  return packed;
}

static tri_status packed_bytes(const grouped_call *x, const tri_device_description *d, size_t *each_bytes) {
  const tri_matmul packing = packing_of(x);
  *each_bytes = 0;
  return x->packed ? d->matmul_packed(d, &packing, each_bytes) : TRI_OK;
}

static tri_status spaces_of_grouped(const problem *p, const tri_device_description *d, size_t bytes[NUM_SPACES]) {
  const grouped_call *x = p->with;
  size_t each_bytes = 0;
  TRI_TRY(packed_bytes(x, d, &each_bytes));
  const tri_grouped_matmul call = each_bytes > 0 ? packed_of(x, each_bytes) : x->call;
  bytes[PACKED] = (size_t)x->call.groups * each_bytes;
  return d->grouped_workspace(d, &call, &bytes[WORKSPACE]);
}

/* A device that packs nothing reads b as it is. */
static tri_status run_grouped(const problem *p, tri_queue *queue, char *const *memory) {
  const grouped_call *x = p->with;
  const tri_matmul packing = packing_of(x);
  const size_t element = tri_dtype_bytes(x->call.product.b_type);
  size_t each_bytes = 0;
  TRI_TRY(packed_bytes(x, &queue->device->description, &each_bytes));
  if (each_bytes == 0) {
    return KERNEL(queue, grouped_matmul, &x->call, AT(x->begins), AT(x->a), AT(x->b), AT(x->c),
                  AT(p->count + WORKSPACE));
  }
  for (int64_t g = 0; g < x->call.groups; g++) {
    TRI_TRY(KERNEL(queue, matmul_pack, &packing, x->call.product.b_type,
                   memory[x->b] + (size_t)(g * x->call.stride) * element,
                   memory[p->count + PACKED] + (size_t)g * each_bytes));
  }
  const tri_grouped_matmul packed = packed_of(x, each_bytes);
  return KERNEL(queue, grouped_matmul, &packed, AT(x->begins), AT(x->a), AT(p->count + PACKED), AT(x->c),
                AT(p->count + WORKSPACE));
}

static int64_t elements(int64_t rows, int64_t columns, int64_t ld) {
  return rows == 0 ? 0 : (rows - 1) * ld + columns; /* no gap after the last row */
}

/* Adds rows, and fills the live ones. The others are not read. */
static int add_rows_of(problem *p, const char *name, tri_dtype type, const grouped_call *x, int64_t width, int64_t ld) {
  const int number = add_array(p, name, type, elements(x->rows, width, ld));
  fill(p, number, matrix_of(x->live, ld, width), 0, 1);
  return number;
}

static region group_matrices(const grouped_call *x, int64_t rows, int64_t columns, int64_t ld) {
  return (region){0, rows, ld, x->call.groups, x->call.stride, columns};
}

/* The matrices of all groups, with what lies between two of them. */
static int add_matrices(problem *p, const char *name, tri_dtype type, grouped_call *x, int64_t rows, int64_t columns,
                        int64_t ld, int64_t gap) {
  x->call.stride = elements(rows, columns, ld) + gap;
  return add_array(p, name, type, (x->call.groups - 1) * x->call.stride + elements(rows, columns, ld));
}

/* A tensor core adds in fp32 with less than its precision, and a wide matrix may be narrowed on the way. */
static double grouped_tolerance(const tri_matmul *m) {
  if (m->a_type != TRI_BF16 || m->c_type == TRI_BF16) return tolerance_of(m->c_type);
  return m->b_type == TRI_BF16 ? 1e-4 : tolerance_of(TRI_BF16);
}

static void add_operands(problem *p, grouped_call *x, int64_t gap) {
  tri_matmul *m = &x->call.product;
  x->begins = add_bytes(p, "begins", x->begins_of, (size_t)(x->call.groups + 1) * sizeof(int32_t));
  if (m->a_transposed) {
    x->a = add_rows_of(p, "a", m->a_type, x, m->m, m->lda);
    x->b = add_rows_of(p, "b", m->b_type, x, m->n, m->ldb);
    x->c = add_matrices(p, "c", m->c_type, x, m->m, m->n, m->ldc, gap);
    writes(p, x->c, group_matrices(x, m->m, m->n, m->ldc), m->accumulate);
  } else {
    const int64_t rows = m->b_transposed ? m->n : m->k, columns = m->b_transposed ? m->k : m->n;
    x->a = add_rows_of(p, "a", m->a_type, x, m->k, m->lda);
    x->b = add_matrices(p, "b", m->b_type, x, rows, columns, m->ldb, gap);
    fill(p, x->b, group_matrices(x, rows, columns, m->ldb), 0, 1);
    x->c = add_array(p, "c", m->c_type, elements(x->rows, m->n, m->ldc));
    writes(p, x->c, matrix_of(x->live, m->ldc, m->n), m->accumulate);
  }
  p->arguments[x->c].tolerance = grouped_tolerance(m);
  p->arguments[x->c].yardstick = 0.5 * sqrt((double)(m->a_transposed ? x->rows : m->k) + 1);
}

static int64_t draw_gap(checker *c) {
  static const int64_t gaps[] = {0, 0, 8, 16, 1, 3};
  return gaps[draw(c, 6)];
}

/* Bits of `form`: a gradient, b^T; accumulated; packed. */
static void one_grouped(checker *c, tri_dtype type, int form, division how, int64_t rows, int64_t groups, int64_t in,
                        int64_t out) {
  const tri_dtype wide = tri_dtype_wide(type);
  problem p = problem_make(c, type);
  grouped_call x = {.call.groups = groups, .rows = rows};
  tri_matmul *m = &x.call.product;
  const bool gradient = form % 3 == 2;
  *m = (tri_matmul){.m = gradient ? in : rows, .n = out, .k = gradient ? rows : in, .a_type = type, .b_type = type};
  m->a_transposed = gradient;
  m->b_transposed = form % 3 == 1;
  m->accumulate = form / 3 % 2 == 1;
  m->c_type = gradient || draw(c, 3) == 0 ? wide : type;
  x.packed = !gradient && form / 6 % 2 == 1;
  if (x.packed || draw(c, 3) == 0) m->b_type = wide;
  m->lda = in + draw_gap(c);
  m->ldb = (m->b_transposed ? in : out) + (x.packed ? 0 : draw_gap(c));
  m->ldc = out + draw_gap(c);
  x.live = divide(c, how, rows, groups, x.begins_of);
  p.run = run_grouped;
  p.spaces = spaces_of_grouped;
  p.with = &x;
  add_operands(&p, &x, draw_gap(c));
  describe(&p, "%lld of %lld rows in %lld groups (%s), %lld x %lld, ld %lld %lld %lld, %s %s%s%s%s%s",
           (long long)x.live, (long long)rows, (long long)groups, division_text(how), (long long)in, (long long)out,
           (long long)m->lda, (long long)m->ldb, (long long)m->ldc, tri_dtype_name(m->b_type),
           tri_dtype_name(m->c_type), gradient ? ", gradient" : "", m->b_transposed ? ", b^T" : "",
           m->accumulate ? ", accumulated" : "", x.packed ? ", packed" : "");
  check(&p);
}

void cases_grouped_matmul(checker *c, tri_dtype type) {
  static const int64_t lengths[] = {1, 5, 16, 31, 64, 65, 130};
  enum { NUM_FORMS = 12, NUM_LENGTHS = sizeof lengths / sizeof lengths[0] };
  for (int i = 0; i < NUM_FORMS * (is_quick(c) ? 2 : 8); i++) {
    const int64_t rows = i % 7 == 3 ? draw_from(c, 100, 400) : draw_from(c, 1, 90);
    one_grouped(c, type, i, i % 6 < 4 ? (division)(i % 6) : DRAWN, rows, draw_from(c, 1, i % 5 == 0 ? MOST_GROUPS : 6),
                lengths[draw(c, NUM_LENGTHS)], lengths[draw(c, NUM_LENGTHS)]);
  }
  one_grouped(c, type, 0, EVEN, 0, 3, 16, 16);
  one_grouped(c, type, 2, EVEN, 0, 3, 16, 16);
  /* Enough of c for large tiles. */
  for (int form = 0; form < 2; form++) one_grouped(c, type, form, DRAWN, 1300, 3, 9, 1100);
  one_grouped(c, type, 2, DRAWN, 33, 3, 900, 740);
  if (is_quick(c)) return;
  for (int form = 0; form < 3; form++) one_grouped(c, type, form, DRAWN, 700, 4, 384, 512);
}

/* ---- group_rows -------------------------------------------------------------------------------------------------- */

typedef struct group_call {
  int64_t rows, live, chosen, groups;
  int count, experts, begins, order, sources, places;
} group_call;

static tri_status run_group(const problem *p, tri_queue *queue, char *const *memory) {
  const group_call *x = p->with;
  return KERNEL(queue, group_rows, rows_of(p, x->rows, x->count, memory), x->chosen, x->groups, AT(x->experts),
                AT(x->begins), AT(x->order), AT(x->sources), AT(x->places));
}

/* Experts of each row; where some are `unknown`, one in four has no such number. */
static int add_experts(problem *p, int64_t rows, int64_t live, int64_t chosen, int64_t groups, bool unknown) {
  static const int32_t strangers[] = {-1, INT32_MIN, INT32_MAX, -77};
  const int number = add_array(p, "experts", TRI_INT32, rows * chosen);
  int32_t *experts = (int32_t *)(void *)p->arguments[number].before;
  for (int64_t i = 0; i < live * chosen; i++) {
    experts[i] = (int32_t)draw(p->checker, groups);
    if (unknown && draw(p->checker, 4) == 0) experts[i] = i % 5 == 0 ? (int32_t)groups : strangers[i % 4];
  }
  return number;
}

/* All that is live is written; order and sources also have a place for each pair that has no expert. */
static int add_table(problem *p, const char *name, int64_t count, int64_t live) {
  const int number = add_array(p, name, TRI_INT32, count);
  writes(p, number, all_of(live), false);
  p->arguments[number].exact = true;
  return number;
}

void cases_group_rows(checker *c, tri_dtype type) {
  static const int64_t shapes[][3] = {{1, 1, 1},   {5, 2, 3},    {0, 2, 4},     {70, 8, 64},   {300, 1, 2},
                                      {257, 4, 7}, {600, 6, 40}, {64, 64, 900}, {1500, 2, 16}, {9000, 8, 256}};
  for (int i = 0; i < (int)(sizeof shapes / sizeof shapes[0]) - (is_quick(c) ? 1 : 0); i++) {
    for (int unknown = 0; unknown < 2; unknown++) {
      problem p = problem_make(c, type);
      group_call x = {.rows = shapes[i][0], .chosen = shapes[i][1], .groups = shapes[i][2]};
      p.run = run_group;
      p.with = &x;
      x.live = add_rows(&p, x.rows, &x.count);
      x.experts = add_experts(&p, x.rows, x.live, x.chosen, x.groups, unknown == 1);
      x.begins = add_table(&p, "begins", x.groups + 1, x.groups + 1);
      x.order = add_table(&p, "order", x.rows * x.chosen, x.live * x.chosen);
      x.sources = add_table(&p, "sources", x.rows * x.chosen, x.live * x.chosen);
      x.places = add_table(&p, "places", x.rows * x.chosen, x.live * x.chosen);
      describe(&p, "%lld of %lld rows of %lld into %lld groups%s", (long long)x.live, (long long)x.rows,
               (long long)x.chosen, (long long)x.groups, unknown == 1 ? ", some into none" : "");
      check(&p);
    }
  }
}

/* ---- sum_rows ---------------------------------------------------------------------------------------------------- */

typedef struct sum_call {
  int64_t rows, width, live, terms, in_rows;
  int count, places, in, out;
  bool accumulate;
} sum_call;

static tri_status run_sum(const problem *p, tri_queue *queue, char *const *memory) {
  const sum_call *x = p->with;
  return KERNEL(queue, sum_rows, p->type, rows_of(p, x->rows, x->count, memory), x->terms, x->width, AT(x->places),
                AT(x->in), AT(x->out), x->accumulate);
}

void cases_sum_rows(checker *c, tri_dtype type) {
  sum_call x = {0};
  for (int i = 0; next_shape(c, i, &x.rows, &x.width); i++) {
    problem p = problem_make(c, type);
    p.run = run_sum;
    p.with = &x;
    x.live = add_rows(&p, x.rows, &x.count);
    x.terms = draw_from(c, 1, i % 4 == 0 ? 13 : 8);
    x.in_rows = draw_from(c, 1, x.rows + 5);
    x.accumulate = draw_bool(c);
    x.places = add_array(&p, "places", TRI_INT32, x.rows * x.terms);
    for (int64_t r = 0; r < x.live * x.terms; r++) {
      const int64_t place = draw(c, 4) == 0 ? -1 - draw(c, 3) : draw(c, x.in_rows);
      number_set(TRI_INT32, p.arguments[x.places].before, r, (double)place);
    }
    x.in = add_input(&p, "in", type, x.in_rows * x.width, 0, 1);
    x.out = add_array(&p, "out", type, x.rows * x.width);
    writes(&p, x.out, all_of(x.live * x.width), x.accumulate);
    describe(&p, "%lld x %lld%s, %lld terms of %lld rows%s", (long long)x.rows, (long long)x.width,
             x.count < 0 ? "" : " (counted)", (long long)x.terms, (long long)x.in_rows,
             x.accumulate ? ", accumulated" : "");
    check(&p);
  }
}
