/* The gathers of ZeRO 3 in the programs of random models and layouts, executed step by step by a model of the gather
 * buffers: every call finds the parameters that it reads in the buffer of their bucket, gathered and awaited; only one
 * gather at a time is in progress in a buffer; every gather is awaited, and its parameters are read before another
 * gather overwrites them. */
#include "check.h"
#include "draws.h"
#include "model/family.h"
#include "schedule/layout_config.h"
#include "schedule/parts.h"

enum { CASES = 3000, SEQUENCE = 32 };

static tri_model draw_model(draws *d) {
  static const tri_family families[] = {TRI_FAMILY_GPT2, TRI_FAMILY_LLAMA, TRI_FAMILY_GEMMA2, TRI_FAMILY_FALCON};
  tri_model model = {.family = families[pick(d, 0, 3)],
                     .num_layers = pick(d, 1, 12),
                     .hidden_size = 64,
                     .num_heads = 4,
                     .num_kv_heads = 4,
                     .ffn_size = 128,
                     .vocab_size = toss(d) ? 100 : 3000,
                     .max_sequence = 128,
                     .tied = toss(d),
                     .norm_eps = 1e-5,
                     .init_std = 0.02};
  if (pick(d, 0, 2) == 0) draw_experts(d, &model);
  CHECK_OK(tri_model_complete(&model));
  return model;
}

/* Trains a part of the model, or LoRA factors of some or all matrices, if the model has such names. */
static void draw_tuning(draws *d, tri_model *model) {
  static const char *const frozen[] = {"*embed*", "*.1.*", "*norm*", "*mlp*", "*.[0-4].*", "*wte*", "*attn*", "*head*"};
  static const char *const targets[] = {
      "q_proj", "layers.0.self_attn.q_proj", "embed_tokens", "*proj", "lm_head", "wte", "c_attn", "all-linear"};
  tri_model tuned = *model;
  tri_adapter *adapter = &tuned.tuning.adapter;
  tri_trainable_words *words = toss(d) ? &tuned.tuning.freeze : &adapter->train;
  words->count = pick(d, words == &tuned.tuning.freeze ? 1 : 0, 1);
  snprintf(words->words[0].text, sizeof words->words[0].text, "%s", frozen[pick(d, 0, 7)]);
  if (words == &adapter->train) {
    adapter->rank = pick(d, 1, 16);
    adapter->alpha = 16;
    adapter->quantise = toss(d) ? TRI_QUANTISE_NF4 : TRI_QUANTISE_NONE;
    adapter->magnitude = toss(d);
    adapter->ensure_weight_tying = tuned.tied && toss(d);
    adapter->targets.count = pick(d, 0, 2);
    for (int64_t i = 0; i < adapter->targets.count; i++)
      snprintf(adapter->targets.words[i].text, sizeof adapter->targets.words[i].text, "%s", targets[pick(d, 0, 7)]);
  }
  if (tri_trainable_check(&tuned) == TRI_OK) *model = tuned;
}

/* Returns false if the layout is not legal. */
static bool draw_layout(draws *d, const tri_model *model, int64_t *batch, tri_layout *out) {
  static const tri_schedule_kind schedules[] = {TRI_SCHEDULE_GPIPE, TRI_SCHEDULE_1F1B, TRI_SCHEDULE_INTERLEAVED,
                                                TRI_SCHEDULE_ZERO_BUBBLE};
  static const tri_recompute recomputes[] = {TRI_RECOMPUTE_NONE, TRI_RECOMPUTE_SELECTIVE, TRI_RECOMPUTE_EXPERTS,
                                             TRI_RECOMPUTE_FULL};
  tri_layout layout = {.tensor = pick(d, 1, 2),
                       .pipeline = pick(d, 1, 4),
                       .context = pick(d, 1, 2),
                       .data = pick(d, 1, 4),
                       .expert_tensor = 1,
                       .expert = 1,
                       .expert_capacity = 1.5,
                       .virtual_stages = 1,
                       .schedule = schedules[pick(d, 0, 3)],
                       .sequence_parallel = toss(d),
                       .zero = pick(d, 0, 5) == 0 ? pick(d, 0, 2) : 3,
                       .recompute = recomputes[pick(d, 0, 3)],
                       .recompute_every = pick(d, 1, 3),
                       .reduce_precision = TRI_FP32,
                       .bucket_bytes = (int64_t)pick_scale(d, 0, 7),
                       .micro_batch = 1};
  layout.sequence_regather = layout.sequence_parallel && toss(d);
  if (layout.schedule == TRI_SCHEDULE_INTERLEAVED) layout.virtual_stages = pick(d, 2, 4);
  if (toss(d)) {
    layout.balance = TRI_BALANCE_LAYERS;
    layout.embedding_as_layers = pick(d, 0, 3);
    layout.head_as_layers = pick(d, 0, 3);
  }
  if (model->num_experts > 0) draw_expert_layout(d, &layout);
  *batch = layout.data * pick(d, 1, 5);
  *out = layout;
  return tri_layout_resolve(out, model, SEQUENCE, *batch,
                            layout.tensor * layout.pipeline * layout.context * layout.data) == TRI_OK;
}

/* ---- execution --------------------------------------------------------------------------------------------------- */

typedef struct gather_buffer {
  int64_t bucket; /* bucket whose parameters are in the buffer, or are being gathered into it; -1: none */
  bool awaited;   /* whether the gather has been awaited */
  bool read;      /* whether a call has read the parameters since */
} gather_buffer;

typedef struct machine {
  const tri_parts *parts;
  gather_buffer buffers[TRI_BUCKET_BUFFERS];
  const char *text; /* the case, for messages */
  int64_t at;       /* index of the instruction */
} machine;

static void wrong(const machine *m, const char *what, int64_t bucket) {
  fail_msg("%s: instruction %ld: %s (bucket %ld)", m->text, (long)m->at, what, (long)bucket);
}

static gather_buffer *buffer_of(machine *m, int64_t bucket) {
  return &m->buffers[m->parts->buckets->entries[bucket].buffer];
}

static void gather(machine *m, int64_t bucket) {
  gather_buffer *buffer = buffer_of(m, bucket);
  if (buffer->bucket >= 0 && !buffer->awaited) wrong(m, "two gathers are in progress in a buffer", bucket);
  if (buffer->bucket >= 0 && !buffer->read) wrong(m, "overwrites parameters that no call has read", bucket);
  *buffer = (gather_buffer){.bucket = bucket};
}

static void wait_gathered(machine *m, int64_t bucket) {
  gather_buffer *buffer = buffer_of(m, bucket);
  if (buffer->bucket != bucket) wrong(m, "waits for a gather that was overwritten", bucket);
  if (buffer->awaited) wrong(m, "waits twice", bucket);
  buffer->awaited = true;
}

/* Checks that the buffer of a bucket with sharded values has its parameters. `what`: operation that reads them. */
static void read_bucket(machine *m, int64_t bucket, const char *what) {
  gather_buffer *buffer = buffer_of(m, bucket);
  if (!m->parts->buckets->entries[bucket].values_sharded) return;
  if (buffer->bucket != bucket || !buffer->awaited) wrong(m, what, bucket);
  buffer->read = true;
}

/* Reads the experts of a chunk's layer. */
static void read_experts(machine *m, int32_t chunk, const tri_op_call *call) {
  const tri_buckets *buckets = m->parts->buckets;
  for (int64_t b = 0; b < buckets->count && call->op->reads_experts; b++) {
    const tri_bucket *at = &buckets->entries[b];
    const bool here = call->layer >= at->layers.first && call->layer < at->layers.end;
    if (at->experts && at->chunk == chunk && here) read_bucket(m, b, call->op->name);
  }
}

/* Reads the parameters of a call. */
static void read_values(machine *m, int32_t chunk, const tri_op_call *call) {
  read_experts(m, chunk, call);
  for (int i = 0; i < TRI_OP_PARAMETERS; i++) {
    if (call->parameters[i] < 0) continue;
    const tri_bucket *at = tri_bucket_of(m->parts->buckets, m->parts->table, call->parameters[i]);
    if (at != NULL) read_bucket(m, at - m->parts->buckets->entries, call->op->name);
  }
}

/* Runs a call of a backward. The calls of its layer are recomputed before the last one. */
static void run_back(machine *m, const tri_instruction *at, int64_t number) {
  const tri_op_list *list = m->parts->lists[at->chunk];
  const tri_op_call *call = &list->calls[number];
  const tri_call_range layer = tri_op_list_layer(list, number);
  const bool inputs = at->kind != TRI_BACKWARD_WEIGHT && tri_op_has_inputs(call);
  const bool weights = at->kind != TRI_BACKWARD_INPUT && tri_op_has_weights(call) && call->op->weights_read;
  for (int64_t c = layer.first; c < layer.end && layer.end == number + 1; c++) {
    if (list->calls[c].recompute) read_values(m, at->chunk, &list->calls[c]);
  }
  if (inputs || weights) read_values(m, at->chunk, call);
}

static void run_calls(machine *m, const tri_instruction *at) {
  const tri_op_list *list = m->parts->lists[at->chunk];
  for (int64_t c = at->first_call; c < at->end_call && at->kind == TRI_FORWARD; c++)
    read_values(m, at->chunk, &list->calls[c]);
  for (int64_t c = at->end_call - 1; c >= at->first_call && at->kind != TRI_FORWARD; c--) run_back(m, at, c);
}

static void run(machine *m, const tri_instruction *at) {
  const bool sharded = at->bucket >= 0 && m->parts->buckets->entries[at->bucket].values_sharded;
  if (at->first_call >= 0) run_calls(m, at);
  if (at->kind == TRI_GATHER && sharded) gather(m, at->bucket);
  if (at->kind == TRI_WAIT_GATHERED && sharded) wait_gathered(m, at->bucket);
}

static void run_program(const tri_parts *parts, const tri_program *program, const char *text, int64_t *gathers) {
  machine m = {.parts = parts, .text = text};
  for (int b = 0; b < TRI_BUCKET_BUFFERS; b++) m.buffers[b].bucket = -1;
  for (; m.at < program->num_instructions; m.at++) {
    run(&m, &program->instructions[m.at]);
    *gathers += program->instructions[m.at].kind == TRI_GATHER;
  }
  for (int b = 0; b < TRI_BUCKET_BUFFERS; b++) {
    if (m.buffers[b].bucket < 0) continue;
    if (!m.buffers[b].awaited) wrong(&m, "a gather is not awaited", m.buffers[b].bucket);
    if (!m.buffers[b].read) wrong(&m, "a gather is of no use", m.buffers[b].bucket);
  }
}

/* Checks the programs of a stage: a step, a step that reduces the gradients of every micro-batch, and an evaluation. */
static void check_stage(const tri_parts_request *of, int64_t stage, const char *text, int64_t *gathers) {
  tri_mesh_coordinates place = {{0}};
  tri_parts parts;
  place.at[TRI_AXIS_PIPELINE] = stage;
  CHECK_OK(tri_parts_create(of, &place, &parts));
  for (int kind = 0; kind < 3; kind++) {
    const tri_program_request request = {.layout = of->layout,
                                         .stage = stage,
                                         .micro_batches = of->micro_batches,
                                         .lists = (const tri_op_list *const *)parts.lists,
                                         .buckets = parts.buckets,
                                         .tied_pair = tri_parts_hold_tied(parts.table),
                                         .reduces_each = kind == 1,
                                         .forward_only = kind == 2};
    tri_program *program = NULL;
    CHECK_OK(tri_program_create(&request, &program));
    run_program(&parts, program, text, gathers);
    tri_program_destroy(program);
  }
  tri_parts_destroy(&parts);
}

static void test_gathers(void **state) {
  (void)state;
  draws d = {tri_random_stream(1, TRI_RANDOM_TEST, 23), 0};
  int64_t gathers = 0;
  for (int legal = 0; legal < CASES;) {
    tri_model model = draw_model(&d);
    tri_layout layout;
    int64_t batch = 0;
    char text[512], keys[TRI_LAYOUT_TEXT_BYTES];
    if (toss(&d)) draw_tuning(&d, &model);
    if (!draw_layout(&d, &model, &batch, &layout)) continue;
    const tri_parts_request of = {.model = &model,
                                  .layout = &layout,
                                  .micro_batches = tri_layout_micro_batches(&layout, batch),
                                  .sequence = SEQUENCE,
                                  .precision = TRI_BF16,
                                  .for_planning = layout.zero == 3, /* otherwise calls have other numbers */
                                  .without_program = true};
    snprintf(text, sizeof text, "case %d, family %d, %ld layers, batch %ld, %s", legal, (int)model.family,
             (long)model.num_layers, (long)batch, tri_layout_text(&layout, keys, sizeof keys));
    for (int64_t s = 0; s < layout.pipeline; s++) check_stage(&of, s, text, &gathers);
    legal++;
  }
  assert_true(gathers > CASES);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_gathers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
