#include "generation/replicas.h"

#include "base/format.h"
#include "comm/agreement.h"
#include "engine/model_files.h"
#include "generation/runner.h"
#include "schedule/layout.h"

tri_replicas tri_replicas_alone(void) {
  const tri_group alone = tri_group_alone("generation");
  return (tri_replicas){.all = alone, .replica = alone, .leaders = alone, .mesh = tri_mesh_alone()};
}

static tri_status check_tensor(const tri_group *all, int64_t tensor, const tri_model *model) {
  if (all->size % tensor == 0) return tri_layout_check_tensor("--tensor", tensor, model);
  return tri_fail(TRI_BAD_LAYOUT, "--tensor %ld does not divide the %d rank%s of this job; give -n a multiple of %ld",
                  (long)tensor, all->size, TRI_PLURAL(all->size), (long)tensor);
}

tri_status tri_replicas_create(const tri_group *all, int64_t tensor, const tri_model *model, const tri_merged *weights,
                               tri_replicas *out) {
  *out = tri_replicas_alone();
  if (tensor < 1) tensor = 1;
  if (weights != NULL) TRI_TRY(tri_model_files_agree_settings(all, weights));
  TRI_TRY(tri_common_status(all, check_tensor(all, tensor, model)));
  out->all = *all;
  if (tensor == 1) {
    out->leaders = *all;
    return TRI_OK;
  }
  const int rank = all->rank, replica = rank / (int)tensor;
  const tri_mesh_shape shape = tri_runner_shape(model, tensor);
  TRI_TRY(tri_group_split(all, "replica", replica, rank, &out->replica));
  TRI_TRY(tri_mesh_create(&out->replica, &shape, &out->mesh));
  return tri_group_split(all, "leaders", rank % (int)tensor, rank, &out->leaders);
}

void tri_replicas_destroy(tri_replicas *replicas) {
  if (tri_replicas_mesh(replicas) == NULL) return;
  tri_group_destroy(&replicas->leaders);
  tri_mesh_destroy(&replicas->mesh);
  tri_group_destroy(&replicas->replica);
}

const tri_mesh *tri_replicas_mesh(const tri_replicas *replicas) {
  return replicas->replica.size > 1 ? &replicas->mesh : NULL;
}

bool tri_replicas_leads(const tri_replicas *replicas) { return replicas->replica.rank == 0; }
