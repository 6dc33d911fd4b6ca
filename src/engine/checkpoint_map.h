/* The run's state as the tensors of a checkpoint, and what of them this rank holds.
 *
 * A checkpoint's tensors are the global ones, under the names of the parameter table and, for what the optimizer keeps,
 * a suffix: every rank makes the same list. What a rank holds of a tensor is a slice; slices point into the engine's
 * arrays. */
#ifndef TRI_ENGINE_CHECKPOINT_MAP_H
#define TRI_ENGINE_CHECKPOINT_MAP_H

#include "checkpoint/checkpoint.h"
#include "engine/engine.h"
#include "engine/quantised.h"

typedef struct tri_checkpoint_map_staged tri_checkpoint_map_staged;

/* Matrices of several members of a stack whose elements alternate in the file (TRI_STACKING_COLUMNS): as they lie
 * there, so that they are written together. */
typedef struct tri_checkpoint_map_alternating {
  tri_checkpoint_memory memory; /* whose context this is */
  tri_engine *engine;
  tri_parameter part;
  char *first;             /* of the first member */
  int64_t count, distance; /* elements of each, and from one to the next */
  size_t element;
} tri_checkpoint_map_alternating;

typedef struct tri_checkpoint_map {
  tri_checkpoint_tensor *weights;   /* [num_weights] */
  tri_checkpoint_tensor *optimizer; /* [num_optimizer]: what is kept of each that an optimizer changes */
  tri_parameter *parts;             /* [num_weights]: the weights as parameters */
  tri_parameter *pieces;            /* [num_pieces]: all matrices of weights that are stacks (tri_stacked) */
  int64_t num_pieces;
  tri_checkpoint_map_alternating *alternating; /* [num_alternating] */
  int64_t num_alternating;
  char (*names)[128]; /* [num_optimizer] */
  int64_t *averages;  /* [num_weights]: number of each weight's average over the run; -1: it has none */
  int64_t num_weights, num_optimizer;
  int64_t num_kept; /* of the optimizer's tensors the first; behind them are the averages */
  /* To save: every element of every tensor is in one slice of one rank. To load: all that this rank holds. Tensors are
   * numbered weights first, then the optimizer's. */
  tri_checkpoint_slice *slices;
  int64_t num_slices;
  bool elsewhere;                           /* what a checkpoint of the model itself does not have in this way */
  struct tri_checkpoint_map_staged *staged; /* [num_staged]: of slices that are made on the way */
  int64_t num_staged;
  tri_quantised *quantised; /* [num_quantised]: matrices that are in 4 bits */
  int64_t num_quantised;
} tri_checkpoint_map;

/* With an adapter (model/trainable.h) the first two are of what is trained, the third of its factors alone, and the
 * last of the model beneath it. */
typedef enum tri_checkpoint_map_use {
  TRI_SHARDS_SAVE,
  TRI_SHARDS_LOAD,
  TRI_SHARDS_LOAD_FACTORS,
  TRI_SHARDS_LOAD_BASE
} tri_checkpoint_map_use;

/* LOCAL. Release with tri_checkpoint_map_release; slices stay valid as long as the engine. */
tri_status tri_checkpoint_map_create(tri_engine *engine, tri_checkpoint_map_use use, tri_checkpoint_map *out);
void tri_checkpoint_map_release(tri_checkpoint_map *shards);

/* LOCAL. Slices were read or written and will not be for now: what was written has arrived, and gradients may be again
 * where some of them were made. */
tri_status tri_checkpoint_map_written(tri_engine *engine);

/* Whether states, or what is not trained, are kept in another type than others: what was loaded need not be what was in
 * the file. */
bool tri_checkpoint_map_keep_narrow(const tri_engine *engine);

/* Bytes of a tensor's elements in a slice; of all slices. */
size_t tri_checkpoint_map_slice_bytes(const tri_checkpoint_map *shards, const tri_checkpoint_slice *slice);
size_t tri_checkpoint_map_bytes(const tri_checkpoint_map *shards);

/* LOCAL. Copies all slices to tri_checkpoint_map_bytes of host memory, one behind the other, and back. */
tri_status tri_checkpoint_map_download(tri_engine *engine, const tri_checkpoint_map *shards, char *to_host);
tri_status tri_checkpoint_map_upload(tri_engine *engine, const tri_checkpoint_map *shards, const char *from_host);

/* Whether a checkpoint keeps states of the parts of a joined tensor one by one, as Adafactor's were before it took a
 * tensor on disk for one: TRI_BAD_FILE, with what to do. */
tri_status tri_checkpoint_map_check_joined(const tri_engine *engine, const tri_checkpoint *checkpoint);

const tri_checkpoint_tensor *tri_checkpoint_map_tensor(const tri_checkpoint_map *shards, int64_t number);

/* Bytes that the slices to save take on a rank, without an engine: of its memory plan. */
size_t tri_checkpoint_map_planned_bytes(const tri_engine_options *options, const tri_parts *parts,
                                        const tri_mesh_coordinates *place);

#endif
