/* The dispatcher's struct, and the records that its ranks exchange; for dispatcher*.c only. */
#ifndef TRI_GENERATION_DISPATCHER_INTERNAL_H
#define TRI_GENERATION_DISPATCHER_INTERNAL_H

#include "generation/dispatcher.h"
#include "generation/dispatcher_link.h"

typedef enum tri_verb_kind {
  TRI_VERB_BEGIN,   /* followed by ids [count], ends [num_ends], biases [sampling.num_bias] */
  TRI_VERB_FORK,    /* forks the sequence in slot `from`; followed by ids, ends and biases, as TRI_VERB_BEGIN */
  TRI_VERB_EXTEND,  /* followed by ids, ends and biases, as TRI_VERB_BEGIN */
  TRI_VERB_REWIND,  /* keeps the first `count` tokens of the sequence */
  TRI_VERB_CANCEL,  /* ends the sequence */
  TRI_VERB_RELEASE, /* frees the sequence and its slot */
  TRI_VERB_DISMISS  /* the rank answers with TRI_EVENT_LEFT and returns from tri_dispatcher_follow */
} tri_verb_kind;

/* A verb for a replica. The first rank gives each sequence a slot, a number that a later sequence may get after a
 * release. */
typedef struct tri_verb {
  tri_verb_kind kind;
  int num_ends;
  int64_t slot, from, count; /* slot of the sequence; fork: slot of its original; number of ids, or of tokens to keep */
  int64_t serial; /* new number for each begin, fork and extension; the replica puts it into the sequence's events */
  int64_t wanted, scored, scored_likeliest, owner; /* as in tri_sequence_options */
  tri_sampling sampling; /* its member `bias` is an address in the first rank's memory, which the receiver replaces */
  tri_sampling_request requested;
} tri_verb;

typedef enum tri_event_kind {
  TRI_EVENT_SCORES, /* the given tokens are read; followed by scores [count], likeliest [count, scored_likeliest] */
  TRI_EVENT_TOKEN,  /* a token is sampled; followed by the likeliest tokens at its position, [count] */
  TRI_EVENT_DONE,   /* the sequence has ended, with `finish` */
  TRI_EVENT_FAILED, /* the sequence has failed; followed by the reason, text [count] */
  TRI_EVENT_LEFT    /* answers TRI_VERB_DISMISS; followed by the tri_generator_counts */
} tri_event_kind;

/* An event of a sequence. The first rank drops an event if the sequence has a newer serial number. */
typedef struct tri_event {
  tri_event_kind kind;
  tri_finish finish;
  bool slid;                            /* TRI_EVENT_DONE: whether the sequence has slid (tri_sequence_has_slid) */
  int32_t id;                           /* TRI_EVENT_TOKEN: the sampled token */
  int64_t slot, serial, count, version; /* slot and serial number of the sequence; length of the data that follows;
                                           version of the weights (tri_sampled) */
  int64_t scored_likeliest;             /* TRI_EVENT_SCORES: number of likeliest tokens of each score */
  double log_prob, entropy, sampled_log_prob;
} tri_event;

typedef struct tri_dispatched tri_dispatched; /* dispatcher.c */
typedef struct tri_followed tri_followed;     /* dispatcher_follow.c */

struct tri_dispatcher {
  tri_group group; /* group of the first ranks of all replicas; unused on a rank that is not the first of its replica */
  tri_runner *runner;
  tri_generator *generator; /* NULL: this rank is not the first of its replica */
  tri_link *links; /* connections; on the first rank [group.size], to every rank of the group; on other ranks [1], to
                      the first rank */

  double waited_s; /* seconds that this rank has waited so far because its replica had no sequence to work on */

  /* On the first rank. */
  tri_dispatched **list; /* [count], sequences by slot; NULL: the slot is free */
  int64_t count, room;
  int64_t serial;       /* newest serial number */
  int64_t *outstanding; /* [group.size], tokens that each replica has to read or sample */
  int64_t elsewhere;    /* sequences in progress on other ranks */
  bool *dismissed;      /* [group.size], whether the rank has answered TRI_VERB_DISMISS and has not been sent a sequence
                           since */
  tri_generator_counts counts; /* sums of the other ranks' counters at the last tri_dispatcher_dismiss */

  /* On the other ranks. */
  tri_followed **followed; /* [num_followed], sequences by slot; NULL: the slot is free */
  int64_t num_followed;
};

/* Releases the sequences in `followed`. */
void tri_dispatcher_release_followed(tri_dispatcher *dispatcher);

#endif
