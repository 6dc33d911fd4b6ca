/* Maps the state of a run to the tensors of a checkpoint, and this rank's memory to slices of these tensors.
 *
 * A checkpoint's tensors are the global ones. Their names are those of the parameter table, with a suffix for the
 * optimizer's states, so every rank makes the same list. A slice is the part of a tensor that a rank holds; it points
 * into the engine's arrays. */
#ifndef TRI_ENGINE_CHECKPOINT_MAP_H
#define TRI_ENGINE_CHECKPOINT_MAP_H

#include "checkpoint/checkpoint.h"
#include "engine/engine.h"
#include "engine/quantised.h"

typedef struct tri_checkpoint_map {
  tri_checkpoint_tensor *weights;   /* weights of the model [num_weights] */
  tri_checkpoint_tensor *optimizer; /* states of the optimizers, followed by states of the run [num_optimizer] */
  /* State that each tensor of `optimizer` has [num_optimizer]; NULL: the tensor has the trained values, because
   * its optimizer saves other values as the weight. */
  const tri_optimizer_state **states;
  tri_parameter *parts;  /* parameter of each weight [num_weights] */
  tri_parameter *pieces; /* matrices of all weights that are stacks of matrices (tri_stacked) [num_pieces] */
  int64_t num_pieces;
  struct tri_alternating_slice *alternating; /* slices with reordered elements [num_alternating] */
  int64_t num_alternating;
  char (*names)[128]; /* names of the tensors of `optimizer` [num_optimizer] */
  int64_t num_weights, num_optimizer;
  int64_t first_of_run; /* index in `optimizer` of the first state of the run */
  /* Slices of this rank [num_slices]. In a map for saving, each element of each tensor is in exactly one slice of
   * exactly one rank. In a map for loading, the slices have all elements that this rank holds.
   * tri_checkpoint_slice.tensor numbers the weights first, then the tensors of `optimizer`. */
  tri_checkpoint_slice *slices;
  int64_t num_slices;
  bool elsewhere; /* whether the tensors are those of an adapter or a base that a run begins with, not those of a
                     checkpoint of the run */
  /* Context of the slices that are converted while they are read or written [num_staged]. */
  struct tri_staged_slice *staged;
  int64_t num_staged;
  tri_quantised *quantised; /* context of the matrices in 4 bits [num_quantised] */
  int64_t num_quantised;
} tri_checkpoint_map;

/* The use of a map. The use decides which parameters a map lists if the model has an adapter (model/trainable.h);
 * without an adapter, every map lists the whole model. Maps of the first three uses are for saving, the others for
 * loading. */
typedef enum tri_checkpoint_map_use {
  TRI_CHECKPOINT_MAP_SAVE, /* to save checkpoints: the trained parameters */
  TRI_CHECKPOINT_MAP_MOVE, /* to send weights: the trained parameters, and the copies of the factors' initial values */
  TRI_CHECKPOINT_MAP_MOVE_TRAINED, /* as MOVE, but with the trained values of an optimizer that saves other values */
  TRI_CHECKPOINT_MAP_LOAD,         /* to resume, and to take snapshots: the trained parameters */
  TRI_CHECKPOINT_MAP_LOAD_FACTORS, /* to begin with an adapter: its factors alone */
  TRI_CHECKPOINT_MAP_LOAD_BASE     /* to load the base of an adapter: all parameters but the factors */
} tri_checkpoint_map_use;

/* LOCAL. Creates the map of an engine. Release with tri_checkpoint_map_release. Slices are valid as long as the
 * engine. */
tri_status tri_checkpoint_map_create(tri_engine *engine, tri_checkpoint_map_use use, tri_checkpoint_map *out);
void tri_checkpoint_map_release(tri_checkpoint_map *map);

/* LOCAL. Must be called after the last read or write of a series. Converts staged values back into their state, waits
 * for the device, and ends the use of the gradients' memory for staging. */
tri_status tri_checkpoint_map_written(tri_engine *engine);

/* Returns whether states or frozen parameters are stored in a narrower type, so that loaded values may differ from the
 * file. */
bool tri_checkpoint_map_keep_narrow(const tri_engine *engine);

/* Return the bytes of one slice, and of all slices. */
size_t tri_checkpoint_map_slice_bytes(const tri_checkpoint_map *map, const tri_checkpoint_slice *slice);
size_t tri_checkpoint_map_bytes(const tri_checkpoint_map *map);

/* LOCAL. Copy all slices, in the order of map->slices, to host memory of tri_checkpoint_map_bytes bytes, and back from
 * there. */
tri_status tri_checkpoint_map_download(tri_engine *engine, const tri_checkpoint_map *map, char *to_host);
tri_status tri_checkpoint_map_upload(tri_engine *engine, const tri_checkpoint_map *map, const char *from_host);

/* Fails with TRI_BAD_FILE if a checkpoint has states for single parts of a tensor (such as q, k and v), but the
 * optimizer now has one state for the whole tensor. Older versions stored Adafactor's states in this way. The message
 * says how to begin a new run with the weights of the checkpoint. */
tri_status tri_checkpoint_map_check_joined(const tri_engine *engine, const tri_checkpoint *checkpoint);

/* Returns tensor `number` of a map, numbered as in tri_checkpoint_slice.tensor. */
const tri_checkpoint_tensor *tri_checkpoint_map_tensor(const tri_checkpoint_map *map, int64_t number);

/* Returns the bytes of the slices that a rank saves, for its memory plan, without an engine. */
size_t tri_checkpoint_map_planned_bytes(const tri_engine_options *options, const tri_parts *parts,
                                        const tri_mesh_coordinates *place);

#endif
