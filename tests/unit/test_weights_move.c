/* Moves of weights in memory: each kind of fault has an error message. tests/oracle/test_samples.py tests moves between
 * ranks and layouts. */
#include "check.h"

#include "base/memory.h"
#include "weights/move.h"

#include <string.h>

enum { MOST_TENSORS = 64 };

static tri_model small_model(void) {
  tri_model model = {.family = TRI_FAMILY_LLAMA,
                     .num_layers = 2,
                     .hidden_size = 16,
                     .num_heads = 2,
                     .num_kv_heads = 2,
                     .ffn_size = 32,
                     .vocab_size = 19,
                     .max_sequence = 8,
                     .norm_eps = 1e-5,
                     .init_std = 0.02,
                     .rope_theta = 10000,
                     .rope_scaling.factor = 1};
  CHECK_OK(tri_model_complete(&model));
  return model;
}

/* A sender and a receiver on one rank. */
typedef struct world {
  tri_model model;
  tri_device *device;
  tri_parameter_table *table;
  float *values;
  tri_checkpoint_tensor tensors[MOST_TENSORS];
  tri_checkpoint_slice slices[MOST_TENSORS];
  tri_weights_source from;
  tri_weights *weights;
  tri_weights_target to;
} world;

static void make_world(world *w) {
  const int64_t none[TRI_NUM_STORED] = {0};
  *w = (world){.model = small_model()};
  CHECK_OK(tri_device_create("cpu", 1, &w->device));
  CHECK_OK(tri_parameter_table_create(&w->model, NULL, &w->table));
  CHECK_OK(tri_alloc("values", (size_t)w->table->num_elements, sizeof *w->values, &w->values));
  for (int64_t i = 0; i < w->table->num_elements; i++) w->values[i] = (float)(i + 1) / 7;
  assert_true(w->table->num_entries <= MOST_TENSORS);
  for (int64_t i = 0; i < w->table->num_entries; i++) {
    const tri_parameter *entry = &w->table->entries[i];
    w->tensors[i] = (tri_checkpoint_tensor){.name = entry->name, .type = TRI_FP32, .num_dims = entry->num_dims};
    w->slices[i] =
        (tri_checkpoint_slice){.tensor = i, .part = entry, .count = entry->count, .data = w->values + entry->offset};
  }
  w->from = (tri_weights_source){w->tensors, w->table->num_entries, w->slices, w->table->num_entries, 5};
  CHECK_OK(tri_weights_create(w->table, NULL, TRI_FP32, &w->weights));
  const tri_weights_plan plan = tri_weights_plan_make(NULL, w->table->num_elements, none, TRI_FP32);
  CHECK_OK(tri_weights_allocate(w->weights, &plan, w->device));
  w->to.weights = w->weights;
}

static void free_world(const world *w) {
  tri_weights_destroy(w->weights);
  tri_free(w->values);
  tri_parameter_table_destroy(w->table);
  tri_device_destroy(w->device);
}

static tri_status move(const world *w) {
  const tri_group alone = tri_group_alone("job");
  return tri_weights_move(&alone, &w->from, &w->to);
}

static void test_copy(void **state) {
  (void)state;
  world w;
  make_world(&w);
  CHECK_OK(move(&w));
  assert_int_equal(tri_weights_version(w.weights), 5);
  for (int64_t i = 0; i < w.table->num_entries; i++) {
    const tri_parameter *entry = &w.table->entries[i];
    const char *to = (const char *)w.weights->parameters[i].value;
    assert_memory_equal(to, w.values + entry->offset, (size_t)entry->count * sizeof(float));
  }
  free_world(&w);
}

/* Memory that damages an element that is written, or writes a layer's matrix to the place of another one. */
typedef struct faulty {
  char *damaged; /* the byte to damage; NULL: none */
  char *first, *second;
  size_t bytes; /* bytes of each of two matrices; values for the first are written to the second */
  char *older;  /* address during whose write the sender has older weights; NULL: none */
  int64_t *version;
} faulty;

static tri_status read_plain(void *context, void *to_host, const void *from, size_t bytes) {
  (void)context;
  memcpy(to_host, from, bytes);
  return TRI_OK;
}

static tri_status write_wrongly(void *context, void *to, const void *from_host, size_t bytes) {
  const faulty *f = context;
  char *at = to;
  if (f->version != NULL) *f->version = at == f->older ? 4 : 5;
  if (f->bytes > 0 && at >= f->first && at < f->first + f->bytes) {
    at = f->second + (at - f->first);
  } else if (f->bytes > 0 && at >= f->second && at < f->second + f->bytes) {
    at = f->first + (at - f->second);
  }
  memcpy(at, from_host, bytes);
  if (f->damaged >= at && f->damaged < at + bytes) *f->damaged ^= 1;
  return TRI_OK;
}

static int64_t number_of(const world *w, const char *name) {
  for (int64_t i = 0; i < w->table->num_entries; i++) {
    if (strcmp(w->table->entries[i].name, name) == 0) return i;
  }
  fail_msg("no parameter %s", name);
  return -1;
}

static const char up[] = "model.layers.0.mlp.up_proj.weight", next_up[] = "model.layers.1.mlp.up_proj.weight";

static void test_damaged_and_swapped(void **state) {
  (void)state;
  for (int kind = 0; kind < 2; kind++) {
    world w;
    make_world(&w);
    const int64_t first = number_of(&w, up), second = number_of(&w, next_up);
    faulty f = {0};
    if (kind == 0) f.damaged = (char *)w.weights->parameters[first].value + 101;
    if (kind == 1) {
      f.first = w.weights->parameters[first].value;
      f.second = w.weights->parameters[second].value;
      f.bytes = (size_t)w.table->entries[first].count * sizeof(float);
    }
    const tri_checkpoint_memory memory = {.context = &f, .read = read_plain, .write = write_wrongly};
    w.to.memory = &memory;
    CHECK_FAILS(move(&w), TRI_COMM,
                "weights in memory: `model.layers.0.mlp.up_proj.weight` came from rank 0 with other values than were "
                "sent, version 5, and the weights have version 5");
    free_world(&w);
  }
}

static void test_old_version(void **state) {
  (void)state;
  world w;
  make_world(&w);
  faulty f = {.older = w.weights->parameters[number_of(&w, next_up)].value, .version = &w.from.version};
  const tri_checkpoint_memory memory = {.context = &f, .read = read_plain, .write = write_wrongly};
  w.to.memory = &memory;
  CHECK_FAILS(move(&w), TRI_COMM,
              "weights in memory: `model.layers.1.mlp.up_proj.weight` came from rank 0 with version 4, and the weights "
              "have version 5");
  free_world(&w);
}

/* The sender confuses a tensor with another one of the same shape. */
static void test_wrong_number(void **state) {
  (void)state;
  world w;
  make_world(&w);
  w.tensors[number_of(&w, up)].name = next_up;
  CHECK_FAILS(move(&w), TRI_INTERNAL, "no rank sends `model.layers.0.mlp.up_proj.weight`");
  free_world(&w);
}

static void test_not_sent(void **state) {
  (void)state;
  for (int kind = 0; kind < 2; kind++) {
    world w;
    make_world(&w);
    tri_checkpoint_slice *slice = &w.slices[number_of(&w, next_up)];
    if (kind == 0) slice->count = 0;
    if (kind == 1) slice->count -= 3;
    CHECK_FAILS(move(&w), TRI_COMM,
                kind == 0 ? "weights in memory: 0 of the 512 elements of `model.layers.1.mlp.up_proj.weight` were sent"
                          : "weights in memory: 509 of the 512 elements of `model.layers.1.mlp.up_proj.weight`");
    free_world(&w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_copy), cmocka_unit_test(test_damaged_and_swapped),
                                     cmocka_unit_test(test_old_version), cmocka_unit_test(test_wrong_number),
                                     cmocka_unit_test(test_not_sent)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
