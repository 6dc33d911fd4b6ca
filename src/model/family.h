/* A family of models: what its defaults are and which numbers it takes, what its layers are made of, and what
 * config.json and files of tensors call all that. One file each (gpt2.c, llama.c), and one line in TRI_FAMILIES. */
#ifndef TRI_MODEL_FAMILY_H
#define TRI_MODEL_FAMILY_H

#include "model/blocks.h"
#include "model/hf_keys.h"
#include "model/model.h"
#include "model/objective.h"
#include "model/parameters.h"
#include "ops/list.h"
#include "ops/recompute.h"

/* What a list is for. */
typedef enum tri_list_purpose {
  TRI_LIST_TRAIN,    /* ends in the loss; backward follows  */
  TRI_LIST_EVALUATE, /* ends in the loss                    */
  TRI_LIST_SCORE,    /* ends in the loss, and in each label's */
  TRI_LIST_GENERATE, /* ends in the last position's logits  */
} tri_list_purpose;

/* All that is known of a family. */
typedef struct tri_family_table {
  tri_blocks blocks;       /* what its layers are made of, and how that is called on disk */
  bool asks_for_ffn_size;  /* else it is four times as wide as the residual stream */
  tri_model usual;         /* its model by default: `tied` and its like, for which 0 is a choice too, and
                              rotary_fraction */
  const char *const *keys; /* of a model's description, those of tri_family_optional_keys that it has; NULL ends them */
  const tri_hf_keys *dialects;                 /* how config.json says its models; one without a name ends them */
  tri_status (*check)(const tri_model *model); /* whether a model's numbers go together, beyond the limits of each and
                                                  what blocks ask for; the message names the key; NULL: nothing more */
} tri_family_table;

#define TRI_FAMILY_KEYS(...)                                                                                           \
  (const char *const[]) { __VA_ARGS__, NULL }
/* Of all with rotary positions. */
#define TRI_FAMILY_ROPE_KEYS "rope_theta", "rope_scaling"
#define TRI_FAMILY_WINDOW_KEYS "window", "window_layers"

/* Keys that not every family has. */
extern const char *const tri_family_optional_keys[];

/* For a family's own check: heads that are hidden_size / num_heads wide; and as many of keys and values. */
tri_status tri_family_check_head_dim(const tri_model *model);
tri_status tri_family_check_kv_heads(const tri_model *model);
/* A hidden_size that num_heads divides, whatever head_dim is: some configurations of transformers refuse any other. */
tri_status tri_family_check_divides(const tri_model *model);

/* Whether a model has no more than its family can say, and its numbers go together. */
tri_status tri_family_check(const tri_model *model);

#define TRI_FAMILY_TABLE(VALUE, name) extern const tri_family_table tri_family_##name;
TRI_FAMILIES(TRI_FAMILY_TABLE)

/* NULL if the model names no family that there is. */
const tri_family_table *tri_family_of(const tri_model *model);

/* Which list to make. */
typedef struct tri_list_request {
  tri_list_purpose purpose;
  const tri_train_objective *objective; /* of a list that ends in a loss; NULL: cross entropy */
  int64_t batch, sequence;              /* of a micro-batch */
  int64_t positions;                    /* >= sequence: how far generation may go, */
  int64_t prompt;                       /* and how much of that is there to begin with */
  bool masked;                          /* attention stays inside documents, which may be as short as one token */
  double
      masked_attention_fraction; /* the share of attention's work that masks leave, where it is known; 0: all of it */
  tri_dtype type;
  tri_layer_range layers;  /* of this stage; {-1, num_layers + 1} is the whole model */
  tri_op_shard shard;      /* of the layers: for which rank */
  bool weights_gathered;   /* parameters are gathered for a pass, then freed: ZeRO 3 */
  tri_recompute recompute; /* what a training list makes again in the backward, */
  int64_t recompute_every; /* and of how many layers one (full) */
} tri_list_request;

/* The whole model on one rank. */
tri_list_request tri_list_request_whole(const tri_model *model, tri_list_purpose purpose, int64_t batch,
                                        int64_t sequence, tri_dtype type);

/* The list of a stage of a complete model. A stage that does not begin with the embedding begins with stage_input; one
 * that does not end in the loss ends in stage_output. Release with tri_op_list_destroy. */
tri_status tri_model_operations(const tri_model *model, const tri_list_request *request, tri_op_list **out);

/* Floating-point operations of the matrix products of one trained token (forward and backward), as Megatron-LM counts
 * them: of the experts that it meets, attention over the full square of positions, recomputation not counted. For MFU.
 * Where documents do not see each other, or layers have windows, `area` is what is left of attention's work, in the
 * mean of all tokens and layers: 1 is all of it. A matrix that is not trained has two products, not three, and factors
 * beside it have theirs. */
double tri_model_flops_per_token(const tri_model *model, int64_t sequence, double area);
/* Of the forward alone, without factors. */
double tri_model_forward_flops(const tri_model *model, int64_t sequence, double area);

/* That share for sequences of that many tokens where masks leave `masked` of it (1: there are none). */
double tri_model_area(const tri_model *model, int64_t sequence, double masked);

/* The work of the output projection, as a multiple of a layer's (one with experts, where there are such): the ratio of
 * their products. */
double tri_model_head_in_layers(const tri_model *model);

#endif
