/* Samples that the first rank has made, and shares with the ranks that read them: a feed with a state. The samples of
 * other feeds are functions of their numbers, which every rank computes. */
#ifndef TRI_ROLLOUT_HELD_SAMPLES_H
#define TRI_ROLLOUT_HELD_SAMPLES_H

#include "comm/mesh.h"
#include "data/feed.h"

typedef struct tri_held_samples {
  unsigned columns; /* set of the samples' columns (TRI_COLUMN_BIT) */
  int64_t sequence; /* tokens of a sample */
  int64_t room;     /* samples that this rank has memory for */
  int64_t count;    /* samples of the batch */
  tri_sample rows;  /* [room * sequence]; on the first rank all samples; on other ranks the samples that the rank reads,
                       in ascending order of their numbers */
  const tri_mesh *mesh;
  int64_t micro_batch; /* samples of a micro-batch */
} tri_held_samples;

/* LOCAL. Allocates memory for batches of at most `most` samples, a multiple of micro_batch times the number of ranks
 * that read different samples. The mesh must outlive the samples. Release with tri_held_samples_release. */
tri_status tri_held_samples_create(unsigned columns, int64_t sequence, int64_t most, int64_t micro_batch,
                                   const tri_mesh *mesh, tri_held_samples *out);
void tri_held_samples_release(tri_held_samples *samples);

/* COLLECTIVE. Gives every rank the samples that it reads. The first rank has set `count` and the first `count` samples
 * of `rows`. */
tri_status tri_held_samples_share(tri_held_samples *samples);

/* Returns the feed of samples [0, count), which is valid as long as `samples`. A read fails with TRI_INTERNAL if the
 * sample is not one of them or, on ranks other than the first, if tri_held_samples_share gave it to other ranks only.
 */
tri_feed tri_held_samples_feed(const tri_held_samples *samples);

#endif
