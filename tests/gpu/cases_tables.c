/* Embeddings: rows of tables by ids and positions, and the sums of gradients that go back to them. */
#include "problem.h"

#define AT(i) ((void *)memory[i])

typedef struct table_call {
  int64_t rows, width, live, table_rows, first_id, position_rows;
  int count, ids, table, positions, position_table, out;
  bool accumulate;
} table_call;

/* The range of the ids: the whole vocabulary, half outside of the slice, one id, few ids. */
typedef enum id_kind { IDS_INSIDE, IDS_AROUND, IDS_ONE, IDS_FEW, NUM_ID_KINDS } id_kind;

static const char *id_text(id_kind kind) {
  switch (kind) {
    case IDS_INSIDE: return "ids of the slice";
    case IDS_AROUND: return "half of the ids beyond the slice";
    case IDS_ONE: return "one id";
    case IDS_FEW: return "few ids";
    case NUM_ID_KINDS: break;
  }
  return "";
}

static int64_t draw_id(checker *c, const table_call *x, id_kind kind, int64_t one) {
  switch (kind) {
    case IDS_INSIDE: return x->first_id + draw(c, x->table_rows);
    case IDS_AROUND: return x->first_id - x->table_rows / 2 - 1 + draw(c, 2 * x->table_rows + 2);
    case IDS_ONE: return one;
    case IDS_FEW: return x->first_id + draw(c, x->table_rows < 3 ? x->table_rows : 3);
    case NUM_ID_KINDS: break;
  }
  return 0;
}

static int add_ids(problem *p, const table_call *x, id_kind kind) {
  const int number = add_array(p, "ids", TRI_INT32, x->rows);
  const int64_t one = x->first_id + draw(p->checker, x->table_rows);
  for (int64_t r = 0; r < x->live; r++)
    number_set(TRI_INT32, p->arguments[number].before, r, (double)draw_id(p->checker, x, kind, one));
  return number;
}

static int add_positions(problem *p, const table_call *x, int64_t among) {
  const int number = add_array(p, "positions", TRI_INT32, x->rows);
  for (int64_t r = 0; r < x->live; r++)
    number_set(TRI_INT32, p->arguments[number].before, r, (double)draw(p->checker, among));
  return number;
}

static tri_status run_forward(const problem *p, tri_queue *queue, char *const *memory) {
  const table_call *x = p->with;
  return KERNEL(queue, embedding_forward, p->type, rows_of(p, x->rows, x->count, memory), x->width, AT(x->ids),
                x->first_id, x->table_rows, p->arguments[x->table].type, AT(x->table),
                x->positions < 0 ? NULL : AT(x->positions), x->position_table < 0 ? NULL : AT(x->position_table),
                AT(x->out));
}

static tri_status run_backward(const problem *p, tri_queue *queue, char *const *memory) {
  const table_call *x = p->with;
  return KERNEL(queue, embedding_backward, p->type, rows_of(p, x->rows, x->count, memory), x->width, AT(x->ids),
                x->first_id, x->table_rows, AT(x->table), AT(x->out));
}

static tri_status run_position(const problem *p, tri_queue *queue, char *const *memory) {
  const table_call *x = p->with;
  return KERNEL(queue, position_backward, p->type, rows_of(p, x->rows, x->count, memory), x->width, AT(x->positions),
                x->table_rows, AT(x->table), AT(x->out), x->accumulate);
}

static void begin(problem *p, table_call *x, int i, tri_status (*run)(const problem *, tri_queue *, char *const *)) {
  checker *c = p->checker;
  p->run = run;
  p->with = x;
  x->live = add_rows(p, x->rows, &x->count);
  x->table_rows = x->rows >= 512 ? 5003 : draw_from(c, 1, i % 2 == 0 ? 9 : 300);
  x->first_id = i % 3 == 0 ? 0 : draw(c, 50000);
}

void cases_embedding_forward(checker *c, tri_dtype type) {
  table_call x = {0};
  for (int i = 0; next_shape(c, i, &x.rows, &x.width); i++) {
    problem p = problem_make(c, type);
    const id_kind kind = (id_kind)(i % NUM_ID_KINDS);
    begin(&p, &x, i, run_forward);
    x.position_rows = draw_from(c, 1, 40);
    x.ids = add_ids(&p, &x, kind);
    const tri_dtype table_type = draw_bool(c) ? type : p.wide;
    x.table = add_input(&p, "table", table_type, x.table_rows * x.width, 0, 1);
    x.positions = x.position_table = -1;
    if (draw_bool(c)) {
      x.positions = add_positions(&p, &x, x.position_rows);
      x.position_table = add_input(&p, "position_table", p.wide, x.position_rows * x.width, 0, 1);
    }
    x.out = add_array(&p, "out", type, x.rows * x.width);
    writes(&p, x.out, all_of(x.live * x.width), false);
    p.arguments[x.out].exact = x.position_table < 0;
    describe(&p, "%lld x %lld%s of %lld from %lld in %s, %s%s", (long long)x.rows, (long long)x.width,
             x.count < 0 ? "" : " (counted)", (long long)x.table_rows, (long long)x.first_id,
             tri_dtype_name(table_type), id_text(kind), x.positions < 0 ? "" : ", with positions");
    check(&p);
  }
}

void cases_embedding_backward(checker *c, tri_dtype type) {
  table_call x = {0};
  for (int i = 0; next_shape(c, i, &x.rows, &x.width); i++) {
    problem p = problem_make(c, type);
    const id_kind kind = (id_kind)(i % NUM_ID_KINDS);
    begin(&p, &x, i, run_backward);
    x.ids = add_ids(&p, &x, kind);
    x.table = add_array(&p, "gradient", type, x.rows * x.width);
    fill(&p, x.table, all_of(x.live * x.width), 0.1, 1);
    x.out = add_output(&p, "gradient of the table", p.wide, x.table_rows * x.width, true);
    describe(&p, "%lld x %lld%s into %lld from %lld, %s", (long long)x.rows, (long long)x.width,
             x.count < 0 ? "" : " (counted)", (long long)x.table_rows, (long long)x.first_id, id_text(kind));
    check(&p);
  }
}

/* The reference goes over all rows for each position: large problems have few. */
void cases_position_backward(checker *c, tri_dtype type) {
  table_call x = {0};
  for (int i = 0; next_shape(c, i, &x.rows, &x.width); i++) {
    problem p = problem_make(c, type);
    if (x.rows == 0) continue; /* that many do nothing, and leave a gradient as it is: never requested */
    const bool large = x.rows >= 512;
    if (large) x.rows = 500;
    begin(&p, &x, i, run_position);
    if (large) x.table_rows = 65;
    x.positions = add_positions(&p, &x, i % 2 == 0 ? x.table_rows : (x.table_rows + 1) / 2);
    x.table = add_array(&p, "gradient", type, x.rows * x.width);
    fill(&p, x.table, all_of(x.live * x.width), 0.1, 1);
    x.accumulate = draw_bool(c);
    x.out = add_output(&p, "gradient of the table", p.wide, x.table_rows * x.width, x.accumulate);
    describe(&p, "%lld x %lld%s into %lld%s", (long long)x.rows, (long long)x.width, x.count < 0 ? "" : " (counted)",
             (long long)x.table_rows, x.accumulate ? ", accumulated" : "");
    check(&p);
  }
}
