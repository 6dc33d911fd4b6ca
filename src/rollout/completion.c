#include "rollout/completion.h"

#include "base/memory.h"

tri_status tri_rollout_batch_create(int64_t groups, int64_t size, tri_rollout_batch *out) {
  *out = (tri_rollout_batch){.groups = groups, .size = size};
  return tri_alloc("completions", (size_t)(groups * size), sizeof *out->list, &out->list);
}

static void release_completion(tri_rollout_completion *c) {
  tri_free(c->ids);
  tri_free(c->behaviour);
  tri_free(c->entropies);
  tri_free(c->text);
  tri_free(c->old);
  tri_free(c->reference);
  for (int r = 0; r < TRI_MOST_REWARDS; r++) tri_free(c->parts[r]);
}

void tri_rollout_batch_release(tri_rollout_batch *batch) {
  for (int64_t i = 0; batch->list != NULL && i < tri_rollout_batch_count(batch); i++)
    release_completion(&batch->list[i]);
  tri_free(batch->list);
  *batch = (tri_rollout_batch){0};
}
