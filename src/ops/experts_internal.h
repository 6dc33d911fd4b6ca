/* What the files of a layer of experts share: the rows of experts, where they lie and how they pass between ranks.
 *
 * A pair is a token and one of its experts: pair row * K + j. Sorted by expert, then row, the pairs of a rank are its
 * places. The ranks of the domain EXPERT send each other the rows of their pairs; a holder of experts is
 * `tensor_ranks` of them, which hold parts of the same experts and all get the same rows. What comes together at a
 * holder is its pool, in the order (expert, source rank, place); it is worked on in windows of `capacity` rows, nearly
 * always one. Everybody knows how many rows each rank has for each expert, so all find the same windows. */
#ifndef TRI_OPS_EXPERTS_INTERNAL_H
#define TRI_OPS_EXPERTS_INTERNAL_H

#include "ops/experts.h"
#include "ops/ops.h"
#include "ops/run.h"

/* Slots of a router. */
typedef struct tri_routed {
  int32_t experts, weights;
} tri_routed;

tri_status tri_op_route(tri_op_list *list, const tri_expert_layer *layer, int32_t x, int32_t router, int32_t bias,
                        tri_routed *out);

/* Who has what, known before anything runs; the same for the calls of a layer. */
typedef struct tri_expert_rows {
  int64_t ranks, rank, tensor_ranks;
  int64_t experts, chosen, width;
  int64_t first_expert, num_experts; /* held here */
  const int64_t *holder_begins;      /* [holders + 1]: the experts of each */
  int64_t pairs, most_pairs;         /* of this rank as planned, and of the rank that has most */
  int64_t capacity, most;            /* rows of a window, and of a pool at most */
  int32_t router;                    /* among those of the list */
  double expected;                   /* of the largest pool, as it is priced */
  int64_t most_of_expert;            /* of all ranks; rows beyond are dropped; 0: none is */
  /* The tables, a slot of int32: where each begins, and their length. */
  int64_t kept;     /* [pairs]: of a router's experts, those whose rows are not dropped; only where some may be */
  int64_t begins;   /* [experts + 1]: of each expert's places */
  int64_t order;    /* [pairs]: the pair at a place, */
  int64_t sources;  /* [pairs]: its row, */
  int64_t places;   /* [pairs]: and the other way round; -1: dropped, or of no token */
  int64_t here;     /* [num_experts + 1]: of the window, where the rows of each expert begin; one rank: `begins` */
  int64_t arrivals; /* [capacity]: the row of the window that an arriving row becomes; several ranks */
  int64_t length;
} tri_expert_rows;

tri_status tri_expert_rows_plan(tri_op_list *list, const tri_expert_layer *layer, tri_expert_rows *out);

static inline bool tri_expert_rows_travel(const tri_expert_rows *at) { return at->ranks > 1; }
/* Whether a pool may have more rows than a window. */
static inline bool tri_expert_rows_come_again(const tri_expert_rows *at) {
  return at->capacity < at->most && at->most_of_expert == 0;
}

/* Of the rows that are expected, those of the first window; of the others, how many windows they are. */
static inline double tri_expert_rows_first(const tri_expert_rows *at) {
  return at->expected < (double)at->capacity ? at->expected : (double)at->capacity;
}
double tri_expert_rows_later_windows(const tri_expert_rows *at);
/* The rows of the holder with most experts, which the others wait for, by the imbalance that was asked for: `expected`
 * if there are as many. */
double tri_expert_rows_asked(const tri_op_list *list, const tri_expert_rows *at);

/* What the host knows of a micro-batch's rows: in the notes of the layer's dispatch. */
typedef struct tri_expert_host_state {
  tri_transfer **transfer; /* under way */
  int64_t *windows;
  int32_t *begins;          /* [ranks, experts + 1]: of each rank's places */
  int64_t *first_place;     /* [ranks]: of the window, from which of this rank's places on it sends, */
  int64_t *sent, *received; /* [ranks + 1]: where each rank's rows begin among those sent, and received */
  int64_t *sent_elements, *received_elements;
  int32_t *here, *arrivals; /* of the first window, on their way to the tables */
  int32_t *experts, *left;  /* [pairs], [experts]: only where some may be dropped */
} tri_expert_host_state;

size_t tri_expert_notes_bytes(const tri_expert_rows *at);
tri_expert_host_state tri_expert_host_state_of(const tri_expert_rows *at, void *host_state);

/* Sets which of this rank's places are sent in a window, and how many rows come from each rank. */
void tri_expert_window(const tri_expert_rows *at, const tri_expert_host_state *host_state, int64_t window);
/* Once all begins are known. */
int64_t tri_expert_windows(const tri_expert_rows *at, const tri_expert_host_state *host_state);
/* Then, where its arriving rows go; arrays of at->num_experts + 1 and at->capacity. */
void tri_expert_arrivals(const tri_expert_rows *at, const tri_expert_host_state *host_state, int64_t window,
                         int32_t *here, int32_t *arrivals);

/* ---- travel of rows ----------------------------------------------------------------------------------------------
 *
 * `width` numbers of `type` for each row: those of the residual stream, or one weight. */

typedef struct tri_travel {
  const tri_expert_rows *at;
  const tri_expert_host_state *host_state; /* of the window at hand (tri_expert_window) */
  const int32_t *arrivals;
  tri_dtype type;
  int64_t width;
  char *own, *window; /* memory of what passes: rows of this rank's pairs, and of a window */
} tri_travel;

/* Of rows; and of one number of the wide type for each. */
tri_travel tri_expert_travel(const tri_run *run, const tri_op_call *call, const tri_expert_rows *at,
                             const tri_expert_host_state *host_state, const int32_t *arrivals);
tri_travel tri_expert_numbers_travel(tri_travel travel);

size_t tri_expert_passing_bytes(const tri_op_call *call, const tri_expert_rows *at);

/* To the holders: rows map[place] of x become rows of the window. In two halves; between them no other rows pass. */
tri_status tri_expert_send_start(tri_run *run, const tri_travel *travel, const int32_t *map, const void *x,
                                 tri_transfer **out);
tri_status tri_expert_send_end(tri_run *run, const tri_travel *travel, tri_transfer **transfer, void *window);
tri_status tri_expert_send(tri_run *run, const tri_travel *travel, const int32_t *map, const void *x, void *window);

/* Back: rows of the window go to their places. `places` [pairs, width] is where they are put, and where they are then:
 * there, or, of the only window, where they have come to, until the next rows pass. What the ranks of a holder return
 * is added up. */
tri_status tri_expert_return_start(tri_run *run, const tri_travel *travel, const void *window, tri_transfer **out);
tri_status tri_expert_return_end(tri_run *run, const tri_travel *travel, tri_transfer **transfer, void *places,
                                 const void **out);
tri_status tri_expert_return(tri_run *run, const tri_travel *travel, const void *window, void *places,
                             const void **out);

/* Numbers at places become those of pairs: of all places of the window, and no others. */
tri_status tri_expert_pairs_of_places(tri_run *run, const tri_travel *travel, const int32_t *order, const void *places,
                                      void *pairs);

/* ---- costs ------------------------------------------------------------------------------------------------------- */

/* Bytes of a row, and of the number that goes with it. */
static inline double tri_expert_row_bytes(const tri_op_call *call, const tri_expert_rows *at) {
  return (double)at->width * (double)tri_dtype_bytes(call->type);
}
static inline double tri_expert_number_bytes(const tri_op_call *call) {
  return (double)tri_dtype_bytes(tri_dtype_wide(call->type));
}

/* What a rank sends to the holders and gets from them: a row of each pair for each rank of its holder. */
static inline double tri_expert_rows_sent(const tri_expert_rows *at) { return (double)(at->pairs * at->tensor_ranks); }

/* `rows` rows of a pool sent there or back, `bytes` bytes each: as long as the rank takes that sends or
 * gets most. */
tri_cost_exchange tri_expert_exchange(const tri_expert_rows *at, double rows, double bytes, double times);

/* ---- calls of the list ------------------------------------------------------------------------------------------- */

static inline const int32_t *tri_expert_table(const tri_run *run, int32_t slot, int64_t first) {
  return (const int32_t *)run->slots[slot] + first;
}

/* Slots of what is dispatched. */
typedef struct tri_dispatched {
  int32_t rows, weights, tables;
  int32_t call;
} tri_dispatched;

/* The rows are on their way; and then they are there, in `rows`. */
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
                                     const void *gradient_y, void *gradient_x, void *workspace);
tri_status tri_experts_accumulate(tri_run *run, const tri_op_call *experts, const int32_t *begins, const void *x,
                                  const void *gradient_y, void *workspace);
tri_status tri_experts_workspace(const tri_op_call *experts, const tri_device_description *device, size_t *bytes);

/* The layer's calls, from which `combine` works on later windows. */
typedef struct tri_expert_calls {
  int32_t dispatch, gate_up, down;
} tri_expert_calls;

tri_status tri_op_combine(tri_op_list *list, const tri_expert_rows *at, const tri_expert_calls *calls, int64_t ffn,
                          tri_activation activation, int32_t rows, int32_t tables, int32_t x, int32_t weights,
                          int32_t *out);

/* The other call of the list with that number. */
static inline const tri_op_call *tri_expert_call(const tri_op_call *call, int32_t number) {
  return call + (number - call->index);
}

#endif
