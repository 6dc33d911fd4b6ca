#include "base/memory.h"
#include "files/file.h"
#include "report/loss_curve.h"
#include "report/metrics.h"
#include "report/summary.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- help -------------------------------------------------------------------------------------------------------- */

#define assert_ok(call)                                                                                                \
  do {                                                                                                                 \
    if ((call) != TRI_OK) fail_msg("%s: %s", #call, tri_status_message());                                             \
  } while (0)

static void assert_message(const char *part) {
  if (strstr(tri_status_message(), part) == NULL) fail_msg("\"%s\" is not in \"%s\"", part, tri_status_message());
}

typedef struct place {
  char directory[64], lines[128], other[128];
} place;

static int make_place(void **state) {
  place *p = calloc(1, sizeof *p);
  if (p == NULL) return -1;
  strcpy(p->directory, "/tmp/tri_metrics_XXXXXX");
  if (mkdtemp(p->directory) == NULL) return -1;
  snprintf(p->lines, sizeof p->lines, "%s/metrics.jsonl", p->directory);
  snprintf(p->other, sizeof p->other, "%s/other", p->directory);
  *state = p;
  return 0;
}

static int remove_place(void **state) {
  place *p = *state;
  tri_status status = tri_directory_remove(p->directory);
  free(p);
  return status == TRI_OK ? 0 : -1;
}

static tri_step_metrics step_of(int64_t step) {
  return (tri_step_metrics){.step = step,
                            .loss = 10.0 / 3 / (double)step,
                            .grad_norm = 0.1,
                            .lr = 6e-4,
                            .tokens = 100 * step,
                            .tokens_per_s = 50 + (double)step,
                            .step_s = 2,
                            .mfu = 0.5,
                            .peak_bytes = 4096,
                            .evaluated = step % 2 == 0,
                            .validation_loss = fabs((double)step - 6) + 1};
}

static void write_steps(const place *p, int64_t first, int64_t last) {
  tri_metrics *metrics = NULL;
  assert_ok(tri_metrics_open(p->directory, first, &metrics));
  for (int64_t step = first; step <= last; step++) {
    tri_step_metrics s = step_of(step);
    assert_ok(tri_metrics_step(metrics, &s));
  }
  assert_ok(tri_metrics_sync(metrics));
  assert_ok(tri_metrics_close(metrics));
}

/* Checks that the file contains steps 1 to `last` and nothing else, each as a line of valid JSON. */
static void assert_lines(const place *p, int64_t last) {
  char *text = NULL;
  size_t bytes = 0;
  assert_ok(tri_file_read(p->lines, 1 << 20, &text, &bytes));
  int64_t step = 0;
  for (char *line = text; *line != '\0';) {
    char *end = strchr(line, '\n');
    assert_non_null(end);
    json_t *object = json_loadb(line, (size_t)(end - line), 0, NULL);
    assert_non_null(object);
    assert_int_equal(json_integer_value(json_object_get(object, "step")), ++step);
    json_decref(object);
    line = end + 1;
  }
  assert_int_equal(step, last);
  tri_free(text);
}

static void append_text(const place *p, const char *text) {
  FILE *file = fopen(p->lines, "a");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static int count_event_files(const place *p) {
  int count = 0;
  DIR *folder = opendir(p->directory);
  assert_non_null(folder);
  for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
    count += strncmp(entry->d_name, "events.out.tfevents.", 20) == 0;
  }
  closedir(folder);
  return count;
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void test_a_step_reads_back(void **state) {
  const place *p = *state;
  write_steps(p, 1, 4);
  assert_lines(p, 4);
  tri_metrics_history h = {0};
  assert_ok(tri_metrics_history_read(p->lines, INT64_MAX, &h));
  assert_int_equal(h.count, 4);
  for (int64_t i = 0; i < 4; i++) {
    tri_step_metrics expected = step_of(i + 1), got = h.steps[i];
    assert_true(got.loss == expected.loss); /* equal to the bit */
    assert_true(got.lr == expected.lr && got.grad_norm == expected.grad_norm && got.mfu == expected.mfu);
    assert_true(got.tokens == expected.tokens && got.tokens_per_s == expected.tokens_per_s);
    assert_int_equal(got.peak_bytes, 4096);
    assert_int_equal(got.evaluated, expected.evaluated);
    if (got.evaluated) assert_true(got.validation_loss == expected.validation_loss);
  }
  tri_metrics_history_release(&h);
}

static void test_shares_of_time(void **state) {
  const place *p = *state;
  const tri_timeline_shares time = {.num_steps = 8, .step_s = 2, .compute = 0.75, .bubble = 0.25};
  tri_metrics *metrics = NULL;
  char *text = NULL;
  size_t bytes = 0;
  tri_step_metrics s = step_of(1);
  s.time = &time;
  assert_ok(tri_metrics_open(p->directory, 1, &metrics));
  assert_ok(tri_metrics_step(metrics, &s));
  assert_ok(tri_metrics_close(metrics));
  assert_lines(p, 1);
  assert_ok(tri_file_read(p->lines, 1 << 20, &text, &bytes));
  json_t *line = json_loadb(text, bytes, 0, NULL), *share = json_object_get(line, "share");
  assert_true(json_real_value(json_object_get(share, "compute")) == 0.75);
  assert_true(json_real_value(json_object_get(share, "bubble")) == 0.25);
  assert_int_equal(json_integer_value(json_object_get(share, "steps")), 8);
  json_decref(line);
  tri_free(text);
}

static void test_what_is_not_finite_is_null(void **state) {
  const place *p = *state;
  tri_metrics *metrics = NULL;
  assert_ok(tri_metrics_open(p->directory, 1, &metrics));
  tri_step_metrics s = step_of(1);
  s.loss = NAN;
  s.grad_norm = INFINITY;
  s.mfu = NAN;
  s.bad_steps = 1;
  assert_ok(tri_metrics_step(metrics, &s));
  assert_ok(tri_metrics_close(metrics));
  char *text = NULL;
  assert_ok(tri_file_read(p->lines, 1 << 20, &text, NULL));
  assert_non_null(strstr(text, "\"loss\": null, \"grad_norm\": null"));
  assert_non_null(strstr(text, "\"mfu\": null"));
  assert_null(strstr(text, "validation_loss"));
  tri_free(text);
  assert_lines(p, 1);
}

static void test_resume_drops_later_steps(void **state) {
  const place *p = *state;
  write_steps(p, 1, 9);
  write_steps(p, 6, 7);
  assert_lines(p, 7);
  assert_int_equal(count_event_files(p), 2);
  write_steps(p, 8, 8);
  assert_lines(p, 8);
  assert_int_equal(count_event_files(p), 3); /* in one second, but with different names */
  write_steps(p, 1, 2);
  assert_lines(p, 2);
}

static void test_resume_drops_a_torn_line(void **state) {
  const place *p = *state;
  static const char *const torn[] = {
      "{\"step\": 4, \"loss\": 2.", "{\"step\": 4, \"loss\": 2.0}",  "{\"step\": 4, \n", "\n", "[4]\n",
      "{\"loss\": 2.0}\n",          "{\"step\": 3, \"loss\": 1.0}\n"};
  for (size_t i = 0; i < sizeof torn / sizeof torn[0]; i++) {
    write_steps(p, 1, 3);
    append_text(p, torn[i]);
    write_steps(p, 4, 5);
    assert_lines(p, 5);
  }
}

static char *text_of(const place *p) {
  char *text = NULL;
  assert_ok(tri_file_read(p->lines, 1 << 20, &text, NULL));
  return text;
}

/* An invalid line does not affect others, and is kept; only lines after the resumed step are removed. */
static void test_a_bad_line_costs_no_other(void **state) {
  const place *p = *state;
  static const char *const bad[] = {"\n", "no metrics\n", "{\"step\": 2, \"loss\": 1.5}\n", "{\"step\": 0}\n",
                                    "{\"loss\": 1, \n"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    remove(p->lines);
    write_steps(p, 1, 3);
    append_text(p, bad[i]);
    FILE *file = fopen(p->lines, "a");
    for (int step = 4; step <= 8; step++) fprintf(file, "{\"step\": %d, \"loss\": 2}\n", step);
    fclose(file);
    write_steps(p, 7, 7); /* resumed after step 6 */
    tri_metrics_history h = {0};
    assert_ok(tri_metrics_history_read(p->lines, INT64_MAX, &h));
    assert_int_equal(h.count, 7);
    assert_int_equal(h.num_odd, 1);
    assert_int_equal(h.first_odd, 4);
    tri_metrics_history_release(&h);
    char *text = text_of(p);
    assert_non_null(strstr(text, bad[i]));
    assert_null(strstr(text, "\"step\": 8"));
    tri_free(text);
  }
}

/* Two runs wrote into one file: later steps are removed at any position, and the rest stays byte for byte. */
static void test_later_steps_among_earlier_ones(void **state) {
  const place *p = *state;
  append_text(
      p, "{\"step\": 1, \"loss\": 3}\n{\"step\": 9, \"loss\": 1}\nx\n{\"step\": 2, \"loss\": 2}\n{\"step\": 3}\ntail");
  tri_metrics *metrics = NULL;
  assert_ok(tri_metrics_open(p->directory, 3, &metrics));
  assert_ok(tri_metrics_close(metrics));
  char *text = text_of(p);
  assert_string_equal(text, "{\"step\": 1, \"loss\": 3}\nx\n{\"step\": 2, \"loss\": 2}\n");
  tri_free(text);
}

static void test_places_that_cannot_be_written(void **state) {
  const place *p = *state;
  tri_metrics *metrics = NULL;
  append_text(p, "");
  char below[256];
  snprintf(below, sizeof below, "%s/run", p->lines); /* below a file */
  assert_int_equal(tri_metrics_open(below, 1, &metrics), TRI_IO_FAILED);
  assert_message(p->lines);
  assert_null(metrics);

  assert_ok(tri_directory_create(p->other));
  char blocked[256];
  snprintf(blocked, sizeof blocked, "%s/metrics.jsonl", p->other);
  assert_ok(tri_directory_create(blocked)); /* a folder where the file should be */
  assert_int_not_equal(tri_metrics_open(p->other, 1, &metrics), TRI_OK);
  assert_message(blocked);
  assert_null(metrics);

  tri_metrics_history h = {0};
  assert_int_equal(tri_metrics_history_read("/proc/none/metrics.jsonl", INT64_MAX, &h), TRI_BAD_FILE);
  assert_message("/proc/none/metrics.jsonl: No such file");
}

static void test_a_full_disk_is_told(void **state) {
  const place *p = *state;
  tri_metrics *metrics = NULL;
  assert_ok(tri_metrics_open(p->directory, 1, &metrics));
  signal(SIGXFSZ, SIG_IGN);
  struct rlimit old, small;
  getrlimit(RLIMIT_FSIZE, &old);
  small = (struct rlimit){.rlim_cur = 600, .rlim_max = old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  tri_status status = TRI_OK;
  for (int64_t step = 1; step <= 10 && status == TRI_OK; step++) {
    tri_step_metrics s = step_of(step);
    status = tri_metrics_step(metrics, &s);
  }
  setrlimit(RLIMIT_FSIZE, &old);
  assert_int_equal(status, TRI_IO_FAILED);
  assert_message("cannot write");
  assert_message(p->directory);
  tri_metrics_close(metrics);
  write_steps(p, 2, 4); /* the run can continue once there is space */
  assert_lines(p, 4);
}

static void test_progress_text(void **state) {
  (void)state;
  char text[256];
  tri_step_metrics s = step_of(4);
  s.tokens_per_s = 12345;
  s.loss = 4.20714;
  tri_metrics_progress_text(&s, 500, NAN, 130, text, sizeof text);
  assert_string_equal(text, "step 4/500 loss 4.2071 lr 6.00e-04 12.3K tokens/s 50% of peak 2m10s left");
  s.mfu = NAN;
  s.bad_steps = 2;
  tri_metrics_progress_text(&s, 500, 4.5, 9, text, sizeof text);
  assert_string_equal(text, "step 4/500 loss 4.2071 val 4.5000 lr 6.00e-04 12.3K tokens/s 9.0s left 2 bad");
}

static void test_progress_of_preferences(void **state) {
  (void)state;
  char text[256];
  tri_named_metric named[] = {{"rewards/chosen", 1}, {TRI_ACCURACY, 0.8125}};
  tri_step_metrics s = step_of(4);
  s.named = (tri_named_metrics){.list = named, .count = 2};
  tri_metrics_progress_text(&s, 500, NAN, 130, text, sizeof text);
  assert_non_null(strstr(text, " 2m10s left accuracy 0.81"));
  s.loss = 1e30; /* no room on the line */
  tri_metrics_progress_text(&s, 500, 1.5, 130, text, sizeof text);
  assert_null(strstr(text, "accuracy"));
  s.loss = 1;
  named[1].value = NAN;
  tri_metrics_progress_text(&s, 500, 1.5, 130, text, sizeof text);
  assert_null(strstr(text, "accuracy"));
}

/* The last accuracy, and the last of held-out pairs, which fewer lines have. */
static void test_summary_of_preferences(void **state) {
  const place *p = *state;
  tri_metrics *metrics = NULL;
  assert_ok(tri_metrics_open(p->directory, 1, &metrics));
  for (int64_t i = 1; i <= 5; i++) {
    tri_named_metric named[] = {{TRI_ACCURACY, 0.1 * (double)i},
                                {TRI_HELD_OUT_ACCURACY, i == 3 ? 0.125 * (double)i : NAN}};
    tri_step_metrics s = step_of(i);
    s.named = (tri_named_metrics){.list = named, .count = 2};
    assert_ok(tri_metrics_step(metrics, &s));
  }
  assert_ok(tri_metrics_close(metrics));
  tri_metrics_history h = {0};
  assert_ok(tri_metrics_history_read(p->lines, 5, &h));
  assert_true(h.accuracy == 0.4 && h.held_out_accuracy == 0.375);
  tri_run_summary s = {.seconds = 1};
  assert_ok(tri_run_summary_fill(&h, &s));
  tri_metrics_history_release(&h);
  assert_ok(tri_run_summary_write(&s, p->other));
  json_t *object = json_load_file(p->other, 0, NULL);
  assert_true(json_real_value(json_object_get(object, TRI_ACCURACY)) == 0.4);
  assert_true(json_real_value(json_object_get(object, TRI_HELD_OUT_ACCURACY)) == 0.375);
  json_decref(object);
}

static void test_summary(void **state) {
  const place *p = *state;
  write_steps(p, 1, 9);
  tri_metrics_history h = {0};
  assert_ok(tri_metrics_history_read(p->lines, INT64_MAX, &h));
  tri_run_summary s = {.seconds = NAN, .model = "gpt2", .peak_bytes_predicted = 7};
  assert_ok(tri_run_summary_fill(&h, &s));
  tri_metrics_history_release(&h);
  assert_int_equal(s.steps, 9);
  assert_int_equal(s.tokens, 900);
  assert_true(s.best_validation_loss == 1 && s.best_validation_step == 6 && s.validation_loss == 3);
  assert_true(s.tokens_per_s == 55 && s.mfu == 0.5); /* the median of 51 .. 59 */
  assert_ok(tri_run_summary_write(&s, p->other));
  json_error_t error;
  json_t *object = json_load_file(p->other, 0, &error);
  assert_non_null(object);
  assert_true(json_is_null(json_object_get(object, "seconds")));
  assert_true(json_is_null(json_object_get(object, "device")));
  assert_null(json_object_get(object, TRI_ACCURACY));
  assert_null(json_object_get(object, TRI_HELD_OUT_ACCURACY));
  assert_int_equal(json_integer_value(json_object_get(object, "peak_bytes_predicted")), 7);
  assert_string_equal(json_string_value(json_object_get(object, "version")), TRIREME_VERSION);
  json_decref(object);
}

static void test_summary_of_nothing(void **state) {
  const place *p = *state;
  tri_metrics_history h = {0};
  tri_run_summary s = {0};
  assert_ok(tri_run_summary_fill(&h, &s));
  assert_int_equal(s.steps, 0);
  assert_true(isnan(s.loss) && isnan(s.best_validation_loss) && isnan(s.tokens_per_s));
  assert_ok(tri_run_summary_write(&s, p->other));
  assert_int_equal(tri_run_summary_write(&s, "/proc/none/summary.json"), TRI_IO_FAILED);
  assert_message("/proc/none/summary.json");
}

/* Every number in the picture is finite, whatever the losses are. */
static void test_curves_of_odd_histories(void **state) {
  const place *p = *state;
  enum { MOST = 3000 };
  static tri_step_metrics steps[MOST];
  static const int64_t counts[] = {0, 1, 2, 79, 80, MOST};
  for (int kind = 0; kind < 4; kind++) {
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
      for (int64_t i = 0; i < counts[c]; i++) {
        steps[i] = step_of(i + 1);
        if (kind == 1) steps[i].loss = 3; /* flat */
        if (kind == 2) steps[i].loss = steps[i].validation_loss = NAN;
        if (kind == 3) steps[i].loss = i % 2 == 0 ? 1e-30 : 1e30;
      }
      tri_metrics_history h = {.steps = steps, .count = counts[c]};
      assert_ok(tri_loss_curve_write(&h, "a < b", p->other));
      char *text = NULL;
      assert_ok(tri_file_read(p->other, 1 << 20, &text, NULL));
      assert_non_null(strstr(text, "a &lt; b"));
      assert_non_null(strstr(text, "</svg>"));
      assert_null(strstr(text, "nan"));
      assert_null(strstr(text, "inf"));
      bool empty = strstr(text, "no finite loss yet") != NULL;
      assert_int_equal(empty, counts[c] == 0 || kind == 2);
      tri_free(text);
    }
  }
}

int main(void) {
#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, make_place, remove_place)
  const struct CMUnitTest tests[] = {
      IN_PLACE(test_a_step_reads_back),
      IN_PLACE(test_shares_of_time),
      IN_PLACE(test_what_is_not_finite_is_null),
      IN_PLACE(test_resume_drops_later_steps),
      IN_PLACE(test_resume_drops_a_torn_line),
      IN_PLACE(test_a_bad_line_costs_no_other),
      IN_PLACE(test_later_steps_among_earlier_ones),
      IN_PLACE(test_places_that_cannot_be_written),
      IN_PLACE(test_a_full_disk_is_told),
      cmocka_unit_test(test_progress_text),
      cmocka_unit_test(test_progress_of_preferences),
      IN_PLACE(test_summary),
      IN_PLACE(test_summary_of_preferences),
      IN_PLACE(test_summary_of_nothing),
      IN_PLACE(test_curves_of_odd_histories),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
