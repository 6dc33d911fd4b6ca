/* Shared by the files of the engine: engine.c sets it up, engine_step.c executes programs. */
#ifndef TRI_ENGINE_ENGINE_INTERNAL_H
#define TRI_ENGINE_ENGINE_INTERNAL_H

#include "base/exact_sum.h"
#include "engine/engine.h"

struct tri_engine {
  tri_engine_options options;
  tri_mesh alone; /* where the caller has no mesh */
  tri_device *device;
  tri_parts parts;
  tri_executor *executor;
  tri_routers *routers;       /* NULL: the model has no experts */
  tri_averaging averaging;    /* up to the last update */
  int64_t micro_batches;      /* of this rank in a step */
  tri_device_event *uploaded; /* [micro_batches + 1]: that batch has been copied to the device */
  tri_device_event values_uploaded;
  int64_t result_waits, staging_waits, steps; /* of the host, in so many steps */
  bool prepared;                              /* packed weights are those of the parameters */
  tri_exchange_request **messages;            /* [TRI_NUM_BOX_KINDS * most_boxes] */
  int64_t most_boxes;
  tri_exchange_request **reductions;      /* [buckets] */
  tri_exchange_request **gathers;         /* [buckets] */
  const struct tri_shards_staged *staged; /* what lies in the place of gradients (shards.c), or NULL */
  bool staged_written;                    /* and was changed there */
  void *shared;                           /* gradients that other ranks see; or NULL */
};

/* What the instructions of one program hand to each other. */
typedef struct tri_step_state {
  const tri_sampler *sampler; /* NULL: ids and labels are filled in already */
  int64_t step, updates;
  double lr;
  bool update;
  int64_t counted, tokens;      /* of the batches that were loaded: labels; and rows that are not filling */
  int64_t seen, seen_in_window; /* tokens that theirs see */
  double gradient_scale;
  tri_step result;
  /* An evaluation. */
  bool evaluating;
  int64_t windows;
  tri_evaluation evaluation;
} tri_step_state;

tri_status tri_engine_execute(tri_engine *engine, const tri_program *program, tri_step_state *state);

/* COLLECTIVE. The point that the optimizer evaluates takes the place of the one it trains, and the other way round;
 * both do nothing where that is the same point. In between the gradients' memory has the latter (averaging.c). */
tri_status tri_engine_show_evaluated(tri_engine *engine);
tri_status tri_engine_show_trained(tri_engine *engine);
/* Of the update that a step is about to make: what is averaged up to it, and the weight of its point. */
tri_averaging tri_engine_next_averaging(const tri_engine *engine, int64_t updates, double lr, double *weight);

/* Adds up what ranks hold of loss and gradient, and decides on the update (engine_clip.c). */
tri_status tri_engine_clip(tri_engine *engine, tri_step_state *state);

#endif
