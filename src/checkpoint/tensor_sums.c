#include "checkpoint/tensor_sums.h"

#include "base/memory.h"
#include "checkpoint/output.h"
#include "comm/agreement.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Sums this rank's tensors (every group->size-th one) from `first` to the end of the file, and sets *end to the first
 * tensor of the next file. */
static tri_status sum_file(const tri_group *group, const tri_checkpoint *checkpoint, int64_t first, char *buffer,
                           uint64_t *sums, int64_t *end) {
  const int64_t count = tri_checkpoint_num_tensors(checkpoint);
  const char *path = tri_checkpoint_get_entry(checkpoint, first).file;
  tri_safetensors_file file;
  TRI_TRY(tri_safetensors_open(path, &file));
  tri_status status = TRI_OK;
  for (*end = first; *end < count && status == TRI_OK; ++*end) {
    const tri_checkpoint_entry entry = tri_checkpoint_get_entry(checkpoint, *end);
    if (strcmp(entry.file, path) != 0) break;
    if (*end % group->size == group->rank) status = tri_safetensors_sum(&file, entry.tensor, buffer, &sums[*end]);
  }
  tri_safetensors_close(&file);
  return status;
}

static tri_status sum_own(const tri_group *group, const tri_checkpoint *checkpoint, uint64_t *sums) {
  const int64_t count = tri_checkpoint_num_tensors(checkpoint);
  char *buffer = NULL;
  TRI_TRY(tri_alloc("the buffer of a checksum", TRI_SAFETENSORS_SUM_BYTES, 1, &buffer));
  tri_status status = TRI_OK;
  for (int64_t i = 0; i < count && status == TRI_OK;) status = sum_file(group, checkpoint, i, buffer, sums, &i);
  tri_free(buffer);
  return status;
}

tri_status tri_tensor_sums(const tri_group *group, const tri_checkpoint *checkpoint, uint64_t *sums) {
  const int64_t count = tri_checkpoint_num_tensors(checkpoint);
  memset(sums, 0, (size_t)count * sizeof *sums);
  TRI_TRY(tri_common_status(group, sum_own(group, checkpoint, sums)));
  return tri_all_sum_int64(group, count, (int64_t *)sums); /* each sum is on one rank, and the other ranks have 0 */
}

uint64_t tri_tensor_files_hash(const tri_checkpoint *checkpoint) {
  const int64_t count = tri_checkpoint_num_tensors(checkpoint);
  const char *last = "";
  uint64_t hash = 0;
  for (int64_t i = 0; i < count; i++) {
    const char *path = tri_checkpoint_get_entry(checkpoint, i).file;
    char line[TRI_PATH_BYTES + 128];
    struct stat about = {0};
    if (strcmp(path, last) == 0) continue;
    last = path;
    (void)stat(path, &about);
    const int length = snprintf(line, sizeof line, "%016" PRIx64 " %s %lld %lld %ld", hash, strrchr(path, '/') + 1,
                                (long long)about.st_size, (long long)about.st_mtim.tv_sec, about.st_mtim.tv_nsec);
    hash = tri_checksum(line, (size_t)length);
  }
  return hash;
}
