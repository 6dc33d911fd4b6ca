/* The run's state as the tensors of a checkpoint, and what of them this rank holds.
 *
 * A checkpoint's tensors are the global ones, under the names of the parameter table and, for the moments, a suffix:
 * every rank makes the same list. What a rank holds of a tensor is a slice; slices point into the engine's arrays. */
#ifndef TRI_ENGINE_SHARDS_H
#define TRI_ENGINE_SHARDS_H

#include "checkpoint/checkpoint.h"
#include "engine/engine.h"

typedef struct tri_shards {
  tri_checkpoint_tensor *weights;   /* [num_weights] */
  tri_checkpoint_tensor *optimizer; /* [2 * num_weights]: both moments of each */
  char (*names)[128];
  int64_t num_weights;
  /* To save: every element of every tensor is in one slice of one rank. To load: all that this rank holds. Tensors are
   * numbered weights first, then moments. */
  tri_checkpoint_slice *slices;
  int64_t num_slices;
} tri_shards;

typedef enum tri_shards_use { TRI_SHARDS_SAVE, TRI_SHARDS_LOAD } tri_shards_use;

/* LOCAL. Release with tri_shards_release; slices stay valid as long as the engine. */
tri_status tri_shards_create(tri_engine *engine, tri_shards_use use, tri_shards *out);
void tri_shards_release(tri_shards *shards);

/* Bytes of a tensor's elements in a slice; of all slices. */
size_t tri_shards_slice_bytes(const tri_shards *shards, const tri_checkpoint_slice *slice);
size_t tri_shards_bytes(const tri_shards *shards);

/* LOCAL. Copies all slices to tri_shards_bytes of host memory, one behind the other, and back. */
tri_status tri_shards_download(tri_engine *engine, const tri_shards *shards, char *to_host);
tri_status tri_shards_upload(tri_engine *engine, const tri_shards *shards, const char *from_host);

const tri_checkpoint_tensor *tri_shards_tensor(const tri_shards *shards, int64_t number);

/* Bytes that the slices to save take on a rank, without an engine: of its memory plan. */
size_t tri_shards_planned_bytes(const tri_engine_options *options, const tri_parts *parts, const tri_mesh_place *place);

#endif
