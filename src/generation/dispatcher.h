/* Distributes sequences over replicas. A *replica* is one copy of the weights, on one rank or divided over several
 * adjacent ranks (replicas.h), with a generator (generator.h) on the first of these ranks.
 *
 * One rank, the first of all ranks, calls the *verbs*: functions that begin, continue and end sequences. This rank
 * receives the *events* (tokens, scores and ends of sequences) from all replicas, and calls the observers. A
 * tri_sequence that the dispatcher returns is the first rank's record of a sequence: its tokens, its finish and its
 * observer. The keys and values of the sequence are on the replica that generates it. A new sequence goes to the
 * replica with the fewest outstanding tokens (left to read or to sample); a fork goes to the replica of its original,
 * whose pages it shares. For its own replica, the first rank calls its generator directly. All other ranks call
 * tri_dispatcher_follow.
 *
 * The tokens of a sequence do not depend on the number of replicas, since they do not depend on the other sequences of
 * its replica. The order in which events of different sequences arrive does depend on the number of replicas.
 *
 * A replica on another rank does not wait for the observers: after `*stop = true` it may sample further tokens, which
 * are dropped. */
#ifndef TRI_GENERATION_DISPATCHER_H
#define TRI_GENERATION_DISPATCHER_H

#include "generation/generator.h"
#include "generation/replicas.h"

typedef struct tri_dispatcher tri_dispatcher;

/* LOCAL. Creates a dispatcher. `runner`: this rank's runner; all ranks' runners have the same sizes. `generator`: the
 * generator that uses the runner; NULL if this rank is not the first of its replica. All arguments must outlive the
 * dispatcher, and must not be used directly while sequences are in progress. Release with tri_dispatcher_destroy, which
 * also releases all sequences. */
tri_status tri_dispatcher_create(const tri_replicas *replicas, tri_runner *runner, tri_generator *generator,
                                 tri_dispatcher **out);
void tri_dispatcher_destroy(tri_dispatcher *dispatcher);

/* Returns the seconds that this rank, the first of its replica, has waited so far because its replica had no sequence
 * to work on. */
double tri_dispatcher_waited_s(const tri_dispatcher *dispatcher);

/* Returns the number of replicas. */
int tri_dispatcher_replicas(const tri_dispatcher *dispatcher);

/* ---- verbs, on the first rank ------------------------------------------------------------------------------------ */

/* The verbs work like the generator's functions of the same names (generator.h), and fail with the same errors.
 * tri_dispatcher_fork, tri_dispatcher_extend and tri_dispatcher_rewind also fail with TRI_UNSUPPORTED if the given
 * sequence was stopped or cancelled, its replica is on another rank, and the replica may have sampled beyond the
 * runner's positions before the stop arrived. The options are copied; `ends`, `sampling.bias`, `scores`, `likeliest`
 * and the observer's context must remain valid, as for the generator. */

tri_status tri_dispatcher_begin(tri_dispatcher *dispatcher, const int32_t *ids, int64_t count,
                                const tri_sequence_options *options, tri_sequence **out);
tri_status tri_dispatcher_fork(tri_dispatcher *dispatcher, const tri_sequence *from, const int32_t *ids, int64_t count,
                               const tri_sequence_options *options, tri_sequence **out);
tri_status tri_dispatcher_extend(tri_dispatcher *dispatcher, tri_sequence *sequence, const int32_t *ids, int64_t count,
                                 const tri_sequence_options *options);
tri_status tri_dispatcher_rewind(tri_dispatcher *dispatcher, tri_sequence *sequence, int64_t count);
tri_status tri_dispatcher_cancel(tri_dispatcher *dispatcher, tri_sequence *sequence);
tri_status tri_dispatcher_cancel_all(tri_dispatcher *dispatcher);
tri_status tri_dispatcher_release(tri_dispatcher *dispatcher, tri_sequence *sequence);

/* Sends the verbs since the last step, calls the observers of events that have come from other ranks, and runs a step
 * of this rank's generator. If only other ranks have sequences in progress and no event has come, waits up to a tenth
 * of a second for one. Sets *more to whether any sequence on any rank has not ended. */
tri_status tri_dispatcher_step(tri_dispatcher *dispatcher, bool *more);
/* Runs steps until all sequences have ended. */
tri_status tri_dispatcher_run(tri_dispatcher *dispatcher);

/* ---- the other ranks --------------------------------------------------------------------------------------------- */

/* Executes the verbs of the first rank until it calls tri_dispatcher_dismiss. Sleeps while this rank has no sequence.
 * A rank that is not the first of its replica only joins in that replica's runs (tri_runner_follow). */
tri_status tri_dispatcher_follow(tri_dispatcher *dispatcher);
/* On the first rank, after all sequences have ended: lets the other ranks return from tri_dispatcher_follow, and adds
 * their counters to the ones that tri_dispatcher_count returns. The other ranks may follow again later. */
tri_status tri_dispatcher_dismiss(tri_dispatcher *dispatcher);

/* On the first rank, after a failure with this status: lets the other ranks of this replica return from
 * tri_dispatcher_follow. Does nothing if there are several replicas, or if the status is TRI_COMM or TRI_DEVICE_FAILED:
 * then the failure ends the job. Keeps the failure's message. */
void tri_dispatcher_give_up(tri_dispatcher *dispatcher, tri_status status);

/* Returns the counters of this rank's generator plus those that the other ranks had at the last
 * tri_dispatcher_dismiss. */
tri_generator_counts tri_dispatcher_count(const tri_dispatcher *dispatcher);

#endif
