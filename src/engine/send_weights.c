#include "engine/send_weights.h"

#include "base/memory.h"
#include "engine/checkpoint_map.h"
#include "engine/engine_internal.h"

const tri_weights *tri_engine_weights(const tri_engine *engine) { return engine->weights; }

/* Sends the slices of weights of a map, which also has those of the optimizer. */
static tri_status send_weights(tri_engine *engine, const tri_checkpoint_map *map, const tri_weights_target *to) {
  tri_checkpoint_slice *slices = NULL;
  int64_t count = 0;
  TRI_TRY(tri_alloc("slices of weights", (size_t)map->num_slices, sizeof *slices, &slices));
  for (int64_t i = 0; i < map->num_slices; i++) {
    if (map->slices[i].tensor < map->num_weights) slices[count++] = map->slices[i];
  }
  const tri_weights_source from = {.tensors = map->weights,
                                   .num_tensors = map->num_weights,
                                   .slices = slices,
                                   .num_slices = count,
                                   .version = tri_weights_version(engine->weights)};
  const tri_status status = tri_weights_move(&engine->options.mesh->world, &from, to);
  tri_free(slices);
  return status;
}

tri_status tri_engine_send_weights(tri_engine *engine, tri_policy policy, const tri_weights_target *to) {
  const bool trained = policy == TRI_POLICY_TRAINED;
  tri_checkpoint_map map;
  TRI_TRY(tri_engine_finish(engine));
  TRI_TRY(tri_checkpoint_map_create(engine, trained ? TRI_CHECKPOINT_MAP_MOVE_TRAINED : TRI_CHECKPOINT_MAP_MOVE, &map));
  tri_status status = send_weights(engine, &map, to);
  if (status == TRI_OK) status = tri_checkpoint_map_written(engine);
  tri_checkpoint_map_release(&map);
  return status;
}
