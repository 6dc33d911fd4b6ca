#include "plan/row_pairs.h"

#include "model/family.h"
#include "plan/call_price.h"
#include "schedule/parts.h"

#include <math.h>

/* Largest value of layout.context_row_pairs. */
static const double MOST_PAIRS = 1 << 20;

/* Sums over all layers, with documents as long as the sequence. */
typedef struct sums {
  double attention_s, pairs; /* seconds of attention; query-key pairs of this attention, counted without document
                                masks */
  double rows_s, rows;       /* seconds and number of the rows of keys from other ranks */
} sums;

static bool gathers_keys(const tri_cost *cost) {
  return cost->scores > 0 && cost->exchanges[0].domain == TRI_DOMAIN_CONTEXT_OUTER &&
         cost->exchanges[0].collective == TRI_COLLECTIVE_ALL_TO_ALL;
}

/* Returns the seconds of the rows of keys from other ranks: their transfer, their packing by the ranks that have
 * them, and their reordering on this rank. cost.copied has the bytes of own + all_rows copies of a row: the rows of
 * this rank are packed, and all rows are reordered. A row from another rank is copied twice, since it is packed there
 * and reordered here. */
static double rows_s(const tri_pricer *pricer, const tri_op_call *call, tri_pass pass, const tri_price *price,
                     double all_rows) {
  tri_cost cost = {0};
  tri_op_cost(call, pass, &cost);
  double own = (double)call->rows, elements = cost.copied / 2 / (double)tri_dtype_bytes(call->type);
  double copied_s = tri_price_work(pricer->cluster, call->type, TRI_WORK_COPY, elements, cost.copied);
  return tri_price_collectives_s(price) + copied_s * 2 * (all_rows - own) / (all_rows + own);
}

static void row_pairs_add(tri_pricer *pricer, const tri_op_list *list, int64_t at, sums *to) {
  const tri_op_call *call = &list->calls[at];
  double all_rows = (double)(list->batch * list->tokens);
  tri_call_price price;
  tri_cost cost = {0};
  tri_op_cost(call, TRI_PASS_FORWARD, &cost);
  if (!gathers_keys(&cost)) return;
  tri_pricer_call(pricer, list, at, &price);
  double times = tri_price_recomputes(pricer->system, pricer->layout, call) ? 2 : 1;
  to->rows_s += times * rows_s(pricer, call, TRI_PASS_FORWARD, &price.forward, all_rows) +
                rows_s(pricer, call, TRI_PASS_BACKWARD_INPUT, &price.backward_input, all_rows);
  to->rows += all_rows - (double)call->rows;
  const tri_attention_price attention = tri_pricer_attention(pricer, list, at);
  to->attention_s += attention.forward_s + attention.backward_s;
  to->pairs += (double)call->rows * ((double)list->tokens + 1) / 2;
}

/* Creates the list of operations of all layers, as one stage, for the rank with the most tokens. The list has only
 * one layer if the attention of all layers costs the same: no layer has a window, and all recompute alike. */
static tri_status create_list(const tri_simulation_request *request, const tri_layout *listed, tri_op_list **out) {
  const tri_parts_request parts = {.model = request->model,
                                   .layout = listed,
                                   .sequence = request->sequence,
                                   .precision = request->precision,
                                   .masked = true};
  const tri_mesh_position position = {tri_layout_mesh(listed), tri_layout_fullest(listed, request->sequence, 0)};
  bool alike = request->model->window == 0 && listed->recompute_every == 1;
  int64_t layers = alike ? 1 : request->model->num_layers;
  const tri_list_request wanted = tri_parts_list(&parts, &position, (tri_layer_range){0, layers});
  return tri_model_operations(request->model, &wanted, out);
}

tri_status tri_plan_row_pairs(const tri_simulation_request *request, int64_t *out) {
  const tri_layout listed = tri_system_listed(request->system, request->layout);
  tri_pricer pricer = {.cluster = request->cluster,
                       .system = request->system,
                       .layout = request->layout,
                       .shape = tri_layout_mesh(request->layout)};
  tri_op_list *list = NULL;
  sums all = {0};
  *out = TRI_NO_ROW_PAIRS;
  if (!request->masked || tri_domain_size(&pricer.shape, TRI_DOMAIN_CONTEXT_OUTER) == 1) return TRI_OK;
  TRI_TRY(create_list(request, &listed, &list));
  for (int64_t c = 0; c < list->num_calls; c++) row_pairs_add(&pricer, list, c, &all);
  tri_op_list_destroy(list);
  if (all.attention_s <= 0 || all.rows <= 0) return TRI_OK;
  double pairs = all.rows_s / all.rows / (all.attention_s / all.pairs);
  *out = (int64_t)round(pairs < MOST_PAIRS ? pairs : MOST_PAIRS);
  return TRI_OK;
}

bool tri_plan_row_pairs_differ(const tri_layout *layout, int64_t row_pairs) {
  int64_t own = layout->context_row_pairs;
  return row_pairs != TRI_NO_ROW_PAIRS && (own > 2 * row_pairs || row_pairs > 2 * own);
}
