/* Log-probabilities of given tokens: of many texts of unequal length, those that begin alike read together. */
#ifndef TRI_GENERATION_SCORER_H
#define TRI_GENERATION_SCORER_H

#include "device/device.h"
#include "engine/executor.h"
#include "model/model.h"
#include "model/parameters.h"

typedef struct tri_scorer tri_scorer;

/* For up to `sequences` texts side by side, of `positions` tokens and one more. Parameters are zero until they are
 * written into tri_scorer_executor's values. Release with tri_scorer_destroy. */
tri_status tri_scorer_create(const tri_model *model, tri_dtype precision, int64_t sequences, int64_t positions,
                             tri_device *device, tri_scorer **out);
void tri_scorer_destroy(tri_scorer *scorer);

tri_executor *tri_scorer_executor(tri_scorer *scorer);
const tri_parameter_table *tri_scorer_parameters(const tri_scorer *scorer);

/* Tokens of which those from `first` on are scored, each given all that are before it: 0 < first < count <= positions +
 * 1. */
typedef struct tri_scored_text {
  const int32_t *ids;
  int64_t count, first;
  double *out; /* [count - first], natural logarithms */
} tri_scored_text;

/* Scores them all. What texts side by side in the list have in common before their scored tokens, as choices their
 * question, is read once. A text's result does not depend on the others (generator.h). `progress` (may be NULL) is told
 * how many of the texts are done. */
tri_status tri_scorer_score(tri_scorer *scorer, const tri_scored_text *texts, int64_t count,
                            void (*progress)(int64_t done, int64_t all));

#endif
