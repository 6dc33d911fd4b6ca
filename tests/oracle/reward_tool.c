/* reward_tool: scores completions for Python. Each line of standard input is a JSON object
 *
 *   {"settings": {"name": KIND, KEY: VALUE, ...}, "text": TEXT, "prompt": TEXT, "answer": TEXT, "tokens": N,
 * "max_tokens": N}
 *
 * in which all but `settings` and `text` may be missing. Prints a line for each: {"reward": NUMBER or null, "weight",
 * "needs_answer", "limits"}, or {"error": MESSAGE, "status": exit status}.
 *
 * reward_tool names: prints the names of the kinds, a line each. */
#include "base/memory.h"
#include "reward/reward.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Copies a member of the settings, if it is given; false if it is too long. */
static bool copy_text(const json_t *from, const char *key, uint32_t bit, tri_reward_settings *s, char *to,
                      size_t room) {
  const char *text = json_string_value(json_object_get(from, key));
  if (text == NULL) return true;
  if (strlen(text) >= room) return false;
  memcpy(to, text, strlen(text) + 1);
  s->given |= bit;
  return true;
}

static void copy_bool(const json_t *from, const char *key, uint32_t bit, tri_reward_settings *s, bool *to) {
  const json_t *value = json_object_get(from, key);
  if (value == NULL) return;
  *to = json_is_true(value);
  s->given |= bit;
}

static void copy_integer(const json_t *from, const char *key, uint32_t bit, tri_reward_settings *s, int64_t *to) {
  const json_t *value = json_object_get(from, key);
  if (value == NULL) return;
  *to = json_integer_value(value);
  s->given |= bit;
}

static void copy_number(const json_t *from, const char *key, uint32_t bit, tri_reward_settings *s, double *to) {
  const json_t *value = json_object_get(from, key);
  if (value == NULL) return;
  *to = json_number_value(value);
  s->given |= bit;
}

static tri_status read_settings(const json_t *from, tri_reward_settings *s) {
  if (!copy_text(from, "name", 0, s, s->name, sizeof s->name) ||
      !copy_text(from, "pattern", TRI_REWARD_PATTERN, s, s->pattern, sizeof s->pattern) ||
      !copy_text(from, "text", TRI_REWARD_TEXT, s, s->text, sizeof s->text)) {
    return tri_fail(TRI_BAD_USAGE, "reward_tool: a text of the settings is too long");
  }
  copy_number(from, "weight", TRI_REWARD_WEIGHT, s, &s->weight);
  copy_bool(from, "strip", TRI_REWARD_STRIP, s, &s->strip);
  copy_bool(from, "ignore_case", TRI_REWARD_IGNORE_CASE, s, &s->ignore_case);
  copy_bool(from, "ignore_punctuation", TRI_REWARD_IGNORE_PUNCTUATION, s, &s->ignore_punctuation);
  copy_bool(from, "ignore_numbers", TRI_REWARD_IGNORE_NUMBERS, s, &s->ignore_numbers);
  copy_integer(from, "max", TRI_REWARD_MAX, s, &s->max);
  copy_integer(from, "buffer", TRI_REWARD_BUFFER, s, &s->buffer);
  copy_integer(from, "ngram", TRI_REWARD_NGRAM, s, &s->ngram);
  const json_t *unit = json_object_get(from, "unit");
  if (unit != NULL) {
    s->unit = strcmp(json_string_value(unit), "tokens") == 0 ? TRI_REWARD_TOKENS : TRI_REWARD_WORDS;
    s->given |= TRI_REWARD_UNIT;
  }
  copy_number(from, "max_penalty", TRI_REWARD_MAX_PENALTY, s, &s->max_penalty);
  return TRI_OK;
}

enum { MOST_IDS = 64 };

static tri_scored_completion completion_of(const json_t *line, int32_t ids[MOST_IDS]) {
  const json_t *given = json_object_get(line, "ids");
  for (size_t i = 0; i < json_array_size(given) && i < MOST_IDS; i++)
    ids[i] = (int32_t)json_integer_value(json_array_get(given, i));
  const json_t *prompt = json_object_get(line, "prompt"), *text = json_object_get(line, "text"),
               *answer = json_object_get(line, "answer");
  return (tri_scored_completion){
      .prompt = prompt == NULL ? "" : json_string_value(prompt),
      .prompt_bytes = json_string_length(prompt),
      .text = text == NULL ? "" : json_string_value(text),
      .text_bytes = json_string_length(text),
      .answer = json_string_value(answer),
      .answer_bytes = json_string_length(answer),
      .ids = given == NULL ? NULL : ids,
      .tokens = given == NULL ? json_integer_value(json_object_get(line, "tokens")) : (int64_t)json_array_size(given),
      .max_tokens = json_integer_value(json_object_get(line, "max_tokens"))};
}

static tri_status score(const json_t *line, json_t *out) {
  tri_reward_settings settings = {0};
  tri_reward *reward = NULL;
  double value = 0;
  int32_t ids[MOST_IDS];
  TRI_TRY(read_settings(json_object_get(line, "settings"), &settings));
  TRI_TRY(tri_reward_create(&settings, &reward));
  const tri_scored_completion completion = completion_of(line, ids);
  const tri_status status = tri_reward_score(reward, &completion, &value);
  json_object_set_new(out, "reward", isnan(value) ? json_null() : json_real(value));
  json_object_set_new(out, "weight", json_real(tri_reward_weight(reward)));
  json_object_set_new(out, "needs_answer", json_boolean(tri_reward_needs_answer(reward)));
  json_object_set_new(out, "limits", json_integer(tri_reward_limits(reward)));
  tri_reward_destroy(reward);
  return status;
}

static void print_names(void) {
  size_t count = 0;
  const char *const *names = tri_reward_names(&count);
  for (size_t i = 0; i < count; i++) puts(names[i]);
}

int main(int count, char **words) {
  char *line = NULL;
  size_t room = 0;
  if (count == 2 && strcmp(words[1], "names") == 0) {
    print_names();
    return 0;
  }
  while (getline(&line, &room, stdin) > 0) {
    json_error_t error;
    json_t *given = json_loads(line, JSON_ALLOW_NUL, &error), *out = json_object();
    const tri_status status =
        given == NULL ? tri_fail(TRI_BAD_USAGE, "reward_tool: not JSON: %s", error.text) : score(given, out);
    if (status != TRI_OK) {
      json_object_clear(out);
      json_object_set_new(out, "error", json_string(tri_status_message()));
      json_object_set_new(out, "status", json_integer(tri_status_exit(status)));
    }
    json_dumpf(out, stdout, JSON_COMPACT | JSON_REAL_PRECISION(17));
    putchar('\n');
    json_decref(out);
    json_decref(given);
  }
  free(line);
  return 0;
}
