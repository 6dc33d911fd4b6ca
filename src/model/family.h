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
  TRI_LIST_TRAIN,    /* ends in the loss; backward follows  */
  TRI_LIST_EVALUATE, /* ends in the loss                    */
  TRI_LIST_SCORE,    /* ends in the loss, and returns the loss of each label */
  TRI_LIST_GENERATE, /* ends in the logits of some rows     */
} tri_list_purpose;

/* Description of a family. */
typedef struct tri_family_table {
  tri_blocks blocks;       /* its layers, and their names on disk */
  bool asks_for_ffn_size;  /* ffn_size must be given; else it is 4 * hidden_size if not given */
  tri_model usual;         /* defaults of members for which 0 is a valid choice (`tied`, ...), and of rotary_fraction */
  const char *const *keys; /* keys of tri_family_optional_keys that its models may set; NULL ends them */
  const tri_hf_keys *hf_keys;                  /* its config.json keys, one entry per model_type; an entry without a
                                                   name ends them */
  tri_status (*check)(const tri_model *model); /* further checks of a model's numbers; the message names the key. NULL:
                                                  none */
} tri_family_table;

#define TRI_FAMILY_KEYS(...)                                                                                           \
  (const char *const[]) { __VA_ARGS__, NULL }
/* The keys of families with rotary embeddings, and of those with sliding windows. */
#define TRI_FAMILY_ROPE_KEYS "rope_theta", "rope_scaling"
#define TRI_FAMILY_WINDOW_KEYS "window", "window_layers"

/* Keys of a model that only some families may set. */
extern const char *const tri_family_optional_keys[];

/* For the `check` of a family: fail unless head_dim is hidden_size / num_heads; unless num_kv_heads is num_heads. */
tri_status tri_family_check_head_dim(const tri_model *model);
tri_status tri_family_check_kv_heads(const tri_model *model);
/* For the `check` of a family: fails unless num_heads divides hidden_size, for any head_dim, as some configurations of
 * transformers require. */
tri_status tri_family_check_divides(const tri_model *model);

/* Checks that a model sets only keys of its family, and that its numbers fit together. */
tri_status tri_family_check(const tri_model *model);

#define TRI_FAMILY_TABLE(VALUE, name) extern const tri_family_table tri_family_##name;
TRI_FAMILIES(TRI_FAMILY_TABLE)

/* Returns the table of model->family; NULL if that is not a family. */
const tri_family_table *tri_family_of(const tri_model *model);

/* Facts about the parameters of a partly trained model, for lists of any layers of one rank's shard. */
typedef struct tri_list_parameters {
  tri_op_parameter *all; /* [count]: the family's by their numbers, then factors; NULL: all are trained */
  int64_t count;
  int64_t lowest; /* lowest layer with a trained parameter */
} tri_list_parameters;
tri_status tri_list_parameters_create(const tri_model *model, const tri_op_shard *shard, tri_list_parameters *out);
void tri_list_parameters_release(tri_list_parameters *parameters);

/* The list to make. */
typedef struct tri_list_request {
  tri_list_purpose purpose;
  const tri_train_objective *objective; /* for a list that ends in a loss; NULL: cross entropy */
  int64_t batch, sequence;              /* number and length of a micro-batch's sequences */
  int64_t positions;                    /* most tokens of a sequence, >= `sequence`; more when generating */
  int64_t prompt;                       /* generating: tokens of a sequence's prompt */
  int64_t slots, logit_rows;            /* generating: most sequences, and most rows with logits, of a run */
  int64_t table_pages; /* generating: pages of all sequences' tables; batch is 1, and sequence the most rows */
  bool weights_shared; /* generating: another executor reads the weights, so they are not packed in place */
  bool masked;         /* attention stays inside documents, which may be as short as one token */
  double masked_attention_fraction;      /* attention fraction that masks leave; 0: unknown, counts as 1 */
  tri_dtype type;                        /* type of activations */
  tri_layer_range layers;                /* layers of this stage; {-1, num_layers + 1}: the whole model */
  tri_op_shard shard;                    /* the rank that the list is for */
  const tri_list_parameters *parameters; /* facts about this model and shard; NULL: computed for this list */
  bool below_trains;                     /* gradients are always sent to the stage below; false: only if it trains */
  bool weights_gathered;                 /* ZeRO 3: parameters are gathered for a pass, then freed */
  tri_recompute_choice recompute;        /* for a training list */
} tri_list_request;

/* Returns the request for the whole model on one rank. */
tri_list_request tri_list_request_whole(const tri_model *model, tri_list_purpose purpose, int64_t batch,
                                        int64_t sequence, tri_dtype type);

/* Makes the list of a stage of a complete model. If the stage does not have the embedding, the list begins with
 * stage_input; if it does not have the loss, the list ends in stage_output. Release with tri_op_list_destroy. */
tri_status tri_model_operations(const tri_model *model, const tri_list_request *request, tri_op_list **out);

/* Returns the FLOPs of the GEMMs of one trained token (forward and backward), counted as in Megatron-LM: only the
 * experts that the token uses, attention over the full square of positions, recompute not counted. For MFU. `fraction`:
 * the attention fraction that document masks and windows leave, as a mean over tokens and layers; 1: no masks or
 * windows. A frozen matrix has two GEMMs, not three; LoRA factors have their own. */
double tri_model_flops_per_token(const tri_model *model, int64_t sequence, double fraction);
/* Returns the FLOPs of the forward of one token alone, counted in the same way, without LoRA factors. */
double tri_model_forward_flops(const tri_model *model, int64_t sequence, double fraction);

/* Returns the attention fraction over all layers, if document masks alone leave `masked` (1: no masks). */
double tri_model_attention_fraction(const tri_model *model, int64_t sequence, double masked);

/* Returns the work of the output projection as a multiple of a layer's (of one with experts, if the model has experts):
 * the ratio of the elements of their matrices. */
double tri_model_head_in_layers(const tri_model *model);

#endif
