/* Stacks of experts in the parameter table: the ranks that have parts of them, their tensors on disk, their initial
 * values, and the buckets that their replicas share. The test makes the tables, as a family of models does. */
#include "base/memory.h"
#include "check.h"
#include "device/device.h"
#include "engine/initialise.h"
#include "schedule/buckets.h"
#include "schedule/updates.h"

#include <stdlib.h>
#include <string.h>

enum { EXPERTS = 5, WIDTH = 6, INNER = 12, LAYERS = 2, PER_LAYER = 6, ENTRIES = LAYERS * PER_LAYER };
enum { NORM, PROJECTION, ROUTER, BIAS, GATE_UP, DOWN };

static const char *const GATE_UP_NAMES[] = {"model.layers.%ld.mlp.experts.%ld.gate_proj.weight",
                                            "model.layers.%ld.mlp.experts.%ld.up_proj.weight"};
static const char *const DOWN_NAMES[] = {"model.layers.%ld.mlp.experts.%ld.down_proj.weight"};

/* Returns the table of two layers, each with a norm, a dense matrix, a router with its bias, and experts. */
static tri_parameter_table table_of(const tri_model_share *share) {
  tri_parameter_table table = {0};
  for (int64_t l = 0; l < LAYERS; l++) {
    const tri_split rows = tri_split_elements(0, 8);
    CHECK_OK(
        tri_parameter_table_add(&table, "model.layers.%ld.norm.weight", l, tri_parameter_norm(WIDTH, TRI_INIT_ONE)));
    CHECK_OK(tri_parameter_table_add(&table, "model.layers.%ld.proj.weight", l,
                                     tri_parameter_matrix(TRI_PART_ATTENTION, 8, WIDTH, rows, 0.5)));
    CHECK_OK(tri_parameter_table_add(&table, "model.layers.%ld.mlp.gate.weight", l,
                                     tri_parameter_matrix(TRI_PART_ROUTER, EXPERTS, WIDTH, tri_split_none(), 0.5)));
    CHECK_OK(tri_parameter_table_add(&table, "model.layers.%ld.mlp.gate.e_score_correction_bias", l,
                                     tri_parameter_balance(EXPERTS)));
    CHECK_OK(tri_parameter_table_add_stack(&table, GATE_UP_NAMES, l,
                                           tri_parameter_experts(EXPERTS, 2, INNER, WIDTH, 0, 0.5)));
    CHECK_OK(
        tri_parameter_table_add_stack(&table, DOWN_NAMES, l, tri_parameter_experts(EXPERTS, 1, WIDTH, INNER, 1, 0.25)));
  }
  tri_parameter_table_lay_out(&table, share);
  return table;
}

static tri_model_share share_of(const tri_mesh_shape *shape, int rank, const tri_layer_range *layers) {
  return (tri_model_share){
      .position = {*shape, tri_mesh_coordinates_of(shape, rank)}, .chunks = layers, .num_chunks = 1};
}

/* Lists shapes: experts over 1 to 5 ranks, each whole or split, in stages whose first view has other axes. */
static int64_t shapes_of(tri_mesh_shape out[64]) {
  static const int sizes[][TRI_NUM_MESH_AXES] = {{1, 1, 1, 1, 1}, {2, 1, 1, 1, 1}, {1, 1, 1, 3, 1}, {2, 1, 1, 3, 1},
                                                 {2, 1, 2, 1, 1}, {1, 2, 1, 4, 1}, {1, 1, 1, 5, 1}, {4, 1, 1, 3, 1}};
  int64_t count = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    tri_mesh_shape shape = {.expert_tensor = 1};
    memcpy(shape.size, sizes[i], sizeof shape.size);
    int ranks = tri_mesh_stage_ranks(&shape);
    for (; shape.expert_tensor <= 6; shape.expert_tensor++) {
      for (shape.expert = 1; shape.expert <= EXPERTS; shape.expert++) {
        if (INNER % shape.expert_tensor != 0 || ranks % (shape.expert_tensor * shape.expert) != 0) continue;
        assert_in_range(count, 0, 63);
        out[count++] = shape;
      }
    }
  }
  return count;
}

/* ---- who holds what ---------------------------------------------------------------------------------------------- */

/* Returns the position of element (row, column) of an expert's matrix in the rank's part of a stack; -1 if the rank
 * does not have this element. */
static int64_t place_of(const tri_mesh_shape *shape, int rank, int stack, int64_t member, int64_t kind, int64_t row,
                        int64_t column) {
  const int64_t holder = rank / shape->expert_tensor % shape->expert, part = rank % shape->expert_tensor;
  int64_t first = 0, members = EXPERTS / shape->expert + (holder < EXPERTS % shape->expert ? 1 : 0);
  for (int64_t h = 0; h < holder; h++) first += EXPERTS / shape->expert + (h < EXPERTS % shape->expert ? 1 : 0);
  const int64_t share = INNER / shape->expert_tensor;
  if (member < first || member >= first + members) return -1;
  if (stack == GATE_UP) {
    if (row / share != part) return -1;
    return ((member - first) * 2 + kind) * share * WIDTH + row % share * WIDTH + column;
  }
  if (column / share != part) return -1;
  return (member - first) * WIDTH * share + row * share + column % share;
}

/* Returns the local index of the tensor's element with number `global`; -1: not on this rank. */
static int64_t find_by_runs(const tri_parameter *tensor, int64_t global) {
  int64_t length = tri_parameter_run_length(tensor);
  for (int64_t at = 0; at < tensor->count; at += length) {
    int64_t begin = tri_parameter_run(tensor, at / length);
    if (global >= begin && global < begin + length) return at + global - begin;
  }
  return -1;
}

static void check_stack(const tri_mesh_shape *shape, int rank, const tri_parameter *entry, int stack) {
  const int64_t kinds = stack == GATE_UP ? 2 : 1;
  assert_int_equal(tri_parameter_num_tensors(entry), kinds * EXPERTS);
  assert_int_equal(tri_parameter_global_count(entry), kinds * EXPERTS * WIDTH * INNER);
  int64_t held = 0;
  for (int64_t t = 0; t < kinds * EXPERTS; t++) {
    int64_t first = 0;
    const tri_parameter tensor = tri_parameter_tensor(entry, t, &first);
    assert_int_equal(tri_parameter_num_tensors(&tensor), 1);
    assert_int_equal(tri_parameter_global_count(&tensor), WIDTH * INNER);
    for (int64_t i = 0; i < WIDTH * INNER; i++) {
      int64_t columns = entry->shape[1], at = find_by_runs(&tensor, i);
      int64_t expected = place_of(shape, rank, stack, t / kinds, t % kinds, i / columns, i % columns);
      assert_int_equal(at < 0 ? -1 : first + at, expected);
      held += expected >= 0;
    }
  }
  assert_int_equal(entry->count, held);
}

static void ranks_hold_experts(void **state) {
  (void)state;
  tri_mesh_shape shapes[64];
  const tri_layer_range all = {-1, 3};
  int64_t num_shapes = shapes_of(shapes);
  assert_in_range(num_shapes, 25, 64);
  for (int64_t i = 0; i < num_shapes; i++) {
    for (int rank = 0; rank < tri_mesh_num_ranks(&shapes[i]); rank++) {
      const tri_model_share share = share_of(&shapes[i], rank, &all);
      tri_parameter_table table = table_of(&share);
      for (int l = 0; l < LAYERS; l++) {
        const tri_parameter *layer = &table.entries[l * PER_LAYER];
        check_stack(&shapes[i], rank, &layer[GATE_UP], GATE_UP);
        check_stack(&shapes[i], rank, &layer[DOWN], DOWN);
        /* The gradient of a router is a partial sum if tensor ranks share a layer's rows; its bias has no gradient. */
        assert_int_equal(tri_parameter_is_partial(&layer[ROUTER]), shapes[i].size[TRI_AXIS_TENSOR] > 1);
        assert_false(tri_parameter_is_partial(&layer[BIAS]) || tri_parameter_is_partial(&layer[GATE_UP]) ||
                     tri_parameter_is_partial(&layer[NORM]));
        assert_true(tri_parameter_has_gradient(&layer[ROUTER]) && !tri_parameter_has_gradient(&layer[BIAS]));
        assert_true(layer[GATE_UP].counted && layer[DOWN].counted &&
                    tri_parameter_group_of(&layer[GATE_UP]) == TRI_GROUP_MATRICES &&
                    tri_parameter_group_of(&layer[BIAS]) == TRI_GROUP_VECTORS);
      }
      tri_free(table.entries);
    }
  }
}

/* The names of the tensors on disk, also if the layer is on another stage. */
static void tensors_have_names(void **state) {
  (void)state;
  const tri_layer_range first_layer = {-1, 1};
  const tri_mesh_shape alone = tri_mesh_position_alone().shape;
  const tri_model_share share = share_of(&alone, 0, &first_layer);
  tri_parameter_table table = table_of(&share);
  const tri_parameter *stack = &table.entries[PER_LAYER + GATE_UP];
  int64_t first = 0;
  assert_string_equal(stack->name, "model.layers.1.mlp.experts.*.gate_proj.weight");
  tri_parameter tensor = tri_parameter_tensor(stack, 9, &first);
  assert_string_equal(tensor.name, "model.layers.1.mlp.experts.4.up_proj.weight");
  assert_int_equal(tensor.count, 0);
  tensor = tri_parameter_tensor(&table.entries[DOWN], 3, &first);
  assert_string_equal(tensor.name, "model.layers.0.mlp.experts.3.down_proj.weight");
  assert_int_equal(first, 3 * WIDTH * INNER);
  tensor = tri_parameter_tensor(&table.entries[PROJECTION], 0, &first);
  assert_string_equal(tensor.name, "model.layers.0.proj.weight");
  assert_int_equal(table.num_values,
                   LAYERS * (WIDTH + 8 * WIDTH + EXPERTS * WIDTH + EXPERTS + 3 * EXPERTS * WIDTH * INNER));
  tri_free(table.entries);
}

/* Initial values do not depend on the layout. */
static void initial_values_know_no_layout(void **state) {
  (void)state;
  tri_mesh_shape shapes[64];
  const tri_layer_range all = {-1, 3};
  int64_t num_shapes = shapes_of(shapes);
  tri_device *device = NULL;
  double *whole_values = NULL, *values = NULL;
  tri_parameter_table whole = table_of(NULL);
  CHECK_OK(tri_device_create("reference", 1, &device));
  CHECK_OK(tri_alloc("values", (size_t)whole.num_elements, sizeof *values, &whole_values));
  CHECK_OK(tri_alloc("values", (size_t)whole.num_elements, sizeof *values, &values));
  CHECK_OK(tri_initialise(device, &whole, NULL, 7, TRI_FP64, &(tri_value_arrays){.trained = whole_values}));
  for (int64_t i = 0; i < num_shapes; i++) {
    for (int rank = 0; rank < tri_mesh_num_ranks(&shapes[i]); rank++) {
      const tri_model_share share = share_of(&shapes[i], rank, &all);
      tri_parameter_table table = table_of(&share);
      CHECK_OK(tri_initialise(device, &table, NULL, 7, TRI_FP64, &(tri_value_arrays){.trained = values}));
      for (int64_t t = 0; t < 2 * EXPERTS; t++) {
        int64_t first = 0, in_whole = 0;
        const tri_parameter tensor = tri_parameter_tensor(&table.entries[GATE_UP], t, &first);
        (void)tri_parameter_tensor(&whole.entries[GATE_UP], t, &in_whole);
        for (int64_t k = 0; k < WIDTH * INNER; k++) {
          int64_t at = find_by_runs(&tensor, k);
          if (at < 0) continue;
          double expected = whole_values[whole.entries[GATE_UP].offset + in_whole + k];
          assert_true(values[table.entries[GATE_UP].offset + first + at] == expected);
        }
      }
      tri_free(table.entries);
    }
  }
  /* Different experts, and different kinds, begin with different values. */
  const double *stack = &whole_values[whole.entries[GATE_UP].offset];
  for (int64_t t = 1; t < 2 * EXPERTS; t++) assert_true(stack[t * WIDTH * INNER] != stack[0]);
  tri_free(values);
  tri_free(whole_values);
  tri_free(whole.entries);
  tri_device_destroy(device);
}

/* ---- buckets ----------------------------------------------------------------------------------------------------- */

/* Counts how often the ranks of a stage update an element of a tensor, without copies: once, under any ZeRO. */
typedef struct updates {
  int *of_tensor[ENTRIES];
} updates;

/* Adds the updates of one call. Muon must get whole tensors. */
static void add_call(const tri_parameter *entry, const tri_update_call *call, updates *to) {
  const tri_element_range own = {call->first, call->count, 0};
  for (int64_t t = 0; t < tri_parameter_num_tensors(entry); t++) {
    int64_t first = 0;
    const tri_parameter tensor = tri_parameter_tensor(entry, t, &first);
    const tri_element_range part = tri_element_range_within(own, first, tensor.count);
    assert_true(part.count == 0 || part.at == first + part.first - own.first);
    if (part.count > 0 && call->optimizer == &tri_optimizer_muon) assert_int_equal(part.count, tensor.count);
    const int64_t count = tri_parameter_global_count(&tensor);
    for (int64_t k = 0; k < count; k++) {
      int64_t at = find_by_runs(&tensor, k);
      if (at >= part.first && at < part.first + part.count) to->of_tensor[call->entry][t * count + k]++;
    }
  }
}

static void add_updates(const tri_optimizer_settings *settings, const tri_parameter_table *table,
                        const tri_mesh_position *position, const tri_buckets *buckets, int zero, bool first_replica[2],
                        updates *to) {
  tri_updates *list = NULL;
  CHECK_OK(tri_updates_create(settings, position, TRI_FP32, table, buckets, &list));
  for (int64_t i = 0; i < list->count; i++) {
    const tri_parameter *entry = &table->entries[list->calls[i].entry];
    bool replica = first_replica[entry->placement.has_holders ? 1 : 0];
    if (entry->counted && (zero > 0 || replica)) add_call(entry, &list->calls[i], to);
  }
  tri_updates_destroy(list);
}

static void check_kind(const tri_bucket *bucket, const tri_bucket *same, const tri_parameter_table *table,
                       const tri_mesh_position *position) {
  assert_int_equal(bucket->first_entry, same->first_entry); /* all ranks have the same buckets */
  assert_int_equal(bucket->end_entry, same->end_entry);
  assert_int_equal(bucket->ranks, tri_domain_size(&position->shape, bucket->replicas));
  assert_int_equal(bucket->rank, tri_domain_rank(&position->shape, &position->place, bucket->replicas));
  for (int64_t e = bucket->first_entry; e < bucket->end_entry; e++) {
    assert_int_equal(bucket->replicas, table->entries[e].placement.replicas);
    assert_int_equal(bucket->experts, table->entries[e].placement.has_holders);
  }
}

static void check_buckets(const tri_optimizer_settings *settings, const tri_mesh_shape *shape, int zero,
                          int64_t bucket_bytes) {
  const tri_layer_range all = {-1, 3};
  const tri_layout layout = {.zero = zero, .bucket_bytes = bucket_bytes};
  tri_parameter_table whole = table_of(NULL);
  updates counts = {{0}};
  tri_buckets *first = NULL;
  for (int64_t e = 0; e < ENTRIES; e++) {
    const size_t count = (size_t)tri_parameter_global_count(&whole.entries[e]);
    CHECK_OK(tri_alloc("counts", count, sizeof(int), &counts.of_tensor[e]));
  }
  for (int rank = 0; rank < tri_mesh_num_ranks(shape); rank++) {
    const tri_model_share share = share_of(shape, rank, &all);
    tri_parameter_table table = table_of(&share);
    tri_buckets *buckets = NULL;
    CHECK_OK(tri_buckets_create(&layout, settings, &share, &table, 1, 8, &buckets));
    const tri_buckets *like = first == NULL ? buckets : first;
    assert_int_equal(buckets->count, like->count);
    for (int64_t b = 0; b < buckets->count; b++)
      check_kind(&buckets->entries[b], &like->entries[b], &table, &share.position);
    bool replicas[2] = {tri_domain_rank(shape, &share.position.place, TRI_DOMAIN_REPLICAS) == 0,
                        tri_domain_rank(shape, &share.position.place, TRI_DOMAIN_EXPERT_REPLICAS) == 0};
    add_updates(settings, &table, &share.position, buckets, zero, replicas, &counts);
    if (first == NULL) first = buckets;
    if (first != buckets) tri_buckets_destroy(buckets);
    tri_free(table.entries);
  }
  for (int64_t e = 0; e < ENTRIES; e++) {
    for (int64_t k = 0; k < tri_parameter_global_count(&whole.entries[e]); k++) {
      assert_int_equal(counts.of_tensor[e][k], 1);
    }
    tri_free(counts.of_tensor[e]);
  }
  tri_buckets_destroy(first);
  tri_free(whole.entries);
}

static void replicas_share_experts_out(void **state) {
  (void)state;
  tri_mesh_shape shapes[64];
  int64_t num_shapes = shapes_of(shapes);
  tri_optimizer_settings settings[2] = {*tri_optimizer_settings_default(), *tri_optimizer_settings_default()};
  settings[1].name = TRI_OPTIMIZER_MUON;
  for (int64_t i = 0; i < num_shapes; i++) {
    for (int zero = 0; zero <= 3; zero++) {
      for (int matrices = 0; matrices < 2; matrices++) {
        check_buckets(&settings[matrices], &shapes[i], zero, 1);
        check_buckets(&settings[matrices], &shapes[i], zero, 1 << 20);
      }
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_hold_experts),
      cmocka_unit_test(tensors_have_names),
      cmocka_unit_test(initial_values_know_no_layout),
      cmocka_unit_test(replicas_share_experts_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
