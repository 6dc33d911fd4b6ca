/* The dispatcher's struct, and the records that its ranks exchange; for dispatcher*.c only. */
#ifndef TRI_GENERATION_DISPATCHER_INTERNAL_H
#define TRI_GENERATION_DISPATCHER_INTERNAL_H

#include "generation/dispatcher.h"
#include "generation/dispatcher_link.h"

typedef enum tri_verb_kind {
  TRI_VERB_BEGIN,  /* followed by ids [count], ends [num_ends] */
  TRI_VERB_FORK,   /* forks the sequence in slot `from`; followed by ids [count], ends [num_ends] */
  TRI_VERB_EXTEND, /* followed by ids [count], ends [num_ends] */
  TRI_VERB_REWIND, /* to `count` tokens */
  TRI_VERB_CANCEL,
  TRI_VERB_RELEASE,
  TRI_VERB_DISMISS
} tri_verb_kind;

/* A verb for a replica. The first rank gives each sequence a slot, a number that it uses again after a release. */
typedef struct tri_verb {
  tri_verb_kind kind;
  int num_ends;
  int64_t slot, from, count;
  int64_t serial; /* a new number for each begin, fork and extension; events of the sequence carry it until its end */
  int64_t wanted, scored; /* as in tri_sequence_options */
  tri_sampling sampling;
  tri_sampling_request requested;
} tri_verb;

typedef enum tri_event_kind {
  TRI_EVENT_SCORES, /* the given tokens are read; followed by scores [count] */
  TRI_EVENT_TOKEN,  /* followed by likeliest [count] */
  TRI_EVENT_DONE,
  TRI_EVENT_LEFT /* answers TRI_VERB_DISMISS; followed by the tri_generator_counts */
} tri_event_kind;

/* An event of a sequence. The first rank drops events whose serial number is not the sequence's present one. */
typedef struct tri_event {
  tri_event_kind kind;
  tri_finish finish;
  bool slid;
  int32_t id;
  int64_t slot, serial, count, version;
  double log_prob, entropy, sampled_log_prob;
} tri_event;

typedef struct tri_dispatched tri_dispatched; /* dispatcher.c */
typedef struct tri_followed tri_followed;     /* dispatcher_follow.c */

struct tri_dispatcher {
  tri_group group; /* first ranks of the replicas; not used on other ranks */
  tri_runner *runner;
  tri_generator *generator; /* NULL: this rank is not the first of its replica */
  tri_link *links;          /* on the first rank: [group.size], to rank i of the group; on others: [1], to the first */

  /* On the first rank. */
  tri_dispatched **list; /* [count], by slot; NULL: unused */
  int64_t count, room;
  int64_t serial;       /* the last serial number used */
  int64_t *outstanding; /* [group.size], tokens that each replica has to read or sample */
  int64_t elsewhere;    /* sequences in progress on other ranks */
  bool *dismissed;      /* [group.size], ranks that have answered TRI_VERB_DISMISS and were sent no tokens since */
  tri_generator_counts counts; /* of other ranks */

  /* On the other ranks. */
  tri_followed **followed; /* [num_followed], by slot; NULL: unused */
  int64_t num_followed;
};

/* Releases the sequences in `followed`. */
void tri_dispatcher_release_followed(tri_dispatcher *dispatcher);

#endif
