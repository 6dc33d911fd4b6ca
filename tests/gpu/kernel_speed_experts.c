/* Layers of experts for kernel_speed: the router, rows that are brought into groups and back, products in groups. */
#include "kernel_speed.h"

/* A layer of experts: `rows` pairs of a token and an expert. */
typedef struct experts_call {
  const bench *s;
  const char *model;
  int64_t tokens, rows, width;
  tri_router router;
  void *logits, *gradient, *ids, *weights, *begins, *order, *sources, *places, *loads, *counts, *x, *y, *values;
} experts_call;

#define EXPERTS_WORK(name_, ...)                                                                                       \
  static tri_status work_##name_(tri_queue *queue, void *context, int round) {                                         \
    const experts_call *c = context;                                                                                   \
    const tri_dtype type = c->s->type;                                                                                 \
    const tri_rows all = tri_all_rows(c->tokens);                                                                      \
    (void)round, (void)type;                                                                                           \
    TRI_KERNEL_CALL(queue, name_, __VA_ARGS__);                                                                        \
    return TRI_OK;                                                                                                     \
  }

EXPERTS_WORK(router_forward, type, all, &c->router, NULL, c->logits, NULL, c->ids, c->weights)
EXPERTS_WORK(router_backward, type, all, &c->router, c->logits, c->ids, c->weights, c->weights, NULL, 0, c->tokens,
             1e-3, c->values, c->gradient)
EXPERTS_WORK(router_loads, type, all, &c->router, c->logits, c->ids, 0, c->tokens, 1, c->loads)
EXPERTS_WORK(router_count, type, all, &c->router, c->ids, c->weights, c->counts)
EXPERTS_WORK(group_rows, all, c->router.chosen, c->router.experts, c->ids, c->begins, c->order, c->sources, c->places)
EXPERTS_WORK(sum_rows, type, all, c->router.chosen, c->width, c->places, c->x, c->y, false)

typedef struct grouped_call {
  tri_grouped_matmul call;
  void *begins, *a, *b, *c, *workspace;
} grouped_call;

static tri_status work_grouped(tri_queue *queue, void *context, int round) {
  const grouped_call *g = context;
  (void)round;
  TRI_KERNEL_CALL(queue, grouped_matmul, &g->call, g->begins, g->a, g->b, g->c, g->workspace);
  return TRI_OK;
}

static void grouped(bench *s, const experts_call *e, const char *direction, tri_matmul product) {
  buffers b = {.device = s->device};
  char what[128];
  size_t scratch = 0;
  const bool gradient = product.a_transposed;
  const int64_t groups = e->router.experts, matrix = gradient ? product.m * product.n : product.k * product.n;
  grouped_call g = {.call = {product, groups, matrix}, .begins = e->begins};
  g.a = random_of(s, &b, product.a_type, product.m * product.k);
  g.b = random_of(s, &b, product.b_type, gradient ? product.k * product.n : groups * matrix);
  g.c = random_of(s, &b, product.c_type, gradient ? groups * matrix : product.m * product.n);
  TRY(s->device->description.grouped_workspace(&s->device->description, &g.call, &scratch));
  g.workspace = scratch == 0 ? NULL : take(&b, scratch);
  snprintf(what, sizeof what, "%s experts %s %ldx%ldx%ld in %ld", e->model, direction, (long)product.m, (long)product.n,
           (long)product.k, (long)groups);
  measure(s, what, "FLOP/s", 2.0 * (double)product.m * (double)product.n * (double)product.k, work_grouped, &g);
  give(&b);
}

/* Matrices are [outputs, inputs]. */
static void grouped_layer(bench *s, const experts_call *e, const char *name, int64_t in, int64_t out) {
  const tri_dtype t = s->type;
  char what[64];
  snprintf(what, sizeof what, "%s forward", name);
  grouped(s, e, what, (tri_matmul){e->rows, out, in, in, in, out, t, t, t, .b_transposed = true});
  snprintf(what, sizeof what, "%s backward_input", name);
  grouped(s, e, what, (tri_matmul){e->rows, in, out, out, in, in, t, t, t, .b_transposed = false});
  snprintf(what, sizeof what, "%s backward_weight", name);
  grouped(s, e, what,
          (tri_matmul){out, in, e->rows, out, in, in, t, t, s->wide, .a_transposed = true, .accumulate = true});
}

static void make_experts(bench *s, buffers *b, experts_call *e) {
  const int64_t experts = e->router.experts, scores = e->tokens * experts;
  const tri_step_values values = {.token_scale = 1e-4, .sequence_scale = 1e-2};
  e->s = s;
  e->rows = e->tokens * e->router.chosen;
  e->logits = random_of(s, b, s->wide, scores);
  e->gradient = take(b, (size_t)scores * tri_dtype_bytes(s->wide));
  e->ids = take(b, (size_t)e->rows * 4);
  e->weights = take(b, (size_t)e->rows * tri_dtype_bytes(s->wide));
  e->begins = take(b, (size_t)(experts + 1) * 4);
  e->order = take(b, (size_t)e->rows * 4);
  e->sources = take(b, (size_t)e->rows * 4);
  e->places = take(b, (size_t)e->rows * 4);
  e->loads = take(b, (size_t)experts * 2 * tri_dtype_bytes(s->wide));
  e->counts = take(b, (size_t)(experts + 1) * 8);
  e->x = random_of(s, b, s->type, e->rows * e->width);
  e->y = take(b, (size_t)(e->tokens * e->width) * tri_dtype_bytes(s->type));
  e->values = take(b, sizeof values);
  TRY(tri_queue_upload_now(s->device->queue, e->values, &values, sizeof values));
  TRY(s->device->kernels->fill_zero(s->device->queue, (size_t)(experts + 1) * 8, e->counts));
}

/* Rows fall to experts as a router of random logits lets them. */
void experts(bench *s, const char *model, tri_router router, int64_t tokens, int64_t width, int64_t ffn) {
  buffers b = {.device = s->device};
  experts_call e = {.model = model, .tokens = tokens, .width = width, .router = router};
  make_experts(s, &b, &e);
  const double n = (double)tokens * (double)width * (double)tri_dtype_bytes(s->type), k = (double)router.chosen,
               scores = (double)tokens * (double)router.experts * (double)tri_dtype_bytes(s->wide);
  char what[128];
  const struct {
    const char *name;
    tri_device_work *work;
    double bytes;
  } all[] = {
      {"router_forward", work_router_forward, scores},
      {"router_backward", work_router_backward, 2 * scores},
      {"router_loads", work_router_loads, scores},
      {"router_count", work_router_count, 4 * k * (double)tokens},
      {"group_rows", work_group_rows, 16 * k * (double)tokens},
      {"sum_rows", work_sum_rows, (k + 1) * n},
  };
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    snprintf(what, sizeof what, "%s %s", model, all[i].name);
    measure(s, what, "B/s", all[i].bytes, all[i].work, &e);
  }
  grouped_layer(s, &e, "gate and up", width, 2 * ffn);
  grouped_layer(s, &e, "down", ffn, width);
  give(&b);
}
