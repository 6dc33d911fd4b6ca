/* The board's series of metrics, compared with the numbers that jansson reads from the same lines; and its columns of
 * pixels, compared with sums over all steps. */
#include "base/memory.h"
#include "base/random.h"
#include "board/series.h"
#include "check.h"
#include "files/file.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static uint32_t draw(uint64_t *index) { return tri_random_u32(tri_random_stream(23, TRI_RANDOM_TEST, 0), (*index)++); }

/* ---- a line ------------------------------------------------------------------------------------------------------ */

static bool near(double a, double b) {
  return (isnan(a) && isnan(b)) || a == b || fabs(a - b) <= 1e-14 * fabs(b) + 1e-300;
}

static double real_in(const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  return json_is_number(value) ? json_number_value(value) : NAN;
}

static double mean_in(const json_t *layers, const char *key) {
  double sum = 0;
  for (size_t i = 0; i < json_array_size(layers); i++) sum += real_in(json_array_get(layers, i), key);
  return json_array_size(layers) == 0 ? NAN : sum / (double)json_array_size(layers);
}

static double wanted_in(const json_t *object, tri_board_column column) {
  const json_t *experts = json_object_get(object, "experts"), *sources = json_object_get(object, "sources");
  if ((int)column < TRI_BOARD_OWN_COLUMNS) return real_in(object, tri_board_column_name(column));
  if (column == TRI_BOARD_EXPERT_LOAD) return mean_in(experts, "max_over_mean");
  if (column == TRI_BOARD_EXPERT_EVENNESS) return mean_in(experts, "entropy");
  return real_in(json_array_get(sources, (size_t)(column - TRI_BOARD_SOURCE_1)), "share");
}

/* Returns the last number of that name in the line, or NaN. */
static double named_in(const tri_board_line *line, const char *name) {
  for (int64_t i = line->num_named - 1; i >= 0; i--) {
    const tri_board_named *number = &line->named[i];
    if (strlen(name) == number->bytes && memcmp(name, number->name, number->bytes) == 0) return number->value;
  }
  return NAN;
}

/* Returns whether the fast reader accepts a line. With `whole`, checks that jansson reads the same numbers from the
 * line, or that both refuse it. */
static bool compare_line(const char *line, size_t bytes, bool whole) {
  char *copy = malloc(bytes > 0 ? bytes : 1); /* the exact length: AddressSanitizer finds a read past the end */
  tri_board_line found;
  assert_non_null(copy);
  memcpy(copy, line, bytes);
  bool taken = tri_board_line_read(copy, bytes, &found);
  if (!whole) {
    free(copy);
    return taken;
  }
  json_t *object = json_loadb(line, bytes, JSON_ALLOW_NUL, NULL), *step = json_object_get(object, "step");
  bool wanted = json_is_integer(step) && json_integer_value(step) > 0;
  if (taken != wanted) fail_msg("taken %d, not %d: %.*s", taken, wanted, (int)bytes, line);
  if (taken) {
    assert_int_equal(found.step, json_integer_value(step));
    for (int c = 0; c < TRI_BOARD_COLUMNS; c++) {
      double value = wanted_in(object, (tri_board_column)c);
      if (!near(found.values[c], value)) fail_msg("%g, not %g: %.*s", found.values[c], value, (int)bytes, line);
    }
    json_t *share = found.share == NULL ? NULL : json_loadb(line + (found.share - copy), found.share_bytes, 0, NULL);
    json_t *wanted_share = json_object_get(object, "share");
    assert_true(json_is_object(wanted_share) ? json_equal(share, wanted_share) : share == NULL);
    json_decref(share);
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach(object, key, value) {
      const bool is_named = strcmp(key, "rewards/chosen") == 0 || strcmp(key, "validation/x_1/b.c-d") == 0;
      if (!is_named) assert_true(isnan(named_in(&found, key)));
      if (is_named) assert_true(near(named_in(&found, key), real_in(object, key)));
    }
  }
  free(copy);
  json_decref(object);
  return taken;
}

/* A line with a metric whose name is too long. */
static const char long_name[] =
    "{\"step\": 2, "
    "\"a/bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
    "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\": 1, \"kl\": 5}";

static void reads_what_jansson_reads(void **state) {
  (void)state;
  static const char *const lines[] = {
      "{\"step\": 1, \"loss\": 10.5, \"grad_norm\": 1e-3, \"lr\": 6E-4, \"tokens\": 8192, \"tokens_per_s\": 1e5}",
      "{\"step\": 1, \"loss\": null, \"mfu\": -0.0, \"peak_bytes\": 18446744073, \"bad_steps\": 0}",
      " {\"loss\":0.1234567890123456789012345,\"step\":9007199254740993} ",
      "{\"step\": 3, \"loss\": 1.7976931348623157e308, \"lr\": 4.9406564584124654e-320}",
      "{\"step\": 3, \"mfu\": 2.2250738585072014e-308}",
      "{\"step\": 3, \"loss\": 123456789012345678, \"lr\": 0.000000000000000000000012345}",
      "{\"sources\": [{\"share\": 1, \"step\": 7}], \"step\": 2, \"a\\\"step\": 5}",
      "{\"step\": 2, \"experts\": [[{\"loss\": 3}]], \"loss\": 4}",
      "{\"step\": 2, \"router_loss\": 0.25, \"experts\": [{\"max_over_mean\": 1.5, \"entropy\": 1, \"load\": [3, 1]}]}",
      "{\"step\": 2, \"experts\": [{\"max_over_mean\": 1.5}, {\"max_over_mean\": 2.75}, {\"max_over_mean\": 1}]}",
      "{\"step\": 2, \"sources\": [{\"share\": 0.75}, {\"share\": 0.25}, 7, {\"share\": null}, [], {}]}",
      "{\"step\": 2, \"sources\": [1,2,3,4,5,6, {\"share\": 1}, {\"share\": 2}, {\"share\": 3}]}",
      "{\"step\": 2, \"sources\": {\"share\": 3}, \"experts\": null, \"loss\": 4}",
      "{\"step\": 2, \"sources\": [{\"share\": 0.5,}]}",
      "{\"step\": 2, \"sources\": [{\"share\": 0.5},]}",
      "{\"step\": 2, \"experts\": [{\"max_over_mean\": 1}",
      "{\"step\": 2, \"experts\": []}",
      "{\"step\": 2, \"share\": {\"compute\": 0.5, \"hidden\": {\"tensor\": 0}}, \"loss\": 1}",
      "{\"step\": 2, \"share\": 0.5}",
      "{\"step\": 2, \"kl\": 0.5, \"rewards/chosen\": -1.5, \"x\": 1, \"validation/x_1/b.c-d\": 7, \"loss\": 2}",
      "{\"step\": 2, \"rewards/chosen\": null, \"validation/x_1/b.c-d\": \"7\"}",
      "{\"step\": 2, \"rewards/chosen\": [1], \"/\": 2, \"a/\": 3, \"/a\": 4, \"a//b\": 5, \"a b/c\": 6}",
      "{\"step\": 2, \"<b>/c\": 1, \"a/b'c\": 2, \"a\\\"/b\": 3, \"\u00e9/b\": 4, \"rewards/chosen\": 5}",
      long_name,
      "{\"step\": 4, \"loss\": true, \"x\": \"}\", \"y\": {\"]\": []}}",
      "{\"step\": 5.0, \"loss\": 3}",
      "{\"step\": 1e3}",
      "{\"step\": 0}",
      "{\"step\": -3}",
      "{\"loss\": 3}",
      "[]",
      "",
      "{}",
      "3",
      "{\"step\": 1, \"loss\": }",
      "{\"step\": 1,}",
      "{\"step\": 1 \"loss\": 2}",
      "{\"step\": 1} x",
      "{\"step\": 1}{\"step\": 2}",
      "{\"step\": 3, \"lo{\"step\": 4, \"loss\": 2}",
      "{\"step\": 1, \"loss\": 3.}",
      "{\"step\": 1, \"loss\": -}",
      "{\"step\": \"1\"}",
  };
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) compare_line(lines[i], strlen(lines[i]), true);
}

/* No proper prefix of a line is accepted. */
static void refuses_what_is_half_written(void **state) {
  (void)state;
  static const char line[] = "{\"step\": 12, \"loss\": 1.5e-3, \"sources\": [{\"share\": 1}], \"bad_steps\": 0}";
  for (size_t bytes = 0; bytes < sizeof line - 1; bytes++) assert_false(compare_line(line, bytes, true));
  assert_true(compare_line(line, sizeof line - 1, true));
}

/* Lines in the form that tri_metrics_step writes. */
static void reads_numbers_of_all_sizes(void **state) {
  (void)state;
  uint64_t at = 0;
  for (int i = 0; i < 20000; i++) {
    char line[200];
    double value = ldexp((double)draw(&at) + draw(&at) / 4294967296.0, (int)(draw(&at) % 600) - 330);
    int bytes =
        snprintf(line, sizeof line, "{\"step\": %d, \"loss\": %.*g, \"lr\": %s%.*g}", i + 1, 1 + (int)(draw(&at) % 17),
                 value, draw(&at) % 2 ? "-" : "", 15 + (int)(draw(&at) % 3), 1 / value);
    compare_line(line, (size_t)bytes, true);
  }
}

static void survives_damage(void **state) {
  (void)state;
  uint64_t at = 1000000;
  for (int i = 0; i < 50000; i++) {
    char line[] = "{\"step\": 12, \"loss\": 1.5e-3, \"sources\": [{\"share\": \"\\\"\"}], \"bad_steps\": 0}";
    static const char letters[] = "{}[]\",:\\-+.eE019 nt\0s";
    for (uint32_t k = 0; k <= draw(&at) % 3; k++)
      line[draw(&at) % (sizeof line - 1)] = letters[draw(&at) % (sizeof letters - 1)];
    compare_line(line, sizeof line - 1, false);
  }
}

/* ---- a file ------------------------------------------------------------------------------------------------------ */

typedef struct fixture {
  char folder[64], path[TRI_PATH_BYTES];
  tri_series series;
} fixture;

static int make_folder(void **state) {
  fixture *f = calloc(1, sizeof *f);
  if (f == NULL) return -1;
  strcpy(f->folder, "/tmp/trireme-board-XXXXXX");
  if (mkdtemp(f->folder) == NULL) return -1;
  *state = f;
  f->series.root = f->folder;
  strcpy(f->series.path, "metrics.jsonl");
  return tri_path_join(f->path, f->folder, "metrics.jsonl") == TRI_OK ? 0 : -1;
}

static int remove_folder(void **state) {
  fixture *f = *state;
  tri_series_release(&f->series);
  tri_status status = tri_directory_remove(f->folder);
  free(f);
  assert_int_equal(tri_memory_bytes(), 0);
  return status == TRI_OK ? 0 : -1;
}

static void put(const fixture *f, const char *mode, const char *text) {
  FILE *to = fopen(f->path, mode);
  assert_non_null(to);
  fputs(text, to);
  fclose(to);
}

static void write_steps(const fixture *f, const char *mode, int first, int last, double loss) {
  FILE *to = fopen(f->path, mode);
  assert_non_null(to);
  for (int i = first; i <= last; i++) {
    fprintf(to, "{\"step\": %d, \"loss\": %g, \"tokens\": %d, \"step_s\": 0.5}\n", i, loss + i, 8 * i);
  }
  fclose(to);
}

static void read_all(fixture *f) {
  bool more = true;
  while (more) CHECK_OK(tri_series_read(&f->series, 1, &more));
}

static void check_steps(const tri_series *s, int64_t count, double loss_of_last) {
  assert_int_equal(s->count, count);
  for (int64_t i = 0; i < count; i++) {
    assert_int_equal(s->steps[i], i + 1);
    assert_int_equal(s->tokens[i], 8 * (i + 1));
    assert_true(fabs(s->seconds[i] - 0.5 * (double)(i + 1)) < 1e-9);
  }
  if (count > 0) assert_true((double)s->columns[TRI_BOARD_LOSS][count - 1] == loss_of_last);
}

static void follows_what_is_added(void **state) {
  fixture *f = *state;
  write_steps(f, "w", 1, 3, 0);
  read_all(f);
  check_steps(&f->series, 3, 3);
  int64_t version = f->series.version;
  read_all(f);
  assert_int_equal(f->series.version, version); /* nothing new */
  put(f, "a", "{\"step\": 4, \"loss\": 4, \"to");
  read_all(f);
  check_steps(&f->series, 3, 3);
  put(f, "a", "kens\": 32, \"step_s\": 0.5}");
  read_all(f);
  check_steps(&f->series, 3, 3); /* whole, and still without its newline */
  put(f, "a", "\n");
  read_all(f);
  check_steps(&f->series, 4, 4);
  assert_int_equal(f->series.rewinds + f->series.num_odd, 0);
}

/* A resumed run truncates the file to its checkpoint, and writes the steps after the checkpoint again. */
static void follows_a_file_that_was_cut(void **state) {
  fixture *f = *state;
  write_steps(f, "w", 1, 9, 0);
  read_all(f);
  write_steps(f, "w", 1, 4, 0);
  read_all(f);
  check_steps(&f->series, 4, 4);
  assert_int_equal(f->series.rewinds, 1);
  write_steps(f, "w", 1, 4, 0);
  write_steps(f, "a", 5, 30, 0.5); /* longer than the file ever was when it is read again */
  read_all(f);
  check_steps(&f->series, 30, 30.5);
  assert_int_equal(f->series.columns[TRI_BOARD_LOSS][3] == 4.0F, 1);
}

static void follows_a_file_that_was_replaced(void **state) {
  fixture *f = *state;
  write_steps(f, "w", 1, 9, 0);
  read_all(f);
  assert_int_equal(unlink(f->path), 0);
  bool more = true;
  CHECK_FAILS(tri_series_read(&f->series, 1, &more), TRI_BAD_FILE, "metrics.jsonl");
  assert_false(more);
  check_steps(&f->series, 9, 9); /* the steps that were read before are kept */
  write_steps(f, "w", 1, 12, 100);
  read_all(f);
  check_steps(&f->series, 12, 112);
}

/* If steps are repeated without the file being truncated, the newer ones count. */
static void takes_the_newer_of_two(void **state) {
  fixture *f = *state;
  write_steps(f, "w", 1, 9, 0);
  write_steps(f, "a", 5, 7, 100);
  read_all(f);
  check_steps(&f->series, 7, 107);
  assert_true(f->series.columns[TRI_BOARD_LOSS][3] == 4.0F && f->series.columns[TRI_BOARD_LOSS][4] == 105.0F);
  assert_int_equal(f->series.rewinds, 1);
}

/* Impossible step times are left out; the sum remains one. */
static void sums_what_is_a_time(void **state) {
  fixture *f = *state;
  put(f, "w", "{\"step\": 1, \"step_s\": 0.5}\n{\"step\": 2, \"step_s\": 1e308}\n{\"step\": 3, \"step_s\": 1e308}\n");
  put(f, "a", "{\"step\": 4, \"step_s\": -1}\n{\"step\": 5, \"step_s\": 0.5}\n");
  read_all(f);
  assert_int_equal(f->series.count, 5);
  assert_true(f->series.seconds[3] == 0.5 && f->series.seconds[4] == 1.0);
}

/* A long file keeps at most the largest number of steps. After a truncation it is read again. */
static void holds_as_much_as_it_may(void **state) {
  fixture *f = *state;
  f->series.most = 7;
  write_steps(f, "w", 1, 20, 0);
  read_all(f);
  check_steps(&f->series, 7, 7);
  assert_true(tri_series_is_full(&f->series) && f->series.offset < f->series.bytes);
  int64_t version = f->series.version;
  write_steps(f, "a", 21, 30, 0);
  read_all(f);
  check_steps(&f->series, 7, 7);
  assert_int_equal(f->series.version, version);
  assert_int_equal(f->series.num_odd, 0);
  write_steps(f, "w", 1, 5, 100);
  read_all(f);
  check_steps(&f->series, 5, 105);
  assert_false(tri_series_is_full(&f->series));
  write_steps(f, "a", 6, 30, 100);
  read_all(f);
  check_steps(&f->series, 7, 107);
}

static void passes_over_odd_lines(void **state) {
  fixture *f = *state;
  char *noise = calloc((3 << 20) + 1, 1);
  assert_non_null(noise);
  memset(noise, 'x', 3 << 20); /* longer than one read */
  put(f, "w", "\n{\"step\": 0}\nnonsense\n");
  write_steps(f, "a", 1, 2, 0);
  put(f, "a", noise);
  free(noise);
  read_all(f);
  check_steps(&f->series, 2, 2);
  put(f, "a", "\n");
  write_steps(f, "a", 3, 4, 0);
  put(f, "a", "{\"step\": 5, \"loss\": null, \"tokens\": 40, \"step_s\": 0.5}\n");
  read_all(f);
  assert_int_equal(f->series.count, 5);
  assert_true(isnan(f->series.columns[TRI_BOARD_LOSS][4]));
  assert_int_equal(f->series.num_odd, 4);
  assert_int_equal(f->series.offset, f->series.bytes);
}

static void reads_no_link_and_no_pipe(void **state) {
  fixture *f = *state;
  bool more = true;
  assert_int_equal(symlink("/etc/passwd", f->path), 0);
  CHECK_FAILS(tri_series_read(&f->series, 1, &more), TRI_BAD_FILE, "metrics.jsonl");
  assert_int_equal(unlink(f->path), 0);
  assert_int_equal(mkfifo(f->path, 0600), 0);
  CHECK_FAILS(tri_series_read(&f->series, 1, &more), TRI_BAD_FILE, "not a plain file");
}

/* The result does not depend on how the file is divided into reads. */
static void does_not_depend_on_when_it_is_read(void **state) {
  fixture *f = *state;
  uint64_t at = 5;
  char text[4096];
  size_t bytes = 0;
  for (int i = 1; i <= 40; i++) {
    bytes += (size_t)snprintf(text + bytes, sizeof text - bytes,
                              "{\"step\": %d, \"loss\": %d, \"tokens\": %d, \"step_s\": 0.5}\n", i, i, 8 * i);
  }
  for (size_t done = 0; done < bytes;) {
    size_t piece = 1 + draw(&at) % 70;
    char part[80] = "";
    memcpy(part, text + done, piece < bytes - done ? piece : bytes - done);
    put(f, "a", part);
    done += strlen(part);
    read_all(f);
  }
  check_steps(&f->series, 40, 40);
}

/* A column takes no memory before it has a value. */
static void begins_columns_late(void **state) {
  fixture *f = *state;
  write_steps(f, "w", 1, 3000, 0);
  read_all(f);
  assert_null(f->series.columns[TRI_BOARD_ROUTER_LOSS]);
  assert_true(isnan(tri_series_value(&f->series, TRI_BOARD_ROUTER_LOSS, 7)));
  put(f, "a",
      "{\"step\": 3001, \"router_loss\": 2, \"sources\": [{\"share\": 0.25}, {\"share\": 0.75}], \"share\": {\"a\": "
      "1}}\n");
  write_steps(f, "a", 3002, 9000, 0);
  read_all(f);
  assert_true(tri_series_value(&f->series, TRI_BOARD_ROUTER_LOSS, 3000) == 2);
  assert_true(tri_series_value(&f->series, TRI_BOARD_SOURCE_2, 3000) == 0.75);
  assert_null(f->series.columns[TRI_BOARD_SOURCE_3]);
  for (int64_t i = 0; i < 9000; i++) {
    assert_true(i == 3000 || isnan(tri_series_value(&f->series, TRI_BOARD_ROUTER_LOSS, i)));
  }
  assert_string_equal(f->series.share, "{\"a\": 1}");
}

static void write_named(const fixture *f, int step, const char *name, double value) {
  FILE *to = fopen(f->path, "a");
  assert_non_null(to);
  fprintf(to, "{\"step\": %d, \"loss\": 1, \"b/first\": %d, \"%s\": %g}\n", step, step, name, value);
  fclose(to);
}

/* Numbers with any names, up to TRI_MOST_NAMED_METRICS of them. The names of an earlier run are removed with its file.
 */
static void holds_named_numbers(void **state) {
  fixture *f = *state;
  const tri_series *s = &f->series;
  write_steps(f, "w", 1, 2000, 0);
  read_all(f);
  assert_int_equal(s->num_named, 0);
  write_named(f, 2001, "a/second", 0.25);
  write_named(f, 2002, "validation/a/second", -3);
  write_named(f, 2003, "a/second", 1e60); /* more than a float holds */
  write_steps(f, "a", 2004, 5000, 0);
  read_all(f);
  assert_int_equal(s->num_named, 3);
  assert_string_equal(s->named[0].name, "b/first");
  assert_string_equal(s->named[1].name, "a/second");
  assert_string_equal(s->named[2].name, "validation/a/second");
  for (int64_t i = 0; i < 5000; i++) {
    assert_true(s->steps[i] >= 2001 && s->steps[i] <= 2003 ? s->named[0].values[i] == (float)s->steps[i]
                                                           : isnan(s->named[0].values[i]));
    assert_true(i == 2001 || isnan(s->named[2].values[i]));
  }
  assert_true(s->named[1].values[2000] == 0.25F && s->named[2].values[2001] == -3.0F);
  assert_true(tri_series_is_noisy(s, TRI_BOARD_COLUMNS + 1) && !tri_series_is_noisy(s, TRI_BOARD_COLUMNS + 2));

  put(f, "w", "");
  for (int i = 1; i <= 2 * TRI_MOST_NAMED_METRICS; i++) {
    char name[20];
    snprintf(name, sizeof name, "n/%d", i);
    write_named(f, i, name, i);
  }
  read_all(f);
  assert_int_equal(s->count, 2 * TRI_MOST_NAMED_METRICS);
  assert_int_equal(s->num_named, TRI_MOST_NAMED_METRICS);
  assert_string_equal(s->named[TRI_MOST_NAMED_METRICS - 1].name, "n/511"); /* and "b/first" */
  assert_true(tri_series_size(s) > s->count);
}

/* Names without a part before '/', but for the keys of all lines and the other members of a run's curves. */
static void holds_names_of_one_part(void **state) {
  fixture *f = *state;
  const tri_series *s = &f->series;
  put(f, "w",
      "{\"step\": 1, \"x\": 1, \"reward\": 2, \"steps\": 3, \"source_1\": 4, \"tokens\": 5, \"lr\": 6, \"a b\": 7, "
      "\"wait_s\": "
      "8, \"no\": null, \"\": 9, \"text\": \"10\", \"/a\": 11, \"a//b\": 12, \"id\": 13}\n"
      "{\"step\": 2, \"wait_s\": 9}\n{\"step\": 3, \"reward\": 1, \"kl\": 2, \"wait_s\": 10}\n");
  read_all(f);
  assert_int_equal(s->num_named, 2);
  assert_string_equal(tri_series_name(s, TRI_BOARD_COLUMNS), "reward");
  assert_string_equal(tri_series_name(s, TRI_BOARD_COLUMNS + 1), "wait_s");
  assert_true(s->named[0].values[0] == 2 && isnan(s->named[0].values[1]) && s->named[0].values[2] == 1);
  assert_true(s->named[1].values[0] == 8 && s->named[1].values[1] == 9 && s->named[1].values[2] == 10);
}

/* ---- columns of pixels ------------------------------------------------------------------------------------------- */

enum { STEPS = 700, POINTS = 37 };

static void make_series(fixture *f, uint64_t seed) {
  uint64_t at = seed;
  FILE *to = fopen(f->path, "w");
  assert_non_null(to);
  for (int i = 1, step = 0; i <= STEPS; i++) {
    step += 1 + (int)(draw(&at) % 3);
    double loss = (double)draw(&at) / 1e9;
    fprintf(to, draw(&at) % 10 == 0 ? "{\"step\": %d, \"loss\": null" : "{\"step\": %d, \"loss\": %.9g", step, loss);
    if (i % 50 == 0) fprintf(to, ", \"validation_loss\": %g", loss);
    if (i % 3 == 0) fprintf(to, ", \"rewards/chosen\": %g", loss - 2);
    if (i % 40 == 0) fprintf(to, ", \"validation/rewards/chosen\": %g", loss);
    fprintf(to, ", \"tokens\": %d, \"step_s\": %g, \"bad_steps\": %d}\n", 100 * step,
            0.1 + (double)(draw(&at) % 100) / 100, i / 100);
  }
  fclose(to);
  read_all(f);
}

/* Returns the mean defined in the header, over all values up to i. */
static double smoothed_at(const float *values, int64_t i, double smoothing) {
  double sum = 0, weights = 0, weight = 1, keep = smoothing > 1 ? 1 - 1 / smoothing : 0;
  for (int64_t k = i; k >= 0; k--) {
    if (!isfinite(values[k])) continue;
    sum += weight * (double)values[k];
    weights += weight;
    weight *= keep;
  }
  return sum / weights;
}

static void check_bucket(const tri_series *s, const tri_bucket_request *r, int64_t at, int c, const tri_bucket *b) {
  double low = INFINITY, high = -INFINITY, sum = 0, wide = (r->to - r->from) / (double)r->points;
  int64_t count = 0, last = -1;
  for (int64_t i = 0; i < s->count; i++) {
    const float *values = tri_series_values(s, c);
    double x = tri_series_place(s, r->axis, i), value = values == NULL ? NAN : (double)values[i];
    bool inside = x >= r->from + wide * (double)at - 1e-9 &&
                  (x < r->from + wide * (double)(at + 1) - 1e-9 || at == r->points - 1) && x <= r->to;
    if (!inside || !isfinite(value)) continue;
    low = fmin(low, value), high = fmax(high, value), sum += value, count++, last = i;
  }
  assert_int_equal(b->count, count);
  if (count == 0) return;
  bool noisy = tri_series_is_noisy(s, c) && r->smoothing > 1;
  double middle = noisy ? smoothed_at(tri_series_values(s, c), last, r->smoothing) : sum / (double)count;
  assert_true(b->low == low && b->high == high);
  if (!(fabs(b->middle - middle) <= 1e-9 * (1 + fabs(middle))))
    fail_msg("column %d at %ld: %.12g, not %.12g", c, (long)at, b->middle, middle);
}

static void columns_are_what_lies_in_them(void **state) {
  fixture *f = *state;
  static tri_bucket_place places[POINTS];
  static tri_bucket buckets[(TRI_BOARD_COLUMNS + 2) * POINTS];
  /* Columns begin at halves of steps or tokens, so that no step is on a boundary. A time is on a boundary only by
   * chance. */
  const tri_bucket_request requests[] = {{TRI_BOARD_AXIS_STEP, 0.25, 37 * 40 + 0.25, POINTS, 1},
                                         {TRI_BOARD_AXIS_TOKENS, 20050, 20050 + 37 * 1000, POINTS, 20},
                                         {TRI_BOARD_AXIS_TIME, 3.01234567, 200.7654321, POINTS, 3.5},
                                         {TRI_BOARD_AXIS_STEP, -1000.5, 10000000.5, POINTS, 1}};
  make_series(f, 77);
  assert_int_equal(f->series.num_named, 2);
  for (size_t k = 0; k < sizeof requests / sizeof *requests; k++) {
    tri_series_buckets(&f->series, &requests[k], places, buckets);
    for (int64_t i = 0; i < (int64_t)POINTS * (TRI_BOARD_COLUMNS + 2); i++) {
      check_bucket(&f->series, &requests[k], i % POINTS, (int)(i / POINTS), &buckets[i]);
    }
  }
}

/* All of a series, none of it, and one step of it. */
static void columns_at_the_ends(void **state) {
  fixture *f = *state;
  tri_bucket_place places[2];
  tri_bucket buckets[2 * TRI_BOARD_COLUMNS];
  tri_bucket_request all = {TRI_BOARD_AXIS_STEP, NAN, NAN, 2, 1}, outside = {TRI_BOARD_AXIS_STEP, 1e6, 2e6, 2, 1};
  tri_series_buckets(&f->series, &all, places, buckets);
  assert_int_equal(places[0].count + places[1].count, 0); /* contains no steps */
  write_steps(f, "w", 1, 1, 0);
  read_all(f);
  tri_series_buckets(&f->series, &all, places, buckets);
  assert_int_equal(places[0].count, 1);
  write_steps(f, "a", 2, 5, 0);
  read_all(f);
  tri_series_buckets(&f->series, &all, places, buckets);
  assert_true(places[0].count == 2 && places[1].count == 3 && places[0].first == 1 && places[1].last == 5);
  assert_true(buckets[0].middle == 1.5 && buckets[1].low == 3 && buckets[1].high == 5);
  tri_series_buckets(&f->series, &outside, places, buckets);
  assert_int_equal(places[0].count + places[1].count, 0);
}

int main(void) {
#define WITH_FILE(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_what_jansson_reads),
      cmocka_unit_test(refuses_what_is_half_written),
      cmocka_unit_test(reads_numbers_of_all_sizes),
      cmocka_unit_test(survives_damage),
      WITH_FILE(follows_what_is_added),
      WITH_FILE(follows_a_file_that_was_cut),
      WITH_FILE(follows_a_file_that_was_replaced),
      WITH_FILE(takes_the_newer_of_two),
      WITH_FILE(sums_what_is_a_time),
      WITH_FILE(holds_as_much_as_it_may),
      WITH_FILE(passes_over_odd_lines),
      WITH_FILE(reads_no_link_and_no_pipe),
      WITH_FILE(does_not_depend_on_when_it_is_read),
      WITH_FILE(begins_columns_late),
      WITH_FILE(holds_named_numbers),
      WITH_FILE(holds_names_of_one_part),
      WITH_FILE(columns_are_what_lies_in_them),
      WITH_FILE(columns_at_the_ends),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
