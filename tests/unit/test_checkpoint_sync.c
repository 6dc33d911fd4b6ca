/* A power cut must not lose a complete checkpoint: the order in which files, their folder and its name are flushed to
 * disk. Killed processes (test_checkpoint_crash.c) lose nothing that was written, flushed or not, so those tests do not
 * find a missing flush. */
#include "checkpoint_test.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

/* The calls, in order. */
typedef struct event {
  ino_t flushed; /* inode of an fsync; 0: a rename */
  char to[TRI_PATH_BYTES];
} event;

enum { MOST_EVENTS = 512 };
static event events[MOST_EVENTS];
static int num_events;

int __real_fsync(int file);
int __real_rename(const char *from, const char *to);
int __wrap_fsync(int file);
int __wrap_rename(const char *from, const char *to);

int __wrap_fsync(int file) {
  struct stat facts;
  assert_int_equal(fstat(file, &facts), 0);
  assert_true(num_events < MOST_EVENTS);
  events[num_events++] = (event){.flushed = facts.st_ino};
  return __real_fsync(file);
}

int __wrap_rename(const char *from, const char *to) {
  assert_true(num_events < MOST_EVENTS);
  event *e = &events[num_events++];
  e->flushed = 0;
  snprintf(e->to, sizeof e->to, "%s", to);
  return __real_rename(from, to);
}

static char root[TRI_PATH_BYTES];

static int set_up(void **state) {
  (void)state;
  num_events = 0;
  return ct_make_root(root);
}

static int tear_down(void **state) {
  (void)state;
  return tri_directory_remove(root) != TRI_OK;
}

static ino_t inode_of(const char *path) {
  struct stat facts;
  assert_int_equal(lstat(path, &facts), 0);
  return facts.st_ino;
}

/* Returns the index of the last event before `end` that flushed the file, or -1. */
static int flushed_before(int end, ino_t inode) {
  while (--end >= 0 && events[end].flushed != inode) {
  }
  return end;
}

static int flushed_after(int begin, ino_t inode) {
  for (int i = begin + 1; i < num_events; i++) {
    if (events[i].flushed == inode) return i;
  }
  return -1;
}

static int renamed_to(const char *path) {
  int at = num_events - 1;
  while (at >= 0 && (events[at].flushed != 0 || strcmp(events[at].to, path) != 0)) at--;
  return at;
}

/* Checks the order of events: every file is flushed, then its folder, then the folder is renamed, then the parent
 * folder is flushed. */
static void check_flushed(const char *folder) {
  const int renamed = renamed_to(folder);
  assert_true(renamed >= 0);
  int last = -1, files = 0;
  DIR *listing = opendir(folder);
  assert_non_null(listing);
  for (const struct dirent *entry; (entry = readdir(listing)) != NULL;) {
    char path[TRI_PATH_BYTES];
    if (entry->d_name[0] == '.') continue;
    const int at = flushed_before(renamed, inode_of(ct_join(path, folder, entry->d_name)));
    if (at < 0) print_error("%s was not flushed before its folder got its name\n", entry->d_name);
    assert_true(at >= 0);
    if (at > last) last = at;
    files++;
  }
  closedir(listing);
  assert_true(files >= 5);
  const int listed = flushed_before(renamed, inode_of(folder));
  assert_true(listed > last);
  assert_true(flushed_after(renamed, inode_of(root)) > renamed);
}

static void test_checkpoint(void **state) {
  (void)state;
  char path[TRI_PATH_BYTES];
  CHECK_OK(ct_do_save(&(ct_save){.root = root, .step = 1, .keep = 2}, path));
  check_flushed(path);
}

/* A save of the same step replaces the first one, which is renamed first. */
static void test_checkpoint_that_replaces_one(void **state) {
  (void)state;
  char path[TRI_PATH_BYTES];
  CHECK_OK(ct_do_save(&(ct_save){.root = root, .step = 1, .keep = 2}, path));
  num_events = 0;
  CHECK_OK(ct_do_save(&(ct_save){.root = root, .step = 1, .variant = 1, .keep = 2}, path));
  check_flushed(path);
}

static void test_small_file(void **state) {
  (void)state;
  char path[TRI_PATH_BYTES];
  CHECK_OK(tri_file_replace(ct_join(path, root, "small"), "text", 4));
  const int renamed = renamed_to(path);
  assert_true(flushed_before(renamed, inode_of(path)) >= 0);
  assert_true(flushed_after(renamed, inode_of(root)) > renamed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_checkpoint, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_checkpoint_that_replaces_one, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_small_file, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
