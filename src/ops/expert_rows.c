/* The rows of experts (experts_internal.h): the sizes that are known when a list is created, the windows of a pool and
 * their tables, and the exchange of rows between ranks. */
#include "base/count.h"
#include "base/memory.h"
#include "device/kernels.h"
#include "mesh/parts.h"
#include "ops/context.h"
#include "ops/experts_internal.h"

#include <math.h>

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

/* Sets the tokens of a micro-batch on this rank, and on the rank with the most tokens. */
static void find_rows(const tri_op_list *list, int64_t *own, int64_t *most) {
  const tri_op_context context = tri_op_list_context(list);
  int64_t first = 0, tokens = 0;
  *own = list->batch * list->sequence;
  for (int64_t r = 0; r < context.ranks; r++) tokens = tri_larger(tokens, tri_op_context_rows(&context, r));
  *most = list->batch * tokens;
  if (!list->sliced) return;
  tri_op_list_slice(list, TRI_DOMAIN_TENSOR, &first, own);
  *most = tri_divide_up(*most, tri_op_list_ranks(list, TRI_DOMAIN_TENSOR));
}

static tri_status keep_holders(tri_op_list *list, int64_t holders, tri_expert_rows *at) {
  int64_t *begins = NULL;
  const void *kept = NULL;
  TRI_TRY(tri_alloc("holders of experts", (size_t)holders + 1, sizeof *begins, &begins));
  for (int64_t h = 0; h <= holders; h++) begins[h] = tri_part_begin(at->experts, holders, h);
  tri_status status = tri_op_list_keep(list, begins, ((size_t)holders + 1) * sizeof *begins, &kept);
  tri_free(begins);
  at->holder_begins = kept;
  return status;
}

double tri_expert_rows_asked(const tri_op_list *list, const tri_expert_rows *at) {
  const int64_t holders = at->ranks / at->tensor_ranks;
  const double imbalance = list->shard.expert_imbalance > 0 ? list->shard.expert_imbalance : 1;
  const double share = (double)tri_divide_up(at->experts, holders) / (double)at->experts;
  return (double)(at->ranks * at->most_pairs) * share * imbalance;
}

static double expected_rows(const tri_op_list *list, const tri_expert_rows *at) {
  const double rows = tri_expert_rows_asked(list, at);
  const int64_t most = at->most_of_expert > 0 ? at->capacity : at->most;
  return rows < (double)most ? rows : (double)most;
}

/* Sets `most`, `capacity` and `most_of_expert`. The result is the same on all ranks. */
static void find_capacity(const tri_op_list *list, int64_t most_rows, int64_t holders, tri_expert_rows *at) {
  const double room = list->shard.expert_capacity > 0 ? list->shard.expert_capacity : 1.5;
  const int64_t most_experts = tri_divide_up(at->experts, holders), all = at->ranks * at->most_pairs;
  at->most = at->ranks * most_rows * tri_smaller(at->chosen, most_experts);
  at->capacity = at->most;
  if (list->shard.capacity_drop) {
    at->most_of_expert = tri_larger(1, (int64_t)ceil(room * (double)all / (double)at->experts));
    at->capacity = tri_smaller(at->most, most_experts * at->most_of_expert);
  } else if (at->ranks > 1) {
    at->capacity = tri_smaller(at->most, tri_larger(1, (int64_t)ceil(room * (double)all / (double)holders)));
  }
}

static int64_t allocate_row_state_range(int64_t *end, int64_t length) {
  const int64_t first = *end;
  *end += tri_divide_up(length, 16) * 16;
  return first;
}

tri_status tri_expert_rows_plan(tri_op_list *list, const tri_expert_layer *layer, tri_expert_rows *out) {
  tri_expert_rows at = {.ranks = tri_op_list_ranks(list, TRI_DOMAIN_EXPERT),
                        .rank = tri_op_list_rank(list, TRI_DOMAIN_EXPERT),
                        .tensor_ranks = tri_op_list_ranks(list, TRI_DOMAIN_EXPERT_TENSOR),
                        .experts = layer->router.experts,
                        .chosen = layer->router.chosen,
                        .width = layer->width,
                        .router = list->num_routers - 1};
  if (list->generating) at.ranks = at.tensor_ranks = 1, at.rank = 0; /* rows stay on their rank (expert_layer.c) */
  const int64_t holders = at.ranks / at.tensor_ranks, holder = at.rank / at.tensor_ranks;
  int64_t rows = 0, most_rows = 0;
  find_rows(list, &rows, &most_rows);
  at.pairs = rows * at.chosen;
  at.most_pairs = most_rows * at.chosen;
  TRI_TRY(keep_holders(list, holders, &at));
  at.first_expert = at.holder_begins[holder];
  at.num_experts = at.holder_begins[holder + 1] - at.first_expert;
  find_capacity(list, most_rows, holders, &at);
  at.expected = expected_rows(list, &at);
  at.kept = at.most_of_expert > 0 ? allocate_row_state_range(&at.length, at.pairs) : 0;
  at.begins = allocate_row_state_range(&at.length, at.experts + 1);
  at.order = allocate_row_state_range(&at.length, at.pairs);
  at.sources = allocate_row_state_range(&at.length, at.pairs);
  at.places = allocate_row_state_range(&at.length, at.pairs);
  const bool travel = tri_expert_rows_travel(&at);
  at.here = travel ? allocate_row_state_range(&at.length, at.num_experts + 1) : at.begins;
  at.arrivals = travel ? allocate_row_state_range(&at.length, at.capacity) : 0;
  *out = at;
  return TRI_OK;
}

/* ---- host state -------------------------------------------------------------------------------------------------- */

static void *allocate_host_state_part(char *base, size_t *end, int64_t count, size_t size) {
  void *at = base == NULL ? NULL : base + *end;
  *end = tri_bytes_plus(*end, tri_bytes_in_lines(tri_bytes_times((size_t)count, size)));
  return at;
}

static size_t lay_out(const tri_expert_rows *at, char *base, tri_expert_host_state *n) {
  const int64_t several = tri_expert_rows_travel(at) ? at->ranks + 1 : 0, dropped = at->most_of_expert > 0;
  size_t end = 0;
  n->transfer = allocate_host_state_part(base, &end, 1, sizeof *n->transfer);
  n->windows = allocate_host_state_part(base, &end, 1, sizeof *n->windows);
  n->begins = allocate_host_state_part(base, &end, several > 0 || dropped ? at->ranks * (at->experts + 1) : 0,
                                       sizeof *n->begins);
  n->first_place = allocate_host_state_part(base, &end, several, sizeof *n->first_place);
  n->sent = allocate_host_state_part(base, &end, several, sizeof *n->sent);
  n->received = allocate_host_state_part(base, &end, several, sizeof *n->received);
  n->sent_elements = allocate_host_state_part(base, &end, several, sizeof *n->sent_elements);
  n->received_elements = allocate_host_state_part(base, &end, several, sizeof *n->received_elements);
  n->here = allocate_host_state_part(base, &end, several > 0 ? at->num_experts + 1 : 0, sizeof *n->here);
  n->arrivals = allocate_host_state_part(base, &end, several > 0 ? at->capacity : 0, sizeof *n->arrivals);
  n->experts = allocate_host_state_part(base, &end, dropped ? at->pairs : 0, sizeof *n->experts);
  n->left = allocate_host_state_part(base, &end, dropped ? at->experts : 0, sizeof *n->left);
  return end;
}

size_t tri_expert_notes_bytes(const tri_expert_rows *at) {
  tri_expert_host_state host_state;
  if (!tri_expert_rows_travel(at) && at->most_of_expert == 0) return 0;
  return lay_out(at, NULL, &host_state);
}

tri_expert_host_state tri_expert_host_state_of(const tri_expert_rows *at, void *memory) {
  tri_expert_host_state host_state = {0};
  if (memory != NULL) (void)lay_out(at, memory, &host_state);
  return host_state;
}

/* ---- windows ----------------------------------------------------------------------------------------------------- */

static int64_t rows_of(const tri_expert_rows *at, const tri_expert_host_state *n, int64_t rank, int64_t expert) {
  const int32_t *begins = n->begins + rank * (at->experts + 1) + expert;
  return begins[1] - begins[0];
}

int64_t tri_expert_windows(const tri_expert_rows *at, const tri_expert_host_state *n) {
  int64_t most = 0;
  for (int64_t h = 0; h < at->ranks / at->tensor_ranks; h++) {
    int64_t pool = 0;
    for (int64_t r = 0; r < at->ranks; r++) {
      const int32_t *begins = n->begins + r * (at->experts + 1);
      pool += begins[at->holder_begins[h + 1]] - begins[at->holder_begins[h]];
    }
    most = tri_larger(most, pool);
  }
  return tri_larger(1, tri_divide_up(most, at->capacity));
}

/* The intersection of a window with the consecutive rows of a pool that have the same expert and source rank. */
typedef struct row_range {
  int64_t into, count; /* the intersection is rows [into, into + count) of the consecutive rows, and begins at row `row`
                          of the window */
  int64_t row;
} row_range;

static row_range within(int64_t first, int64_t rows, int64_t window_first, int64_t window_end) {
  const int64_t from = tri_larger(first, window_first), to = tri_smaller(first + rows, window_end);
  return (row_range){from - first, tri_larger(0, to - from), from - window_first};
}

/* Sets the number of rows that this rank sends to a holder in a window, and the first place that it sends. If
 * `received` is not NULL, adds the rows that each rank r sends to the holder to received[r + 1]. */
static void window_of_holder(const tri_expert_rows *at, const tri_expert_host_state *n, int64_t window, int64_t holder,
                             int64_t *first_place, int64_t *sent, int64_t *received) {
  const int64_t first = window * at->capacity, end = first + at->capacity;
  int64_t row = 0;
  *sent = 0;
  *first_place = 0;
  for (int64_t e = at->holder_begins[holder]; e < at->holder_begins[holder + 1]; e++) {
    for (int64_t r = 0; r < at->ranks; r++) {
      const int64_t rows = rows_of(at, n, r, e);
      const row_range s = within(row, rows, first, end);
      row += rows;
      if (s.count == 0) continue;
      if (received != NULL) received[r + 1] += s.count;
      if (r != at->rank) continue;
      if (*sent == 0) *first_place = n->begins[at->rank * (at->experts + 1) + e] + s.into;
      *sent += s.count;
    }
  }
}

void tri_expert_window(const tri_expert_rows *at, const tri_expert_host_state *n, int64_t window) {
  for (int64_t r = 0; r <= at->ranks; r++) n->received[r] = 0;
  n->sent[0] = 0;
  for (int64_t p = 0; p < at->ranks; p++) {
    const int64_t holder = p / at->tensor_ranks;
    int64_t sent = n->sent[p] - (p > 0 ? n->sent[p - 1] : 0);
    if (p % at->tensor_ranks == 0) {
      bool own = holder == at->rank / at->tensor_ranks;
      window_of_holder(at, n, window, holder, &n->first_place[p], &sent, own ? n->received : NULL);
    } else {
      n->first_place[p] = n->first_place[p - 1];
    }
    n->sent[p + 1] = n->sent[p] + sent;
  }
  for (int64_t r = 0; r < at->ranks; r++) n->received[r + 1] += n->received[r];
}

void tri_expert_arrivals(const tri_expert_rows *at, const tri_expert_host_state *n, int64_t window, int32_t *here,
                         int32_t *arrivals) {
  const int64_t first = window * at->capacity, end = first + at->capacity;
  int64_t *next = n->received_elements; /* index of the next row that arrives from each source */
  int64_t row = 0;
  for (int64_t r = 0; r < at->ranks; r++) next[r] = n->received[r];
  for (int64_t i = 0; i < at->num_experts; i++) {
    here[i] = (int32_t)(tri_larger(first, tri_smaller(row, end)) - first);
    for (int64_t r = 0; r < at->ranks; r++) {
      const int64_t rows = rows_of(at, n, r, at->first_expert + i);
      const row_range s = within(row, rows, first, end);
      for (int64_t k = 0; k < s.count; k++) arrivals[next[r]++] = (int32_t)(s.row + k);
      row += rows;
    }
  }
  here[at->num_experts] = (int32_t)(tri_larger(first, tri_smaller(row, end)) - first);
}

/* ---- travel ------------------------------------------------------------------------------------------------------ */

/* Returns the bytes of the first part of the transfer buffer: rows that this rank sends or gets back. The rows of a
 * window follow. */
static size_t own_bytes(const tri_expert_rows *at, tri_dtype type) {
  size_t rows = (size_t)(at->most_pairs * at->tensor_ranks), element = tri_dtype_bytes(type);
  size_t numbers = tri_bytes_times(rows, tri_dtype_bytes(tri_dtype_wide(type)));
  size_t values = tri_bytes_times(tri_bytes_times(rows, (size_t)at->width), element);
  return tri_bytes_in_lines(values > numbers ? values : numbers);
}

size_t tri_expert_passing_bytes(const tri_op_call *call, const tri_expert_rows *at) {
  const size_t rows = (size_t)at->capacity;
  size_t numbers = tri_bytes_times(rows, tri_dtype_bytes(tri_dtype_wide(call->type)));
  size_t values = tri_bytes_times(tri_bytes_times(rows, (size_t)at->width), tri_dtype_bytes(call->type));
  if (!tri_expert_rows_travel(at)) return 0;
  return tri_bytes_plus(own_bytes(at, call->type), tri_bytes_in_lines(values > numbers ? values : numbers));
}

tri_travel tri_expert_travel(const tri_run *run, const tri_op_call *call, const tri_expert_rows *at,
                             const tri_expert_host_state *host_state, const int32_t *arrivals) {
  char *own = run->transfer;
  return (tri_travel){.at = at,
                      .host_state = host_state,
                      .arrivals = arrivals,
                      .type = call->type,
                      .width = at->width,
                      .own = own,
                      .window = own + own_bytes(at, call->type)};
}

tri_travel tri_expert_numbers_travel(tri_travel travel) {
  travel.type = tri_dtype_wide(travel.type);
  travel.width = 1;
  return travel;
}

static char *row_at(const tri_travel *t, const void *rows, int64_t row) {
  return (char *)(uintptr_t)rows + (size_t)(row * t->width) * tri_dtype_bytes(t->type);
}

static tri_status copy(tri_run *run, const tri_travel *t, int64_t rows, const int32_t *from_rows, const void *from,
                       const int32_t *to_rows, void *to) {
  const tri_row_copy what = {tri_all_rows(rows), t->width, t->type, t->type, t->width, t->width};
  if (rows == 0) return TRI_OK;
  TRI_KERNEL_CALL(run->queue, copy_rows, &what, from_rows, from, to_rows, to);
  return TRI_OK;
}

static void set_elements(const tri_travel *t) {
  const tri_expert_host_state *n = t->host_state;
  for (int64_t r = 0; r <= t->at->ranks; r++) {
    n->sent_elements[r] = n->sent[r] * t->width;
    n->received_elements[r] = n->received[r] * t->width;
  }
}

/* Copies the rows for several adjacent ranks with one kernel if their places are adjacent, too. */
tri_status tri_expert_send_start(tri_run *run, const tri_travel *t, const int32_t *map, const void *x,
                                 tri_transfer **out) {
  const tri_expert_host_state *n = t->host_state;
  const int64_t ranks = t->at->ranks;
  for (int64_t p = 0, next; p < ranks; p = next) {
    next = p + 1;
    while (next < ranks && n->first_place[next] == n->first_place[p] + n->sent[next] - n->sent[p]) next++;
    TRI_TRY(copy(run, t, n->sent[next] - n->sent[p], map + n->first_place[p], x, NULL, row_at(t, t->own, n->sent[p])));
  }
  set_elements(t);
  return tri_run_all_to_all_start(run, TRI_DOMAIN_EXPERT, t->type, n->sent_elements, t->own, n->received_elements,
                                  t->window, out);
}

tri_status tri_expert_send_end(tri_run *run, const tri_travel *t, tri_transfer **transfer, void *window) {
  TRI_TRY(tri_run_pass_wait(run, transfer));
  return copy(run, t, t->host_state->received[t->at->ranks], NULL, t->window, t->arrivals, window);
}

tri_status tri_expert_send(tri_run *run, const tri_travel *travel, const int32_t *map, const void *x, void *window) {
  tri_transfer *transfer = NULL;
  TRI_TRY(tri_expert_send_start(run, travel, map, x, &transfer));
  return tri_expert_send_end(run, travel, &transfer, window);
}

tri_status tri_expert_return_start(tri_run *run, const tri_travel *t, const void *window, tri_transfer **out) {
  const tri_expert_host_state *n = t->host_state;
  TRI_TRY(copy(run, t, n->received[t->at->ranks], t->arrivals, window, NULL, t->window));
  set_elements(t);
  return tri_run_all_to_all_start(run, TRI_DOMAIN_EXPERT, t->type, n->received_elements, t->window, n->sent_elements,
                                  t->own, out);
}

/* Sums the rows that a holder's ranks return, in the order of the ranks. */
static tri_status add_parts(tri_run *run, const tri_travel *t, int64_t p, void *places) {
  const tri_expert_host_state *n = t->host_state;
  const int64_t rows = n->sent[p + 1] - n->sent[p];
  char *to = row_at(t, places, n->first_place[p]);
  TRI_TRY(copy(run, t, rows, NULL, row_at(t, t->own, n->sent[p]), NULL, to));
  for (int64_t i = 1; i < t->at->tensor_ranks && rows > 0; i++) {
    TRI_KERNEL_CALL(run->queue, add, t->type, tri_all_rows(rows), t->width, to, row_at(t, t->own, n->sent[p + i]), to);
  }
  return TRI_OK;
}

tri_status tri_expert_return_end(tri_run *run, const tri_travel *t, tri_transfer **transfer, void *places,
                                 const void **out) {
  const tri_expert_rows *at = t->at;
  TRI_TRY(tri_run_pass_wait(run, transfer));
  *out = t->own;
  if (at->tensor_ranks == 1 && *t->host_state->windows == 1) return TRI_OK;
  for (int64_t p = 0; p < at->ranks; p += at->tensor_ranks) TRI_TRY(add_parts(run, t, p, places));
  *out = places;
  return TRI_OK;
}

tri_status tri_expert_return(tri_run *run, const tri_travel *travel, const void *window, void *places,
                             const void **out) {
  tri_transfer *transfer = NULL;
  TRI_TRY(tri_expert_return_start(run, travel, window, &transfer));
  return tri_expert_return_end(run, travel, &transfer, places, out);
}

/* Copies each holder's numbers with one kernel: the places of a holder are adjacent, and so are those of its rows in a
 * window. */
tri_status tri_expert_pairs_of_places(tri_run *run, const tri_travel *t, const int32_t *order, const void *places,
                                      void *pairs) {
  const tri_expert_host_state *n = t->host_state;
  for (int64_t p = 0; p < t->at->ranks; p += t->at->tensor_ranks) {
    const int64_t first = n->first_place[p];
    TRI_TRY(copy(run, t, n->sent[p + 1] - n->sent[p], NULL, row_at(t, places, first), order + first, pairs));
  }
  return TRI_OK;
}

/* ---- costs ------------------------------------------------------------------------------------------------------- */

double tri_expert_rows_later_windows(const tri_expert_rows *at) {
  if (!tri_expert_rows_come_again(at) || at->expected <= (double)at->capacity) return 0;
  return ceil(at->expected / (double)at->capacity) - 1;
}

tri_cost_exchange tri_expert_exchange(const tri_expert_rows *at, double rows, double bytes, double times) {
  /* This assumes that a window has the same fraction of the rows that a rank sends as of the rows of a pool. */
  const double sent = tri_expert_rows_sent(at) * (at->expected > 0 ? rows / at->expected : 1);
  return (tri_cost_exchange){.collective = TRI_COLLECTIVE_ALL_TO_ALL,
                             .domain = TRI_DOMAIN_EXPERT,
                             .bytes = (sent > rows ? sent : rows) * bytes,
                             .times = times};
}
