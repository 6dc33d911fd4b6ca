/* The source of a loop's samples: the sampler of a run's corpora, tokens in memory, or what a loop makes for itself. */
#ifndef TRI_DATA_FEED_H
#define TRI_DATA_FEED_H

#include "data/source.h"

/* Sample `index` depends on the index alone, and each rank asks for those that it needs: a step for [step *
 * global_batch, (step + 1) * global_batch). */
typedef struct tri_feed {
  /* Writes all of *out. */
  tri_status (*read)(const void *from, int64_t index, const tri_sample *out);
  const void *from; /* outlives the feed */
} tri_feed;

static inline tri_status tri_feed_read(const tri_feed *feed, int64_t index, const tri_sample *out) {
  return feed->read(feed->from, index, out);
}

#endif
