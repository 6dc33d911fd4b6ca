/* What the routers of a model have done in a step: how many tokens each expert has had, of the global batch. It is
 * reported in metrics, and moves the biases of routers that have one. */
#ifndef TRI_ENGINE_ROUTERS_H
#define TRI_ENGINE_ROUTERS_H

#include "engine/executor.h"
#include "model/model.h"

/* The same on every rank. */
typedef struct tri_router_loads {
  int64_t num_layers, experts; /* of the model; num_layers 0: it has no experts */
  int64_t
      *counts;    /* [num_layers, experts + 1]: tokens of each expert; and those whose weights are not finite numbers */
  double *rounds; /* [num_layers]: most rounds that a micro-batch's rows took; 0: no experts */
} tri_router_loads;

typedef struct tri_routers tri_routers;

/* LOCAL. Of a complete model; *out is NULL for one without experts. Release with tri_routers_destroy. */
tri_status tri_routers_create(const tri_model *model, tri_routers **out);
void tri_routers_destroy(tri_routers *routers);

/* LOCAL. A step begins. */
void tri_routers_clear(tri_routers *routers, tri_executor *executor);
/* COLLECTIVE over the job, once the step's results are read. Both do nothing for NULL. */
tri_status tri_routers_join(tri_routers *routers, const tri_executor *executor, const tri_group *world);
/* LOCAL. Of the last step that was joined; nothing for NULL. */
tri_router_loads tri_routers_loads(const tri_routers *routers);

/* LOCAL. A router's bias, of which this rank has the part of the call, goes by `rate` towards experts that had fewer
 * tokens than the mean (DeepSeek-V3, arXiv 2412.19437, 2.1.2). */
tri_status tri_routers_move_bias(tri_routers *routers, tri_executor *executor, const tri_update_call *call,
                                 double rate);

#endif
