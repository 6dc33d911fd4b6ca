/* A feed: the source of a training loop's samples, such as the sampler of a run's corpora, tokens in memory, or a
 * function of the caller. */
#ifndef TRI_DATA_FEED_H
#define TRI_DATA_FEED_H

#include "base/status.h"
#include "mesh/batch_columns.h"

/* A feed is a function of the index: nothing else decides the content of sample `index`. Each rank reads the samples
 * that it needs of a step's batch (engine/engine.h). */
typedef struct tri_feed {
  /* Fills the columns of *out that are not NULL. */
  tri_status (*read)(const void *from, int64_t index, const tri_sample *out);
  const void *from; /* must outlive the feed */
} tri_feed;

static inline tri_status tri_feed_read(const tri_feed *feed, int64_t index, const tri_sample *out) {
  return feed->read(feed->from, index, out);
}

#endif
