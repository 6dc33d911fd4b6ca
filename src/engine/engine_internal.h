/* Shared by the files of the engine: engine.c sets it up, verbs.c says what a loop may
 * do with it, engine_step.c executes programs. */
#ifndef TRI_ENGINE_ENGINE_INTERNAL_H
#define TRI_ENGINE_ENGINE_INTERNAL_H

#include "base/exact_terms.h"
#include "engine/engine.h"

/* What a step has done so far. */
typedef enum tri_step_phase { TRI_STEP_NONE, TRI_STEP_ACCUMULATED, TRI_STEP_REDUCED } tri_step_phase;

/* State that the instructions of one program, and the verbs of one step, share. */
typedef struct tri_step_state {
  const tri_feed *feed;
  tri_step_phase phase;
  int64_t step, updates;
  double lr;
  tri_exact_sum counted;        /* sum of the loss weights of the batches that were loaded */
  int64_t completions;          /* pairs, or completions that are no pairs, of these */
  int64_t tokens;               /* rows of these that are not padding */
  int64_t seen, seen_in_window; /* query-key pairs of these */
  double gradient_scale;
  tri_step result;
  /* A score. */
  bool evaluating, without_factors;
  int64_t samples;
} tri_step_state;

struct tri_engine {
  tri_engine_options options;
  tri_mesh alone; /* where the caller has no mesh */
  tri_device *device;
  tri_parts parts;
  tri_executor *executor;
  tri_routers *routers;    /* NULL: the model has no experts */
  tri_averaging averaging; /* up to the last update */
  double kl;               /* tri_engine_set_kl */
  tri_step_state step;
  int64_t micro_batches;      /* of this rank in a step */
  tri_device_event *uploaded; /* [micro_batches + 1]: that batch has been copied to the device */
  tri_device_event values_uploaded;
  int64_t result_waits, staging_waits, steps; /* of the host, in `steps` steps */
  bool prepared;                              /* packed weights are those of the parameters */
  tri_exchange_request **messages;            /* [TRI_NUM_STAGE_BUFFER_KINDS * most_stage_buffers] */
  int64_t most_stage_buffers;
  tri_exchange_request **reductions;              /* [buckets] */
  tri_exchange_request **gathers;                 /* [buckets * BUCKET_GATHERS] */
  const struct tri_checkpoint_map_staged *staged; /* what lies in the place of gradients (checkpoint_map.c), or NULL */
  bool staged_written;                            /* and was changed there */
  void *shared;                                   /* gradients that other ranks see; or NULL */
};

/* A bucket's gathers: of what is trained, and of what is frozen by stored type. */
enum { BUCKET_GATHERS = 1 + TRI_NUM_STORED };

/* Instructions [first, end) of a program. */
typedef struct tri_program_part {
  int64_t first, end;
} tri_program_part;

/* Before the first instruction of a step, or of a score: nothing has been added up. */
tri_status tri_engine_begin(tri_engine *engine);

tri_status tri_engine_execute(tri_engine *engine, const tri_program *program, tri_program_part part,
                              tri_step_state *state);

/* COLLECTIVE. The forward of that many samples of a feed, without dropout, with the parameters as they are. Sets how
 * many micro-batches each rank made; if they are as many as a step has, or fewer, batch m is micro-batch m (verbs.c).
 */
tri_status tri_engine_forward(tri_engine *engine, const tri_feed *feed, int64_t samples, bool without_factors,
                              int64_t *micro_batches);

/* COLLECTIVE. Puts the weights that the optimizer evaluates in the place of those that it trains, and back
 * (schedule-free AdamW). Both do nothing if these are the same. In between the gradients' memory has the trained ones
 * (averaging.c). */
tri_status tri_engine_swap_in_averaged_weights(tri_engine *engine);
tri_status tri_engine_swap_back(tri_engine *engine);
/* After update number `update`: adds the weights to their average over the run, if that is due (averaging.c). */
tri_status tri_engine_average_weights(tri_engine *engine, int64_t update);

/* The averages up to and with the update that a step is about to make, and the weight of its point. */
tri_averaging tri_engine_next_averaging(const tri_engine *engine, int64_t updates, double lr, double *weight);

/* Adds up what ranks hold of loss and gradient, and decides on the update (engine_clip.c). */
tri_status tri_engine_clip(tri_engine *engine, tri_step_state *state);

#endif
