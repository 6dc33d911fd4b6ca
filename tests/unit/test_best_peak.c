/* The highest measured peak of a device is stored in a file and read again, and is measured again if a step was faster.
 * */
#include "check.h"

#include "base/memory.h"
#include "device/kernels.h"
#include "files/file.h"
#include "train/best_peak.h"
#include "train/train_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[TRI_PATH_BYTES];

static int enter(void **state) {
  (void)state;
  char name[] = "/tmp/trireme-peak-XXXXXX";
  if (mkdtemp(name) == NULL) return 1;
  snprintf(folder, sizeof folder, "%s/cache", name); /* does not exist yet */
  return setenv("TRIREME_CACHE", folder, 1);
}

static int leave(void **state) {
  (void)state;
  *strrchr(folder, '/') = '\0';
  return tri_directory_remove(folder) != TRI_OK;
}

/* Finds the only file of the folder. */
static void find_file(char out[TRI_PATH_BYTES]) {
  char command[TRI_PATH_BYTES + 32];
  snprintf(command, sizeof command, "ls %s/peak-*", folder);
  FILE *from = popen(command, "r");
  assert_non_null(from);
  assert_non_null(fgets(out, TRI_PATH_BYTES, from));
  pclose(from);
  out[strcspn(out, "\n")] = '\0';
}

static void test_kept(void **state) {
  (void)state;
  char path[TRI_PATH_BYTES], *text = NULL;
  size_t bytes = 0;
  assert_true(tri_best_peak_read(folder, "a machine") == 0);
  CHECK_OK(tri_best_peak_write(folder, "a machine", 1.2345678901234567e11));
  assert_true(tri_best_peak_read(folder, "a machine") == 1.2345678901234567e11);
  assert_true(tri_best_peak_read(folder, "another machine") == 0);
  find_file(path);
  CHECK_OK(tri_file_read(path, 4096, &text, &bytes));
  for (size_t i = 0; i < bytes; i++) { /* a change of any byte, or of the length, is detected */
    text[i] ^= 1;
    CHECK_OK(tri_file_replace(path, text, bytes));
    assert_true(tri_best_peak_read(folder, "a machine") == 0);
    text[i] ^= 1;
    CHECK_OK(tri_file_replace(path, text, i));
    assert_true(tri_best_peak_read(folder, "a machine") == 0);
  }
  CHECK_OK(tri_file_replace(path, "nan", 3));
  assert_true(tri_best_peak_read(folder, "a machine") == 0);
  CHECK_OK(tri_best_peak_write(folder, "a machine", 5));
  assert_true(tri_best_peak_read(folder, "a machine") == 5);
  tri_free(text);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(mkdir(path, 0777), 0); /* a folder with the file's name counts as no file */
  assert_true(tri_best_peak_read(folder, "a machine") == 0);
  CHECK_FAILS(tri_best_peak_write(folder, "a machine", 5), TRI_BAD_FILE, "is a folder");
  assert_int_equal(rmdir(path), 0);
}

/* While processes write, a reader always finds the number of one of them. */
static void test_at_once(void **state) {
  enum { WRITERS = 4, TIMES = 50 };
  (void)state;
  pid_t children[WRITERS];
  CHECK_OK(tri_best_peak_write(folder, "k", 1));
  for (int w = 0; w < WRITERS; w++) {
    children[w] = fork();
    if (children[w] != 0) continue;
    bool good = true;
    for (int i = 0; i < TIMES && good; i++) {
      double there = tri_best_peak_read(folder, "k");
      good = there >= 1 && there <= WRITERS && tri_best_peak_write(folder, "k", w + 1) == TRI_OK;
    }
    _exit(!good);
  }
  for (int w = 0; w < WRITERS; w++) {
    int result = -1;
    assert_int_equal(waitpid(children[w], &result, 0), children[w]);
    assert_int_equal(result, 0);
  }
  assert_true(tri_best_peak_read(folder, "k") >= 1);
}

static int64_t products;
static tri_status count_product(tri_queue *queue, const tri_matmul *p, const void *a, const void *b, const void *bias,
                                void *c, void *workspace) {
  (void)queue, (void)p, (void)a, (void)b, (void)bias, (void)c, (void)workspace;
  usleep(100);
  products++;
  return TRI_OK;
}

static void test_doubted(void **state) {
  (void)state;
  char key[TRI_PEAK_KEY_BYTES];
  tri_run_config *config = NULL;
  tri_training *t = NULL;
  tri_device *device = NULL;
  CHECK_OK(tri_alloc("a test", 1, sizeof *config, &config));
  CHECK_OK(tri_alloc("a test", 1, sizeof *t, &t));
  CHECK_OK(tri_device_create("reference", 1, &device));
  const tri_device_kernels *own = device->kernels;
  tri_device_kernels counting = *own;
  counting.matmul = count_product;
  device->kernels = &counting;
  config->precision = TRI_FP32;
  *t = (tri_training){.config = config, .device = device, .peak_flops = 1000, .measured_flops = 1000};
  tri_best_peak_key(device, TRI_FP32, false, key);
  products = 0;
  CHECK_OK(tri_training_doubt_peak(t, 1)); /* a step at the peak is not faster than it */
  CHECK_OK(tri_training_doubt_peak(t, NAN));
  assert_true(products == 0 && t->peak_flops == 1000);
  CHECK_OK(tri_training_doubt_peak(t, 1.5));
  assert_true(products > 0 && t->peak_flops > 1000);
  assert_true(tri_best_peak_read(folder, key) == t->peak_flops);
  products = 0;
  CHECK_OK(tri_training_doubt_peak(t, 3)); /* measured again only once */
  assert_true(products == 0);
  CHECK_OK(tri_best_peak_write(folder, key, 1e300)); /* the stored peak is higher than any measured one */
  t->peak_doubted = false;
  CHECK_OK(tri_training_doubt_peak(t, 1.5));
  assert_true(t->peak_flops == 1e300);
  setenv("TRIREME_CACHE", "none", 1);
  *t = (tri_training){.config = config, .device = device, .peak_flops = 1000};
  CHECK_OK(tri_training_doubt_peak(t, 1.5));
  assert_true(t->peak_flops > 1000 && t->peak_flops < 1e300);
  device->kernels = own;
  tri_device_destroy(device);
  tri_free(t);
  tri_free(config);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_kept, enter, leave),
      cmocka_unit_test_setup_teardown(test_at_once, enter, leave),
      cmocka_unit_test_setup_teardown(test_doubted, enter, leave),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
