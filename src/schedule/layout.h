/* Layouts: the division of a model and its batch over the ranks of a job. */
#ifndef TRI_SCHEDULE_LAYOUT_H
#define TRI_SCHEDULE_LAYOUT_H

#include "base/count_list.h"
#include "base/status.h"
#include "mesh/coordinates.h"
#include "model/parameters.h"
#include "ops/recompute.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum tri_schedule_kind {
  TRI_SCHEDULE_GPIPE,
  TRI_SCHEDULE_1F1B,
  TRI_SCHEDULE_INTERLEAVED,
  TRI_SCHEDULE_ZERO_BUBBLE,
} tri_schedule_kind;

/* Aim of the division of layers into stages: equal work, or equal numbers of layers. */
typedef enum tri_balance { TRI_BALANCE_WORK, TRI_BALANCE_LAYERS } tri_balance;

/* Default of `expert_capacity` (layout_config.c). */
#define TRI_LAYOUT_EXPERT_CAPACITY 1.5

typedef struct tri_layout {
  int64_t tensor, pipeline, context, data; /* data 0 is "auto" until resolved */
  int64_t expert_tensor, expert;           /* sizes of axes of the expert mesh (mesh/coordinates.h) */
  double expert_capacity; /* room for rows of experts, as a multiple of a rank's rows under perfect balance */
  bool capacity_drop;     /* rows beyond the capacity are dropped; false: computed in further rounds */
  tri_context_exchange context_exchange;
  int64_t context_row_pairs; /* query-key pairs that a rank computes in the time in which it receives one row of keys
                                (mesh/document_cut.h) */
  int64_t context_inner;     /* number of adjacent context ranks that exchange heads; 0 is "auto" until resolved */
  int64_t virtual_stages;
  tri_schedule_kind schedule;
  tri_balance balance;
  const tri_count_list *stage_layers; /* layers of each virtual stage, in the order of the layers; NULL: by `balance` */
  int64_t embedding_as_layers, head_as_layers; /* with TRI_BALANCE_LAYERS: how many layers each counts as */
  bool sequence_parallel;
  bool sequence_regather; /* rows that sequence parallelism gathers are not kept, and gathered again in the backward */
  int64_t zero;
  tri_recompute recompute;
  int64_t recompute_every;    /* full recompute: of one layer in this many */
  int64_t micro_batch;        /* sequences */
  int64_t micro_batch_group;  /* interleaved schedule: consecutive micro-batches of one chunk; 0 is "auto" */
  tri_dtype reduce_precision; /* type of the gradients that data ranks exchange: TRI_FP32 (wide) or TRI_BF16 */
  int64_t bucket_bytes;       /* size of a bucket's gradients */
  int64_t first_trained; /* first virtual stage with trained parameters, set by tri_layout_resolve; no gradients are
                            sent to the stages before it */
} tri_layout;

/* Replaces `auto` by values, and checks that the layout fits the model, the sequence length, the batch and the number
 * of ranks. Fails with TRI_BAD_LAYOUT; the message has the key, the division that leaves a remainder and the nearest
 * possible values. */
tri_status tri_layout_resolve(tri_layout *layout, const tri_model *model, int64_t sequence, int64_t global_batch,
                              int64_t ranks);
/* The same for many layouts of one model. lowest_trained: from tri_trainable_lowest_layer. */
tri_status tri_layout_resolve_trained(tri_layout *layout, const tri_model *model, int64_t lowest_trained,
                                      int64_t sequence, int64_t global_batch, int64_t ranks);

/* Makes the checks that do not depend on the batch and the number of ranks: `stage_layers` and `sequence_regather`. The
 * message begins with the key in backquotes. */
tri_status tri_layout_check_keys(const tri_layout *layout, const tri_model *model);
/* Checks that `tensor` ranks can share each layer; `name` is the key or option in the message. */
tri_status tri_layout_check_tensor(const char *name, int64_t tensor, const tri_model *model);

/* Finds the valid layout of `ranks` ranks that is nearest to the requested one, and resolves it: among the layouts with
 * the same global batch, the one with the nearest tensor, then the nearest pipeline, then the nearest context, then the
 * nearest expert and expert_tensor, then the same schedule (else 1f1b), then the largest micro-batch up to the
 * requested one. Fails with TRI_BAD_LAYOUT if no layout is valid. (layout_nearest.c) */
tri_status tri_layout_nearest(const tri_layout *wanted, const tri_model *model, int64_t sequence, int64_t global_batch,
                              int64_t ranks, tri_layout *out);

/* Returns the type of the gradients that data ranks exchange, if activations have the type `activations`. */
tri_dtype tri_layout_reduce_type(const tri_layout *layout, tri_dtype activations);

/* Returns the mesh of a resolved layout. */
tri_mesh_shape tri_layout_mesh(const tri_layout *layout);
/* The same with `expert` 0 if the model has no experts, so that no groups are made for the expert mesh. */
tri_mesh_shape tri_layout_mesh_of(const tri_layout *layout, const tri_model *model);
/* Returns the number of ranks of a resolved layout. */
int64_t tri_layout_ranks(const tri_layout *layout);
/* Returns the least number of ranks of an unresolved layout: with `data: auto`, for as few replicas as its expert keys
 * allow. 1 if it cannot be computed; tri_layout_resolve then refuses the layout. */
int64_t tri_layout_least_ranks(const tri_layout *layout);

/* Returns the coordinates of a rank of the stage with the most tokens of each sequence. The others wait for it. */
tri_mesh_coordinates tri_layout_fullest(const tri_layout *layout, int64_t sequence, int64_t stage);
/* Returns the number of tokens of each sequence on the rank with the most. */
int64_t tri_layout_tokens(const tri_layout *layout, int64_t sequence);

/* Writes the end of a message about a global batch that is not divisible: ", or layout.micro_batch 8", with the largest
 * micro-batch up to the layout's that divides it over layout.data replicas; "" if none does. Returns out. */
const char *tri_layout_other_micro_batch(const tri_layout *layout, int64_t global_batch, char *out, size_t bytes);
/* Returns the number of micro-batches of one rank in a step of a resolved layout. */
int64_t tri_layout_micro_batches(const tri_layout *layout, int64_t global_batch);

/* Returns the layers of virtual stage v of pipeline x virtual_stages: those of stage_layers, else an even division.
 * TRI_BALANCE_WORK: the head counts as the number of layers with the FLOPs of its GEMM, and the embedding, which has no
 * GEMM, as 0. TRI_BALANCE_LAYERS: they count as head_as_layers and embedding_as_layers. The division makes the largest
 * stage as small as possible; every stage but the first and the last has at least one layer. The first may have only
 * the embedding, {-1, 0}, and the last only the head, {num_layers, num_layers + 1}. */
tri_layer_range tri_layout_layers(const tri_layout *layout, const tri_model *model, int64_t v);

/* Returns the share of the model of the rank at these coordinates. Writes its layers to chunks[layout->virtual_stages],
 * to which the result points. */
tri_model_share tri_layout_share(const tri_layout *layout, const tri_model *model, const tri_mesh_coordinates *place,
                                 tri_layer_range *chunks);

#endif
