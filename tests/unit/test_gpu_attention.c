/* Attention by the GPU's own kernels, on the emulator, compared with the reference: lists of slices of every kind, full
 * and causal, shared and not, grouped queries, any head size, calls that are merged, gradients that accumulate; layouts
 * with and without alignment to 16 bytes. Elements between heads and around the arrays must not change. Warps of 32 and
 * of 64 each give the same bits in every order of threads. */
#include "device/reference/reference.h"
#include "gpu_array.h"
#include "slice_lists.h"

enum { GAP = 3 };

/* ---- lists ------------------------------------------------------------------------------------------------------- */

/* Makes documents of any length, with rows between them that belong to none, and slices without effect. */
static void make_apart(dice *d, int64_t query_rows, int64_t key_rows, list *l) {
  int64_t query = 0, key = 0;
  for (int tries = 0; tries < 60 && query < query_rows && key < key_rows && l->count < MOST_SLICES; tries++) {
    if (roll(d, 3) == 0) query += roll(d, 5);
    if (roll(d, 3) == 0) key += roll(d, 5);
    const int64_t queries = roll(d, 2) == 0 ? roll(d, 4) : roll(d, 150);
    const int64_t keys = roll(d, 3) > 0 ? queries : roll(d, 150);
    if (query + queries > query_rows || key + keys > key_rows) continue;
    append(l, draw_slice(d, query, queries, key, keys));
    query += queries;
    key += keys;
  }
}

static void make_shared(dice *d, int64_t query_rows, int64_t key_rows, list *l) {
  for (int i = 0; i < 3 * MOST_SLICES; i++) {
    const int64_t query = roll(d, query_rows), key = roll(d, key_rows);
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

/* Layout of q, k and v: heads adjacent in rows of multiples of 16 bytes; with gaps that are not such multiples; or
 * [heads, rows]. */
typedef enum layout { LAYOUT_ALIGNED, LAYOUT_GAPS, LAYOUT_HEADS, LAYOUTS } layout;

typedef enum array { Q, K, V, OUT, LOG_SUM_EXP, GRADIENT_OUT, GRADIENT_Q, GRADIENT_K, GRADIENT_V, ARRAYS } array;
static const char *const array_names[ARRAYS] = {
    "q", "k", "v", "out", "log_sum_exp", "gradient of out", "gradient of q", "gradient of k", "gradient of v"};

typedef struct attention_case {
  tri_attention call;
  const list *list;
  int calls;          /* calls that the list is split into; all but the first merge */
  bool accumulate;    /* adds to gradients that are not 0 */
  size_t shift;       /* offset of addresses, in elements */
  bool forward_alone; /* without log_sum_exp */
} attention_case;

static void lay_out(tri_attention *c, layout how) {
  const int64_t D = c->head_dim, even = (D + 7) / 8 * 8;
  const int64_t head = how == LAYOUT_ALIGNED ? even : D + 1, gap = how == LAYOUT_ALIGNED ? 8 : GAP;
  c->q_head = c->k_head = c->v_head = c->out_head = head;
  c->q_row = c->out_row = c->heads * head + gap;
  c->k_row = c->v_row = c->kv_heads * head + gap;
  if (how != LAYOUT_HEADS) return;
  c->q_row = D + 1;
  c->k_row = D + 2;
  c->v_row = D;
  c->q_head = c->query_rows * c->q_row + GAP;
  c->k_head = c->key_rows * c->k_row;
  c->v_head = c->key_rows * c->v_row + 1;
}

/* Shape of one of the arrays: rows of heads. */
typedef struct form {
  tri_dtype type;
  int64_t rows, heads, row, head, width;
} form;

static form form_of(const tri_attention *c, array which) {
  const tri_dtype of_k = which == K || which == V ? c->type : c->gradient_type;
  switch (which) {
    case Q: return (form){c->type, c->query_rows, c->heads, c->q_row, c->q_head, c->head_dim};
    case GRADIENT_Q: return (form){c->gradient_type, c->query_rows, c->heads, c->q_row, c->q_head, c->head_dim};
    case K:
    case GRADIENT_K: return (form){of_k, c->key_rows, c->kv_heads, c->k_row, c->k_head, c->head_dim};
    case V:
    case GRADIENT_V: return (form){of_k, c->key_rows, c->kv_heads, c->v_row, c->v_head, c->head_dim};
    case OUT: return (form){c->out_type, c->query_rows, c->heads, c->out_row, c->out_head, c->head_dim};
    case GRADIENT_OUT: return (form){c->type, c->query_rows, c->heads, c->out_row, c->out_head, c->head_dim};
    case LOG_SUM_EXP: return (form){tri_dtype_wide(c->type), c->query_rows, c->heads, 1, c->query_rows, 1};
    case ARRAYS: break;
  }
  return (form){0};
}

typedef struct bench {
  tri_device *device;
  attention_case of;
  gpu_array arrays[ARRAYS], slices, workspace;
} bench;

static gpu_array make(tri_device *device, const attention_case *of, array which) {
  const form f = form_of(&of->call, which);
  const bool input = which < OUT || which == GRADIENT_OUT;
  const bool there = input || (of->accumulate && which >= GRADIENT_Q);
  const size_t bytes = tri_dtype_bytes(f.type);
  const int64_t elements = f.rows == 0 ? 0 : (f.rows - 1) * f.row + (f.heads - 1) * f.head + f.width;
  gpu_array x = array_make(device, (size_t)elements * bytes, of->shift * bytes, !input);
  for (int64_t h = 0; h < f.heads && there; h++)
    for (int64_t r = 0; r < f.rows; r++)
      for (int64_t d = 0; d < f.width; d++)
        gpu_store_random(f.type, array_host(&x), h * f.head + r * f.row + d, (uint64_t)which + 1);
  array_upload(&x);
  return x;
}

static bench bench_make(tri_device *device, const attention_case *of) {
  bench x = {.device = device, .of = *of};
  size_t workspace = 0;
  for (array i = Q; i < ARRAYS; i++) x.arrays[i] = make(device, of, i);
  x.slices = array_make(device, (size_t)of->list->count * sizeof(tri_attention_slice), 0, false);
  memcpy(array_host(&x.slices), of->list->slices, x.slices.bytes);
  array_upload(&x.slices);
  CHECK_OK(device->description.attention_workspace(&device->description, &of->call, &workspace));
  x.workspace = array_make(device, workspace, 0, false);
  array_upload(&x.workspace);
  return x;
}

static void bench_free(bench *x) {
  for (array i = Q; i < ARRAYS; i++) array_free(&x->arrays[i]);
  array_free(&x->slices);
  array_free(&x->workspace);
}

/* Returns call i of the list's calls. */
static tri_attention call_of_part(const attention_case *of, int i, int *first) {
  tri_attention call = of->call;
  *first = of->list->count * i / of->calls;
  call.num_slices = of->list->count * (i + 1) / of->calls - *first;
  return call;
}

static void run(const bench *x, bool backward) {
  void *at[ARRAYS];
  for (array i = Q; i < ARRAYS; i++) at[i] = array_device(&x->arrays[i]);
  for (int i = 0; i < x->of.calls; i++) {
    int first = 0;
    tri_attention call = call_of_part(&x->of, i, &first);
    const tri_attention_slice *slices = (const tri_attention_slice *)array_device(&x->slices) + first;
    call.merge = backward ? x->of.calls > 1 : i > 0;
    call.accumulate = x->of.accumulate || i > 0;
    if (backward) {
      CHECK_OK(x->device->kernels->attention_backward(x->device->queue, &call, slices, at[Q], at[K], at[V], at[OUT],
                                                      at[LOG_SUM_EXP], at[GRADIENT_OUT], at[GRADIENT_Q], at[GRADIENT_K],
                                                      at[GRADIENT_V], array_device(&x->workspace)));
    } else {
      CHECK_OK(x->device->kernels->attention_forward(x->device->queue, &call, slices, at[Q], at[K], at[V], at[OUT],
                                                     x->of.forward_alone ? NULL : at[LOG_SUM_EXP],
                                                     array_device(&x->workspace)));
    }
  }
}

/* Runs the reference on copies of the images. */
static void run_reference(const bench *x, char *at[ARRAYS]) {
  size_t bytes = 0;
  CHECK_OK(tri_reference_attention_workspace(NULL, &x->of.call, &bytes));
  void *workspace = malloc(bytes + 1);
  for (array i = Q; i < ARRAYS; i++) {
    at[i] = malloc(x->arrays[i].bytes + 1);
    memcpy(at[i], array_host(&x->arrays[i]), x->arrays[i].bytes);
  }
  for (int backward = 0; backward < (x->of.forward_alone ? 1 : 2); backward++) {
    for (int i = 0; i < x->of.calls; i++) {
      int first = 0;
      tri_attention call = call_of_part(&x->of, i, &first);
      const tri_attention_slice *slices = x->of.list->slices + first;
      call.merge = backward == 1 ? x->of.calls > 1 : i > 0;
      call.accumulate = x->of.accumulate || i > 0;
      if (backward == 0) {
        CHECK_OK(tri_reference_attention_forward(NULL, &call, slices, at[Q], at[K], at[V], at[OUT],
                                                 x->of.forward_alone ? NULL : at[LOG_SUM_EXP], workspace));
      } else {
        CHECK_OK(tri_reference_attention_backward(NULL, &call, slices, at[Q], at[K], at[V], at[OUT], at[LOG_SUM_EXP],
                                                  at[GRADIENT_OUT], at[GRADIENT_Q], at[GRADIENT_K], at[GRADIENT_V],
                                                  workspace));
      }
    }
  }
  free(workspace);
}

/* ---- comparison -------------------------------------------------------------------------------------------------- */

static double tolerance_of(tri_dtype type) { return type == TRI_FP64 ? 1e-12 : type == TRI_FP32 ? 1e-5 : 1e-2; }

static const char *describe(const char *device, const attention_case *of, char text[256]) {
  const tri_attention *c = &of->call;
  snprintf(text, 256, "%s: %s, %d slices in %d calls, %d x %d, H %d/%d, D %d, rows of %d %d %d, off by %zu%s", device,
           tri_dtype_name(c->type), of->list->count, of->calls, (int)c->query_rows, (int)c->key_rows, (int)c->heads,
           (int)c->kv_heads, (int)c->head_dim, (int)c->q_row, (int)c->k_row, (int)c->v_row, of->shift,
           of->accumulate ? ", accumulates" : "");
  return text;
}

/* Returns whether the reference has not written these bytes, so that they must not change. */
static bool untouched(const char *expected, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    if ((unsigned char)expected[i] != ARRAY_POISON) return false;
  return true;
}

static void compare(const char *what, const bench *x, array which, const char *expected) {
  const form f = form_of(&x->of.call, which);
  const size_t bytes = tri_dtype_bytes(f.type);
  const char *got = array_host(&x->arrays[which]);
  const int64_t count = (int64_t)(x->arrays[which].bytes / bytes);
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < count; i++) {
    const double a = gpu_load(f.type, got, i), b = gpu_load(f.type, expected, i);
    if (untouched(expected + (size_t)i * bytes, bytes)) {
      if (memcmp(got + (size_t)i * bytes, expected + (size_t)i * bytes, bytes) != 0)
        fail_msg("%s: %s: wrote what is not its own, at %lld", what, array_names[which], (long long)i);
    } else if (b == -INFINITY || (b == 0 && which == OUT)) { /* sees nothing */
      if (a != b) fail_msg("%s: %s %lld is %.3g, not %.3g", what, array_names[which], (long long)i, a, b);
    } else {
      difference += (a - b) * (a - b);
      norm += b * b;
    }
  }
  const double limit = tolerance_of(x->of.call.type) * (sqrt(norm) + 0.1 * sqrt((double)count));
  if (!(sqrt(difference) <= limit))
    fail_msg("%s: %s is off by %.3g of %.3g", what, array_names[which], sqrt(difference), sqrt(norm));
}

static void download(const char *what, const bench *x) {
  for (array i = OUT; i < ARRAYS; i++) array_download(what, &x->arrays[i]);
}

/* Checks the case on the first `num_devices` devices. */
static void check(tri_device *const devices[GPU_TEST_DEVICES], const attention_case *of, int num_devices) {
  bench all[GPU_TEST_DEVICES];
  char *expected[ARRAYS], text[256];
  for (int i = 0; i < num_devices; i++) {
    const char *what = describe(gpu_test_devices[i], of, text);
    all[i] = bench_make(devices[i], of);
    if (i == 0) run_reference(&all[0], expected);
    run(&all[i], false);
    if (!of->forward_alone) run(&all[i], true);
    download(what, &all[i]);
    for (array a = OUT; a < ARRAYS; a++) {
      const gpu_array *like = &all[gpu_test_like(i)].arrays[a];
      compare(what, &all[i], a, expected[a]);
      if (memcmp(array_host(&all[i].arrays[a]), array_host(like), like->bytes) != 0)
        fail_msg("%s: other bits of %s", what, array_names[a]);
    }
  }
  for (array a = Q; a < ARRAYS; a++) free(expected[a]);
  for (int i = 0; i < num_devices; i++) bench_free(&all[i]);
}

/* ---- cases ------------------------------------------------------------------------------------------------------- */

static attention_case case_of(const list *l, tri_dtype type, int64_t query_rows, int64_t key_rows, int64_t heads,
                              int64_t kv_heads, int64_t head_dim, bool shared, layout how) {
  attention_case of = {.call = {.type = type,
                                .out_type = type,
                                .gradient_type = type,
                                .heads = heads,
                                .kv_heads = kv_heads,
                                .head_dim = head_dim,
                                .scale = 1 / sqrt((double)head_dim),
                                .query_rows = query_rows,
                                .key_rows = key_rows,
                                .num_slices = l->count,
                                .most_queries = query_rows,
                                .most_keys = key_rows,
                                .shares_queries = shared,
                                .shares_keys = shared},
                       .list = l,
                       .calls = 1};
  lay_out(&of.call, how);
  return of;
}

/* Returns the case split into several calls whose gradients accumulate; partial sums are stored in the wide type. */
static attention_case joined(attention_case of, int calls) {
  of.call.out_type = of.call.gradient_type = tri_dtype_wide(of.call.type);
  of.calls = calls;
  of.accumulate = true;
  return of;
}

/* Each type has its own random lists; longer ones follow below. */
static void check_random(tri_device *const *devices, tri_dtype type) {
  static list l;
  for (int i = 0; i < 6; i++) {
    dice d = {.seed = 6, .stream = (uint64_t)type * 100 + (uint64_t)i};
    const bool shared = i % 4 >= 2;
    const int64_t query_rows = 1 + roll(&d, 130), key_rows = 1 + roll(&d, 130);
    const int64_t kv_heads = 1 + roll(&d, 2), heads = kv_heads * (1 + roll(&d, 3));
    memset(&l, 0, sizeof l);
    if (shared) {
      make_shared(&d, query_rows, key_rows, &l);
    } else {
      make_apart(&d, query_rows, key_rows, &l);
    }
    attention_case of =
        case_of(&l, type, query_rows, key_rows, heads, kv_heads, 1 + roll(&d, 40), shared, (layout)(i % LAYOUTS));
    of.shift = i % 5 == 0 ? 1 : 0;
    if (i % 2 == 1) {
      of.call.scale *= 1.3;
      of.call.soft_cap = i == 3 ? 0.9 : 50;
    }
    check(devices, &of, i == 0 || i == 3 ? GPU_TEST_DEVICES : 2);
    of = joined(of, 2 + i % 2);
    if (i % 3 != 0) check(devices, &of, 2);
  }
}

static int set_up(void **state) {
  tri_device **devices = calloc(GPU_TEST_DEVICES, sizeof *devices);
  assert_non_null(devices);
  for (int i = 0; i < GPU_TEST_DEVICES; i++) CHECK_OK(tri_device_create(gpu_test_devices[i], 1, &devices[i]));
  *state = devices;
  return 0;
}

static int tear_down(void **state) {
  tri_device **devices = *state;
  for (int i = 0; i < GPU_TEST_DEVICES; i++) tri_device_destroy(devices[i]);
  free(devices);
  return 0;
}

static void test_fp64(void **state) { check_random(*state, TRI_FP64); }
static void test_fp32(void **state) { check_random(*state, TRI_FP32); }
static void test_bf16(void **state) { check_random(*state, TRI_BF16); }

static const tri_dtype all_types[] = {TRI_FP64, TRI_FP32, TRI_BF16};

/* Head sizes around the limits of the kernels' forms: rows of 128 bytes and of 256, and several of the latter. */
static void test_head_sizes(void **state) {
  static const int64_t sizes[3][7] = {
      {1, 15, 16, 17, 32, 33, 80}, {1, 31, 32, 33, 64, 65, 130}, {1, 63, 64, 65, 128, 129, 256}}; /* of all_types */
  static list l;
  memset(&l, 0, sizeof l);
  append(&l, tri_slice_causal(1, 40, 0, 40));
  append(&l, tri_slice_full(41, 30, 40, 33));
  for (int i = 0; i < 21; i++) {
    const int type = i % 3, size = i / 3;
    attention_case of = case_of(&l, all_types[type], 75, 80, 1, 1, sizes[type][size], false,
                                size % 2 == 0 ? LAYOUT_ALIGNED : LAYOUT_GAPS);
    check(*state, &of, 2);
    of = joined(of, 2);
    if (size == 3 || size == 6) check(*state, &of, 2);
  }
}

/* Long enough for tiles that all queries attend to, and for tiles with the causal border. */
static void test_long(void **state) {
  static list l;
  memset(&l, 0, sizeof l);
  append(&l, tri_slice_causal(0, 200, 0, 200));
  for (int i = 0; i < 3; i++) {
    attention_case of = case_of(&l, all_types[i], 200, 200, 1, 1, 24, false, LAYOUT_ALIGNED);
    check(*state, &of, 3);
  }
  memset(&l, 0, sizeof l);
  append(&l, tri_slice_causal(0, 30, 0, 190));
  append(&l, tri_slice_causal(64, 100, 0, 20)); /* most queries see no key */
  for (int i = 0; i < 3; i++) {
    attention_case of = case_of(&l, all_types[i], 190, 190, 1, 1, 24, true, LAYOUT_GAPS);
    check(*state, &of, 2);
  }
}

/* Windows of one key, around the edges of tiles, and longer than the sequence: over keys of their own, over keys in
 * blocks. */
static void test_windows(void **state) {
  static const int64_t windows[] = {1, 5, 64, 65, 150};
  static list l;
  for (int i = 0; i < 15; i++) {
    memset(&l, 0, sizeof l);
    append(&l, tri_slice_window(3, 140, 1, 140, windows[i % 5]));
    append(&l, tri_slice_window(143, 7, 141, 30, windows[i % 5]));
    attention_case of = case_of(&l, all_types[i / 5], 160, 171, 1, 1, 24, false, LAYOUT_ALIGNED);
    check(*state, &of, i % 5 == 1 ? GPU_TEST_DEVICES : 2);
    memset(&l, 0, sizeof l);
    make_blocks(100, windows[i % 5], 43, &l);
    of = case_of(&l, all_types[i / 5], 100, 100, 2, 1, 16, true, LAYOUT_GAPS);
    check(*state, &of, 2);
    of = joined(of, 3);
    check(*state, &of, 2);
  }
}

static void test_window_and_zig_zag(void **state) {
  static list l;
  for (int i = 0; i < 3; i++) {
    memset(&l, 0, sizeof l);
    make_window(20, 5, &l);
    attention_case of = case_of(&l, all_types[i], 20, 20, 2, 2, 16, false, LAYOUT_ALIGNED);
    of.call.shares_keys = true;
    check(*state, &of, 2);
    memset(&l, 0, sizeof l); /* two chunks of a sequence against all keys so far */
    append(&l, tri_slice_causal(0, 35, 0, 70));
    append(&l, tri_slice_causal(35, 31, 0, 131));
    of = case_of(&l, all_types[i], 66, 140, 4, 2, 12, false, LAYOUT_GAPS);
    of.call.shares_keys = true;
    check(*state, &of, 2);
  }
}

/* No slices, slices without effect, no rows; and a forward without a backward. */
static void test_nothing(void **state) {
  static list l;
  for (int i = 0; i < 3; i++) {
    memset(&l, 0, sizeof l);
    attention_case of = case_of(&l, all_types[i], 9, 9, 2, 2, 16, i == 1, LAYOUT_ALIGNED);
    check(*state, &of, 2);
    l.slices[0] = (tri_attention_slice){7, 0, 3, 2, 0, 0};
    l.slices[1] = (tri_attention_slice){2, 3, 3, 0, 0, 0};
    l.count = 2;
    of = case_of(&l, all_types[i], 9, 9, 2, 2, 16, i == 1, LAYOUT_GAPS);
    check(*state, &of, 2);
    of = case_of(&l, all_types[i], 0, 9, 2, 2, 16, i == 1, LAYOUT_GAPS);
    check(*state, &of, 1);
    append(&l, tri_slice_causal(0, 9, 0, 9));
    of = case_of(&l, all_types[i], 9, 9, 2, 1, 16, false, LAYOUT_GAPS);
    of.forward_alone = true;
    check(*state, &of, 2);
  }
}

/* Results of earlier calls do not change, to the bit, for a query that sees no key in this call. */
static void test_merge_leaves_others_alone(void **state) {
  tri_device *const *devices = *state;
  static list whole, some;
  memset(&whole, 0, sizeof whole);
  memset(&some, 0, sizeof some);
  append(&whole, tri_slice_causal(0, 100, 0, 100));
  append(&some, tri_slice_full(20, 30, 100, 10));
  append(&some, tri_slice_causal(60, 10, 100, 5)); /* the last 5 see something */
  for (int i = 0; i < 2; i++) {
    attention_case of = case_of(&whole, TRI_FP32, 110, 110, 2, 1, 8, true, LAYOUT_GAPS);
    bench x = bench_make(devices[i], &of);
    run(&x, false);
    array_download("before", &x.arrays[OUT]);
    unsigned char *before = malloc(x.arrays[OUT].bytes);
    memcpy(before, array_host(&x.arrays[OUT]), x.arrays[OUT].bytes);
    array_free(&x.slices);
    x.slices = array_make(devices[i], sizeof some.slices, 0, false);
    memcpy(array_host(&x.slices), some.slices, sizeof some.slices);
    array_upload(&x.slices);
    tri_attention call = of.call;
    call.num_slices = some.count;
    call.merge = true;
    CHECK_OK(devices[i]->kernels->attention_forward(devices[i]->queue, &call, array_device(&x.slices),
                                                    array_device(&x.arrays[Q]), array_device(&x.arrays[K]),
                                                    array_device(&x.arrays[V]), array_device(&x.arrays[OUT]),
                                                    array_device(&x.arrays[LOG_SUM_EXP]), array_device(&x.workspace)));
    array_download("after", &x.arrays[OUT]);
    for (int64_t row = 0; row < 110; row++) {
      for (int64_t h = 0; h < 2; h++) {
        const size_t at = (size_t)(row * call.out_row + h * call.out_head) * 4;
        const bool same = memcmp(before + at, (char *)array_host(&x.arrays[OUT]) + at, 8 * 4) == 0;
        const bool shown = (row >= 20 && row < 50) || (row >= 65 && row < 70);
        if (same == shown) fail_msg("%s: row %d: same %d", gpu_test_devices[i], (int)row, same);
      }
    }
    free(before);
    bench_free(&x);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_nothing),
      cmocka_unit_test(test_fp64),
      cmocka_unit_test(test_fp32),
      cmocka_unit_test(test_bf16),
      cmocka_unit_test(test_head_sizes),
      cmocka_unit_test(test_long),
      cmocka_unit_test(test_windows),
      cmocka_unit_test(test_window_and_zig_zag),
      cmocka_unit_test(test_merge_leaves_others_alone),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
