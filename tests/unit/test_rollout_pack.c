/* Random completions, packed: every completion that counts is in one sample, whole, with the columns that belong to it;
 * everything else is padding. */
#include "check.h"
#include "data/packing.h"
#include "mesh/label.h"
#include "rollout_draws.h"

enum { MOST_TOKENS = 64, ROUNDS = 200 };

static const unsigned ALL_COLUMNS = TRI_COLUMNS_ALWAYS | TRI_COLUMN_BIT(segments) | TRI_COLUMN_BIT(reference) |
                                    TRI_COLUMN_BIT(advantage) | TRI_COLUMN_BIT(normaliser) | TRI_COLUMN_BIT(old) |
                                    TRI_COLUMN_BIT(behaviour);
static const unsigned FIRST_COLUMNS = TRI_COLUMNS_ALWAYS | TRI_COLUMN_BIT(segments) | TRI_COLUMN_BIT(advantage) |
                                      TRI_COLUMN_BIT(normaliser) | TRI_COLUMN_BIT(behaviour);

/* Which tokens of all samples belong to a completion: each at most once. */
typedef struct places {
  bool taken[ROLLOUT_MOST * MOST_TOKENS];
  bool begins[ROLLOUT_MOST * MOST_TOKENS]; /* the first token of a completion's prompt */
} places;

static void check_prompt_row(const tri_sample *row, int64_t i) {
  assert_int_equal(row->labels[i], TRI_LABEL_NONE);
  assert_int_equal(row->segments[i], -1);
  assert_true(row->advantage[i] == 0 && row->normaliser[i] == 0 && row->behaviour[i] == 0);
}

static void check_label_row(const tri_rollout_completion *c, double normaliser, int64_t label, const tri_sample *row,
                            int64_t i) {
  assert_int_equal(row->labels[i], c->ids[label]);
  assert_true(row->segments[i] >= 0);
  assert_true(row->advantage[i] == c->advantage);
  assert_true(row->normaliser[i] == normaliser);
  assert_true(row->behaviour[i] == c->behaviour[label]);
  if (row->old != NULL) assert_true(row->old[i] == c->old[label]);
  if (row->reference != NULL) assert_true(row->reference[i] == c->reference[label]);
}

static void check_document(const tri_rollout_completion *c, double normaliser, const tri_packed *at,
                           const tri_held_samples *samples, places *seen) {
  const int64_t prompt = c->prompt->count, tokens = prompt + c->count - 1, begin = at->first - prompt + 1;
  const tri_sample row = tri_sample_from(&samples->rows, at->sample * samples->sequence);
  assert_in_range(at->sample, 0, samples->count - 1);
  assert_true(begin >= 0 && begin + tokens <= samples->sequence);
  seen->begins[at->sample * samples->sequence + begin] = true;
  for (int64_t k = 0; k < tokens; k++) {
    const int64_t i = begin + k;
    bool *taken = &seen->taken[at->sample * samples->sequence + i];
    assert_false(*taken);
    *taken = true;
    assert_int_equal(row.ids[i], k < prompt ? c->prompt->ids[k] : c->ids[k - prompt]);
    assert_int_equal(row.positions[i], k);
    assert_true(row.weights[i] == 1);
    if (k < prompt - 1)
      check_prompt_row(&row, i);
    else
      check_label_row(c, normaliser, k - prompt + 1, &row, i);
  }
}

/* Segments of a sample ascend from 0 on, one for each completion. */
static void check_segments(const tri_held_samples *samples, int64_t sample, const places *seen) {
  const tri_sample row = tri_sample_from(&samples->rows, sample * samples->sequence);
  int32_t number = -1;
  for (int64_t i = 0; i < samples->sequence; i++) {
    number += seen->begins[sample * samples->sequence + i];
    if (row.labels[i] >= 0) assert_int_equal(row.segments[i], number);
  }
}

static void check_padding(const tri_held_samples *samples, const places *seen) {
  for (int64_t t = 0; t < samples->count * samples->sequence; t++) {
    if (seen->taken[t]) continue;
    assert_int_equal(samples->rows.labels[t], TRI_LABEL_PADDING);
    assert_int_equal(samples->rows.segments[t], -1);
    assert_true(samples->rows.normaliser[t] == 0);
    assert_true(samples->rows.ids[t] == 0);
    assert_in_range(samples->rows.positions[t], 0, TRI_PACKING_FILLING - 1);
    /* Padding does not attend to a completion: it begins a document of its own. */
    if (t % samples->sequence == 0 || seen->taken[t - 1]) assert_int_equal(samples->rows.positions[t], 0);
  }
}

static void check_batch(uint64_t seed, int64_t sequence, bool has_old) {
  static places seen;
  const tri_mesh alone = tri_mesh_alone();
  tri_rollout_completion *list[ROLLOUT_MOST];
  tri_packed packed[ROLLOUT_MOST];
  tri_held_samples samples;
  rollout_draws d;
  int64_t tokens = 0;
  memset(&seen, 0, sizeof seen);
  CHECK_OK(rollout_draw_batch(seed, sequence, has_old, &d));
  CHECK_OK(tri_held_samples_create(has_old ? ALL_COLUMNS : FIRST_COLUMNS, sequence, ROLLOUT_MOST, 1, &alone, &samples));
  for (int64_t i = 0; i < ROLLOUT_MOST; i++) list[i] = &d.batch.list[i];
  const tri_pack_request request = {list, ROLLOUT_MOST, d.normalisers};
  CHECK_OK(tri_rollout_pack(&request, &samples, packed));
  assert_in_range(samples.count, 1, ROLLOUT_MOST);
  for (int64_t i = 0; i < ROLLOUT_MOST; i++) {
    assert_int_equal(packed[i].sample >= 0, list[i]->counts);
    if (!list[i]->counts) continue;
    tokens += tri_packed_tokens(list[i]);
    check_document(list[i], d.normalisers[i], &packed[i], &samples, &seen);
  }
  check_padding(&samples, &seen);
  for (int64_t s = 0; s < samples.count; s++) check_segments(&samples, s, &seen);
  /* Best fit leaves at most one sample half empty. */
  assert_true((samples.count - 1) * sequence <= 2 * tokens);
  tri_held_samples_release(&samples);
  tri_rollout_batch_release(&d.batch);
}

static void test_random_batches(void **state) {
  (void)state;
  for (uint64_t round = 0; round < ROUNDS; round++) {
    static const int64_t sequences[] = {1, 2, 7, 16, 33, MOST_TOKENS};
    check_batch(round, sequences[round % 6], round % 4 < 2);
  }
  assert_int_equal(tri_memory_bytes(), 0);
}

static void test_only_one_counts(void **state) {
  (void)state;
  const tri_mesh alone = tri_mesh_alone();
  tri_packed packed[ROLLOUT_MOST];
  tri_held_samples samples;
  tri_rollout_completion *list[ROLLOUT_MOST];
  rollout_draws d;
  CHECK_OK(rollout_draw_batch(5, 16, false, &d));
  CHECK_OK(tri_held_samples_create(FIRST_COLUMNS, 16, ROLLOUT_MOST, 2, &alone, &samples));
  for (int64_t i = 0; i < ROLLOUT_MOST; i++) {
    list[i] = &d.batch.list[i];
    list[i]->counts = i == 9;
  }
  const tri_pack_request request = {list, ROLLOUT_MOST, d.normalisers};
  CHECK_OK(tri_rollout_pack(&request, &samples, packed));
  assert_int_equal(samples.count, 1);
  for (int64_t i = 0; i < ROLLOUT_MOST; i++) assert_int_equal(packed[i].sample, i == 9 ? 0 : -1);
  assert_int_equal(packed[9].first, d.batch.list[9].prompt->count - 1);
  tri_held_samples_release(&samples);
  tri_rollout_batch_release(&d.batch);
}

static void test_none_counts(void **state) {
  (void)state;
  static const places nothing;
  const tri_mesh alone = tri_mesh_alone();
  tri_packed packed[ROLLOUT_MOST];
  tri_held_samples samples;
  tri_rollout_completion *list[ROLLOUT_MOST];
  rollout_draws d;
  CHECK_OK(rollout_draw_batch(5, 16, false, &d));
  CHECK_OK(tri_held_samples_create(FIRST_COLUMNS, 16, ROLLOUT_MOST, 2, &alone, &samples));
  for (int64_t i = 0; i < ROLLOUT_MOST; i++) {
    list[i] = &d.batch.list[i];
    list[i]->counts = false;
  }
  for (int64_t count = ROLLOUT_MOST; count >= 0; count -= ROLLOUT_MOST) {
    const tri_pack_request request = {list, count, d.normalisers};
    CHECK_OK(tri_rollout_pack(&request, &samples, packed));
    assert_int_equal(samples.count, 1);
    check_padding(&samples, &nothing);
    for (int64_t i = 0; i < count; i++) assert_int_equal(packed[i].sample, -1);
  }
  tri_held_samples_release(&samples);
  tri_rollout_batch_release(&d.batch);
}

static void test_a_completion_that_is_too_long(void **state) {
  (void)state;
  const tri_mesh alone = tri_mesh_alone();
  tri_packed packed[1];
  tri_held_samples samples;
  rollout_draws d;
  CHECK_OK(rollout_draw_batch(6, 16, false, &d));
  CHECK_OK(tri_held_samples_create(FIRST_COLUMNS, 2, 4, 1, &alone, &samples));
  tri_rollout_completion *first = &d.batch.list[0];
  d.prompts[0].count = 3;
  const tri_pack_request request = {&first, 1, d.normalisers};
  CHECK_FAILS(tri_rollout_pack(&request, &samples, packed), TRI_INTERNAL, "a completion has");
  tri_held_samples_release(&samples);
  tri_rollout_batch_release(&d.batch);
  assert_int_equal(tri_memory_bytes(), 0);
}

static void test_the_feed(void **state) {
  (void)state;
  const tri_mesh alone = tri_mesh_alone();
  tri_held_samples samples;
  tri_sample row;
  CHECK_OK(tri_held_samples_create(FIRST_COLUMNS, 8, 4, 1, &alone, &samples));
  CHECK_OK(tri_sample_alloc(TRI_COLUMNS_ALWAYS | TRI_COLUMN_BIT(advantage), 8, &row));
  samples.count = 3;
  for (int32_t i = 0; i < 32; i++) {
    samples.rows.ids[i] = i;
    samples.rows.advantage[i] = -i;
  }
  const tri_feed feed = tri_held_samples_feed(&samples);
  for (int64_t s = 0; s < 3; s++) {
    CHECK_OK(tri_feed_read(&feed, s, &row));
    for (int64_t i = 0; i < 8; i++) assert_true(row.ids[i] == 8 * s + i && row.advantage[i] == -(double)(8 * s + i));
  }
  CHECK_FAILS(tri_feed_read(&feed, 3, &row), TRI_INTERNAL, "sample 3 of 3");
  tri_sample_free(&row);
  tri_held_samples_release(&samples);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_batches), cmocka_unit_test(test_only_one_counts),
      cmocka_unit_test(test_none_counts),    cmocka_unit_test(test_a_completion_that_is_too_long),
      cmocka_unit_test(test_the_feed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
