/* Weights in blocks: codes and values have the reference's bits, products are within the tolerance of their type.
 * Values are wide: the cases of bf16 are those of fp32. */
#include "device/block_weights.h"
#include "problem.h"

#include <math.h>
#include <stdint.h>

#define AT(i) ((void *)memory[i])

enum { CASES = 14, GROUPS = 3 };

typedef struct block_call {
  tri_block_matrix matrix;
  tri_block_part part;
  tri_block_product product;
  int64_t first_id, rows;
  int values, kept, ids, positions, table, begins, a, bias, c; /* numbers of arguments; -1: NULL */
} block_call;

static int64_t words_of(size_t bytes) { return (int64_t)(bytes + 3) / 4; }

static void *or_null(char *const *memory, int number) { return number < 0 ? NULL : AT(number); }

static tri_status run_pack(const problem *p, tri_queue *queue, char *const *memory) {
  const block_call *x = p->with;
  return KERNEL(queue, pack_blocks, p->type, &x->matrix, &x->part, AT(x->values), AT(x->kept));
}

static tri_status run_unpack(const problem *p, tri_queue *queue, char *const *memory) {
  const block_call *x = p->with;
  return KERNEL(queue, unpack_blocks, p->type, &x->matrix, &x->part, AT(x->kept), AT(x->values));
}

static tri_status run_embedding(const problem *p, tri_queue *queue, char *const *memory) {
  const block_call *x = p->with;
  return KERNEL(queue, embedding_blocks, p->type, tri_all_rows(x->rows), &x->matrix, AT(x->ids), x->first_id,
                AT(x->kept), AT(x->positions), or_null(memory, x->table), AT(x->values));
}

static tri_status run_matmul(const problem *p, tri_queue *queue, char *const *memory) {
  const block_call *x = p->with;
  return KERNEL(queue, block_matmul, p->type, &x->product, or_null(memory, x->begins), AT(x->a), AT(x->kept),
                or_null(memory, x->bias), AT(x->c));
}

static tri_block_matrix draw_matrix(checker *c) {
  return (tri_block_matrix){.type = draw_bool(c) ? TRI_BLOCKS_Q8_0 : TRI_BLOCKS_Q4_0,
                            .in = TRI_BLOCK_INPUTS * draw_from(c, 1, 9),
                            .out = draw_bool(c) ? draw_from(c, 1, 40) : TRI_BLOCK_OUTPUTS * draw_from(c, 1, 12)};
}

/* Adds `matrices` matrices in memory one after the other, with any codes and with scales from 1 to 2. */
static int add_kept(problem *p, const tri_block_matrix *m, int64_t matrices) {
  checker *c = p->checker;
  const size_t bytes = tri_block_matrix_bytes(m);
  const int number = add_array(p, "kept", TRI_INT32, words_of(bytes * (size_t)matrices));
  unsigned char *kept = p->arguments[number].before;
  for (size_t i = 0; i < bytes * (size_t)matrices; i++) kept[i] = (unsigned char)draw(c, 256);
  for (int64_t b = 0; b < (int64_t)bytes * matrices; b += tri_block_bytes(m->type))
    for (int lane = 0; lane < TRI_BLOCK_OUTPUTS; lane++) kept[b + 2 * lane + 1] = 0x3c;
  return number;
}

static void describe_matrix(problem *p, const block_call *x) {
  describe(p, "type %d, %lld x %lld", (int)x->matrix.type, (long long)x->matrix.out, (long long)x->matrix.in);
}

void cases_pack_blocks(checker *c, tri_dtype type) {
  for (int i = 0; i < CASES; i++) {
    problem p = problem_make(c, tri_dtype_wide(type));
    block_call x = {.matrix = draw_matrix(c)};
    const tri_block_matrix *m = &x.matrix;
    x.part = (tri_block_part){.outputs = m->out, .inputs = m->in, .out_stride = m->in, .in_stride = 1};
    if (draw_bool(c)) x.part.in_stride = m->out;
    if (x.part.in_stride > 1) x.part.out_stride = 1;
    x.values = add_input(&p, "values", p.wide, m->in * m->out, 0, 1);
    x.kept = add_output(&p, "kept", TRI_INT32, words_of(tri_block_matrix_bytes(m)), false);
    p.arguments[x.kept].exact = true;
    p.run = run_pack;
    p.with = &x;
    describe_matrix(&p, &x);
    check(&p);
  }
}

void cases_unpack_blocks(checker *c, tri_dtype type) {
  for (int i = 0; i < CASES; i++) {
    problem p = problem_make(c, tri_dtype_wide(type));
    block_call x = {.matrix = draw_matrix(c)};
    tri_block_part *part = &x.part;
    *part = (tri_block_part){.first_out = draw(c, x.matrix.out), .first_in = draw(c, x.matrix.in), .in_stride = 1};
    part->outputs = draw_from(c, 1, x.matrix.out - part->first_out);
    part->inputs = draw_from(c, 1, x.matrix.in - part->first_in);
    part->out_stride = part->inputs;
    x.kept = add_kept(&p, &x.matrix, 1);
    x.values = add_output(&p, "values", p.wide, part->outputs * part->inputs, false);
    p.arguments[x.values].exact = true;
    p.run = run_unpack;
    p.with = &x;
    describe_matrix(&p, &x);
    check(&p);
  }
}

void cases_embedding_blocks(checker *c, tri_dtype type) {
  enum { POSITIONS = 5 };
  for (int i = 0; i < CASES; i++) {
    problem p = problem_make(c, tri_dtype_wide(type));
    block_call x = {.matrix = draw_matrix(c), .first_id = draw(c, 10), .rows = draw_from(c, 1, 20), .table = -1};
    x.ids = add_array(&p, "ids", TRI_INT32, x.rows);
    x.positions = add_array(&p, "positions", TRI_INT32, x.rows);
    for (int64_t r = 0; r < x.rows; r++) {
      number_set(TRI_INT32, p.arguments[x.ids].before, r, (double)draw(c, x.matrix.out + 15));
      number_set(TRI_INT32, p.arguments[x.positions].before, r, (double)draw(c, POSITIONS));
    }
    x.kept = add_kept(&p, &x.matrix, 1);
    if (draw_bool(c)) x.table = add_input(&p, "position table", p.wide, POSITIONS * x.matrix.in, 0, 1);
    x.values = add_output(&p, "out", p.wide, x.rows * x.matrix.in, false);
    p.run = run_embedding;
    p.with = &x;
    describe_matrix(&p, &x);
    check(&p);
  }
}

void cases_block_matmul(checker *c, tri_dtype type) {
  for (int i = 0; i < 2 * CASES; i++) {
    problem p = problem_make(c, tri_dtype_wide(type));
    block_call x = {.matrix = draw_matrix(c), .begins = -1, .bias = -1};
    tri_block_product *product = &x.product;
    *product = (tri_block_product){.matrix = x.matrix, .rows = draw_from(c, 1, 30)};
    product->lda = x.matrix.in + draw(c, 4);
    product->ldc = x.matrix.out + draw(c, 4);
    if (i % 3 == 2) {
      product->groups = GROUPS;
      product->stride = (int64_t)tri_block_matrix_bytes(&x.matrix);
      x.begins = add_array(&p, "begins", TRI_INT32, GROUPS + 1);
      int64_t begin = 0;
      for (int g = 0; g <= GROUPS; g++) {
        number_set(TRI_INT32, p.arguments[x.begins].before, g, (double)begin);
        begin = g + 1 == GROUPS ? product->rows : draw_from(c, begin, product->rows);
      }
    }
    x.a = add_input(&p, "a", p.wide, product->rows * product->lda, 0, 1);
    x.kept = add_kept(&p, &x.matrix, i % 3 == 2 ? GROUPS : 1);
    if (i % 3 == 1) x.bias = add_input(&p, "bias", p.wide, x.matrix.out, 0, 1);
    x.c = add_array(&p, "c", p.wide, product->rows * product->ldc);
    writes(&p, x.c, matrix_of(product->rows, product->ldc, x.matrix.out), false);
    p.run = run_matmul;
    p.with = &x;
    describe_matrix(&p, &x);
    check(&p);
  }
}
