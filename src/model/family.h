/* A family of models: its defaults and valid numbers, its layers, and its names in config.json and in files of tensors.
 * Each family is a file (gpt2.c, llama.c) and a line in TRI_FAMILIES. */
#ifndef TRI_MODEL_FAMILY_H
#define TRI_MODEL_FAMILY_H

#include "model/blocks.h"
#include "model/hf_keys.h"
#include "model/model.h"
#include "model/objective.h"
#include "model/parameters.h"
#include "ops/list.h"
#include "ops/recompute.h"

/* Purpose of a list. */
typedef enum tri_list_purpose {
  TRI_LIST_TRAIN,    /* the list ends in the loss, and its backward is computed */
  TRI_LIST_EVALUATE, /* the list ends in the loss */
  TRI_LIST_SCORE,    /* the list ends in the loss, and also computes the loss of each label */
  TRI_LIST_GENERATE, /* the list ends in the logits of some rows */
} tri_list_purpose;

/* Description of a family. */
typedef struct tri_family_table {
  tri_blocks blocks;       /* layers of the family, and their names on disk */
  bool asks_for_ffn_size;  /* whether ffn_size must be given; else its default is 4 * hidden_size */
  tri_model usual;         /* defaults of members for which 0 is a valid value (`tied`, ...), and of rotary_fraction */
  const char *const *keys; /* keys of tri_family_optional_keys that models of this family may set, up to NULL */
  const tri_hf_keys *hf_keys; /* keys of config.json, one entry per model_type, up to an entry whose model_type is
                                 NULL */
  tri_status (*check)(const tri_model *model); /* Checks the numbers of a model further; the error message names the
                                                  key. NULL: no further checks */
} tri_family_table;

#define TRI_FAMILY_KEYS(...)                                                                                           \
  (const char *const[]) { __VA_ARGS__, NULL }
/* Keys of families with rotary embeddings, and keys of families with sliding windows. */
#define TRI_FAMILY_ROPE_KEYS "rope_theta", "rope_scaling"
#define TRI_FAMILY_WINDOW_KEYS "window", "window_layers"

/* Keys of a model that only some families may set. */
extern const char *const tri_family_optional_keys[];

/* Helper for the `check` of a family: fails unless head_dim is hidden_size / num_heads. */
tri_status tri_family_check_head_dim(const tri_model *model);
/* Helper for the `check` of a family: fails unless num_kv_heads is num_heads. */
tri_status tri_family_check_kv_heads(const tri_model *model);
/* Helper for the `check` of a family: fails unless num_heads divides hidden_size, whatever head_dim is. Some
 * configurations of transformers require this. */
tri_status tri_family_check_divides(const tri_model *model);

/* Checks that a model sets only keys of its family, and that its numbers fit together. */
tri_status tri_family_check(const tri_model *model);

#define TRI_FAMILY_TABLE(VALUE, name) extern const tri_family_table tri_family_##name;
TRI_FAMILIES(TRI_FAMILY_TABLE)

/* Returns the table of model->family; NULL if that is not a family. */
const tri_family_table *tri_family_of(const tri_model *model);

/* Facts about the parameters of a model that is partly trained. They are the same for all lists of one rank's shard. */
typedef struct tri_list_parameters {
  tri_op_parameter *all; /* facts about each parameter [count]: the parameters of the family in the order of their
                            numbers, then LoRA factors; NULL: all parameters are trained */
  int64_t count;
  int64_t lowest; /* lowest layer with a trained parameter */
} tri_list_parameters;
tri_status tri_list_parameters_create(const tri_model *model, const tri_op_shard *shard, tri_list_parameters *out);
void tri_list_parameters_release(tri_list_parameters *parameters);

/* Request for a list of operations. */
typedef struct tri_list_request {
  tri_list_purpose purpose;
  const tri_train_objective *objective; /* for a list that ends in a loss; NULL: cross entropy */
  int64_t batch, sequence;              /* number of sequences of a micro-batch, and their length in tokens */
  int64_t positions;                    /* maximum number of tokens of a sequence; above `sequence` when generating */
  int64_t prompt;                       /* generating: number of tokens of a sequence's prompt */
  int64_t slots, logit_rows; /* generating: maximum number of sequences, and of rows with logits, of one execution */
  int64_t table_pages; /* generating: number of pages in the tables of all sequences; batch is then 1, and sequence the
                          maximum number of rows */
  bool weights_shared; /* generating: whether another executor reads the weights, so that they are not packed in
                          place */
  bool masked;         /* whether attention stays inside documents; a document may be as short as one token */
  double masked_attention_fraction; /* share of the attention area that document masks leave; 0: unknown, counts as 1 */
  tri_dtype type;                   /* type of activations */
  tri_layer_range layers;           /* layers of this stage; {-1, num_layers + 1}: the whole model */
  tri_op_shard shard;               /* shard of the rank that executes the list */
  const tri_list_parameters *parameters; /* facts about this model and shard; NULL: computed for this list */
  bool below_trains;     /* whether gradients are always sent to the previous stage; else only if a parameter below this
                            stage is trained */
  bool weights_gathered; /* ZeRO 3: whether parameters are gathered for a pass and then freed */
  tri_recompute_choice recompute; /* activations that are recomputed; training only */
} tri_list_request;

/* Returns the request for the whole model on one rank. */
tri_list_request tri_list_request_whole(const tri_model *model, tri_list_purpose purpose, int64_t batch,
                                        int64_t sequence, tri_dtype type);

/* Makes the list of a stage. `model` must be complete (tri_model_complete). If the stage does not have the embedding,
 * the list begins with stage_input; if it does not have the loss, the list ends in stage_output. Release with
 * tri_op_list_destroy. */
tri_status tri_model_operations(const tri_model *model, const tri_list_request *request, tri_op_list **out);

/* Returns the FLOPs of the GEMMs of one trained token (forward and backward), counted as in Megatron-LM: only the
 * experts that the token uses, attention over the full square of positions, recompute not counted. For MFU. `fraction`:
 * the attention fraction that document masks and windows leave, as a mean over tokens and layers; 1: no masks or
 * windows. A frozen matrix has two GEMMs, not three; LoRA factors have their own. */
double tri_model_flops_per_token(const tri_model *model, int64_t sequence, double fraction);
/* Returns the FLOPs of the forward of one token, counted as by tri_model_flops_per_token, without LoRA factors. */
double tri_model_forward_flops(const tri_model *model, int64_t sequence, double fraction);

/* Returns the attention fraction as a mean over all layers, with windows and document masks; `masked`: the fraction
 * that document masks alone leave, 1: no masks. */
double tri_model_attention_fraction(const tri_model *model, int64_t sequence, double masked);

/* Returns the work of the output projection divided by the work of a layer (of one with experts, if the model has
 * experts). The work is measured by the elements of the matrices. */
double tri_model_head_in_layers(const tri_model *model);

#endif
