/* A list of operations under construction and after.
 *
 * The functions of ops.h append one call each; tri_op_list_finish then derives what the order of the calls implies:
 * which slots a backward pass reads again, which gradients are sums. The list is a plain description: it holds no
 * device memory and may be made for a rank of a machine that is not there. */
#ifndef TRI_OPS_LIST_H
#define TRI_OPS_LIST_H

#include "mesh/domain.h"
#include "ops/op.h"

typedef struct tri_slot {
  tri_shape shape;
  int32_t producer;      /* call */
  int32_t last_consumer; /* last call that reads it in the forward; the producer if none does */
  bool kept;             /* a backward pass reads it */
  bool pinned;           /* a recomputed call reads it, so nothing may be written over it */
  bool trained;          /* it depends on parameters that are trained */
  bool has_gradient;     /* its gradient is computed */
  bool recomputed;   /* set on the slot that owns the memory: not kept, but recomputed before its layer's backward */
  int32_t memory_of; /* slot whose memory it uses (in place), or itself */
  int32_t next_in_memory; /* slot that is written over it, or -1. From memory_of on this chain has all slots of that
                             memory */
} tri_slot;

/* Read-only data that calls share, made on the host when a program is set up. */
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

/* The rank that a list is for. With sequence_parallel, operations outside of the split products (norms, dropout,
 * residual) work on a slice of the rows. */
typedef struct tri_op_shard {
  tri_mesh_seat seat;
  bool sequence_parallel;
  tri_context_exchange context_exchange;
  double context_row_pairs; /* mesh/document_cut.h */
  double
      expert_capacity; /* room for the rows of experts, as a multiple of a rank's rows under perfect balance; 0: 1.5 */
  bool capacity_drop; /* rows beyond the capacity are dropped, the last of each expert first; else they take more rounds
                       */
  double expert_imbalance; /* for costs alone: rows of the busiest rank's experts, as a multiple of those under perfect
                              balance; 0: 1 */
} tri_op_shard;

/* Sliding windows of a list: each has its own attention slices and its own fraction of the work. */
enum { TRI_OP_WINDOWS = 4 };
typedef struct tri_op_windows {
  int64_t count;
  int64_t tokens[TRI_OP_WINDOWS]; /* the most positions that a query attends to; 0: all before it */
} tri_op_windows;

/* What a list knows of a parameter beside its number, which families give: for models with LoRA or frozen parameters.
 */
typedef struct tri_op_parameter {
  int64_t out;        /* of a matrix: the outputs that this rank has */
  int64_t in, first;  /* of a LoRA factor A: inputs of all ranks, and the first that this rank has */
  double scale;       /* of a LoRA factor (model/parameters.h) */
  int32_t index;      /* in the parameter table, which has LoRA factors in between */
  int32_t factors[2]; /* numbers of its LoRA factors A and B, or -1 */
  int32_t firsts[2];  /* and of what these began as, if that is subtracted, or -1 */
  int32_t magnitude;  /* and of its magnitudes, or -1 */
  tri_stored stored;
  bool frozen;
  bool in_out; /* a matrix that is stored as [in, out] */
  bool joined; /* adjacent to the one before it: together they are one matrix of a product */
} tri_op_parameter;

/* LoRA factors beside matrices (ops.h). */
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
  int64_t tokens;          /* of a sequence */
  int64_t batch, sequence; /* of a micro-batch: sequences, and their tokens on this rank in the calls that follow */
  int64_t most_slices;     /* in a list of attention slices: `batch` after tri_op_list_create, one for each sequence */
  bool masked;             /* documents of a sequence do not attend to each other */
  double
      attention_fraction; /* of the causal score matrix of whole sequences that documents leave, on average; 1: all */
  int64_t prefill_tokens; /* positions of a sequence that are read at once, from the first on */
  tri_op_windows windows; /* sliding windows of all lists that share its batches */
  int32_t window;         /* index of the one that is given to the next calls */
  int32_t layer;          /* given to the next calls */
  tri_op_shard shard;     /* the rank that the list is for; one rank alone after tri_op_list_create */
  bool expert;            /* given to the next calls: they work on rows of experts */
  int32_t num_routers;    /* so far, */
  int64_t router_experts; /* and the experts that each of them chooses from */
  bool sliced;            /* given to the next calls: they work on a slice of the rows */
  bool weights_gathered;  /* ZeRO 3 (op.h): given to every call */
  bool recomputable;      /* given to the next calls (op.h) */
  tri_dtype type;
  bool training;
  bool generating;                 /* given to the next calls */
  int64_t logit_rows, table_pages; /* generating: rows that have logits, at most, and pages of all sequences' tables */
  unsigned columns; /* of a sample that the batches have (base/batch_columns.h); TRI_COLUMNS_ALWAYS after create */
  bool scores;      /* the loss operation also writes the loss of each label: its output 0 [rows, 1] */
  const tri_op_parameter *parameters; /* [num_parameters], the family's, then LoRA factors; NULL: all are trained and
                                         wide, and the number of each is its index */
  int64_t num_parameters;
  bool below_is_frozen; /* nothing is trained in the stages before this list's */
  tri_op_adapter adapter;
  void **blocks; /* attributes */
  int64_t num_blocks, blocks_room;
} tri_op_list;

/* The ranks of the list's domain, and the number in it of the rank that the list is for. */
int64_t tri_op_list_ranks(const tri_op_list *list, tri_domain domain);
int64_t tri_op_list_rank(const tri_op_list *list, tri_domain domain);

/* This rank's slice of the rows of a micro-batch, of those that a domain cuts them into. */
void tri_op_list_slice(const tri_op_list *list, tri_domain domain, int64_t *first, int64_t *rows);

/* An empty list for micro-batches of batch x sequence tokens. Release with tri_op_list_destroy. */
tri_status tri_op_list_create(int64_t batch, int64_t sequence, tri_dtype type, bool training, tri_op_list **out);
void tri_op_list_destroy(tri_op_list *list);

/* The list is for that rank: before the first call. */
void tri_op_list_set_shard(tri_op_list *list, const tri_op_shard *shard);

/* Before the first call: what the list knows of the model's parameters, [count], which are copied. */
tri_status tri_op_list_set_parameters(tri_op_list *list, const tri_op_parameter *parameters, int64_t count,
                                      const tri_op_adapter *adapter);

/* Before the first call: a window that calls may have. It has no effect if no sequence has more `positions`. Then,
 * which the calls that follow have. */
void tri_op_list_add_window(tri_op_list *list, int64_t positions, int64_t tokens);
void tri_op_list_set_window(tri_op_list *list, int64_t tokens);
bool tri_op_list_is_windowed(const tri_op_list *list);
/* What is left of attention's work in a sequence where masks leave a share of it, 1 for none, and a window, 0 for none,
 * leaves some of that. Of documents only their share is known: they count as if they were equally long. */
double tri_op_window_fraction(double area, int64_t sequence, int64_t window);

/* Copies `bytes` bytes of attributes into the list's keeping. */
tri_status tri_op_list_keep(tri_op_list *list, const void *attributes, size_t bytes, const void **out);

/* [ranks of the domain + 1] first elements of each rank's slice of the rows of a [rows, width] matrix. */
tri_status tri_op_list_keep_slices(tri_op_list *list, tri_domain domain, int64_t width, const int64_t **out);

tri_status tri_op_list_add_constant(tri_op_list *list, const tri_constant *constant, int32_t *out);

/* Appends a call: the caller fills op, attributes, inputs, parameters and constant; num_outputs slots are made by the
 * operation's shape and written to outputs. */
tri_status tri_op_list_append(tri_op_list *list, const tri_op_call *call, int num_outputs,
                              int32_t outputs[TRI_OP_OUTPUTS]);

/* No more calls follow. */
tri_status tri_op_list_finish(tri_op_list *list);

/* Decides again, on a finished list, which slots a backward pass reads and which outputs lie over their inputs: not
 * over one that is pinned. Marks of recomputation are gone then. */
void tri_op_list_place(tri_op_list *list);

size_t tri_shape_bytes(const tri_shape *shape);

/* A call with nothing in it: every slot, parameter and constant absent. */
tri_op_call tri_op_call_of(const tri_op *op, const void *attributes);

#endif
