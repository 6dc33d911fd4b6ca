/* Which ranks store, count and save the elements of a model, on a mesh that is longer than 1 along every axis: makes
 * the tables and buckets of all ranks, and counts every element of every parameter. */
#include "check.h"
#include "engine/checkpoint_map.h"
#include "schedule/parts.h"

#include <string.h>

enum { MICRO_BATCHES = 1, MOST_ENTRIES = 64 };

/* Returns a model with grouped heads: with 4 tensor ranks, pairs of ranks have copies of one key head. */
static tri_model model_of(bool tied) {
  return (tri_model){.family = TRI_FAMILY_LLAMA,
                     .num_layers = 3,
                     .hidden_size = 32,
                     .num_heads = 4,
                     .num_kv_heads = 2,
                     .head_dim = 8,
                     .ffn_size = 40,
                     .vocab_size = 101,
                     .max_sequence = 16,
                     .norm_eps = 1e-5,
                     .rope_theta = 10000,
                     .init_std = 0.02,
                     .tied = tied};
}

static tri_layout layout_of(int64_t tensor, int64_t context, int64_t data, int64_t pipeline, int64_t zero) {
  return (tri_layout){.tensor = tensor,
                      .context = context,
                      .data = data,
                      .pipeline = pipeline,
                      .expert = 1,
                      .virtual_stages = 1,
                      .schedule = TRI_SCHEDULE_1F1B,
                      .micro_batch = 2,
                      .sequence_parallel = true,
                      .zero = zero,
                      .recompute_every = 1,
                      .bucket_bytes = 9000};
}

typedef struct totals {
  int64_t counted; /* elements that the clip sums, over all ranks */
  int64_t updated; /* elements that the optimizer updates */
  int64_t held;    /* elements of parts and copies on all ranks, each replica counted once */
  size_t saved;    /* bytes */
} totals;

/* Returns the number of an entry's elements that a rank counts, as in engine_clip.c. */
static int64_t within(const tri_parameter *entry, int64_t first, int64_t end) {
  int64_t begin = entry->offset > first ? entry->offset : first;
  int64_t stop = entry->offset + entry->count < end ? entry->offset + entry->count : end;
  return stop > begin ? stop - begin : 0;
}

static void check_bucket(const tri_bucket *bucket, const tri_layout *layout, const tri_mesh_coordinates *place) {
  tri_mesh_shape shape = tri_layout_mesh(layout);
  int64_t replica =
      tri_domain_rank(&shape, place, TRI_DOMAIN_CONTEXT) + layout->context * (int64_t)place->at[TRI_AXIS_DATA];
  assert_int_equal(bucket->replicas, TRI_DOMAIN_REPLICAS);
  assert_int_equal(bucket->ranks, layout->context * layout->data);
  assert_int_equal(bucket->rank, replica);
  assert_int_equal(bucket->begins[0], 0);
  assert_int_equal(bucket->begins[bucket->ranks], bucket->end - bucket->first);
}

static void add_rank(const tri_parts *parts, const tri_layout *layout, const tri_mesh_coordinates *place, totals *to) {
  tri_mesh_shape shape = tri_layout_mesh(layout);
  bool first_replica = tri_domain_rank(&shape, place, TRI_DOMAIN_REPLICAS) == 0;
  for (int64_t b = 0; b < parts->buckets->count; b++) {
    const tri_bucket *bucket = &parts->buckets->entries[b];
    check_bucket(bucket, layout, place);
    for (int64_t i = bucket->first_entry; i < bucket->end_entry; i++) {
      const tri_parameter *entry = &parts->table->entries[i];
      if (entry->count == 0 || entry->alias) continue;
      int64_t first = bucket->first + bucket->begins[bucket->rank],
              end = bucket->first + bucket->begins[bucket->rank + 1];
      if (entry->counted) to->counted += within(entry, first, end);
      to->updated += within(entry, bucket->own_first, bucket->own_end);
      if (first_replica) to->held += entry->count;
    }
  }
}

static totals totals_of(const tri_model *model, const tri_layout *layout, int64_t *num_values) {
  tri_mesh_shape shape = tri_layout_mesh(layout);
  totals found = {0};
  tri_parts_request of = {
      .model = model, .layout = layout, .micro_batches = MICRO_BATCHES, .sequence = 16, .precision = TRI_FP32};
  tri_engine_options options = {.model = model, .layout = layout, .sequence = 16, .precision = TRI_FP32};
  for (int rank = 0; rank < tri_mesh_num_ranks(&shape); rank++) {
    tri_mesh_coordinates place = tri_mesh_coordinates_of(&shape, rank);
    tri_parts parts;
    CHECK_OK(tri_parts_create(&of, &place, &parts));
    add_rank(&parts, layout, &place, &found);
    found.saved += tri_checkpoint_map_planned_bytes(&options, &parts, &place);
    *num_values = parts.table->num_values;
    tri_parts_destroy(&parts);
  }
  return found;
}

/* The clip and a checkpoint have every element once. The optimizer updates it once (without ZeRO: once on each replica)
 * for each part or copy. */
static void check_layout(const tri_model *model, const tri_layout *layout) {
  int64_t num_values = 0;
  totals found = totals_of(model, layout, &num_values);
  int64_t replicas = layout->context * layout->data;
  assert_int_equal(found.counted, num_values);
  assert_int_equal(found.saved, 3 * sizeof(float) * (size_t)num_values);
  assert_int_equal(found.updated, layout->zero > 0 ? found.held : found.held * replicas);
  assert_true(found.held >= num_values);
}

static void every_element_counts_once(void **state) {
  (void)state;
  static const int64_t shapes[][4] = {{1, 1, 1, 1}, {4, 2, 3, 1}, {2, 3, 1, 2}, {1, 4, 2, 2}, {4, 1, 2, 2}};
  for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
    for (int64_t zero = 0; zero <= 3; zero++) {
      for (int tied = 0; tied < 2; tied++) {
        tri_model model = model_of(tied == 1);
        tri_layout layout = layout_of(shapes[s][0], shapes[s][1], shapes[s][2], shapes[s][3], zero);
        check_layout(&model, &layout);
      }
    }
  }
}

/* Tensor ranks whose parts differ in size begin their buckets at the same parameters, because they sum the gradients of
 * norms together, bucket by bucket. */
static void tensor_ranks_have_the_same_buckets(void **state) {
  (void)state;
  tri_model model = model_of(false);
  tri_layout layout = layout_of(4, 1, 2, 1, 1);
  tri_mesh_shape shape = tri_layout_mesh(&layout);
  model.vocab_size = 129; /* parts of 33 and of 32 rows: 1056 elements, which take five blocks, and 1024 */
  tri_parts_request of = {
      .model = &model, .layout = &layout, .micro_batches = MICRO_BATCHES, .sequence = 16, .precision = TRI_FP32};
  for (layout.bucket_bytes = 1024; layout.bucket_bytes < 65536; layout.bucket_bytes += 512) {
    tri_mesh_coordinates first_place = tri_mesh_coordinates_of(&shape, 0);
    tri_parts first;
    CHECK_OK(tri_parts_create(&of, &first_place, &first));
    for (int rank = 1; rank < layout.tensor; rank++) {
      tri_mesh_coordinates place = tri_mesh_coordinates_of(&shape, rank);
      tri_parts parts;
      CHECK_OK(tri_parts_create(&of, &place, &parts));
      assert_int_equal(parts.buckets->count, first.buckets->count);
      for (int64_t b = 0; b < first.buckets->count; b++) {
        assert_int_equal(parts.buckets->entries[b].first_entry, first.buckets->entries[b].first_entry);
      }
      tri_parts_destroy(&parts);
    }
    tri_parts_destroy(&first);
  }
}

/* A parameter that is replicated over a different domain has buckets of its own, with the blocks of that domain. */
static void buckets_follow_the_domain(void **state) {
  (void)state;
  tri_model model = model_of(false);
  tri_layout layout = layout_of(1, 2, 3, 1, 1);
  tri_layer_range all = {-1, model.num_layers + 1};
  tri_mesh_position position = {tri_layout_mesh(&layout), {{0, 0, 1, 2, 0}}};
  tri_model_share share = {.position = position, .chunks = &all, .num_chunks = 1};
  tri_parameter_table *table = NULL;
  tri_buckets *buckets = NULL;
  CHECK_OK(tri_parameter_table_create(&model, &share, &table));
  for (int64_t i = 0; i < table->num_entries; i++) {
    tri_parameter *entry = &table->entries[i];
    if (entry->part == TRI_PART_MLP) entry->placement.replicas = TRI_DOMAIN_BATCH;
  }
  CHECK_OK(tri_buckets_create(&layout, tri_optimizer_settings_default(), &share, table, MICRO_BATCHES, 4, &buckets));
  bool found = false;
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *entry = &table->entries[i];
    const tri_bucket *bucket = tri_bucket_of(buckets, table, i);
    bool mlp = entry->part == TRI_PART_MLP;
    assert_int_equal(bucket->replicas, entry->placement.replicas);
    assert_int_equal(bucket->ranks, mlp ? 3 : 6);
    assert_int_equal(bucket->rank, mlp ? 2 : 5);
    found = found || mlp;
  }
  assert_true(found);
  tri_buckets_destroy(buckets);
  tri_parameter_table_destroy(table);
}

/* Finds the replica that updates each matrix; 0 for parameters that are not matrices. Fails if a matrix is split. */
static void find_owners(const tri_model *model, const tri_layout *layout, const tri_optimizer_settings *optimizer,
                        int rank, int64_t owners[MOST_ENTRIES]) {
  const tri_layer_range all = {-1, model->num_layers + 1};
  const tri_mesh_position position = {tri_layout_mesh(layout), {{rank, 0, 0, 0, 0}}};
  const tri_model_share share = {.position = position, .chunks = &all, .num_chunks = 1};
  tri_parameter_table *table = NULL;
  tri_buckets *buckets = NULL;
  CHECK_OK(tri_parameter_table_create(model, &share, &table));
  CHECK_OK(tri_buckets_create(layout, optimizer, &share, table, MICRO_BATCHES, 4, &buckets));
  assert_true(table->num_entries <= MOST_ENTRIES);
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *entry = &table->entries[i];
    const tri_bucket *bucket = tri_bucket_of(buckets, table, i);
    owners[i] = 0;
    if (tri_parameter_group_of(entry) != TRI_GROUP_MATRICES) continue;
    owners[i] = -1;
    for (int64_t r = 0; r < bucket->ranks; r++) {
      const int64_t first = bucket->first + bucket->begins[r], end = bucket->first + bucket->begins[r + 1];
      if (entry->offset >= first && entry->offset + entry->count <= end) owners[i] = r;
    }
    assert_true(owners[i] >= 0);
  }
  tri_buckets_destroy(buckets);
  tri_parameter_table_destroy(table);
}

/* A matrix that tensor ranks split is gathered on the ranks of one replica. All tensor ranks must assign it to the same
 * replica, even if their parts of it, or of adjacent parameters, are unequal. */
static void tensor_ranks_share_matrices_out_alike(void **state) {
  (void)state;
  static int64_t first[MOST_ENTRIES], other[MOST_ENTRIES];
  tri_optimizer_settings muon = *tri_optimizer_settings_default();
  muon.name = TRI_OPTIMIZER_MUON;
  for (int64_t i = 0; i < 400; i++) {
    tri_model model = model_of(i % 2 == 0);
    model.vocab_size = 60 + i;
    model.ffn_size = 33 + i % 7;
    model.num_heads = 3 + i % 4;
    model.num_kv_heads = i % 3 == 0 ? 1 : model.num_heads;
    tri_layout layout = layout_of(2 + i % 3, 1, 2 + i / 3 % 3, 1, 1);
    layout.bucket_bytes = i % 5 == 0 ? 9000 : 1 << 20;
    find_owners(&model, &layout, &muon, 0, first);
    for (int rank = 1; rank < layout.tensor; rank++) {
      memset(other, 0, sizeof other);
      find_owners(&model, &layout, &muon, rank, other);
      for (int64_t e = 0; e < MOST_ENTRIES; e++) {
        if (first[e] != other[e])
          fail_msg("layout %d: matrix %d is of replica %d, and of %d", (int)i, (int)e, (int)first[e], (int)other[e]);
      }
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_element_counts_once),
      cmocka_unit_test(tensor_ranks_have_the_same_buckets),
      cmocka_unit_test(buckets_follow_the_domain),
      cmocka_unit_test(tensor_ranks_share_matrices_out_alike),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
