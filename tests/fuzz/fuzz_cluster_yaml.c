/* A cluster's file of any content: refused with words, or a machine on which prices are numbers. */
#include "fuzz_file.h"
#include "plan/cluster.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static tri_status read_cluster(const char *path) {
  static tri_cluster cluster;
  TRI_TRY(tri_cluster_load(path, &cluster));
  for (int i = 0; i < TRI_CLUSTER_CONSTANTS; i++) {
    if (!isfinite(tri_cluster_constants(&cluster)[i])) abort();
  }
  return TRI_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  fuzz_with_file(data, bytes, read_cluster);
  return 0;
}
