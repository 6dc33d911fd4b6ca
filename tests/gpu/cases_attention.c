/* Attention over lists of slices: documents, gaps, full and causal, one query at the end of a cache, windows, several
 * slices for a query and for a key; grouped heads; all heads of q, k and v in one row, or as in GPT-NeoX, or in
 * separate arrays; calls that merge and gradients that accumulate. */
#include "problem.h"

#include "device/reference/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AT(i) ((void *)memory[i])

enum { MOST_SLICES = 48, WORKSPACE = 0 };

typedef struct slice_list {
  tri_attention_slice slices[MOST_SLICES];
  int count;
  bool shares_queries, shares_keys;
} slice_list;

/* The layout of heads: [rows, q heads, k heads, v heads]; [rows, heads of q, k and v]; [heads, rows] each. */
typedef enum head_layout { HEADS_SIDE_BY_SIDE, HEADS_TOGETHER, HEADS_APART, NUM_HEAD_LAYOUTS } head_layout;

typedef struct attention_call {
  tri_attention call;
  head_layout layout;
  bool one_array; /* q, k and v, and their gradients */
  int64_t k_offset, v_offset;
  int slices, q, k, v, out, log_sum_exp, gradient_out, gradient_q, gradient_k, gradient_v;
} attention_call;

/* ---- lists of slices --------------------------------------------------------------------------------------------- */

static void append(slice_list *l, tri_attention_slice s) {
  if (l->count < MOST_SLICES) l->slices[l->count++] = s;
}

/* Causal ones mostly, full ones, windows that may be longer than the slice, and any band. */
static tri_attention_slice draw_slice(checker *c, int64_t query, int64_t queries, int64_t key, int64_t keys) {
  tri_attention_slice s = tri_slice_causal(query, queries, key, keys);
  switch (draw(c, 6)) {
    case 0: return tri_slice_full(query, queries, key, keys);
    case 1: return tri_slice_window(query, queries, key, keys, draw_from(c, 1, 5));
    case 2: return tri_slice_window(query, queries, key, keys, draw_from(c, 1, keys + 20));
    case 3:
      s.from = (int32_t)draw_from(c, -queries - 10, keys + 10);
      s.to = (int32_t)(s.from + draw(c, queries + keys + 1));
      return s;
    default: return s;
  }
}

/* Documents of any length, with rows between them that belong to none, and slices that say nothing. */
static void make_documents(checker *c, int64_t query_rows, int64_t key_rows, slice_list *l) {
  int64_t query = 0, key = 0;
  for (int tries = 0; tries < 60 && query < query_rows && key < key_rows; tries++) {
    if (draw(c, 3) == 0) query += draw(c, 4);
    if (draw(c, 3) == 0) key += draw(c, 4);
    const int64_t queries = draw(c, draw_bool(c) ? 4 : 70), keys = draw(c, 3) > 0 ? queries : draw(c, 70);
    if (query + queries > query_rows || key + keys > key_rows) continue;
    append(l, draw_slice(c, query, queries, key, keys));
    query += queries;
    key += keys;
  }
}

static bool sees(const tri_attention_slice *s, int64_t query, int64_t key) {
  const int64_t i = query - s->first_query, j = key - s->first_key;
  if (i < 0 || i >= s->queries || j < 0 || j >= s->keys) return false;
  return j >= i + s->from && j <= i + s->to;
}

/* No query sees a key twice. */
static bool overlaps(const slice_list *l, const tri_attention_slice *new) {
  for (int i = 0; i < l->count; i++) {
    for (int64_t q = new->first_query; q < new->first_query + new->queries; q++) {
      for (int64_t k = new->first_key; k < new->first_key + new->keys; k++)
        if (sees(&l->slices[i], q, k) && sees(new, q, k)) return true;
    }
  }
  return false;
}

static void make_shared(checker *c, int64_t query_rows, int64_t key_rows, slice_list *l) {
  l->shares_queries = l->shares_keys = true;
  for (int tries = 0; tries < 40; tries++) {
    const int64_t query = draw(c, query_rows), key = draw(c, key_rows);
    const int64_t queries = 1 + draw(c, query_rows - query), keys = 1 + draw(c, key_rows - key);
    const tri_attention_slice s = draw_slice(c, query, queries, key, keys);
    if (!overlaps(l, &s)) append(l, s);
  }
}

/* Each query sees the last few keys: one slice for those at the beginning, and one for each other. */
static void make_window(int64_t rows, int64_t window, slice_list *l) {
  l->shares_keys = true;
  if (window > rows) window = rows;
  append(l, tri_slice_causal(0, window, 0, window));
  for (int64_t r = window; r < rows; r++) append(l, tri_slice_full(r, 1, r - window + 1, window));
}

/* Sequences that have a cache of keys each, of unequal lengths. */
static void make_caches(checker *c, int64_t batch, int64_t queries, int64_t capacity, slice_list *l) {
  for (int64_t b = 0; b < batch; b++)
    append(l, tri_slice_causal(b * queries, queries, b * capacity, draw_from(c, queries, capacity)));
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static void lay_out(checker *c, attention_call *x) {
  tri_attention *a = &x->call;
  const int64_t D = a->head_dim;
  x->one_array = x->layout != HEADS_APART && a->query_rows == a->key_rows;
  if (x->layout == HEADS_TOGETHER && (a->heads != a->kv_heads || !x->one_array)) x->layout = HEADS_SIDE_BY_SIDE;
  switch (x->layout) {
    case HEADS_SIDE_BY_SIDE:
      a->q_head = a->k_head = a->v_head = D;
      a->q_row = a->heads * D + draw(c, 2) * 5;
      a->k_row = a->v_row = a->kv_heads * D;
      if (x->one_array) a->q_row = a->k_row = a->v_row = (a->heads + 2 * a->kv_heads) * D + draw(c, 2) * 3;
      x->k_offset = a->heads * D;
      x->v_offset = (a->heads + a->kv_heads) * D;
      break;
    case HEADS_TOGETHER:
      a->q_head = a->k_head = a->v_head = 3 * D;
      a->q_row = a->k_row = a->v_row = 3 * a->heads * D;
      x->k_offset = D;
      x->v_offset = 2 * D;
      break;
    case HEADS_APART:
      a->q_row = D + draw(c, 3);
      a->k_row = D + draw(c, 3);
      a->v_row = D;
      a->q_head = a->query_rows * a->q_row + draw(c, 5);
      a->k_head = a->key_rows * a->k_row;
      a->v_head = a->key_rows * a->v_row + draw(c, 3);
      break;
    case NUM_HEAD_LAYOUTS: break;
  }
  a->out_head = D + (x->layout == HEADS_APART ? 1 : 0);
  a->out_row = a->heads * a->out_head + draw(c, 2) * 3;
}

static int64_t elements(int64_t rows, int64_t row, int64_t heads, int64_t head, int64_t D) {
  return rows == 0 ? 0 : (rows - 1) * row + (heads - 1) * head + D;
}

static region q_region(const attention_call *x) {
  const tri_attention *a = &x->call;
  return (region){0, a->query_rows, a->q_row, a->heads, a->q_head, a->head_dim};
}
static region k_region(const attention_call *x) {
  const tri_attention *a = &x->call;
  return (region){x->one_array ? x->k_offset : 0, a->key_rows, a->k_row, a->kv_heads, a->k_head, a->head_dim};
}
static region v_region(const attention_call *x) {
  const tri_attention *a = &x->call;
  return (region){x->one_array ? x->v_offset : 0, a->key_rows, a->v_row, a->kv_heads, a->v_head, a->head_dim};
}
static region out_region(const attention_call *x) {
  const tri_attention *a = &x->call;
  return (region){0, a->query_rows, a->out_row, a->heads, a->out_head, a->head_dim};
}

typedef struct three {
  int q, k, v;
} three;

/* Three arrays, or one for all. */
static three add_three(problem *p, const attention_call *x, tri_dtype type, const char *const names[3]) {
  const tri_attention *a = &x->call;
  const int64_t D = a->head_dim;
  three t;
  if (x->one_array) {
    const int64_t row = (a->heads + 2 * a->kv_heads) * D, rows = a->query_rows;
    t.q = t.k = t.v = add_array(p, names[0], type, (rows == 0 ? 0 : rows - 1) * a->q_row + row);
    return t;
  }
  t.q = add_array(p, names[0], type, elements(a->query_rows, a->q_row, a->heads, a->q_head, D));
  t.k = add_array(p, names[1], type, elements(a->key_rows, a->k_row, a->kv_heads, a->k_head, D));
  t.v = add_array(p, names[2], type, elements(a->key_rows, a->v_row, a->kv_heads, a->v_head, D));
  return t;
}

static void add_inputs(problem *p, attention_call *x, const slice_list *l) {
  static const char *const names[3] = {"q", "k", "v"};
  x->slices = add_bytes(p, "slices", l->slices, (size_t)l->count * sizeof l->slices[0]);
  const three t = add_three(p, x, p->type, names);
  x->q = t.q;
  x->k = t.k;
  x->v = t.v;
  fill(p, x->q, q_region(x), 0, 1.5);
  fill(p, x->k, k_region(x), 0, 1);
  fill(p, x->v, v_region(x), 0, 1);
}

static int64_t out_elements(const attention_call *x) {
  const tri_attention *a = &x->call;
  return elements(a->query_rows, a->out_row, a->heads, a->out_head, a->head_dim);
}

static void *of(const problem *p, char *const *memory, const attention_call *x, int number, int64_t offset) {
  return memory[number] + (x->one_array ? offset * (int64_t)tri_dtype_bytes(p->arguments[number].type) : 0);
}

static void say(problem *p, const attention_call *x, const char *list) {
  const tri_attention *a = &x->call;
  describe(p, "%s, %lld x %lld rows, H %lld/%lld, D %lld, cap %g, into %s and %s, layout %d%s%s", list,
           (long long)a->query_rows, (long long)a->key_rows, (long long)a->heads, (long long)a->kv_heads,
           (long long)a->head_dim, a->soft_cap, tri_dtype_name(a->out_type), tri_dtype_name(a->gradient_type),
           (int)x->layout, a->merge ? ", merged" : "", a->accumulate ? ", accumulated" : "");
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static tri_status spaces_of(const problem *p, const tri_device_description *d, size_t bytes[NUM_SPACES]) {
  const attention_call *x = p->with;
  return d->attention_workspace(d, &x->call, &bytes[WORKSPACE]);
}

static tri_status run_forward(const problem *p, tri_queue *queue, char *const *memory) {
  const attention_call *x = p->with;
  return KERNEL(queue, attention_forward, &x->call, AT(x->slices), AT(x->q), of(p, memory, x, x->k, x->k_offset),
                of(p, memory, x, x->v, x->v_offset), AT(x->out), x->log_sum_exp < 0 ? NULL : AT(x->log_sum_exp),
                AT(p->count + WORKSPACE));
}

/* What calls before may have left: of some queries, nothing. */
static void fill_earlier(problem *p, const attention_call *x) {
  const tri_attention *a = &x->call;
  unsigned char *log_sum_exp = p->arguments[x->log_sum_exp].before, *out = p->arguments[x->out].before;
  fill(p, x->out, out_region(x), 0, 1);
  for (int64_t h = 0; h < a->heads; h++) {
    for (int64_t r = 0; r < a->query_rows; r++) {
      const bool nothing = draw(p->checker, 4) == 0;
      number_set(p->wide, log_sum_exp, h * a->query_rows + r, nothing ? -INFINITY : 2 + draw_normal(p->checker));
      for (int64_t d = 0; d < a->head_dim && nothing; d++)
        number_set(a->out_type, out, r * a->out_row + h * a->out_head + d, 0);
    }
  }
}

/* Probabilities may be rounded to the type of the activations, and then so are results in a wider one. */
static void set_tolerance(problem *p, int number) {
  argument *a = &p->arguments[number];
  a->tolerance = tolerance_of(p->type);
  a->yardstick = 0.1; /* a gradient of scores over a single key is exactly zero */
}

static void one_forward(checker *c, tri_dtype type, attention_call x, const slice_list *l, const char *list) {
  problem p = problem_make(c, type);
  p.run = run_forward;
  p.spaces = spaces_of;
  p.with = &x;
  add_inputs(&p, &x, l);
  x.out = add_array(&p, "out", x.call.out_type, out_elements(&x));
  writes(&p, x.out, out_region(&x), false);
  set_tolerance(&p, x.out);
  x.log_sum_exp = -1;
  if (x.call.merge || draw(c, 4) > 0) {
    x.log_sum_exp = add_output(&p, "log_sum_exp", p.wide, x.call.heads * x.call.query_rows, false);
  }
  if (x.call.merge) fill_earlier(&p, &x);
  say(&p, &x, list);
  if (x.log_sum_exp < 0) describe(&p, ", no log_sum_exp");
  check(&p);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

static tri_status run_backward(const problem *p, tri_queue *queue, char *const *memory) {
  const attention_call *x = p->with;
  return KERNEL(queue, attention_backward, &x->call, AT(x->slices), AT(x->q), of(p, memory, x, x->k, x->k_offset),
                of(p, memory, x, x->v, x->v_offset), AT(x->out), AT(x->log_sum_exp), AT(x->gradient_out),
                AT(x->gradient_q), of(p, memory, x, x->gradient_k, x->k_offset),
                of(p, memory, x, x->gradient_v, x->v_offset), AT(p->count + WORKSPACE));
}

/* Fills out and log_sum_exp, which are inputs of a backward, with the reference's forward on the host. If the queries
 * see more keys than the slices have, log_sum_exp is larger. */
static bool fill_forward(problem *p, const attention_call *x) {
  char *memory[MOST_ARGUMENTS + NUM_SPACES];
  attention_call forward = *x;
  size_t bytes = 0;
  forward.call.merge = false;
  if (tri_reference_attention_workspace(NULL, &forward.call, &bytes) != TRI_OK) return false;
  void *workspace = malloc(bytes + 1);
  if (workspace == NULL) abort();
  for (int i = 0; i < p->count; i++) memory[i] = (char *)p->arguments[i].before;
  tri_status status =
      tri_reference_attention_forward(NULL, &forward.call, AT(x->slices), AT(x->q), of(p, memory, x, x->k, x->k_offset),
                                      of(p, memory, x, x->v, x->v_offset), AT(x->out), AT(x->log_sum_exp), workspace);
  free(workspace);
  for (int64_t i = 0; x->call.merge && i < x->call.heads * x->call.query_rows; i++) {
    const double before = number_get(p->wide, AT(x->log_sum_exp), i), more = draw_normal(p->checker);
    number_set(p->wide, AT(x->log_sum_exp), i, isinf(before) ? more : before + fabs(more));
  }
  return status == TRI_OK;
}

static void one_backward(checker *c, tri_dtype type, attention_call x, const slice_list *l, const char *list) {
  static const char *const names[3] = {"gradient of q", "gradient of k", "gradient of v"};
  problem p = problem_make(c, type);
  p.run = run_backward;
  p.spaces = spaces_of;
  p.with = &x;
  add_inputs(&p, &x, l);
  x.out = add_array(&p, "out", x.call.out_type, out_elements(&x));
  x.log_sum_exp = add_array(&p, "log_sum_exp", p.wide, x.call.heads * x.call.query_rows);
  x.gradient_out = add_array(&p, "gradient of out", type, out_elements(&x));
  fill(&p, x.gradient_out, out_region(&x), 0, 1);
  if (!fill_forward(&p, &x)) abort(); /* this program's mistake: the list is not the call's */
  const three t = add_three(&p, &x, x.call.gradient_type, names);
  x.gradient_q = t.q;
  x.gradient_k = t.k;
  x.gradient_v = t.v;
  writes(&p, x.gradient_q, q_region(&x), x.call.accumulate);
  writes(&p, x.gradient_k, k_region(&x), x.call.accumulate);
  writes(&p, x.gradient_v, v_region(&x), x.call.accumulate);
  set_tolerance(&p, x.gradient_q);
  set_tolerance(&p, x.gradient_k);
  set_tolerance(&p, x.gradient_v);
  say(&p, &x, list);
  check(&p);
}

/* ---- problems ---------------------------------------------------------------------------------------------------- */

typedef void one(checker *c, tri_dtype type, attention_call x, const slice_list *l, const char *list);

/* The list of a problem by its number, and its sizes. */
static const char *draw_list(checker *c, int i, tri_attention *a, slice_list *l) {
  switch (i % 8) {
    case 0:
      a->query_rows = a->key_rows = draw_from(c, 1, 100);
      append(l, tri_slice_causal(0, a->query_rows, 0, a->key_rows));
      return "one causal sequence";
    case 1:
      a->query_rows = a->key_rows = draw_from(c, 60, 150);
      make_documents(c, a->query_rows, a->key_rows, l);
      return "documents";
    case 2:
      a->query_rows = 3 * 1;
      a->key_rows = 3 * 90;
      make_caches(c, 3, 1, 90, l);
      return "one query each on caches";
    case 3:
      a->query_rows = draw_from(c, 20, 60);
      a->key_rows = draw_from(c, 20, 60);
      make_shared(c, a->query_rows, a->key_rows, l);
      return "slices that share queries and keys";
    case 4:
      a->query_rows = a->key_rows = draw_from(c, 20, 45);
      make_window(a->query_rows, draw_from(c, 1, 9), l);
      return "a window";
    case 5:
      a->query_rows = 2 * 19;
      a->key_rows = 2 * 77;
      make_caches(c, 2, 19, 77, l);
      return "some queries each on caches";
    case 6:
      a->query_rows = a->key_rows = draw_from(c, 60, 150);
      append(l, tri_slice_window(0, a->query_rows, 0, a->key_rows, draw_from(c, 1, 80)));
      return "a window in one slice";
    default: break;
  }
  a->query_rows = draw_from(c, 1, 90);
  a->key_rows = draw_from(c, 1, 90);
  append(l, tri_slice_full(0, a->query_rows, 0, a->key_rows));
  return "all see all";
}

static void set_most(tri_attention *a, const slice_list *l) {
  a->num_slices = l->count;
  a->shares_queries = l->shares_queries;
  a->shares_keys = l->shares_keys;
  for (int i = 0; i < l->count; i++) {
    if (l->slices[i].queries > a->most_queries) a->most_queries = l->slices[i].queries;
    if (l->slices[i].keys > a->most_keys) a->most_keys = l->slices[i].keys;
  }
}

static void draw_types(checker *c, tri_attention *a) {
  const tri_dtype wide = tri_dtype_wide(a->type);
  a->merge = draw(c, 3) == 0;
  a->accumulate = draw(c, 3) == 0;
  a->out_type = draw(c, 3) == 0 ? wide : a->type;
  a->gradient_type = draw(c, 3) == 0 ? wide : a->type;
}

/* None; among the scores; far above them. */
static double draw_cap(checker *c) {
  if (draw(c, 2) == 0) return 0;
  return draw_bool(c) ? 0.7 + (double)draw(c, 3) : 50;
}

static void small_problems(checker *c, tri_dtype type, one *function) {
  static const int64_t all_heads[][2] = {{1, 1}, {3, 3}, {4, 2}, {6, 1}, {2, 2}};
  static const int64_t few_heads[][2] = {{1, 1}, {2, 2}, {2, 1}, {1, 1}, {3, 1}};
  static const int64_t dims[] = {64, 8, 16, 33, 1, 80, 128, 64, 5, 32, 96, 64, 256};
  const int num_dims = sizeof dims / sizeof dims[0];
  const int count = is_quick(c) ? 8 : 80, from = (int)draw(c, 5 * num_dims);
  for (int i = 0; i < count; i++) {
    const int64_t *h = is_quick(c) ? few_heads[(i + from) % 5] : all_heads[(i + from) % 5];
    slice_list l = {0};
    attention_call x = {
        .call = {.type = type, .heads = h[0], .kv_heads = h[1], .head_dim = dims[(i + from) % num_dims]}};
    draw_types(c, &x.call);
    x.call.scale = i % 4 == 0 ? 0.3 : 1 / sqrt((double)x.call.head_dim);
    x.call.soft_cap = draw_cap(c);
    const char *list = draw_list(c, i, &x.call, &l);
    set_most(&x.call, &l);
    if (draw_bool(c)) x.call.most_keys += draw(c, 40); /* a list may say less than it might */
    x.layout = (head_layout)draw(c, NUM_HEAD_LAYOUTS);
    lay_out(c, &x);
    function(c, type, x, &l, list);
  }
}

/* No keys, and no queries. */
static void empty_problems(checker *c, tri_dtype type, one *function) {
  for (int i = 0; i < 3; i++) {
    slice_list l = {0};
    attention_call x = {.call = {.type = type, .heads = 2, .kv_heads = 2, .head_dim = 64, .scale = 0.125}};
    x.call.out_type = x.call.gradient_type = type;
    x.call.query_rows = x.call.key_rows = i == 0 ? 0 : 9;
    if (i == 2) append(&l, tri_slice_causal(0, 9, 0, 4)); /* the first five see nothing */
    set_most(&x.call, &l);
    lay_out(c, &x);
    function(c, type, x, &l, i == 0 ? "no rows" : i == 1 ? "no slices" : "some see nothing");
  }
}

/* A sequence of GPT-2, two of its heads; and of a Llama, one group of them, with a cap. */
static void large_problems(checker *c, tri_dtype type, one *function) {
  static const int64_t sizes[][4] = {{1024, 2, 2, 64}, {520, 4, 1, 128}};
  for (int i = 0; i < 2; i++) {
    slice_list l = {0};
    attention_call x = {.call = {.type = type, .heads = sizes[i][1], .kv_heads = sizes[i][2], .head_dim = sizes[i][3]}};
    x.call.out_type = x.call.gradient_type = type;
    x.call.scale = 1 / sqrt((double)x.call.head_dim);
    x.call.soft_cap = i == 0 ? 0 : 50;
    x.call.query_rows = x.call.key_rows = sizes[i][0];
    append(&l, tri_slice_causal(0, sizes[i][0], 0, sizes[i][0]));
    set_most(&x.call, &l);
    lay_out(c, &x);
    function(c, type, x, &l, "a whole sequence");
  }
}

static void all_problems(checker *c, tri_dtype type, one *function) {
  empty_problems(c, type, function);
  small_problems(c, type, function);
  if (!is_quick(c)) large_problems(c, type, function);
}

/* ---- pages: their layout is the device's own, so both kernels are tested together -------------------------------- */

typedef struct page_call {
  tri_attention call;
  int64_t appended; /* rows of k and v */
  int slices, pages, cache_rows, q, k, v, out;
} page_call;

enum { CACHE = 1 }; /* a space: keys, then values */

static size_t cache_bytes(const tri_attention *a) {
  return (size_t)(a->key_rows * a->kv_heads * a->head_dim) * tri_dtype_bytes(a->type);
}

static tri_status spaces_of_pages(const problem *p, const tri_device_description *d, size_t bytes[NUM_SPACES]) {
  const page_call *x = p->with;
  bytes[CACHE] = 2 * cache_bytes(&x->call);
  return d->attention_workspace(d, &x->call, &bytes[WORKSPACE]);
}

static tri_status run_pages(const problem *p, tri_queue *queue, char *const *memory) {
  const page_call *x = p->with;
  char *keys = AT(p->count + CACHE), *values = keys + cache_bytes(&x->call);
  tri_attention append = x->call;
  append.query_rows = x->appended;
  TRI_TRY(KERNEL(queue, append_keys, &append, AT(x->cache_rows), AT(x->k), AT(x->v), keys, values));
  return KERNEL(queue, attention_pages, &x->call, AT(x->slices), AT(x->pages), AT(x->q), keys, values, AT(x->out),
                AT(p->count + WORKSPACE));
}

enum { MOST_PAGES = 12 };

/* Sequences whose keys are in random pages. Only the last queries of each are computed, also with windows. */
static void one_paged(checker *c, tri_dtype type, const tri_attention *shape) {
  page_call x = {.call = *shape};
  tri_attention *a = &x.call;
  int32_t pages[MOST_PAGES], cache_rows[MOST_PAGES * TRI_PAGE_ROWS];
  slice_list l = {0};
  int64_t table = 0, sequences = draw_from(c, 1, 3), appended = 0;
  for (int32_t i = 0; i < MOST_PAGES; i++) pages[i] = i;
  for (int i = MOST_PAGES - 1; i > 0; i--) {
    const int64_t with = draw(c, i + 1);
    const int32_t other = pages[with];
    pages[with] = pages[i];
    pages[i] = other;
  }
  for (int64_t s = 0; s < sequences; s++) {
    const int64_t keys = draw_from(c, 1, 3 * TRI_PAGE_ROWS), queries = draw_bool(c) ? 1 : draw_from(c, 1, keys);
    const int64_t first = table * TRI_PAGE_ROWS;
    for (int64_t j = 0; j < keys; j++)
      cache_rows[appended++] = pages[table + j / TRI_PAGE_ROWS] * TRI_PAGE_ROWS + (int32_t)(j % TRI_PAGE_ROWS);
    append(&l, draw(c, 3) == 0 ? tri_slice_window(a->query_rows, queries, first, keys, draw_from(c, 1, keys + 9))
                               : tri_slice_causal(a->query_rows, queries, first, keys));
    table += (keys + TRI_PAGE_ROWS - 1) / TRI_PAGE_ROWS;
    a->query_rows += queries;
  }
  x.appended = appended;
  a->key_rows = MOST_PAGES * TRI_PAGE_ROWS;
  a->num_slices = l.count;
  for (int i = 0; i < l.count; i++) {
    if (l.slices[i].queries > a->most_queries) a->most_queries = l.slices[i].queries;
    if (l.slices[i].keys > a->most_keys) a->most_keys = l.slices[i].keys;
  }
  a->q_head = a->k_head = a->v_head = a->out_head = a->head_dim;
  a->q_row = a->heads * a->head_dim + draw(c, 2) * 5;
  a->k_row = a->kv_heads * a->head_dim + draw(c, 2) * 3;
  a->v_row = a->kv_heads * a->head_dim;
  a->out_row = a->heads * a->head_dim;
  problem p = problem_make(c, type);
  p.run = run_pages;
  p.spaces = spaces_of_pages;
  p.with = &x;
  x.slices = add_bytes(&p, "slices", l.slices, (size_t)l.count * sizeof l.slices[0]);
  x.pages = add_bytes(&p, "pages", pages, sizeof pages);
  x.cache_rows = add_bytes(&p, "cache_rows", cache_rows, (size_t)appended * sizeof *cache_rows);
  x.q = add_array(&p, "q", type, a->query_rows * a->q_row);
  x.k = add_array(&p, "k", type, appended * a->k_row);
  x.v = add_array(&p, "v", type, appended * a->v_row);
  fill(&p, x.q, matrix_of(a->query_rows, a->q_row, a->heads * a->head_dim), 0, 1.5);
  fill(&p, x.k, matrix_of(appended, a->k_row, a->kv_heads * a->head_dim), 0, 1);
  fill(&p, x.v, matrix_of(appended, a->v_row, a->kv_heads * a->head_dim), 0, 1);
  x.out = add_array(&p, "out", type, a->query_rows * a->out_row);
  writes(&p, x.out, matrix_of(a->query_rows, a->out_row, a->out_row), false);
  set_tolerance(&p, x.out);
  describe(&p, "%lld sequences in pages, %lld queries, H %lld/%lld, D %lld, cap %g", (long long)sequences,
           (long long)a->query_rows, (long long)a->heads, (long long)a->kv_heads, (long long)a->head_dim, a->soft_cap);
  check(&p);
}

void cases_attention_pages(checker *c, tri_dtype type) {
  static const int64_t shapes[][3] = {{1, 1, 64}, {4, 2, 8},   {6, 1, 33}, {3, 3, 128},
                                      {2, 2, 5},  {2, 1, 256}, {71, 1, 16}};
  const int count = is_quick(c) ? 6 : 40;
  for (int i = 0; i < count; i++) {
    const int64_t *s = shapes[i % 7];
    const tri_attention shape = {.type = type,
                                 .out_type = type,
                                 .gradient_type = type,
                                 .heads = s[0],
                                 .kv_heads = s[1],
                                 .head_dim = s[2],
                                 .scale = i % 4 == 0 ? 0.3 : 1 / sqrt((double)s[2]),
                                 .soft_cap = draw_cap(c),
                                 .paged = true};
    one_paged(c, type, &shape);
  }
}

void cases_append_keys(checker *c, tri_dtype type) { cases_attention_pages(c, type); }

void cases_attention_forward(checker *c, tri_dtype type) { all_problems(c, type, one_forward); }
void cases_attention_backward(checker *c, tri_dtype type) { all_problems(c, type, one_backward); }
