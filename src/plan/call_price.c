#include "plan/call_price.h"

#include "ops/recompute.h"

/* ---- one pass ---------------------------------------------------------------------------------------------------- */

static bool same_cost(const tri_cost *a, const tri_cost *b) {
  bool same_product = a->rows == b->rows && a->inner == b->inner && a->columns == b->columns &&
                      a->products == b->products && a->form == b->form && a->unpacked == b->unpacked;
  bool same_work = a->flops == b->flops && a->vector_flops == b->vector_flops && a->bytes == b->bytes &&
                   a->copied == b->copied && a->spread == b->spread && a->elements == b->elements &&
                   a->scores == b->scores && a->capped == b->capped;
  bool same_exchanges = true;
  for (int e = 0; e < TRI_COST_EXCHANGES; e++) {
    const tri_cost_exchange *x = &a->exchanges[e], *y = &b->exchanges[e];
    same_exchanges = same_exchanges && x->collective == y->collective && x->domain == y->domain &&
                     x->bytes == y->bytes && x->times == y->times && x->overlapped == y->overlapped;
  }
  return same_product && same_work && same_exchanges;
}

static tri_price price_pass(tri_pricer *pricer, const tri_op_call *call, tri_pass pass) {
  tri_cost cost = {0};
  tri_op_cost(call, pass, &cost);
  for (int i = 0; i < pricer->count; i++) {
    bool same = pricer->known[i].op == call->op && pricer->known[i].pass == pass &&
                pricer->known[i].fp8 == tri_price_is_fp8(pricer->system, call);
    if (same && same_cost(&pricer->known[i].cost, &cost)) return pricer->known[i].price;
  }
  tri_price price = tri_price_pass(pricer->cluster, pricer->system, call, pass, &pricer->shape);
  if (pricer->count == TRI_PRICER_KNOWN) return price;
  const int at = pricer->count++;
  pricer->known[at].op = call->op;
  pricer->known[at].pass = pass;
  pricer->known[at].fp8 = tri_price_is_fp8(pricer->system, call);
  pricer->known[at].cost = cost;
  pricer->known[at].price = price;
  return price;
}

/* ---- collectives that overlap with GEMMs ------------------------------------------------------------------------- */

/* Overlaps a collective with a computation of compute_s seconds. During the overlap the computation runs at the
 * share `beside` of its rate. Subtracts the overlap from *together, and adds the delay of the computation. */
static void lay_over(const tri_pricer *pricer, const tri_price *collective, double compute_s, tri_price *together) {
  double beside = pricer->cluster->beside;
  for (int axis = 0; axis < TRI_NUM_AXES; axis++) {
    double over = collective->along_s[axis];
    if (compute_s / beside < over) over = compute_s / beside;
    together->along_s[axis] -= over;
    together->compute_s += over * (1 - beside);
    compute_s -= over * beside;
  }
}

/* Returns whether a call only moves rows between tensor ranks: a gather or a scatter. */
static bool passes_rows(const tri_op_call *call) {
  tri_cost cost = {0};
  tri_op_cost(call, TRI_PASS_BACKWARD_INPUT, &cost);
  return cost.flops <= 0 && cost.copied <= 0 && cost.exchanges[0].bytes > 0 &&
         cost.exchanges[0].domain == TRI_DOMAIN_TENSOR;
}

/* Returns the GEMM that directly follows a call which only moves rows, if it is the only reader of the output of the
 * call; else NULL. */
static const tri_op_call *product_of(const tri_op_list *list, const tri_op_call *call) {
  const tri_slot *slot = &list->slots[call->outputs[0]];
  if (slot->last_consumer != call->index + 1 || !passes_rows(call)) return NULL;
  const tri_op_call *next = &list->calls[slot->last_consumer];
  return tri_op_has_weights(next) && next->inputs[0] == call->outputs[0] ? next : NULL;
}

static bool collects(const tri_op_call *call) {
  tri_cost cost = {0};
  tri_op_cost(call, TRI_PASS_FORWARD, &cost);
  return cost.exchanges[0].collective == TRI_COLLECTIVE_ALL_GATHER;
}

bool tri_price_gathers_again(const tri_system *system, const tri_op_list *list, const tri_op_call *call) {
  return system->gathers_again && !call->recompute && collects(call) && product_of(list, call) != NULL;
}

/* For a call that moves rows between tensor ranks before a GEMM, prices the overlap of communication and computation in
 * the backward (Korthikanti et al. 2022, section 4.2.2). The collective of the call's backward overlaps with the weight
 * gradient of the GEMM. If the rows are gathered again for this weight gradient, the price of the second gather is
 * added to out->backward_weight, and the gather overlaps with the input gradient of the GEMM. */
static void price_beside(tri_pricer *pricer, const tri_op_list *list, const tri_op_call *call, tri_call_price *out) {
  const tri_op_call *product = product_of(list, call);
  bool again = tri_price_gathers_again(pricer->system, list, call);
  tri_price gathered = {.launch_s = out->forward.launch_s};
  if (product == NULL) return;
  for (int axis = 0; axis < TRI_NUM_AXES; axis++) gathered.along_s[axis] = out->forward.along_s[axis];
  if (again) out->backward_weight = tri_price_plus(out->backward_weight, gathered);
  if (!pricer->system->overlap_layers || pricer->cluster->carries) return;
  double weight_s = price_pass(pricer, product, TRI_PASS_BACKWARD_WEIGHT).compute_s;
  lay_over(pricer, &out->backward_input, weight_s, &out->together);
  if (again)
    lay_over(pricer, &gathered, price_pass(pricer, product, TRI_PASS_BACKWARD_INPUT).compute_s, &out->together);
}

/* ---- transfers that overlap with other calls --------------------------------------------------------------------- */

/* Returns the seconds in which a pass of a call sends rows (exchange 0 of its cost). */
static double rows_s(const tri_pricer *pricer, const tri_op_call *call, tri_pass pass) {
  tri_cost cost = {0};
  tri_op_cost(call, pass, &cost);
  return tri_price_exchange(pricer->cluster, pricer->system, call, &cost.exchanges[0], &pricer->shape);
}

/* Returns the seconds of computation in a pass of the calls after `from` and before `to`. `again`: only of calls
 * that are recomputed. */
static double between_s(tri_pricer *pricer, const tri_op_list *list, int64_t from, int64_t to, tri_pass pass,
                        bool again) {
  double sum = 0;
  for (int64_t c = from + 1; c < to; c++) {
    const tri_op_call *call = &list->calls[c];
    const bool there = tri_pass_choose(pass, 1, tri_op_has_inputs(call), tri_op_has_weights(call)) > 0;
    if (!there || (again && !tri_price_recomputes(pricer->system, pricer->layout, call))) continue;
    sum += price_pass(pricer, call, pass).compute_s;
  }
  return sum;
}

/* Overlaps a transfer of rows of experts, of `rows` seconds, with compute_s seconds of computation. Subtracts the
 * overlap from the price, adds the delay of the computation, and returns the overlap. */
static double lay_beside(const tri_pricer *pricer, double rows, double compute_s, tri_price *price) {
  const double beside = pricer->cluster->beside, over = rows < compute_s / beside ? rows : compute_s / beside;
  price->along_s[tri_domain_axis(TRI_DOMAIN_EXPERT)] -= over;
  price->compute_s += over * (1 - beside);
  return over;
}

static bool goes_beside(const tri_pricer *pricer) {
  return pricer->system->overlap_experts && !pricer->cluster->carries;
}

/* Prices a call that waits in its forward for rows that an earlier call sends. Their transfer overlaps with the calls
 * between the two, in the forward and in its recomputation. In the backward the rows' gradients go the other way, and
 * the earlier call waits (price_returned). */
static void price_awaited(tri_pricer *pricer, const tri_op_list *list, const tri_op_call *call, tri_call_price *out) {
  const int64_t sender = list->slots[call->inputs[0]].producer;
  const double rows = rows_s(pricer, call, TRI_PASS_FORWARD);
  if (tri_price_recomputes(pricer->system, pricer->layout, call)) {
    lay_beside(pricer, rows, between_s(pricer, list, sender, call->index, TRI_PASS_FORWARD, true), &out->recompute);
  }
  lay_beside(pricer, rows, between_s(pricer, list, sender, call->index, TRI_PASS_FORWARD, false), &out->forward);
}

static void price_returned(tri_pricer *pricer, const tri_op_list *list, const tri_op_call *call, tri_call_price *out) {
  const int64_t awaiting = list->slots[call->outputs[0]].last_consumer;
  const double rows = rows_s(pricer, call, TRI_PASS_BACKWARD_INPUT);
  if (!list->calls[awaiting].op->awaits) return;
  double inputs_s = between_s(pricer, list, call->index, awaiting, TRI_PASS_BACKWARD_INPUT, false);
  double weights_s = between_s(pricer, list, call->index, awaiting, TRI_PASS_BACKWARD_WEIGHT, false);
  double over = lay_beside(pricer, rows, inputs_s, &out->backward_input);
  lay_beside(pricer, rows - over, weights_s, &out->together);
}

/* ---- offload to the host ----------------------------------------------------------------------------------------- */

double tri_price_kept_bytes(const tri_system *system, const tri_op_list *list, int64_t call) {
  const tri_call_range layer = tri_op_list_layer(list, call);
  double bytes = 0;
  for (int32_t s = 0; s < list->num_slots; s++) {
    const tri_slot *slot = &list->slots[s];
    const bool mine = slot->producer >= layer.first && slot->producer < layer.end && slot->memory_of == s;
    if (!mine || slot->recomputed || !tri_op_list_keeps(list, s)) continue;
    if (!tri_price_gathers_again(system, list, &list->calls[slot->producer]))
      bytes += (double)tri_shape_bytes(&slot->shape);
  }
  return bytes;
}

/* ---- a call ------------------------------------------------------------------------------------------------------ */

void tri_pricer_call(tri_pricer *pricer, const tri_op_list *list, int64_t at, tri_call_price *out) {
  const tri_op_call *call = &list->calls[at];
  *out = (tri_call_price){.forward = price_pass(pricer, call, TRI_PASS_FORWARD)};
  if (call->op->backward_input != NULL) out->backward_input = price_pass(pricer, call, TRI_PASS_BACKWARD_INPUT);
  if (tri_op_has_weights(call)) out->backward_weight = price_pass(pricer, call, TRI_PASS_BACKWARD_WEIGHT);
  if (tri_price_recomputes(pricer->system, pricer->layout, call)) out->recompute = out->forward;
  if (call->outputs[0] >= 0) price_beside(pricer, list, call, out);
  if (!goes_beside(pricer)) return;
  if (call->op->awaits) price_awaited(pricer, list, call, out);
  if (call->outputs[0] >= 0) price_returned(pricer, list, call, out);
}

/* Returns the seconds of computation of a pass, without the copies before and after the kernel. */
static double pairs_s(const tri_pricer *pricer, const tri_op_call *call, tri_pass pass, const tri_price *price) {
  tri_cost cost = {0};
  tri_op_cost(call, pass, &cost);
  double elements = cost.copied / 2 / (double)tri_dtype_bytes(call->type);
  if (cost.copied <= 0) return price->compute_s;
  return price->compute_s - tri_price_work(pricer->cluster, call->type, TRI_WORK_COPY, elements, cost.copied);
}

tri_attention_price tri_pricer_attention(tri_pricer *pricer, const tri_op_list *list, int64_t at) {
  const tri_op_call *call = &list->calls[at];
  tri_cost cost = {0};
  tri_call_price price;
  tri_op_cost(call, TRI_PASS_FORWARD, &cost);
  if (cost.scores <= 0) return (tri_attention_price){0, 0};
  tri_pricer_call(pricer, list, at, &price);
  double forward_s = pairs_s(pricer, call, TRI_PASS_FORWARD, &price.forward);
  double again_s = tri_price_recomputes(pricer->system, pricer->layout, call) ? forward_s : 0;
  return (tri_attention_price){forward_s,
                               again_s + pairs_s(pricer, call, TRI_PASS_BACKWARD_INPUT, &price.backward_input)};
}
