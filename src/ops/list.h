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
  int32_t producer;       /* call */
  int32_t last_consumer;  /* call that reads it last going forward; the producer if nobody does */
  bool kept;              /* a backward pass reads it */
  bool pinned;            /* a call that runs again reads it, so nothing may be written over it */
  bool has_gradient;      /* something behind it leads to the loss */
  bool recomputed;        /* on the slot whose memory it is: not kept, but made again before its layer's backward */
  int32_t memory_of;      /* slot whose memory it uses (in place), or itself */
  int32_t next_in_memory; /* slot that is written over it; -1: none. From memory_of on these are all that lie there */
} tri_slot;

/* Read-only data that calls share, made on the host when a program is set up. */
typedef struct tri_constant {
  size_t bytes;
  void (*fill)(const void *attributes, void *host); /* writes `bytes` bytes */
  const void *attributes;                           /* owned by the list */
} tri_constant;

/* How the ranks that share a sequence bring queries and keys together (context.h). */
typedef enum tri_context_exchange {
  TRI_CONTEXT_GATHER, /* keys and values of the sequence are gathered */
  TRI_CONTEXT_HEADS,  /* each rank gets all tokens of some heads */
  TRI_CONTEXT_RING,   /* blocks of keys and values pass from rank to rank */
} tri_context_exchange;

/* Which rank the list is for: of those that split a layer, or a sequence. With sequence_parallel, what lies between the
 * products (norms, dropout, residual) works on a slice of the rows. */
typedef struct tri_op_shard {
  tri_mesh_seat seat;
  bool sequence_parallel;
  tri_context_exchange context_exchange;
  double context_row_pairs; /* mesh/document_cut.h */
  double expert_capacity;   /* room for the rows of experts, as a multiple of those of a rank where all have equally
                               many; 0: 1.5 */
  bool capacity_drop;       /* rows beyond it are dropped, of each expert by their order; else they take more rounds */
  double expert_imbalance;  /* for what calls cost, and nothing else: rows of the busiest rank's experts, as a multiple
                               of those that they have where all experts are equally busy; 0: 1 */
} tri_op_shard;

/* How far back calls of attention look: each window has slices of its own, and a share of the work. */
enum { TRI_OP_WINDOWS = 4 };
typedef struct tri_op_windows {
  int64_t count;
  int64_t tokens[TRI_OP_WINDOWS]; /* that a query sees at most; 0: all before it */
} tri_op_windows;

/* What a list has to know of a parameter beside its number, which families give: of an adapted model, or one of which
 * some is frozen. */
typedef struct tri_op_parameter {
  int64_t out;        /* of a matrix: how many outputs this rank has of it; of a factor A: */
  int64_t in, first;  /* inputs of all ranks, and the first that this one has */
  int32_t index;      /* in the table, where factors lie between */
  int32_t factors[2]; /* numbers of its adapter's A and B, or -1 */
  tri_stored stored;
  bool frozen;
  bool joined; /* lies directly behind the one before it: together they are one matrix of a product */
} tri_op_parameter;

/* Of factors beside matrices (ops.h). */
typedef struct tri_op_adapter {
  int64_t rank;
  double scale, dropout;
} tri_op_adapter;

typedef struct tri_op_list {
  tri_op_call *calls;
  int64_t num_calls;
  tri_slot *slots;
  int64_t num_slots;
  tri_constant *constants;
  int64_t num_constants;
  int64_t tokens;          /* of a sequence */
  int64_t batch, sequence; /* of a micro-batch: sequences, and their tokens on this rank in the calls that follow */
  int64_t most_slices;     /* in a list of attention's: `batch` from tri_op_list_create, each sequence by itself */
  bool masked;             /* documents do not see each other */
  double area;             /* their share of what `batch` whole sequences have, in the mean: 1 likewise */
  int64_t together;        /* of the positions of a sequence: so many from the first on are read at once */
  tri_op_windows windows;  /* of all lists that share its batches; one that is none from tri_op_list_create */
  int32_t window;          /* which of them the calls that follow have */
  int32_t layer;           /* given to the calls that follow */
  tri_op_shard shard;      /* of the only rank, from tri_op_list_create */
  bool expert;             /* the calls that follow work on rows of experts */
  int32_t num_routers;     /* so far, */
  int64_t router_experts;  /* and what each of them chooses from */
  bool sliced;             /* the calls that follow work on a slice of the rows */
  bool weights_pass;       /* parameters come and go: given to every call */
  bool recomputable;       /* the calls that follow may be run again before their backward */
  tri_dtype type;
  bool training;
  bool generating; /* given to the calls that follow */
  bool scores;     /* the loss gives each label's, too: output 0 [rows, 1] of the call that makes it */
  const tri_op_parameter *parameters; /* [num_parameters], the family's, then factors; NULL: all are trained, and wide,
                                         and each one's number is its index */
  int64_t num_parameters;
  tri_op_adapter adapter;
  void **blocks; /* attributes */
  int64_t num_blocks;
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

/* Before the first call: a window that calls may have. It is none where no sequence has more `positions`. Then, which
 * the calls that follow have. */
void tri_op_list_add_window(tri_op_list *list, int64_t positions, int64_t tokens);
void tri_op_list_set_window(tri_op_list *list, int64_t tokens);
bool tri_op_list_is_windowed(const tri_op_list *list);
/* What is left of attention's work in a sequence where masks leave a share of it, 1 for none, and a window, 0 for none,
 * leaves some of that. Of documents only their share is known: they count as if they were equally long. */
double tri_op_window_area(double area, int64_t sequence, int64_t window);

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

/* Decides anew, on a finished list, which slots a backward pass reads and which outputs lie over their inputs: not over
 * one that is pinned. Marks of recomputation are gone then. */
void tri_op_list_place(tri_op_list *list);

size_t tri_shape_bytes(const tri_shape *shape);

/* A call with nothing in it: every slot, parameter and constant absent. */
tri_op_call tri_op_call_of(const tri_op *op, const void *attributes);

#endif
