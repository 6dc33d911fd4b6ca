/* What operations run on: a queue of a device, memory, and the other ranks behind a table. Only what runs includes it;
 * plans and prices are made from op.h. */
#ifndef TRI_OPS_RUN_H
#define TRI_OPS_RUN_H

#include "base/batch_columns.h"
#include "base/exact_terms.h"
#include "base/nf4.h"
#include "device/device.h"
#include "device/step_values.h"
#include "mesh/domain.h"
#include "ops/op.h"

typedef struct tri_ranks tri_ranks; /* of the table's implementation: the engine's are in engine/collectives.h */

typedef struct tri_transfer tri_transfer; /* a transfer under way; the implementation's, too */

/* Communication between ranks while a list runs. Each function is COLLECTIVE over the ranks of this one's `domain`, and
 * returns at once if this rank is alone in it. Values are device memory: work that was queued before is done first, and
 * work that is queued later sees the result. Parts and sums have the same bits as in comm/comm.h. */
typedef struct tri_collectives {
  /* values[count] becomes the sum, or the largest, of the ranks'. */
  tri_status (*all_reduce)(const tri_ranks *ranks, tri_domain domain, tri_dtype type, int64_t count, void *values);
  tri_status (*all_maximum)(const tri_ranks *ranks, tri_domain domain, tri_dtype type, int64_t count, void *values);
  /* begins[ranks + 1], in elements: every part r becomes that of rank r; or this rank's part the sum, the others
   * undefined. */
  tri_status (*all_gather)(const tri_ranks *ranks, tri_domain domain, tri_dtype type, const int64_t *begins,
                           void *values);
  tri_status (*reduce_scatter)(const tri_ranks *ranks, tri_domain domain, tri_dtype type, const int64_t *begins,
                               void *values);
  /* Part s of `from` goes to the domain's rank s, and part r of `to` comes from rank r, each by begins of its own; they
   * do not overlap, and lie in the transfer buffer. */
  tri_status (*all_to_all)(const tri_ranks *ranks, tri_domain domain, tri_dtype type, const int64_t *from_begins,
                           const void *from, const int64_t *to_begins, void *to);
  /* In the background, COLLECTIVE too: `send` goes to the domain's rank `to`, and `receive` comes from its rank `from`,
   * as in a ring. Both lie in the transfer buffer and belong to the transfer until it is waited for, which is LOCAL;
   * NULL is a transfer that is done. Several may be under way. */
  tri_status (*pass_start)(const tri_ranks *ranks, tri_domain domain, int to, size_t send_bytes, const void *send,
                           int from, size_t receive_bytes, void *receive, tri_transfer **out);
  tri_status (*pass_wait)(const tri_ranks *ranks, tri_transfer **transfer);
  /* An all_to_all in the background, waited for with pass_wait; the begins must stay valid until then. */
  tri_status (*all_to_all_start)(const tri_ranks *ranks, tri_domain domain, tri_dtype type, const int64_t *from_begins,
                                 const void *from, const int64_t *to_begins, void *to, tri_transfer **out);
  /* all[ranks * bytes], in host memory, gets every rank's `bytes` bytes of device memory. The host waits for them. */
  tri_status (*tell_all)(const tri_ranks *ranks, tri_domain domain, size_t bytes, const void *values, void *all);
} tri_collectives;

/* The copy of a parameter, or of several adjacent ones, that products read: the same numbers in the activations' type.
 * An update that writes the parameter may write the copy too, and count that in `written`; the rest is packed before
 * the next forward (weight.c). */
typedef struct tri_run_copy {
  void *values;    /* NULL: there is no copy */
  int64_t count;   /* elements, from the parameter's first one on */
  int64_t written; /* elements written since the last `prepare`, with the parameter's present values */
} tri_run_copy;

/* A parameter in device memory and its gradient, both in the wide type; one that is not trained in its stored type. */
typedef struct tri_run_parameter {
  void *value;
  void *gradient;
  int64_t matrices;      /* of a parameter in 4 bits: how many matrices one after the other */
  tri_nf4_cut cut;       /* and what of each is here */
  bool gradient_written; /* in this step: the first backward writes, the others add */
  bool packed;           /* `value` is packed where it lies (weight.c), since its values were written */
  tri_run_copy *copy;    /* shared by tied parameters; NULL: copies are not written */
} tri_run_parameter;

/* Keys and values of earlier positions, for generation, in pages of TRI_PAGE_ROWS positions: of one layer the keys of
 * all pages, then the values. A run has any rows of any sequences, those of one side by side. */
typedef struct tri_kv_cache {
  void **layers;       /* [num_layers] */
  int64_t pages;       /* of a layer */
  int64_t table_pages; /* of run->pages */
  int64_t most_rows;   /* of a sequence in this run */
  int64_t positions;   /* of the run's sequences, those before its rows and its rows: at most */
  int64_t logit_rows;  /* of run->logit_rows */
} tri_kv_cache;

/* What an operation may touch while it runs. Filled in by the engine; slots and gradients are those of the micro-batch
 * at hand. */
struct tri_run {
  tri_queue *queue; /* for kernels; all pointers below are device memory unless they say otherwise */
  const tri_op_call
      *sum;           /* the sum that this call has to compute itself (tri_op_call.sum); NULL: its inputs are there */
  void *const *slots; /* [slot]; NULL if a slot has no memory in this program */
  void *const *gradients;  /* [slot] */
  void *const *buffers;    /* [call * TRI_OP_BUFFERS + i] */
  void *const *constants;  /* [constant] */
  void *const *host_state; /* [call], host memory (tri_op.host_state); NULL: the call has none */
  tri_run_parameter *parameters;
  void *workspace;
  void *transfer; /* transfer buffer, which other ranks may read (tri_op.transfer) */
  bool training;
  bool without_factors; /* LoRA factors add nothing: products are those of the base */
  bool recompute;       /* a forward runs again before its backward: sums over micro-batches must not be added twice */
  bool after_inputs;    /* in backward_weight: backward_input of the call was just before it, in the same workspace */
  int64_t batch, sequence; /* of the micro-batch at hand: as planned for, or in generation 1 and the number of rows */
  const tri_collectives *collectives;
  const tri_ranks *ranks;        /* for collectives */
  const void *received;          /* stage_input's rows, from the stage before                */
  void *to_send;                 /* stage_output's rows, for the next stage                  */
  const void *received_gradient; /* of stage_output's rows                                   */
  void *gradient_to_send;        /* of stage_input's rows                                    */
#define TRI_RUN_COLUMN_(NAME, TYPE, ...) const TYPE *NAME;
  TRI_SAMPLE_COLUMNS(TRI_RUN_COLUMN_) /* each [batch, sequence]: this rank's tokens, or of whole sequences; NULL where
                                         the objective does not have it */
  TRI_CUT_COLUMNS(TRI_RUN_COLUMN_)    /* NULL where they are not needed: global_rows where this rank has all rows */
#undef TRI_RUN_COLUMN_
  const int64_t *send_begins, *receive_begins; /* engine/batch.h */
  int64_t *begins;                             /* scratch: [2, ranks of the outer domain + 1] */
  const tri_attention_slice
      *slices;                   /* which queries attend to which keys; keys are rows of the cache if there is one */
  const int64_t *slice_begins;   /* [lists + 1]: list l is slices [slice_begins[l], slice_begins[l + 1]), ascending;
                                    no query is in two slices of a list. All begins are host memory */
  const tri_step_values *values; /* of the step at hand; NULL without training */
  int64_t sample;                /* number of the first sequence in the step, of all ranks' */
  double *log_probs;             /* [batch, sequence]: receives those of this rank's labels, 0 where none counts; NULL:
                                    not asked for */
  double *loss_sum;              /* receives the sum of labels' losses times their weights; NULL: no list has a loss */
  double *router_loss; /* receives what a router adds to the loss, and is 0 outside of it; NULL: not asked for */
  tri_exact_sum *router_losses; /* receives it, router by router: the sum of any layers is that of all, to the bit */
  int64_t *router_counts; /* [routers of the list, experts + 1]: rows of each expert so far, then bad rows; NULL too */
  int64_t *expert_rounds; /* [routers of the list], host memory: the most rounds of a micro-batch; NULL too */
  tri_kv_cache *cache;    /* NULL in training */
};

/* Rows that a call works on: the planned number, or in generation those of the positions at hand. */
static inline int64_t tri_run_rows(const tri_run *run, const tri_op_call *call) {
  return run->cache == NULL ? call->rows : run->batch * run->sequence;
}

/* What a call reads as its input 0 and, where the sum is left to it, adds to that and stores: norms. */
typedef struct tri_run_input {
  const void *x, *branch; /* branch and sum: NULL where x is there */
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

static inline tri_status tri_run_tell_all(const tri_run *run, tri_domain domain, size_t bytes, const void *values,
                                          void *all) {
  return run->collectives->tell_all(run->ranks, domain, bytes, values, all);
}

#endif
