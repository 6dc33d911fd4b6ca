/* Processes killed in the middle of saves, and a disk that is really full. */
#include "checkpoint_test.h"

#include "base/random.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>

static char root[TRI_PATH_BYTES];

static int set_up(void **state) {
  (void)state;
  return ct_make_root(root);
}

static int tear_down(void **state) {
  (void)state;
  return tri_directory_remove(root) != TRI_OK;
}

/* Saves each step twice until it is killed, and reports the steps that are safe. */
static void save_for_ever(int report, int64_t first) {
  for (int64_t step = first;; step++) {
    for (int64_t variant = 0; variant < 2; variant++) {
      if (ct_do_save(&(ct_save){.root = root, .step = step, .variant = variant, .keep = 2}, NULL) != TRI_OK) _exit(1);
      if (write(report, &step, sizeof step) != (ssize_t)sizeof step) _exit(2);
    }
  }
}

/* Starts a child that saves from `first` on, and kills it after a while, counted from its first save if `saved` is set.
 * Returns the last step that it reported as safe. */
static int64_t run_and_kill(int64_t first, bool saved, useconds_t after_us) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    save_for_ever(ends[1], first);
  }
  close(ends[1]);
  int64_t safe = first - 1, step = 0;
  if (saved && read(ends[0], &step, sizeof step) == (ssize_t)sizeof step) safe = step;
  usleep(after_us);
  assert_int_equal(kill(child, SIGKILL), 0);
  int how = 0;
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_true(WIFSIGNALED(how)); /* it was killed, and did not end by itself */
  while (read(ends[0], &step, sizeof step) == (ssize_t)sizeof step) safe = step;
  close(ends[0]);
  return safe;
}

/* A save that was reported as complete is never lost, a checkpoint that is found is always whole, and temporary folders
 * do not accumulate. */
static void test_kill(void **state) {
  (void)state;
  enum { ROUNDS = 50, LONGEST_US = 100000 };
  tri_random_key key = tri_random_stream(4, TRI_RANDOM_TEST, 0);
  int64_t newest = 0, saved = 0;
  for (uint64_t round = 0; round < ROUNDS; round++) {
    int64_t safe = run_and_kill(newest + 1, round % 10 == 9, (useconds_t)(tri_random_uniform(key, round) * LONGEST_US));
    char path[TRI_PATH_BYTES], log[4096];
    CHECK_OK(ct_newest(root, path, log, sizeof log));
    assert_string_equal(log, ""); /* every checkpoint with a final name is good */
    int64_t found = path[0] == '\0' ? 0 : ct_check_content(path);
    assert_true(found >= safe && found <= safe + 1);
    saved += safe - newest;
    newest = found;
  }
  print_message("%" PRId64 " steps were saved between kills\n", saved);
  assert_true(saved > 0);
  /* Another save removes the files of the killed processes. */
  char command[TRI_PATH_BYTES + 64];
  CHECK_OK(ct_do_save(&(ct_save){.root = root, .step = newest + 1, .keep = 1}, NULL));
  snprintf(command, sizeof command, "test \"$(ls -A '%s')\" = step-%08" PRId64, root, newest + 1);
  assert_int_equal(system(command), 0);
}

/* Runs in a child, in a file system of 2 MiB: step 1 fits, a large step 2 does not, and step 1 remains good. */
static int fill_disk(void) {
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount("trireme", root, "tmpfs", 0, "size=2m") != 0) {
    return 77;
  }
  CHECK_OK(ct_do_save(&(ct_save){.root = root, .step = 1}, NULL));
  size_t bytes = 8u << 20;
  float *data = calloc(bytes, 1);
  const tri_checkpoint_tensor tensor = {
      .name = "w", .type = TRI_FP32, .num_dims = 1, .shape = {(int64_t)(bytes / 4)}, .data = data};
  const tri_checkpoint_request request = {
      .root = root, .state = {.step = 2}, .weights = &tensor, .num_weights = 1, .model_config = "{}"};
  CHECK_FAILS(
      tri_checkpoint_save(&request, NULL), TRI_IO_FAILED,
      " MiB; make room there, or choose another folder (of a run: a lower `checkpoint.keep`, or another `output`)");
  CHECK_FAILS(tri_checkpoint_save(&request, NULL), TRI_IO_FAILED,
              "/model.safetensors: No space left on device; the file needs 8.00 MiB (8388");
  CHECK_FAILS(tri_checkpoint_save(&request, NULL), TRI_IO_FAILED, " and there is room for 1.9");
  free(data);
  char path[TRI_PATH_BYTES], temporary[64], at[TRI_PATH_BYTES];
  snprintf(temporary, sizeof temporary, ".tmp-step-00000002-%ld", (long)getpid());
  assert_false(tri_path_exists(ct_join(at, root, temporary)));
  CHECK_OK(tri_checkpoint_newest(NULL, root, path));
  assert_int_equal(ct_check_content(path), 1);
  /* Small checkpoints until the disk is full: a failed save leaves all earlier ones. */
  int64_t step = 3;
  while (ct_do_save(&(ct_save){.root = root, .step = step}, NULL) == TRI_OK) step++;
  assert_non_null(strstr(tri_status_message(), "No space left on device"));
  CHECK_OK(tri_checkpoint_newest(NULL, root, path));
  assert_int_equal(ct_check_content(path), step - 1);
  return 0;
}

static void test_full_disk(void **state) {
  (void)state;
  pid_t child = fork();
  if (child == 0) _exit(fill_disk());
  int how = 0;
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_true(WIFEXITED(how));
  if (WEXITSTATUS(how) == 77) {
    print_message("SKIPPED: test_full_disk: only root may make a small file system\n");
    skip();
  }
  assert_int_equal(WEXITSTATUS(how), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_kill, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_full_disk, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
