/* The public functions for collectives. Each describes a request, appends it to its group's queue, and waits for it or
 * returns it to the caller. */
#include "base/memory.h"
#include "comm/internal.h"

#include <string.h>

static tri_request describe(const tri_group *group, tri_operation operation, const tri_sum *sum, int64_t count,
                            const int64_t *begins, void *values) {
  return (tri_request){.group = group->impl,
                       .operation = operation,
                       .bytes = (size_t)count * sum->bytes,
                       .sum = sum,
                       .values = values,
                       .count = count,
                       .begins = begins,
                       .reduce = sum->values != NULL,
                       .gather = true};
}

static tri_status run(tri_request *request) {
  TRI_TRY(tri_comm_check());
  tri_collective_enqueue(request);
  return tri_comm_finish(request);
}

static tri_status start(const tri_request *description, tri_request **out) {
  TRI_TRY(tri_comm_check());
  tri_request *request = NULL;
  bool moved = false;
  size_t entries = description->begins != NULL ? (size_t)description->group->size + 1 : 0;
  TRI_TRY(tri_alloc("a collective in the background", 1, sizeof *request + entries * sizeof(int64_t), &request));
  *request = *description;
  if (entries > 0) {
    int64_t *begins = (int64_t *)(request + 1); /* a copy, because the caller may free its array */
    memcpy(begins, description->begins, entries * sizeof *begins);
    request->begins = begins;
  }
  request->background = true;
  tri_collective_enqueue(request);
  TRI_TRY(tri_collective_advance(request->group, &moved)); /* on failure the request is not freed: the job ends */
  *out = request;
  return TRI_OK;
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static tri_status check_type(const tri_group *group, tri_operation operation, const tri_sum *sum, tri_dtype type) {
  if (sum != NULL) return TRI_OK;
  return tri_fail_internal("%s over %s: values of type %s cannot be added", tri_operation_name(operation), group->name,
                           tri_dtype_name(type));
}

tri_status tri_all_reduce(const tri_group *group, tri_dtype type, int64_t count, void *values) {
  TRI_TRY(check_type(group, TRI_ALL_REDUCE, tri_sum_of(type), type));
  if (group->impl == NULL || count == 0) return TRI_OK;
  tri_request request = describe(group, TRI_ALL_REDUCE, tri_sum_of(type), count, NULL, values);
  return run(&request);
}

tri_status tri_all_maximum(const tri_group *group, tri_dtype type, int64_t count, void *values) {
  TRI_TRY(check_type(group, TRI_ALL_MAXIMUM, tri_maximum_of(type), type));
  if (group->impl == NULL || count == 0) return TRI_OK;
  tri_request request = describe(group, TRI_ALL_MAXIMUM, tri_maximum_of(type), count, NULL, values);
  return run(&request);
}

tri_status tri_all_sum_int64(const tri_group *group, int64_t count, int64_t *values) {
  if (group->impl == NULL || count == 0) return TRI_OK;
  tri_request request = describe(group, TRI_ALL_SUM_INT64, tri_sum_int64(), count, NULL, values);
  return run(&request);
}

static tri_request describe_scatter(const tri_group *group, tri_dtype type, const int64_t *begins, void *values) {
  int64_t count = begins[group->size];
  tri_request request = describe(group, TRI_REDUCE_SCATTER, tri_sum_of(type), count, begins, values);
  request.gather = false;
  return request;
}

tri_status tri_reduce_scatter(const tri_group *group, tri_dtype type, const int64_t *begins, void *values) {
  TRI_TRY(check_type(group, TRI_REDUCE_SCATTER, tri_sum_of(type), type));
  if (group->impl == NULL) return TRI_OK;
  tri_request request = describe_scatter(group, type, begins, values);
  return run(&request);
}

static tri_request describe_gather(const tri_group *group, tri_operation operation, size_t element_bytes,
                                   const int64_t *begins, void *values) {
  return describe(group, operation, tri_sum_none(element_bytes), begins[group->size], begins, values);
}

tri_status tri_all_gather(const tri_group *group, tri_dtype type, const int64_t *begins, void *values) {
  if (group->impl == NULL) return TRI_OK;
  tri_request request = describe_gather(group, TRI_ALL_GATHER, tri_dtype_bytes(type), begins, values);
  return run(&request);
}

/* A broadcast is a gather in which all parts but the root's are empty. */
tri_status tri_broadcast(const tri_group *group, int root, size_t bytes, void *data) {
  if (group->impl == NULL || bytes == 0) return TRI_OK;
  int64_t *begins = group->impl->begins;
  for (int r = 0; r <= group->size; r++) begins[r] = r <= root ? 0 : (int64_t)bytes;
  tri_request request = describe_gather(group, TRI_BROADCAST, 1, begins, data);
  return run(&request);
}

tri_status tri_gather_bytes(const tri_group *group, size_t bytes, const void *mine, void *all) {
  if (bytes == 0) return TRI_OK;
  memmove((char *)all + (size_t)group->rank * bytes, mine, bytes);
  if (group->impl == NULL) return TRI_OK;
  tri_request request = describe(group, TRI_GATHER_BYTES, tri_sum_none(1), (int64_t)bytes * group->size, NULL, all);
  return run(&request);
}

/* A barrier is an all-reduce: no rank has the sum before all ranks have called. */
tri_status tri_barrier(const tri_group *group) {
  if (group->impl == NULL) return TRI_OK;
  int64_t nothing = 0;
  tri_request request = describe(group, TRI_BARRIER, tri_sum_int64(), 1, NULL, &nothing);
  return run(&request);
}

tri_status tri_all_reduce_start(const tri_group *group, tri_dtype type, int64_t count, void *values,
                                tri_request **out) {
  TRI_TRY(check_type(group, TRI_ALL_REDUCE, tri_sum_of(type), type));
  *out = NULL;
  if (group->impl == NULL || count == 0) return TRI_OK;
  tri_request request = describe(group, TRI_ALL_REDUCE, tri_sum_of(type), count, NULL, values);
  return start(&request, out);
}

tri_status tri_reduce_scatter_start(const tri_group *group, tri_dtype type, const int64_t *begins, void *values,
                                    tri_request **out) {
  TRI_TRY(check_type(group, TRI_REDUCE_SCATTER, tri_sum_of(type), type));
  *out = NULL;
  if (group->impl == NULL) return TRI_OK;
  tri_request request = describe_scatter(group, type, begins, values);
  return start(&request, out);
}

tri_status tri_all_gather_start(const tri_group *group, tri_dtype type, const int64_t *begins, void *values,
                                tri_request **out) {
  *out = NULL;
  if (group->impl == NULL) return TRI_OK;
  tri_request request = describe_gather(group, TRI_ALL_GATHER, tri_dtype_bytes(type), begins, values);
  return start(&request, out);
}
