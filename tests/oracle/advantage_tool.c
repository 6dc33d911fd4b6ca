/* advantage_tool: advantages and normalisers of batches, for Python. Each line of standard input is a JSON object
 *
 *   {"size": N, "rewards": [[NUMBER or null, ...], ...], "weights": [...], "tokens": [...], "counts": [...],
 *    "scale_rewards": WORD, "baseline": WORD, "loss_type": WORD, "longest": N, "mini_batches": N}
 *
 * with an element of `rewards`, `tokens` and `counts` for each completion. Prints a line for each: {"rewards",
 * "advantages", "normalisers", "groups" (mean rewards), "mean", "std", "zero_std", "no_verdict"}. */
#include "files/json_kind.h"
#include "rollout/advantage.h"
#include "rollout/pack.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 4096 };

static int64_t integer_of(const json_t *line, const char *key) {
  return json_integer_value(json_object_get(line, key));
}

static int word_of(const json_t *line, const char *key, const tri_config_word *words) {
  int value = 0;
  const char *word = json_string_value(json_object_get(line, key));
  if (word == NULL || !tri_config_find_word(words, word, &value)) {
    fprintf(stderr, "advantage_tool: %s has an unknown value\n", key);
    exit(2);
  }
  return value;
}

static void read_completion(const json_t *line, int64_t i, tri_rollout_completion *c) {
  const json_t *rewards = json_array_get(json_object_get(line, "rewards"), (size_t)i);
  for (size_t r = 0; r < json_array_size(rewards) && r < TRI_MOST_REWARDS; r++) {
    const json_t *value = json_array_get(rewards, r);
    c->rewards[r] = json_is_null(value) ? NAN : json_number_value(value);
  }
  c->count = json_integer_value(json_array_get(json_object_get(line, "tokens"), (size_t)i));
  c->counts = json_is_true(json_array_get(json_object_get(line, "counts"), (size_t)i));
}

static void append(json_t *list, double value) { json_array_append_new(list, tri_json_number(value)); }

static tri_status answer(const json_t *line, json_t *out) {
  static double normalisers[MOST];
  double weights[TRI_MOST_REWARDS] = {0};
  const json_t *given = json_object_get(line, "weights");
  const int64_t size = integer_of(line, "size");
  const int64_t count = (int64_t)json_array_size(json_object_get(line, "rewards"));
  tri_policy_config policy = tri_policy_usual;
  tri_rollout_batch batch = {0};
  if (size < 1 || count > MOST) return tri_fail(TRI_BAD_USAGE, "advantage_tool: size %ld", (long)size);
  policy.scale_rewards = (tri_scale_rewards)word_of(line, "scale_rewards", tri_scale_rewards_words);
  policy.baseline = (tri_baseline)word_of(line, "baseline", tri_baseline_words);
  policy.loss_type = (tri_loss_type)word_of(line, "loss_type", tri_loss_type_words);
  for (size_t r = 0; r < json_array_size(given) && r < TRI_MOST_REWARDS; r++)
    weights[r] = json_number_value(json_array_get(given, r));
  TRI_TRY(tri_rollout_batch_create(count / size, size, &batch));
  for (int64_t i = 0; i < count; i++) read_completion(line, i, &batch.list[i]);
  tri_rollout_weigh_rewards(&batch, weights, (int64_t)json_array_size(given));
  tri_rollout_find_advantages(&batch, &policy);
  tri_rollout_normalisers(&batch, policy.loss_type, integer_of(line, "longest"), integer_of(line, "mini_batches"),
                          normalisers);
  const tri_reward_facts facts = tri_rollout_reward_facts(&batch);
  json_t *rewards = json_array(), *advantages = json_array(), *factors = json_array(), *groups = json_array();
  for (int64_t i = 0; i < count; i++) {
    append(rewards, batch.list[i].reward);
    append(advantages, batch.list[i].advantage);
    append(factors, normalisers[i]);
  }
  for (int64_t g = 0; g < batch.groups; g++) append(groups, tri_rollout_group_reward(&batch, g));
  json_object_set_new(out, "rewards", rewards);
  json_object_set_new(out, "advantages", advantages);
  json_object_set_new(out, "normalisers", factors);
  json_object_set_new(out, "groups", groups);
  json_object_set_new(out, "mean", tri_json_number(facts.mean));
  json_object_set_new(out, "std", tri_json_number(facts.std));
  json_object_set_new(out, "zero_std", tri_json_number(facts.zero_std));
  json_object_set_new(out, "no_verdict", json_integer(facts.no_verdict));
  tri_rollout_batch_release(&batch);
  return TRI_OK;
}

int main(void) {
  char *text = NULL;
  size_t room = 0;
  while (getline(&text, &room, stdin) > 0) {
    json_t *line = json_loads(text, 0, NULL), *out = json_object();
    const tri_status status = line == NULL ? tri_fail(TRI_BAD_USAGE, "advantage_tool: not JSON") : answer(line, out);
    if (status != TRI_OK) fprintf(stderr, "%s\n", tri_status_message());
    json_dumpf(out, stdout, JSON_COMPACT | JSON_REAL_PRECISION(17));
    putchar('\n');
    json_decref(out);
    json_decref(line);
    if (status != TRI_OK) return tri_status_exit(status);
  }
  free(text);
  return 0;
}
