/* Text generation: the model's operations without a backward, one sequence or several at a time, with a cache of keys
 * and values.
 *
 * Several sequences are by themselves: each begins with a prompt of its own length, and then as many of them as the
 * caller names get a token each (tri_generator_append_each). Those share one pass over the weights, which is what a
 * token costs. What a sequence's logits are does not depend on the others: to the bit on devices whose
 * products of few rows promise that (tri_matmul.generating: `cpu` in fp32 and bf16, `reference`). */
#ifndef TRI_GENERATION_GENERATOR_H
#define TRI_GENERATION_GENERATOR_H

#include "device/device.h"
#include "engine/executor.h"
#include "model/model.h"
#include "model/parameters.h"

typedef struct tri_generator tri_generator;

/* For sequences of up to `positions` tokens, of which the first `prompt` are there to begin with: where a model's
 * rotary positions depend on the length (tri_rope_table), that is what they go by. Parameters are zero until they are
 * written into tri_generator_executor's values. Release with tri_generator_destroy. */
tri_status tri_generator_create(const tri_model *model, tri_dtype precision, int64_t positions, int64_t prompt,
                                tri_device *device, tri_generator **out);
/* For up to `sequences` of them side by side; prompts[sequences] are the lengths of theirs. TRI_UNSUPPORTED if they
 * differ and rotary positions go by them. */
tri_status tri_generator_create_many(const tri_model *model, tri_dtype precision, int64_t sequences, int64_t positions,
                                     const int64_t *prompts, tri_device *device, tri_generator **out);
void tri_generator_destroy(tri_generator *generator);

/* The memory that tri_generator_create_many takes of a device that has its queue already, without taking it, whatever
 * the lengths of the prompts are. */
typedef struct tri_generator_need {
  size_t device_bytes, host_bytes;
} tri_generator_need;
tri_status tri_generator_plan(const tri_model *model, tri_dtype precision, int64_t sequences, int64_t positions,
                              const tri_device *device, tri_generator_need *out);

tri_executor *tri_generator_executor(tri_generator *generator);
const tri_parameter_table *tri_generator_parameters(const tri_generator *generator);

/* Appends `count` tokens to sequence 0, or to another, and returns the logits [vocab_size] that follow the last of them
 * (host memory, valid until the next call). */
tri_status tri_generator_append(tri_generator *generator, const int32_t *ids, int64_t count, const double **logits);
tri_status tri_generator_append_to(tri_generator *generator, int64_t sequence, const int32_t *ids, int64_t count,
                                   const double **logits);

/* The same for `count` sequences, whose numbers ascend: lengths[i] tokens, ids[i], to sequence numbers[i]. Where they
 * are few, and as many for each, they share a pass over the weights: steps of one token, short prompts. Sequences that
 * are not named (they have ended, or have not begun) stay as they are. *logits are [count, vocab_size], in that order.
 */
tri_status tri_generator_append_each(tri_generator *generator, int64_t count, const int64_t *numbers,
                                     const int32_t *const *ids, const int64_t *lengths, const double **logits);

/* Tokens of a sequence so far. */
int64_t tri_generator_length(const tri_generator *generator, int64_t sequence);

/* All sequences are empty again, or one is. */
void tri_generator_restart(tri_generator *generator);
void tri_generator_restart_one(tri_generator *generator, int64_t sequence);

typedef struct tri_sampling {
  double temperature; /* 0 takes the most likely token */
  int64_t top_k;      /* 0 is all */
  double top_p;       /* 1 is all */
  double min_p; /* what has less than this share of the most likely one's probability is left out; 0: nothing is */
  /* What a text's draws are a function of. */
  uint64_t seed;
  uint64_t prompt; /* a number of the text's prompt: tri_sampling_prompt, or another that a caller has for it */
  uint64_t sample; /* of those of one prompt: 0, 1 ... */
} tri_sampling;

/* The hash of a prompt's tokens: which seed gives which text depends on it, so it does not change. */
uint64_t tri_sampling_prompt(const int32_t *ids, int64_t count);

/* Draws a token: a function of the logits, the options and the position alone. `scratch` holds vocab_size entries. */
typedef struct tri_candidate {
  double weight;
  int32_t id;
} tri_candidate;
int32_t tri_sample_token(const double *logits, int64_t vocab_size, const tri_sampling *sampling, int64_t position,
                         tri_candidate *scratch);

/* What has been said is less likely to be said again (Keskar et al. 2019, as transformers has it): the logits of the
 * tokens `ids` are divided by the penalty where they are above 0 and multiplied with it below. All of them are written
 * to `out`, [vocab_size]. */
void tri_penalise_repetition(const double *logits, int64_t vocab_size, const int32_t *ids, int64_t count,
                             double penalty, double *out);

#endif
