/* Weights in 4 bits: every bit is the reference's. */
#include "device/nf4.h"
#include "problem.h"

#include <math.h>
#include <stdint.h>

#define AT(i) ((void *)memory[i])

typedef struct nf4_call {
  tri_nf4_cut cut;
  int64_t total, first, count;
  int values, kept, whole;
} nf4_call;

static tri_status run_quantise(const problem *p, tri_queue *queue, char *const *memory) {
  const nf4_call *x = p->with;
  return KERNEL(queue, quantise_nf4, p->type, x->total, AT(x->values), AT(x->kept));
}

static tri_status run_dequantise(const problem *p, tri_queue *queue, char *const *memory) {
  const nf4_call *x = p->with;
  return KERNEL(queue, dequantise_nf4, p->type, &x->cut, x->first, x->count, AT(x->kept), AT(x->values));
}

static tri_status run_cut(const problem *p, tri_queue *queue, char *const *memory) {
  const nf4_call *x = p->with;
  return KERNEL(queue, cut_nf4, &x->cut, AT(x->whole), AT(x->kept));
}

/* In words: kernel_check looks at bytes four at a time. */
static int64_t words_of(size_t bytes) { return (int64_t)(bytes + 3) / 4; }
static region words_at(size_t begin, size_t end) {
  return (region){.first = (int64_t)begin / 4, .rows = 1, .groups = 1, .width = words_of(end) - (int64_t)begin / 4};
}

/* Elements and blocks of a scale, and around them. The last but one is left out of quick runs. */
static const int64_t totals[] = {0, 1, 63, 64, 65, 127, 1000, 5003, 16384, 16385, 40007, 1000003};
enum { TOTALS = sizeof totals / sizeof totals[0] };

typedef enum content { PLAIN, ZEROS, EQUAL, SMALL, HUGE_ONE, NOT_FINITE, CONTENTS } content;

static double drawn(checker *c, content what, int64_t i) {
  const double value = draw_normal(c) * pow(2, -(double)draw(c, 8));
  switch (what) {
    case PLAIN: return i / TRI_NF4_BLOCK % 5 == 3 ? 0 : value;
    case ZEROS: return 0;
    case EQUAL: return draw_bool(c) ? 0.5 : -0.5;
    case SMALL: return value * pow(10, -30 - (double)draw(c, 12));
    case HUGE_ONE: return i == 70 ? 1e30 : value;
    case NOT_FINITE: return i == 70 ? (draw_bool(c) ? NAN : INFINITY) : value;
    case CONTENTS: break;
  }
  return 0;
}

static void quantise_case(checker *c, tri_dtype type, int64_t total, content what) {
  const tri_nf4_layout at = tri_nf4_layout_of(total);
  problem p = problem_make(c, type);
  nf4_call x = {.total = total};
  p.run = run_quantise;
  p.with = &x;
  x.values = add_array(&p, "values", type, total);
  for (int64_t i = 0; i < total; i++) number_set(type, p.arguments[x.values].before, i, drawn(c, what, i));
  x.kept = add_array(&p, "kept", TRI_INT32, words_of(at.bytes));
  p.arguments[x.kept].exact = true;
  if (total > 0) {
    writes(&p, x.kept, words_at(0, (size_t)at.blocks * TRI_NF4_BLOCK_BYTES), false);
    writes(&p, x.kept, words_at(at.largest, at.largest + (size_t)at.blocks), false);
    writes(&p, x.kept, words_at(at.scales, at.bytes), false);
  }
  describe(&p, "%lld elements, content %d", (long long)total, (int)what);
  check(&p);
}

void cases_quantise_nf4(checker *c, tri_dtype type) {
  for (int i = 0; i < TOTALS - (is_quick(c) ? 1 : 0); i++) {
    for (int what = 0; what < CONTENTS; what++) quantise_case(c, type, totals[i], (content)what);
  }
}

/* All bytes are codes; scales and offset of several sizes. */
static int add_kept(problem *p, const char *name, const tri_nf4_cut *cut) {
  checker *c = p->checker;
  const tri_nf4_layout at = tri_nf4_layout_of_cut(cut);
  const int number = add_array(p, name, TRI_INT32, words_of(at.bytes));
  unsigned char *kept = p->arguments[number].before;
  for (size_t b = 0; b < at.scales; b++) kept[b] = (unsigned char)draw(c, 256);
  for (size_t b = at.scales; b < at.bytes; b += sizeof(float))
    number_set(TRI_FP32, kept + b, 0, draw_normal(c) * pow(10, -(double)draw(c, draw(c, 4) == 0 ? 44 : 4)));
  return number;
}

/* Rows of a matrix and columns of a matrix, of lengths that blocks divide or not; rows with more between some of them.
 */
static tri_nf4_cut draw_cut(checker *c) {
  const int64_t unit = draw_bool(c) ? TRI_NF4_BLOCK : 1, rows = draw_bool(c) ? 1 : draw_from(c, 1, 70);
  const int64_t width = unit * draw_from(c, 1, unit == 1 && draw_bool(c) ? 700 : 9);
  tri_nf4_cut cut = {.rows = rows, .width = width, .first = unit * draw(c, 400)};
  if (rows > 1) cut.pitch = width + unit * draw(c, unit == 1 && draw_bool(c) ? 3000 : 20);
  if (rows > 1 && draw_bool(c)) {
    cut.every = draw_from(c, 1, 5);
    cut.phase = draw(c, cut.every);
    cut.extra = unit * draw(c, 300);
  }
  cut.row_blocks = unit > 1 ? width / TRI_NF4_BLOCK : tri_nf4_blocks_touched(width);
  cut.total = tri_nf4_row_begin(cut, rows - 1) + width + draw(c, 200);
  return cut;
}

static void describe_cut(problem *p, const nf4_call *x) {
  const tri_nf4_cut *cut = &x->cut;
  describe(p, "%lld from %lld on, of %lld x %lld from %lld on, %lld apart (+%lld/%lld), of %lld", (long long)x->count,
           (long long)x->first, (long long)cut->rows, (long long)cut->width, (long long)cut->first,
           (long long)cut->pitch, (long long)cut->extra, (long long)cut->every, (long long)cut->total);
}

static void dequantise_case(checker *c, tri_dtype type, nf4_call *x) {
  problem p = problem_make(c, type);
  p.run = run_dequantise;
  p.with = x;
  x->kept = add_kept(&p, "kept", &x->cut);
  x->values = add_output(&p, "values", type, x->count, false);
  p.arguments[x->values].exact = true;
  describe_cut(&p, x);
  check(&p);
}

void cases_dequantise_nf4(checker *c, tri_dtype type) {
  for (int i = 0; i < 4 * (TOTALS - (is_quick(c) ? 1 : 0)); i++) {
    nf4_call x = {.cut = tri_nf4_whole(totals[i / 4]), .total = totals[i / 4], .count = totals[i / 4]};
    if (i % 4 > 0 && x.total > 0) { /* a stretch, to the end or not */
      x.first = draw(c, (x.total + TRI_NF4_BLOCK - 1) / TRI_NF4_BLOCK) * TRI_NF4_BLOCK;
      x.count = i % 4 == 1 ? x.total - x.first : draw(c, x.total - x.first + 1);
    }
    dequantise_case(c, type, &x);
  }
  for (int i = 0; i < (is_quick(c) ? 30 : 300); i++) {
    nf4_call x = {.cut = draw_cut(c)};
    x.count = x.cut.rows * x.cut.width;
    if (i % 3 == 0) {
      x.first = draw(c, x.count);
      x.count = draw(c, x.count - x.first + 1);
    }
    dequantise_case(c, type, &x);
  }
}

/* It knows no type. */
void cases_cut_nf4(checker *c, tri_dtype type) {
  for (int i = 0; i < (is_quick(c) ? 30 : 300); i++) {
    problem p = problem_make(c, type);
    nf4_call x = {.cut = i > 3 ? draw_cut(c) : tri_nf4_whole(totals[3 * i])};
    const tri_nf4_layout at = tri_nf4_layout_of_cut(&x.cut);
    const tri_nf4_cut whole = tri_nf4_whole(x.cut.total);
    p.run = run_cut;
    p.with = &x;
    x.whole = add_kept(&p, "whole", &whole);
    x.kept = add_array(&p, "kept", TRI_INT32, words_of(at.bytes));
    p.arguments[x.kept].exact = true;
    if (x.cut.total > 0) {
      writes(&p, x.kept, words_at(0, (size_t)at.blocks * TRI_NF4_BLOCK_BYTES), false);
      writes(&p, x.kept, words_at(at.largest, at.largest + (size_t)at.blocks), false);
      writes(&p, x.kept, words_at(at.scales, at.bytes), false);
    }
    describe_cut(&p, &x);
    check(&p);
  }
}
