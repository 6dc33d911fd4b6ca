/* The parameter table: the one list of a model's parameters. Initialisation, the optimizer's decay groups, sharding,
 * checkpoints, memory planning and `inspect` all read it.
 *
 * Every rank's table lists every parameter of the model, in the same order. The local part of a parameter on this rank
 * is empty if another stage has the parameter, a slice if tensor parallelism splits it, and otherwise the whole.
 * Values, gradients and the optimizer's moments are each one flat array of the local parts; `offset` is a parameter's
 * offset in these arrays.
 *
 * The experts of a layer are stacks: one parameter with many matrices of equal shape. A rank holds some of the
 * matrices. On disk each matrix is a tensor with its own name (tri_parameter_tensor).
 *
 * Tied models also list the output projection, as a second parameter with the values of the token embedding
 * (`tied_to`). If one rank holds both, they share their values; their gradients are separate until the end of a step,
 * so that they are added in the same order as on two ranks. */
#ifndef TRI_MODEL_PARAMETERS_H
#define TRI_MODEL_PARAMETERS_H

#include "device/nf4.h"
#include "mesh/domain.h"
#include "model/model.h"
#include "ops/op.h"

#include <stddef.h>

typedef enum tri_init {
  TRI_INIT_ZERO,
  TRI_INIT_ONE,
  TRI_INIT_NORMAL,
  TRI_INIT_UNIFORM, /* with mean 0 */
} tri_init;

typedef enum tri_part {
  TRI_PART_EMBEDDING,
  TRI_PART_ATTENTION,
  TRI_PART_MLP,
  TRI_PART_NORM,
  TRI_PART_HEAD,
  TRI_PART_ROUTER,
} tri_part;
enum { TRI_NUM_PARTS = TRI_PART_ROUTER + 1 };

/* The rule that updates a parameter. */
typedef enum tri_parameter_rule {
  TRI_RULE_OPTIMIZER, /* the optimizer, from the parameter's gradient */
  TRI_RULE_BALANCE,   /* the load balancing of experts (tri_model.balance_rate); the parameter has neither gradient nor
                         moments */
} tri_parameter_rule;

/* Groups of parameters that optimizers may treat differently. */
#define TRI_PARAMETER_GROUPS(X)                                                                                        \
  X(MATRICES, matrices)                                                                                                \
  X(EMBEDDINGS, embeddings) /* tokens, positions, and the output projection */                                         \
  X(ROUTERS, routers)                                                                                                  \
  X(VECTORS, vectors) /* norms and biases */
#define TRI_PARAMETER_GROUP_VALUE(VALUE, name) TRI_GROUP_##VALUE,
typedef enum tri_parameter_group { TRI_PARAMETER_GROUPS(TRI_PARAMETER_GROUP_VALUE) } tri_parameter_group;
enum { TRI_NUM_GROUPS = TRI_GROUP_VECTORS + 1, TRI_ALL_GROUPS = (1 << TRI_NUM_GROUPS) - 1 };

/* The ranks that hold a parameter. Ranks of `parts` hold shards of it (tri_split), or copies with the same tokens.
 * Ranks of `holders` hold different matrices of a stack. Ranks of `replicas` hold the same values and have different
 * tokens: gradients are summed over them, and ZeRO shards over them. Only the pipeline stage that has the parameter's
 * layer holds it. */
typedef struct tri_parameter_placement {
  tri_domain parts, replicas;
  bool has_holders; /* whether the parameter is a stack, and `holders` is set */
  tri_domain holders;
} tri_parameter_placement;

/* Returns the placement of parameters other than experts. */
tri_parameter_placement tri_parameter_placed_dense(void);
/* Returns the placement of experts. */
tri_parameter_placement tri_parameter_placed_experts(void);

/* How the ranks of a domain hold a parameter, and the gradient of it that each of them has after the backward. The
 * holding over `holders` is always SPLIT, and over `replicas` always PARTIAL; over `parts` it depends on the parameter
 * (tri_parameter.over_parts). Sums of gradients, the gradient norm and the planner's prices depend on it. */
typedef enum tri_holding {
  TRI_HOLDING_SPLIT,   /* each rank holds a different part, and has the whole gradient of this part */
  TRI_HOLDING_COPIES,  /* each rank holds the whole parameter, and has its whole gradient */
  TRI_HOLDING_PARTIAL, /* ranks hold copies of the whole, or of the same heads, and their gradients have to be summed */
} tri_holding;

/* How a parameter is split over the ranks of its parts. Dimension `dim` consists of `segments` of equal length (three
 * in GPT-2's q, k and v, else one), each of `units` (heads; or single rows or columns); a rank holds contiguous units
 * of every segment. If there are fewer units than ranks (grouped-query heads), adjacent ranks hold copies. */
typedef struct tri_split {
  int dim; /* -1: every rank holds the whole */
  int64_t segments, units;
} tri_split;

/* TRI_PARAMETER_KINDS: largest number of an expert's matrices that are adjacent in memory and that one GEMM uses (gate
 * and up). */
enum { TRI_PARAMETER_KINDS = 2, TRI_PARAMETER_NAME_BYTES = 80 };

/* Rows of a larger tensor on disk (q of Phi-3's qkv_proj, or of GPT-NeoX's, which alternates q, k and v of each head).
 * The rows begin at `first`, in blocks of `block` rows, whose first rows are `stride` rows apart. All parts of a tensor
 * have its name, and are adjacent in the table and in memory (joined); the one with first 0 comes first. */
typedef struct tri_rows_within {
  int64_t rows; /* rows of the tensor on disk; 0: the parameter is a whole tensor */
  int64_t first, block, stride;
  const char *part; /* name of the part: "q" */
} tri_rows_within;

/* Layout of the matrices of a stack in one tensor on disk, as for factors of experts in PEFT
 * (model/trainable_experts.h). */
typedef enum tri_stacking {
  TRI_STACKING_NONE,    /* each matrix is a tensor */
  TRI_STACKING_ROWS,    /* A: [members * rows, columns], one after the other */
  TRI_STACKING_COLUMNS, /* B: [kinds * rows, columns * members]: column c of member m is column c * members + m */
} tri_stacking;

typedef struct tri_stacked {
  tri_stacking as;
  int64_t members, kinds; /* sizes of the stack */
  int64_t number;         /* matrix: its index in the stack, member after member */
  int64_t together; /* number of members, from this one on, whose elements alternate in the local part; at most 1: only
                       this member */
  const char *name; /* matrix: name of the tensor on disk, owned by the table; NULL: a stack */
} tri_stacked;

typedef struct tri_parameter {
  char name[TRI_PARAMETER_NAME_BYTES]; /* Hugging Face's name; for a stack with `*` for the member's number */
  int num_dims;
  int64_t shape[2]; /* global shape; for a stack the shape of one matrix */
  /* A stack has `stack` members (experts) of `kinds` matrices each, member after member. Each matrix is dense, and
   * split over the ranks of its parts. `stack` and `kinds` of other parameters are 1; less than 1 counts as 1. `names`
   * are the names of a member's matrices, with %ld for the layer, then %ld for the member; the family owns them. */
  int64_t stack, kinds;
  const char *names[TRI_PARAMETER_KINDS];
  tri_stacked stacked; /* set if a stack's matrices are one tensor on disk, with the stack's name */
  tri_rows_within within;
  tri_parameter_placement placement;
  tri_split split;
  int64_t layer; /* -1: before the first layer, num_layers: after the last */
  tri_part part;
  tri_parameter_rule rule;
  tri_init init;
  double std;         /* standard deviation of the initial values, for TRI_INIT_NORMAL and TRI_INIT_UNIFORM */
  bool in_out;        /* whether the matrix is stored as [in, out], as GPT-2's are; else as [out, in] */
  bool by_heads;      /* true if the parameter is not split, but a rank computes its gradient from a shard of the other
                         operand (its own heads, or its shard of the other factor), so that gradients are partial
                         (TRI_HOLDING_PARTIAL) */
  bool joined;        /* whether the parameter directly follows the previous one in memory; one GEMM uses both */
  bool frozen;        /* true if the parameter is not trained (trainable.h) and has neither gradient nor states */
  bool factor;        /* whether the parameter is a LoRA factor, or DoRA's magnitudes */
  bool first;         /* whether the parameter is the frozen initial value of a factor; `factor` is then set, too */
  bool even;          /* whether all ranks of `parts` have the same number of units */
  int32_t tied_to;    /* index of the parameter whose values this parameter uses; -1: not tied */
  tri_stored stored;  /* type in memory; trained parameters are wide */
  double scale;       /* LoRA factor: scale of the product of its pair */
  int32_t factors[2]; /* matrix: indices of its factors A and B; -1: none */
  int32_t
      firsts[2]; /* matrix: indices of its factors' initial values, if these are subtracted (trainable.h); -1: none */
  int32_t magnitude; /* matrix: index of DoRA's magnitudes; -1: none */

  /* The local part of this rank. */
  int64_t local[2];                  /* local shape */
  int64_t first_unit, num_units;     /* units of every segment of split.dim */
  int64_t first_member, num_members; /* members of a stack */
  int64_t count;                     /* elements; 0 if another stage holds the parameter */
  int64_t offset;                    /* first element in the flat arrays; if frozen, in the array of its stored type
                                        (first byte of codes) */
  int64_t gradient_offset; /* first element in the array of gradients; differs from `offset` only for an alias */
  bool alias;              /* whether this rank also holds tied_to, whose values and moments it uses */
  bool counted; /* whether norms and saves count this rank's copy; of equal copies on several ranks of placement.parts
                   or stages, only one is counted */
  tri_holding over_parts; /* how the ranks of placement.parts hold the parameter and its gradient */
} tri_parameter;

typedef struct tri_parameter_table {
  tri_parameter *entries;
  int64_t num_entries;
  int64_t num_elements;          /* elements of a flat array on this rank, with padding */
  int64_t num_gradient_elements; /* elements of the array of gradients; more than num_elements with an alias */
  int64_t num_values; /* number of parameters of the whole model; tied parameters count once, and initial values of
                         factors (`first`) not at all */
  int64_t num_frozen[TRI_NUM_STORED]; /* elements of frozen parameters on this rank, by stored type: tri_stored_bytes
                                         each */
  bool has_factors;                   /* whether the table has LoRA factors */
  const struct tri_model_share *only; /* during construction: the share whose layers the table lists; NULL: all
                                         layers */
} tri_parameter_table;

/* Alignment of parameters that are not joined, in elements. A block of this size never has elements of two of them, so
 * sums over blocks are equal in every layout of stages and shards. */
enum { TRI_BLOCK_ELEMENTS = 256 };

/* Consecutive layers; -1 is the embedding, and num_layers the last norm and the output projection. */
typedef struct tri_layer_range {
  int64_t first, end;
} tri_layer_range;

/* The part of a model that one rank holds. */
typedef struct tri_model_share {
  tri_mesh_position position;
  bool sequence_parallel;
  const tri_layer_range *chunks; /* [num_chunks]: the layers of the rank's virtual stages */
  int64_t num_chunks;
} tri_model_share;

/* Creates the table of a model, which must be complete (tri_model_complete); share NULL: for one rank alone. Release
 * with tri_parameter_table_destroy. */
tri_status tri_parameter_table_create(const tri_model *model, const tri_model_share *share, tri_parameter_table **out);
/* Returns the number of parameters of a model, with tied embeddings counted once; 0 if memory is exhausted. */
double tri_model_num_parameters(const tri_model *model);

/* Creates the table of the rank at a mesh position, with all layers. */
tri_status tri_parameter_table_create_at(const tri_model *model, const tri_mesh_position *position,
                                         tri_parameter_table **out);
/* Creates a table without the layers of other stages, for planning, which makes many tables. Numbers of entries and
 * num_values differ from those of the whole table; local parts and offsets are the same. */
tri_status tri_parameter_table_create_own(const tri_model *model, const tri_model_share *share,
                                          tri_parameter_table **out);
void tri_parameter_table_destroy(tri_parameter_table *table);

/* Returns `parameter` with the local part of rank `rank`, if `ranks` ranks hold its parts. A stack has all its
 * members. */
tri_parameter tri_parameter_of_rank(const tri_parameter *parameter, int64_t ranks, int64_t rank);
/* Returns the parameter with the local part of the rank at a mesh position, as if its stage had the layer. The rank at
 * {0} has the most elements. */
tri_parameter tri_parameter_of_position(const tri_parameter *parameter, const tri_mesh_position *position);

/* Returns the number of a parameter's tensors on disk: 1, or the number of matrices of a stack, member after member. */
int64_t tri_parameter_num_tensors(const tri_parameter *parameter);
/* Returns tensor i of a parameter, as a parameter with its own name and local part; *first: its first element in the
 * local part of `parameter`, if this rank holds it. */
tri_parameter tri_parameter_tensor(const tri_parameter *parameter, int64_t i, int64_t *first);

/* Returns whether a parameter is a part of a larger tensor on disk (`within`, `stacked`), but not its first part. */
bool tri_parameter_continues(const tri_parameter *parameter);
/* Returns the whole tensor on disk that contains `tensor`, as a parameter. */
tri_parameter tri_parameter_on_disk(const tri_parameter *tensor);

/* Computes the units of a dimension on rank `rank` of `ranks`. */
void tri_split_units(int64_t units, int64_t ranks, int64_t rank, int64_t *first, int64_t *count);

/* Returns the length of the runs of a tensor in elements; 0 if this rank has no part of the tensor. The local part of a
 * tensor consists of runs of equal length, and each run is also contiguous in the tensor on disk. Run i begins at local
 * element i * length. */
int64_t tri_parameter_run_length(const tri_parameter *tensor);
/* Returns the element of the tensor on disk at which run i begins. */
int64_t tri_parameter_run(const tri_parameter *tensor, int64_t i);
/* Returns the number of elements of the whole parameter, with all matrices of a stack. */
int64_t tri_parameter_global_count(const tri_parameter *parameter);

/* Returns the number of matrices of a coded parameter on this rank. Each is a part of a matrix on disk and is quantised
 * separately. */
int64_t tri_parameter_num_matrices(const tri_parameter *parameter);
/* Returns the cut of the matrix on disk that a matrix of a parameter in 4 bits has on this rank. */
tri_nf4_cut tri_parameter_cut(const tri_parameter *parameter);
/* Returns whether a parameter is in blocks, and sets *out to the matrix that each of its matrices is on this rank. */
bool tri_parameter_in_blocks(const tri_parameter *parameter, tri_block_matrix *out);
/* Returns the number of bytes from one matrix of a coded parameter to the next. It is largest on the rank at {0}. */
int64_t tri_parameter_matrix_bytes(const tri_parameter *parameter);
/* Returns whether a parameter has a gradient, from which the optimizer updates it. */
bool tri_parameter_has_gradient(const tri_parameter *parameter);
/* Returns whether the gradient of a parameter has to be summed over the ranks of its parts (TRI_HOLDING_PARTIAL). */
bool tri_parameter_is_partial(const tri_parameter *parameter);

/* Returns whether this rank has a part of the parameter in the flat arrays: false if another stage holds the parameter,
 * if it is frozen, or if it is an alias. */
static inline bool tri_parameter_is_in_arrays(const tri_parameter *parameter) {
  return parameter->count > 0 && !parameter->alias && !parameter->frozen;
}

const char *tri_part_name(tri_part part);

tri_parameter_group tri_parameter_group_of(const tri_parameter *parameter);
const char *tri_parameter_group_name(tri_parameter_group group);

/* ---- for the families -------------------------------------------------------------------------------------------- */

/* Returns the split of a parameter that every rank holds whole. */
tri_split tri_split_none(void);
/* Returns a split along a dimension by its elements. `length`: length of the dimension. */
tri_split tri_split_elements(int dim, int64_t length);
/* Returns a split along a dimension by heads. `heads`: number of heads of each segment. */
tri_split tri_split_heads(int dim, int64_t segments, int64_t heads);

/* Returns the weight or bias of a norm. */
tri_parameter tri_parameter_norm(int64_t width, tri_init init);
/* Returns the weight of a norm of queries or keys that all heads share. */
tri_parameter tri_parameter_head_norm(int64_t width);
tri_parameter tri_parameter_bias(tri_part part, int64_t width, tri_split split);
/* Returns a matrix with normal initial values of standard deviation `std`. */
tri_parameter tri_parameter_matrix(tri_part part, int64_t rows, int64_t columns, tri_split split, double std);
/* Returns `parameter` with `joined` set. */
tri_parameter tri_parameter_joined(tri_parameter parameter);
/* Returns `parameter` as rows of a larger tensor on disk. */
tri_parameter tri_parameter_within(tri_parameter parameter, tri_rows_within within);
/* Returns a stack of experts with `kinds` matrices [rows, columns] each, split along dimension `split_dim` over the
 * expert tensor ranks. The initial values are normal, with standard deviation `std`. */
tri_parameter tri_parameter_experts(int64_t experts, int64_t kinds, int64_t rows, int64_t columns, int split_dim,
                                    double std);
/* Returns a router's bias, which TRI_RULE_BALANCE updates. */
tri_parameter tri_parameter_balance(int64_t experts);

/* Appends a parameter to the table, and sets its name and layer. %ld in `name` is replaced by the layer's number. */
tri_status tri_parameter_table_add(tri_parameter_table *table, const char *name, int64_t layer,
                                   tri_parameter parameter);
/* Appends a stack. `names`: names of its kinds, each with %ld for the layer and %ld for the member; they must
 * outlive the table. */
tri_status tri_parameter_table_add_stack(tri_parameter_table *table, const char *const names[], int64_t layer,
                                         tri_parameter parameter);
/* Returns whether the table leaves out this layer (tri_parameter_table_create_own). */
bool tri_parameter_table_lacks(const tri_parameter_table *table, int64_t layer);
/* Sets the local part and the offset of every entry, after all entries have been added. share NULL: for one rank
 * alone. */
void tri_parameter_table_lay_out(tri_parameter_table *table, const tri_model_share *share);

/* Appends the output projection of a tied model, with the values of parameter 0. */
tri_status tri_parameter_table_add_tied(tri_parameter_table *table, const char *name, int64_t layer);

#endif
