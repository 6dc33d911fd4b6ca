/* The context in which operations run: a device queue, memory, and a table of collectives. Only code that runs
 * operations includes it; plans and costs need only op.h. */
#ifndef TRI_OPS_RUN_H
#define TRI_OPS_RUN_H

#include "device/device.h"
#include "device/exact_sum.h"
#include "device/nf4.h"
#include "device/step_values.h"
#include "mesh/batch_columns.h"
#include "mesh/domain.h"
#include "ops/op.h"

typedef struct tri_ranks tri_ranks; /* defined by the table's implementation; the engine's is engine/collectives.h */

typedef struct tri_transfer tri_transfer; /* a transfer in progress; also defined by the implementation */

/* Communication between ranks while a list runs. Each function is COLLECTIVE over the ranks of this rank's `domain`. If
 * that domain has only one rank, the functions that work in place do nothing, and the others copy. Values are in device
 * memory, and the functions are ordered with the work in the queue before and after them. Parts are defined, and sums
 * have the same bits, as in comm/comm.h. */
typedef struct tri_collectives {
  /* Replaces values[count] by the sum, or the maximum, over the ranks. */
  tri_status (*all_reduce)(const tri_ranks *ranks, tri_domain domain, tri_dtype type, int64_t count, void *values);
  tri_status (*all_maximum)(const tri_ranks *ranks, tri_domain domain, tri_dtype type, int64_t count, void *values);
  /* begins[ranks + 1], in elements: all_gather copies part r from rank r, for every r; reduce_scatter sets this rank's
   * part to the sum, and leaves the other parts undefined. */
  tri_status (*all_gather)(const tri_ranks *ranks, tri_domain domain, tri_dtype type, const int64_t *begins,
                           void *values);
  tri_status (*reduce_scatter)(const tri_ranks *ranks, tri_domain domain, tri_dtype type, const int64_t *begins,
                               void *values);
  /* Sends part s of `from` to the domain's rank s, and receives part r of `to` from rank r, each with its own begins.
   * The two buffers do not overlap, and are in the transfer buffer. */
  tri_status (*all_to_all)(const tri_ranks *ranks, tri_domain domain, tri_dtype type, const int64_t *from_begins,
                           const void *from, const int64_t *to_begins, void *to);
  /* pass_start starts, in the background, to send `send` to the domain's rank `to`, and to receive `receive` from its
   * rank `from`, as in a ring. Both buffers are in the transfer buffer, and may not be used until pass_wait, which is
   * LOCAL, has completed the transfer. A transfer that is NULL is complete. Several transfers may be in progress. */
  tri_status (*pass_start)(const tri_ranks *ranks, tri_domain domain, int to, size_t send_bytes, const void *send,
                           int from, size_t receive_bytes, void *receive, tri_transfer **out);
  tri_status (*pass_wait)(const tri_ranks *ranks, tri_transfer **transfer);
  /* Starts an all_to_all in the background; pass_wait completes it. The begins must stay valid until then. */
  tri_status (*all_to_all_start)(const tri_ranks *ranks, tri_domain domain, tri_dtype type, const int64_t *from_begins,
                                 const void *from, const int64_t *to_begins, void *to, tri_transfer **out);
  /* Gathers every rank's `bytes` bytes of device memory in all[ranks * bytes], in host memory. The host waits for
   * them. */
  tri_status (*gather_to_host)(const tri_ranks *ranks, tri_domain domain, size_t bytes, const void *values, void *all);
} tri_collectives;

/* The copy of a parameter, or of several adjacent ones, that GEMMs read: the same numbers in the activations' type. An
 * update that writes the parameter may write the copy too, and then adds to `written`; if updates have not written all
 * of the copy, all of it is packed before the next forward (weight.c). */
typedef struct tri_run_copy {
  void *values;    /* NULL: no copy */
  int64_t count;   /* number of elements, from the parameter's first element on */
  int64_t written; /* elements written since the last `prepare`, with the parameter's present values */
} tri_run_copy;

/* A parameter in device memory and its gradient, both in the wide type; a frozen parameter has its stored type. */
typedef struct tri_run_parameter {
  void *value;
  void *gradient;
  int64_t matrices;        /* coded parameter: number of matrices, stored one after the other */
  tri_nf4_cut cut;         /* parameter in 4 bits: the part of each matrix on this rank */
  tri_block_matrix blocks; /* parameter in blocks: each of its matrices on this rank */
  bool in_out;             /* parameter in blocks: whether the matrix is [in, out] where values are dense */
  bool gradient_written; /* true after the first backward of a step, which overwrites the gradient; later backwards add
                            to it */
  bool packed;           /* whether `value` has been packed in place (weight.c) since its values were written */
  tri_run_copy *copy;    /* shared by tied parameters; NULL: copies are not written */
} tri_run_parameter;

/* Keys and values of earlier positions, for generation, in pages of TRI_PAGE_ROWS positions: for each layer the keys of
 * all pages, then the values. A run may have any rows of any sequences; the rows of one sequence are adjacent. */
typedef struct tri_kv_cache {
  void **layers;       /* [num_layers] */
  int64_t pages;       /* pages of a layer */
  int64_t table_pages; /* length of run->pages */
  int64_t most_rows;   /* maximum rows of a sequence in this run */
  int64_t positions;   /* maximum length of the run's sequences, with the rows of this run */
  int64_t logit_rows;  /* length of run->logit_rows */
} tri_kv_cache;

/* State that an operation may access while it runs, set by the engine; slots and gradients are those of the current
 * micro-batch. */
struct tri_run {
  tri_queue *queue; /* queue for kernels; all pointers below are device memory unless their comments say otherwise */
  const tri_op_call
      *sum; /* the previous call, if this call computes its sum (tri_op_call.sum); NULL: input 0 has been computed */
  void *const *slots;      /* [slot]; NULL if a slot has no memory in this program */
  void *const *gradients;  /* [slot] */
  void *const *buffers;    /* [call * TRI_OP_BUFFERS + i] */
  void *const *constants;  /* [constant] */
  void *const *host_state; /* [call], host memory (tri_op.host_state); NULL: the call has none */
  tri_run_parameter *parameters;
  void *workspace;
  void *transfer; /* transfer buffer, which other ranks may read (tri_op.transfer) */
  bool training;
  bool without_factors; /* whether LoRA factors are left out, so that results are those of the base model */
  bool recompute; /* whether the forward is a recompute, which must not add to sums over micro-batches a second time */
  bool after_inputs;       /* in backward_weight: whether backward_input of the same call ran just before, in the same
                              workspace */
  int64_t batch, sequence; /* sequences and tokens of a sequence in the current micro-batch, as planned; in generation,
                              1 and the number of rows */
  const tri_collectives *collectives;
  const tri_ranks *ranks;        /* ranks for collectives */
  const void *received;          /* rows that stage_input reads, received from the previous stage */
  void *to_send;                 /* rows that stage_output writes, to be sent to the next stage */
  const void *received_gradient; /* gradient of stage_output's rows, received from the next stage */
  void *gradient_to_send;        /* gradient of stage_input's rows, to be sent to the previous stage */
#define TRI_RUN_COLUMN_(NAME, TYPE, ...) const TYPE *NAME;
  TRI_SAMPLE_COLUMNS(TRI_RUN_COLUMN_) /* each [batch, sequence]: this rank's tokens, or those of whole sequences; NULL
                                         if the objective does not have the column */
  TRI_CUT_COLUMNS(TRI_RUN_COLUMN_)    /* NULL if not needed: global_rows is NULL if this rank has all rows */
#undef TRI_RUN_COLUMN_
  const int64_t *send_begins, *receive_begins; /* [outer ranks + 1], first row of keys that is sent to, and received
                                                  from, each outer rank (engine/batch.h) */
  int64_t *begins;                             /* scratch: [2, ranks of the outer domain + 1] */
  const tri_attention_slice *slices;           /* which queries attend to which keys (rows of the cache, if any) */
  const int64_t *slice_begins;   /* [lists + 1]: list l is slices [slice_begins[l], slice_begins[l + 1]), ascending; no
                                    query is in two slices of a list. All begins are host memory */
  const tri_step_values *values; /* values of the current step; NULL without training */
  int64_t sample;      /* index of the micro-batch's first sequence among the sequences of the step on all ranks */
  double *log_probs;   /* [batch, sequence]: receives the log-probabilities of this rank's labels, 0 for labels that do
                          not count; NULL: not requested */
  double *loss_sum;    /* receives the sum of labels' losses times their weights; NULL: no list has a loss */
  double *router_loss; /* receives the addition to the loss of the router that runs, and is 0 between routers; NULL: not
                          requested */
  tri_exact_sum *router_losses; /* receives the same as an exact sum over routers, so that layers can be summed in any
                                   grouping with the same bits */
  int64_t *router_counts; /* [routers of the list, experts + 1]: number of rows of each expert, then number of rows
                             whose weights are not finite; may be NULL */
  int64_t *expert_rounds; /* [routers of the list], host memory: maximum number of windows (experts_internal.h) of a
                             micro-batch; may be NULL */
  tri_kv_cache *cache;    /* NULL in training */
};

/* Returns the number of rows that a call works on: call->rows or, in generation, the number of rows of the current run.
 */
static inline int64_t tri_run_rows(const tri_run *run, const tri_op_call *call) {
  return run->cache == NULL ? call->rows : run->batch * run->sequence;
}

/* Input 0 of a call. A norm may have to compute this input first, as the sum of `x` and `branch`, which the norm stores
 * in `sum`. */
typedef struct tri_run_input {
  const void *x, *branch; /* `branch` and `sum` are NULL if x is the input itself */
  void *sum;
} tri_run_input;

static inline tri_run_input tri_run_input_of(const tri_run *run, const tri_op_call *call) {
  void *const *slots = run->slots;
  if (run->sum == NULL) return (tri_run_input){slots[call->inputs[0]], NULL, NULL};
  return (tri_run_input){slots[run->sum->inputs[0]], slots[run->sum->inputs[1]], slots[call->inputs[0]]};
}

static inline tri_status tri_run_all_reduce(const tri_run *run, tri_domain domain, tri_dtype type, int64_t count,
                                            void *values) {
  return run->collectives->all_reduce(run->ranks, domain, type, count, values);
}

static inline tri_status tri_run_all_maximum(const tri_run *run, tri_domain domain, tri_dtype type, int64_t count,
                                             void *values) {
  return run->collectives->all_maximum(run->ranks, domain, type, count, values);
}

static inline tri_status tri_run_all_gather(const tri_run *run, tri_domain domain, tri_dtype type,
                                            const int64_t *begins, void *values) {
  return run->collectives->all_gather(run->ranks, domain, type, begins, values);
}

static inline tri_status tri_run_reduce_scatter(const tri_run *run, tri_domain domain, tri_dtype type,
                                                const int64_t *begins, void *values) {
  return run->collectives->reduce_scatter(run->ranks, domain, type, begins, values);
}

static inline tri_status tri_run_all_to_all(const tri_run *run, tri_domain domain, tri_dtype type,
                                            const int64_t *from_begins, const void *from, const int64_t *to_begins,
                                            void *to) {
  return run->collectives->all_to_all(run->ranks, domain, type, from_begins, from, to_begins, to);
}

static inline tri_status tri_run_pass_start(const tri_run *run, tri_domain domain, int to, size_t send_bytes,
                                            const void *send, int from, size_t receive_bytes, void *receive,
                                            tri_transfer **out) {
  return run->collectives->pass_start(run->ranks, domain, to, send_bytes, send, from, receive_bytes, receive, out);
}

static inline tri_status tri_run_pass_wait(const tri_run *run, tri_transfer **transfer) {
  return run->collectives->pass_wait(run->ranks, transfer);
}

static inline tri_status tri_run_all_to_all_start(const tri_run *run, tri_domain domain, tri_dtype type,
                                                  const int64_t *from_begins, const void *from,
                                                  const int64_t *to_begins, void *to, tri_transfer **out) {
  return run->collectives->all_to_all_start(run->ranks, domain, type, from_begins, from, to_begins, to, out);
}

static inline tri_status tri_run_gather_to_host(const tri_run *run, tri_domain domain, size_t bytes, const void *values,
                                                void *all) {
  return run->collectives->gather_to_host(run->ranks, domain, bytes, values, all);
}

#endif
