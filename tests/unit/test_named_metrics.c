/* The list of a task's metrics, and its way through metrics.jsonl to the readers: a resumed run and the board. */
#include "base/memory.h"
#include "board/series.h"
#include "check.h"
#include "report/metrics.h"
#include "run/run_config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES = 100, STEPS = 6, LONGEST = 100 };

/* Adds NAMES metrics of 1 to LONGEST bytes, with '/', '.', both and neither. */
static void add_names(tri_named_metrics *metrics) {
  for (int i = 0; i < NAMES; i++) {
    char name[LONGEST + 1];
    memset(name, 'a' + i % 26, sizeof name);
    name[i + 1] = '\0';
    if (i % 2 == 0 && i >= 26) name[i / 2] = '/';
    if (i % 3 == 0 && i >= 26) name[i / 3] = '.';
    CHECK_OK(tri_named_metrics_add(metrics, "%s", name));
    assert_int_equal(strlen(metrics->list[i].name), i + 1);
    assert_true(isnan(metrics->list[i].value));
  }
}

static double value_of(int64_t step, int64_t metric) {
  return (step + metric) % 5 == 0 ? NAN : (double)(1000 * step + metric) / 8;
}

static void write_steps(const char *folder, tri_named_metrics *named, int64_t first) {
  tri_metrics *metrics = NULL;
  CHECK_OK(tri_metrics_open(folder, first, &metrics));
  for (int64_t step = first; step <= STEPS; step++) {
    tri_named_metrics_forget(named);
    for (int64_t i = 0; i < NAMES; i++) tri_named_metrics_set(named, value_of(step, i), "%s", named->list[i].name);
    const tri_step_metrics line = {.step = step, .loss = 1, .named = *named};
    CHECK_OK(tri_metrics_step(metrics, &line));
  }
  CHECK_OK(tri_metrics_close(metrics));
}

/* Writes zeros over the times of day, which differ between two runs. */
static void remove_times(char *lines) {
  for (char *at = lines; (at = strstr(at, "\"time\"")) != NULL;) {
    for (at += strlen("\"time\""); *at != '\0' && *at != ','; at++) *at = *at >= '1' && *at <= '9' ? '0' : *at;
  }
}

static void reach_all_readers(void **state) {
  (void)state;
  char folder[] = "/tmp/trireme-named-XXXXXX", path[TRI_PATH_BYTES], *before = NULL, *after = NULL;
  tri_named_metrics named = {0};
  assert_non_null(mkdtemp(folder));
  CHECK_OK(tri_path_join(path, folder, "metrics.jsonl"));
  add_names(&named);
  write_steps(folder, &named, 1);
  CHECK_OK(tri_file_read(path, 1 << 20, &before, NULL));
  write_steps(folder, &named, 4); /* a resumed run */
  CHECK_OK(tri_file_read(path, 1 << 20, &after, NULL));
  remove_times(before);
  remove_times(after);
  assert_string_equal(before, after);

  tri_series series = {.root = folder, .path = "metrics.jsonl"};
  bool more = true;
  while (more) CHECK_OK(tri_series_read(&series, 1, &more));
  assert_int_equal(series.num_named, NAMES);
  assert_int_equal(series.count, STEPS);
  for (int64_t c = 0; c < NAMES; c++) {
    int64_t i = 0;
    while (strcmp(named.list[i].name, series.named[c].name) != 0) i++;
    for (int64_t step = 1; step <= STEPS; step++) {
      const double value = (double)series.named[c].values[step - 1], expected = value_of(step, i);
      assert_true(isnan(expected) ? isnan(value) : value == (double)(float)expected);
    }
  }
  tri_series_release(&series);
  tri_named_metrics_release(&named);
  tri_free(before);
  tri_free(after);
  CHECK_OK(tri_directory_remove(folder));
}

static void refuses_names(void **state) {
  (void)state;
  tri_named_metrics metrics = {0};
  static const char *const bad[] = {"", "/", "a/", "/a", "a//b", "a b", "a\"b", "a\\b", "\xc3\xa4", "a\nb"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    CHECK_FAILS(tri_named_metrics_add(&metrics, "%s", bad[i]), TRI_BAD_CONFIG, "choose another name");
  }
  CHECK_OK(tri_named_metrics_add(&metrics, "%0*d", TRI_METRIC_NAME_BYTES - 1, 1));
  CHECK_FAILS(tri_named_metrics_add(&metrics, "%0*d", TRI_METRIC_NAME_BYTES, 1), TRI_BAD_CONFIG, "at most 127");
  CHECK_OK(tri_named_metrics_add(&metrics, "rewards/%s/mean", "length"));
  CHECK_FAILS(tri_named_metrics_add(&metrics, "rewards/length/mean"), TRI_BAD_CONFIG,
              "two metrics would be named rewards/length/mean");
  assert_int_equal(metrics.count, 2);
  for (int i = 2; i < TRI_MOST_NAMED_METRICS; i++) CHECK_OK(tri_named_metrics_add(&metrics, "n/%d", i));
  CHECK_FAILS(tri_named_metrics_add(&metrics, "one/more"), TRI_BAD_CONFIG, "one/more");
  tri_named_metrics_set(&metrics, 1, "not/there");
  assert_null(tri_named_metrics_find(&metrics, "not/there"));
  tri_named_metrics_release(&metrics);
}

/* The names of a task, in the order of a line. */
static void tasks_have_lists(void **state) {
  (void)state;
  static tri_run_config config; /* zeros: the next token */
  tri_named_metrics metrics = {0};
  CHECK_OK(tri_named_metrics_of(&config, &metrics));
  assert_int_equal(metrics.count, 0);
  config.objective.name = TRI_OBJECTIVE_FIRST_PREFERENCE + TRI_PREFERENCE_KTO;
  CHECK_OK(tri_named_metrics_of(&config, &metrics));
  assert_int_equal(metrics.count, 11);
  assert_string_equal(metrics.list[5].name, "kl");
  assert_string_equal(metrics.list[6].name, "validation/rewards/chosen");
  assert_null(tri_named_metrics_find(&metrics, TRI_HELD_OUT_ACCURACY));
  tri_named_metrics_release(&metrics);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reach_all_readers),
      cmocka_unit_test(refuses_names),
      cmocka_unit_test(tasks_have_lists),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
