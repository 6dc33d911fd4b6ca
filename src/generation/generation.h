/* Text generation from a folder: the model, its weights, its tokenizer, its sampling settings and its generator. */
#ifndef TRI_GENERATION_GENERATION_H
#define TRI_GENERATION_GENERATION_H

#include "checkpoint/merged.h"
#include "engine/model_options.h"
#include "generation/dispatcher.h"
#include "generation/draft.h"
#include "tokenizer/tokenizer.h"

enum { TRI_MOST_STOPS = 64 };

/* The model to use, and how its texts are sampled and end. A negative number means that the value is not given. */
typedef struct tri_generation_request {
  const char *checkpoint;            /* the model's folder */
  const char *stops[TRI_MOST_STOPS]; /* [num_stops], a text ends before the first of these strings */
  int num_stops;
  int64_t tokens; /* largest number of tokens to write; 0: the caller chooses a number for each text, and the number in
                     the folder's settings is ignored */
  int64_t top_k;
  double temperature, top_p, min_p, repetition_penalty;
  uint64_t seed;
  int64_t lookup;        /* largest number of tokens guessed by prompt lookup; 0: no lookup */
  const char *draft;     /* folder of a draft model; NULL: no draft model */
  int64_t draft_tokens;  /* largest number of tokens that the draft model guesses */
  bool ignore_end;       /* whether the tokenizer's end tokens do not end a text */
  bool stops_when_asked; /* whether texts end with TRI_FINISH_CANCELLED once tri_stop_asked returns true */
  bool own_settings; /* whether texts may have sampling settings of their own, so that plans include the host's sampler
                      */
  bool hashes;       /* whether tri_generation.hash is computed when the weights are loaded */
  bool quiet; /* whether to leave out the log lines about the tokenizer, the folder's sampling settings and texts that
                 are too long, and the advice in the message of TRI_OUT_OF_MEMORY */
  tri_model_options model;
  const tri_group *group;       /* ranks that generate together; NULL: this rank alone */
  int64_t tensor;               /* ranks of each replica (replicas.h); 0: one */
  const tri_replicas *replicas; /* replicas of `tensor` ranks each, used instead of `group`; NULL: replicas of the ranks
                                   of `group` are created */
  tri_device *lent;             /* device to use; NULL: tri_generation_load creates the one that `model` names */
  const tri_weights *shared;    /* weights in the lent device's memory, read in place of the folder's; NULL: unused */
  bool without_weights; /* whether the caller writes the weights after tri_generation_load; with `unmerged`, it writes
                           only the adapter's factors, and tri_generation_load loads the base */
  bool unmerged; /* whether an adapter's factors are kept apart from the base; false: they are added to the base */
} tri_generation_request;

typedef struct tri_generation tri_generation;
struct tri_generation {
  const tri_generation_request *request;
  tri_model model;
  tri_merged weights;
  char tokenizer_file[TRI_PATH_BYTES];
  tri_tokenizer *tokenizer;
  tri_encoder *encoder;
  tri_sampling sampling;
  int64_t tokens;     /* largest number of tokens to write, from the request or the folder; 0: not given */
  int64_t max_length; /* if `tokens` is 0: the folder's largest number of tokens of prompt and text; 0: not given */
  int32_t ends[TRI_MOST_ENDS]; /* [num_ends], tokens that end a text */
  int num_ends;
  tri_replicas replicas;
  tri_device *device;
  tri_runner *runner;
  tri_generator *generator; /* NULL: this rank is not the first of its replica */
  tri_dispatcher *dispatcher;
  int64_t positions; /* largest number of positions of a text */
  uint64_t hash;     /* hash of the weights of this rank, if the request has `hashes`; 0 otherwise */
  int64_t step;      /* step of the weights, for the JSON lines of texts; -1: the folder is not a run's checkpoint */
  bool slid; /* whether a text was longer than `positions`; a log line is written for the first such text only */
  tri_generation_request draft_request;
  tri_generation *draft_model; /* NULL: no draft model */
  tri_draft draft;
};

/* Reads the model's folder and the options, without loading weights. `request` must outlive `out`. Release with
 * tri_generation_close, also after a failure. */
tri_status tri_generation_open(const tri_generation_request *request, tri_generation *out);
/* Returns whether this rank is the first of the group, which has the prompts and writes the texts. */
bool tri_generation_leads(const tri_generation *generation);
/* COLLECTIVE over the group. Returns the first rank's status on all ranks (tri_first_rank_status). */
tri_status tri_generation_agree(const tri_generation *generation, tri_status status);
/* COLLECTIVE over the group. Creates the device unless one is lent, the runner, the generator and the dispatcher, and
 * loads the weights unless the request has `shared` or `without_weights`. The first rank's sizes are used on all
 * ranks. */
tri_status tri_generation_load(tri_generation *generation, const tri_runner_sizes *sizes);
/* COLLECTIVE over the group, while no text is in progress and no rank follows (tri_dispatcher_dismiss). Replaces the
 * weights by those of the first rank's checkpoint `path`; the paths given on the other ranks are ignored. `path` NULL
 * on the first rank: changes nothing, and sets *more to false on all ranks. Fails on all ranks, and keeps the old
 * weights, with TRI_BAD_FILE if the checkpoint is damaged or cannot be opened, and with TRI_BAD_CONFIG if it is of
 * another model. If the old weights cannot be restored, fails with TRI_IO_FAILED. */
tri_status tri_generation_reload(tri_generation *generation, const char *path, bool *more);
/* Chooses the number of pages of a runner whose other sizes are set: as many as cache_bytes allows, but no more than
 * its sequences can use. cache_bytes 0: as many as they can use. `copies`: whether a prompt may have several texts.
 * Fails with TRI_BAD_USAGE if cache_bytes is less than one page. */
tri_status tri_generation_choose_pages(const tri_generation *generation, bool copies, size_t cache_bytes,
                                       tri_runner_sizes *sizes);
/* On the first rank. Runs steps until no text is left. Cancels the remaining texts if this process is asked to stop and
 * the request has `stops_when_asked`. */
tri_status tri_generation_run(tri_generation *generation);
/* Computes the memory that a runner of these sizes needs, and the memory that the draft model's runner needs (0 without
 * a draft model). */
tri_status tri_generation_plan(const tri_generation *generation, const tri_runner_sizes *sizes,
                               const tri_device *device, tri_runner_need *need, tri_runner_need *draft);
void tri_generation_close(tri_generation *generation);

#endif
