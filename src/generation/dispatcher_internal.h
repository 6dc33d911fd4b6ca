/* The dispatcher's struct, and the records that its ranks exchange; for dispatcher*.c only. */
#ifndef TRI_GENERATION_DISPATCHER_INTERNAL_H
#define TRI_GENERATION_DISPATCHER_INTERNAL_H

#include "generation/dispatcher.h"
#include "generation/dispatcher_link.h"

typedef enum tri_verb_kind {
  TRI_VERB_BEGIN,  /* followed by ids [count], ends [num_ends] */
  TRI_VERB_FORK,   /* the same, of the sequence in slot `from` */
  TRI_VERB_EXTEND, /* the same */
  TRI_VERB_REWIND, /* to `count` tokens */
  TRI_VERB_CANCEL,
  TRI_VERB_RELEASE,
  TRI_VERB_DISMISS
} tri_verb_kind;

/* A verb for a replica. The first rank numbers the sequences by slots, which it uses again after a release. */
typedef struct tri_verb {
  tri_verb_kind kind;
  int num_ends;
  int64_t slot, from, count;
  int64_t serial; /* number of the sequence's present part, from its begin, fork or extension to its end */
  int64_t wanted, scored;
  tri_sampling sampling;
  tri_sampling_request requested;
} tri_verb;

typedef enum tri_event_kind {
  TRI_EVENT_SCORES, /* the given tokens are read; followed by scores [count] */
  TRI_EVENT_TOKEN,  /* followed by likeliest [count] */
  TRI_EVENT_DONE,
  TRI_EVENT_LEFT /* answers TRI_VERB_DISMISS; followed by the tri_generator_counts */
} tri_event_kind;

/* An event of a sequence. The first rank drops events with an old serial number. */
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
  tri_group group; /* first ranks of the replicas */
  tri_runner *runner;
  tri_generator *generator; /* NULL: not the first rank of its replica */
  tri_link *links;          /* [group.size] to each other rank on the first rank, [1] to the first rank on the others */

  /* On the first rank. */
  tri_dispatched **list; /* [count], by slot; NULL: unused */
  int64_t count, room;
  int64_t serial;              /* the last one used */
  int64_t *outstanding;        /* [group.size], tokens that each replica has to read or sample */
  int64_t elsewhere;           /* sequences in progress on other ranks */
  bool *dismissed;             /* [group.size], ranks that have answered TRI_VERB_DISMISS and got no verb since */
  tri_generator_counts counts; /* of other ranks */

  /* On the other ranks. */
  tri_followed **followed; /* [num_followed], by slot; NULL: unused */
  int64_t num_followed;
};

/* Releases the sequences of a rank that follows. */
void tri_dispatcher_release_followed(tri_dispatcher *dispatcher);

#endif
