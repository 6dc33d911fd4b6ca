/* Collectives and messages on device memory beside sums made the plain way: started by mpiexec
 * (cmake/comm_tests.cmake).
 *
 *   exchange_test DEVICE...
 *     on each of these devices, staged or reached by MPI as the device says
 *   exchange_test stopped|killed all_to_all|pass DEVICE FOLDER
 *     rank 1 is, while it waits in one over the context ranks: the watchdog, which writes there, names it; or the job
 *     ends */
#include "comm_check.h"

#include "base/memory.h"
#include "device/queue.h"
#include "engine/exchange.h"
#include "engine/rank_device.h"
#include "recovery/watchdog.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

static const tri_dtype TYPES[] = {TRI_FP32, TRI_BF16, TRI_FP64};
static const int64_t COUNTS[] = {0, 1, 2, 63, 257, 5000};

typedef struct setting {
  tri_device *device;
  tri_exchange *exchange;
  tri_exchange_memory memory;
} setting;

enum { TRANSFER_BYTES = 24 << 20 };

static setting set_up(const char *name) {
  setting s = {0};
  CHECK_OK(tri_rank_device_create(name, 1, &s.device));
  bool reached = s.device->info.reached, said = strstr(name, "peer=1") != NULL;
  CHECK(reached == (said && tri_comm_size() > 1), "%s", name);
  tri_exchange_memory *memory = &s.memory;
  if (!s.device->info.host_access) {
    CHECK_OK(tri_device_host_create(s.device, TRI_EXCHANGE_STAGING_BYTES, &memory->staging));
  }
  if (reached) CHECK_OK(tri_device_memory_create(s.device, TRI_EXCHANGE_SUMS_BYTES, &memory->sums));
  memory->transfer.bytes = TRANSFER_BYTES;
  CHECK_OK(tri_device_memory_create(s.device, TRANSFER_BYTES, &memory->transfer.device));
  if (memory->staging != NULL && !reached) {
    CHECK_OK(tri_device_host_create(s.device, TRANSFER_BYTES, &memory->transfer.host));
  }
  CHECK_OK(tri_exchange_create(s.device, &s.memory, &s.exchange));
  return s;
}

static void tear_down(setting *s) {
  CHECK_OK(tri_queue_finish(s->device->queue));
  tri_exchange_destroy(s->exchange);
  tri_device_host_destroy(s->device, s->memory.staging, TRI_EXCHANGE_STAGING_BYTES);
  tri_device_host_destroy(s->device, s->memory.transfer.host, TRANSFER_BYTES);
  tri_device_memory_destroy(s->device, s->memory.transfer.device, TRANSFER_BYTES);
  tri_device_memory_destroy(s->device, s->memory.sums, TRI_EXCHANGE_SUMS_BYTES);
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
    for (int side = 0; side < 2 && s->memory.sums == NULL; side++) {
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

/* ---- what passes as it is ---------------------------------------------------------------------------------------- */

static void *transfer_at(const setting *s, size_t at, size_t bytes) {
  CHECK(at + bytes <= TRANSFER_BYTES, "%zu bytes at %zu", bytes, at);
  return (char *)s->memory.transfer.device + at;
}

/* Queued: host memory stays. */
static void upload(const setting *s, void *device, const void *host, size_t bytes) {
  if (bytes > 0) CHECK_OK(tri_queue_upload(s->device->queue, device, host, bytes));
}

/* Twice over the same memory, with nothing waited for between. */
static void check_all_to_all(const setting *s, const members *m, tri_dtype type, int64_t most, uint64_t seed) {
  const parts p = plan_parts(m, type, most, seed);
  const size_t given = given_bytes(m, &p), got = got_bytes(m, &p);
  char *from = get_memory(given), *first = get_memory(got), *second = get_memory(got);
  char *device_from = transfer_at(s, 0, given), *device_to = transfer_at(s, (given + 255) / 64 * 64, got);
  parts again = p;
  again.seed = hash(seed);
  fill_parts(m, &p, from);
  upload(s, device_from, from, given);
  CHECK_OK(tri_exchange_all_to_all(s->exchange, &m->group, type, p.given, device_from, p.got, device_to));
  if (got > 0) CHECK_OK(tri_queue_download(s->device->queue, first, device_to, got));
  CHECK_OK(tri_queue_finish(s->device->queue)); /* `from` is written again */
  fill_parts(m, &again, from);
  upload(s, device_from, from, given);
  CHECK_OK(tri_exchange_all_to_all(s->exchange, &m->group, type, p.given, device_from, p.got, device_to));
  if (got > 0) CHECK_OK(tri_queue_download_now(s->device->queue, second, device_to, got));
  check_parts(m, &p, first);
  check_parts(m, &again, second);
  CHECK_OK(tri_queue_finish(s->device->queue));
  free(from);
  free(first);
  free(second);
}

/* Two streams round the ring at once, of different sizes, each into a buffer that it left the turn before. */
static void check_passes(const setting *s, const members *m, size_t bytes, uint64_t seed) {
  const int size = m->group.size, own = m->group.rank, next = (own + 1) % size, before = (own + size - 1) % size;
  const size_t lengths[2] = {bytes, bytes / 3 + 1}, room = (bytes + 255) / 64 * 64;
  char *host = get_memory(bytes + 1), *buffers[2][2];
  tri_exchange *x = s->exchange;
  for (int stream = 0; stream < 2; stream++) {
    for (int b = 0; b < 2; b++) buffers[stream][b] = transfer_at(s, room * (size_t)(2 * stream + b), lengths[stream]);
    for (size_t i = 0; i < lengths[stream]; i++)
      host[i] = (char)hash(seed + i * 2 + (size_t)stream + ((size_t)own << 40));
    upload(s, buffers[stream][0], host, lengths[stream]);
    CHECK_OK(tri_queue_finish(s->device->queue));
  }
  for (int turn = 1; turn <= size; turn++) {
    tri_transfer *transfer[2];
    for (int stream = 0; stream < 2; stream++) {
      const size_t length = lengths[stream];
      const tri_exchange_pass pass = {next,   length, buffers[stream][1 - turn % 2],
                                      before, length, buffers[stream][turn % 2]};
      CHECK_OK(tri_exchange_pass_start(x, &m->group, &pass, &transfer[stream]));
    }
    CHECK_OK(tri_exchange_progress(x));
    for (int stream = 1; stream >= 0; stream--) {
      CHECK_OK(tri_exchange_pass_wait(x, &transfer[stream]));
      CHECK(transfer[stream] == NULL, "a pass that was waited for");
    }
  }
  for (int stream = 0; stream < 2; stream++) { /* once round */
    if (lengths[stream] == 0) continue;
    CHECK_OK(tri_queue_download_now(s->device->queue, host, buffers[stream][size % 2], lengths[stream]));
    for (size_t i = 0; i < lengths[stream]; i++) {
      CHECK(host[i] == (char)hash(seed + i * 2 + (size_t)stream + ((size_t)own << 40)), "stream %d, byte %zu", stream,
            i);
    }
  }
  free(host);
}

static void check_passing(const setting *s, const members *m, uint64_t seed) {
  for (size_t c = 0; c < sizeof COUNTS / sizeof COUNTS[0]; c++) {
    for (size_t t = 0; t < sizeof TYPES / sizeof TYPES[0]; t++) check_all_to_all(s, m, TYPES[t], COUNTS[c], seed += 3);
    check_all_to_all(s, m, TRI_INT32, COUNTS[c], seed += 3);
    check_passes(s, m, (size_t)COUNTS[c], seed += 3);
  }
}

/* In the background of one group, what layers of others wait for: in one order on every rank, gradients of either of
 * two groups in several pieces, passes, and all-to-alls that are waited for at once. */
static void check_between_groups(const setting *s, const members *one, const members *other, uint64_t seed) {
  enum { LAYERS = 4 };
  tri_exchange *x = s->exchange;
  const members *groups[] = {one, other};
  values v[LAYERS];
  tri_exchange_request *requests[LAYERS] = {NULL};
  for (int layer = 0; layer < LAYERS; layer++) {
    const members *reduced = groups[layer % 2], *passed = groups[1 - layer % 2];
    const int size = passed->group.size, rank = passed->group.rank;
    const int64_t count = layer < 2 ? 1100003 : 3001;
    tri_transfer *transfer = NULL;
    v[layer] = make(s, reduced, TRI_FP32, count, seed + (uint64_t)layer);
    CHECK_OK(tri_exchange_all_reduce_start(x, &reduced->group, TRI_FP32, count, v[layer].device, &requests[layer]));
    const tri_exchange_pass pass = {.to = (rank + 1) % size,
                                    .send_bytes = 7001,
                                    .send = transfer_at(s, TRANSFER_BYTES / 2, 7001),
                                    .from = (rank + size - 1) % size,
                                    .receive_bytes = 7001,
                                    .receive = transfer_at(s, TRANSFER_BYTES / 4 * 3, 7001)};
    CHECK_OK(tri_queue_move(s->device->queue, transfer_at(s, TRANSFER_BYTES / 2, 7001), v[layer].device, 7001));
    CHECK_OK(tri_exchange_pass_start(x, &passed->group, &pass, &transfer));
    check_all_to_all(s, passed, TRI_FP64, 5000, seed + (uint64_t)layer);
    if (layer == 2) CHECK_OK(tri_exchange_wait(&requests[1]));
    check_all_to_all(s, &(members){.group = reduced->group}, TRI_FP64, 5000, seed + 100 + (uint64_t)layer);
    CHECK_OK(tri_exchange_pass_wait(x, &transfer));
  }
  for (int layer = LAYERS - 1; layer >= 0; layer--) {
    CHECK_OK(tri_exchange_wait(&requests[layer]));
    fetch(s, &v[layer]);
    check_sums(groups[layer % 2], TRI_FP32, v[layer].seed, 0, v[layer].count, v[layer].host);
    drop(s, &v[layer]);
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
  check_passing(s, &m, seed);
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
  check_all_to_all(&s, &m, TRI_FP32, 5300000 / m.group.size / m.group.size, 78); /* of several pieces, these too */
  check_all_to_all(&s, &m, TRI_FP32, 1300001 / m.group.size, 79);
  check_passes(&s, &m, 5000001, 80);
  const members pairs = members_of(pair), halves = members_of(half);
  check_between_groups(&s, &pairs, &halves, 81);
  check_between_groups(&s, &m, &pairs, 91);
  tri_group_destroy(&pair);
  tri_group_destroy(&half);
  tear_down(&s);
}

/* ---- a rank that is lost ----------------------------------------------------------------------------------------- */

/* Sends this process a signal as soon as it is seen to wait in the group. */
static void *strike(void *number) {
  tri_comm_wait now;
  do now = tri_comm_state();
  while (now.operation == NULL || strcmp(now.group, "context_outer") != 0);
  kill(getpid(), *(int *)number);
  return NULL;
}

static bool is_stopped(int pid) {
  char path[64], text[256] = "";
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  FILE *file = fopen(path, "r");
  if (file == NULL) return false;
  const size_t length = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  const char *name_end = strrchr(text, ')');
  return length > 0 && name_end != NULL && strncmp(name_end, ") T", 3) == 0;
}

enum { LOST_RANK = 1, LATE_RANK = 2, LOST_BYTES = 100000 };

/* The last rank comes late, so that rank 1 waits, and comes only when that one has stopped. */
static void come_late(const tri_group *group, int number, int turn, pthread_t *thread, int *pids) {
  static int signal_number;
  signal_number = number;
  if (turn != 3) return;
  if (group->rank == LOST_RANK) CHECK(pthread_create(thread, NULL, strike, &signal_number) == 0, "thread");
  while (group->rank == LATE_RANK && !is_stopped(pids[LOST_RANK])) usleep(1000);
}

/* Never comes back. */
static void lose_a_rank(int number, const char *what, const char *device, const char *folder) {
  const bool passes = strcmp(what, "pass") == 0;
  tri_mesh_shape shape = {0};
  tri_mesh mesh;
  tri_watchdog *watchdog;
  pthread_t thread;
  int pid = getpid(), pids[64];
  setting s = set_up(device);
  const tri_group world = tri_group_world();
  for (int axis = 0; axis < TRI_NUM_MESH_AXES; axis++)
    shape.size[axis] = axis == TRI_AXIS_CONTEXT ? tri_comm_size() : 1;
  CHECK_OK(tri_mesh_create(&world, &shape, &mesh));
  const tri_group *group = tri_mesh_group(&mesh, TRI_DOMAIN_CONTEXT_OUTER);
  CHECK_OK(tri_gather_bytes(group, sizeof pid, &pid, pids));
  CHECK_OK(tri_watchdog_start(&mesh, folder, 3, &watchdog));
  const int next = (group->rank + 1) % group->size, before = (group->rank + group->size - 1) % group->size;
  const tri_exchange_pass pass = {next,   LOST_BYTES, transfer_at(&s, 0, LOST_BYTES),
                                  before, LOST_BYTES, transfer_at(&s, TRANSFER_BYTES / 2, LOST_BYTES)};
  int64_t begins[65];
  for (int r = 0; r <= group->size; r++) begins[r] = r * (LOST_BYTES / 4);
  upload(&s, transfer_at(&s, 0, TRANSFER_BYTES), calloc(1, TRANSFER_BYTES), TRANSFER_BYTES);
  for (int turn = 0;; turn++) {
    tri_transfer *transfer = NULL;
    come_late(group, number, turn, &thread, pids);
    if (passes) {
      CHECK_OK(tri_exchange_pass_start(s.exchange, group, &pass, &transfer));
      CHECK_OK(tri_exchange_pass_wait(s.exchange, &transfer));
    } else {
      CHECK_OK(tri_exchange_all_to_all(s.exchange, group, TRI_FP32, begins, pass.send, begins, pass.receive));
    }
  }
}

int main(int argc, char **argv) {
  CHECK_OK(tri_comm_open());
  if (argc == 5 && strcmp(argv[1], "stopped") == 0) lose_a_rank(SIGSTOP, argv[2], argv[3], argv[4]);
  if (argc == 5 && strcmp(argv[1], "killed") == 0) lose_a_rank(SIGKILL, argv[2], argv[3], argv[4]);
  for (int i = 1; i < argc; i++) check_device(argv[i]);
  if (tri_comm_rank() == 0) printf("%d ranks, %s: as they should be\n", tri_comm_size(), tri_comm_library());
  tri_comm_close();
  CHECK(tri_memory_bytes() == 0, "%zu bytes were not given back", tri_memory_bytes());
  return 0;
}
