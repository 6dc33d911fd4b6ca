/* Collects memory of different sizes on the first rank of a group. */
#ifndef TRI_COMM_COLLECT_H
#define TRI_COMM_COLLECT_H

#include "comm/comm.h"

/* The memory of all ranks, on rank 0; {NULL} on the other ranks. */
typedef struct tri_collected {
  void *all;       /* bytes of all ranks, rank after rank */
  int64_t *begins; /* [size + 1], first byte of each rank's memory */
} tri_collected;

/* COLLECTIVE. Copies mine[bytes] of every rank to out->all on rank 0. The messages have the tag `tag`. Fails on all
 * ranks if rank 0 lacks memory, before any rank sends. Release with tri_collected_release. */
tri_status tri_collect(const tri_group *group, int tag, int64_t bytes, const void *mine, tri_collected *out);
void tri_collected_release(tri_collected *collected);

#endif
