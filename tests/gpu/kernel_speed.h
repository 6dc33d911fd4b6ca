/* Shared by the files of kernel_speed: operands on the device, and the measurement of a kernel. */
#ifndef TRI_TESTS_GPU_KERNEL_SPEED_H
#define TRI_TESTS_GPU_KERNEL_SPEED_H

#include "device/kernels.h"
#include "device/timing.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_BUFFERS = 22 };

typedef struct bench {
  tri_device *device;
  tri_dtype type, wide;
  bool quick;
  double least_s; /* seconds of a sample, at least */
  double copy_rate;
  const char *choice;    /* of how products are made, for their names */
  void *normal[3], *ids; /* TABLE random numbers as fp64, fp32 and bf16, and token ids */
  json_t *out;
} bench;

#define TRY(call)                                                                                                      \
  do {                                                                                                                 \
    if ((call) != TRI_OK) {                                                                                            \
      fprintf(stderr, "kernel_speed: %s\n", tri_status_message());                                                     \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

typedef struct buffers {
  tri_device *device;
  void *at[MOST_BUFFERS];
  size_t bytes[MOST_BUFFERS];
  int count;
} buffers;

/* Memory of the device; and such of random numbers. Given back all at once. */
void *take(buffers *b, size_t bytes);
void *random_of(const bench *s, buffers *b, tri_dtype type, int64_t count);
void give(buffers *b);

/* Tells how many of `unit` ("B/s", "FLOP/s") a second it is, where one round is `amount`. */
void measure(bench *s, const char *what, const char *unit, double amount, tri_device_work *work, void *context);

/* kernel_speed_experts.c: a layer of experts of that width, whose feed-forward parts are `ffn` wide. */
void experts(bench *s, const char *model, tri_router router, int64_t tokens, int64_t width, int64_t ffn);

#endif
