/* A model that writes texts: what its folder and the options say of it, its weights, and its generator. */
#ifndef TRI_GENERATION_GENERATION_H
#define TRI_GENERATION_GENERATION_H

#include "checkpoint/merged.h"
#include "engine/model_options.h"
#include "generation/draft.h"
#include "tokenizer/tokenizer.h"

enum { TRI_MOST_STOPS = 64 };

/* Of which model, and how its texts are drawn and end. Numbers that are negative were not given. */
typedef struct tri_generation_request {
  const char *checkpoint;
  const char *stops[TRI_MOST_STOPS];
  int num_stops;
  int64_t tokens; /* to write at most; 0: no number, also not the folder's */
  int64_t top_k;
  double temperature, top_p, min_p, repetition_penalty;
  uint64_t seed;
  int64_t lookup;       /* tokens guessed by prompt lookup, at most; 0: none */
  const char *draft;    /* folder of a draft model; NULL: there is none */
  int64_t draft_tokens; /* that it guesses, at most */
  bool ignore_end;
  bool stops_when_asked; /* tri_stop_asked ends all texts: their finish is `cancelled` */
  bool quiet;            /* what the texts are like is not told */
  tri_model_options model;
  tri_device *lent; /* in the place of the one that `model` names; NULL: none is */
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
  int64_t tokens;              /* to write at most, of the request or the folder; 0: no number */
  int32_t ends[TRI_MOST_ENDS]; /* tokens that end a text */
  int num_ends;
  tri_device *device;
  tri_runner *runner;
  tri_generator *generator;
  int64_t positions; /* of each text */
  bool slid;         /* somebody has been told */
  tri_generation_request draft_request;
  tri_generation *draft_model; /* NULL: there is none */
  tri_draft draft;
};

/* What the model's folder and the options say; no weights yet. Release with tri_generation_close, also after a failure.
 */
tri_status tri_generation_open(const tri_generation_request *request, tri_generation *out);
/* The weights, with room for texts of these sizes. */
tri_status tri_generation_load(tri_generation *generation, const tri_runner_sizes *sizes);
/* Steps until no text is left; or until this process is asked to stop, and cancels those that are. */
tri_status tri_generation_run(tri_generation *generation);
/* Of a runner for them, and one for the draft model, whose need is 0 if there is none. */
tri_status tri_generation_plan(const tri_generation *generation, const tri_runner_sizes *sizes,
                               const tri_device *device, tri_runner_need *need, tri_runner_need *draft);
void tri_generation_close(tri_generation *generation);

#endif
