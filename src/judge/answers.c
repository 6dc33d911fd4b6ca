#include "judge/answers.h"

#include "base/memory.h"
#include "files/json_kind.h"

#include <string.h>

static const char *const prompt_keys[] = {"prompt", "question", "context", "query"};
static const char *const answer_keys[] = {"answer", "answers", "target", "gold"};
#define COUNT_OF(ARRAY) ((int64_t)(sizeof(ARRAY) / sizeof *(ARRAY)))

void tri_asked_release(tri_asked_list *asked) {
  for (int64_t i = 0; i < asked->count; i++) {
    tri_asked *a = &asked->list[i];
    tri_judge_text_release(&a->prompt);
    for (int64_t k = 0; k < a->num_answers; k++) tri_judge_text_release(&a->answers[k]);
    tri_free(a->answers);
  }
  tri_free(asked->list);
  *asked = (tri_asked_list){0};
}

static tri_status add_answer(tri_asked *a, const char *key, const json_t *value) {
  if (!json_is_string(value)) {
    return tri_fail(TRI_BAD_FILE, "`%s` is %s; write a text, or an array of texts that are all right answers", key,
                    tri_json_kind(value));
  }
  if (json_string_length(value) == 0) {
    return tri_fail(TRI_BAD_FILE, "`%s` has an empty text, which no answer matches: leave it out", key);
  }
  TRI_TRY(tri_judge_text_of(value, &a->answers[a->num_answers]));
  a->num_answers++;
  return TRI_OK;
}

static tri_status set_answers(tri_asked *a, const char *key, const json_t *value) {
  const size_t count = json_is_array(value) ? json_array_size(value) : 1;
  if (count == 0) return tri_fail(TRI_BAD_FILE, "`%s` is empty: write a text that is right", key);
  TRI_TRY(tri_alloc("answers", count, sizeof *a->answers, &a->answers));
  if (!json_is_array(value)) return add_answer(a, key, value);
  for (size_t i = 0; i < count; i++) TRI_TRY(add_answer(a, key, json_array_get(value, i)));
  return TRI_OK;
}

static tri_status add_asked(void *context, int64_t line, const json_t *object) {
  tri_asked_list *all = context;
  const char *key = NULL;
  TRI_TRY(tri_grow("questions", sizeof *all->list, all->count, &all->capacity, &all->list));
  tri_asked *a = &all->list[all->count++];
  *a = (tri_asked){.line = line};
  const json_t *prompt = NULL, *answer = NULL;
  TRI_TRY(tri_judge_find_context(object, prompt_keys, COUNT_OF(prompt_keys), &key, &prompt));
  if (prompt == NULL) return tri_fail(TRI_BAD_FILE, "`prompt` is missing: give the text to continue");
  if (!json_is_string(prompt)) return tri_fail(TRI_BAD_FILE, "`%s` is %s, not a string", key, tri_json_kind(prompt));
  TRI_TRY(tri_judge_text_of(prompt, &a->prompt));
  TRI_TRY(tri_judge_find(object, answer_keys, COUNT_OF(answer_keys), &key, &answer));
  if (answer == NULL) return tri_fail(TRI_BAD_FILE, "the right answer is missing; give `answer`, a text");
  return set_answers(a, key, answer);
}

tri_status tri_asked_read(const char *path, int64_t limit, tri_asked_list *out) {
  return tri_judge_lines(path, limit, add_asked, out);
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

tri_status tri_answer_matches(const tri_answer_rule *rule, const tri_asked *asked, const tri_judge_text *text,
                              bool *out) {
  char *given = NULL;
  size_t bytes = 0;
  *out = false;
  TRI_TRY(tri_match_normalise(&rule->match, text->text, text->bytes, &given, &bytes));
  tri_status status = TRI_OK;
  for (int64_t i = 0; i < asked->num_answers && status == TRI_OK && !*out; i++) {
    const tri_judge_text *answer = &asked->answers[i];
    char *right = NULL;
    size_t right_bytes = 0;
    status = tri_match_normalise(&rule->match, answer->text, answer->bytes, &right, &right_bytes);
    *out = status == TRI_OK && right_bytes == bytes && memcmp(given, right, bytes) == 0;
    tri_free(right);
  }
  tri_free(given);
  return status;
}

/* ---- answering --------------------------------------------------------------------------------------------------- */

int tri_answer_stops(const tri_answer_rule *rule) {
  int count = 0;
  while (count < TRI_ANSWER_STOPS && rule->until[count] != NULL) count++;
  return count;
}

tri_status tri_answer_text(const char *text, size_t bytes, tri_judge_text *out) {
  TRI_TRY(tri_alloc("an answer", bytes + 1, 1, &out->text));
  for (size_t i = 0; i < bytes; i++) {
    if (text[i] != '\0') out->text[out->bytes++] = text[i];
  }
  return TRI_OK;
}
