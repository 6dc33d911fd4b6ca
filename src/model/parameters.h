/* The parameter table: the one place that knows a parameter. Initialisation, the optimizer's decay groups, sharding,
 * checkpoints, memory planning and `inspect` all read it.
 *
 * Every rank's table lists every parameter of the model, in the same order; what this rank holds of it is its local
 * part: nothing of another stage's, a slice of what tensor parallelism splits, all of the rest. Values, gradients and
 * the optimizer's moments are each one flat array of the local parts; `offset` is a parameter's place in them.
 *
 * The experts of a layer are stacks: one parameter of many matrices of equal shape, of which a rank holds some. On disk
 * each of them is a tensor of its own name (tri_parameter_tensor).
 *
 * Tied models list the output projection too, as a parameter that is the token embedding once more (`tied_to`). Where
 * one rank holds both they share their values; their gradients are apart until the end of a step, so that they add up
 * in the same order as on two ranks. */
#ifndef TRI_MODEL_PARAMETERS_H
#define TRI_MODEL_PARAMETERS_H

#include "mesh/domain.h"
#include "model/model.h"
#include "ops/op.h"

#include <stddef.h>

typedef enum tri_init {
  TRI_INIT_ZERO,
  TRI_INIT_ONE,
  TRI_INIT_NORMAL,
  TRI_INIT_UNIFORM, /* around 0 */
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

/* What changes a parameter. */
typedef enum tri_parameter_rule {
  TRI_RULE_OPTIMIZER, /* the optimizer, by its gradient */
  TRI_RULE_BALANCE,   /* the load of the experts (tri_model.balance_rate): it has neither gradient nor moments */
} tri_parameter_rule;

/* What optimizers tell parameters apart by. */
#define TRI_PARAMETER_GROUPS(X)                                                                                        \
  X(MATRICES, matrices)                                                                                                \
  X(EMBEDDINGS, embeddings) /* of tokens and positions, and the output projection */                                   \
  X(ROUTERS, routers)                                                                                                  \
  X(VECTORS, vectors) /* norms and biases */
#define TRI_PARAMETER_GROUP_VALUE(VALUE, name) TRI_GROUP_##VALUE,
typedef enum tri_parameter_group { TRI_PARAMETER_GROUPS(TRI_PARAMETER_GROUP_VALUE) } tri_parameter_group;
enum { TRI_NUM_GROUPS = TRI_GROUP_VECTORS + 1, TRI_ALL_GROUPS = (1 << TRI_NUM_GROUPS) - 1 };

/* Where a parameter is. Along the axes of `parts`, ranks hold parts of it (tri_split), or copies that see the same
 * tokens; along those of `holders`, different matrices of a stack; along those of `replicas` all hold the same and see
 * different tokens: gradients are added up over it, and ZeRO shares it out there. Along the pipeline one stage holds
 * it, the one that has its layer. */
typedef struct tri_parameter_placement {
  tri_domain parts, replicas;
  bool has_holders; /* else there are none */
  tri_domain holders;
} tri_parameter_placement;

/* Of what every token meets: the ranks that share a layer hold its parts. Of experts. */
tri_parameter_placement tri_parameter_placed_dense(void);
tri_parameter_placement tri_parameter_placed_experts(void);

/* How a parameter is split over the ranks of its parts. Along dimension `dim` lie `segments` stretches of equal length
 * (three in GPT-2's q, k and v, else one), each made of `units` (heads; or single rows or columns); a rank holds
 * neighbouring units of every stretch. Where there are fewer units than ranks (grouped-query heads), neighbours hold
 * copies. */
typedef struct tri_split {
  int dim; /* -1: every rank holds the whole */
  int64_t segments, units;
} tri_split;

/* Matrices of an expert that lie behind one another, and are one in a product: at most gate and up. */
enum { TRI_PARAMETER_KINDS = 2, TRI_PARAMETER_NAME_BYTES = 80 };

/* A parameter that is some rows of a larger tensor on disk (q of Phi-3's qkv_proj, or of GPT-NeoX's, whose heads have
 * their q, k and v one behind the other): of that one's `rows`, those from `first` on, in blocks of `block`, each
 * `stride` rows behind the one before. All parts of a tensor have its name, and are neighbours in the table and in
 * memory (joined), the one with first 0 before the others. */
typedef struct tri_rows_within {
  int64_t rows; /* 0: it is a tensor by itself */
  int64_t first, block, stride;
  const char *part; /* what tells it from the others: "q" */
} tri_rows_within;

typedef struct tri_parameter {
  char name[TRI_PARAMETER_NAME_BYTES]; /* Hugging Face's; of a stack with `*` for the member's number */
  int num_dims;
  int64_t shape[2]; /* global; of one matrix of a stack */
  /* A stack has `stack` members (experts) of `kinds` matrices, in this order, each by itself dense and split
   * over the ranks of its parts. 1 and 1 for all else; below 1 counts as 1. `names` of its matrices have %ld for the
   * layer, then for the member; they are the family's. */
  int64_t stack, kinds;
  const char *names[TRI_PARAMETER_KINDS];
  tri_rows_within within;
  tri_parameter_placement placement;
  tri_split split;
  int64_t layer; /* -1 before the first, num_layers behind the last */
  tri_part part;
  tri_parameter_rule rule;
  tri_init init;
  double std;         /* TRI_INIT_NORMAL, TRI_INIT_UNIFORM */
  bool in_out;        /* a matrix is stored [in, out], as GPT-2's are; else [out, in] */
  bool by_heads;      /* each rank of its parts has its gradient of the heads that it has, whatever the rows */
  bool joined;        /* lies directly behind the one before it: together they are one matrix of a product */
  int32_t tied_to;    /* the parameter whose values these are, or -1 */
  bool frozen;        /* not trained (trainable.h): it has neither gradient nor states, and lies in no bucket */
  tri_stored stored;  /* how it is kept; what is trained is wide */
  bool factor;        /* of an adapter */
  int32_t factors[2]; /* of a matrix: its adapter's A and B, or -1 */

  /* What this rank holds. */
  int64_t local[2];                  /* shape of its part */
  int64_t first_unit, num_units;     /* of every segment of split.dim */
  int64_t first_member, num_members; /* of a stack */
  int64_t count;                     /* elements; 0 if it lies on another stage */
  int64_t offset;                    /* first element in the flat arrays; where frozen, in the array of its kind, of
                                        those in 4 bits the first byte */
  int64_t gradient_offset;           /* the same in the gradients' array; another only for an alias */
  bool alias;                        /* values and moments are those of tied_to, on this rank */
  bool counted; /* this rank is the one whose part counts where ranks of placement.parts, or stages, hold copies */
  bool partial_gradient; /* its gradient is the sum of those of the ranks of placement.parts that hold the same: each
                            has seen a slice of the rows (norms, routers), or some of the heads that share it (k, v) */
} tri_parameter;

typedef struct tri_parameter_table {
  tri_parameter *entries;
  int64_t num_entries;
  int64_t num_elements;               /* of a flat array on this rank, padding included */
  int64_t num_gradient_elements;      /* of the gradients' array: as many, or more with an alias */
  int64_t num_values;                 /* of the whole model */
  int64_t num_frozen[TRI_NUM_STORED]; /* elements of what is not trained on this rank, by how it is kept:
                                         tri_stored_bytes each */
  bool has_factors;                   /* it is an adapted model's */
  const struct tri_model_share *only; /* while it is made: whose layers it has; NULL: all */
} tri_parameter_table;

/* Parameters that are not joined begin at multiples of this: no block of that many elements holds two of them, whatever
 * else a rank holds, so sums over blocks are the same under every layout of stages and shards. */
enum { TRI_BLOCK_ELEMENTS = 256 };

/* A run of layers; -1 is the embedding and num_layers the last norm and head. */
typedef struct tri_layer_range {
  int64_t first, end;
} tri_layer_range;

/* What one rank holds of a model. */
typedef struct tri_model_share {
  tri_mesh_seat seat;
  bool sequence_parallel;
  const tri_layer_range *chunks; /* of its pipeline stages */
  int64_t num_chunks;
} tri_model_share;

/* The table of a complete model; share NULL is all of it. Release with tri_parameter_table_destroy. */
tri_status tri_parameter_table_create(const tri_model *model, const tri_model_share *share, tri_parameter_table **out);
/* The same for planning, which has many of them made: without the layers of other stages. The places of entries in it
 * and num_values are its own; local parts and offsets are those of the whole table. */
tri_status tri_parameter_table_create_own(const tri_model *model, const tri_model_share *share,
                                          tri_parameter_table **out);
void tri_parameter_table_destroy(tri_parameter_table *table);

/* The same entry with what the rank number `rank` of the ranks of its parts holds of it, all members of a stack. */
tri_parameter tri_parameter_of_rank(const tri_parameter *parameter, int64_t ranks, int64_t rank);
/* The same entry with what the rank at a seat holds of it if its stage does. That at place {0} holds the most. */
tri_parameter tri_parameter_of_seat(const tri_parameter *parameter, const tri_mesh_seat *seat);

/* The tensors that a parameter is on disk: itself, or each matrix of a stack, member after member. The i-th as a
 * parameter with its own name, and what this rank holds of it; *first: its first element in the local part of the
 * whole, where that has it. */
int64_t tri_parameter_num_tensors(const tri_parameter *parameter);
tri_parameter tri_parameter_tensor(const tri_parameter *parameter, int64_t i, int64_t *first);

/* Whether it is a further part of the tensor on disk that the one before it begins. */
bool tri_parameter_continues(const tri_parameter *parameter);
/* The tensor on disk that a tensor is, or is a part of, as a parameter that is nothing else. */
tri_parameter tri_parameter_on_disk(const tri_parameter *tensor);

/* Units of a dimension that one of `ranks` holds. */
void tri_split_units(int64_t units, int64_t ranks, int64_t rank, int64_t *first, int64_t *count);

/* The local part of a tensor is made of runs of elements that are neighbours in the tensor on disk too, all of the same
 * length. Run i begins at local element i * length and at global element tri_parameter_run(tensor, i). */
int64_t tri_parameter_run_length(const tri_parameter *tensor);
int64_t tri_parameter_run(const tri_parameter *tensor, int64_t i);
int64_t tri_parameter_global_count(const tri_parameter *parameter);

/* Of one that is kept in 4 bits: its matrices on this rank, each quantised by itself, and bytes from one to the next.
 */
int64_t tri_parameter_num_matrices(const tri_parameter *parameter);
int64_t tri_parameter_matrix_bytes(const tri_parameter *parameter);
/* Whether the optimizer changes it, by a gradient; else it has none, and no moments. */
bool tri_parameter_has_gradient(const tri_parameter *parameter);

/* Whether this rank has something of it in the flat arrays: not of another stage's, nor of what is not trained, nor
 * twice of a tied pair. */
static inline bool tri_parameter_is_in_arrays(const tri_parameter *parameter) {
  return parameter->count > 0 && !parameter->alias && !parameter->frozen;
}

const char *tri_part_name(tri_part part);

tri_parameter_group tri_parameter_group_of(const tri_parameter *parameter);
const char *tri_parameter_group_name(tri_parameter_group group);

/* ---- for the families ------------------------------------------------------------------------------------------ */

/* Not split; split along a dimension by its elements; the same by heads. */
tri_split tri_split_none(void);
tri_split tri_split_elements(int dim, int64_t length);
tri_split tri_split_heads(int dim, int64_t segments, int64_t heads);

/* A vector of a norm; a bias; a matrix with normal initial values; the same lying directly behind the one before. */
tri_parameter tri_parameter_norm(int64_t width, tri_init init);
/* Of a norm of queries or keys, whose weights all heads have alike. */
tri_parameter tri_parameter_head_norm(int64_t width);
tri_parameter tri_parameter_bias(tri_part part, int64_t width, tri_split split);
tri_parameter tri_parameter_matrix(tri_part part, int64_t rows, int64_t columns, tri_split split, double std);
tri_parameter tri_parameter_joined(tri_parameter parameter);
/* The same as rows of a larger tensor. */
tri_parameter tri_parameter_within(tri_parameter parameter, tri_rows_within within);
/* Experts of `kinds` matrices each, split along a dimension over the ranks that split an expert. */
tri_parameter tri_parameter_experts(int64_t experts, int64_t kinds, int64_t rows, int64_t columns, int split_dim,
                                    double std);
/* A router's bias, which the balance of its experts changes. */
tri_parameter tri_parameter_balance(int64_t experts);

/* Appends one entry with its global facts: fills name and layer. A `name` with %ld in it gets the layer's
 * number. */
tri_status tri_parameter_table_add(tri_parameter_table *table, const char *name, int64_t layer,
                                   tri_parameter parameter);
/* The same of a stack: the names of its kinds, each with %ld for the layer and %ld for the member. They stay. */
tri_status tri_parameter_table_add_stack(tri_parameter_table *table, const char *const names[], int64_t layer,
                                         tri_parameter parameter);
/* Whether a layer's parameters are not asked for. */
bool tri_parameter_table_lacks(const tri_parameter_table *table, int64_t layer);
/* Gives every entry its local part and its place; share NULL is all of the model. The last thing after adding. */
void tri_parameter_table_lay_out(tri_parameter_table *table, const tri_model_share *share);

/* Appends the output projection of a tied model: parameter 0 once more. */
tri_status tri_parameter_table_add_tied(tri_parameter_table *table, const char *name, int64_t layer);

#endif
