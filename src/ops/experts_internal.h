/* Shared by the files of a layer of experts: the rows of experts, their order, and their exchange between ranks.
 *
 * A pair is a token and one of its experts: pair row * K + j. The pairs of a rank, sorted by expert, then row, are its
 * places. The ranks of the domain EXPERT send each other the rows of their pairs. A holder is a group of `tensor_ranks`
 * of these ranks, which hold parts of the same experts and all receive the same rows. The rows that a holder receives
 * are its pool, in the order (expert, source rank, place); it is processed in windows of `capacity` rows, nearly always
 * only one. Every rank knows how many rows each rank has for each expert, so that all compute the same windows. */
#ifndef TRI_OPS_EXPERTS_INTERNAL_H
#define TRI_OPS_EXPERTS_INTERNAL_H

#include "ops/experts.h"
#include "ops/ops.h"
#include "ops/run.h"

/* Output slots of a router. */
typedef struct tri_routed {
  int32_t experts, weights;
} tri_routed;

tri_status tri_op_route(tri_op_list *list, const tri_expert_layer *layer, int32_t x, int32_t router, int32_t bias,
                        tri_routed *out);

/* Sizes that are known when a list is made; the same for all calls of a layer. */
typedef struct tri_expert_rows {
  int64_t ranks, rank, tensor_ranks; /* of the domain EXPERT; ranks of a holder */
  int64_t experts, chosen, width;    /* of the layer; experts of a token; width of the residual stream */
  int64_t first_expert, num_experts; /* experts of this rank */
  const int64_t *holder_begins;      /* [holders + 1]: holder h has experts [holder_begins[h], holder_begins[h + 1]) */
  int64_t pairs, most_pairs;         /* of this rank, and of the rank that has most, with the planned micro-batch */
  int64_t capacity, most;            /* rows of a window; most rows of a pool */
  int32_t router;                    /* number of the router in the list */
  double expected;                   /* rows of the largest pool that the layer is priced for */
  int64_t most_of_expert;            /* most rows of an expert from all ranks; further ones are dropped; 0: never */
  /* The tables are one slot of int32: offsets of each table, and their total length. */
  int64_t kept;     /* [pairs]: the router's experts, without those of dropped rows; only if most_of_expert > 0 */
  int64_t begins;   /* [experts + 1]: first place of each expert */
  int64_t order;    /* [pairs]: the pair of each place */
  int64_t sources;  /* [pairs]: the row of each place */
  int64_t places;   /* [pairs]: the place of each pair; -1: dropped, or padding */
  int64_t here;     /* [num_experts + 1]: first row of each expert in the window; with one rank the same as `begins` */
  int64_t arrivals; /* [capacity]: the row of the window for each received row; only with several ranks */
  int64_t length;
} tri_expert_rows;

tri_status tri_expert_rows_plan(tri_op_list *list, const tri_expert_layer *layer, tri_expert_rows *out);

/* Whether rows are exchanged between ranks. */
static inline bool tri_expert_rows_travel(const tri_expert_rows *at) { return at->ranks > 1; }
/* Whether a pool may have more rows than a window, so that there are several windows. */
static inline bool tri_expert_rows_come_again(const tri_expert_rows *at) {
  return at->capacity < at->most && at->most_of_expert == 0;
}

/* The expected rows of the first window. */
static inline double tri_expert_rows_first(const tri_expert_rows *at) {
  return at->expected < (double)at->capacity ? at->expected : (double)at->capacity;
}
/* The expected number of further windows. */
double tri_expert_rows_later_windows(const tri_expert_rows *at);
/* The rows of the holder with most experts, which the others wait for, with the requested imbalance; `expected` is the
 * same, but not more than is possible. */
double tri_expert_rows_asked(const tri_op_list *list, const tri_expert_rows *at);

/* What the host knows about the rows of a micro-batch: the host state of the layer's dispatch call. */
typedef struct tri_expert_host_state {
  tri_transfer **transfer; /* the one under way */
  int64_t *windows;        /* their number */
  int32_t *begins;         /* [ranks, experts + 1]: first place of each expert, on each rank */
  /* Of the current window (tri_expert_window). */
  int64_t *first_place;                       /* [ranks]: first of this rank's places that are sent to each rank */
  int64_t *sent, *received;                   /* [ranks + 1]: first row for each rank among those sent; received */
  int64_t *sent_elements, *received_elements; /* [ranks + 1]: the same in elements */
  int32_t *here, *arrivals;                   /* of the first window, before they are copied to the tables */
  int32_t *experts, *left;                    /* [pairs], [experts]: scratch, only if rows may be dropped */
} tri_expert_host_state;

size_t tri_expert_notes_bytes(const tri_expert_rows *at);
tri_expert_host_state tri_expert_host_state_of(const tri_expert_rows *at, void *host_state);

/* Makes a window the current one: sets which of this rank's places are sent, and how many rows each rank sends. */
void tri_expert_window(const tri_expert_rows *at, const tri_expert_host_state *host_state, int64_t window);
/* The number of windows, once all `begins` are known. */
int64_t tri_expert_windows(const tri_expert_rows *at, const tri_expert_host_state *host_state);
/* After tri_expert_window: sets here[num_experts + 1] and arrivals[capacity] (tri_expert_rows) of that window. */
void tri_expert_arrivals(const tri_expert_rows *at, const tri_expert_host_state *host_state, int64_t window,
                         int32_t *here, int32_t *arrivals);

/* ---- exchange of rows -------------------------------------------------------------------------------------------- */

typedef struct tri_travel {
  const tri_expert_rows *at;
  const tri_expert_host_state *host_state; /* with the current window */
  const int32_t *arrivals;                 /* of that window, in device memory */
  tri_dtype type;
  int64_t width;      /* numbers of each row: those of the residual stream, or one weight */
  char *own, *window; /* parts of the transfer buffer: for rows of this rank's pairs, and of a window */
} tri_travel;

/* The exchange of rows of the residual stream; and of one number of the wide type for each row. */
tri_travel tri_expert_travel(const tri_run *run, const tri_op_call *call, const tri_expert_rows *at,
                             const tri_expert_host_state *host_state, const int32_t *arrivals);
tri_travel tri_expert_numbers_travel(tri_travel travel);

/* Bytes of the transfer buffer. */
size_t tri_expert_passing_bytes(const tri_op_call *call, const tri_expert_rows *at);

/* Sends to the holders: rows map[place] of x become rows of the window. In two halves, between which no other rows may
 * be exchanged; or at once. */
tri_status tri_expert_send_start(tri_run *run, const tri_travel *travel, const int32_t *map, const void *x,
                                 tri_transfer **out);
tri_status tri_expert_send_end(tri_run *run, const tri_travel *travel, tri_transfer **transfer, void *window);
tri_status tri_expert_send(tri_run *run, const tri_travel *travel, const int32_t *map, const void *x, void *window);

/* The reverse: rows of the window go back to their places. *out: the rows [pairs, width] by place. It is `places`, or,
 * if there is only one window, the transfer buffer, until the next rows are exchanged. The rows that several ranks of a
 * holder return are summed. */
tri_status tri_expert_return_start(tri_run *run, const tri_travel *travel, const void *window, tri_transfer **out);
tri_status tri_expert_return_end(tri_run *run, const tri_travel *travel, tri_transfer **transfer, void *places,
                                 const void **out);
tri_status tri_expert_return(tri_run *run, const tri_travel *travel, const void *window, void *places,
                             const void **out);

/* Copies numbers from places to their pairs, for the places of the current window only. */
tri_status tri_expert_pairs_of_places(tri_run *run, const tri_travel *travel, const int32_t *order, const void *places,
                                      void *pairs);

/* ---- costs ------------------------------------------------------------------------------------------------------- */

/* Bytes of a row, and of the one number that belongs to it. */
static inline double tri_expert_row_bytes(const tri_op_call *call, const tri_expert_rows *at) {
  return (double)at->width * (double)tri_dtype_bytes(call->type);
}
static inline double tri_expert_number_bytes(const tri_op_call *call) {
  return (double)tri_dtype_bytes(tri_dtype_wide(call->type));
}

/* The number of rows that a rank sends to the holders and receives back: a row of each pair for each rank of its
 * holder.
 */
static inline double tri_expert_rows_sent(const tri_expert_rows *at) { return (double)(at->pairs * at->tensor_ranks); }

/* The cost of sending `rows` rows of a pool, of `bytes` bytes each, there or back: that of the rank which sends or
 * receives most. */
tri_cost_exchange tri_expert_exchange(const tri_expert_rows *at, double rows, double bytes, double times);

/* ---- calls of the list ------------------------------------------------------------------------------------------- */

/* The table with that offset (tri_expert_rows) in the slot of tables. */
static inline const int32_t *tri_expert_table(const tri_run *run, int32_t slot, int64_t first) {
  return (const int32_t *)run->slots[slot] + first;
}

/* Output slots of a dispatch call, and its number. */
typedef struct tri_dispatched {
  int32_t rows, weights, tables;
  int32_t call;
} tri_dispatched;

/* Append the call that starts to send rows, and the call that waits for them, after which they are in `rows`. */
tri_status tri_op_dispatch(tri_op_list *list, const tri_expert_rows *at, int32_t x, tri_routed routed,
                           tri_dispatched *out);
tri_status tri_op_arrive(tri_op_list *list, const tri_expert_rows *at, tri_dispatched *dispatched);

tri_status tri_op_experts(tri_op_list *list, const tri_expert_rows *at, int64_t in, int64_t out_width, int32_t rows,
                          int32_t tables, int32_t parameter, int32_t *out);
/* The gated activation, times the row's weight. */
tri_status tri_op_weighted_gated(tri_op_list *list, const tri_expert_rows *at, tri_activation kind, int64_t width,
                                 int32_t x, int32_t weights, int32_t tables, int32_t *out);
/* The products of an `experts` call on other rows than its own. */
tri_status tri_experts_multiply(tri_run *run, const tri_op_call *experts, const int32_t *begins, const void *x, void *y,
                                void *workspace);
tri_status tri_experts_multiply_back(tri_run *run, const tri_op_call *experts, const int32_t *begins,
                                     const void *gradient_y, void *gradient_x, bool accumulate, void *workspace);
tri_status tri_experts_accumulate(tri_run *run, const tri_op_call *experts, const int32_t *begins, const void *x,
                                  const void *gradient_y, void *workspace);
tri_status tri_experts_workspace(const tri_op_call *experts, const tri_device_description *device, size_t *bytes);

/* The numbers of the layer's calls, with which `combine` processes further windows; -1: matrices without factors. */
typedef struct tri_expert_calls {
  int32_t dispatch, gate_up, down;
  int32_t gate_up_factors, down_factors;
} tri_expert_calls;

tri_status tri_op_combine(tri_op_list *list, const tri_expert_rows *at, const tri_expert_calls *calls, int64_t ffn,
                          tri_activation activation, int32_t rows, int32_t tables, int32_t x, int32_t weights,
                          int32_t *out);

/* The call with that number in the list of `call`. */
static inline const tri_op_call *tri_expert_call(const tri_op_call *call, int32_t number) {
  return call + (number - call->index);
}

#endif
