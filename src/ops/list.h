/* A list of operations, under construction and finished.
 *
 * The functions of ops.h append one call each; tri_op_list_finish then derives everything that follows from the order
 * of the calls: which slots a backward pass reads, and which gradients are sums. The list is a plain description: it
 * has no device memory, and may be created for any rank of any machine. */
#ifndef TRI_OPS_LIST_H
#define TRI_OPS_LIST_H

#include "mesh/domain.h"
#include "ops/op.h"

typedef struct tri_slot {
  tri_shape shape;
  int32_t producer;      /* index of the call that writes the slot */
  int32_t last_consumer; /* index of the last call that reads the slot in the forward; `producer` if no call does */
  bool kept;             /* whether a backward pass reads it */
  bool pinned;           /* whether a recomputed call reads it, so that no other slot may be written over it */
  bool trained;          /* whether its value depends on trained parameters */
  bool has_gradient;     /* whether its gradient is computed */
  bool recomputed;   /* set only on the slot that owns the memory: whether the memory is not kept, but recomputed before
                        the backward of the slot's layer */
  int32_t memory_of; /* slot whose memory this slot uses (in place); its own number if it has memory of its own */
  int32_t next_in_memory; /* next slot that is written over this slot in the same memory, or -1; the chain that begins
                             with slot memory_of has all slots of that memory */
} tri_slot;

/* Read-only data that calls share, computed on the host when a program is set up. */
typedef struct tri_constant {
  size_t bytes;
  void (*fill)(const void *attributes, void *host); /* writes `bytes` bytes */
  const void *attributes;                           /* owned by the list */
} tri_constant;

/* How context ranks exchange queries, keys and values (context.h). */
typedef enum tri_context_exchange {
  TRI_CONTEXT_GATHER, /* each rank gathers the keys and values of the whole sequence */
  TRI_CONTEXT_HEADS,  /* an all-to-all gives each rank all tokens of some heads (DeepSpeed-Ulysses) */
  TRI_CONTEXT_RING,   /* ring attention: blocks of keys and values go from rank to rank */
} tri_context_exchange;

/* The rank that a list is for. With sequence_parallel, operations outside of the split GEMMs (norms, dropout, residual)
 * work on a slice of the rows. */
typedef struct tri_op_shard {
  tri_mesh_position position;
  bool sequence_parallel;
  tri_context_exchange context_exchange;
  double context_row_pairs; /* cost of a row of keys from another rank, in pairs of a query and a key
                               (mesh/document_cut.h) */
  double expert_capacity;   /* capacity for the rows of experts, as a multiple of a rank's rows under perfect balance;
                               0: 1.5 */
  bool capacity_drop; /* whether rows beyond the capacity are dropped, the last rows of each expert first; else they are
                         processed in further windows (experts_internal.h) */
  double expert_imbalance; /* imbalance that costs assume: rows of the busiest rank's experts, as a multiple of the rows
                              under perfect balance; 0: 1 */
} tri_op_shard;

/* Sliding windows of a list: each has its own attention slices and its own fraction of the work. */
enum { TRI_OP_WINDOWS = 4 };
typedef struct tri_op_windows {
  int64_t count;
  int64_t tokens[TRI_OP_WINDOWS]; /* maximum number of positions that a query attends to, its own included; 0: its own
                                     and all earlier positions */
} tri_op_windows;

/* Facts about a parameter that the model family provides if the model has LoRA factors or frozen parameters. */
typedef struct tri_op_parameter {
  int64_t out;        /* matrix: number of outputs on this rank */
  int64_t in, first;  /* LoRA factor A: inputs on all ranks; index of the first input on this rank */
  double scale;       /* scale of a LoRA factor (model/parameters.h) */
  int32_t index;      /* index in the parameter table, which has LoRA factors in between */
  int32_t factors[2]; /* numbers of its LoRA factors A and B, or -1 */
  int32_t firsts[2];  /* numbers of the factors' initial values if these are subtracted, or -1 */
  int32_t magnitude;  /* number of its DoRA magnitudes, or -1 */
  tri_stored stored;
  bool frozen;
  bool in_out; /* whether a matrix is stored as [in, out] */
  bool joined; /* whether the parameter is adjacent to the previous one, so that GEMMs read both as one matrix */
} tri_op_parameter;

/* Settings of LoRA factors (ops.h). */
typedef struct tri_op_adapter {
  double dropout;
} tri_op_adapter;

typedef struct tri_op_list {
  tri_op_call *calls;
  int64_t num_calls, calls_room;
  tri_slot *slots;
  int64_t num_slots, slots_room;
  tri_constant *constants;
  int64_t num_constants, constants_room;
  int64_t tokens;          /* tokens of a sequence on all context ranks together */
  int64_t batch, sequence; /* sequences of a micro-batch, and tokens of a sequence on this rank, for the next calls */
  int64_t most_slices; /* maximum length of a list of attention slices: `batch` after tri_op_list_create, one for each
                          sequence */
  bool masked;         /* whether documents of a sequence do not attend to each other */
  double attention_fraction; /* fraction of the causal score matrix of whole sequences that the document mask leaves, on
                                average; 1: all of it */
  int64_t prefill_tokens;    /* number of positions at the start of a sequence that are processed at once */
  tri_op_windows windows;    /* sliding windows of all lists that share the batches of this list */
  int32_t window;            /* index of the window of the next calls */
  int32_t layer;             /* layer of the next calls */
  tri_op_shard shard;        /* the rank that the list is for; one rank alone after tri_op_list_create */
  bool expert;               /* `expert` of the next calls (op.h) */
  int32_t num_routers;       /* number of routers that have been appended */
  int64_t router_experts;    /* number of experts that each router chooses from */
  bool sliced;               /* whether the next calls work on a slice of the rows */
  bool weights_gathered;     /* `weights_gathered` of every call (op.h) */
  bool recomputable;         /* `recomputable` of the next calls (op.h) */
  tri_dtype type;
  bool training;
  bool generating;                 /* `generating` of the next calls */
  bool keeps_dense;                /* `keeps_dense` of the next calls; it is also set for matrices with magnitudes */
  int64_t logit_rows, table_pages; /* generating: maximum rows with logits; pages of all sequences' tables */
  unsigned columns; /* columns of a sample in the batches (mesh/batch_columns.h); TRI_COLUMNS_ALWAYS after
                       tri_op_list_create */
  bool scores;      /* whether the loss operation also writes the loss of each label, as its output 0 [rows, 1] */
  const tri_op_parameter *parameters; /* [num_parameters], the family's parameters, then LoRA factors; NULL: all are
                                         trained and wide, and the number of each is its index */
  int64_t num_parameters;
  bool below_is_frozen; /* whether no parameter is trained in the stages before this list's stage */
  tri_op_adapter adapter;
  void **blocks; /* [num_blocks], owned copies of attributes */
  int64_t num_blocks, blocks_room;
} tri_op_list;

/* Return the number of ranks in the domain, and the index in it of the rank that the list is for. */
int64_t tri_op_list_ranks(const tri_op_list *list, tri_domain domain);
int64_t tri_op_list_rank(const tri_op_list *list, tri_domain domain);

/* Sets *first and *rows to this rank's range of the rows of a micro-batch that are split over the domain's ranks. */
void tri_op_list_slice(const tri_op_list *list, tri_domain domain, int64_t *first, int64_t *rows);

/* Creates an empty list for micro-batches of batch x sequence tokens. Release with tri_op_list_destroy. */
tri_status tri_op_list_create(int64_t batch, int64_t sequence, tri_dtype type, bool training, tri_op_list **out);
void tri_op_list_destroy(tri_op_list *list);

/* Sets the rank that the list is for. Call it before the first call is appended. */
void tri_op_list_set_shard(tri_op_list *list, const tri_op_shard *shard);

/* Copies parameters[count] into the list. Call it before the first call is appended. */
tri_status tri_op_list_set_parameters(tri_op_list *list, const tri_op_parameter *parameters, int64_t count,
                                      const tri_op_adapter *adapter);

/* Returns whether one of the matrices that share the GEMM of `weight` has magnitudes. */
bool tri_op_list_has_magnitudes(const tri_op_list *list, int32_t weight);

/* tri_op_list_add_window registers a window that calls may use; call it before the first call is appended. A window of
 * at least `positions` tokens, the length of the longest sequence, has no effect. tri_op_list_set_window chooses the
 * window of the next calls. */
void tri_op_list_add_window(tri_op_list *list, int64_t positions, int64_t tokens);
void tri_op_list_set_window(tri_op_list *list, int64_t tokens);
bool tri_op_list_is_windowed(const tri_op_list *list);
/* Returns the fraction of a causal score matrix that remains under masked documents and a sliding window. `fraction` is
 * the fraction that the document mask alone leaves (1: no mask); the documents are assumed to be equally long. `window`
 * 0: no window. */
double tri_op_window_fraction(double fraction, int64_t sequence, int64_t window);

/* Sets *out to a copy of `bytes` bytes of attributes, which the list owns. */
tri_status tri_op_list_keep(tri_op_list *list, const void *attributes, size_t bytes, const void **out);

/* Sets *out to an array [ranks of the domain + 1] with the first element of each rank's slice of the rows of a [rows,
 * width] matrix. The list owns the array. */
tri_status tri_op_list_keep_slices(tri_op_list *list, tri_domain domain, int64_t width, const int64_t **out);

tri_status tri_op_list_add_constant(tri_op_list *list, const tri_constant *constant, int32_t *out);

/* Appends a call. The caller sets op, attributes, inputs, parameters and constant; the operation's `shape` defines
 * num_outputs slots, whose numbers are written to outputs. */
tri_status tri_op_list_append(tri_op_list *list, const tri_op_call *call, int num_outputs,
                              int32_t outputs[TRI_OP_OUTPUTS]);
/* Appends a call like tri_op_list_append, and returns only the first output. */
tri_status tri_op_list_append_first(tri_op_list *list, const tri_op_call *call, int num_outputs, int32_t *out);

/* Completes the list; no more calls may be appended. */
tri_status tri_op_list_finish(tri_op_list *list);

/* Determines again, on a finished list, which slots a backward pass reads, and which outputs are written over their
 * inputs. A pinned input is not overwritten. Clears the marks of recomputation. */
void tri_op_list_place(tri_op_list *list);

size_t tri_shape_bytes(const tri_shape *shape);

/* Sets the shape of output 0 to that of input 0. For tri_op.shape. */
tri_status tri_op_same_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                             tri_shape outputs[TRI_OP_OUTPUTS]);

/* Returns an empty call: every slot, parameter and constant absent. */
tri_op_call tri_op_call_of(const tri_op *op, const void *attributes);
/* Sets *out to an empty call with a copy of `bytes` bytes of attributes, which the list owns. */
tri_status tri_op_list_call(tri_op_list *list, const tri_op *op, const void *attributes, size_t bytes,
                            tri_op_call *out);

#endif
