/* `prepare --force` killed, or with a failing system call, at each of its calls that change the disk: afterwards the
 * old corpus or the new one is complete, and files of both are never read together without an error. The linker puts
 * the functions below in the place of the system's (cmake/tests.cmake). */
#include "data/corpus.h"
#include "files/file_transaction.h"
#include "prepare_test.h"
#include "sanitized.h"
#include "tokenizer/tokenizer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- faults ------------------------------------------------------------------------------------------------------ */

typedef enum fault_kind { NO_FAULT, KILL, FAIL, READ_ONLY } fault_kind;

static fault_kind fault;
static atomic_int calls;
static int fault_at; /* index of the failing call, from 1 */

/* Counts a call. Returns true if the call must fail, with errno. A kill happens after half of the bytes are written. */
static bool strikes(int file, const void *data, size_t bytes) {
  extern ssize_t __real_write(int, const void *, size_t);
  if (fault == READ_ONLY) {
    errno = EROFS;
    return true;
  }
  if (fault == NO_FAULT || atomic_fetch_add(&calls, 1) + 1 != fault_at) return false;
  if (fault == KILL) {
    if (bytes > 1) (void)!__real_write(file, data, bytes / 2);
    raise(SIGKILL);
  }
  errno = ENOSPC;
  return true;
}

#define WRAP(result, name, parameters, arguments)                                                                      \
  extern result __real_##name parameters;                                                                              \
  extern result __wrap_##name parameters;                                                                              \
  result __wrap_##name parameters { return strikes(-1, NULL, 0) ? -1 : __real_##name arguments; }

WRAP(int, ftruncate, (int file, off_t bytes), (file, bytes))
WRAP(int, rename, (const char *from, const char *to), (from, to))
WRAP(int, unlink, (const char *path), (path))
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode))
WRAP(int, rmdir, (const char *path), (path))

/* A killed process does not lose written pages, so the disk is not waited for. */
extern int __wrap_fsync(int file);
int __wrap_fsync(int file) {
  (void)file;
  return strikes(-1, NULL, 0) ? -1 : 0;
}

extern ssize_t __real_write(int file, const void *data, size_t bytes);
extern ssize_t __wrap_write(int file, const void *data, size_t bytes);
ssize_t __wrap_write(int file, const void *data, size_t bytes) {
  return strikes(file, data, bytes) ? -1 : __real_write(file, data, bytes);
}

extern int __real_open(const char *path, int flags, ...);
extern int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) {
  if ((flags & O_CREAT) == 0) return __real_open(path, flags);
  return strikes(-1, NULL, 0) ? -1 : __real_open(path, flags, 0666);
}

/* ---- generations ------------------------------------------------------------------------------------------------- */

/* Input of a corpus: lines of this letter, so that the corpus's text identifies it. */
typedef struct generation {
  char letter;
  double validation; /* 0: none */
  const char *tokenizer;
} generation;

static const generation none = {0};

static void write_input(void **state, char letter) {
  enum { LINES = 200 };
  char text[LINES * 4 + 1], name[8] = {letter, '.', 't', 'x', 't', '\0'};
  for (int i = 0; i < LINES; i++) memcpy(text + 4 * i, (char[]){letter, letter, letter, '\n'}, 4);
  write_file(state, name, text, LINES * 4);
}

static job *new_generation_job(void **state, const generation *g) {
  char name[8] = {g->letter, '.', 't', 'x', 't', '\0'};
  job *j = new_job(state, name);
  j->options.validation = g->validation;
  j->options.tokenizer = g->tokenizer;
  j->options.force = true;
  j->options.threads = 1;
  return j;
}

static void prepare_generation(void **state, const generation *g) {
  job *j = new_generation_job(state, g);
  assert_ok(prepare_it(j));
  free(j);
}

/* Returns the letter of the first token of a corpus, or 0 if it cannot be opened. Reads all of it, as training would.
 * */
static char letter_of(const char *folder, const char *name, const tri_tokenizer *tokenizer, tri_corpus **out) {
  char prefix[TRI_PATH_BYTES];
  assert_ok(tri_path_join(prefix, folder, name));
  if (tri_corpus_open(prefix, out) != TRI_OK) return 0;
  int64_t count = tri_corpus_num_tokens(*out);
  int32_t *ids = malloc((size_t)count * sizeof *ids);
  assert_non_null(ids);
  assert_ok(tri_corpus_read(*out, 0, count, 400, ids));
  size_t bytes = 0;
  char letter = tri_tokenizer_token(tokenizer, ids[0], &bytes)[0];
  free(ids);
  return letter;
}

static tri_status open_tokenizer(const char *folder, tri_tokenizer **out) {
  char path[TRI_PATH_BYTES];
  assert_ok(tri_path_join(path, folder, "tokenizer.json"));
  return tri_tokenizer_create(path, out);
}

static bool exists(const char *folder, const char *name) {
  char path[TRI_PATH_BYTES];
  assert_ok(tri_path_join(path, folder, name));
  return tri_path_exists(path);
}

static bool is_whole(const char *folder, const generation *g) {
  if (g->letter == 0) {
    for (const char *const *name = tri_file_transaction_names; *name != NULL; name++) {
      if (exists(folder, *name)) return false;
    }
    return true;
  }
  tri_tokenizer *tokenizer = NULL;
  tri_corpus *corpora[2] = {NULL, NULL};
  if (!exists(folder, "tokenizer.json")) return false;
  assert_ok(open_tokenizer(folder, &tokenizer));
  bool whole = letter_of(folder, "train", tokenizer, &corpora[0]) == g->letter;
  if (g->validation > 0) whole &= letter_of(folder, "validation", tokenizer, &corpora[1]) == g->letter;
  if (g->validation == 0) whole &= !exists(folder, "validation.bin") && !exists(folder, "validation.idx");
  for (int i = 0; i < 2; i++) {
    if (whole && corpora[i] != NULL) assert_ok(tri_corpus_check_tokenizer(corpora[i], tokenizer, "the folder's"));
    tri_corpus_close(corpora[i]);
  }
  tri_tokenizer_destroy(tokenizer);
  return whole;
}

/* Checks a copy of the visible files of the folder, without names that begin with a dot, and so without the means to
 * complete an interrupted replacement: all corpora that can be opened are of one generation, and record it. */
static void check_visible(void **state, const char *folder) {
  char seen[TRI_PATH_BYTES], from[TRI_PATH_BYTES], to[TRI_PATH_BYTES];
  in_folder(state, "seen", seen);
  assert_ok(tri_directory_remove(seen));
  assert_ok(tri_directory_create(seen));
  for (const char *const *name = tri_file_transaction_names; *name != NULL; name++) {
    assert_ok(tri_path_join(from, folder, *name));
    assert_ok(tri_path_join(to, seen, *name));
    if (tri_path_exists(from)) assert_int_equal(link(from, to), 0);
  }
  tri_tokenizer *tokenizer = NULL;
  if (open_tokenizer(seen, &tokenizer) != TRI_OK) return;
  char letters[2];
  static const char *const names[] = {"train", "validation"};
  for (int i = 0; i < 2; i++) {
    tri_corpus *corpus = NULL;
    letters[i] = letter_of(seen, names[i], tokenizer, &corpus);
    if (corpus != NULL) assert_string_not_equal(tri_corpus_tokenizer(corpus), "");
    if (corpus != NULL && tri_corpus_check_tokenizer(corpus, tokenizer, "t") != TRI_OK) letters[i] = 0;
    tri_corpus_close(corpus);
  }
  tri_tokenizer_destroy(tokenizer);
  if (letters[0] != 0 && letters[1] != 0) assert_int_equal(letters[0], letters[1]);
}

/* Counts files whose names begin with a dot. */
static int count_hidden(const char *folder) {
  int count = 0;
  DIR *directory = opendir(folder);
  assert_non_null(directory);
  for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    count += entry->d_name[0] == '.' && strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
  }
  closedir(directory);
  return count;
}

/* ---- the test ---------------------------------------------------------------------------------------------------- */

typedef enum outcome { SUCCEEDED, FAILED, DIED, UNTOUCHED } outcome; /* UNTOUCHED: it made fewer calls, and succeeded */

/* Runs in a child, with a fault at its n-th call: prepare, or with j NULL opening the corpus in the folder. */
static outcome run_with_fault(fault_kind kind, int at, const job *j, const char *folder) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    fault = kind;
    fault_at = at;
    if (freopen("/dev/null", "w", stderr) == NULL) _exit(9);
    tri_corpus *corpus = NULL;
    char prefix[TRI_PATH_BYTES];
    if (j == NULL && tri_path_join(prefix, folder, "train") != TRI_OK) _exit(9);
    tri_status status = j != NULL ? prepare_it(j) : tri_corpus_open(prefix, &corpus);
    _exit(status != TRI_OK ? FAILED : atomic_load(&calls) < at ? UNTOUCHED : SUCCEEDED);
  }
  int how = 0;
  assert_int_equal(waitpid(child, &how, 0), child);
  if (WIFSIGNALED(how)) {
    assert_int_equal(WTERMSIG(how), SIGKILL);
    return DIED;
  }
  assert_in_range(WEXITSTATUS(how), SUCCEEDED, UNTOUCHED);
  return (outcome)WEXITSTATUS(how);
}

static void start_over(void **state, const char *folder, const generation *old) {
  assert_ok(tri_directory_remove(folder));
  assert_ok(tri_directory_create(folder));
  if (old->letter != 0) prepare_generation(state, old);
}

/* Opens the corpus like the first process after a crash, with reader `which` of three. A reader without write
 * permission fails with a message about the permission. */
static void look(const char *folder, int which) {
  tri_corpus *corpus = NULL;
  tri_tokenizer *tokenizer = NULL;
  char prefix[TRI_PATH_BYTES];
  bool pending = exists(folder, ".prepare-whole/members");
  assert_ok(tri_path_join(prefix, folder, which == 0 ? "train" : "validation"));
  if (pending) {
    fault = READ_ONLY;
    assert_failure(tri_corpus_open(prefix, &corpus), TRI_IO_FAILED,
                   "has parts of two corpora: `trireme prepare` ended");
    assert_non_null(strstr(tri_status_message(), "Read-only file system); run the command as a user who may write"));
    fault = NO_FAULT;
  }
  if (which == 2) {
    if (open_tokenizer(folder, &tokenizer) == TRI_OK) tri_tokenizer_destroy(tokenizer);
  } else if (tri_corpus_open(prefix, &corpus) == TRI_OK) {
    tri_corpus_close(corpus);
  }
}

/* Applies one kind of fault at all calls, one by one. */
static void strike_everywhere(void **state, fault_kind kind, const generation *old, const generation *new) {
  const generation later = {'z', 0.1, "bytes"};
  job *j = new_generation_job(state, new);
  bool was_new = false;
  outcome result = DIED;
  int at = 1, counts[2] = {0, 0};
  for (; at < 1000; at++) {
    start_over(state, j->out, old);
    result = run_with_fault(kind, at, j, NULL);
    if (result == UNTOUCHED) break;
    check_visible(state, j->out);
    look(j->out, at % 3);
    bool is_new = is_whole(j->out, new);
    if (!is_new && !is_whole(j->out, old)) fail_msg("call %d: neither the old nor the new one", at);
    if (was_new && !is_new) fail_msg("call %d: the old one came back", at);
    if (kind == FAIL && result == FAILED && !is_new) assert_int_equal(count_hidden(j->out) > 1, 0);
    was_new = kind == KILL && is_new;
    counts[is_new]++;
    prepare_generation(state, &later);
    assert_true(is_whole(j->out, &later));
    assert_int_equal(count_hidden(j->out), 0);
  }
  assert_int_equal(result, UNTOUCHED);
  assert_true(counts[0] > 20 && counts[1] > 5);
  print_message("%d faults: %d times the old corpus is left, %d times the new one\n", at - 1, counts[0], counts[1]);
  free(j);
}

static void write_inputs(void **state) {
  write_input(state, 'a');
  write_input(state, 'b');
  write_input(state, 'z');
}

static const generation a_both = {'a', 0.2, "bytes"}, b_both = {'b', 0.2, "train:257"};
static const generation a_train = {'a', 0, "bytes"}, b_train = {'b', 0, "train:257"};

static void survives_kills(void **state) {
  write_inputs(state);
  strike_everywhere(state, KILL, &a_both, &b_both);
}

/* Only the records show which files belong together. */
static void survives_kills_with_one_tokenizer(void **state) {
  const generation b_bytes = {'b', 0.2, "bytes"};
  write_inputs(state);
  strike_everywhere(state, KILL, &a_both, &b_bytes);
}

static void survives_kills_with_validation_gone(void **state) {
  write_inputs(state);
  strike_everywhere(state, KILL, &a_both, &b_train);
}

static void survives_kills_with_validation_new(void **state) {
  write_inputs(state);
  strike_everywhere(state, KILL, &a_train, &b_both);
}

static void survives_kills_of_the_first(void **state) {
  write_inputs(state);
  strike_everywhere(state, KILL, &none, &b_both);
}

static void survives_failures(void **state) {
  write_inputs(state);
  strike_everywhere(state, FAIL, &a_both, &b_both);
}

/* A process that completes the work of a killed one may be killed, too. */
static void survives_kills_of_readers(void **state) {
  write_inputs(state);
  job *j = new_generation_job(state, &b_train);
  int deaths = 0, pending = 0;
  for (int at = 1; at < 1000; at++) {
    start_over(state, j->out, &a_both);
    if (run_with_fault(KILL, at, j, NULL) == UNTOUCHED) break;
    if (!exists(j->out, ".prepare-whole/members")) continue;
    pending++;
    for (int reader = 1; run_with_fault(KILL, reader, NULL, j->out) == DIED; reader++) {
      deaths++;
      check_visible(state, j->out);
    }
    assert_true(is_whole(j->out, &b_train));
  }
  assert_true(pending > 5 && deaths > 20);
  free(j);
}

/* Kills at random moments; TRIREME_KILLS=1000 sets their number. */
static void survives_kills_at_random(void **state) {
  const char *wanted = getenv("TRIREME_KILLS");
  int kills = wanted != NULL ? atoi(wanted) : SANITIZED ? 8 : 20, counts[2] = {0, 0};
  uint64_t random = 11;
  char out[TRI_PATH_BYTES];
  write_inputs(state);
  start_over(state, in_folder(state, "out", out), &a_both);
  const generation *now = &a_both;
  for (int i = 0; i < kills; i++) {
    const generation *next = now == &a_both ? &b_train : &a_both;
    job *j = new_generation_job(state, next);
    pid_t child = fork();
    if (child == 0) _exit(freopen("/dev/null", "w", stderr) != NULL && prepare_it(j) == TRI_OK ? 0 : 1);
    random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
    usleep((useconds_t)(random >> 33) % 30000);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    check_visible(state, j->out);
    look(j->out, 0);
    bool is_new = is_whole(j->out, next);
    assert_true(is_new || is_whole(j->out, now));
    if (is_new) now = next;
    counts[is_new]++;
    free(j);
  }
  print_message("%d kills: %d times the old corpus is left, %d times the new one\n", kills, counts[0], counts[1]);
}

/* ---- two at once ------------------------------------------------------------------------------------------------- */

typedef struct gate {
  int told[2], released[2];
  bool passed;
} gate;

/* Called between blocks: reports that the work is in progress, and waits. */
static bool wait_at_gate(void *context) {
  gate *g = context;
  char byte = 0;
  if (g->passed) return false;
  g->passed = true;
  if (write(g->told[1], &byte, 1) != 1 || read(g->released[0], &byte, 1) != 1) _exit(3);
  return false;
}

static void refuses_two_at_once(void **state) {
  gate g = {0};
  char byte = 0, out[TRI_PATH_BYTES];
  write_inputs(state);
  start_over(state, in_folder(state, "out", out), &a_both);
  assert_int_equal(pipe(g.told), 0);
  assert_int_equal(pipe(g.released), 0);
  const generation held = {'b', 0.2, "bytes"}; /* learning a vocabulary would come before the lock */
  job *first = new_generation_job(state, &held), *second = new_generation_job(state, &a_train);
  first->options.interrupted = wait_at_gate;
  first->options.context = &g;
  pid_t child = fork();
  if (child == 0) {
    close(g.released[1]); /* else the child would wait for ever if the test fails */
    _exit(prepare_it(first) == TRI_OK ? 0 : 1);
  }
  close(g.told[1]);
  assert_int_equal(read(g.told[0], &byte, 1), 1);
  assert_failure(prepare_it(second), TRI_BAD_USAGE, "another `trireme prepare` is writing to ");
  assert_true(is_whole(first->out, &a_both)); /* the old corpus can be read meanwhile */
  assert_int_equal(write(g.released[1], &byte, 1), 1);
  int how = 0;
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
  assert_true(is_whole(first->out, &held));
  assert_int_equal(count_hidden(first->out), 0);
  free(first);
  free(second);
}

/* ---- obstacles --------------------------------------------------------------------------------------------------- */

static void names_what_is_wrong(void **state) {
  char path[TRI_PATH_BYTES];
  write_inputs(state);
  job *j = new_generation_job(state, &b_both);
  start_over(state, j->out, &a_both);
  /* A folder with the name of a file is refused before the work. */
  assert_ok(tri_path_join(path, j->out, "train.idx"));
  assert_int_equal(unlink(path), 0);
  assert_ok(tri_directory_create(path));
  assert_failure(prepare_it(j), TRI_BAD_USAGE, "train.idx is a folder, and a file of the corpus has this name");
  assert_int_equal(rmdir(path), 0);
  /* A list from elsewhere, or a truncated one: files that are not members would be removed. */
  static const char whole[] = "train.bin\ntrain.idx\ntrain.corpus.json\ntokenizer.json\n";
  static const char *const lists[] = {
      "",           "../../etc/passwd\n",
      "train.bin",  "train.bin\n\ntrain.idx\n",
      "\xff\xfe\n", "train.bin\ntrain.idx\ntrain.corpus.json\n",
      whole + 1,    "train.bin\ntrain.idx\ntrain.corpus.json\nvalidation.bin\ntokenizer.json\n"};
  assert_ok(tri_path_join(path, j->out, ".prepare-whole"));
  assert_ok(tri_directory_create(path));
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
    write_text(state, "out/.prepare-whole/members", lists[i]);
    assert_failure(prepare_it(j), TRI_BAD_FILE, "/.prepare-whole/members is damaged; ");
  }
  write_file(state, "out/.prepare-whole/members", whole, sizeof whole); /* and a NUL */
  assert_failure(prepare_it(j), TRI_BAD_FILE, "/.prepare-whole/members is damaged; ");
  /* A list that names a missing file. */
  write_text(state, "out/.prepare-whole/members", whole);
  assert_failure(prepare_it(j), TRI_BAD_FILE,
                 "train.idx is gone, and it belonged to the corpus that was being put into");
  assert_true(exists(j->out, "validation.bin")); /* no file is removed before all new ones exist */
  free(j);
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, make_folder, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(survives_kills),
      TEST(survives_kills_with_one_tokenizer),
      TEST(survives_kills_with_validation_gone),
      TEST(survives_kills_with_validation_new),
      TEST(survives_kills_of_the_first),
      TEST(survives_failures),
      TEST(survives_kills_of_readers),
      TEST(survives_kills_at_random),
      TEST(refuses_two_at_once),
      TEST(names_what_is_wrong),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
