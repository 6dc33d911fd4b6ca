/* Packs completions, each after its prompt, by best fit into samples whose documents do not attend to each other. No
 * completion is cut. */
#ifndef TRI_ROLLOUT_PACK_H
#define TRI_ROLLOUT_PACK_H

#include "model/policy_config.h"
#include "rollout/completion.h"
#include "rollout/held_samples.h"

/* The place of a completion's labels: `count` adjacent ones, the first at token `first` of sample `sample`. */
typedef struct tri_packed {
  int64_t sample, first; /* sample -1: the completion does not count, so it is in no sample */
} tri_packed;

typedef struct tri_pack_request {
  tri_rollout_completion *const *list; /* [count], completions to pack */
  int64_t count;
  double *normalisers; /* [count], normaliser of the labels of each completion */
} tri_pack_request;

/* LOCAL, on the first rank. Writes the completions that count into samples of `to`, and the place of each completion
 * into packed[count]. Each completion that counts must fit into a sample. If no completion counts, makes one sample of
 * padding. */
tri_status tri_rollout_pack(const tri_pack_request *request, tri_held_samples *to, tri_packed *packed);

/* Returns the number of tokens of a completion in a sample: its prompt and all of its tokens but the last. */
static inline int64_t tri_packed_tokens(const tri_rollout_completion *c) { return c->prompt->count + c->count - 1; }

/* Sets out[completions of the batch] to the normaliser of each completion's labels (tri_loss_type), for updates on
 * `parts` equal parts of the batch. As in TRL, labels are counted over the whole batch and divided by the number of
 * parts. */
void tri_rollout_normalisers(const tri_rollout_batch *batch, tri_loss_type type, int64_t max_completion_length,
                             int64_t parts, double *out);

#endif
