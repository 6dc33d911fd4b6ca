/* A corpus of preferences as an endless sequence of samples: packed sequences of answers, each after its prompt
 * (documents are masked). A *unit* is a pair of answers, or a single answer; it is never divided between sequences. A
 * sequence has the same units in every epoch; epochs differ in the order of sequences. */
#ifndef TRI_DATA_PREFERENCE_SOURCE_H
#define TRI_DATA_PREFERENCE_SOURCE_H

#include "data/corpus.h"
#include "data/feed.h"
#include "data/pieces.h"
#include "model/preference_losses.h"

typedef struct tri_preference_source_options {
  int64_t sequence, vocab_size;
  uint64_t seed;
  bool paired; /* whether units are pairs, chosen and rejected; if not, single answers, each desirable or undesirable */
  bool mismatched; /* whether answers are also read with the prompt of the next line (tri_preference_at); not if
                      `paired` */
  tri_preference_weights weights;
  tri_too_long too_long; /* rule for units longer than a sequence: TRI_TOO_LONG_REFUSE, _DROP or _TRUNCATE_PROMPT */
  int32_t beginning[TRI_MOST_BEGINNING]; /* tokens with which the tokenizer begins texts; kept when prompts are cut */
  int num_beginning;
  int64_t max_samples; /* number of sequences to use, the first in order; 0: all */
} tri_preference_source_options;

typedef struct tri_preference_source {
  const tri_corpus *corpus;
  tri_preference_source_options options;
  int64_t num_units;  /* number of units in the corpus. If pairs are read as single answers, all chosen answers come
                         first, then all rejected ones */
  int64_t per_epoch;  /* number of sequences in an epoch */
  int64_t most_units; /* maximum number of units in a sequence */
  int64_t *begins,
      *units;            /* begins[sequences + 1], units[num_units]: sequence s has units[begins[s] .. begins[s + 1]) */
  int64_t *label_begins; /* [documents + 1]: index of each answer's first label in `reference` */
  int64_t num_labels;    /* number of labels of all answers */
  int64_t left_out;      /* number of units that are dropped */
  int64_t shortened;     /* number of units whose prompts are cut */
  const double *reference; /* log-probabilities under the reference [num_labels], owned by the caller; if `mismatched`,
                              followed by as many for mismatched answers. NULL: samples have zeros */
} tri_preference_source;

/* Creates a source. Fails with TRI_BAD_CONFIG if pairs are needed and the corpus has labels instead, if a unit is too
 * long and too_long is TRI_TOO_LONG_REFUSE, or if no unit is left, and with TRI_BAD_FILE if the corpus has no
 * preferences, or a text has no prompt or no answer. Release with tri_preference_source_destroy; the corpus must
 * outlive *out. */
tri_status tri_preference_source_create(const tri_corpus *corpus, const tri_preference_source_options *options,
                                        tri_preference_source *out);
void tri_preference_source_destroy(tri_preference_source *source);

/* A feed of the source. */
typedef struct tri_preference_at {
  const tri_preference_source *source;
  int64_t first;   /* number of the feed's first sample */
  bool in_order;   /* whether samples are the sequences from 0 to per_epoch - 1 in order; if not, they are shuffled in
                      each epoch */
  bool mismatched; /* whether each answer follows the prompt of the next line; not for pairs */
} tri_preference_at;
/* Returns the feed that *at describes; *at must outlive the feed. */
tri_feed tri_preference_feed(const tri_preference_at *at);

/* Sums of a sample for one pair, or for one answer. A desirable answer is on the side chosen, an undesirable one on the
 * side rejected. */
typedef struct tri_preference_unit {
  tri_completion_sums sums[2]; /* chosen and rejected; an absent side has no labels */
} tri_preference_unit;

/* Sums log_probs[sequence] of the feed's sample `index` for each of its units, into out[source->most_units]. Sets
 * *count to the number of units. */
tri_status tri_preference_units(const tri_preference_at *at, int64_t index, const double *log_probs,
                                tri_preference_unit *out, int64_t *count);

/* Copies the log-probabilities of the labels of sample `index`'s answers to their places in reference[num_labels], or
 * reference[2 * num_labels] if mismatched. */
tri_status tri_preference_store(const tri_preference_at *at, int64_t index, const double *log_probs, double *reference);

#endif
