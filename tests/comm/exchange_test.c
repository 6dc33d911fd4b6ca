/* Collectives and messages on device memory beside sums made the plain way: started by mpiexec
 * (cmake/comm_tests.cmake).
 *
 *   exchange_test DEVICE...    on each of these devices, staged or reached by MPI as the device says */
#include "comm_check.h"

#include "base/memory.h"
#include "device/queue.h"
#include "engine/exchange.h"
#include "engine/rank_device.h"

#include <math.h>

static const tri_dtype TYPES[] = {TRI_FP32, TRI_BF16, TRI_FP64};
static const int64_t COUNTS[] = {0, 1, 2, 63, 257, 5000};

typedef struct setting {
  tri_device *device;
  tri_exchange *exchange;
  void *staging, *sums;
} setting;

static setting set_up(const char *name) {
  setting s = {0};
  CHECK_OK(tri_rank_device_create(name, 1, &s.device));
  bool reached = s.device->info.reached, said = strstr(name, "peer=1") != NULL;
  CHECK(reached == (said && tri_comm_size() > 1), "%s", name);
  if (!s.device->info.host_access) CHECK_OK(tri_device_host_create(s.device, TRI_EXCHANGE_STAGING_BYTES, &s.staging));
  if (reached) CHECK_OK(tri_device_memory_create(s.device, TRI_EXCHANGE_SUMS_BYTES, &s.sums));
  CHECK_OK(tri_exchange_create(s.device, s.staging, s.sums, &s.exchange));
  return s;
}

static void tear_down(setting *s) {
  CHECK_OK(tri_queue_finish(s->device->queue));
  tri_exchange_destroy(s->exchange);
  tri_device_host_destroy(s->device, s->staging, TRI_EXCHANGE_STAGING_BYTES);
  tri_device_memory_destroy(s->device, s->sums, TRI_EXCHANGE_SUMS_BYTES);
  tri_device_destroy(s->device);
}

/* ---- values on the device ---------------------------------------------------------------------------------------- */

typedef struct values {
  tri_dtype type;
  int64_t count;
  size_t bytes;
  uint64_t seed;
  void *host, *device;
  int64_t begins[65];
} values;

static values make(const setting *s, const members *m, tri_dtype type, int64_t count, uint64_t seed) {
  values v = {.type = type, .count = count, .bytes = (size_t)count * tri_dtype_bytes(type), .seed = seed};
  v.host = get_memory(v.bytes);
  CHECK_OK(tri_device_memory_create(s->device, v.bytes + 1, &v.device));
  fill(m, type, seed, count, v.host);
  CHECK_OK(tri_queue_upload(s->device->queue, v.device, v.host, v.bytes));
  random_begins(seed, m->group.size, count, v.begins);
  return v;
}

static void fetch(const setting *s, const values *v) {
  CHECK_OK(tri_queue_download_now(s->device->queue, v->host, v->device, v->bytes));
}

static void drop(const setting *s, values *v) {
  free(v->host);
  tri_device_memory_destroy(s->device, v->device, v->bytes + 1);
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static void check_one(const setting *s, const members *m, tri_dtype type, int64_t count, uint64_t seed) {
  tri_exchange *x = s->exchange;
  values v = make(s, m, type, count, seed);
  CHECK_OK(tri_exchange_all_reduce(x, &m->group, type, count, v.device));
  fetch(s, &v);
  check_sums(m, type, seed, 0, count, v.host);
  drop(s, &v);
  v = make(s, m, type, count, seed + 1);
  const int64_t *begins = v.begins;
  CHECK_OK(tri_exchange_reduce_scatter(x, &m->group, type, begins, v.device));
  fetch(s, &v);
  check_sums(m, type, seed + 1, begins[m->group.rank], begins[m->group.rank + 1], v.host);
  CHECK_OK(tri_exchange_all_gather(x, &m->group, type, begins, v.device));
  fetch(s, &v);
  check_sums(m, type, seed + 1, 0, count, v.host);
  drop(s, &v);
}

static void check_maximum(const setting *s, const members *m, uint64_t seed) {
  values v = make(s, m, TRI_FP32, 100, seed);
  CHECK_OK(tri_exchange_all_maximum(s->exchange, &m->group, v.type, v.count, v.device));
  fetch(s, &v);
  for (int64_t i = 0; i < v.count; i++) {
    double want = -INFINITY;
    for (int r = 0; r < m->group.size; r++) want = fmax(want, stored_value(m, v.type, seed, r, i));
    CHECK(load(v.type, v.host, i) == want, "element %lld", (long long)i);
  }
  drop(s, &v);
}

enum { JOBS = 5 };

/* Several under way, some waited for in another order, a blocking one of another type among them. */
static void check_background(const setting *s, const members *m, tri_dtype type, int64_t count, uint64_t seed) {
  tri_exchange *x = s->exchange;
  tri_exchange_request *requests[JOBS] = {NULL};
  values v[JOBS];
  for (int i = 0; i < JOBS; i++) v[i] = make(s, m, type, count + i, seed + (uint64_t)i);
  CHECK_OK(tri_exchange_all_reduce_start(x, &m->group, type, v[0].count, v[0].device, &requests[0]));
  CHECK_OK(tri_exchange_reduce_scatter_start(x, &m->group, type, v[1].begins, v[1].device, &requests[1]));
  CHECK_OK(tri_exchange_reduce_scatter(x, &m->group, type, v[2].begins, v[2].device));
  CHECK_OK(tri_exchange_all_gather_start(x, &m->group, type, v[2].begins, v[2].device, &requests[2]));
  CHECK_OK(tri_exchange_all_reduce_start(x, &m->group, type, v[3].count, v[3].device, &requests[3]));
  CHECK_OK(tri_exchange_progress(x));
  CHECK_OK(tri_exchange_wait(&requests[3]));
  CHECK_OK(tri_exchange_all_reduce(x, &m->group, type, v[4].count, v[4].device));
  for (int i = 0; i < JOBS; i++) CHECK_OK(tri_exchange_wait(&requests[i]));
  for (int i = 0; i < JOBS; i++) {
    fetch(s, &v[i]);
    const int64_t *begins = v[i].begins;
    const bool scattered = i == 1;
    check_sums(m, type, v[i].seed, scattered ? begins[m->group.rank] : 0,
               scattered ? begins[m->group.rank + 1] : v[i].count, v[i].host);
    drop(s, &v[i]);
  }
}

/* One behind the other, and nothing waits for the device before the last is through. */
static void check_row(const setting *s, const members *m, bool background, uint64_t seed) {
  values v[JOBS];
  tri_exchange_request *requests[JOBS] = {NULL};
  for (int i = 0; i < JOBS; i++) v[i] = make(s, m, TRI_FP64, 200, seed + (uint64_t)i);
  for (int i = 0; i < JOBS; i++) {
    tri_exchange *x = s->exchange;
    if (background) {
      CHECK_OK(tri_exchange_reduce_scatter_start(x, &m->group, v[i].type, v[i].begins, v[i].device, &requests[i]));
    } else {
      CHECK_OK(tri_exchange_reduce_scatter(x, &m->group, v[i].type, v[i].begins, v[i].device));
    }
  }
  for (int i = 0; i < JOBS; i++) CHECK_OK(tri_exchange_wait(&requests[i]));
  for (int i = 0; i < JOBS; i++) {
    fetch(s, &v[i]);
    check_sums(m, v[i].type, v[i].seed, v[i].begins[m->group.rank], v[i].begins[m->group.rank + 1], v[i].host);
    drop(s, &v[i]);
  }
}

enum { MESSAGES = 3 };

/* Round a ring: all send before they receive; of several with one tag the order counts. */
static void check_messages(const setting *s, const members *m, int64_t count, uint64_t seed) {
  tri_exchange *x = s->exchange;
  tri_exchange_request *out[MESSAGES] = {NULL}, *in[MESSAGES] = {NULL};
  values sent[MESSAGES], got[MESSAGES];
  void *hosts[2 * MESSAGES] = {NULL};
  const int size = m->group.size, next = (m->group.rank + 1) % size, before = (m->group.rank + size - 1) % size;
  if (size == 1) return;
  for (int i = 0; i < MESSAGES; i++) {
    sent[i] = make(s, m, TRI_FP64, count, seed + (uint64_t)i);
    got[i] = make(s, m, TRI_FP64, count, seed + 100);
    for (int side = 0; side < 2 && s->sums == NULL; side++) {
      CHECK_OK(tri_device_host_create(s->device, sent[i].bytes + 1, &hosts[2 * i + side]));
    }
    CHECK_OK(tri_exchange_send_start(x, &m->group, next, 5, sent[i].bytes, sent[i].device, hosts[2 * i], &out[i]));
    CHECK_OK(
        tri_exchange_receive_start(x, &m->group, before, 5, got[i].bytes, got[i].device, hosts[2 * i + 1], &in[i]));
  }
  for (int i = MESSAGES - 1; i >= 0; i--) CHECK_OK(tri_exchange_wait(&in[i]));
  for (int i = 0; i < MESSAGES; i++) {
    CHECK_OK(tri_exchange_wait(&out[i]));
    fetch(s, &got[i]);
    for (int64_t e = 0; e < count; e++) {
      double want = stored_value(m, TRI_FP64, seed + (uint64_t)i, before, e);
      CHECK(load(TRI_FP64, got[i].host, e) == want, "message %d, element %lld", i, (long long)e);
    }
    drop(s, &sent[i]);
    drop(s, &got[i]);
    for (int side = 0; side < 2; side++) tri_device_host_destroy(s->device, hosts[2 * i + side], sent[i].bytes + 1);
  }
}

static void check_group(const setting *s, const tri_group *group, uint64_t seed) {
  const members m = members_of(*group);
  for (size_t t = 0; t < sizeof TYPES / sizeof TYPES[0]; t++) {
    for (size_t c = 0; c < sizeof COUNTS / sizeof COUNTS[0]; c++) check_one(s, &m, TYPES[t], COUNTS[c], seed += 2);
    check_background(s, &m, TYPES[t], 301, seed += JOBS);
  }
  for (int background = 0; background < 2; background++) check_row(s, &m, background == 1, seed += JOBS);
  check_maximum(s, &m, seed);
  check_messages(s, &m, 77, seed);
}

/* Every pair of neighbours and every second rank make groups too; and one large sum goes in several pieces. */
static void check_device(const char *name) {
  tri_group world = tri_group_world(), pair, half;
  setting s = set_up(name);
  CHECK_OK(tri_group_split(&world, "pair", world.rank / 2, world.rank, &pair));
  CHECK_OK(tri_group_split(&world, "half", world.rank % 2, -world.rank, &half));
  check_group(&s, &world, 1);
  check_group(&s, &pair, 1000);
  check_group(&s, &half, 2000);
  const members m = members_of(world);
  check_one(&s, &m, TRI_FP32, 1200011, 77);
  tri_group_destroy(&pair);
  tri_group_destroy(&half);
  tear_down(&s);
}

int main(int argc, char **argv) {
  CHECK_OK(tri_comm_open());
  for (int i = 1; i < argc; i++) check_device(argv[i]);
  if (tri_comm_rank() == 0) printf("%d ranks, %s: as they should be\n", tri_comm_size(), tri_comm_library());
  tri_comm_close();
  CHECK(tri_memory_bytes() == 0, "%zu bytes were not given back", tri_memory_bytes());
  return 0;
}
