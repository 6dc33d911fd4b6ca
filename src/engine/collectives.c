#include "engine/collectives.h"

static const tri_group *group_of(const tri_ranks *ranks, tri_axis axis) { return &ranks->mesh->groups[axis]; }

static tri_status axis_all_reduce(const tri_ranks *ranks, tri_axis axis, tri_dtype type, int64_t count, void *values) {
  return tri_exchange_all_reduce(ranks->exchange, group_of(ranks, axis), type, count, values);
}

static tri_status axis_all_maximum(const tri_ranks *ranks, tri_axis axis, tri_dtype type, int64_t count, void *values) {
  return tri_exchange_all_maximum(ranks->exchange, group_of(ranks, axis), type, count, values);
}

static tri_status axis_all_gather(const tri_ranks *ranks, tri_axis axis, tri_dtype type, const int64_t *begins,
                                  void *values) {
  return tri_exchange_all_gather(ranks->exchange, group_of(ranks, axis), type, begins, values);
}

static tri_status axis_reduce_scatter(const tri_ranks *ranks, tri_axis axis, tri_dtype type, const int64_t *begins,
                                      void *values) {
  return tri_exchange_reduce_scatter(ranks->exchange, group_of(ranks, axis), type, begins, values);
}

const tri_collectives tri_engine_collectives = {
    .all_reduce = axis_all_reduce,
    .all_maximum = axis_all_maximum,
    .all_gather = axis_all_gather,
    .reduce_scatter = axis_reduce_scatter,
};
