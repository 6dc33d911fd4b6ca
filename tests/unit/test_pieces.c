/* Programs of stages with experts, executed step by step by a model of the engine: every call finds the values of its
 * bucket in their slot, also calls that are recomputed before their layer's backward; every bucket is reduced after the
 * last call that adds to its gradients; and no slot is filled before it is free. Some parameters are frozen: a backward
 * gathers nothing for calls below the lowest trained one. */
#include "base/memory.h"
#include "base/random.h"
#include "check.h"
#include "schedule/program.h"

enum { LAYERS = 4, EXPERTS = 3, MOST_CALLS = 64, MOST_BUCKETS = 32 };
enum { NORM, MATRIX, STACK, PER_LAYER }; /* entries of a layer; the first layer has no experts */

static const char *const STACK_NAMES[] = {"layers.%ld.experts.%ld.weight"};

static tri_status no_pass(tri_run *run, const tri_op_call *call) {
  (void)run;
  (void)call;
  return TRI_OK;
}
static const tri_op an_op = {.name = "nothing", .backward_input = no_pass, .backward_weight = no_pass};

static uint64_t drawn(uint64_t seed, uint64_t index, uint64_t below) {
  return tri_random_u32(tri_random_stream(seed, TRI_RANDOM_TEST, 17), index) % below;
}

/* Freezes some parameters, with a random type of storage. */
static void freeze(tri_parameter *parameter, uint64_t seed, int64_t layer, int which) {
  const uint64_t at = 300 + (uint64_t)(layer * PER_LAYER + which);
  const bool upper = layer == LAYERS - 1; /* at least one parameter is trained */
  if (seed % 3 != 0 || upper || drawn(seed, at, 3) == 0) return;
  parameter->frozen = true;
  parameter->stored = which == NORM ? TRI_STORED_WIDE : (tri_stored)drawn(seed, at + 100, TRI_NUM_STORED);
}

static tri_parameter_table table_of(const tri_model_share *share, uint64_t seed) {
  tri_parameter_table table = {0};
  for (int64_t l = 0; l < LAYERS; l++) {
    tri_parameter norm = tri_parameter_norm(512, TRI_INIT_ONE);
    tri_parameter matrix = tri_parameter_matrix(TRI_PART_ATTENTION, 32, 32, tri_split_elements(0, 32), 0.5);
    tri_parameter stack = tri_parameter_experts(EXPERTS, 1, 32, 32, 0, 0.5);
    freeze(&norm, seed, l, NORM);
    freeze(&matrix, seed, l, MATRIX);
    freeze(&stack, seed, l, STACK);
    CHECK_OK(tri_parameter_table_add(&table, "layers.%ld.norm.weight", l, norm));
    CHECK_OK(tri_parameter_table_add(&table, "layers.%ld.weight", l, matrix));
    if (l > 0) CHECK_OK(tri_parameter_table_add_stack(&table, STACK_NAMES, l, stack));
  }
  tri_parameter_table_lay_out(&table, share);
  return table;
}

static int32_t entry_of(int64_t layer, int which) { return (int32_t)(layer * PER_LAYER + which - (layer > 0 ? 1 : 0)); }

static void add_call(tri_op_list *list, int64_t layer, bool expert, int32_t parameter) {
  assert_true(list->num_calls < MOST_CALLS);
  tri_op_call call = tri_op_call_of(&an_op, NULL);
  call.layer = (int32_t)layer;
  call.expert = expert;
  call.index = (int32_t)list->num_calls;
  call.parameters[0] = parameter;
  list->calls[list->num_calls++] = call;
}

/* Makes a random list: a norm first, calls with and without parameters, and experts; with `mixed` also dense calls
 * after experts, and experts after these. */
static tri_op_list list_of(uint64_t seed, bool mixed, tri_op_call *calls) {
  tri_op_list list = {.calls = calls};
  for (int64_t l = 0; l < LAYERS; l++) {
    add_call(&list, l, false, entry_of(l, NORM));
    if (drawn(seed, 8 * (uint64_t)l, 2) == 0) add_call(&list, l, false, -1);
    add_call(&list, l, false, entry_of(l, MATRIX));
    if (drawn(seed, 8 * (uint64_t)l + 1, 2) == 0) add_call(&list, l, false, -1);
    if (l == 0) continue;
    add_call(&list, l, true, -1);
    add_call(&list, l, true, entry_of(l, STACK));
    if (mixed && drawn(seed, 8 * (uint64_t)l + 2, 2) == 0) add_call(&list, l, false, entry_of(l, MATRIX));
    if (mixed && drawn(seed, 8 * (uint64_t)l + 3, 2) == 0) add_call(&list, l, true, entry_of(l, STACK));
    if (drawn(seed, 8 * (uint64_t)l + 4, 2) == 0) add_call(&list, l, false, -1);
  }
  if (drawn(seed, 100, 2) == 0) add_call(&list, LAYERS, false, -1); /* a stage's output */
  return list;
}

/* Sets the directions as tri_op_list_finish does: operations below the lowest trained parameter have no backward. */
static void find_directions(const tri_parameter_table *table, tri_op_list *list) {
  bool trained = false;
  for (int64_t c = 0; c < list->num_calls; c++) {
    tri_op_call *call = &list->calls[c];
    const bool frozen = call->parameters[0] >= 0 && table->entries[call->parameters[0]].frozen;
    call->passes_back = trained;
    trained = trained || (call->parameters[0] >= 0 && !frozen);
    call->backward = trained;
    call->frozen = frozen ? 1 : 0;
  }
}

/* ---- execution --------------------------------------------------------------------------------------------------- */

typedef struct machine {
  const tri_buckets *buckets;
  const tri_op_list *list;
  const tri_parameter_table *table;
  int64_t micro_batches;
  int64_t values[TRI_BUCKET_BUFFERS], gradients[TRI_BUCKET_BUFFERS]; /* the bucket in each slot; -1: none */
  bool gathered[MOST_BUCKETS], reduced[MOST_BUCKETS], waited[MOST_BUCKETS];
  int forwards[MOST_CALLS], inputs[MOST_CALLS], weights[MOST_CALLS]; /* how often a call has run */
  int pieces;
} machine;

static int64_t bucket_of(const machine *m, const tri_op_call *call) {
  const tri_bucket *bucket = call->parameters[0] < 0 ? NULL : tri_bucket_of(m->buckets, m->table, call->parameters[0]);
  return bucket == NULL ? -1 : bucket - m->buckets->entries;
}

static void find_values(const machine *m, int64_t number) {
  const int64_t b = bucket_of(m, &m->list->calls[number]);
  const tri_bucket *bucket = b < 0 ? NULL : &m->buckets->entries[b];
  if (bucket == NULL || !bucket->values_sharded) return;
  assert_int_equal(m->values[bucket->buffer], b);
  assert_true(m->gathered[b]);
}

static void run_call(machine *m, int64_t number, bool forward, bool input, bool weight) {
  const int64_t b = bucket_of(m, &m->list->calls[number]);
  const tri_bucket *bucket = b < 0 ? NULL : &m->buckets->entries[b];
  if (forward) m->forwards[number]++;
  if (input) m->inputs[number]++;
  if (weight) m->weights[number]++;
  const tri_op_call *call = &m->list->calls[number];
  if (bucket == NULL) return;
  if (forward || (input && tri_op_has_inputs(call))) find_values(m, number);
  if (!weight || !tri_op_has_weights(call)) return;
  assert_true(tri_bucket_is_trained(bucket));
  assert_false(m->reduced[b]);
  if (!bucket->gradients_sharded) return;
  const int64_t before = m->gradients[bucket->buffer];
  assert_true(before < 0 || before == b || m->waited[before]);
  m->gradients[bucket->buffer] = b;
}

/* Recomputes a layer before the backward of its last call. */
static void run_layer_again(const machine *m, int64_t number) {
  const tri_call_range layer = tri_op_list_layer(m->list, number);
  for (int64_t c = layer.first; c < layer.end && layer.end == number + 1; c++) {
    if (m->list->calls[c].recompute) find_values(m, c);
  }
}

static void run_piece(machine *m, const tri_instruction *at) {
  bool forward = at->kind == TRI_FORWARD, input = at->kind == TRI_BACKWARD || at->kind == TRI_BACKWARD_INPUT;
  bool weight = at->kind == TRI_BACKWARD || at->kind == TRI_BACKWARD_WEIGHT;
  assert_true(at->first_call < at->end_call);
  m->pieces++;
  for (int32_t i = 0; i < at->end_call - at->first_call; i++) {
    int32_t call = forward ? at->first_call + i : at->end_call - 1 - i;
    if (!forward) run_layer_again(m, call);
    run_call(m, call, forward, input, weight);
  }
}

static void check_whole(const machine *m, int64_t b) {
  for (int64_t c = 0; c < m->list->num_calls; c++) {
    if (bucket_of(m, &m->list->calls[c]) == b) assert_int_equal(m->weights[c], m->micro_batches);
  }
}

static void run(machine *m, const tri_instruction *at) {
  const tri_bucket *bucket = at->bucket < 0 ? NULL : &m->buckets->entries[at->bucket];
  if (at->first_call >= 0) run_piece(m, at);
  if (bucket == NULL) return;
  if (at->kind == TRI_GATHER && bucket->values_sharded) m->values[bucket->buffer] = at->bucket;
  if (at->kind == TRI_GATHER || at->kind == TRI_WAIT_GATHERED) m->gathered[at->bucket] = at->kind == TRI_WAIT_GATHERED;
  if (at->kind == TRI_REDUCE) {
    assert_false(m->reduced[at->bucket]);
    check_whole(m, at->bucket);
    m->reduced[at->bucket] = true;
  }
  if (at->kind == TRI_WAIT_REDUCED) {
    assert_true(m->reduced[at->bucket] && !m->waited[at->bucket]);
    m->waited[at->bucket] = true;
  }
}

static int check_program(const tri_mesh_shape *shape, int rank, int zero, int64_t micro_batches, bool mixed,
                         uint64_t seed) {
  const tri_layer_range all = {-1, LAYERS + 1};
  const tri_model_share share = {
      .position = {*shape, tri_mesh_coordinates_of(shape, rank)}, .chunks = &all, .num_chunks = 1};
  const tri_layout layout = {.tensor = shape->size[TRI_AXIS_TENSOR],
                             .pipeline = 1,
                             .virtual_stages = 1,
                             .schedule = drawn(seed, 99, 2) == 0 ? TRI_SCHEDULE_1F1B : TRI_SCHEDULE_ZERO_BUBBLE,
                             .micro_batch = 1,
                             .zero = zero,
                             .recompute = drawn(seed, 96, 2) == 0 ? TRI_RECOMPUTE_NONE : TRI_RECOMPUTE_FULL,
                             .bucket_bytes = drawn(seed, 98, 2) == 0 ? 1 : 1 << 20};
  tri_op_call calls[MOST_CALLS];
  tri_parameter_table table = table_of(&share, seed);
  tri_op_list list = list_of(seed, mixed, calls);
  find_directions(&table, &list);
  const tri_op_list *lists[1] = {&list};
  for (int64_t c = 0; c < list.num_calls; c++) {
    calls[c].recompute =
        layout.recompute != TRI_RECOMPUTE_NONE && calls[c].backward && drawn(seed, 200 + (uint64_t)c, 4) > 0;
  }
  tri_buckets *buckets = NULL;
  tri_program *program = NULL;
  CHECK_OK(tri_buckets_create(&layout, tri_optimizer_settings_default(), &share, &table, micro_batches, 8, &buckets));
  assert_in_range(buckets->count, 1, MOST_BUCKETS);
  const tri_program_request request = {
      .layout = &layout, .micro_batches = micro_batches, .lists = lists, .buckets = buckets};
  CHECK_OK(tri_program_create(&request, &program));
  machine m = {.buckets = buckets, .list = &list, .table = &table, .micro_batches = micro_batches};
  for (int slot = 0; slot < TRI_BUCKET_BUFFERS; slot++) m.values[slot] = m.gradients[slot] = -1;
  for (int64_t i = 0; i < program->num_instructions; i++) run(&m, &program->instructions[i]);
  for (int64_t c = 0; c < list.num_calls; c++) {
    assert_int_equal(m.forwards[c], micro_batches);
    assert_int_equal(m.inputs[c], micro_batches);
    assert_int_equal(m.weights[c], micro_batches);
  }
  for (int64_t b = 0; b < buckets->count; b++) {
    const bool is_reduced = buckets->entries[b].ranks > 1 && tri_bucket_is_trained(&buckets->entries[b]);
    assert_int_equal(m.reduced[b], is_reduced);
    assert_int_equal(m.waited[b], is_reduced);
  }
  tri_program_destroy(program);
  tri_buckets_destroy(buckets);
  tri_free(table.entries);
  return m.pieces;
}

static void calls_find_their_buckets(void **state) {
  (void)state;
  static const tri_mesh_shape shapes[] = {{.size = {1, 1, 1, 1, 1}, .expert_tensor = 1, .expert = 1},
                                          {.size = {1, 1, 1, 4, 1}, .expert_tensor = 1, .expert = 1},
                                          {.size = {1, 1, 1, 4, 1}, .expert_tensor = 1, .expert = 2},
                                          {.size = {1, 1, 1, 2, 1}, .expert_tensor = 1, .expert = 2},
                                          {.size = {2, 1, 1, 1, 1}, .expert_tensor = 1, .expert = 1},
                                          {.size = {2, 1, 1, 3, 1}, .expert_tensor = 1, .expert = 3},
                                          {.size = {2, 1, 2, 1, 1}, .expert_tensor = 2, .expert = 1}};
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    for (uint64_t seed = 0; seed < 200; seed++) {
      const int zero = (int)(seed % 4), rank = (int)drawn(seed, 97, (uint64_t)tri_mesh_num_ranks(&shapes[i]));
      (void)check_program(&shapes[i], rank, zero, 1 + (int64_t)(seed / 4 % 2), seed % 16 >= 8, seed);
    }
  }
}

/* Programs separate replicated experts from the dense part of their layer, and keep adjacent dense parts together. */
static void experts_have_pieces_of_their_own(void **state) {
  (void)state;
  const tri_mesh_shape several = {.size = {1, 1, 1, 4, 1}, .expert_tensor = 1, .expert = 2};
  const tri_mesh_shape alone = {.size = {1, 1, 1, 4, 1}, .expert_tensor = 1, .expert = 4};
  /* Seeds without frozen parameters: one micro-batch's forward and, with zero 0, a backward in pieces: layers 0 and 1,
   * then three times experts and the next layer's dense part. Only experts follow the last layer's dense part. */
  for (uint64_t seed = 0; seed < 30; seed++) {
    if (seed % 3 == 0) continue;
    const bool split = drawn(seed, 99, 2) != 0; /* zero-bubble: the gradients of inputs are not divided into pieces */
    const bool small = drawn(seed, 98, 2) == 0; /* a bucket for each layer */
    const int extra = split ? 1 : 0, dense = small ? LAYERS : LAYERS - 1;
    assert_int_equal(check_program(&several, 0, 0, 1, false, seed), 1 + extra + dense + LAYERS - 1);
    assert_int_equal(check_program(&alone, 0, 0, 1, false, seed), 1 + extra + dense);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(calls_find_their_buckets),
      cmocka_unit_test(experts_have_pieces_of_their_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
