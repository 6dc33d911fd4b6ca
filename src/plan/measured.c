/* Interpolation. The rows of a table are points, whose coordinates are the logarithms of their sizes. The requested
 * point has up to eight octants around it, and the nearest row in each octant is a corner. The corners are weighted as
 * those of a box: along each axis by the distance from the requested point to the opposite corner. On a grid this is
 * linear interpolation in all directions, exact at the grid points. Rows between the grid points (the shapes of a
 * model) become corners if they are nearer.
 *
 * If an octant is empty, nothing was measured on that side. The corners of the opposite side then have the whole
 * weight, so the value at the edge continues. */
#include "plan/measured.h"

#include <math.h>
#include <string.h>

#define KEY TRI_CONFIG_KEY
#define SIZE .range = {.low = 1, .high = 1e15}
#define SECONDS .range = {.low = 0, .high = 1e6, .open_low = true}
#define TOOK(STRUCT)                                                                                                   \
  { KEY(STRUCT, seconds, TRI_CONFIG_DOUBLE), SECONDS, .example = "1.0e-3", .help = "measured time in seconds" }
#define TABLE(NAME, NOUN)                                                                                              \
  static const tri_config_table NAME##_table = {                                                                       \
      .noun = NOUN, .keys = NAME##_keys, .num_keys = sizeof NAME##_keys / sizeof *NAME##_keys}

#define FORMS(X)                                                                                                       \
  X("plain", TRI_GEMM_PLAIN)                                                                                           \
  X("turned", TRI_GEMM_TRANSPOSED) X("gradient", TRI_GEMM_GRADIENT) X("added", TRI_PRODUCT_ADDED)
TRI_CONFIG_WORDS(forms, tri_gemm_form, FORMS)
#define PASSES(X)                                                                                                      \
  X("forward", TRI_PASS_FORWARD)                                                                                       \
  X("backward_input", TRI_PASS_BACKWARD_INPUT) X("backward_weight", TRI_PASS_BACKWARD_WEIGHT)
TRI_CONFIG_WORDS(passes, tri_pass, PASSES)
#define KINDS(X)                                                                                                       \
  X("none", TRI_COLLECTIVE_NONE)                                                                                       \
  X("all_reduce", TRI_COLLECTIVE_ALL_REDUCE)                                                                           \
  X("all_gather", TRI_COLLECTIVE_ALL_GATHER)                                                                           \
  X("reduce_scatter", TRI_COLLECTIVE_REDUCE_SCATTER)                                                                   \
  X("all_to_all", TRI_COLLECTIVE_ALL_TO_ALL) X("pass", TRI_COLLECTIVE_PASS)
TRI_CONFIG_WORDS(kinds, tri_collective, KINDS)
TRI_CONFIG_WORDS(works, tri_work, TRI_WORKS)
static const tri_config_word precisions[] = {
    {"none", -1}, {"fp32", TRI_FP32}, {"bf16", TRI_BF16}, {"fp64", TRI_FP64}, {NULL, 0}};

static const tri_config_key product_keys[] = {
    {KEY(tri_measured_product, form, TRI_CONFIG_CHOICE), .words = forms, .fallback = "plain",
     .help = "plain (a b), turned (a b^T), gradient (a^T b) or added (c += a^T b)"},
    {KEY(tri_measured_product, passing, TRI_CONFIG_BOOL), .fallback = "false",
     .help = "b is a weight that is gathered for each use (ZeRO 3), so it is not packed ahead"},
    {KEY(tri_measured_product, rows, TRI_CONFIG_INT), SIZE, .example = "1024", .help = "rows of the product"},
    {KEY(tri_measured_product, inner, TRI_CONFIG_INT), SIZE, .example = "768", .help = "dimension that is summed over"},
    {KEY(tri_measured_product, columns, TRI_CONFIG_INT), SIZE, .example = "3072", .help = "columns of the product"},
    TOOK(tri_measured_product)};
TABLE(product, "product");

static const tri_config_key attention_keys[] = {
    {KEY(tri_measured_attention, pass, TRI_CONFIG_CHOICE), .words = passes, .fallback = "forward",
     .help = "forward or backward_input"},
    {KEY(tri_measured_attention, sequence, TRI_CONFIG_INT), SIZE, .example = "1024", .help = "positions"},
    {KEY(tri_measured_attention, head_dim, TRI_CONFIG_INT), SIZE, .example = "64", .help = "width of a head"},
    {KEY(tri_measured_attention, heads, TRI_CONFIG_INT), SIZE, .example = "24",
     .help = "heads of all sequences together"},
    TOOK(tri_measured_attention)};
TABLE(attention, "attention");

static const tri_config_key elements_keys[] = {
    {KEY(tri_measured_elements, work, TRI_CONFIG_CHOICE), .words = works, .example = "gelu",
     .help = "an operation, or another part of a step"},
    {KEY(tri_measured_elements, pass, TRI_CONFIG_CHOICE), .words = passes, .fallback = "forward",
     .help = "forward, backward_input or backward_weight"},
    {KEY(tri_measured_elements, elements, TRI_CONFIG_INT), SIZE, .example = "1048576", .help = "elements of the work"},
    TOOK(tri_measured_elements)};
TABLE(elements, "element-wise work");

static const tri_config_key collective_keys[] = {
    {KEY(tri_measured_collective, kind, TRI_CONFIG_CHOICE), .words = kinds, .example = "all_reduce",
     .help = "all_reduce, all_gather, reduce_scatter, all_to_all, or pass: round a ring, to the next"},
    {KEY(tri_measured_collective, shared, TRI_CONFIG_BOOL), .fallback = "false",
     .help = "the buffers are in memory that the ranks of a node share, as gradients are and the messages of shared "
             "sequences"},
    {KEY(tri_measured_collective, ranks, TRI_CONFIG_INT), .range = {.low = 2, .high = 1 << 24}, .example = "8",
     .help = "ranks of each group"},
    {KEY(tri_measured_collective, bytes, TRI_CONFIG_INT), SIZE, .example = "1048576",
     .help = "bytes of the whole buffer; all_to_all and pass: bytes that a rank sends"},
    TOOK(tri_measured_collective)};
TABLE(collective, "collective");

static const tri_config_key message_keys[] = {
    {KEY(tri_measured_message, bytes, TRI_CONFIG_INT), SIZE, .example = "1048576", .help = "bytes of a message"},
    TOOK(tri_measured_message)};
TABLE(message, "message");

#define ROWS(NAME, COUNT, TABLE, STRUCT, MOST, HELP)                                                                   \
  {                                                                                                                    \
    .name = #NAME, .type = TRI_CONFIG_LIST, .offset = offsetof(tri_measured, NAME), .table = &TABLE,                   \
    .bytes = sizeof(STRUCT), .count = offsetof(tri_measured, COUNT), .range = {.low = 0, .high = MOST},                \
    .fallback = "", .in_line = true, .help = HELP                                                                      \
  }
static const tri_config_key measured_keys[] = {
    {KEY(tri_measured, precision, TRI_CONFIG_CHOICE), .words = precisions, .fallback = "none",
     .help = "type of the activations in these tables; none: no tables"},
    ROWS(products, num_products, product_table, tri_measured_product, TRI_MEASURED_PRODUCTS,
         "[rows, inner] x [inner, columns]"),
    ROWS(attention, num_attention, attention_table, tri_measured_attention, TRI_MEASURED_ATTENTION, "causal"),
    ROWS(elements, num_elements, elements_table, tri_measured_elements, TRI_MEASURED_ELEMENTS, "element-wise work"),
    ROWS(collectives, num_collectives, collective_table, tri_measured_collective, TRI_MEASURED_COLLECTIVES,
         "collectives of neighbouring ranks, while all other groups do the same"),
    ROWS(messages, num_messages, message_table, tri_measured_message, TRI_MEASURED_MESSAGES,
         "from each rank to its neighbour"),
};
const tri_config_table tri_measured_table = TRI_CONFIG_TABLE("tables of measurements", measured_keys);

/* ---- points ------------------------------------------------------------------------------------------------------ */

/* Returns the number of query-key pairs of causal attention, over all heads. */
static double pairs_of(double sequence, double heads) { return sequence * (sequence + 1) / 2 * heads; }

/* Computes the points of all rows. The value of a GEMM, of attention and of element-wise work is the logarithm of the
 * seconds per multiplication or element. The value of a collective or message is the logarithm of the seconds, because
 * all small ones take the same time. */
void tri_measured_complete(tri_measured *m) {
  for (int64_t i = 0; i < m->num_products; i++) {
    tri_measured_product *p = &m->products[i];
    double rows = (double)p->rows, inner = (double)p->inner, columns = (double)p->columns;
    p->point = (tri_measured_point){{log(rows), log(inner), log(columns)}, log(p->seconds / (rows * inner * columns))};
  }
  for (int64_t i = 0; i < m->num_attention; i++) {
    tri_measured_attention *a = &m->attention[i];
    double sequence = (double)a->sequence, dim = (double)a->head_dim, heads = (double)a->heads;
    a->point = (tri_measured_point){{log(sequence), log(dim), log(heads)},
                                    log(a->seconds / (pairs_of(sequence, heads) * dim))};
  }
  for (int64_t i = 0; i < m->num_elements; i++) {
    tri_measured_elements *e = &m->elements[i];
    e->point = (tri_measured_point){{log((double)e->elements)}, log(e->seconds / (double)e->elements)};
  }
  for (int64_t i = 0; i < m->num_collectives; i++) {
    tri_measured_collective *c = &m->collectives[i];
    c->point = (tri_measured_point){{log((double)c->bytes), log((double)c->ranks)}, log(c->seconds)};
  }
  for (int64_t i = 0; i < m->num_messages; i++) {
    tri_measured_message *e = &m->messages[i];
    e->point = (tri_measured_point){{log((double)e->bytes)}, log(e->seconds)};
  }
}

/* ---- interpolation ----------------------------------------------------------------------------------------------- */

enum { OCTANTS = 1 << TRI_MEASURED_AXES };

/* The corners around the requested point. Bit d of the number of an octant is 1 if its points are not below the
 * requested point along axis d, and 0 if they are not above it. */
typedef struct corners {
  const double *at;                           /* the requested point */
  const tri_measured_point *nearest[OCTANTS]; /* nearest row of each octant; NULL: none */
  double distance[OCTANTS];                   /* squared distance of each nearest row from the requested point */
} corners;

static bool lies_in(const tri_measured_point *p, const double at[], int octant) {
  for (int d = 0; d < TRI_MEASURED_AXES; d++) {
    bool above = (octant >> d & 1) != 0;
    if (above ? p->at[d] < at[d] : p->at[d] > at[d]) return false;
  }
  return true;
}

static void consider(corners *c, const tri_measured_point *p) {
  double distance = 0;
  for (int d = 0; d < TRI_MEASURED_AXES; d++) distance += (p->at[d] - c->at[d]) * (p->at[d] - c->at[d]);
  for (int o = 0; o < OCTANTS; o++) {
    bool nearer = c->nearest[o] == NULL || distance < c->distance[o];
    if (!nearer || !lies_in(p, c->at, o)) continue;
    c->nearest[o] = p;
    c->distance[o] = distance;
  }
}

/* Returns the weight of a corner: the product over the axes of the distance from `at` to the opposite corner,
 * divided by the distance between both corners. */
static double weight_of(const corners *c, int octant) {
  double weight = 1;
  for (int d = 0; d < TRI_MEASURED_AXES; d++) {
    const tri_measured_point *across = c->nearest[octant ^ 1 << d];
    if (across == NULL) continue;
    double here = fabs(c->nearest[octant]->at[d] - c->at[d]), there = fabs(across->at[d] - c->at[d]);
    if (here + there > 0) weight *= there / (here + there);
  }
  return weight;
}

static bool is_repeated(const corners *c, int octant) {
  for (int o = 0; o < octant; o++) {
    if (c->nearest[o] == c->nearest[octant]) return true;
  }
  return false;
}

/* Sets *out to the weighted mean of the values of the corners, or to that of a corner at the requested point.
 * Returns false if there is no corner. */
static bool interpolate(const corners *c, double *out) {
  double sum = 0, weights = 0, closest = INFINITY;
  for (int o = 0; o < OCTANTS; o++) {
    if (c->nearest[o] == NULL || is_repeated(c, o)) continue;
    double weight = weight_of(c, o);
    sum += weight * c->nearest[o]->value;
    weights += weight;
    if (c->distance[o] >= closest) continue;
    closest = c->distance[o];
    *out = c->nearest[o]->value;
  }
  if (closest > 0 && weights > 0) *out = sum / weights;
  return closest < INFINITY;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static bool is_of(const tri_measured *m, tri_dtype type) { return m->precision == (int)type; }

static bool find_product(const tri_measured *m, tri_gemm_form form, bool passing, const double at[], double *out) {
  corners c = {.at = at};
  for (int64_t i = 0; i < m->num_products; i++) {
    const tri_measured_product *p = &m->products[i];
    if (p->form == form && p->passing == passing) consider(&c, &p->point);
  }
  return interpolate(&c, out);
}

double tri_measured_added_s(const tri_measured *m, tri_dtype type, const tri_cost *gradient) {
  double written, added;
  const double at[] = {log(gradient->rows), log(gradient->inner), log(gradient->columns)};
  if (!is_of(m, type) || !find_product(m, TRI_GEMM_GRADIENT, false, at, &written)) return 0;
  if (!find_product(m, TRI_PRODUCT_ADDED, false, at, &added) || added <= written) return 0;
  return (exp(added) - exp(written)) * gradient->rows * gradient->inner * gradient->columns * gradient->products;
}

static bool find_form(const tri_measured *m, tri_gemm_form form, const double at[], double *out) {
  if (find_product(m, form, false, at, out)) return true;
  for (int f = 0; f < TRI_NUM_GEMM_FORMS; f++) {
    if (find_product(m, (tri_gemm_form)f, false, at, out)) return true;
  }
  return false;
}

int tri_measured_products_of(const tri_op_call *call, const tri_cost *cost, tri_cost out[TRI_MEASURED_MOST_PRODUCTS]) {
  if (cost->flops <= 0 || cost->scores > 0 || cost->rows <= 0) return 0;
  out[0] = out[1] = out[2] = *cost;
  if (!call->op->makes_loss || !call->training) return 1;
  out[1].form = TRI_GEMM_PLAIN;
  out[1].inner = cost->columns;
  out[1].columns = cost->inner;
  out[2].form = TRI_GEMM_GRADIENT;
  out[2].rows = cost->columns;
  out[2].inner = cost->rows;
  out[2].columns = cost->inner;
  return 3;
}

bool tri_measured_product_s(const tri_measured *m, tri_dtype type, const tri_cost *product, double *seconds) {
  double each = 0, passing = 0;
  const double at[] = {log(product->rows), log(product->inner), log(product->columns)};
  if (!is_of(m, type) || m->num_products == 0 || !find_form(m, product->form, at, &each)) return false;
  /* Packing does not make a GEMM slower: an unpacked one that was measured as faster is noise. */
  if (product->unpacked && find_product(m, product->form, true, at, &passing) && passing > each) each = passing;
  *seconds = exp(each) * product->rows * product->inner * product->columns * product->products;
  return true;
}

bool tri_measured_attention_s(const tri_measured *m, tri_dtype type, tri_pass pass, const tri_cost *cost,
                              double *seconds) {
  double each = 0;
  const double sides =
      (log(cost->rows) + log(cost->columns)) / 2; /* logarithm of the side of a square with as many query-key pairs */
  const double at[] = {sides, log(cost->inner), log(cost->products)};
  corners c = {.at = at};
  if (!is_of(m, type)) return false;
  for (int64_t i = 0; i < m->num_attention; i++) {
    if (m->attention[i].pass == pass) consider(&c, &m->attention[i].point);
  }
  if (!interpolate(&c, &each)) return false;
  *seconds = exp(each) * cost->scores * cost->inner;
  return true;
}

bool tri_measured_elements_s(const tri_measured *m, tri_dtype type, tri_work work, tri_pass pass, double elements,
                             double *seconds) {
  double each = 0;
  const double at[TRI_MEASURED_AXES] = {elements > 0 ? log(elements) : 0};
  corners c = {.at = at};
  if (!is_of(m, type)) return false;
  for (int64_t i = 0; i < m->num_elements; i++) {
    const tri_measured_elements *e = &m->elements[i];
    if (e->work == work && e->pass == pass) consider(&c, &e->point);
  }
  if (!interpolate(&c, &each)) return false;
  *seconds = elements > 0 ? exp(each) * elements : 0;
  return true;
}

bool tri_measured_work_of(const char *name, tri_work *out) { return works_find(name, out); }

/* Returns the logarithm of the seconds at a size. `at`: logarithm of the size; `value`: interpolated logarithm of the
 * seconds, which outside of the measured sizes is that of the nearest size. Above the largest measured size the seconds
 * grow in proportion to the size, so the rate is constant; below the smallest size the seconds are constant. */
static double beyond(const tri_measured_point *largest, double at, double value) {
  return at > largest->at[0] ? value + at - largest->at[0] : value;
}

bool tri_measured_collective_s(const tri_measured *m, tri_collective kind, bool shared, int64_t ranks, double bytes,
                               double *seconds) {
  double value = 0;
  const tri_measured_point *largest = NULL;
  const double at[TRI_MEASURED_AXES] = {log(bytes), log((double)ranks)};
  corners c = {.at = at};
  for (int64_t i = 0; i < m->num_collectives; i++) {
    const tri_measured_collective *of = &m->collectives[i];
    if (of->kind != kind || of->shared != shared || of->ranks != ranks) continue;
    consider(&c, &of->point);
    if (largest == NULL || of->point.at[0] > largest->at[0]) largest = &of->point;
  }
  if (largest == NULL || !interpolate(&c, &value))
    return shared && tri_measured_collective_s(m, kind, false, ranks, bytes, seconds);
  *seconds = exp(beyond(largest, at[0], value));
  return true;
}

bool tri_measured_message_s(const tri_measured *m, double bytes, double *seconds) {
  double value = 0;
  const tri_measured_point *largest = NULL;
  const double at[TRI_MEASURED_AXES] = {log(bytes)};
  corners c = {.at = at};
  for (int64_t i = 0; i < m->num_messages; i++) {
    consider(&c, &m->messages[i].point);
    if (largest == NULL || m->messages[i].point.at[0] > largest->at[0]) largest = &m->messages[i].point;
  }
  if (largest == NULL || !interpolate(&c, &value)) return false;
  *seconds = exp(beyond(largest, at[0], value));
  return true;
}

/* ---- checking ---------------------------------------------------------------------------------------------------- */

static tri_status repeated(const char *table, int64_t first, int64_t second) {
  return tri_fail(TRI_BAD_CONFIG, "`measured.%s` has the same size twice, in rows %ld and %ld; remove one of them",
                  table, (long)first + 1, (long)second + 1);
}

static tri_status check_products(const tri_measured *m) {
  for (int64_t i = 0; i < m->num_products; i++) {
    for (int64_t j = 0; j < i; j++) {
      const tri_measured_product *a = &m->products[j], *b = &m->products[i];
      bool alike = a->form == b->form && a->passing == b->passing && a->rows == b->rows;
      if (alike && a->inner == b->inner && a->columns == b->columns) return repeated("products", j, i);
    }
  }
  return TRI_OK;
}

static tri_status check_collectives(const tri_measured *m) {
  for (int64_t i = 0; i < m->num_collectives; i++) {
    const tri_measured_collective *b = &m->collectives[i];
    if (b->kind == TRI_COLLECTIVE_NONE) {
      return tri_fail(TRI_BAD_CONFIG, "row %ld of `measured.collectives` has the kind `none`; set its kind",
                      (long)i + 1);
    }
    for (int64_t j = 0; j < i; j++) {
      const tri_measured_collective *a = &m->collectives[j];
      bool alike = a->kind == b->kind && a->shared == b->shared && a->ranks == b->ranks;
      if (alike && a->bytes == b->bytes) return repeated("collectives", j, i);
    }
  }
  return TRI_OK;
}

static tri_status check_elements(const tri_measured *m) {
  for (int64_t i = 0; i < m->num_elements; i++) {
    for (int64_t j = 0; j < i; j++) {
      const tri_measured_elements *a = &m->elements[j], *b = &m->elements[i];
      if (a->work == b->work && a->pass == b->pass && a->elements == b->elements) return repeated("elements", j, i);
    }
  }
  return TRI_OK;
}

static tri_status check_attention(const tri_measured *m) {
  for (int64_t i = 0; i < m->num_attention; i++) {
    for (int64_t j = 0; j < i; j++) {
      const tri_measured_attention *a = &m->attention[j], *b = &m->attention[i];
      bool alike = a->pass == b->pass && a->sequence == b->sequence;
      if (alike && a->head_dim == b->head_dim && a->heads == b->heads) return repeated("attention", j, i);
    }
  }
  return TRI_OK;
}

tri_status tri_measured_check(const tri_measured *m) {
  if (m->precision < 0 && m->num_products + m->num_attention + m->num_elements > 0) {
    return tri_fail(
        TRI_BAD_CONFIG,
        "`measured` has tables of computation, and `measured.precision` is none; set it to fp32, bf16 or fp64");
  }
  TRI_TRY(check_products(m));
  TRI_TRY(check_attention(m));
  TRI_TRY(check_elements(m));
  for (int64_t i = 0; i < m->num_messages; i++) {
    for (int64_t j = 0; j < i; j++) {
      if (m->messages[i].bytes == m->messages[j].bytes) return repeated("messages", j, i);
    }
  }
  return check_collectives(m);
}
