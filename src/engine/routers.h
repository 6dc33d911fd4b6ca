/* Loads of the experts in a step: the number of tokens of each expert in the global batch. They are reported in
 * metrics, and adjust the biases of routers that have one. */
#ifndef TRI_ENGINE_ROUTERS_H
#define TRI_ENGINE_ROUTERS_H

#include "engine/executor.h"
#include "model/model.h"

/* Loads of a step, equal on every rank. */
typedef struct tri_router_loads {
  /* Number of layers of the model; experts of a layer; num_layers 0: the model has no experts. */
  int64_t num_layers, experts;
  /* Tokens of each expert, followed by tokens whose weights are not finite [num_layers, experts + 1]. */
  int64_t *counts;
  /* Largest number of rounds (windows of ops/experts_internal.h) in which each layer processed the rows of a
   * micro-batch [num_layers]; 0 for layers without experts. */
  double *rounds;
} tri_router_loads;

typedef struct tri_routers tri_routers;

/* LOCAL. Creates the loads of a model, which must be complete (tri_model_complete). Sets *out to NULL if the model has
 * no experts. Release with tri_routers_destroy. */
tri_status tri_routers_create(const tri_model *model, tri_routers **out);
void tri_routers_destroy(tri_routers *routers);

/* LOCAL. Resets the rounds at the start of a step. */
void tri_routers_clear(tri_routers *routers, tri_executor *executor);
/* COLLECTIVE over the job, after the results of a step have been read. Adds up the loads of all ranks. This function,
 * tri_routers_clear and tri_routers_move_bias do nothing if `routers` is NULL. */
tri_status tri_routers_join(tri_routers *routers, const tri_executor *executor, const tri_group *world);
/* LOCAL. Returns the loads of the last step for which tri_routers_join was called; zeros if `routers` is NULL. */
tri_router_loads tri_routers_loads(const tri_routers *routers);

/* LOCAL. Adds `rate` to a router's bias or subtracts it, for the elements that the call updates: adds for experts with
 * fewer tokens than the mean, subtracts for experts with more (DeepSeek-V3, arXiv 2412.19437, 2.1.2). */
tri_status tri_routers_move_bias(tri_routers *routers, tri_executor *executor, const tri_update_call *call,
                                 double rate);

#endif
