/* gpu_tool DEVICE COMMAND: runs a device with the functions that the modules above it use, to test its run-time calls.
 *
 *   numbers TYPE COUNT
 *       reads a and b from standard input; writes a + b, also converted to fp64, fp32 and bf16
 *   rows HEIGHT WIDTH
 *       reads bytes, copies them to the device, within it and back, in rows with strides and in two queues; writes them
 *   times TYPE COUNT ROUNDS
 *       reads a and b; writes a after ROUNDS timed rounds of `a = a + b`, and prints the seconds
 *   zeros BYTES
 *       writes new device memory, twice, to test that it is zeroed
 *
 * A failure is printed on standard error, and its exit status is the program's. */
#include "base/memory.h"
#include "device/kernels.h"
#include "device/queue.h"
#include "device/timing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tri_status type_named(const char *name, tri_dtype *out) {
  static const tri_dtype all[] = {TRI_FP64, TRI_FP32, TRI_BF16};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    *out = all[i];
    if (strcmp(tri_dtype_name(all[i]), name) == 0) return TRI_OK;
  }
  return tri_fail(TRI_BAD_USAGE, "`%s` is not a type of activations", name);
}

/* An array from standard input, in the device's memory. */
static tri_status read_in(tri_device *device, size_t bytes, void **out) {
  void *host = NULL;
  TRI_TRY(tri_device_host_create(device, bytes, &host));
  tri_status status = fread(host, 1, bytes, stdin) == bytes ? TRI_OK : tri_fail(TRI_BAD_USAGE, "too little to read");
  if (status == TRI_OK) status = tri_device_memory_create(device, bytes, out);
  if (status == TRI_OK) status = tri_queue_upload_now(device->queue, *out, host, bytes);
  tri_device_host_destroy(device, host, bytes);
  return status;
}

static tri_status write_out(tri_device *device, const void *memory, size_t bytes) {
  void *host = NULL;
  TRI_TRY(tri_alloc("what is written", bytes, 1, &host));
  tri_status status = tri_queue_download_now(device->queue, host, memory, bytes);
  if (status == TRI_OK) fwrite(host, 1, bytes, stdout);
  tri_free(host);
  return status;
}

static tri_status numbers(tri_device *device, tri_dtype type, int64_t count) {
  static const tri_dtype all[] = {TRI_FP64, TRI_FP32, TRI_BF16};
  const size_t bytes = (size_t)count * tri_dtype_bytes(type), wide = (size_t)count * sizeof(double);
  void *a = NULL, *b = NULL, *c = NULL;
  TRI_TRY(read_in(device, bytes, &a));
  TRI_TRY(read_in(device, bytes, &b));
  TRI_TRY(tri_device_memory_create(device, wide, &c));
  TRI_KERNEL_CALL(device->queue, add, type, tri_all_rows(count), 1, a, b, a);
  TRI_TRY(write_out(device, a, bytes));
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    if (all[i] == type) continue;
    TRI_KERNEL_CALL(device->queue, fill_zero, wide, c);
    TRI_KERNEL_CALL(device->queue, convert, count, type, a, all[i], c);
    TRI_TRY(write_out(device, c, (size_t)count * tri_dtype_bytes(all[i])));
  }
  tri_device_memory_destroy(device, a, bytes);
  tri_device_memory_destroy(device, b, bytes);
  tri_device_memory_destroy(device, c, wide);
  return TRI_OK;
}

/* Three copies with strides of their own: in, from queue to queue, and out. */
static tri_status move_rows(tri_queue *first, tri_queue *second, size_t height, size_t width, char *host, char *there,
                            char *aside) {
  const size_t stride = width + 3, other = width + 8;
  tri_device_event event;
  const tri_copy in = {there, host, TRI_SIDE_DEVICE, TRI_SIDE_HOST, height, width, stride, width};
  const tri_copy over = {aside, there, TRI_SIDE_DEVICE, TRI_SIDE_DEVICE, height, width, other, stride};
  const tri_copy out = {host, aside, TRI_SIDE_HOST, TRI_SIDE_DEVICE, height, width, width, other};
  TRI_TRY(tri_queue_copy(first, &in));
  TRI_TRY(tri_queue_mark(first, &event));
  TRI_TRY(tri_queue_wait(second, &event));
  TRI_TRY(tri_queue_copy(second, &over));
  TRI_TRY(tri_queue_mark(second, &event));
  while (!tri_device_event_passed(&event)) continue;
  TRI_TRY(tri_device_event_wait(&event));
  memset(host, 0, height * width);
  TRI_TRY(tri_queue_copy(second, &out));
  return tri_queue_finish(second);
}

static tri_status rows(tri_device *device, size_t height, size_t width) {
  const size_t bytes = height * width, room = height * (width + 8);
  tri_queue *second = NULL;
  void *host = NULL, *there = NULL, *aside = NULL;
  TRI_TRY(tri_device_host_create(device, bytes, &host));
  if (fread(host, 1, bytes, stdin) != bytes) return tri_fail(TRI_BAD_USAGE, "too little to read");
  TRI_TRY(tri_device_memory_create(device, room, &there));
  TRI_TRY(tri_device_memory_create(device, room, &aside));
  TRI_TRY(tri_queue_create(device, &second));
  TRI_TRY(move_rows(device->queue, second, height, width, host, there, aside));
  fwrite(host, 1, bytes, stdout);
  tri_queue_destroy(second);
  tri_device_memory_destroy(device, there, room);
  tri_device_memory_destroy(device, aside, room);
  tri_device_host_destroy(device, host, bytes);
  return TRI_OK;
}

typedef struct sums {
  tri_dtype type;
  int64_t count;
  void *a, *b;
} sums;

static tri_status add_once(tri_queue *queue, void *context, int round) {
  const sums *s = context;
  (void)round;
  TRI_KERNEL_CALL(queue, add, s->type, tri_all_rows(s->count), 1, s->a, s->b, s->a);
  return TRI_OK;
}

static tri_status times(tri_device *device, tri_dtype type, int64_t count, int rounds) {
  const size_t bytes = (size_t)count * tri_dtype_bytes(type);
  sums s = {.type = type, .count = count};
  double seconds = -1;
  TRI_TRY(read_in(device, bytes, &s.a));
  TRI_TRY(read_in(device, bytes, &s.b));
  TRI_TRY(tri_device_time(device->queue, add_once, &s, rounds, &seconds));
  TRI_TRY(write_out(device, s.a, bytes));
  fprintf(stderr, "%g\n", seconds);
  tri_device_memory_destroy(device, s.a, bytes);
  tri_device_memory_destroy(device, s.b, bytes);
  return TRI_OK;
}

static tri_status zeros(tri_device *device, size_t bytes) {
  void *memory = NULL;
  for (int round = 0; round < 2; round++) {
    TRI_TRY(tri_device_memory_create(device, bytes, &memory));
    TRI_TRY(write_out(device, memory, bytes));
    tri_device_memory_destroy(device, memory, bytes);
  }
  return TRI_OK;
}

static tri_status run(tri_device *device, int count, char **words) {
  tri_dtype type = TRI_FP32;
  if (count == 3 && strcmp(words[0], "numbers") == 0) {
    TRI_TRY(type_named(words[1], &type));
    return numbers(device, type, atoll(words[2]));
  }
  if (count == 3 && strcmp(words[0], "rows") == 0)
    return rows(device, (size_t)atoll(words[1]), (size_t)atoll(words[2]));
  if (count == 4 && strcmp(words[0], "times") == 0) {
    TRI_TRY(type_named(words[1], &type));
    return times(device, type, atoll(words[2]), atoi(words[3]));
  }
  if (count == 2 && strcmp(words[0], "zeros") == 0) return zeros(device, (size_t)atoll(words[1]));
  return tri_fail(TRI_BAD_USAGE, "see gpu_tool.c for how it is called");
}

int main(int count, char **arguments) {
  tri_device *device = NULL;
  tri_status status = TRI_BAD_USAGE;
  if (count < 3) return tri_status_exit(status);
  status = tri_device_create(arguments[1], 1, &device);
  if (status == TRI_OK) status = run(device, count - 2, arguments + 2);
  if (status != TRI_OK) fprintf(stderr, "%s\n", tri_status_message());
  if (status == TRI_OK) tri_device_destroy(device); /* after a failure memory is still held */
  return tri_status_exit(status);
}
