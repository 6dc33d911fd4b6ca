/* Attention over lists of slices: documents, gaps, full and causal slices, several slices for a query and for a key,
 * calls that are merged, and gradients that accumulate. The oracle is a softmax in double with a mask. Random lists,
 * with the strides of GPT-NeoX's heads and with those of [heads, rows], on the reference and on every vector unit of
 * this CPU; one, two and three threads give the same bits. */
#include "attention_problem.h"
#include "check.h"
#include "sanitized.h"
#include "slice_lists.h"
#include "vector_units.h"

/* ---- random lists ------------------------------------------------------------------------------------------------ */

/* Makes documents of any length, with rows between them that belong to none, and slices without effect. */
static void make_apart(dice *d, int64_t query_rows, int64_t key_rows, list *l) {
  int64_t query = 0, key = 0;
  while (query < query_rows && key < key_rows && l->count < MOST_SLICES) {
    if (roll(d, 3) == 0) query += roll(d, 5);
    if (roll(d, 3) == 0) key += roll(d, 5);
    int64_t queries = roll(d, 2) == 0 ? roll(d, 4) : roll(d, 90), keys = roll(d, 3) > 0 ? queries : roll(d, 90);
    if (query + queries > query_rows || key + keys > key_rows) continue;
    append(l, draw_slice(d, query, queries, key, keys));
    query += queries;
    key += keys;
    if (roll(d, 6) == 0) break;
  }
}

static void make_shared(dice *d, int64_t query_rows, int64_t key_rows, list *l) {
  for (int i = 0; i < 3 * MOST_SLICES; i++) {
    int64_t query = roll(d, query_rows), key = roll(d, key_rows);
    int64_t queries = 1 + roll(d, query_rows - query), keys = 1 + roll(d, key_rows - key);
    if (roll(d, 4) > 0 && queries > 40) queries = 40;
    if (roll(d, 4) > 0 && keys > 40) keys = 40;
    append(l, draw_slice(d, query, queries, key, keys));
  }
}

/* Makes a window: each query sees the last `window` keys. Needs a slice for the first queries, and one for each later
 * query. */
static void make_window(int64_t rows, int64_t window, list *l) {
  append(l, tri_slice_causal(0, window, 0, window));
  for (int64_t r = window; r < rows; r++) append(l, tri_slice_full(r, 1, r - window + 1, window));
}

/* Makes a window over keys in adjacent blocks: in each block most queries see no key. */
static void make_blocks(int64_t rows, int64_t window, int64_t block, list *l) {
  for (int64_t first = 0; first < rows; first += block) {
    tri_attention_slice s = tri_slice_full(0, rows, first, block < rows - first ? block : rows - first);
    s.from = (int32_t)(1 - window - first);
    s.to = (int32_t)-first;
    append(l, s);
  }
}

/* ---- calls on a list --------------------------------------------------------------------------------------------- */

typedef struct bench {
  tri_attention call;
  const list *list;
  bool by_heads; /* q, k and v of a head side by side in a row, else arrays of [heads, rows] */
  buffer inputs[3], gradients[3], out, log_sum_exp, gradient_out; /* q, k, v; by_heads: all in the first */
} bench;

static void *q_of(const buffer *b, const bench *x) {
  (void)x;
  return b[0].data;
}
static void *k_of(const buffer *b, tri_dtype type, const bench *x) {
  return x->by_heads ? at(type, b[0].data, x->call.head_dim) : b[1].data;
}
static void *v_of(const buffer *b, tri_dtype type, const bench *x) {
  return x->by_heads ? at(type, b[0].data, 2 * x->call.head_dim) : b[2].data;
}

static void lay_out(tri_attention *c, bool by_heads) {
  const int64_t D = c->head_dim;
  if (by_heads) {
    c->q_row = c->k_row = c->v_row = 3 * c->heads * D + GAP;
    c->q_head = c->k_head = c->v_head = 3 * D;
  } else {
    c->q_row = D + 1;
    c->k_row = D + 2;
    c->v_row = D;
    c->q_head = c->query_rows * c->q_row + GAP;
    c->k_head = c->key_rows * c->k_row;
    c->v_head = c->key_rows * c->v_row + 1;
  }
  c->out_head = D + 1;
  c->out_row = c->heads * c->out_head + GAP;
}

/* Returns the number of elements of the buffer of q, k or v. */
static size_t elements_of(const bench *x, int which) {
  const tri_attention *c = &x->call;
  if (x->by_heads) return which == 0 ? (size_t)(c->query_rows * c->q_row) : 0;
  const int64_t heads = which == 0 ? c->heads : c->kv_heads;
  return (size_t)(heads * (which == 0 ? c->q_head : which == 1 ? c->k_head : c->v_head));
}

static void fill_heads(const tri_attention *c, void *data, int64_t rows, int64_t row, int64_t heads, int64_t head,
                       uint64_t stream) {
  for (int64_t r = 0, i = 0; r < rows; r++)
    for (int64_t h = 0; h < heads; h++)
      for (int64_t d = 0; d < c->head_dim; d++, i++)
        number_set(c->type, data, r * row + h * head + d, random_number(stream, i, 1));
}

static bench bench_make(const list *l, tri_attention call, bool by_heads) {
  bench x = {.call = call, .list = l, .by_heads = by_heads};
  lay_out(&x.call, by_heads);
  const tri_attention *c = &x.call;
  for (int i = 0; i < 3; i++) x.inputs[i] = buffer_make(elements_of(&x, i) * tri_dtype_bytes(c->type));
  for (int i = 0; i < 3; i++) x.gradients[i] = buffer_make(elements_of(&x, i) * tri_dtype_bytes(c->gradient_type));
  x.out = buffer_make((size_t)(c->query_rows * c->out_row) * tri_dtype_bytes(c->out_type));
  x.gradient_out = buffer_make((size_t)(c->query_rows * c->out_row) * tri_dtype_bytes(c->type));
  x.log_sum_exp = buffer_make((size_t)(c->heads * c->query_rows) * tri_dtype_bytes(tri_dtype_wide(c->type)));
  fill_heads(c, q_of(x.inputs, &x), c->query_rows, c->q_row, c->heads, c->q_head, 1);
  fill_heads(c, k_of(x.inputs, c->type, &x), c->key_rows, c->k_row, c->kv_heads, c->k_head, 2);
  fill_heads(c, v_of(x.inputs, c->type, &x), c->key_rows, c->v_row, c->kv_heads, c->v_head, 3);
  fill_heads(c, x.gradient_out.data, c->query_rows, c->out_row, c->heads, c->out_head, 4);
  return x;
}

static void bench_free(bench *x) {
  for (int i = 0; i < 3; i++) buffer_free(&x->inputs[i]);
  for (int i = 0; i < 3; i++) buffer_free(&x->gradients[i]);
  buffer_free(&x->out);
  buffer_free(&x->log_sum_exp);
  buffer_free(&x->gradient_out);
}

static buffer workspace_for(tri_device *device, const tri_attention *call) {
  size_t bytes = 0;
  CHECK_OK(device->description.attention_workspace(&device->description, call, &bytes));
  return buffer_make(bytes);
}

/* Runs the forward in `calls` calls; each call merges the results of the previous ones. */
static void run_forward(tri_device *device, const bench *x, int calls) {
  for (int i = 0; i < calls; i++) {
    tri_attention call = x->call;
    const int first = x->list->count * i / calls, end = x->list->count * (i + 1) / calls;
    call.num_slices = end - first;
    call.merge = i > 0;
    buffer workspace = workspace_for(device, &call);
    CHECK_OK(device->kernels->attention_forward(device->queue, &call, x->list->slices + first, q_of(x->inputs, x),
                                                k_of(x->inputs, call.type, x), v_of(x->inputs, call.type, x),
                                                x->out.data, x->log_sum_exp.data, workspace.data));
    buffer_free(&workspace);
  }
}

static void run_backward(tri_device *device, const bench *x, int calls) {
  for (int i = 0; i < calls; i++) {
    tri_attention call = x->call;
    const int first = x->list->count * i / calls, end = x->list->count * (i + 1) / calls;
    const tri_dtype type = call.gradient_type;
    call.num_slices = end - first;
    call.merge = calls > 1;
    call.accumulate = x->call.accumulate || i > 0;
    buffer workspace = workspace_for(device, &call);
    CHECK_OK(device->kernels->attention_backward(
        device->queue, &call, x->list->slices + first, q_of(x->inputs, x), k_of(x->inputs, call.type, x),
        v_of(x->inputs, call.type, x), x->out.data, x->log_sum_exp.data, x->gradient_out.data, q_of(x->gradients, x),
        k_of(x->gradients, type, x), v_of(x->gradients, type, x), workspace.data));
    buffer_free(&workspace);
  }
}

/* ---- the oracle -------------------------------------------------------------------------------------------------- */

/* Results, dense and in double: [heads, rows, D], and [heads, rows] of log_sum_exp. */
typedef struct answer {
  int64_t count[PARTS];
  double *values[PARTS];
} answer;

static answer answer_make(const tri_attention *c) {
  const int64_t q = c->heads * c->query_rows * c->head_dim, k = c->kv_heads * c->key_rows * c->head_dim;
  answer a = {.count = {q, c->heads * c->query_rows, q, k, k}};
  for (int i = 0; i < PARTS; i++) {
    a.values[i] = calloc((size_t)a.count[i] + 1, sizeof(double));
    assert_non_null(a.values[i]);
  }
  return a;
}

static void answer_free(answer *a) {
  for (int i = 0; i < PARTS; i++) free(a->values[i]);
}

static void dense(double *to, tri_dtype type, const void *from, int64_t heads, int64_t head, int64_t rows, int64_t row,
                  int64_t width) {
  for (int64_t h = 0; h < heads; h++)
    for (int64_t r = 0; r < rows; r++)
      for (int64_t d = 0; d < width; d++) *to++ = number_get(type, from, h * head + r * row + d);
}

typedef struct inputs {
  double *q, *k, *v, *g;
} inputs;

/* Computes one query of one head. */
static void oracle_row(const bench *x, const inputs *in, int64_t h, int64_t row, answer *a) {
  const tri_attention *c = &x->call;
  const int64_t D = c->head_dim, g = h / (c->heads / c->kv_heads), at = (h * c->query_rows + row) * D;
  double p[MOST_ROWS] = {0}, dp[MOST_ROWS] = {0}, slope[MOST_ROWS] = {0}, most = -INFINITY, sum = 0, mean = 0;
  for (int64_t j = 0; j < c->key_rows; j++) {
    if (!x->list->sees[row][j]) continue;
    for (int64_t d = 0; d < D; d++) p[j] += in->q[at + d] * in->k[(g * c->key_rows + j) * D + d] * c->scale;
    slope[j] = c->soft_cap > 0 ? c->scale / pow(cosh(p[j] / c->soft_cap), 2) : c->scale;
    if (c->soft_cap > 0) p[j] = c->soft_cap * tanh(p[j] / c->soft_cap);
    most = fmax(most, p[j]);
  }
  for (int64_t j = 0; j < c->key_rows; j++) sum += p[j] = x->list->sees[row][j] ? exp(p[j] - most) : 0;
  a->values[LOG_SUM_EXP][h * c->query_rows + row] = sum > 0 ? most + log(sum) : -INFINITY;
  if (sum == 0) return;
  for (int64_t j = 0; j < c->key_rows; j++) {
    const int64_t key = (g * c->key_rows + j) * D;
    p[j] /= sum;
    for (int64_t d = 0; d < D; d++) {
      a->values[OUT][at + d] += p[j] * in->v[key + d];
      a->values[GRADIENT_V][key + d] += p[j] * in->g[at + d];
      dp[j] += in->g[at + d] * in->v[key + d];
    }
    mean += p[j] * dp[j];
  }
  for (int64_t j = 0; j < c->key_rows; j++) {
    const int64_t key = (g * c->key_rows + j) * D;
    for (int64_t d = 0; d < D; d++) {
      a->values[GRADIENT_Q][at + d] += p[j] * (dp[j] - mean) * slope[j] * in->k[key + d];
      a->values[GRADIENT_K][key + d] += p[j] * (dp[j] - mean) * slope[j] * in->q[at + d];
    }
  }
}

static answer oracle(const bench *x) {
  const tri_attention *c = &x->call;
  answer a = answer_make(c), of = answer_make(c);
  inputs in = {of.values[GRADIENT_Q], of.values[GRADIENT_K], of.values[GRADIENT_V], of.values[OUT]};
  dense(in.q, c->type, q_of(x->inputs, x), c->heads, c->q_head, c->query_rows, c->q_row, c->head_dim);
  dense(in.k, c->type, k_of(x->inputs, c->type, x), c->kv_heads, c->k_head, c->key_rows, c->k_row, c->head_dim);
  dense(in.v, c->type, v_of(x->inputs, c->type, x), c->kv_heads, c->v_head, c->key_rows, c->v_row, c->head_dim);
  dense(in.g, c->type, x->gradient_out.data, c->heads, c->out_head, c->query_rows, c->out_row, c->head_dim);
  for (int64_t h = 0; h < c->heads; h++)
    for (int64_t row = 0; row < c->query_rows; row++) oracle_row(x, &in, h, row, &a);
  answer_free(&of);
  return a;
}

static answer found(const bench *x) {
  const tri_attention *c = &x->call;
  const tri_dtype type = c->gradient_type;
  answer a = answer_make(c);
  dense(a.values[OUT], c->out_type, x->out.data, c->heads, c->out_head, c->query_rows, c->out_row, c->head_dim);
  dense(a.values[LOG_SUM_EXP], tri_dtype_wide(c->type), x->log_sum_exp.data, c->heads, c->query_rows, c->query_rows, 1,
        1);
  dense(a.values[GRADIENT_Q], type, q_of(x->gradients, x), c->heads, c->q_head, c->query_rows, c->q_row, c->head_dim);
  dense(a.values[GRADIENT_K], type, k_of(x->gradients, type, x), c->kv_heads, c->k_head, c->key_rows, c->k_row,
        c->head_dim);
  dense(a.values[GRADIENT_V], type, v_of(x->gradients, type, x), c->kv_heads, c->v_head, c->key_rows, c->v_row,
        c->head_dim);
  return a;
}

static void compare(const char *what, const bench *x, const answer *got, const answer *expected, double tolerance) {
  for (part of = OUT; of < PARTS; of++) {
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < got->count[of]; i++) {
      double a = got->values[of][i], b = expected->values[of][i];
      if (b == -INFINITY || (b == 0 && of == OUT)) { /* sees nothing */
        if (a != b) fail_msg("%s: %s %d is %.3g, not %.3g", what, part_names[of], (int)i, a, b);
        continue;
      }
      difference += (a - b) * (a - b);
      norm += b * b;
    }
    double limit = tolerance * (sqrt(norm) + 0.1 * sqrt((double)got->count[of]));
    if (!(sqrt(difference) <= limit)) {
      fail_msg("%s, %s: %s is off by %.3g of %.3g with %d slices, %d x %d, H %d/%d, D %d, cap %g", what,
               tri_dtype_name(x->call.type), part_names[of], sqrt(difference), sqrt(norm), x->list->count,
               (int)x->call.query_rows, (int)x->call.key_rows, (int)x->call.heads, (int)x->call.kv_heads,
               (int)x->call.head_dim, x->call.soft_cap);
    }
  }
}

/* ---- between the heads ------------------------------------------------------------------------------------------- */

static void mark(bool *owned, int64_t heads, int64_t head, int64_t rows, int64_t row, int64_t first, int64_t width) {
  for (int64_t h = 0; h < heads; h++)
    for (int64_t r = 0; r < rows; r++)
      for (int64_t d = 0; d < width; d++) owned[first + h * head + r * row + d] = true;
}

static void check_poison(const buffer *b, tri_dtype type, const bool *owned) {
  const unsigned char *data = b->data;
  for (size_t i = 0; i < b->bytes; i++)
    if (!owned[i / tri_dtype_bytes(type)] && data[i] != POISON) fail_msg("wrote between the heads, at byte %zu", i);
}

static void check_gaps(const bench *x) {
  const tri_attention *c = &x->call;
  static bool owned[1 << 20];
  for (int which = 0; which < (x->by_heads ? 1 : 3); which++) {
    memset(owned, 0, sizeof owned);
    if (x->by_heads || which == 0) mark(owned, c->heads, c->q_head, c->query_rows, c->q_row, 0, c->head_dim);
    if (x->by_heads) mark(owned, c->heads, c->q_head, c->query_rows, c->q_row, c->head_dim, 2 * c->head_dim);
    if (which == 1) mark(owned, c->kv_heads, c->k_head, c->key_rows, c->k_row, 0, c->head_dim);
    if (which == 2) mark(owned, c->kv_heads, c->v_head, c->key_rows, c->v_row, 0, c->head_dim);
    check_poison(&x->gradients[which], c->gradient_type, owned);
  }
  memset(owned, 0, sizeof owned);
  mark(owned, c->heads, c->out_head, c->query_rows, c->out_row, 0, c->head_dim);
  check_poison(&x->out, c->out_type, owned);
}

/* ---- one list on one device -------------------------------------------------------------------------------------- */

static double tolerance_of(tri_dtype type) { return type == TRI_FP64 ? 1e-12 : type == TRI_FP32 ? 3e-6 : 1e-2; }

/* Sets the gradients to 1 before the call, which adds to them. */
static void fill_gradients(bench *x) {
  for (int i = 0; i < 3; i++)
    for (size_t e = 0; e < x->gradients[i].bytes / tri_dtype_bytes(x->call.gradient_type); e++)
      number_set(x->call.gradient_type, x->gradients[i].data, (int64_t)e, 1.0);
}

static void check_accumulated(const char *what, const list *l, const bench *like, tri_device *device,
                              const answer *expected) {
  bench x = bench_make(l, like->call, like->by_heads);
  x.call.accumulate = true;
  run_forward(device, &x, 1);
  fill_gradients(&x);
  run_backward(device, &x, 1);
  answer got = found(&x);
  for (part of = GRADIENT_Q; of < PARTS; of++)
    for (int64_t i = 0; i < got.count[of]; i++) got.values[of][i] -= 1.0;
  compare(what, &x, &got, expected, 2 * tolerance_of(x.call.type));
  answer_free(&got);
  bench_free(&x);
}

static void check_merged(const char *what, const list *l, const bench *like, tri_device *device,
                         const answer *expected) {
  for (int calls = 2; calls <= 3 && calls <= l->count; calls++) {
    tri_attention call = like->call;
    call.out_type = call.gradient_type = tri_dtype_wide(call.type);
    bench x = bench_make(l, call, like->by_heads);
    run_forward(device, &x, calls);
    run_backward(device, &x, calls);
    answer got = found(&x);
    compare(what, &x, &got, expected, tolerance_of(x.call.type));
    check_gaps(&x);
    answer_free(&got);
    bench_free(&x);
  }
}

static void check_list(tri_device *device, const list *l, tri_attention call, bool by_heads) {
  bench first = {0};
  answer expected = {0};
  char what[128];
  for (int threads = 1; threads <= 3; threads++) {
    bench x = bench_make(l, call, by_heads);
    device->description.threads = threads;
    snprintf(what, sizeof what, "%s, %d threads", device->info.name, threads);
    if (threads == 1) expected = oracle(&x);
    run_forward(device, &x, 1);
    run_backward(device, &x, 1);
    answer got = found(&x);
    compare(what, &x, &got, &expected, tolerance_of(call.type));
    check_gaps(&x);
    answer_free(&got);
    check_accumulated("accumulated", l, &x, device, &expected);
    check_merged("merged", l, &x, device, &expected);
    if (threads == 1) {
      first = x;
      continue;
    }
    assert_memory_equal(x.out.data, first.out.data, x.out.bytes);
    assert_memory_equal(x.log_sum_exp.data, first.log_sum_exp.data, x.log_sum_exp.bytes);
    for (int i = 0; i < 3; i++) assert_memory_equal(x.gradients[i].data, first.gradients[i].data, x.gradients[i].bytes);
    bench_free(&x);
  }
  answer_free(&expected);
  bench_free(&first);
}

static tri_attention call_of(tri_dtype type, int64_t query_rows, int64_t key_rows, int64_t heads, int64_t kv_heads,
                             int64_t head_dim, bool shared) {
  return (tri_attention){.type = type,
                         .out_type = type,
                         .gradient_type = type,
                         .heads = heads,
                         .kv_heads = kv_heads,
                         .head_dim = head_dim,
                         .scale = 1 / sqrt((double)head_dim),
                         .query_rows = query_rows,
                         .key_rows = key_rows,
                         .most_queries = query_rows,
                         .most_keys = key_rows,
                         .shares_queries = shared,
                         .shares_keys = shared};
}

/* Sets a scale that is not the default, and a cap that some scores exceed and others are far below. */
static void cap_scores(tri_attention *call, int i) {
  call->scale *= i % 2 == 0 ? 1.7 : 0.6;
  call->soft_cap = i % 4 == 1 ? 0.8 : 4;
}

/* Two chunks of a sequence against all keys so far: they share the keys, but not the queries. */
static void check_zig_zag(tri_device *device, tri_dtype type) {
  static list l;
  memset(&l, 0, sizeof l);
  append(&l, tri_slice_causal(0, 35, 0, 70));
  append(&l, tri_slice_causal(35, 31, 0, 131));
  tri_attention call = call_of(type, 66, 140, 4, 2, 12, false);
  call.shares_keys = true;
  check_list(device, &l, call, false);
}

/* Windows of one key, around the edges of tiles, and as long as the sequence or longer: over keys of their own, after
 * keys of a cache, over keys in blocks. */
static void check_windows(tri_device *device, tri_dtype type) {
  static const int64_t windows[] = {1, 2, 5, 37, 64, 65, 129, 190, 300};
  static list l;
  for (size_t i = 0; i < sizeof windows / sizeof *windows; i += 1 + SANITIZED) {
    memset(&l, 0, sizeof l);
    append(&l, tri_slice_window(3, 140, 1, 140, windows[i]));
    append(&l, tri_slice_window(143, 20, 141, 50, windows[i]));
    append(&l, tri_slice_window(163, 27, 191, 9, windows[i])); /* more queries than keys */
    check_list(device, &l, call_of(type, 200, 200, 2, 1, 24, false), false);
    memset(&l, 0, sizeof l);
    make_blocks(190, windows[i], 70, &l);
    check_list(device, &l, call_of(type, 190, 190, 2, 2, 16, true), true);
  }
}

static void check_device(const char *name, const tri_dtype *types, int num_types) {
  static list l;
  tri_device *device = NULL;
  if (tri_device_create(name, 1, &device) != TRI_OK) {
    print_message("SKIPPED: %s\n", tri_status_message());
    skip();
  }
  for (int t = 0; t < num_types; t++) {
    for (int i = 0; i < (SANITIZED ? 8 : 16); i++) {
      dice d = {.seed = 5, .stream = (uint64_t)i};
      const bool by_heads = i % 2 == 0, shared = i % 4 >= 2;
      const int64_t query_rows = 1 + roll(&d, MOST_ROWS), key_rows = by_heads ? query_rows : 1 + roll(&d, MOST_ROWS);
      const int64_t kv_heads = 1 + roll(&d, 2), heads = by_heads ? kv_heads : kv_heads * (1 + roll(&d, 3));
      memset(&l, 0, sizeof l);
      if (shared) make_shared(&d, query_rows, key_rows, &l);
      if (!shared) make_apart(&d, query_rows, key_rows, &l);
      tri_attention call = call_of(types[t], query_rows, key_rows, heads, kv_heads, 1 + roll(&d, 40), shared);
      if (i % 3 == 1) cap_scores(&call, i);
      check_list(device, &l, call, by_heads);
    }
    memset(&l, 0, sizeof l);
    make_window(20, 5, &l);
    tri_attention window = call_of(types[t], 20, 20, 2, 2, 16, false);
    window.shares_keys = true;
    check_list(device, &l, window, true);
    cap_scores(&window, 1);
    check_list(device, &l, window, true);
    check_zig_zag(device, types[t]);
    check_windows(device, types[t]);
    memset(&l, 0, sizeof l); /* no query sees a key */
    check_list(device, &l, call_of(types[t], 9, 9, 2, 2, 16, false), true);
    check_list(device, &l, call_of(types[t], 9, 9, 2, 2, 16, true), true);
  }
  tri_device_destroy(device);
}

static void test_reference(void **state) {
  (void)state;
  check_device("reference", (const tri_dtype[]){TRI_FP64, TRI_FP32, TRI_BF16}, 3);
}

static void check_unit(const char *name) { check_device(name, (const tri_dtype[]){TRI_FP32, TRI_BF16}, 2); }

VECTOR_UNIT_TESTS(check_unit)

/* A window that holds all keys has no effect, and a band that has one key of its own is a list of single pairs, to the
 * bit.
 */
static void test_windows_without_effect(void **state) {
  (void)state;
  static list windows, causal;
  const char *const devices[] = {"cpu", "reference"};
  for (int d = 0; d < 2; d++) {
    tri_device *device = NULL;
    CHECK_OK(tri_device_create(devices[d], 2, &device));
    memset(&windows, 0, sizeof windows);
    memset(&causal, 0, sizeof causal);
    append(&windows, tri_slice_window(0, 150, 0, 150, 150));
    append(&causal, tri_slice_causal(0, 150, 0, 150));
    windows.slices[0].from = -149; /* a limit that the helper omits, since no query sees that far */
    bench x = bench_make(&windows, call_of(TRI_FP32, 150, 150, 2, 1, 8, false), false);
    bench y = bench_make(&causal, x.call, false);
    run_forward(device, &x, 1);
    run_forward(device, &y, 1);
    run_backward(device, &x, 1);
    run_backward(device, &y, 1);
    assert_memory_equal(x.out.data, y.out.data, x.out.bytes);
    assert_memory_equal(x.log_sum_exp.data, y.log_sum_exp.data, x.log_sum_exp.bytes);
    for (int i = 0; i < 3; i++) assert_memory_equal(x.gradients[i].data, y.gradients[i].data, x.gradients[i].bytes);
    bench_free(&x);
    bench_free(&y);
    tri_device_destroy(device);
  }
}

/* A query that sees one key gives it all: its output is the value, and no score has a gradient. */
static void test_window_of_one(void **state) {
  (void)state;
  static list l;
  tri_device *device = NULL;
  CHECK_OK(tri_device_create("cpu", 2, &device));
  memset(&l, 0, sizeof l);
  append(&l, tri_slice_window(0, 150, 0, 150, 1));
  bench x = bench_make(&l, call_of(TRI_FP32, 150, 150, 2, 2, 8, false), false);
  run_forward(device, &x, 1);
  run_backward(device, &x, 1);
  answer got = found(&x);
  for (int64_t i = 0; i < got.count[GRADIENT_Q]; i++) {
    assert_true(got.values[GRADIENT_Q][i] == 0 && got.values[GRADIENT_K][i] == 0);
    assert_true(fabs(got.values[GRADIENT_V][i] - random_number(4, i / 8 % 150 * 16 + i / 1200 * 8 + i % 8, 1)) < 1e-6);
  }
  answer_free(&got);
  bench_free(&x);
  tri_device_destroy(device);
}

/* Results of earlier calls do not change, to the bit, for a query that is in no slice of this call. */
static void test_merge_leaves_others_alone(void **state) {
  (void)state;
  static list whole, some;
  append(&whole, tri_slice_causal(0, 100, 0, 100));
  append(&some, tri_slice_full(20, 30, 100, 10));
  for (int shared = 0; shared < 2; shared++) {
    tri_device *device = NULL;
    CHECK_OK(tri_device_create("cpu", 2, &device));
    bench x = bench_make(&whole, call_of(TRI_FP32, 110, 110, 2, 1, 8, shared == 1), false);
    run_forward(device, &x, 1);
    unsigned char *out = malloc(x.out.bytes), *log_sum_exp = malloc(x.log_sum_exp.bytes);
    memcpy(out, x.out.data, x.out.bytes);
    memcpy(log_sum_exp, x.log_sum_exp.data, x.log_sum_exp.bytes);
    tri_attention call = x.call;
    call.num_slices = 1;
    call.merge = true;
    buffer workspace = workspace_for(device, &call);
    CHECK_OK(device->kernels->attention_forward(device->queue, &call, some.slices, x.inputs[0].data, x.inputs[1].data,
                                                x.inputs[2].data, x.out.data, x.log_sum_exp.data, workspace.data));
    for (int64_t row = 0; row < 110; row++) {
      for (int64_t h = 0; h < 2; h++) {
        size_t at_out = (size_t)(row * call.out_row + h * call.out_head) * 4, at_sum = (size_t)(h * 110 + row) * 4;
        bool same = memcmp(out + at_out, (char *)x.out.data + at_out, 8 * 4) == 0 &&
                    memcmp(log_sum_exp + at_sum, (char *)x.log_sum_exp.data + at_sum, 4) == 0;
        if (same != (row < 20 || row >= 50)) fail_msg("row %d, shared %d: same %d", (int)row, shared, same);
      }
    }
    free(out);
    free(log_sum_exp);
    buffer_free(&workspace);
    bench_free(&x);
    tri_device_destroy(device);
  }
}

/* A workspace can serve fewer slices than it was planned for, although the algorithm of the backward and its memory
 * depend on their number. */
static void test_workspace_serves_fewer(void **state) {
  (void)state;
  static const char *const devices[] = {"cpu", "reference", "emulated"};
  int falls = 0;
  for (int k = 0; k < 3; k++) {
    for (int threads = 1; threads <= (k == 0 ? 6 : 1); threads++) {
      tri_device *device = NULL;
      size_t before = 0, bytes = 0;
      tri_attention call = {
          .type = TRI_FP32, .out_type = TRI_FP32, .gradient_type = TRI_FP32, .heads = 2, .kv_heads = 1};
      call.head_dim = call.q_row = call.k_row = call.v_row = call.out_row = 8;
      call.scale = 1;
      call.query_rows = call.key_rows = call.most_queries = call.most_keys = 900;
      CHECK_OK(tri_device_create(devices[k], threads, &device));
      for (call.num_slices = 1; call.num_slices <= 40; call.num_slices++) {
        CHECK_OK(device->description.attention_workspace(&device->description, &call, &bytes));
        falls += bytes < before;
        before = bytes;
      }
      tri_device_destroy(device);
    }
  }
  assert_int_equal(falls, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_workspace_serves_fewer),
      cmocka_unit_test(test_reference),
      VECTOR_UNIT_ENTRIES,
      cmocka_unit_test(test_windows_without_effect),
      cmocka_unit_test(test_window_of_one),
      cmocka_unit_test(test_merge_leaves_others_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
