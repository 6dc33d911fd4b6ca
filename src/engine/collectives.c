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

static tri_status domain_all_to_all(const tri_ranks *ranks, tri_domain domain, tri_dtype type,
                                    const int64_t *from_begins, const void *from, const int64_t *to_begins, void *to) {
  return tri_exchange_all_to_all(ranks->exchange, group_of(ranks, domain), type, from_begins, from, to_begins, to);
}

static tri_status domain_pass_start(const tri_ranks *ranks, tri_domain domain, int to, size_t send_bytes,
                                    const void *send, int from, size_t receive_bytes, void *receive,
                                    tri_transfer **out) {
  const tri_exchange_pass pass = {to, send_bytes, send, from, receive_bytes, receive};
  return tri_exchange_pass_start(ranks->exchange, group_of(ranks, domain), &pass, out);
}

static tri_status domain_pass_wait(const tri_ranks *ranks, tri_transfer **transfer) {
  return tri_exchange_pass_wait(ranks->exchange, transfer);
}

static tri_status domain_all_to_all_start(const tri_ranks *ranks, tri_domain domain, tri_dtype type,
                                          const int64_t *from_begins, const void *from, const int64_t *to_begins,
                                          void *to, tri_transfer **out) {
  return tri_exchange_all_to_all_start(ranks->exchange, group_of(ranks, domain), type, from_begins, from, to_begins, to,
                                       out);
}

static tri_status domain_tell_all(const tri_ranks *ranks, tri_domain domain, size_t bytes, const void *values,
                                  void *all) {
  return tri_exchange_gather_to_host(ranks->exchange, group_of(ranks, domain), bytes, values, all);
}

const tri_collectives tri_engine_collectives = {
    .all_reduce = domain_all_reduce,
    .all_maximum = domain_all_maximum,
    .all_gather = domain_all_gather,
    .reduce_scatter = domain_reduce_scatter,
    .all_to_all = domain_all_to_all,
    .pass_start = domain_pass_start,
    .pass_wait = domain_pass_wait,
    .all_to_all_start = domain_all_to_all_start,
    .gather_to_host = domain_tell_all,
};
