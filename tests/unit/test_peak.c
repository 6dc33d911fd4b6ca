/* The cost of a measurement of a device's peak: it is low if the run has little work. The cost is counted in products,
 * since a busy machine computes fewer of them in the same time, and never more. */
#include "check.h"

#include "device/kernels.h"
#include "engine/peak.h"

#include <math.h>
#include <time.h>

static int64_t products;

/* Takes at least a millisecond for each product, whatever its size. */
static tri_status wait_a_millisecond(tri_queue *queue, const tri_matmul *p, const void *a, const void *b,
                                     const void *bias, void *c, void *workspace) {
  const struct timespec millisecond = {0, 1000000};
  (void)queue, (void)p, (void)a, (void)b, (void)bias, (void)c, (void)workspace;
  nanosleep(&millisecond, NULL);
  products++;
  return TRI_OK;
}

static int64_t products_for(double work_flops, double *peak) {
  tri_device *device = NULL;
  CHECK_OK(tri_device_create("reference", 1, &device));
  const tri_device_kernels *own = device->kernels;
  tri_device_kernels slow = *own;
  slow.matmul = wait_a_millisecond;
  device->kernels = &slow;
  products = 0;
  CHECK_OK(tri_peak_flops(device, TRI_FP32, work_flops, peak));
  device->kernels = own;
  tri_device_destroy(device);
  return products;
}

/* Each measurement computes products one after the other, at least two: the first does not count. */
static void test_work_that_is_soon_done(void **state) {
  double small = 0, whole = 0;
  (void)state;
  int64_t before_small = products_for(1e6, &small), before_any = products_for(INFINITY, &whole);
  assert_in_range(before_small, 4, 2 * (20 + 20));
  assert_in_range(before_any, 4, 2 * (20 + 300));
  assert_true(small > 0 && whole > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_work_that_is_soon_done),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
