/* Shared by the files of a layer of experts: the rows of experts, their order, and their exchange between ranks.
 *
 * A *pair* is a token and one of its experts: pair row * K + j. The *places* of a rank are its pairs, sorted by expert,
 * then row. The ranks of the domain EXPERT send each other the rows of their pairs. A *holder* is a group of
 * `tensor_ranks` of these ranks, which have parts of the same experts and all receive the same rows. The *pool* of a
 * holder is the rows that it receives, in the order (expert, source rank, place); it is processed in *windows* of
 * `capacity` rows, nearly always only one. Every rank knows how many rows each rank has for each expert, so that all
 * compute the same windows. */
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

/* Sizes of the rows of experts, which are known when a list is created, and are the same for all calls of a layer. */
typedef struct tri_expert_rows {
  int64_t ranks, rank, tensor_ranks; /* size of the domain EXPERT; index of this rank in it; number of ranks of a
                                        holder */
  int64_t experts, chosen, width;    /* number of experts of the layer, and of experts that a token uses; width of the
                                        residual stream */
  int64_t first_expert, num_experts; /* this rank has experts [first_expert, first_expert + num_experts) */
  const int64_t *holder_begins;      /* [holders + 1]: holder h has experts [holder_begins[h], holder_begins[h + 1]) */
  int64_t pairs, most_pairs; /* pairs of this rank, and of the rank with the most pairs, in the planned micro-batch */
  int64_t capacity, most;    /* rows of a window; maximum rows of a pool */
  int32_t router;            /* index of the router among the routers of the list */
  double expected;           /* rows that the cost assumes for the largest pool */
  int64_t most_of_expert;    /* maximum rows of an expert, all ranks; further rows are dropped; 0: no limit */
  /* The tables share one slot of int32; below are the offset of each table, and the total length. */
  int64_t kept;     /* [pairs]: the router's experts, -1 for dropped pairs; only if most_of_expert > 0 */
  int64_t begins;   /* [experts + 1]: first place of each expert */
  int64_t order;    /* [pairs]: the pair of each place */
  int64_t sources;  /* [pairs]: the row of each place */
  int64_t places;   /* [pairs]: the place of each pair; -1: dropped, or padding */
  int64_t here;     /* [num_experts + 1]: first row of each expert in the window; equals `begins` with one rank */
  int64_t arrivals; /* [capacity]: the row of the window for each received row; only with several ranks */
  int64_t length;
} tri_expert_rows;

tri_status tri_expert_rows_plan(tri_op_list *list, const tri_expert_layer *layer, tri_expert_rows *out);

/* Returns whether rows are exchanged between ranks. */
static inline bool tri_expert_rows_travel(const tri_expert_rows *at) { return at->ranks > 1; }
/* Returns whether a pool may have more rows than a window, which makes several windows. */
static inline bool tri_expert_rows_come_again(const tri_expert_rows *at) {
  return at->capacity < at->most && at->most_of_expert == 0;
}

/* Returns the expected rows of the first window. */
static inline double tri_expert_rows_first(const tri_expert_rows *at) {
  return at->expected < (double)at->capacity ? at->expected : (double)at->capacity;
}
/* Returns the expected number of further windows. */
double tri_expert_rows_later_windows(const tri_expert_rows *at);
/* Returns the number of rows of the holder with the most experts under the requested imbalance; the other holders wait
 * for this one. `expected` is this number, limited to the rows that a pool can have. */
double tri_expert_rows_asked(const tri_op_list *list, const tri_expert_rows *at);

/* Row counts of a micro-batch in host memory: the host state of the layer's dispatch call. */
typedef struct tri_expert_host_state {
  tri_transfer **transfer; /* transfer in progress */
  int64_t *windows;        /* number of windows */
  int32_t *begins;         /* [ranks, experts + 1]: first place of each expert, on each rank */
  /* The members below are for the current window (tri_expert_window). */
  int64_t *first_place;     /* [ranks]: first of this rank's places that are sent to each rank */
  int64_t *sent, *received; /* [ranks + 1], first row of each rank in the send buffer, and in the receive buffer */
  int64_t *sent_elements, *received_elements; /* [ranks + 1], the same numbers in elements */
  int32_t *here, *arrivals; /* host copies of the tables of the same names, which are uploaded to the device */
  int32_t *experts, *left;  /* [pairs], [experts]: scratch, only if rows may be dropped */
} tri_expert_host_state;

/* tri_expert_notes_bytes returns the bytes of the arrays of a tri_expert_host_state, 0 if rows are neither exchanged
 * nor dropped. tri_expert_host_state_of returns the state whose arrays are in the memory `host_state`; all NULL if that
 * is NULL. */
size_t tri_expert_notes_bytes(const tri_expert_rows *at);
tri_expert_host_state tri_expert_host_state_of(const tri_expert_rows *at, void *host_state);

/* Makes `window` the current window: sets which of this rank's places are sent, and how many rows arrive from each
 * rank. */
void tri_expert_window(const tri_expert_rows *at, const tri_expert_host_state *host_state, int64_t window);
/* Returns the number of windows. `begins` of all ranks must be known. */
int64_t tri_expert_windows(const tri_expert_rows *at, const tri_expert_host_state *host_state);
/* Computes the tables here[num_experts + 1] and arrivals[capacity] (tri_expert_rows) of a window, which
 * tri_expert_window has made the current one. */
void tri_expert_arrivals(const tri_expert_rows *at, const tri_expert_host_state *host_state, int64_t window,
                         int32_t *here, int32_t *arrivals);

/* ---- exchange of rows -------------------------------------------------------------------------------------------- */

typedef struct tri_travel {
  const tri_expert_rows *at;
  const tri_expert_host_state *host_state; /* the current window of this state is exchanged */
  const int32_t *arrivals;                 /* table `arrivals` of that window, in device memory */
  tri_dtype type;
  int64_t width;      /* elements of each row: the width of the residual stream, or 1 for weights */
  char *own, *window; /* parts of the transfer buffer: rows of this rank's pairs, and rows of a window */
} tri_travel;

/* Return the description of an exchange of rows of the residual stream, and of an exchange of one number of the wide
 * type for each row. */
tri_travel tri_expert_travel(const tri_run *run, const tri_op_call *call, const tri_expert_rows *at,
                             const tri_expert_host_state *host_state, const int32_t *arrivals);
tri_travel tri_expert_numbers_travel(tri_travel travel);

/* Returns the bytes of the transfer buffer. */
size_t tri_expert_passing_bytes(const tri_op_call *call, const tri_expert_rows *at);

/* Send rows to the holders: row map[place] of x is sent for each place, and received as a row of the window. No other
 * rows may be exchanged between tri_expert_send_start and tri_expert_send_end; tri_expert_send calls both. */
tri_status tri_expert_send_start(tri_run *run, const tri_travel *travel, const int32_t *map, const void *x,
                                 tri_transfer **out);
tri_status tri_expert_send_end(tri_run *run, const tri_travel *travel, tri_transfer **transfer, void *window);
tri_status tri_expert_send(tri_run *run, const tri_travel *travel, const int32_t *map, const void *x, void *window);

/* Send the rows of a window back to their places. *out is set to the rows [pairs, width] by place. They are in `places`
 * or, if there is only one window and holders have one rank each, in the transfer buffer, valid until the next exchange
 * of rows. The rows that several ranks of a holder return are summed. */
tri_status tri_expert_return_start(tri_run *run, const tri_travel *travel, const void *window, tri_transfer **out);
tri_status tri_expert_return_end(tri_run *run, const tri_travel *travel, tri_transfer **transfer, void *places,
                                 const void **out);
tri_status tri_expert_return(tri_run *run, const tri_travel *travel, const void *window, void *places,
                             const void **out);

/* Copies numbers from places to their pairs, only for the places of the current window. */
tri_status tri_expert_pairs_of_places(tri_run *run, const tri_travel *travel, const int32_t *order, const void *places,
                                      void *pairs);

/* ---- costs ------------------------------------------------------------------------------------------------------- */

/* Return the bytes of a row, and of the number that is exchanged with it. */
static inline double tri_expert_row_bytes(const tri_op_call *call, const tri_expert_rows *at) {
  return (double)at->width * (double)tri_dtype_bytes(call->type);
}
static inline double tri_expert_number_bytes(const tri_op_call *call) {
  return (double)tri_dtype_bytes(tri_dtype_wide(call->type));
}

/* Returns the number of rows that a rank sends to the holders and receives back: one for each pair and rank of the
 * pair's holder. */
static inline double tri_expert_rows_sent(const tri_expert_rows *at) { return (double)(at->pairs * at->tensor_ranks); }

/* Returns the cost of sending `rows` rows of a pool, `bytes` bytes each, in either direction: the cost on the rank that
 * sends or receives the most. */
tri_cost_exchange tri_expert_exchange(const tri_expert_rows *at, double rows, double bytes, double times);

/* ---- calls of the list ------------------------------------------------------------------------------------------- */

/* Returns the table at offset `first` (tri_expert_rows) of the slot of tables. */
static inline const int32_t *tri_expert_table(const tri_run *run, int32_t slot, int64_t first) {
  return (const int32_t *)run->slots[slot] + first;
}

/* Output slots of a dispatch call, and the call's number. */
typedef struct tri_dispatched {
  int32_t rows, weights, tables;
  int32_t call;
} tri_dispatched;

/* tri_op_dispatch appends the call that starts to send rows; tri_op_arrive appends the call that waits for them, and
 * sets dispatched->rows. tri_op_experts appends the GEMMs of all experts with the stack `parameter`. */
tri_status tri_op_dispatch(tri_op_list *list, const tri_expert_rows *at, int32_t x, tri_routed routed,
                           tri_dispatched *out);
tri_status tri_op_arrive(tri_op_list *list, const tri_expert_rows *at, tri_dispatched *dispatched);

tri_status tri_op_experts(tri_op_list *list, const tri_expert_rows *at, int64_t in, int64_t out_width, int32_t rows,
                          int32_t tables, int32_t parameter, int32_t *out);
/* Appends the gated activation of each row, times the row's weight. */
tri_status tri_op_weighted_gated(tri_op_list *list, const tri_expert_rows *at, tri_activation kind, int64_t width,
                                 int32_t x, int32_t weights, int32_t tables, int32_t *out);
/* Compute the products of an `experts` call for rows of a later window; `begins` has the first row of each expert. */
tri_status tri_experts_multiply(tri_run *run, const tri_op_call *experts, const int32_t *begins, const void *x, void *y,
                                void *workspace);
tri_status tri_experts_multiply_back(tri_run *run, const tri_op_call *experts, const int32_t *begins,
                                     const void *gradient_y, void *gradient_x, bool accumulate, void *workspace);
tri_status tri_experts_accumulate(tri_run *run, const tri_op_call *experts, const int32_t *begins, const void *x,
                                  const void *gradient_y, void *workspace);
tri_status tri_experts_workspace(const tri_op_call *experts, const tri_device_description *device, size_t *bytes);

/* Indices of the layer's calls whose work `combine` repeats for later windows; factors -1: no LoRA factors. */
typedef struct tri_expert_calls {
  int32_t dispatch, gate_up, down;
  int32_t gate_up_factors, down_factors;
} tri_expert_calls;

tri_status tri_op_combine(tri_op_list *list, const tri_expert_rows *at, const tri_expert_calls *calls, int64_t ffn,
                          tri_activation activation, int32_t rows, int32_t tables, int32_t x, int32_t weights,
                          int32_t *out);

/* Returns the call with that number in the list that `call` belongs to. */
static inline const tri_op_call *tri_expert_call(const tri_op_call *call, int32_t number) {
  return call + (number - call->index);
}

#endif
