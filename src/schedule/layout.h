/* How one model is laid over many ranks. */
#ifndef TRI_SCHEDULE_LAYOUT_H
#define TRI_SCHEDULE_LAYOUT_H

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

/* What stages have equally much of, as far as layers go. */
typedef enum tri_balance { TRI_BALANCE_WORK, TRI_BALANCE_LAYERS } tri_balance;

/* `expert_capacity`, where a run file does not say it (layout_config.c). */
#define TRI_LAYOUT_EXPERT_CAPACITY 1.5

typedef struct tri_layout {
  int64_t tensor, pipeline, context, data; /* data 0 is "auto" until resolved */
  int64_t expert_tensor, expert;           /* the ranks of a stage as layers of experts see them (mesh/coordinates.h) */
  double expert_capacity;                  /* room for rows, as a multiple of those that a rank gets when balanced */
  bool capacity_drop;                      /* rows beyond it are left out: for comparison; else they come in rounds */
  tri_context_exchange context_exchange;
  int64_t context_row_pairs; /* of positions: as long to compute as a row of keys takes to come (mesh/document_cut.h) */
  int64_t context_inner; /* of the context ranks, neighbours that exchange heads first; 0 is "auto" until resolved */
  int64_t virtual_stages;
  tri_schedule_kind schedule;
  tri_balance balance;
  int64_t embedding_as_layers, head_as_layers; /* what they count as where layers are balanced */
  bool sequence_parallel;
  int64_t zero;
  tri_recompute recompute;
  int64_t recompute_every;    /* full: one layer of this many */
  int64_t micro_batch;        /* sequences */
  int64_t micro_batch_group;  /* interleaved: micro-batches in a row through one chunk; 0 is "auto" */
  tri_dtype reduce_precision; /* of gradients on their way between data ranks: TRI_FP32 (wide), or TRI_BF16 */
  int64_t bucket_bytes;       /* gradients that are reduced together */
} tri_layout;

/* Gives what is `auto` its value and checks that the layout fits the model, the sequences, the batch and the number of
 * ranks. Messages (TRI_BAD_LAYOUT) name the key, the sum that does not fit and the nearest values that do. */
tri_status tri_layout_resolve(tri_layout *layout, const tri_model *model, int64_t sequence, int64_t global_batch,
                              int64_t ranks);

/* The legal layout of `ranks` ranks that is nearest to the wanted one, resolved: of those that keep the global batch,
 * the one with the nearest tensor, then the nearest pipeline, then the nearest context, then the nearest expert and
 * expert_tensor, then the same schedule (else 1f1b), then the nearest micro-batch from below. TRI_BAD_LAYOUT if
 * there is none. (layout_nearest.c) */
tri_status tri_layout_nearest(const tri_layout *wanted, const tri_model *model, int64_t sequence, int64_t global_batch,
                              int64_t ranks, tri_layout *out);

/* What gradients are on their way between the data ranks, beside activations of a type. */
tri_dtype tri_layout_reduce_type(const tri_layout *layout, tri_dtype activations);

/* Of a resolved layout: its mesh; the same where it is known whether there are experts, so that there is no group for
 * a degree that no rank has; its ranks. */
tri_mesh_shape tri_layout_mesh(const tri_layout *layout);
tri_mesh_shape tri_layout_mesh_of(const tri_layout *layout, const tri_model *model);
int64_t tri_layout_ranks(const tri_layout *layout);

/* Of the ranks of a stage one that has the most tokens of each sequence, which the others wait for; and how many. */
tri_mesh_coordinates tri_layout_fullest(const tri_layout *layout, int64_t sequence, int64_t stage);
int64_t tri_layout_tokens(const tri_layout *layout, int64_t sequence);

/* Micro-batches of one rank in a step of a resolved layout. */
int64_t tri_layout_micro_batches(const tri_layout *layout, int64_t global_batch);

/* Layers of virtual stage v of pipeline x virtual_stages. Balanced by their work, the head counts as many layers as its
 * product does, and the embedding, which has none, as nothing. Balanced by layers, both count as the layout says. No
 * other division leaves the busiest stage with less; every stage but the first and the last has a layer at least. The
 * first may have the embedding alone, {-1, 0}, and the last the head, {num_layers, num_layers + 1}. */
tri_layer_range tri_layout_layers(const tri_layout *layout, const tri_model *model, int64_t v);

/* What the rank at this place holds; `chunks` has room for layout->virtual_stages. */
tri_model_share tri_layout_share(const tri_layout *layout, const tri_model *model, const tri_mesh_coordinates *place,
                                 tri_layer_range *chunks);

#endif
