#include "base/flight_recorder.h"
#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static uint64_t begin(const char *name) {
  tri_record record = tri_record_make(TRI_RECORD_WORK, name);
  return tri_recorder_begin(&record);
}

static void test_newest(void **state) {
  (void)state;
  tri_record seen[TRI_RECORDER_NEWEST];
  double before_s = tri_recorder_last_s();
  tri_recorder_step(7);
  uint64_t first = begin("first"), second = begin("second");
  tri_recorder_end(second);
  int count = tri_recorder_look(seen);
  assert_true(count >= 2 && tri_recorder_last_s() > before_s);
  assert_string_equal(seen[count - 2].name, "first");
  assert_string_equal(seen[count - 1].name, "second");
  assert_true(seen[count - 2].end_s == 0 && seen[count - 1].end_s >= seen[count - 1].begin_s);
  assert_int_equal(seen[count - 1].step, 7);
  assert_int_equal(seen[count - 1].number, second); /* a record without a number has its ticket's */
  for (int i = 0; i < 3 * TRI_RECORDER_NEWEST; i++) tri_recorder_end(begin("another"));
  tri_recorder_end(first); /* its place has been reused */
  assert_int_equal(tri_recorder_look(seen), TRI_RECORDER_NEWEST);
  for (int i = 0; i < TRI_RECORDER_NEWEST; i++) {
    assert_string_equal(seen[i].name, "another");
    assert_true(seen[i].end_s > 0 && (i == 0 || seen[i].begin_s >= seen[i - 1].begin_s));
  }
}

static void test_kept(void **state) {
  (void)state;
  tri_record *kept = NULL;
  int64_t count = 0;
  uint64_t before = begin("before");
  tri_recorder_keep();
  for (int i = 0; i < 10000; i++) tri_recorder_end(begin("one of many"));
  tri_recorder_end(before);
  uint64_t last = begin("not ended");
  tri_record noted = tri_record_make(TRI_RECORD_PROGRESS, "noted");
  noted.bytes = 5;
  tri_recorder_note(&noted, 1.5);
  assert_int_equal(tri_recorder_kept(&kept, &count), TRI_OK);
  assert_int_equal(count, 10001);
  for (int64_t i = 0; i < 10000; i++) {
    assert_string_equal(kept[i].name, "one of many");
    assert_true(kept[i].end_s >= kept[i].begin_s);
  }
  assert_string_equal(kept[10000].name, "noted");
  assert_true(kept[10000].begin_s == 1.5 && kept[10000].end_s > 1.5 && kept[10000].bytes == 5);
  tri_free(kept);
  tri_recorder_end(last); /* no longer kept */
  assert_int_equal(tri_recorder_kept(&kept, &count), TRI_OK);
  assert_int_equal(count, 0);
  tri_free(kept);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_newest), cmocka_unit_test(test_kept)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
