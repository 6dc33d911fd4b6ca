/* Computes log-probabilities of given tokens, for many texts of unequal length. The tokens of a question are read once
 * for all of its choices. */
#ifndef TRI_GENERATION_SCORER_H
#define TRI_GENERATION_SCORER_H

#include "device/device.h"
#include "engine/executor.h"
#include "generation/replicas.h"
#include "model/model.h"
#include "model/parameters.h"

typedef struct tri_scorer tri_scorer;

/* Creates a scorer for up to `sequences` texts at a time on each replica, of up to `positions` + 1 tokens.
 * Parameters are zero until tri_model_files_load, or the caller, writes them into the executor's weights. Release with
 * tri_scorer_destroy. */
tri_status tri_scorer_create(const tri_model *model, tri_dtype precision, int64_t sequences, int64_t positions,
                             const tri_replicas *replicas, tri_device *device, tri_scorer **out);
void tri_scorer_destroy(tri_scorer *scorer);

tri_executor *tri_scorer_executor(tri_scorer *scorer);
const tri_parameter_table *tri_scorer_parameters(const tri_scorer *scorer);

/* A text whose tokens from `first` on are scored, each given all tokens before it: 0 < first < count <= positions + 1.
 */
typedef struct tri_scored_text {
  const int32_t *ids;
  int64_t count, first;
  double *out; /* [count - first], log-probabilities (natural logarithms) of the scored tokens */
} tri_scored_text;

/* COLLECTIVE over all ranks, which pass the same texts and all get the results. Scores all texts. If consecutive texts
 * have equal tokens before their scored ones (such as the choices of one question), these tokens are read once. A
 * text's result does not depend on the others (generator.h). On the first rank, calls `progress` (may be NULL) with the
 * number of texts done. */
tri_status tri_scorer_score(tri_scorer *scorer, const tri_scored_text *texts, int64_t count,
                            void (*progress)(int64_t done, int64_t all));

#endif
