/* How the engine runs a collective on device memory: with the device's own library first, if the group has joined one.
 * */
#include "check.h"
#include "comm/device_collectives.h"
#include "device/device.h"
#include "engine/collectives.h"

/* The last call of the library. */
typedef struct asked {
  const char *what;
  tri_queue *queue;
  int64_t count;
  const int64_t *begins;
  void *values;
} asked;

static tri_status all_reduce(void *member, tri_queue *queue, tri_dtype type, int64_t count, void *values) {
  assert_int_equal(type, TRI_FP32);
  *(asked *)member = (asked){"all_reduce", queue, count, NULL, values};
  return TRI_OK;
}

static tri_status all_maximum(void *member, tri_queue *queue, tri_dtype type, int64_t count, void *values) {
  assert_int_equal(type, TRI_FP32);
  *(asked *)member = (asked){"all_maximum", queue, count, NULL, values};
  return TRI_OK;
}

static tri_status all_gather(void *member, tri_queue *queue, tri_dtype type, const int64_t *begins, void *values) {
  assert_int_equal(type, TRI_BF16);
  *(asked *)member = (asked){"all_gather", queue, 0, begins, values};
  return TRI_OK;
}

static tri_status reduce_scatter(void *member, tri_queue *queue, tri_dtype type, const int64_t *begins, void *values) {
  (void)member, (void)queue, (void)type, (void)begins, (void)values;
  return tri_fail(TRI_COMM, "the library has lost a rank");
}

static tri_status send(void *member, tri_queue *queue, int to, int tag, size_t bytes, const void *data) {
  assert_int_equal(to * 100 + tag, 103);
  *(asked *)member = (asked){"send", queue, (int64_t)bytes, NULL, (void *)(uintptr_t)data};
  return TRI_OK;
}

static tri_status receive(void *member, tri_queue *queue, int from, int tag, size_t bytes, void *data) {
  assert_int_equal(from * 100 + tag, 104);
  *(asked *)member = (asked){"receive", queue, (int64_t)bytes, NULL, data};
  return TRI_OK;
}

static tri_status all_to_all(void *member, tri_queue *queue, tri_dtype type, const int64_t *from_begins,
                             const void *from, const int64_t *to_begins, void *to) {
  assert_int_equal(type, TRI_INT32);
  assert_int_equal(to_begins[2] - from_begins[2], 1);
  *(asked *)member = (asked){"all_to_all", queue, from == NULL, from_begins, to};
  return TRI_OK;
}

static tri_status pass(void *member, tri_queue *queue, int to, size_t send_bytes, const void *send, int from,
                       size_t receive_bytes, void *receive) {
  assert_int_equal(to * 1000 + from * 100 + (int)send_bytes, 1016);
  *(asked *)member = (asked){"pass", queue, (int64_t)receive_bytes, send, receive};
  return TRI_OK;
}

static const tri_device_collectives library = {.name = "test",
                                               .all_reduce = all_reduce,
                                               .all_maximum = all_maximum,
                                               .all_gather = all_gather,
                                               .reduce_scatter = reduce_scatter,
                                               .all_to_all = all_to_all,
                                               .pass = pass,
                                               .send = send,
                                               .receive = receive};
static const tri_device_collectives empty = {.name = "empty"};

/* A run of this rank, and a tensor group of `size` that has joined a library. */
typedef struct world {
  tri_mesh mesh;
  tri_ranks ranks;
  tri_device *device;
  asked last;
  tri_run run;
  tri_group *group;
} world;

static void begin(world *w, const tri_device_collectives *device, int size) {
  *w = (world){.mesh = tri_mesh_alone()};
  w->group = &w->mesh.groups[TRI_DOMAIN_TENSOR];
  w->group->size = size;
  w->group->device = device;
  w->group->member = &w->last;
  w->ranks.mesh = &w->mesh;
  CHECK_OK(tri_device_create("reference", 1, &w->device));
  CHECK_OK(tri_exchange_create(w->device, &(tri_exchange_memory){0}, &w->ranks.exchange));
  w->run = (tri_run){.queue = w->device->queue, .collectives = &tri_engine_collectives, .ranks = &w->ranks};
}

static void end(world *w) {
  tri_exchange_destroy(w->ranks.exchange);
  tri_device_destroy(w->device);
}

static const int64_t begins[] = {0, 2, 4};
static float values[4];

static void check_last(const world *w, const char *what) {
  assert_string_equal(w->last.what, what);
  assert_ptr_equal(w->last.queue, w->device->queue);
  assert_ptr_equal(w->last.values, values);
}

static void test_a_library_is_asked_first(void **state) {
  (void)state;
  world w;
  begin(&w, &library, 2);
  CHECK_OK(tri_run_all_reduce(&w.run, TRI_DOMAIN_TENSOR, TRI_FP32, 4, values));
  check_last(&w, "all_reduce");
  assert_int_equal(w.last.count, 4);
  CHECK_OK(tri_run_all_maximum(&w.run, TRI_DOMAIN_TENSOR, TRI_FP32, 3, values));
  check_last(&w, "all_maximum");
  CHECK_OK(tri_run_all_gather(&w.run, TRI_DOMAIN_TENSOR, TRI_BF16, begins, values));
  check_last(&w, "all_gather");
  assert_ptr_equal(w.last.begins, begins);
  assert_int_equal(tri_run_reduce_scatter(&w.run, TRI_DOMAIN_TENSOR, TRI_FP32, begins, values), TRI_COMM);
  assert_string_equal(tri_status_message(), "the library has lost a rank");
  static const int64_t to_begins[] = {0, 2, 5};
  CHECK_OK(tri_run_all_to_all(&w.run, TRI_DOMAIN_TENSOR, TRI_INT32, begins, begins, to_begins, values));
  check_last(&w, "all_to_all");
  assert_ptr_equal(w.last.begins, begins);
  tri_transfer *passing = (tri_transfer *)&w;
  CHECK_OK(tri_run_pass_start(&w.run, TRI_DOMAIN_TENSOR, 1, 16, begins, 0, 12, values, &passing));
  check_last(&w, "pass");
  assert_int_equal(w.last.count, 12);
  assert_null(passing);
  CHECK_OK(tri_run_pass_wait(&w.run, &passing));
  end(&w);
}

/* A rank's own part, or everything if the rank is alone, is copied on the device. Both sides must have the same
 * size. */
static void test_a_rank_alone_passes_to_itself(void **state) {
  (void)state;
  world w;
  float to[4] = {0};
  tri_transfer *passing = NULL;
  static const int64_t all[] = {0, 4}, less[] = {0, 3};
  begin(&w, NULL, 1);
  for (int i = 0; i < 4; i++) values[i] = (float)i;
  CHECK_OK(tri_run_all_to_all(&w.run, TRI_DOMAIN_TENSOR, TRI_FP32, all, values, all, to));
  assert_memory_equal(to, values, sizeof to);
  assert_int_equal(tri_run_all_to_all(&w.run, TRI_DOMAIN_TENSOR, TRI_FP32, all, values, less, to), TRI_INTERNAL);
  assert_non_null(strstr(tri_status_message(), "over tensor: rank 0 gives 16 bytes to itself and expects 12"));
  to[0] = 7;
  CHECK_OK(tri_run_pass_start(&w.run, TRI_DOMAIN_TENSOR, 0, sizeof to, values, 0, sizeof to, to, &passing));
  assert_null(passing);
  assert_memory_equal(to, values, sizeof to);
  assert_int_equal(tri_run_pass_start(&w.run, TRI_DOMAIN_TENSOR, 0, 8, values, 0, 4, to, &passing), TRI_INTERNAL);
  assert_non_null(strstr(tri_status_message(), "8 bytes to itself and expects 4"));
  end(&w);
}

/* Collectives in the background and messages are queued by the library, so there is no request to wait for. */
static void test_a_library_takes_what_is_started(void **state) {
  (void)state;
  world w;
  begin(&w, &library, 2);
  tri_exchange *x = w.ranks.exchange;
  tri_exchange_request *request = NULL;
  CHECK_OK(tri_exchange_all_reduce_start(x, w.group, TRI_FP32, 4, values, &request));
  check_last(&w, "all_reduce");
  CHECK_OK(tri_exchange_all_gather_start(x, w.group, TRI_BF16, begins, values, &request));
  check_last(&w, "all_gather");
  assert_int_equal(tri_exchange_reduce_scatter_start(x, w.group, TRI_FP32, begins, values, &request), TRI_COMM);
  CHECK_OK(tri_exchange_send_start(x, w.group, 1, 3, 16, values, NULL, &request));
  check_last(&w, "send");
  assert_int_equal(w.last.count, 16);
  CHECK_OK(tri_exchange_receive_start(x, w.group, 1, 4, 16, values, NULL, &request));
  check_last(&w, "receive");
  assert_null(request);
  CHECK_OK(tri_exchange_wait(&request));
  end(&w);
}

static void test_a_group_of_one_asks_nobody(void **state) {
  (void)state;
  world w;
  begin(&w, &library, 1);
  values[0] = 7;
  CHECK_OK(tri_run_all_reduce(&w.run, TRI_DOMAIN_TENSOR, TRI_FP32, 1, values));
  CHECK_OK(tri_run_all_maximum(&w.run, TRI_DOMAIN_TENSOR, TRI_FP32, 1, values));
  CHECK_OK(tri_run_all_gather(&w.run, TRI_DOMAIN_TENSOR, TRI_FP32, begins, values));
  CHECK_OK(tri_run_reduce_scatter(&w.run, TRI_DOMAIN_TENSOR, TRI_FP32, begins, values));
  assert_null(w.last.what);
  assert_true(values[0] == 7);
  end(&w);
}

/* A collective that the library does not have is done by comm/, after the work in the queue. Here the device reports a
 * failure, which must be found before anything is sent. */
static tri_status broken_mark(tri_queue *queue, tri_device_event *out) {
  (void)queue, (void)out;
  return tri_fail(TRI_INTERNAL, "a kernel has failed");
}

static void test_an_empty_slot_goes_through_comm(void **state) {
  (void)state;
  world w;
  begin(&w, &empty, 2);
  const tri_device_driver *whole = w.device->driver;
  tri_device_driver broken = *whole;
  broken.mark = broken_mark;
  w.device->driver = &broken;
  assert_int_equal(tri_run_all_reduce(&w.run, TRI_DOMAIN_TENSOR, TRI_FP32, 4, values), TRI_INTERNAL);
  assert_string_equal(tri_status_message(), "a kernel has failed");
  assert_int_equal(tri_run_all_maximum(&w.run, TRI_DOMAIN_TENSOR, TRI_FP32, 4, values), TRI_INTERNAL);
  assert_int_equal(tri_run_all_gather(&w.run, TRI_DOMAIN_TENSOR, TRI_FP32, begins, values), TRI_INTERNAL);
  assert_int_equal(tri_run_reduce_scatter(&w.run, TRI_DOMAIN_TENSOR, TRI_FP32, begins, values), TRI_INTERNAL);
  assert_null(w.last.what);
  w.device->driver = whole;
  end(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_library_is_asked_first),        cmocka_unit_test(test_a_rank_alone_passes_to_itself),
      cmocka_unit_test(test_a_library_takes_what_is_started), cmocka_unit_test(test_a_group_of_one_asks_nobody),
      cmocka_unit_test(test_an_empty_slot_goes_through_comm),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
