/* How ranks hold parameters and their gradients (tri_holding): the parameter table, compared with the lists of
 * operations. A gradient is a partial sum if a rank holds the parameter whole, but computes the gradient from a part of
 * the rows or columns. Tested for all kinds of adapters on meshes that split dense layers and experts over any axis. */
#include "base/memory.h"
#include "check.h"
#include "schedule/parts.h"

#include <string.h>

enum { SEQUENCE = 12, MOST_PARAMETERS = 256 };

static void add_word(tri_trainable_words *words, const char *text) {
  snprintf(words->words[words->count++].text, sizeof words->words[0].text, "%s", text);
}

typedef enum kind { PLAIN, EXPERTS, GPT2 } kind;
enum { KINDS = GPT2 + 1 };

static tri_model model_of(kind which) {
  tri_model model = {.family = TRI_FAMILY_LLAMA,
                     .num_layers = 2,
                     .hidden_size = 32,
                     .num_heads = 4,
                     .num_kv_heads = 2,
                     .head_dim = 8,
                     .ffn_size = 48,
                     .vocab_size = 101,
                     .max_sequence = 24,
                     .norm_eps = 1e-5,
                     .rope_theta = 10000,
                     .init_std = 0.02};
  switch (which) {
    case PLAIN: model.attention_bias = true; break;
    case EXPERTS:
      model.family = TRI_FAMILY_QWEN3_MOE;
      model.num_experts = 4;
      model.experts_per_token = 2;
      model.expert_ffn_size = 24;
      break;
    case GPT2:
      model.family = TRI_FAMILY_GPT2;
      model.num_kv_heads = 4;
      model.head_dim = 0;
      model.rope_theta = 0;
      break;
  }
  CHECK_OK(tri_model_complete(&model));
  return model;
}

typedef enum tuning { WHOLE, FACTORS, EVERYWHERE, MAGNITUDES } tuning;
enum { TUNINGS = MAGNITUDES + 1 };

static void tune(tri_model *model, tuning how) {
  static const char *const modules[] = {"q_proj",  "k_proj",    "v_proj", "o_proj", "gate_proj",
                                        "up_proj", "down_proj", "c_attn", "c_proj"};
  tri_adapter *adapter = &model->tuning.adapter;
  const bool experts = model->num_experts > 0, gpt2 = model->family == TRI_FAMILY_GPT2;
  switch (how) {
    case WHOLE: return;
    case MAGNITUDES: adapter->magnitude = true; break;
    case FACTORS: break;
    case EVERYWHERE:
      for (int i = 0; i < 9; i++) {
        const bool dense = i >= 4 && i < 7;
        if (gpt2 == (i >= 7) && !(experts && dense)) add_word(&adapter->targets, modules[i]);
      }
      add_word(&adapter->targets, gpt2 ? "c_fc" : "embed_tokens");
      add_word(&adapter->targets, gpt2 ? "wte" : "lm_head");
      add_word(&adapter->train, gpt2 ? "*ln_1*" : "*norm*");
      if (experts) add_word(&adapter->targets, "mlp.experts.gate_up_proj");
      if (experts) add_word(&adapter->targets, "mlp.experts.down_proj");
      if (experts) add_word(&adapter->train, "*mlp.gate.*");
      break;
  }
  adapter->rank = 3;
  adapter->alpha = 4;
  CHECK_OK(tri_trainable_check(model));
}

/* ---- gradients of a list ----------------------------------------------------------------------------------------- */

/* Returns whether call `call` computes the gradient of entry i. If parameters are adjacent, a call names only the first
 * of them. */
static bool has_gradient_of(const tri_parameter_table *table, const tri_op_call *call, int64_t i, int *number) {
  for (int p = 0; p < TRI_OP_PARAMETERS; p++) {
    int64_t last = call->parameters[p];
    if (last < 0 || tri_op_is_frozen(call, p)) continue;
    while (last + 1 < table->num_entries && table->entries[last + 1].joined) last++;
    *number = p;
    if (i >= call->parameters[p] && i <= last) return true;
  }
  return false;
}

/* Returns the same call in the list for one rank. */
static const tri_op_call *same_call(const tri_op_list *list, const tri_op_call *call) {
  for (int64_t c = 0; c < list->num_calls; c++) {
    const tri_op_call *other = &list->calls[c];
    if (strcmp(other->op->name, call->op->name) == 0 && other->layer == call->layer &&
        memcmp(other->parameters, call->parameters, sizeof call->parameters) == 0)
      return other;
  }
  return NULL;
}

static bool is_cut(const tri_op_list *list, int32_t slot, const tri_op_list *one, int32_t of_one, bool rows_too) {
  if (slot < 0) return false;
  const tri_shape *here = &list->slots[slot].shape, *there = &one->slots[of_one].shape;
  return here->width != there->width || (rows_too && here->rows != there->rows);
}

static bool is_split(const tri_parameter *entry) {
  return entry->local[0] != entry->shape[0] || entry->local[1] != entry->shape[1];
}

/* Returns whether a collective follows the call in the backward, or the call moves rows between ranks. */
static bool ends_partial(const tri_op_call *call) {
  static const char *const names[] = {"copy_to_tensor",   "reduce_from_tensor", "gather_sequence",
                                      "scatter_sequence", "take_slice",         "join_slices"};
  bool found = call->expert;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) found = found || strcmp(call->op->name, names[i]) == 0;
  return found;
}

static bool has_split_parameter(const tri_parts *parts, const tri_op_call *call, int but) {
  bool found = false;
  for (int p = 0; p < TRI_OP_PARAMETERS; p++)
    found = found || (p != but && call->parameters[p] >= 0 && is_split(&parts->table->entries[call->parameters[p]]));
  return found;
}

/* Sets partial[slots]: the backward gives each rank only a part of the sum of the slot's gradient, such as before a
 * split of columns. */
static void find_partial(const tri_parts *parts, const tri_op_list *one, bool *partial) {
  const tri_op_list *list = parts->lists[0];
  memset(partial, 0, (size_t)list->num_slots * sizeof *partial);
  for (int64_t c = list->num_calls; c-- > 0;) {
    const tri_op_call *call = &list->calls[c], *alone = same_call(one, call);
    bool out = strcmp(call->op->name, "cross_entropy") == 0 && has_split_parameter(parts, call, -1);
    if (ends_partial(call) || alone == NULL) continue;
    for (int k = 0; k < TRI_OP_OUTPUTS; k++) {
      if (call->outputs[k] < 0) continue;
      out = out || partial[call->outputs[k]] || is_cut(list, call->outputs[k], one, alone->outputs[k], false);
    }
    for (int k = 0; k < TRI_OP_INPUTS; k++) {
      if (call->inputs[k] < 0 || is_cut(list, call->inputs[k], one, alone->inputs[k], false)) continue;
      partial[call->inputs[k]] = partial[call->inputs[k]] || out;
    }
  }
}

/* Returns whether the gradient of a whole parameter is a partial sum: the call computes it from something that is split
 * or is a partial sum itself. Gradients of biases and of positions depend only on the gradient of the output. Rows of
 * experts are compared by other rules for each mesh. */
static bool is_partial_by(const tri_parts *parts, const tri_op_call *call, const tri_op_list *one, int number,
                          const bool *partial) {
  const tri_op_list *list = parts->lists[0];
  const tri_op_call *alone = same_call(one, call);
  assert_non_null(alone);
  const bool linear = strcmp(call->op->name, "linear") == 0, embedding = strcmp(call->op->name, "embedding") == 0;
  const bool bias = (linear || embedding) && number > 0;                        /* a bias, or positions */
  bool cut = !linear && !embedding && has_split_parameter(parts, call, number); /* the other factor */
  for (int k = 0; k < TRI_OP_INPUTS && !bias; k++)
    cut = cut || is_cut(list, call->inputs[k], one, alone->inputs[k], !call->expert);
  for (int k = 0; k < TRI_OP_OUTPUTS; k++) {
    if (call->outputs[k] < 0) continue;
    cut = cut || partial[call->outputs[k]] || is_cut(list, call->outputs[k], one, alone->outputs[k], !call->expert);
  }
  return cut;
}

static tri_holding derived(const tri_parts *parts, const tri_parts *one, const tri_mesh_shape *shape, int64_t i,
                           const bool *partial) {
  const tri_parameter *entry = &parts->table->entries[i];
  const int64_t ranks = tri_domain_size(shape, entry->placement.parts);
  const int64_t held = ranks * entry->local[0] * entry->local[1], all = entry->shape[0] * entry->shape[1];
  int number = 0;
  if (ranks == 1) return TRI_HOLDING_COPIES;
  if (is_split(entry)) return held > all && entry->split.units < ranks ? TRI_HOLDING_PARTIAL : TRI_HOLDING_SPLIT;
  for (int64_t c = 0; c < parts->lists[0]->num_calls; c++) {
    const tri_op_call *call = &parts->lists[0]->calls[c];
    if (has_gradient_of(parts->table, call, i, &number) && is_partial_by(parts, call, one->lists[0], number, partial))
      return TRI_HOLDING_PARTIAL;
  }
  return TRI_HOLDING_COPIES;
}

/* ---- meshes ------------------------------------------------------------------------------------------------------ */

static tri_parts parts_of(const tri_model *model, const tri_layout *layout) {
  const tri_mesh_coordinates place = {{0}};
  const tri_parts_request of = {.model = model,
                                .layout = layout,
                                .micro_batches = 1,
                                .sequence = SEQUENCE,
                                .precision = TRI_FP32,
                                .expert_imbalance = 1};
  tri_parts parts = {0};
  CHECK_OK(tri_parts_create(&of, &place, &parts));
  return parts;
}

static tri_layout layout_of(int64_t tensor, int64_t context, int64_t data, int64_t expert, int64_t expert_tensor) {
  return (tri_layout){.tensor = tensor,
                      .context = context,
                      .data = data,
                      .pipeline = 1,
                      .expert = expert,
                      .expert_tensor = expert_tensor,
                      .virtual_stages = 1,
                      .schedule = TRI_SCHEDULE_1F1B,
                      .micro_batch = 2,
                      .expert_capacity = 1.5,
                      .recompute_every = 1,
                      .bucket_bytes = 9000};
}

/* Checks that buckets mark partial gradients, and that the program sums exactly the marked ones. */
static void check_sums(const tri_parts *parts) {
  int64_t sums = 0, partial = 0;
  for (int64_t b = 0; b < parts->buckets->count; b++) {
    const tri_bucket *bucket = &parts->buckets->entries[b];
    bool some = false;
    for (int64_t i = bucket->first_entry; i < bucket->end_entry; i++) {
      const tri_parameter *entry = &parts->table->entries[i];
      if (!tri_parameter_has_gradient(entry)) continue; /* frozen parameters between those of the bucket */
      assert_int_equal(entry->placement.parts, bucket->parts);
      some = some || tri_parameter_is_partial(entry);
    }
    assert_int_equal(bucket->partial, some);
    partial += some;
  }
  for (int64_t i = 0; i < parts->program->num_instructions; i++)
    sums += parts->program->instructions[i].kind == TRI_SUM_PARTIAL;
  assert_int_equal(sums, partial);
}

static int64_t check_mesh(const tri_model *model, const tri_parts *one, const tri_layout *layout) {
  const tri_mesh_shape shape = tri_layout_mesh(layout);
  tri_parts parts = parts_of(model, layout);
  bool *slots = NULL;
  int64_t partial = 0;
  CHECK_OK(tri_alloc("slots", (size_t)parts.lists[0]->num_slots, sizeof *slots, &slots));
  find_partial(&parts, one->lists[0], slots);
  assert_int_equal(parts.table->num_entries, one->table->num_entries);
  for (int64_t i = 0; i < parts.table->num_entries; i++) {
    const tri_parameter *entry = &parts.table->entries[i];
    if (!tri_parameter_has_gradient(entry)) continue;
    if (derived(&parts, one, &shape, i, slots) != entry->over_parts) {
      fail_msg("%s: tensor %d, context %d, data %d, expert %d, expert_tensor %d: %d, and its calls say %d", entry->name,
               (int)layout->tensor, (int)layout->context, (int)layout->data, (int)layout->expert,
               (int)layout->expert_tensor, (int)entry->over_parts, (int)derived(&parts, one, &shape, i, slots));
    }
    partial += tri_parameter_is_partial(entry);
  }
  check_sums(&parts);
  tri_free(slots);
  tri_parts_destroy(&parts);
  return partial;
}

static void check_model(kind which, tuning how) {
  static const int64_t meshes[][5] = {{2, 1, 1, 1, 1}, {4, 1, 1, 1, 1}, {1, 1, 2, 1, 1}, {1, 2, 1, 1, 1},
                                      {2, 1, 1, 1, 2}, {1, 1, 2, 1, 2}, {1, 2, 1, 1, 2}, {2, 1, 2, 2, 2},
                                      {1, 2, 2, 2, 2}, {2, 1, 2, 1, 4}, {2, 1, 1, 2, 1}, {1, 1, 4, 4, 1}};
  tri_model model = model_of(which);
  tune(&model, how);
  const tri_layout alone = layout_of(1, 1, 1, 1, 1);
  tri_parts one = parts_of(&model, &alone);
  int64_t partial = 0;
  for (size_t m = 0; m < sizeof meshes / sizeof meshes[0]; m++) {
    const int64_t *of = meshes[m];
    if (model.num_experts == 0 && of[3] * of[4] > 1) continue;
    tri_layout layout = layout_of(of[0], of[1], of[2], of[3], of[4]);
    for (int slices = 0; slices < (of[0] > 1 ? 2 : 1); slices++) {
      layout.sequence_parallel = slices == 1;
      partial += check_mesh(&model, &one, &layout);
    }
  }
  assert_true(partial > 0);
  tri_parts_destroy(&one);
}

static void test_holdings(void **state) {
  (void)state;
  for (int which = 0; which < KINDS; which++) {
    for (int how = 0; how < TUNINGS; how++) check_model((kind)which, (tuning)how);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_holdings)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
