/* Generates text: reads, samples from, continues and scores sequences of tokens, as many at a time as there is room
 * for; sequences may begin at any time. Every command that writes text uses these functions.
 *
 * A sequence is begun with its tokens and waits for a place; there are tri_runner_sizes.sequences places. Each step
 * *reads* some of its tokens: the model runs on them, and their keys and values are stored in pages (pages.h). Once all
 * tokens are read, each step appends one sampled token, and with a proposer also the guesses that the model confirms.
 * The sequence ends when it has sampled as many tokens as its options ask for, samples one of the tokens that end it,
 * or is stopped by its observer. In the next step a waiting sequence takes its place. The keys and values of a sequence
 * stay in pages until it is released, or until the model's sliding window has passed them. A later sequence that begins
 * with the same tokens reuses these pages. If pages run out, the newest sequence that holds pages is preempted, whether
 * it has ended or not: it releases its pages. If it has not ended, it reads its tokens again later.
 *
 * The tokens of a sequence depend only on its own tokens and options. They do not depend on other sequences, on the
 * division into steps, on pages or on threads (runner.h names the devices on which that holds to the bit).
 *
 * A sequence may be longer than tri_runner_sizes.positions. If a prompt is longer, only its last tokens are read, as
 * many as there are positions. A sequence that grows longer *slides*: its last tokens, half as many as there are
 * positions, are read again, at positions from 0 on. */
#ifndef TRI_GENERATION_GENERATOR_H
#define TRI_GENERATION_GENERATOR_H

#include "generation/guess.h"
#include "generation/runner.h"
#include "generation/sampling.h"

typedef struct tri_generator tri_generator;
typedef struct tri_sequence tri_sequence;

typedef enum tri_finish {
  TRI_FINISH_NONE,      /* in progress */
  TRI_FINISH_READ,      /* all tokens are read or scored, and none was to be sampled */
  TRI_FINISH_LENGTH,    /* all tokens that were asked for are sampled */
  TRI_FINISH_END,       /* the last token is one of `ends` */
  TRI_FINISH_STOP,      /* stopped by its observer */
  TRI_FINISH_CANCELLED, /* ended by tri_generator_cancel */
  TRI_FINISH_FAILED     /* its logits were not finite (tri_sequence_observer.failed) */
} tri_finish;
/* Returns "none", "read", "length", "end", "stop", "cancelled" or "failed". */
const char *tri_finish_name(tri_finish finish);

/* Callbacks of a sequence. tri_generator_step calls them after the run of the model, in the order in which the
 * sequences were begun or extended; tri_generator_cancel calls `done`. Each may be NULL. */
typedef struct tri_sequence_observer {
  void *context;
  /* Receives each sampled token, including one that ends the sequence. *stop = true ends the sequence. */
  tri_status (*token)(void *context, tri_sequence *sequence, const tri_sampled *sampled, bool *stop);
  /* Called when the sequence has ended (tri_sequence_finish), but not if it has failed. May extend, fork or release the
   * sequence. */
  tri_status (*done)(void *context, tri_sequence *sequence);
  /* Called when the sequence has failed (TRI_FINISH_FAILED). tri_status_message() is the reason. Must release the
   * sequence, which cannot be continued. NULL: tri_generator_step fails with the reason. */
  tri_status (*failed)(void *context, tri_sequence *sequence);
} tri_sequence_observer;

typedef struct tri_sequence_options {
  tri_sampling sampling;
  const int32_t *ends; /* [num_ends], tokens that end the sequence; this array must outlive the sequence */
  int num_ends;
  int64_t wanted;                 /* number of tokens to sample; 0: none */
  tri_sampling_request requested; /* numbers to compute for each sampled token */
  int64_t scored; /* number of given tokens, counted from the last, whose log-probabilities are computed */
  double *scores; /* [scored], receives the log-probabilities; must be valid until all given tokens are read */
  int64_t scored_likeliest; /* number of likeliest tokens to find at the position of each scored token, up to
                               TRI_MOST_LIKELY */
  tri_likely *likeliest;    /* [scored, scored_likeliest], receives the likeliest tokens of each position, by descending
                               probability, then by id; with fewer tokens in the vocabulary, the rest is {-1, -INFINITY}.
                               Must be valid as long as `scores`. If the scored token is one of them, its log-probability
                               here equals its score, to the bit */
  int64_t owner; /* number of the user that the sequence belongs to, from 0 on. Sequences of different users never share
                    cached pages, since one user could otherwise find out from the time to a token which texts another
                    user has sent. Only tri_generator_begin reads it: a fork belongs to the user of the sequence that it
                    was forked from */
  tri_sequence_observer observer;
} tri_sequence_options;

/* Creates a generator on `runner`. The runner must outlive it, and no other generator may use the runner's pages.
 * Release with tri_generator_destroy, which also releases all sequences. */
tri_status tri_generator_create(const tri_model *model, tri_dtype precision, tri_runner *runner, tri_generator **out);
void tri_generator_destroy(tri_generator *generator);

/* Returns the bytes of host memory that sampling on the host needs, with `threads` threads. Sampling on the device
 * (tri_sampling_is_whole) needs none. */
size_t tri_generator_sampler_bytes(int64_t vocab_size, int threads);

/* Sets the proposer, which guesses up to `most` tokens of each sequence per step (0 to TRI_MOST_GUESSES). Steps without
 * guesses are used while they are faster (tri_guess_policy). The proposer's context must outlive the generator. Call
 * this before any sequence is begun. */
void tri_generator_set_proposer(tri_generator *generator, const tri_proposer *proposer, int64_t most);

/* Returns the largest number of positions of a sequence. */
int64_t tri_generator_positions(const tri_generator *generator);

/* ---- verbs ------------------------------------------------------------------------------------------------------- */

/* Begins a sequence with these tokens, which are copied. Fails with TRI_BAD_USAGE if there are no tokens, if a token or
 * the token of a bias is not in the vocabulary, if a bias or a penalty is not finite, if too many tokens are scored, if
 * too many likeliest tokens are requested, or if the sequence needs more pages than the runner has. Release it with
 * tri_generator_release. */
tri_status tri_generator_begin(tri_generator *generator, const int32_t *ids, int64_t count,
                               const tri_sequence_options *options, tri_sequence **out);
/* Checks the arguments of tri_generator_begin, and fails with the same errors. */
tri_status tri_generator_check(const tri_generator *generator, const int32_t *ids, int64_t count,
                               const tri_sequence_options *options);
/* Begins a sequence with all tokens of `from`, which must have ended, followed by ids [count]. Shares the pages of
 * `from`. Fails like tri_generator_begin; release it with tri_generator_release. */
tri_status tri_generator_fork(tri_generator *generator, const tri_sequence *from, const int32_t *ids, int64_t count,
                              const tri_sequence_options *options, tri_sequence **out);
/* Resumes a sequence that has ended: appends ids [count] and continues with these options. Fails like
 * tri_generator_begin, and then leaves the sequence unchanged. */
tri_status tri_generator_extend(tri_generator *generator, tri_sequence *sequence, const int32_t *ids, int64_t count,
                                const tri_sequence_options *options);
/* Keeps only the first `count` tokens, at least one, of a sequence that has ended. tri_generator_extend resumes it. */
void tri_generator_rewind(tri_generator *generator, tri_sequence *sequence, int64_t count);
/* Ends a sequence that is in progress or waits. Its observer is called, and its tokens remain. */
tri_status tri_generator_cancel(tri_generator *generator, tri_sequence *sequence);
/* Cancels all sequences that have not ended. Sequences that the observers begin meanwhile are not cancelled. */
tri_status tri_generator_cancel_all(tri_generator *generator);
/* Releases a sequence in any state. Does not call its observer. */
void tri_generator_release(tri_generator *generator, tri_sequence *sequence);

/* Runs the model once, unless all sequences have ended. Sets *more to whether any sequence has not ended. */
tri_status tri_generator_step(tri_generator *generator, bool *more);
/* Runs steps until all sequences have ended. */
tri_status tri_generator_run(tri_generator *generator);

/* Runs steps until all sequences that have started have ended. The others wait. */
tri_status tri_generator_drain(tri_generator *generator);

/* The treatment of sequences in progress when new weights are published. */
typedef enum tri_publish_rule {
  TRI_PUBLISH_READ_AGAIN, /* they read their tokens again, and continue with the new weights */
  TRI_PUBLISH_BETWEEN     /* no sequence may be in progress, or tri_generator_publish fails; call tri_generator_drain
                             before the weights change, so that each sequence has tokens of one version only */
} tri_publish_rule;
/* Begins to use the weights after they have changed (tri_weights_version). Cached pages of other versions are not found
 * any more. A step fails if the weights have changed since the last tri_generator_publish. */
tri_status tri_generator_publish(tri_generator *generator, tri_publish_rule rule);

/* ---- queries of a sequence --------------------------------------------------------------------------------------- */

/* Returns all tokens, [*count], valid until the next call of a verb or of tri_generator_step. */
const int32_t *tri_sequence_ids(const tri_sequence *sequence, int64_t *count);
/* Returns the number of tokens sampled since the sequence was begun or extended. */
int64_t tri_sequence_sampled(const tri_sequence *sequence);
tri_finish tri_sequence_finish(const tri_sequence *sequence);
/* Returns whether the sequence was longer than the runner's positions. */
bool tri_sequence_has_slid(const tri_sequence *sequence);

/* Counters for benchmarks and tests, since the generator was created: `steps` counts runs of the model, `rows` the rows
 * read, `found_rows` rows that were not read because they were in cached pages, and `preempted` preemptions. */
typedef struct tri_generator_counts {
  int64_t steps, rows, found_rows, preempted;
  int64_t guessed, kept;         /* number of tokens that were read as guesses; number of these that were correct */
  int64_t free_pages, sequences; /* current numbers, not counters */
} tri_generator_counts;
tri_generator_counts tri_generator_count(const tri_generator *generator);

#endif
