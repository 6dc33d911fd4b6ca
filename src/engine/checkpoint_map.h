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
  tri_checkpoint_tensor *weights;   /* [num_weights] */
  tri_checkpoint_tensor *optimizer; /* [num_optimizer]: states of optimizers, then, from first_of_run on, of the run */
  const tri_optimizer_state **states; /* [num_optimizer]; NULL: trained values that are not the saved weight */
  tri_parameter *parts;               /* [num_weights]: the weights as parameters */
  tri_parameter *pieces;              /* [num_pieces]: all matrices of weights that are stacks (tri_stacked) */
  int64_t num_pieces;
  struct tri_alternating_slice *alternating; /* [num_alternating] */
  int64_t num_alternating;
  char (*names)[128]; /* [num_optimizer] */
  int64_t num_weights, num_optimizer;
  int64_t first_of_run;
  /* To save: every element of every tensor is in exactly one slice of one rank. To load: all elements that this rank
   * holds. Tensors are numbered weights first, then the optimizer's. */
  tri_checkpoint_slice *slices;
  int64_t num_slices;
  bool elsewhere;                  /* the tensors are not those of a checkpoint of the run itself */
  struct tri_staged_slice *staged; /* [num_staged]: slices that are converted while they are read or written */
  int64_t num_staged;
  tri_quantised *quantised; /* [num_quantised]: matrices in 4 bits */
  int64_t num_quantised;
} tri_checkpoint_map;

/* The use of a map. With an adapter (model/trainable.h) the first and the third list the trained parameters, the second
 * also the copies of the factors' initial values, the fourth the factors alone, and the last the base model; without
 * one, all list the whole model. The slices of the first two are those to save. */
typedef enum tri_checkpoint_map_use {
  TRI_CHECKPOINT_MAP_SAVE,
  TRI_CHECKPOINT_MAP_MOVE,
  TRI_CHECKPOINT_MAP_LOAD,
  TRI_CHECKPOINT_MAP_LOAD_FACTORS,
  TRI_CHECKPOINT_MAP_LOAD_BASE
} tri_checkpoint_map_use;

/* LOCAL. Creates the map of an engine. Release with tri_checkpoint_map_release. Slices are valid as long as the
 * engine. */
tri_status tri_checkpoint_map_create(tri_engine *engine, tri_checkpoint_map_use use, tri_checkpoint_map *out);
void tri_checkpoint_map_release(tri_checkpoint_map *map);

/* LOCAL. Ends a series of reads or writes of slices: staged values are converted back, and the gradients' memory, which
 * staging uses, is free again. */
tri_status tri_checkpoint_map_written(tri_engine *engine);

/* Returns whether states or frozen parameters are stored in a narrower type, so that loaded values may differ from the
 * file. */
bool tri_checkpoint_map_keep_narrow(const tri_engine *engine);

/* Return the bytes of one slice, and of all slices. */
size_t tri_checkpoint_map_slice_bytes(const tri_checkpoint_map *map, const tri_checkpoint_slice *slice);
size_t tri_checkpoint_map_bytes(const tri_checkpoint_map *map);

/* LOCAL. Copies all slices to tri_checkpoint_map_bytes of host memory, one after the other, and back. */
tri_status tri_checkpoint_map_download(tri_engine *engine, const tri_checkpoint_map *map, char *to_host);
tri_status tri_checkpoint_map_upload(tri_engine *engine, const tri_checkpoint_map *map, const char *from_host);

/* Fails with TRI_BAD_FILE, and says how to go on, if a checkpoint has states of the single parts of a tensor that its
 * optimizer joins. Older versions stored Adafactor's states so. */
tri_status tri_checkpoint_map_check_joined(const tri_engine *engine, const tri_checkpoint *checkpoint);

const tri_checkpoint_tensor *tri_checkpoint_map_tensor(const tri_checkpoint_map *map, int64_t number);

/* Returns the bytes of the slices that a rank saves, for its memory plan, without an engine. */
size_t tri_checkpoint_map_planned_bytes(const tri_engine_options *options, const tri_parts *parts,
                                        const tri_mesh_coordinates *place);

#endif
