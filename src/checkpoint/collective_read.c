/* Collective reads of a checkpoint by the ranks of a group. */
#include "base/memory.h"
#include "checkpoint/candidates.h"
#include "checkpoint/element_sum.h"
#include "checkpoint/slices.h"
#include "checkpoint/state.h"
#include "comm/agreement.h"

static tri_status verify(const tri_group *group, const char *path, bool tensors) {
  json_t *document = NULL;
  tri_checkpoint_state state;
  tri_group alone = tri_group_alone("verify");
  const tri_group *all = group == NULL ? &alone : group;
  tri_status status = tri_state_load(path, &document, &state);
  tri_state_scope scope = {.rank = all->rank, .ranks = all->size, .tensors = tensors, .optimizer = true};
  if (status == TRI_OK) status = tri_state_verify(path, document, &scope);
  json_decref(document);
  return tri_common_failure(all, status);
}

tri_status tri_checkpoint_verify(const tri_group *group, const char *path) { return verify(group, path, true); }

tri_status tri_checkpoint_verify_frame(const tri_group *group, const char *path) { return verify(group, path, false); }

static tri_status verify_candidate(void *context, const char *path, bool *damaged) {
  tri_status status = tri_checkpoint_verify(context, path);
  *damaged = status == TRI_BAD_FILE || status == TRI_UNSUPPORTED;
  return status;
}

tri_status tri_checkpoint_newest(const tri_group *group, const char *root, char path[TRI_PATH_BYTES]) {
  tri_group alone = tri_group_alone("newest");
  const tri_group *all = group == NULL ? &alone : group;
  return tri_checkpoint_newest_that(all, root, verify_candidate, (void *)(uintptr_t)all, path);
}

static tri_status share(const tri_group *group, size_t bytes, void *data) {
  return tri_broadcast(group, 0, bytes, data);
}

tri_status tri_checkpoint_newest_that(const tri_group *all, const char *root, tri_checkpoint_try take, void *context,
                                      char path[TRI_PATH_BYTES]) {
  tri_candidates from = {.root = root, .first = all->rank == 0, .share = share, .group = all};
  tri_status status = from.first ? tri_folder_list(root, &from.list, &from.count) : TRI_OK;
  status = tri_first_rank_status(all, status);
  if (status == TRI_OK) status = tri_candidates_try(&from, take, context, path);
  tri_free(from.list);
  return status;
}

/* ---- verification ------------------------------------------------------------------------------------------------ */

static tri_status sum_slice(const tri_checkpoint_slice *slice, tri_dtype type, uint64_t *sum) {
  size_t element = tri_dtype_bytes(type);
  tri_slice_extent window = {0};
  tri_status status = TRI_OK;
  for (tri_slice_run run = {0}; tri_slice_next(slice, &run);) {
    for (int64_t done_count = 0, count; done_count < run.count; done_count += count) {
      const void *from = NULL;
      count = run.count - done_count;
      TRI_TRY_GOTO(tri_slice_read(&window, slice, element, run.at + done_count, &count, &from), done);
      *sum += tri_element_sum_parallel(element, run.global + done_count, count, from);
    }
  }
done:
  tri_slice_extent_release(&window);
  return status;
}

tri_status tri_checkpoint_verify_slices(const tri_group *group, const tri_checkpoint *checkpoint,
                                        const tri_checkpoint_tensor *weights, int64_t num_weights,
                                        const tri_checkpoint_tensor *optimizer, int64_t num_optimizer,
                                        const tri_checkpoint_slice *slices, int64_t num_slices) {
  int64_t count = num_weights + num_optimizer;
  uint64_t *sums = NULL;
  tri_status status = tri_alloc("the checksums of a checkpoint", (size_t)count, sizeof *sums, &sums);
  TRI_TRY(tri_common_failure(group, status));
  for (int64_t i = 0; i < num_slices && status == TRI_OK; i++) {
    int64_t t = slices[i].tensor;
    if (t >= count) continue;
    status = sum_slice(&slices[i], t < num_weights ? weights[t].type : optimizer[t - num_weights].type, &sums[t]);
  }
  status = tri_common_failure(group, status);
  if (status == TRI_OK) status = tri_all_sum_int64(group, count, (int64_t *)sums);
  for (int64_t t = 0; t < count && status == TRI_OK; t++) {
    const char *name = t < num_weights ? weights[t].name : optimizer[t - num_weights].name;
    status = tri_checkpoint_compare(checkpoint, name, sums[t]);
  }
  tri_free(sums);
  return status;
}
