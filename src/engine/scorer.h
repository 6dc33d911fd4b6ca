/* Log-probabilities of given tokens: many texts of unequal length at once, packed side by side into the sequences of a
 * batch, where they do not see each other. */
#ifndef TRI_ENGINE_SCORER_H
#define TRI_ENGINE_SCORER_H

#include "device/device.h"
#include "engine/executor.h"
#include "model/model.h"
#include "model/parameters.h"

typedef struct tri_scorer tri_scorer;

/* For batches of `batch` sequences of `sequence` tokens. Parameters are zero until they are written into
 * tri_scorer_executor's values; after writing others, call tri_scorer_parameters_changed. Release with
 * tri_scorer_destroy. */
tri_status tri_scorer_create(const tri_model *model, tri_dtype precision, int64_t batch, int64_t sequence,
                             tri_device *device, tri_scorer **out);
void tri_scorer_destroy(tri_scorer *scorer);

tri_executor *tri_scorer_executor(tri_scorer *scorer);
const tri_parameter_table *tri_scorer_parameters(const tri_scorer *scorer);
void tri_scorer_parameters_changed(tri_scorer *scorer);

/* Tokens of which those from `first` on are scored, each given all that are before it: 0 < first < count <= sequence +
 * 1. */
typedef struct tri_scored_text {
  const int32_t *ids;
  int64_t count, first;
  double *out; /* [count - first], natural logarithms */
} tri_scored_text;

/* Scores them all. The result of a text depends on the others by rounding at most. `progress` (may be NULL) is told how
 * many of the batches are done. */
tri_status tri_scorer_score(tri_scorer *scorer, const tri_scored_text *texts, int64_t count,
                            void (*progress)(int64_t done, int64_t all));

#endif
