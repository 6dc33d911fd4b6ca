/* The choice of a process's GPU, and of the memory that it may use there; tested with emulated GPUs, and with runtimes
 * that only count. */
#include "check.h"

#include "device/device.h"
#include "device/gpu/choice.h"
#include "device/kernels.h"
#include "device/queue.h"

#include <stdio.h>
#include <string.h>

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static tri_status count_none(int *out, const char **why) {
  *out = 0;
  *why = "no libnone.so.1";
  return TRI_OK;
}

static tri_status count_two(int *out, const char **why) {
  *out = 2;
  *why = "2 GPUs";
  return TRI_OK;
}

static tri_status count_three(int *out, const char **why) {
  *out = 3;
  *why = "3 GPUs";
  return TRI_OK;
}

static tri_status count_fails(int *out, const char **why) {
  *out = 7;
  *why = "";
  return tri_fail(TRI_DEVICE_FAILED, "the driver is older than its library");
}

static const tri_gpu_runtime none = {.name = "NONE", .count = count_none};
static const tri_gpu_runtime two = {.name = "TWO", .count = count_two};
static const tri_gpu_runtime three = {.name = "THREE", .count = count_three};
static const tri_gpu_runtime fails = {.name = "BROKEN", .count = count_fails};

static void test_numbers_go_on(void **state) {
  const tri_gpu_runtime *const all[] = {&none, &two, &fails, &three, NULL};
  const tri_gpu_runtime *const of[] = {&two, &two, &three, &three, &three};
  (void)state;
  for (int place = 0; place < 12; place++) {
    tri_gpu_choice choice;
    char named[8];
    CHECK_OK(tri_gpu_choose("gpu", all, "", place, &choice));
    assert_int_equal(choice.number, place % 5);
    assert_ptr_equal(choice.runtime, of[place % 5]);
    assert_int_equal(choice.ordinal, place % 5 < 2 ? place % 5 : place % 5 - 2);
    assert_false(choice.blocking);
    snprintf(named, sizeof named, "%d", place % 5);
    CHECK_OK(tri_gpu_choose("gpu", all, named, 11 - place, &choice)); /* a number counts, whatever the place is */
    assert_int_equal(choice.number, place % 5);
    assert_ptr_equal(choice.runtime, of[place % 5]);
  }
}

static void test_words(void **state) {
  const tri_gpu_runtime *const all[] = {&two, NULL};
  const char *const wrong[] = {"gpus=2",  "warp=64", "-1", "1x",    "Blocking",
                               "blockin", "0x1",     " 1", "99999", "2147483648"};
  tri_gpu_choice choice;
  (void)state;
  CHECK_OK(tri_gpu_choose("gpu", all, "1,blocking", 0, &choice));
  assert_true(choice.blocking && choice.ordinal == 1);
  CHECK_OK(tri_gpu_choose("gpu", all, "blocking", 3, &choice));
  assert_true(choice.blocking && choice.ordinal == 1);
  CHECK_FAILS(tri_gpu_choose("gpu", all, "2", 0, &choice), TRI_BAD_CONFIG, "can use 2 GPUs, numbered from 0 to 1");
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    CHECK_FAILS(tri_gpu_choose("gpu", all, wrong[i], 0, &choice), TRI_BAD_CONFIG, wrong[i]);
  }
}

static void test_none(void **state) {
  const tri_gpu_runtime *const all[] = {&none, &fails, NULL}, *const nobody[] = {NULL};
  tri_gpu_choice choice;
  int count = -1;
  (void)state;
  CHECK_FAILS(tri_gpu_choose("gpu", all, "1", 0, &choice), TRI_UNSUPPORTED,
              "NONE: no libnone.so.1; BROKEN: the driver is older than its library; `trireme doctor` shows");
  CHECK_FAILS(tri_gpu_choose("gpu", nobody, "", 0, &choice), TRI_UNSUPPORTED, "there is no GPU that this process can");
  CHECK_OK(tri_gpu_count(all, &count, NULL, 0));
  assert_int_equal(count, 0);
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

static tri_device *create(const char *name, int place) {
  tri_device *device = NULL;
  CHECK_OK(tri_device_create_for(&(tri_device_request){.name = name, .place = place}, &device));
  return device;
}

static void test_places(void **state) {
  (void)state;
  for (int place = 0; place < 5; place++) {
    char text[96], want[96];
    tri_device *device = create("emulated:gpus=3", place);
    assert_int_equal(device->info.ordinal, place % 3);
    snprintf(want, sizeof want, "emulated (GPU %d at emulated:%d)", place % 3, place % 3);
    assert_string_equal(tri_device_describe(device, text, sizeof text), want);
    tri_device_destroy(device);
  }
  tri_device *device = create("emulated:gpus=3,2,warp=64,seed=5", 0);
  assert_int_equal(device->info.ordinal, 2);
  tri_device_destroy(device);
}

static void test_bad_names(void **state) {
  const char *const wrong[] = {"gpus=0", "gpus=",   "gpus=x", "warp=16", "memory=1G",
                               "taken=", "seed=-1", "what=1", "warp"};
  tri_device *device = NULL;
  (void)state;
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    char name[64];
    snprintf(name, sizeof name, "emulated:%s", wrong[i]);
    CHECK_FAILS(tri_device_create(name, 1, &device), TRI_BAD_CONFIG, wrong[i]);
  }
  CHECK_FAILS(tri_device_create("emulated:gpus=4097", 1, &device), TRI_BAD_CONFIG, "gpus=NUMBER, from 1 to 4096");
  CHECK_FAILS(tri_device_create("emulated:warps=32", 1, &device), TRI_BAD_CONFIG,
              "there are a GPU's number, blocking, gpus, warp, peer, memory, taken, seed, fail_memory,");
  CHECK_FAILS(tri_device_create("gpu:0,1", 1, &device), TRI_BAD_CONFIG,
              "`gpu` takes the number of one GPU, not 0 and 1");
  CHECK_FAILS(tri_device_create("emulated:1", 1, &device), TRI_BAD_CONFIG, "can use 1 GPU, numbered from 0 to 0");
  CHECK_FAILS(tri_device_create("gpu:4096", 1, &device), TRI_BAD_CONFIG, "the number of a GPU, from 0 to 4095, and bl");
  CHECK_FAILS(tri_device_create("gpu:nine", 1, &device), TRI_BAD_CONFIG, "`nine` is not an option of `device: gpu`");
}

enum { MIB = 1 << 20 };

/* Ranks share the memory that other processes leave. Memory that a rank holds already is its own; each of the others is
 * assumed to hold as much. */
static void test_memory(void **state) {
  char text[256];
  void *memory = NULL;
  (void)state;
  tri_device *device = create("emulated:memory=268435456,taken=67108864", 0);
  size_t held = device->memory_bytes;
  assert_true(held == device->description.queue_bytes && held == tri_description_accelerator.queue_bytes);
  assert_true(device->info.total_bytes == 256 * (size_t)MIB && device->info.taken_bytes == 64 * (size_t)MIB);
  assert_true(device->info.memory_bytes == 192 * (size_t)MIB && device->info.sharers == 1);
  CHECK_OK(tri_device_share(device, 2));
  assert_true(device->info.memory_bytes == (192 * (size_t)MIB - held) / 2 + held);
  assert_string_equal(strstr(tri_device_describe_reserved(&device->info, text, sizeof text), ", and 2"),
                      ", and 2 ranks share the rest)");
  CHECK_OK(tri_device_share(device, 1));
  CHECK_FAILS(tri_device_memory_create(device, 192 * (size_t)MIB, &memory), TRI_OUT_OF_MEMORY, "do not fit");
  CHECK_OK(tri_device_memory_create(device, 192 * (size_t)MIB - held, &memory));
  tri_device_memory_destroy(device, memory, 192 * (size_t)MIB - held);
  tri_device_destroy(device);
  /* Too little even for the queue's scratch memory. */
  CHECK_FAILS(tri_device_create("emulated:memory=67108864,taken=67000000", 1, &device), TRI_OUT_OF_MEMORY,
              "do not fit");
}

/* A blocking device reports a fault in the call that causes it. */
static void test_blocking(void **state) {
  const float zeros[4] = {0};
  (void)state;
  for (int blocking = 0; blocking < 2; blocking++) {
    void *memory = NULL;
    tri_device *device = create(blocking ? "emulated:blocking,fail_kernel=2" : "emulated:fail_kernel=2", 0);
    CHECK_OK(tri_device_memory_create(device, 64, &memory));
    CHECK_OK(tri_queue_upload_now(device->queue, memory, zeros, sizeof zeros));
    tri_queue_at(device->queue, "sum", 7, "forward");
    const tri_rows rows = tri_all_rows(1);
    CHECK_OK(device->kernels->add(device->queue, TRI_FP32, rows, 4, memory, memory, memory));
    tri_status status = device->kernels->add(device->queue, TRI_FP32, rows, 4, memory, memory, memory);
    if (!blocking) {
      CHECK_OK(status);
      status = tri_queue_finish(device->queue);
    }
    CHECK_FAILS(status, TRI_DEVICE_FAILED, "kernel `add` of call 7 (sum, forward)");
    assert_null(strstr(strstr(tri_status_message(), "kernel `add`") + 1, "kernel `add`")); /* only once */
    tri_device_memory_destroy(device, memory, 64);
    tri_device_destroy(device);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_numbers_go_on), cmocka_unit_test(test_words),     cmocka_unit_test(test_none),
      cmocka_unit_test(test_places),        cmocka_unit_test(test_bad_names), cmocka_unit_test(test_memory),
      cmocka_unit_test(test_blocking),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
