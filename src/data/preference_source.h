/* A corpus of preferences as an endless sequence of samples: packed sequences of answers, each behind its prompt and by
 * itself (documents are masked). The answers of a pair are always in one sequence, and a sequence holds the same
 * answers in every epoch: an epoch has an order of its own. */
#ifndef TRI_DATA_PREFERENCE_SOURCE_H
#define TRI_DATA_PREFERENCE_SOURCE_H

#include "data/corpus.h"
#include "data/feed.h"
#include "data/pieces.h"
#include "model/preference_losses.h"

typedef struct tri_preference_source_options {
  int64_t sequence, vocab_size;
  uint64_t seed;
  bool paired;     /* samples of pairs, chosen and rejected; else of answers that are desirable or not */
  bool mismatched; /* not paired: answers are also wanted behind the prompt of the next line (tri_preference_feed) */
  tri_preference_weights weights;
  tri_too_long
      too_long; /* TRI_TOO_LONG_REFUSE, _DROP or _TRUNCATE_PROMPT: of pairs, or answers, longer than a sequence */
  int32_t
      beginning[TRI_MOST_BEGINNING]; /* tokens that the tokenizer begins texts with, which stay where prompts are cut */
  int num_beginning;
  int64_t max_samples; /* only the first sequences in order; 0: all */
} tri_preference_source_options;

typedef struct tri_preference_source {
  const tri_corpus *corpus;
  tri_preference_source_options options;
  int64_t num_units;       /* pairs, or answers, in the corpus. Of a corpus of pairs that is read as answers the chosen
                              ones come first, then the rejected ones */
  int64_t per_epoch;       /* sequences */
  int64_t most_units;      /* of a sequence */
  int64_t *begins, *units; /* [sequences + 1], [units]: those of each sequence */
  int64_t *label_begins;   /* [documents + 1]: number of each answer's first label in `reference` */
  int64_t num_labels;      /* of all answers */
  int64_t left_out;        /* units that are dropped */
  int64_t shortened;       /* units whose prompts are cut */
  const double *reference; /* [num_labels], the caller's; then, where `mismatched`, as many of the mismatched answers.
                              NULL: samples have zeros */
} tri_preference_source;

/* TRI_BAD_CONFIG for a corpus of labels where pairs are wanted, for one that is too long for a sequence and may not be
 * cut, and where nothing is left. Release with tri_preference_source_destroy; the corpus must outlive it. */
tri_status tri_preference_source_create(const tri_corpus *corpus, const tri_preference_source_options *options,
                                        tri_preference_source *out);
void tri_preference_source_destroy(tri_preference_source *source);

/* A feed of the source. */
typedef struct tri_preference_at {
  const tri_preference_source *source;
  int64_t first;   /* sample that the feed begins with */
  bool in_order;   /* sequences in their order, from 0 to per_epoch - 1; else shuffled, and endless */
  bool mismatched; /* each answer stands behind the prompt of the next line, and is no label of a pair */
} tri_preference_at;
tri_feed tri_preference_feed(const tri_preference_at *at);

/* What a sample has of one pair, or of one answer, whose side is chosen (desirable) or rejected. */
typedef struct tri_preference_unit {
  tri_completion_sums sums[2]; /* chosen and rejected: without labels where it is not there */
} tri_preference_unit;

/* Sums of log_probs[sequence], which are those of the feed's sample `index`; out[source->most_units]. */
tri_status tri_preference_units(const tri_preference_at *at, int64_t index, const double *log_probs,
                                tri_preference_unit *out, int64_t *count);

/* Puts those of the labels of answers where `reference` has them: reference[num_labels], twice as many where
 * mismatched. */
tri_status tri_preference_store(const tri_preference_at *at, int64_t index, const double *log_probs, double *reference);

#endif
