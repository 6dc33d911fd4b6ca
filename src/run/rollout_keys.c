#include "run/rollout_keys.h"

#include "base/count.h"
#include "run/preference_keys.h"

#include <inttypes.h>
#include <string.h>

enum { MOST = 1 << 24, MOST_COMPLETIONS = 1 << 20 };

#define COUNT(NAME, LOW, HIGH)                                                                                         \
  TRI_CONFIG_KEY(tri_rollout_settings, NAME, TRI_CONFIG_INT), .range = {.low = LOW, .high = HIGH}

/* ---- rollout ----------------------------------------------------------------------------------------------------- */

#define OF_FILTER(MEMBER) (offsetof(tri_rollout_settings, filter.MEMBER) - offsetof(tri_rollout_settings, filter))
static const tri_config_key filter_keys[] = {
    {.name = "low",
     .type = TRI_CONFIG_DOUBLE,
     .offset = OF_FILTER(low),
     .fallback = "-1.0e+30",
     .range = {.low = -TRI_ROLLOUT_NO_LIMIT, .high = TRI_ROLLOUT_NO_LIMIT},
     .help = "groups whose mean reward is not above this are not trained on"},
    {.name = "high",
     .type = TRI_CONFIG_DOUBLE,
     .offset = OF_FILTER(high),
     .fallback = "1.0e+30",
     .range = {.low = -TRI_ROLLOUT_NO_LIMIT, .high = TRI_ROLLOUT_NO_LIMIT},
     .help = "groups whose mean reward is not below this are not trained on"},
};
static const tri_config_table filter_table = TRI_CONFIG_TABLE("run file", filter_keys);

static const tri_config_key stop_keys[] = {
    {TRI_CONFIG_KEY(tri_rollout_stop, text, TRI_CONFIG_STRING), .bytes = TRI_ROLLOUT_STOP_BYTES, .breaks = true,
     .example = "</answer>", .help = "string that ends a completion"},
};
static const tri_config_table stop_table = TRI_CONFIG_TABLE("run file", stop_keys);

static const tri_config_key rollout_keys[] = {
    {COUNT(prompts, 1, MOST), .derived = "required with grpo", .optional = true,
     .help = "prompts of a batch, each with num_generations completions"},
    {COUNT(num_generations, 1, MOST), .fallback = "8", .help = "completions of each prompt, which are compared"},
    {COUNT(max_completion_length, 1, MOST), .derived = "required with grpo", .optional = true,
     .help = "most tokens of a completion"},
    {TRI_CONFIG_KEY(tri_rollout_settings, temperature, TRI_CONFIG_DOUBLE), .fallback = "1.0",
     .range = {.low = 0, .high = 1e6, .open_low = true}, .help = "temperature of sampling, and of the loss"},
    TRI_CONFIG_ROW(FREE, COUNT(slots, 1, MOST), .fallback = "64", .help = "sequences that a rank, or a replica of ranks, runs at once"),
    TRI_CONFIG_ROW(FREE, COUNT(tensor, 1, 1 << 16), .fallback = "1", .help = "ranks that share one copy of the weights while they sample"),
    TRI_CONFIG_ROW(FREE, TRI_CONFIG_KEY(tri_rollout_settings, cache, TRI_CONFIG_AUTO),
                   .range = {.low = 1, .high = (int64_t)1 << 50}, .fallback = "auto",
                   .help = "bytes of each rank for keys and values; auto: enough for all slots"),
    {.name = "filter",
     .type = TRI_CONFIG_SECTION,
     .offset = offsetof(tri_rollout_settings, filter),
     .table = &filter_table,
     .help = "dynamic sampling (DAPO): groups to pass over"},
    {COUNT(max_filtered, 0, MOST), .fallback = "256",
     .help = "largest number of groups of a batch that are replaced because `filter` drops them"},
    {.name = "stop",
     .type = TRI_CONFIG_LIST,
     .offset = offsetof(tri_rollout_settings, stops),
     .table = &stop_table,
     .plain = "text",
     .in_line = true,
     .bytes = sizeof(tri_rollout_stop),
     .count = offsetof(tri_rollout_settings, num_stops),
     .range = {.low = 0, .high = TRI_ROLLOUT_STOPS},
     .derived = "none",
     .help = "strings that end a completion, in addition to the model's end tokens"},
    TRI_CONFIG_ROW(LEARNING | TRI_CHANGE_MEASURE, TRI_CONFIG_KEY(tri_rollout_settings, validation_temperature, TRI_CONFIG_DOUBLE), .fallback = "0.0",
     .range = {.low = 0, .high = 1e6),
     .help = "temperature of the completions of data.validation_prompts; 0: always the most likely token"},
    TRI_CONFIG_ROW(LEARNING | TRI_CHANGE_MEASURE, COUNT(validation_top_k, 0, MOST), .fallback = "0",
     .help = "likeliest tokens that are candidates in these completions; 0: all tokens"),
    TRI_CONFIG_ROW(LEARNING | TRI_CHANGE_MEASURE, TRI_CONFIG_KEY(tri_rollout_settings, validation_top_p, TRI_CONFIG_DOUBLE), .fallback = "1.0",
     .range = {.low = 0, .high = 1, .open_low = true},
     .help = "probability that their candidates must reach together; 1: all tokens"),
    TRI_CONFIG_ROW(LEARNING | TRI_CHANGE_MEASURE, TRI_CONFIG_KEY(tri_rollout_settings, validation_min_p, TRI_CONFIG_DOUBLE), .fallback = "0.0",
     .range = {.low = 0, .high = 1},
     .help = "share of the highest probability that their candidates must have; 0: all tokens"),
    TRI_CONFIG_ROW(LEARNING | TRI_CHANGE_MEASURE, TRI_CONFIG_KEY(tri_rollout_settings, validation_repetition_penalty, TRI_CONFIG_DOUBLE), .fallback = "1.0",
     .range = {.low = 1e-2, .high = 1e2},
     .help = "penalty for tokens that occur already (as in transformers); 1: none"),
    TRI_CONFIG_ROW(FREE, TRI_CONFIG_KEY(tri_rollout_settings, max_failed, TRI_CONFIG_DOUBLE), .fallback = "0.05",
     .range = {.low = 0, .high = 1),
     .help = "share of a batch's completions without an answer of a command, above which the run saves and ends"},
    TRI_CONFIG_ROW(FREE, TRI_CONFIG_KEY(tri_rollout_settings, max_logp_difference, TRI_CONFIG_DOUBLE),
     .derived = "1e-12 in fp64, 1e-5 in fp32, 2e-2 in bf16", .optional = true,
     .range = {.low = 0, .high = TRI_CONFIG_MOST, .open_low = true},
     .help = "mean difference between the log-probabilities of sampling and of training above which the run stops"),
    TRI_CONFIG_ROW(FREE, COUNT(log, 0, MOST), .fallback = "8", .help = "groups of a batch whose texts are in rollouts.jsonl"),
};
const tri_config_table tri_rollout_table = TRI_CONFIG_TABLE("run file", rollout_keys);

/* ---- rewards ----------------------------------------------------------------------------------------------------- */

#define RULE(NAME, TYPE) .name = #NAME, .type = TYPE, .offset = offsetof(tri_run_reward, rule.NAME)
static const int64_t USUAL_NGRAM = 3;
static const double USUAL_PENALTY = -1;
static const tri_reward_unit USUAL_UNIT = TRI_REWARD_WORDS;
static const tri_config_word units[] = {{"words", TRI_REWARD_WORDS}, {"tokens", TRI_REWARD_TOKENS}, {NULL, 0}};

static const tri_config_key reward_keys[] = {
    {RULE(name, TRI_CONFIG_STRING), .bytes = sizeof(((tri_reward_settings *)0)->name), .fallback = "",
     .help = "kind of the reward: exact, number, choice, regex, format, contains, length or repetition; a command "
             "may have any name"},
    {TRI_CONFIG_KEY(tri_run_reward, label, TRI_CONFIG_STRING), .bytes = sizeof(((tri_run_reward *)0)->label),
     .fallback = "", .help = "name in metrics, for two rewards of one kind; empty: the name"},
    {RULE(weight, TRI_CONFIG_DOUBLE), .fallback = "1.0", .range = {.low = -1e6, .high = 1e6},
     .help = "factor in the sum of all rewards"},
    {RULE(pattern, TRI_CONFIG_STRING), .bytes = TRI_REWARD_TEXT_BYTES, .breaks = true, .fallback = "",
     .help = "regex, format: pattern in the syntax of PCRE2"},
    {RULE(text, TRI_CONFIG_STRING), .bytes = TRI_REWARD_TEXT_BYTES, .breaks = true, .fallback = "",
     .help = "contains: text to find; empty: the answer"},
    {RULE(strip, TRI_CONFIG_BOOL), .fallback = "true", .help = "exact: ignore white space at both ends"},
    {RULE(ignore_case, TRI_CONFIG_BOOL), .fallback = "false", .help = "exact: ignore the case of letters"},
    {RULE(ignore_punctuation, TRI_CONFIG_BOOL), .fallback = "false", .help = "exact: ignore punctuation"},
    {RULE(ignore_numbers, TRI_CONFIG_BOOL), .fallback = "false", .help = "exact: ignore digits"},
    {RULE(max, TRI_CONFIG_AUTO), .range = {.low = 1, .high = MOST}, .fallback = "auto",
     .help = "length: tokens from which the reward is -1; auto: rollout.max_completion_length"},
    {RULE(buffer, TRI_CONFIG_INT), .range = {.low = 0, .high = MOST}, .fallback = "0",
     .help = "length: tokens below `max` in which the reward falls from 0 to -1"},
    {RULE(ngram, TRI_CONFIG_INT), .range = {.low = 1, .high = 1000}, .fallback = "3",
     .help = "repetition: units of an n-gram"},
    {RULE(unit, TRI_CONFIG_CHOICE), .words = units, .fallback = "words",
     .help = "repetition: unit of n-grams, words (between white space) or tokens (TRL)"},
    {RULE(max_penalty, TRI_CONFIG_DOUBLE), .range = {.low = -1e6, .high = 0}, .fallback = "-1.0",
     .help = "repetition: reward of a text that only repeats"},
    {.name = "command",
     .type = TRI_CONFIG_STRING,
     .offset = offsetof(tri_run_reward, command.command),
     .bytes = TRI_COMMAND_BYTES,
     .fallback = "",
     .help = "program that scores completions: reads JSON lines, and writes {\"id\": N, \"reward\": X} for each"},
    {.name = "workers",
     .type = TRI_CONFIG_AUTO,
     .offset = offsetof(tri_run_reward, command.workers),
     .range = {.low = 1, .high = TRI_COMMAND_WORKERS},
     .fallback = "auto",
     .help = "processes of the command; auto: 1"},
    {.name = "batch",
     .type = TRI_CONFIG_AUTO,
     .offset = offsetof(tri_run_reward, command.batch),
     .range = {.low = 1, .high = TRI_COMMAND_BATCH},
     .fallback = "auto",
     .help = "most completions that a process of the command has at once; auto: 64"},
    {.name = "timeout",
     .type = TRI_CONFIG_DOUBLE,
     .offset = offsetof(tri_run_reward, command.timeout_s),
     .range = {.low = 0, .high = 1e6, .open_low = true},
     .derived = "60",
     .optional = true,
     .help = "seconds in which the command must answer; then it is started again"},
};
const tri_config_table tri_reward_table = TRI_CONFIG_TABLE("run file", reward_keys);

/* Sets r->given to the bits of the keys that differ from their defaults, because each kind of reward refuses keys that
 * it does not use. */
static void mark_given(tri_reward_settings *r) {
  r->given =
      (r->weight != 1 ? TRI_REWARD_WEIGHT : 0) | (r->pattern[0] != '\0' ? TRI_REWARD_PATTERN : 0) |
      (r->text[0] != '\0' ? TRI_REWARD_TEXT : 0) | (!r->strip ? TRI_REWARD_STRIP : 0) |
      (r->ignore_case ? TRI_REWARD_IGNORE_CASE : 0) | (r->ignore_punctuation ? TRI_REWARD_IGNORE_PUNCTUATION : 0) |
      (r->ignore_numbers ? TRI_REWARD_IGNORE_NUMBERS : 0) | (r->max != 0 ? TRI_REWARD_MAX : 0) |
      (r->buffer != 0 ? TRI_REWARD_BUFFER : 0) | (r->ngram != USUAL_NGRAM ? TRI_REWARD_NGRAM : 0) |
      (r->max_penalty != USUAL_PENALTY ? TRI_REWARD_MAX_PENALTY : 0) | (r->unit != USUAL_UNIT ? TRI_REWARD_UNIT : 0);
}

/* Refuses keys of rules in a reward by a command, and names the reward "command" if it has no name. */
static tri_status check_command(tri_run_reward *r) {
  if (r->rule.name[0] == '\0') memcpy(r->rule.name, "command", sizeof "command");
  if ((r->rule.given & ~(uint32_t)TRI_REWARD_WEIGHT) == 0) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "a reward with `command` takes name, weight, workers, batch and timeout alone; leave the other keys "
                  "out");
}

static tri_status check_rule(const tri_run_reward *r) {
  tri_reward *made = NULL;
  if (r->rule.name[0] == '\0')
    return tri_fail(TRI_BAD_CONFIG,
                    "it has neither a name nor a command; write a name such as number, or command: PROGRAM");
  if (r->command.workers != 0 || r->command.batch != 0 || r->command.timeout_s != 0) {
    return tri_fail(TRI_BAD_CONFIG, "workers, batch and timeout go with `command`, which is missing");
  }
  const tri_status status = tri_reward_create(&r->rule, &made);
  tri_reward_destroy(made);
  return status;
}

static tri_status check_chat_set(const tri_run_config *c) {
  for (int64_t i = 0; i < c->data.num_chat_set; i++) {
    const char *text = c->data.chat_set[i].text, *equals = strchr(text, '=');
    if (equals != NULL && equals != text) continue;
    return tri_fail(TRI_BAD_CONFIG, "`data.chat_set` needs NAME=VALUE, such as enable_thinking=false, not %s", text);
  }
  return TRI_OK;
}

static tri_status check_rewards(tri_run_config *c) {
  if (c->num_rewards == 0) {
    return tri_fail(
        TRI_BAD_CONFIG,
        "`reward` is missing, and objective.name grpo learns from rewards; add `reward: number` for answers "
        "that are numbers, or `reward: exact`");
  }
  for (int64_t i = 0; i < c->num_rewards; i++) {
    tri_run_reward *r = &c->rewards[i];
    mark_given(&r->rule);
    const tri_status status = tri_run_reward_is_command(r) ? check_command(r) : check_rule(r);
    if (status != TRI_OK) return tri_fail(status, "`reward` number %" PRId64 ": %s", i + 1, tri_status_message());
    if (r->label[0] == '\0') memcpy(r->label, r->rule.name, sizeof r->rule.name);
    for (int64_t k = 0; k < i; k++) {
      if (strcmp(c->rewards[k].label, r->label) != 0) continue;
      return tri_fail(TRI_BAD_CONFIG, "`reward` has %s twice, and its metrics would have one name; give each a `%s`",
                      r->label, tri_run_reward_is_command(r) ? "name" : "label");
    }
  }
  return TRI_OK;
}

/* ---- before the keys are read ------------------------------------------------------------------------------------ */

/* A path in place of data.train, which the table requires. */
static const char stand_in[] = "(prompts)";

static bool is_given(const tri_yaml *node) { return node != NULL && !tri_yaml_is_null(node); }

static bool is_grpo(const tri_yaml *objective) {
  const tri_yaml *name = objective;
  if (objective->kind == TRI_YAML_MAPPING) name = tri_yaml_find(objective, "name");
  return name != NULL && name->kind == TRI_YAML_SCALAR && strcmp(name->text, "grpo") == 0;
}

/* Adds a key with a value to a section, unless the section has the key or is not a mapping. */
static tri_status fill_in(tri_yaml_tree *tree, tri_yaml *section, const char *key, const char *value) {
  tri_yaml *node = NULL;
  if (section == NULL || section->kind != TRI_YAML_MAPPING || is_given(tri_yaml_find(section, key))) return TRI_OK;
  TRI_TRY(tri_yaml_make(tree, section, value, &node));
  return tri_yaml_put(tree, section, key, node);
}

/* Finds a section of the run file; makes it if it is missing. */
static tri_status find_section(tri_yaml_tree *tree, tri_yaml *root, const char *key, tri_yaml **out) {
  *out = tri_yaml_find(root, key);
  if (is_given(*out)) return TRI_OK;
  TRI_TRY(tri_yaml_make(tree, root, NULL, out));
  return tri_yaml_put(tree, root, key, *out);
}

tri_status tri_rollout_keys_prepare(tri_yaml_tree *tree, tri_yaml *root) {
  if (root->kind != TRI_YAML_MAPPING) return TRI_OK; /* tri_config_read reports this */
  tri_yaml *objective = tri_yaml_find(root, "objective");
  if (objective == NULL) return TRI_OK;
  if (objective->kind == TRI_YAML_MAPPING) TRI_TRY(tri_policy_lay_recipe(tree, objective));
  if (!is_grpo(objective)) return TRI_OK;
  tri_yaml *optimizer = NULL, *data = NULL;
  TRI_TRY(find_section(tree, root, "optimizer", &optimizer));
  TRI_TRY(find_section(tree, root, "data", &data));
  const tri_yaml *batch =
      optimizer == NULL || optimizer->kind != TRI_YAML_MAPPING ? NULL : tri_yaml_find(optimizer, "global_batch");
  if (is_given(batch)) {
    return tri_yaml_fail(batch, "`optimizer.global_batch`",
                         " does not go with objective.name grpo, whose batch is rollout.prompts x "
                         "rollout.num_generations completions; leave it out");
  }
  TRI_TRY(fill_in(tree, optimizer, "global_batch", "1"));
  return fill_in(tree, data, "train", stand_in);
}

/* ---- after the keys are read ------------------------------------------------------------------------------------- */

static tri_status refuse_rollout_keys(const tri_run_config *c) {
  const char *key = NULL;
  if (c->data.prompts[0] != '\0') key = "data.prompts";
  if (c->data.validation_prompts[0] != '\0') key = "data.validation_prompts";
  if (c->rollout.prompts > 0) key = "rollout.prompts";
  if (c->rollout.max_completion_length > 0) key = "rollout.max_completion_length";
  if (c->num_rewards > 0) key = "reward";
  if (key == NULL) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG, "`%s` is for reinforcement learning; set objective.name to grpo, or leave it out",
                  key);
}

/* Refuses keys that apply only to a corpus. */
static tri_status refuse_corpus_keys(const tri_run_config *c) {
  const char *key = NULL;
  if (c->data.num_train > 0 && strcmp(c->data.train[0].path, stand_in) != 0) key = "data.train";
  if (c->data.validation[0] != '\0') key = "data.validation";
  if (c->data.preferences[0] != '\0') key = "data.preferences";
  if (c->data.validation_preferences[0] != '\0') key = "data.validation_preferences";
  if (c->data.ignore_token >= 0) key = "data.ignore_token";
  if (c->data.max_samples > 0) key = "data.max_samples";
  if (c->optimizer.epochs > 0) key = "optimizer.epochs";
  if (c->data.too_long == TRI_TOO_LONG_TRUNCATE || c->data.too_long == TRI_TOO_LONG_DROP) key = "data.too_long";
  switch (c->data.documents) {
    case TRI_DOCUMENTS_JOINED: key = "data.documents"; break;
    case TRI_DOCUMENTS_MASKED:
    case TRI_DOCUMENTS_AUTO: break;
  }
  switch (c->data.packing) {
    case TRI_PACKING_WINDOWS: key = "data.packing"; break;
    case TRI_PACKING_DOCUMENTS:
    case TRI_PACKING_AUTO: break;
  }
  if (key == NULL) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG, "`%s` does not go with objective.name grpo, which learns from data.prompts%s", key,
                  strcmp(key, "optimizer.epochs") == 0 ? "; give optimizer.steps" : "; leave it out");
}

static tri_status check_sizes(const tri_run_config *c) {
  const tri_rollout_settings *r = &c->rollout;
  const tri_policy_config *p = &c->objective.policy;
  if (c->data.prompts[0] == '\0') {
    return tri_fail(TRI_BAD_CONFIG,
                    "`data.prompts` is missing, and objective.name is grpo; name a file of JSON lines {\"prompt\": "
                    "\"...\", \"answer\": \"...\"}");
  }
  if (r->prompts == 0 || r->max_completion_length == 0) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`rollout.%s` is missing, and objective.name is grpo; for example `rollout: {prompts: 32, "
                    "num_generations: 8, max_completion_length: 512}`",
                    r->prompts == 0 ? "prompts" : "max_completion_length");
  }
  if (r->prompts * r->num_generations > MOST_COMPLETIONS) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`rollout.prompts` %" PRId64 " with %" PRId64
                    " completions each are more than %d completions in a batch; use fewer",
                    r->prompts, r->num_generations, (int)MOST_COMPLETIONS);
  }
  if (r->num_generations < 2) {
    return tri_fail(
        TRI_BAD_CONFIG,
        "`rollout.num_generations` is 1, and grpo compares the completions of a prompt with each other; use "
        "at least 2, such as 8");
  }
  if (r->prompts % p->mini_batches != 0) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`objective.mini_batches` %" PRId64 " does not divide rollout.prompts %" PRId64
                    " into whole groups",
                    p->mini_batches, r->prompts);
  }
  if (r->filter.low >= r->filter.high) {
    return tri_fail(TRI_BAD_CONFIG, "`rollout.filter.low` %g is not below high %g, so that every group is left out",
                    r->filter.low, r->filter.high);
  }
  return TRI_OK;
}

/* Checks that the run ends after a whole batch, since nothing is saved inside of one. */
static tri_status check_steps(const tri_run_config *c) {
  const int64_t updates = c->objective.policy.num_iterations * c->objective.policy.mini_batches;
  const int64_t steps = c->optimizer.steps;
  if (steps % updates == 0) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`optimizer.steps` %" PRId64 " ends inside a batch, which has %" PRId64
                  " updates (objective.num_iterations x mini_batches); use %" PRId64,
                  steps, updates, tri_round_up(steps, updates));
}

static tri_status check_model(const tri_run_config *c) {
  const double model = c->model.dropout, adapter = c->model.tuning.adapter.dropout;
  if (model > 0 || adapter > 0) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`%s` is %g: with dropout the probabilities of training are not those of sampling; set it to 0",
                    model > 0 ? "model.dropout" : "adapter.dropout", model > 0 ? model : adapter);
  }
  if (!tri_rope_can_share(&c->model.rope_scaling, 1, c->model.max_sequence)) {
    return tri_fail(TRI_UNSUPPORTED,
                    "`model.rope_scaling` dynamic gives a text other positions while it is sampled than when it is "
                    "trained on; use a model with another scaling for grpo");
  }
  return TRI_OK;
}

/* Checks that a run with a KL penalty has a reference, and decides whether the reference is kept next to the
 * weights. */
static tri_status check_reference(tri_run_config *c) {
  if (c->objective.beta == 0) return TRI_OK;
  if (c->init[0] == '\0') {
    return tri_fail(TRI_BAD_CONFIG,
                    "`objective.beta` %g needs a reference, which is the model that the run begins with, and a run "
                    "without `init` begins with random weights; name a model in `init`, or set beta to 0",
                    c->objective.beta);
  }
  if (tri_run_begins_with_base(c)) return TRI_OK;
  switch (c->model.balance) {
    case TRI_BALANCE_EXPERTS_NONE:
    case TRI_BALANCE_EXPERTS_SEQUENCE: break;
    case TRI_BALANCE_EXPERTS_BIAS:
      return tri_fail(TRI_UNSUPPORTED,
                      "`objective.beta` %g needs a reference, and with model.balance bias the biases that the "
                      "run begins with are not kept; use an adapter, another balance, or set beta to 0",
                      c->objective.beta);
  }
  c->optimizer.settings.reference = true;
  return TRI_OK;
}

tri_status tri_rollout_keys_check(const tri_run_config *c) {
  const int64_t most = c->rollout.max_completion_length;
  if (c->data.prompts[0] == '\0' || most < c->data.sequence) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`rollout.max_completion_length` %" PRId64 " leaves no room for a prompt in data.sequence, %" PRId64
                  " tokens; lower it, or raise data.sequence",
                  most, c->data.sequence);
}

void tri_rollout_keys_set_batch(tri_run_config *c, int64_t data) {
  const int64_t completions = c->rollout.prompts * c->rollout.num_generations / c->objective.policy.mini_batches;
  switch (tri_objective_kind_of(&c->objective)) {
    case TRI_OBJECTIVE_OF_TEXT:
    case TRI_OBJECTIVE_OF_PREFERENCES: return;
    case TRI_OBJECTIVE_OF_ROLLOUTS: break;
  }
  c->optimizer.global_batch = tri_round_up(completions, c->layout.micro_batch * (data == 0 ? 1 : data));
}

tri_status tri_rollout_keys_finish(tri_run_config *c) {
  switch (tri_objective_kind_of(&c->objective)) {
    case TRI_OBJECTIVE_OF_TEXT:
    case TRI_OBJECTIVE_OF_PREFERENCES: return refuse_rollout_keys(c);
    case TRI_OBJECTIVE_OF_ROLLOUTS: break;
  }
  TRI_TRY(refuse_corpus_keys(c));
  TRI_TRY(check_sizes(c));
  TRI_TRY(check_steps(c));
  TRI_TRY(check_chat_set(c));
  TRI_TRY(check_rewards(c));
  TRI_TRY(check_model(c));
  TRI_TRY(check_reference(c));
  c->data.num_train = 1;
  memcpy(c->data.train[0].path, c->data.prompts, sizeof c->data.train[0].path);
  memcpy(c->data.validation, c->data.validation_prompts, sizeof c->data.validation);
  c->data.documents = TRI_DOCUMENTS_MASKED;
  c->data.packing = TRI_PACKING_DOCUMENTS;
  c->data.too_long = TRI_TOO_LONG_CUT; /* not used: prompts have data.skip_long */
  c->evaluation.metric = TRI_BEST_BY_REWARD;
  c->optimizer.batch_follows = 1;
  tri_objective_config_set_temperature(&c->objective, c->rollout.temperature);
  tri_rollout_keys_set_batch(c, c->layout.data);
  return TRI_OK;
}
