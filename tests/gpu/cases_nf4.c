/* Weights in 4 bits: every bit is the reference's. */
#include "device/nf4.h"
#include "problem.h"

#include <math.h>
#include <stdint.h>

#define AT(i) ((void *)memory[i])

typedef struct nf4_call {
  int64_t total, first, count;
  int values, kept;
} nf4_call;

static tri_status run_quantise(const problem *p, tri_queue *queue, char *const *memory) {
  const nf4_call *x = p->with;
  return KERNEL(queue, quantise_nf4, p->type, x->total, AT(x->values), AT(x->kept));
}

static tri_status run_dequantise(const problem *p, tri_queue *queue, char *const *memory) {
  const nf4_call *x = p->with;
  return KERNEL(queue, dequantise_nf4, p->type, x->first, x->count, x->total, AT(x->kept), AT(x->values));
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
static void add_kept(problem *p, nf4_call *x) {
  checker *c = p->checker;
  const tri_nf4_layout at = tri_nf4_layout_of(x->total);
  x->kept = add_array(p, "kept", TRI_INT32, words_of(at.bytes));
  unsigned char *kept = p->arguments[x->kept].before;
  for (size_t b = 0; b < at.scales; b++) kept[b] = (unsigned char)draw(c, 256);
  for (size_t b = at.scales; b < at.bytes; b += sizeof(float))
    number_set(TRI_FP32, kept + b, 0, draw_normal(c) * pow(10, -(double)draw(c, draw(c, 4) == 0 ? 44 : 4)));
}

void cases_dequantise_nf4(checker *c, tri_dtype type) {
  for (int i = 0; i < 4 * (TOTALS - (is_quick(c) ? 1 : 0)); i++) {
    problem p = problem_make(c, type);
    nf4_call x = {.total = totals[i / 4], .count = totals[i / 4]};
    p.run = run_dequantise;
    p.with = &x;
    if (i % 4 > 0 && x.total > 0) { /* a stretch, to the end or not */
      x.first = draw(c, (x.total + TRI_NF4_BLOCK - 1) / TRI_NF4_BLOCK) * TRI_NF4_BLOCK;
      x.count = i % 4 == 1 ? x.total - x.first : draw(c, x.total - x.first + 1);
    }
    add_kept(&p, &x);
    x.values = add_output(&p, "values", type, x.count, false);
    p.arguments[x.values].exact = true;
    describe(&p, "%lld elements of %lld from %lld on", (long long)x.count, (long long)x.total, (long long)x.first);
    check(&p);
  }
}
