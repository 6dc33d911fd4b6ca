#include "cli/running/calibrate_tables.h"

#include "base/clock.h"
#include "model/family.h"

typedef struct tables {
  const tri_calibrate_request *request;
  tri_measured *out;
} tables;

/* Longest time of one measurement, other than that of a product, in seconds. Larger sizes are left out, so a slow
 * device is only measured at small sizes. */
static const double MOST_S = 0.2;

static bool is_too_long(const tables *t, double flops) {
  return t->request->peak > 0 && flops / t->request->peak > MOST_S;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

static tri_status measure_product(const tables *t, const tri_measure_product *of) {
  double seconds = 0;
  tri_measured *m = t->out;
  if (m->num_products == TRI_MEASURED_PRODUCTS) return TRI_OK;
  for (int64_t i = 0; i < m->num_products; i++) {
    const tri_measured_product *p = &m->products[i];
    bool same = p->form == of->form && p->passing == of->passing && p->rows == of->rows;
    if (same && p->inner == of->inner && p->columns == of->columns) return TRI_OK;
  }
  TRI_TRY(tri_measure_product_s(t->request->measure, of, &seconds));
  if (seconds <= 0) return TRI_OK;
  m->products[m->num_products++] = (tri_measured_product){.form = of->form,
                                                          .passing = of->passing,
                                                          .rows = of->rows,
                                                          .inner = of->inner,
                                                          .columns = of->columns,
                                                          .seconds = seconds};
  return TRI_OK;
}

static const int64_t sides[] = {64, 256, 1024, 4096, 16384};
enum { SIDES = sizeof sides / sizeof sides[0] };

/* COLLECTIVE. Sets *out to whether the deadline has passed on any of the ranks. */
static tri_status is_over(const tables *t, bool *out) {
  double late = tri_clock_s() > t->request->until_s ? 1 : 0;
  TRI_TRY(tri_all_maximum(t->request->world, TRI_FP64, 1, &late));
  *out = late > 0;
  return TRI_OK;
}

/* Returns whether all three sides of product i of the grid have even indices. These products are measured first. If the
 * deadline ends the measurement of the others early, the grid has gaps, but it still covers the whole range of
 * sizes. */
static bool is_coarse(int i) { return i / SIDES / SIDES % 2 == 0 && i / SIDES % SIDES % 2 == 0 && i % SIDES % 2 == 0; }

/* Measures the products of all combinations of sides that do not take longer than longest_s. `passing`: the weights are
 * not packed ahead, and only two numbers of rows are measured. `coarse`: only the products of the coarse grid
 * (is_coarse) are measured, even after the deadline; otherwise only the other products, until the deadline. */
static tri_status measure_grid(const tables *t, tri_gemm_form form, bool passing, bool coarse) {
  const tri_calibrate_request *r = t->request;
  for (int i = 0; i < SIDES * SIDES * SIDES; i++) {
    tri_measure_product of = {form, passing, sides[i / SIDES / SIDES], sides[i / SIDES % SIDES], sides[i % SIDES]};
    double flops = 2.0 * (double)of.rows * (double)of.inner * (double)of.columns;
    bool over = false;
    if (is_coarse(i) != coarse || (passing && of.rows != 256 && of.rows != 1024)) continue;
    if (r->peak > 0 && flops / r->peak > r->longest_s) continue;
    if (!coarse) TRI_TRY(is_over(t, &over));
    if (over) return TRI_OK;
    TRI_TRY(measure_product(t, &of));
  }
  return TRI_OK;
}

static tri_status measure_products(const tables *t, bool coarse) {
  for (int form = 0; form < TRI_NUM_GEMM_FORMS; form++) {
    TRI_TRY(measure_grid(t, (tri_gemm_form)form, false, coarse));
  }
  TRI_TRY(measure_grid(t, TRI_GEMM_PLAIN, true, coarse));
  return measure_grid(t, TRI_GEMM_TRANSPOSED, true, coarse);
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

static tri_status measure_attention(const tables *t, int64_t sequence, int64_t head_dim, int64_t heads) {
  tri_measured *m = t->out;
  for (int64_t i = 0; i < m->num_attention; i++) {
    const tri_measured_attention *a = &m->attention[i];
    if (a->sequence == sequence && a->head_dim == head_dim && a->heads == heads) return TRI_OK;
  }
  for (int pass = TRI_PASS_FORWARD; pass <= TRI_PASS_BACKWARD_INPUT; pass++) {
    double seconds = 0;
    const tri_measure_attention of = {(tri_pass)pass, sequence, head_dim, heads};
    if (m->num_attention == TRI_MEASURED_ATTENTION) return TRI_OK;
    TRI_TRY(tri_measure_attention_s(t->request->measure, &of, &seconds));
    if (seconds <= 0) continue;
    m->attention[m->num_attention++] = (tri_measured_attention){
        .pass = of.pass, .sequence = sequence, .head_dim = head_dim, .heads = heads, .seconds = seconds};
  }
  return TRI_OK;
}

static tri_status measure_all_attention(const tables *t) {
  static const int64_t sequences[] = {128, 512, 2048}, dims[] = {64, 128}, heads[] = {2, 16};
  for (int i = 0; i < 12; i++) {
    const int64_t of[] = {sequences[i / 4], dims[i / 2 % 2], heads[i % 2]};
    double flops =
        5 * (double)of[0] * (double)of[0] * (double)of[1] * (double)of[2]; /* number of operations of the backward */
    if (i > 0 && is_too_long(t, flops)) continue;
    TRI_TRY(measure_attention(t, of[0], of[1], of[2]));
  }
  return TRI_OK;
}

/* ---- a model's shapes -------------------------------------------------------------------------------------------- */

static tri_status measure_call(const tables *t, const tri_op_call *call, tri_pass pass) {
  tri_cost cost = {0}, products[TRI_MEASURED_MOST_PRODUCTS];
  tri_op_cost(call, pass, &cost);
  int count = tri_measured_products_of(call, &cost, products);
  for (int i = 0; i < count; i++) {
    const tri_cost *p = &products[i];
    if (p->rows < 1 || p->inner < 1) continue; /* if there are fewer rows than experts, this product has no rows */
    const tri_measure_product of = {p->form, false, (int64_t)p->rows, (int64_t)p->inner, (int64_t)p->columns};
    TRI_TRY(measure_product(t, &of));
  }
  if (cost.scores <= 0 || pass != TRI_PASS_FORWARD) return TRI_OK;
  return measure_attention(t, (int64_t)cost.rows, (int64_t)cost.inner, (int64_t)cost.products);
}

static tri_status measure_sliced(const tables *t, int64_t tensor) {
  const tri_calibrate_request *r = t->request;
  tri_op_list *list = NULL;
  tri_list_request request =
      tri_list_request_whole(r->model, TRI_LIST_TRAIN, r->micro_batch, r->sequence, r->precision);
  request.shard = (tri_op_shard){.position = tri_mesh_position_along(TRI_AXIS_TENSOR, tensor)};
  TRI_TRY(tri_model_operations(r->model, &request, &list));
  tri_status status = TRI_OK;
  for (int64_t c = 0; c < list->num_calls && status == TRI_OK; c++) {
    const tri_op_call *call = &list->calls[c];
    status = measure_call(t, call, TRI_PASS_FORWARD);
    if (status == TRI_OK && call->op->backward_input != NULL) status = measure_call(t, call, TRI_PASS_BACKWARD_INPUT);
    if (status == TRI_OK && tri_op_has_weights(call)) status = measure_call(t, call, TRI_PASS_BACKWARD_WEIGHT);
  }
  tri_op_list_destroy(list);
  return status;
}

static tri_status measure_model(const tables *t) {
  const tri_calibrate_request *r = t->request;
  if (r->model == NULL) return TRI_OK;
  for (int64_t tensor = 1; tensor <= r->ranks; tensor++) {
    if (r->ranks % tensor != 0 || r->model->num_heads % tensor != 0 || r->model->num_kv_heads % tensor != 0) continue;
    TRI_TRY(measure_sliced(t, tensor));
  }
  return TRI_OK;
}

/* ---- elements ---------------------------------------------------------------------------------------------------- */

/* Returns whether a pass of a kind of work is measured. All kinds have a forward, except TRI_WORK_LINEAR, which is the
 * gradient of a bias. Some kinds also have a backward of inputs or of weights. */
static bool has_pass(tri_work work, tri_pass pass) {
  switch (work) {
    case TRI_WORK_LAYER_NORM:
    case TRI_WORK_RMS_NORM: return true;
    case TRI_WORK_GELU:
    case TRI_WORK_SWIGLU:
    case TRI_WORK_WEIGHTED_SWIGLU:
    case TRI_WORK_ROUTE: return pass != TRI_PASS_BACKWARD_WEIGHT;
    case TRI_WORK_ROPE: return pass != TRI_PASS_BACKWARD_WEIGHT;
    case TRI_WORK_EMBEDDING: return pass != TRI_PASS_BACKWARD_INPUT;
    case TRI_WORK_DISPATCH:
    case TRI_WORK_COMBINE: return pass == TRI_PASS_FORWARD;
    case TRI_WORK_LINEAR: return pass == TRI_PASS_BACKWARD_WEIGHT;
    case TRI_WORK_ADD:
    case TRI_WORK_ADD_TO:
    case TRI_WORK_CROSS_ENTROPY:
    case TRI_WORK_COPY:
    case TRI_WORK_PACK:
    case TRI_WORK_ZERO:
    case TRI_WORK_SQUARES:
    case TRI_WORK_UPDATE: return pass == TRI_PASS_FORWARD;
  }
  return false;
}

/* Measures a pass at sizes that fit into the caches, and at sizes beyond them. */
static tri_status measure_elements(const tables *t, tri_work work, tri_pass pass) {
  static const int64_t sizes[] = {1 << 16, 1 << 19, 1 << 22, 1 << 24};
  double last_s = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    const tri_measure_elements of = {work, pass, sizes[i]};
    double seconds = 0;
    if (i > 0 && last_s * ((double)sizes[i] / (double)sizes[i - 1]) > MOST_S) break;
    TRI_TRY(tri_measure_elements_s(t->request->measure, &of, &seconds));
    last_s = seconds;
    if (seconds <= 0 || t->out->num_elements == TRI_MEASURED_ELEMENTS) continue;
    t->out->elements[t->out->num_elements++] =
        (tri_measured_elements){.work = work, .pass = pass, .elements = sizes[i], .seconds = seconds};
  }
  return TRI_OK;
}

static tri_status measure_all_elements(const tables *t) {
#define WORK_(WORD, VALUE) VALUE,
  static const tri_work all[] = {TRI_WORKS(WORK_)};
#undef WORK_
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    for (int pass = 0; pass < TRI_NUM_PASSES; pass++) {
      if (has_pass(all[i], (tri_pass)pass)) TRI_TRY(measure_elements(t, all[i], (tri_pass)pass));
    }
  }
  return TRI_OK;
}

/* ---- links ------------------------------------------------------------------------------------------------------- */

static const int64_t message_bytes[] = {64, 4096, 65536, 524288, 2097152, 8388608, 33554432, 134217728};
enum { MESSAGES = sizeof message_bytes / sizeof message_bytes[0] };

static tri_status measure_collectives(const tables *t, int64_t ranks, tri_collective kind, bool shared) {
  double last_s = 0;
  for (int i = 0; i < MESSAGES; i++) {
    const tri_measure_collective of = {kind, shared, ranks, message_bytes[i]};
    double seconds = 0;
    if (i > 0 && last_s * ((double)message_bytes[i] / (double)message_bytes[i - 1]) > MOST_S) break;
    TRI_TRY(tri_measure_collective_s(t->request->measure, &of, &seconds));
    last_s = seconds;
    if (seconds <= 0 || t->out->num_collectives == TRI_MEASURED_COLLECTIVES) continue;
    t->out->collectives[t->out->num_collectives++] = (tri_measured_collective){
        .kind = kind, .shared = shared, .ranks = ranks, .bytes = message_bytes[i], .seconds = seconds};
  }
  return TRI_OK;
}

/* Measures exchanges between ranks that share a sequence, and all-gathers in shared memory. The exchanges use shared
 * memory if the ranks can use it. */
static tri_status measure_exchanges(const tables *t, int64_t ranks) {
  static const tri_collective kinds[] = {TRI_COLLECTIVE_ALL_TO_ALL, TRI_COLLECTIVE_PASS};
  for (int k = 0; k < 2; k++) {
    int64_t before = t->out->num_collectives;
    TRI_TRY(measure_collectives(t, ranks, kinds[k], true));
    if (t->out->num_collectives == before) TRI_TRY(measure_collectives(t, ranks, kinds[k], false));
  }
  return measure_collectives(t, ranks, TRI_COLLECTIVE_ALL_GATHER, true);
}

static tri_status measure_links(const tables *t) {
  static const tri_collective kinds[] = {TRI_COLLECTIVE_ALL_REDUCE, TRI_COLLECTIVE_ALL_GATHER,
                                         TRI_COLLECTIVE_REDUCE_SCATTER};
  for (int64_t ranks = 2; ranks <= t->request->ranks; ranks++) {
    if (t->request->ranks % ranks != 0) continue;
    for (int k = 0; k < 3; k++) TRI_TRY(measure_collectives(t, ranks, kinds[k], false));
    TRI_TRY(measure_collectives(t, ranks, TRI_COLLECTIVE_ALL_REDUCE, true));
    TRI_TRY(measure_collectives(t, ranks, TRI_COLLECTIVE_REDUCE_SCATTER, true));
    TRI_TRY(measure_exchanges(t, ranks));
  }
  for (int i = 0; i < MESSAGES; i++) {
    double seconds = 0;
    TRI_TRY(tri_measure_message_s(t->request->measure, message_bytes[i], &seconds));
    if (seconds <= 0 || t->out->num_messages == TRI_MEASURED_MESSAGES) continue;
    t->out->messages[t->out->num_messages++] = (tri_measured_message){.bytes = message_bytes[i], .seconds = seconds};
  }
  return TRI_OK;
}

/* Measures first what every plan needs, then the rest of the grid as long as there is time. */
tri_status tri_calibrate_tables(const tri_calibrate_request *request, tri_measured *out) {
  const tables t = {request, out};
  *out = (tri_measured){.precision = (int)request->precision};
  TRI_TRY(measure_links(&t));
  TRI_TRY(measure_model(&t));
  TRI_TRY(measure_all_attention(&t));
  TRI_TRY(measure_all_elements(&t));
  TRI_TRY(measure_products(&t, true));
  TRI_TRY(measure_products(&t, false));
  tri_measured_complete(out);
  return TRI_OK;
}
