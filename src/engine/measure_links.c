/* Measures links: the times of collectives on device memory, or on memory that the ranks of a node share as gradients
 * are, and of messages between host buffers. Repetitions of a collective use different ranges of the memory in turn. */
#include "base/memory.h"
#include "comm/agreement.h"
#include "engine/measure_internal.h"
#include "mesh/parts.h"

enum { BUFFER_BYTES = 256 << 20, MESSAGES_BYTES = 64 << 20, TRANSFER_BYTES = 128 << 20 };

typedef struct collective {
  tri_measure_collective of;
  char *buffer;
  size_t set_bytes;
  int64_t count, sets, *begins;
} collective;

/* Sends to the next rank of the group, and receives from the previous one. */
static tri_status pass_round(tri_measure *m, const collective *c, char *values) {
  const tri_group *group = &m->group;
  const size_t bytes = (size_t)c->of.bytes;
  const tri_exchange_pass pass = {.to = (group->rank + 1) % group->size,
                                  .send_bytes = bytes,
                                  .send = values,
                                  .from = (group->rank + group->size - 1) % group->size,
                                  .receive_bytes = bytes,
                                  .receive = values + bytes};
  tri_transfer *transfer = NULL;
  TRI_TRY(tri_exchange_pass_start(m->exchange, group, &pass, &transfer));
  return tri_exchange_pass_wait(m->exchange, &transfer);
}

static tri_status run_collective(tri_measure *m, const void *what) {
  const collective *c = what;
  char *values = c->buffer + (size_t)(m->turn % c->sets) * c->set_bytes;
  switch (c->of.kind) {
    case TRI_COLLECTIVE_NONE: break;
    case TRI_COLLECTIVE_PASS: return pass_round(m, c, values);
    case TRI_COLLECTIVE_ALL_TO_ALL:
      return tri_exchange_all_to_all(m->exchange, &m->group, TRI_FP32, c->begins, values, c->begins,
                                     values + c->of.bytes);
    case TRI_COLLECTIVE_ALL_REDUCE: return tri_exchange_all_reduce(m->exchange, &m->group, TRI_FP32, c->count, values);
    case TRI_COLLECTIVE_ALL_GATHER: return tri_exchange_all_gather(m->exchange, &m->group, TRI_FP32, c->begins, values);
    case TRI_COLLECTIVE_REDUCE_SCATTER:
      return tri_exchange_reduce_scatter(m->exchange, &m->group, TRI_FP32, c->begins, values);
  }
  return TRI_OK;
}

static tri_status choose_group(tri_measure *m, int64_t ranks) {
  if (m->ranks == ranks) return TRI_OK;
  if (m->ranks > 0) tri_group_destroy(&m->group);
  m->ranks = 0;
  int color = (int)(m->world->rank / ranks);
  TRI_TRY(tri_group_split(m->world, "measured", color, m->world->rank, &m->group));
  m->ranks = ranks;
  return TRI_OK;
}

/* Shares memory as the engine shares gradients. Sets m->sees if this works on all nodes. Does nothing after the first
 * call. */
static tri_status share_gradients(tri_measure *m) {
  void *memory = NULL;
  bool seen = false;
  if (m->asked_to_share) return TRI_OK;
  m->asked_to_share = true;
  if (!m->device->info.host_access) return TRI_OK;
  TRI_TRY(tri_common_status(m->world, tri_device_memory_create(m->device, BUFFER_BYTES, &memory)));
  m->gradients = memory;
  TRI_TRY(tri_comm_share(m->world, memory, BUFFER_BYTES, &seen));
  double unseen = seen ? 0 : 1;
  TRI_TRY(tri_all_maximum(m->world, TRI_FP64, 1, &unseen));
  m->sees = unseen == 0;
  return TRI_OK;
}

/* Returns whether a collective has separate buffers for sent and received values. */
static bool takes_two(tri_collective kind) {
  switch (kind) {
    case TRI_COLLECTIVE_NONE:
    case TRI_COLLECTIVE_ALL_REDUCE:
    case TRI_COLLECTIVE_ALL_GATHER:
    case TRI_COLLECTIVE_REDUCE_SCATTER: return false;
    case TRI_COLLECTIVE_ALL_TO_ALL:
    case TRI_COLLECTIVE_PASS: break;
  }
  return true;
}

tri_status tri_measure_collective_s(tri_measure *m, const tri_measure_collective *of, double *seconds) {
  collective c = {.of = *of, .buffer = m->pool, .count = of->bytes / (int64_t)sizeof(float)};
  size_t room = m->pool_bytes;
  *seconds = 0;
  if (of->shared) {
    TRI_TRY(share_gradients(m));
    if (!m->sees) return TRI_OK;
    c.buffer = m->gradients;
    room = BUFFER_BYTES;
  }
  if (room > BUFFER_BYTES) room = BUFFER_BYTES;
  if (takes_two(of->kind) && !of->shared) room = m->transfer.bytes;
  c.set_bytes = (size_t)of->bytes * (takes_two(of->kind) ? 2 : 1);
  if (c.count == 0 || c.set_bytes > room || m->world->size % of->ranks != 0) return TRI_OK;
  c.sets = (int64_t)(room / c.set_bytes);
  TRI_TRY(choose_group(m, of->ranks));
  TRI_TRY(tri_alloc("a measurement", (size_t)of->ranks + 1, sizeof *c.begins, &c.begins));
  for (int64_t r = 0; r <= of->ranks; r++) c.begins[r] = tri_part_begin(c.count, of->ranks, r);
  tri_status status = tri_measure_time(m, run_collective, &c, seconds);
  tri_free(c.begins);
  return status;
}

/* Sends to the next rank, and receives from the previous one. */
static tri_status pass_on(tri_measure *m, const void *what) {
  const size_t bytes = *(const size_t *)what;
  const tri_group *world = m->world;
  tri_request *sends = NULL, *receives = NULL;
  int next = (world->rank + 1) % world->size, before = (world->rank + world->size - 1) % world->size;
  TRI_TRY(tri_receive_start(world, before, 7, bytes, m->messages + bytes, &receives));
  TRI_TRY(tri_send_start(world, next, 7, bytes, m->messages, &sends));
  TRI_TRY(tri_request_wait(&receives));
  return tri_request_wait(&sends);
}

tri_status tri_measure_message_s(tri_measure *m, int64_t bytes, double *seconds) {
  const size_t given = (size_t)bytes;
  *seconds = 0;
  if (m->world->size == 1 || 2 * given > MESSAGES_BYTES) return TRI_OK;
  return tri_measure_time(m, pass_on, &given, seconds);
}

tri_status tri_measure_open_links(tri_measure *m) {
  void *messages = NULL;
  if (m->world->size == 1) return TRI_OK;
  if (m->device->info.reached) TRI_TRY(tri_device_memory_create(m->device, TRI_EXCHANGE_SUMS_BYTES, &m->sums));
  m->transfer = (tri_exchange_region){m->pool, NULL, m->pool_bytes < TRANSFER_BYTES ? m->pool_bytes : TRANSFER_BYTES};
  if (!m->device->info.host_access) {
    TRI_TRY(tri_device_host_create(m->device, TRI_EXCHANGE_STAGING_BYTES, &m->staging));
    TRI_TRY(tri_device_host_create(m->device, m->transfer.bytes, &m->transfer.host));
  }
  TRI_TRY(tri_device_host_create(m->device, MESSAGES_BYTES, &messages));
  m->messages = messages;
  return tri_exchange_create(
      m->device, &(tri_exchange_memory){.sums = m->sums, .staging = m->staging, .transfer = m->transfer}, &m->exchange);
}

void tri_measure_close_links(tri_measure *m) {
  if (m->world->size == 1) return;
  tri_exchange_destroy(m->exchange);
  if (m->ranks > 0) tri_group_destroy(&m->group);
  if (m->gradients != NULL) {
    tri_comm_unshare(m->gradients);
    tri_device_memory_destroy(m->device, m->gradients, BUFFER_BYTES);
  }
  if (m->sums != NULL) tri_device_memory_destroy(m->device, m->sums, TRI_EXCHANGE_SUMS_BYTES);
  if (m->messages != NULL) tri_device_host_destroy(m->device, m->messages, MESSAGES_BYTES);
  if (m->transfer.host != NULL) tri_device_host_destroy(m->device, m->transfer.host, m->transfer.bytes);
  if (m->staging != NULL) tri_device_host_destroy(m->device, m->staging, TRI_EXCHANGE_STAGING_BYTES);
}
