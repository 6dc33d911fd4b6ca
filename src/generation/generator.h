/* Writing text: sequences of tokens that are read, sampled from, continued and scored, as many side by side as there is
 * room for, whenever they come. Everything that writes text is made of these verbs.
 *
 * A sequence is begun with its tokens and waits for a place. From step to step it reads what it has not read, then gets
 * a token a step until it has as many as were wanted, one ends it, or its observer says so; a sequence behind it takes
 * its place at once. What it has read stays in pages (pages.h), which a later sequence that begins alike finds, until
 * it is released. Where pages run out, the sequence that came last reads its tokens again later.
 *
 * What a sequence's tokens are depends on its own tokens and options alone: on no other sequence, no step, no page, no
 * thread (runner.h says where that holds to the bit).
 *
 * A sequence longer than the positions there are goes on with its end: of a prompt the last tokens that there are
 * positions for are read; once none is left, the last half of what was there is read again, at positions from 0 on. */
#ifndef TRI_GENERATION_GENERATOR_H
#define TRI_GENERATION_GENERATOR_H

#include "generation/guess.h"
#include "generation/runner.h"
#include "generation/sampling.h"

typedef struct tri_generator tri_generator;
typedef struct tri_sequence tri_sequence;

typedef enum tri_finish {
  TRI_FINISH_NONE,      /* it goes on                                                     */
  TRI_FINISH_READ,      /* all is read or scored, and nothing was to be sampled           */
  TRI_FINISH_LENGTH,    /* it has the tokens that were wanted                             */
  TRI_FINISH_END,       /* a token of `ends`, which is its last one                       */
  TRI_FINISH_STOP,      /* its observer stopped it                                        */
  TRI_FINISH_CANCELLED, /* tri_generator_cancel                                           */
  TRI_FINISH_FAILED     /* its logits were not finite; the generator's step says so       */
} tri_finish;
/* "none", "read", "length", "end", "stop", "cancelled", "failed". */
const char *tri_finish_name(tri_finish finish);

/* What is told of a sequence, between steps, in the order in which sequences were begun. Either may be NULL. */
typedef struct tri_sequence_observer {
  void *context;
  /* A token was sampled, one that ends the sequence among them; *stop may be set. */
  tri_status (*token)(void *context, tri_sequence *sequence, const tri_sampled *sampled, bool *stop);
  /* It has come to an end, which tri_sequence_finish says. It may be continued, forked or released, also from here. */
  tri_status (*done)(void *context, tri_sequence *sequence);
} tri_sequence_observer;

typedef struct tri_sequence_options {
  tri_sampling sampling;
  const int32_t *ends; /* [num_ends], tokens that end the sequence; they outlive it */
  int num_ends;
  int64_t wanted;         /* tokens to sample; 0: none */
  tri_sampling_wish wish; /* of each of them */
  int64_t scored;         /* of how many of the last given tokens log-probabilities are wanted */
  double *scores;         /* [scored], which receives them; it outlives the sequence's reading */
  tri_sequence_observer observer;
} tri_sequence_options;

/* On a runner, which it does not own, and whose pages are the generator's alone. Release with tri_generator_destroy,
 * which releases all sequences. */
tri_status tri_generator_create(const tri_model *model, tri_dtype precision, tri_runner *runner, tri_generator **out);
void tri_generator_destroy(tri_generator *generator);

/* Host memory that the sampler takes for logits of which it needs copies, by `threads` threads (tri_sampling_is_whole).
 */
size_t tri_generator_sampler_bytes(int64_t vocab_size, int threads);

/* From now on up to `most` (0 to TRI_MOST_GUESSES) tokens of each sequence are guessed, where that is faster. The
 * guesser's context outlives the generator; no sequence has begun. */
void tri_generator_set_guesser(tri_generator *generator, const tri_guesser *guesser, int64_t most);

/* ---- verbs ------------------------------------------------------------------------------------------------------- */

/* A sequence that begins with these tokens, which are copied. TRI_BAD_USAGE if it can never fit. The caller releases it
 * (tri_generator_release). */
tri_status tri_generator_begin(tri_generator *generator, const int32_t *ids, int64_t count,
                               const tri_sequence_options *options, tri_sequence **out);
/* Another that begins with all tokens of a sequence that has come to an end, and shares what is read of them, and has
 * these [count] behind them. */
tri_status tri_generator_fork(tri_generator *generator, const tri_sequence *from, const int32_t *ids, int64_t count,
                              const tri_sequence_options *options, tri_sequence **out);
/* A sequence that has come to an end goes on: with these tokens behind it, and then as the options say. */
tri_status tri_generator_extend(tri_generator *generator, tri_sequence *sequence, const int32_t *ids, int64_t count,
                                const tri_sequence_options *options);
/* A sequence that has come to an end keeps its first `count` tokens alone, at least one: to be extended otherwise. */
void tri_generator_rewind(tri_generator *generator, tri_sequence *sequence, int64_t count);
/* Ends a sequence that has not come to its end, wherever it is: its observer is told, and its tokens stay. */
tri_status tri_generator_cancel(tri_generator *generator, tri_sequence *sequence);
/* All that have not. Those that their observers begin go on. */
tri_status tri_generator_cancel_all(tri_generator *generator);
/* Releases a sequence, wherever it is. Its observer is not told. */
void tri_generator_release(tri_generator *generator, tri_sequence *sequence);

/* One run of the model; *more says whether any sequence has not come to its end. */
tri_status tri_generator_step(tri_generator *generator, bool *more);
/* Steps until none is left. */
tri_status tri_generator_run(tri_generator *generator);

/* The weights have changed: nothing that was read before is used any more; sequences read their tokens again. */
void tri_generator_forget(tri_generator *generator);

/* ---- what a sequence has ----------------------------------------------------------------------------------------- */

/* All its tokens, [*count]; valid until the next verb. */
const int32_t *tri_sequence_ids(const tri_sequence *sequence, int64_t *count);
int64_t tri_sequence_sampled(const tri_sequence *sequence); /* tokens since it was begun or extended */
tri_finish tri_sequence_finish(const tri_sequence *sequence);
bool tri_sequence_has_slid(const tri_sequence *sequence); /* it was longer than the positions */

/* Rows read so far, and steps: what a benchmark and a test look at. */
typedef struct tri_generator_counts {
  int64_t steps, rows, found_rows, preempted; /* found: of prompts, those that were in pages already */
  int64_t guessed, kept;                      /* tokens that were read as guesses, and those that were right */
  int64_t free_pages, sequences;              /* now */
} tri_generator_counts;
tri_generator_counts tri_generator_count(const tri_generator *generator);

#endif
