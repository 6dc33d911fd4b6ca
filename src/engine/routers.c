#include "engine/routers.h"

#include "base/memory.h"
#include "device/kernels.h"

#include <string.h>

struct tri_routers {
  tri_router_loads loads;
  void *steps; /* changes of the biases of a layer, in the wide type [experts] */
};

static int64_t columns(const tri_routers *routers) { return routers->loads.experts + 1; }

tri_status tri_routers_create(const tri_model *model, tri_routers **out) {
  tri_routers *routers = NULL;
  tri_status status;
  *out = NULL;
  if (model->num_experts == 0) return TRI_OK;
  TRI_TRY(tri_alloc("loads of experts", 1, sizeof *routers, &routers));
  routers->loads.num_layers = model->num_layers;
  routers->loads.experts = model->num_experts;
  size_t layers = (size_t)model->num_layers, counts = layers * (size_t)columns(routers);
  TRI_TRY_GOTO(tri_alloc("loads of experts", counts, sizeof *routers->loads.counts, &routers->loads.counts), failed);
  TRI_TRY_GOTO(tri_alloc("loads of experts", layers, sizeof *routers->loads.rounds, &routers->loads.rounds), failed);
  TRI_TRY_GOTO(tri_alloc("loads of experts", (size_t)model->num_experts, sizeof(double), &routers->steps), failed);
  *out = routers;
  return TRI_OK;
failed:
  tri_routers_destroy(routers);
  return status;
}

void tri_routers_destroy(tri_routers *routers) {
  if (routers == NULL) return;
  tri_free(routers->steps);
  tri_free(routers->loads.rounds);
  tri_free(routers->loads.counts);
  tri_free(routers);
}

void tri_routers_clear(tri_routers *routers, tri_executor *executor) {
  if (routers == NULL) return;
  for (int64_t i = 0; i < executor->plan->num_routers; i++) executor->expert_rounds[i] = 0;
}

/* Copies the counts of this rank's routers to their layers. */
static void copy_own(tri_routers *routers, const tri_executor *executor) {
  const int64_t width = columns(routers);
  for (int64_t c = 0; c < executor->plan->num_chunks; c++) {
    const tri_op_list *list = executor->chunks[c].list;
    const int64_t *counts = tri_executor_host_counts(executor, c);
    const int64_t *rounds = executor->expert_rounds + executor->plan->chunks[c].first_router;
    for (int64_t i = 0, router = 0; i < list->num_calls; i++) {
      if (!list->calls[i].op->routes) continue;
      const int64_t layer = list->calls[i].layer;
      memcpy(routers->loads.counts + layer * width, counts + router * width, (size_t)width * sizeof *counts);
      routers->loads.rounds[layer] = (double)rounds[router];
      router++;
    }
  }
}

tri_status tri_routers_join(tri_routers *routers, const tri_executor *executor, const tri_group *world) {
  if (routers == NULL) return TRI_OK;
  tri_router_loads *loads = &routers->loads;
  const int64_t counts = loads->num_layers * columns(routers);
  memset(loads->counts, 0, (size_t)counts * sizeof *loads->counts);
  memset(loads->rounds, 0, (size_t)loads->num_layers * sizeof *loads->rounds);
  copy_own(routers, executor);
  TRI_TRY(tri_all_sum_int64(world, counts, loads->counts));
  return tri_all_maximum(world, TRI_FP64, loads->num_layers, loads->rounds);
}

tri_router_loads tri_routers_loads(const tri_routers *routers) {
  return routers == NULL ? (tri_router_loads){0} : routers->loads;
}

/* Computes the change of each expert's bias in a layer: +rate, 0 or -rate, in the wide type. */
static void find_steps(const tri_routers *routers, int64_t layer, tri_dtype wide, double rate) {
  const int64_t *counts = routers->loads.counts + layer * columns(routers);
  int64_t total = 0;
  for (int64_t e = 0; e < routers->loads.experts; e++) total += counts[e];
  for (int64_t e = 0; e < routers->loads.experts; e++) {
    const int64_t here = counts[e] * routers->loads.experts; /* compared with the total instead of the mean: exact */
    const double step = here < total ? rate : here > total ? -rate : 0;
    tri_wide_set(wide, routers->steps, e, step);
  }
}

tri_status tri_routers_move_bias(tri_routers *routers, tri_executor *executor, const tri_update_call *call,
                                 double rate) {
  const tri_dtype wide = tri_dtype_wide(executor->type);
  const size_t element = tri_dtype_bytes(wide);
  const tri_parameter *bias = &executor->weights->table->entries[call->entry];
  if (routers == NULL) return TRI_OK;
  char *values = tri_weights_call_values(executor->weights, call);
  char *steps = tri_executor_update_workspace(executor);
  tri_queue *queue = executor->device->queue;
  find_steps(routers, bias->layer, wide, rate);
  TRI_TRY(tri_queue_upload_now(queue, steps, (char *)routers->steps + (size_t)call->first * element,
                               (size_t)call->count * element));
  TRI_KERNEL_CALL(queue, add, wide, tri_all_rows(1), call->count, values, steps, values);
  return TRI_OK;
}
