#include "engine/collectives.h"

static const tri_group *group_of(const tri_ranks *ranks, tri_domain domain) {
  return tri_mesh_group(ranks->mesh, domain);
}

static tri_status domain_all_reduce(const tri_ranks *ranks, tri_domain domain, tri_dtype type, int64_t count,
                                    void *values) {
  return tri_exchange_all_reduce(ranks->exchange, group_of(ranks, domain), type, count, values);
}

static tri_status domain_all_maximum(const tri_ranks *ranks, tri_domain domain, tri_dtype type, int64_t count,
                                     void *values) {
  return tri_exchange_all_maximum(ranks->exchange, group_of(ranks, domain), type, count, values);
}

static tri_status domain_all_gather(const tri_ranks *ranks, tri_domain domain, tri_dtype type, const int64_t *begins,
                                    void *values) {
  return tri_exchange_all_gather(ranks->exchange, group_of(ranks, domain), type, begins, values);
}

static tri_status domain_reduce_scatter(const tri_ranks *ranks, tri_domain domain, tri_dtype type,
                                        const int64_t *begins, void *values) {
  return tri_exchange_reduce_scatter(ranks->exchange, group_of(ranks, domain), type, begins, values);
}

const tri_collectives tri_engine_collectives = {
    .all_reduce = domain_all_reduce,
    .all_maximum = domain_all_maximum,
    .all_gather = domain_all_gather,
    .reduce_scatter = domain_reduce_scatter,
};
