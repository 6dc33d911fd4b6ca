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
  int64_t tensor, pipeline, context, data; /* numbers of ranks; data 0: "auto" until resolved */
  int64_t expert_tensor, expert;           /* sizes of axes of the expert mesh (mesh/coordinates.h) */
  double expert_capacity; /* room for rows of experts, as a multiple of a rank's rows under perfect balance */
  bool capacity_drop;     /* whether rows beyond the capacity are dropped; else they are computed in further rounds */
  tri_context_exchange context_exchange;
  int64_t context_row_pairs; /* query-key pairs that a rank computes in the time in which it receives one row of keys
                                (mesh/document_cut.h) */
  int64_t context_inner;     /* number of adjacent context ranks that exchange heads; 0: "auto" until resolved */
  int64_t virtual_stages;    /* chunks of layers of each stage */
  tri_schedule_kind schedule;
  tri_balance balance;
  const tri_count_list
      *stage_layers; /* number of layers of each virtual stage, in the order of the layers; NULL: by `balance` */
  int64_t embedding_as_layers,
      head_as_layers; /* with TRI_BALANCE_LAYERS, the embedding and the head count as this many layers */
  bool sequence_parallel;
  bool sequence_regather; /* whether the backward gathers rows of sequence parallelism again, instead of keeping them */
  int64_t zero;           /* ZeRO stage, 0 to 3 (buckets.h) */
  tri_recompute recompute;
  int64_t recompute_every;    /* full recompute applies to one layer in this many */
  int64_t micro_batch;        /* sequences of a micro-batch */
  int64_t micro_batch_group;  /* interleaved schedule: number of consecutive micro-batches of one chunk; 0: "auto" */
  tri_dtype reduce_precision; /* type of the gradients that data ranks exchange: TRI_FP32 (wide) or TRI_BF16 */
  int64_t bucket_bytes;       /* size of a bucket's gradients at which the bucket is full, in bytes */
  int64_t first_trained; /* first virtual stage with trained parameters, set by tri_layout_resolve; no gradients are
                            sent to the stages before it */
} tri_layout;

/* Replaces `auto` by values, and checks that the layout fits the model, the sequence length, the batch and the number
 * of ranks. Fails with TRI_BAD_LAYOUT; the message has the key, the division that leaves a remainder and the nearest
 * possible values. */
tri_status tri_layout_resolve(tri_layout *layout, const tri_model *model, int64_t sequence, int64_t global_batch,
                              int64_t ranks);
/* Does the same as tri_layout_resolve for callers that resolve many layouts of one model. `lowest_trained`: the result
 * of tri_trainable_lowest_layer, which is computed only once for all layouts. */
tri_status tri_layout_resolve_trained(tri_layout *layout, const tri_model *model, int64_t lowest_trained,
                                      int64_t sequence, int64_t global_batch, int64_t ranks);

/* Checks the keys that do not depend on the batch and the number of ranks: `stage_layers` and `sequence_regather`. The
 * error message begins with the key in backquotes. */
tri_status tri_layout_check_keys(const tri_layout *layout, const tri_model *model);
/* Checks that each layer can be split over `tensor` ranks. `name`: key or option in the message. */
tri_status tri_layout_check_tensor(const char *name, int64_t tensor, const tri_model *model);

/* Finds the valid layout of `ranks` ranks that is nearest to the requested one, and resolves it. It has the same global
 * batch. Layouts are compared by the distances of their keys from the requested values, the most important key first:
 * tensor, pipeline, context, expert, expert_tensor, schedule, micro_batch. The schedule is the requested one or 1f1b,
 * and the micro-batch is at most the requested one. Fails with TRI_BAD_LAYOUT if no layout is valid.
 * (layout_nearest.c) */
tri_status tri_layout_nearest(const tri_layout *wanted, const tri_model *model, int64_t sequence, int64_t global_batch,
                              int64_t ranks, tri_layout *out);

/* Returns the type of the gradients that data ranks exchange, if activations have the type `activations`. */
tri_dtype tri_layout_reduce_type(const tri_layout *layout, tri_dtype activations);

/* Returns the mesh of a resolved layout. */
tri_mesh_shape tri_layout_mesh(const tri_layout *layout);
/* Returns the mesh of a resolved layout, with `expert` 0 if the model has no experts, so that no groups are created
 * for the expert mesh. */
tri_mesh_shape tri_layout_mesh_of(const tri_layout *layout, const tri_model *model);
/* Returns the number of ranks of a resolved layout. */
int64_t tri_layout_ranks(const tri_layout *layout);
/* Returns the smallest number of ranks with which a layout can be resolved. With `data: auto`, the layout then has the
 * smallest number of replicas that the expert keys allow. Returns 1 if the number cannot be computed;
 * tri_layout_resolve then fails. */
int64_t tri_layout_least_ranks(const tri_layout *layout);

/* Returns the coordinates of the rank of a stage that has the most tokens of each sequence. The other ranks wait for
 * this rank. */
tri_mesh_coordinates tri_layout_fullest(const tri_layout *layout, int64_t sequence, int64_t stage);
/* Returns the number of tokens of each sequence on the context rank that has the most. */
int64_t tri_layout_tokens(const tri_layout *layout, int64_t sequence);

/* Writes the end of an error message about a global batch that cannot be divided, such as ", or layout.micro_batch
 * 8". The number is the largest micro-batch, at most the one of the layout, with which the batch can be divided over
 * layout.data replicas. Writes "" if no micro-batch can. Returns out. */
const char *tri_layout_other_micro_batch(const tri_layout *layout, int64_t global_batch, char *out, size_t bytes);
/* Returns the number of micro-batches of one rank in a step. The layout must be resolved. */
int64_t tri_layout_micro_batches(const tri_layout *layout, int64_t global_batch);

/* Returns the layers of virtual stage v, which is below pipeline * virtual_stages. The numbers of layers are those of
 * stage_layers if it is given. Otherwise the layers are divided so that the largest stage is as small as possible. With
 * TRI_BALANCE_WORK, the head counts as the number of layers with as many FLOPs as its GEMM; the embedding has no GEMM
 * and counts as 0. With TRI_BALANCE_LAYERS, the head and the embedding count as head_as_layers and embedding_as_layers.
 * Every stage but the first and the last has at least one layer. The first may have only the embedding, {-1, 0}, and
 * the last only the head, {num_layers, num_layers + 1}. */
tri_layer_range tri_layout_layers(const tri_layout *layout, const tri_model *model, int64_t v);

/* Returns the share of the model of the rank at these coordinates. Writes its layers to chunks[layout->virtual_stages],
 * to which the result points. */
tri_model_share tri_layout_share(const tri_layout *layout, const tri_model *model, const tri_mesh_coordinates *place,
                                 tri_layer_range *chunks);

#endif
