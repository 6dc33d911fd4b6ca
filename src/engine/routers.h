/* Loads of the experts in a step: the number of tokens of each expert in the global batch. They are reported in
 * metrics, and adjust the biases of routers that have one. */
#ifndef TRI_ENGINE_ROUTERS_H
#define TRI_ENGINE_ROUTERS_H

#include "engine/executor.h"
#include "model/model.h"

/* Loads of a step, equal on every rank. */
typedef struct tri_router_loads {
  int64_t num_layers, experts; /* layers of the model and experts of a layer; num_layers 0: no experts */
  int64_t *counts; /* [num_layers, experts + 1]: tokens of each expert, then tokens whose weights are not finite */
  double *rounds;  /* [num_layers]: largest number of rounds in which a layer processed the rows of a micro-batch; 0: a
                      layer without experts */
} tri_router_loads;

typedef struct tri_routers tri_routers;

/* LOCAL. Creates the loads of a complete model; *out is NULL if it has no experts. Release with tri_routers_destroy. */
tri_status tri_routers_create(const tri_model *model, tri_routers **out);
void tri_routers_destroy(tri_routers *routers);

/* LOCAL. Resets the rounds at the start of a step. */
void tri_routers_clear(tri_routers *routers, tri_executor *executor);
/* COLLECTIVE over the job, after the step's results are read: adds up the loads. tri_routers_clear and this do nothing
 * for NULL. */
tri_status tri_routers_join(tri_routers *routers, const tri_executor *executor, const tri_group *world);
/* LOCAL. Returns the loads of the last step that was joined; zeros for NULL. */
tri_router_loads tri_routers_loads(const tri_routers *routers);

/* LOCAL. Adjusts the call's part of a router's bias by `rate`: up for experts with fewer tokens than the mean, down for
 * experts with more (DeepSeek-V3, arXiv 2412.19437, 2.1.2). */
tri_status tri_routers_move_bias(tri_routers *routers, tri_executor *executor, const tri_update_call *call,
                                 double rate);

#endif
