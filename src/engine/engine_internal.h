/* Shared by the files of the engine: engine.c sets it up, verbs.c says what a loop may
 * do with it, engine_step.c executes programs. */
#ifndef TRI_ENGINE_ENGINE_INTERNAL_H
#define TRI_ENGINE_ENGINE_INTERNAL_H

#include "base/exact_terms.h"
#include "engine/engine.h"

/* How far a step is. */
typedef enum tri_step_phase { TRI_STEP_NONE, TRI_STEP_ACCUMULATED, TRI_STEP_REDUCED } tri_step_phase;

/* What the instructions of one program, and the verbs of one step, hand to each other. */
typedef struct tri_step_state {
  const tri_feed *feed;
  tri_step_phase phase;
  int64_t step, updates;
  double lr;
  tri_exact_sum counted;        /* of the batches that were loaded: the labels' weights; */
  int64_t tokens;               /* and rows that are not filling */
  int64_t seen, seen_in_window; /* tokens that theirs see */
  double gradient_scale;
  tri_step result;
  /* A score. */
  bool evaluating;
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
  tri_step_state step;
  int64_t micro_batches;      /* of this rank in a step */
  tri_device_event *uploaded; /* [micro_batches + 1]: that batch has been copied to the device */
  tri_device_event values_uploaded;
  int64_t result_waits, staging_waits, steps; /* of the host, in so many steps */
  bool prepared;                              /* packed weights are those of the parameters */
  tri_exchange_request **messages;            /* [TRI_NUM_BOX_KINDS * most_boxes] */
  int64_t most_boxes;
  tri_exchange_request **reductions;      /* [buckets] */
  tri_exchange_request **gathers;         /* [buckets] */
  const struct tri_shards_staged *staged; /* what lies in the place of gradients (checkpoint_map.c), or NULL */
  bool staged_written;                    /* and was changed there */
  void *shared;                           /* gradients that other ranks see; or NULL */
};

/* Instructions [first, end) of a program. */
typedef struct tri_program_part {
  int64_t first, end;
} tri_program_part;

/* Before the first instruction of a step, or of a score: nothing has been added up. */
tri_status tri_engine_begin(tri_engine *engine);

tri_status tri_engine_execute(tri_engine *engine, const tri_program *program, tri_program_part part,
                              tri_step_state *state);

/* COLLECTIVE. The point that the optimizer evaluates takes the place of the one it trains, and the other way round;
 * both do nothing where that is the same point. In between the gradients' memory has the latter (averaging.c). */
tri_status tri_engine_show_evaluated(tri_engine *engine);
tri_status tri_engine_show_trained(tri_engine *engine);
/* Of the update that a step is about to make: what is averaged up to it, and the weight of its point. */
/* After update number `update`: the weights into their average over the run, where that is due. */
tri_status tri_engine_average_weights(tri_engine *engine, int64_t update);

tri_averaging tri_engine_next_averaging(const tri_engine *engine, int64_t updates, double lr, double *weight);

/* Adds up what ranks hold of loss and gradient, and decides on the update (engine_clip.c). */
tri_status tri_engine_clip(tri_engine *engine, tri_step_state *state);

#endif
