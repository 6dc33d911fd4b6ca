/* Reads questions. The form of a line is the first of the forms below whose keys the line has. ARC, MMLU, PIQA, BoolQ
 * and HellaSwag are read in the format of their data sets, with the prompts of lm-evaluation-harness, so that results
 * can be compared. Any other question is used unchanged. */
#include "judge/questions.h"

#include "base/memory.h"
#include "files/json_kind.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { MOST_CHOICES = 1 << 16 };

static const char *const context_keys[] = {"context", "question", "query", "prompt", "ctx"};
static const char *const choice_keys[] = {"choices", "endings", "options"};
static const char *const answer_keys[] = {"answer", "gold", "label", "answerKey", "answer_index"};
#define COUNT_OF(ARRAY) ((int64_t)(sizeof(ARRAY) / sizeof *(ARRAY)))

static void question_release(tri_question *q) {
  tri_judge_text_release(&q->description);
  tri_judge_text_release(&q->context);
  for (int64_t i = 0; i < q->num_choices; i++) tri_judge_text_release(&q->choices[i]);
  tri_free(q->choices);
  *q = (tri_question){0};
}

void tri_questions_release(tri_questions *questions) {
  for (int64_t i = 0; i < questions->count; i++) question_release(&questions->list[i]);
  tri_free(questions->list);
  *questions = (tri_questions){0};
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static tri_status string_of(const json_t *object, const char *key, const char **out) {
  const json_t *value = json_object_get(object, key);
  *out = json_string_value(value);
  if (*out != NULL) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "`%s` is %s, not a string", key, tri_json_kind(value));
}

/* Sets *out to the concatenation of parts[], in which NULL follows the last part. */
static tri_status set_text(tri_judge_text *out, const char *const *parts) {
  size_t bytes = 0;
  for (int64_t i = 0; parts[i] != NULL; i++) bytes += strlen(parts[i]);
  TRI_TRY(tri_alloc("a question", bytes + 1, 1, &out->text));
  for (int64_t i = 0; parts[i] != NULL; i++) {
    memcpy(out->text + out->bytes, parts[i], strlen(parts[i]));
    out->bytes += strlen(parts[i]);
  }
  return TRI_OK;
}

#define SET_TEXT(OUT, ...) set_text(OUT, (const char *const[]){__VA_ARGS__, NULL})

static tri_status add_choice(tri_question *q, const char *key, const char *text) {
  if (text[0] == '\0') {
    return tri_fail(TRI_BAD_FILE, "choice %" PRId64 " of `%s` is empty: it has no likelihood a character; give it text",
                    q->num_choices, key);
  }
  TRI_TRY(SET_TEXT(&q->choices[q->num_choices], text));
  q->num_choices++;
  return TRI_OK;
}

/* Sets the choices from an array of strings. Fails with TRI_BAD_FILE if it is not one, or has too few or too many. */
static tri_status set_choices(tri_question *q, const char *key, const json_t *array) {
  const size_t count = json_array_size(array);
  if (!json_is_array(array)) return tri_fail(TRI_BAD_FILE, "`%s` is %s, not an array", key, tri_json_kind(array));
  if (count < 2 || count > MOST_CHOICES) {
    return tri_fail(TRI_BAD_FILE,
                    "`%s` is an array of length %zu; a question needs at least two choices and at most %d", key, count,
                    MOST_CHOICES);
  }
  TRI_TRY(tri_alloc("choices", count, sizeof *q->choices, &q->choices));
  for (size_t i = 0; i < count; i++) {
    const json_t *choice = json_array_get(array, i);
    if (!json_is_string(choice)) {
      return tri_fail(TRI_BAD_FILE, "choice %zu of `%s` is %s, not a string", i, key, tri_json_kind(choice));
    }
    TRI_TRY(add_choice(q, key, json_string_value(choice)));
  }
  return TRI_OK;
}

static tri_status set_two_choices(tri_question *q, const char *first, const char *second) {
  TRI_TRY(tri_alloc("choices", 2, sizeof *q->choices, &q->choices));
  TRI_TRY(add_choice(q, "sol1", first));
  return add_choice(q, "sol2", second);
}

/* ---- the right choice -------------------------------------------------------------------------------------------- */

static tri_status check_answer(tri_question *q, const char *key, int64_t answer) {
  q->answer = answer;
  if (answer >= 0 && answer < q->num_choices) return TRI_OK;
  return tri_fail(TRI_BAD_FILE,
                  "`%s` %" PRId64 " is not one of the %" PRId64 " choices, which are numbered from 0 to %" PRId64, key,
                  answer, q->num_choices, q->num_choices - 1);
}

static int64_t choice_with_text(const tri_question *q, const char *text) {
  for (int64_t i = 0; i < q->num_choices; i++) {
    if (strcmp(q->choices[i].text, text) == 0) return i;
  }
  return -1;
}

/* Returns the number that a letter or digits stand for, such as 1 for "B" or "1"; -1 for other texts. */
static int64_t number_of(const char *text) {
  char *end = NULL;
  if (text[0] >= 'A' && text[0] <= 'Z' && text[1] == '\0') return text[0] - 'A';
  if (text[0] >= 'a' && text[0] <= 'z' && text[1] == '\0') return text[0] - 'a';
  if (!isdigit((unsigned char)text[0])) return -1;
  const long number = strtol(text, &end, 10);
  return *end == '\0' ? number : -1;
}

/* Sets the right choice from a text: the choice itself, its letter or its number. Fails with TRI_BAD_FILE if the text
 * is none of these, or names two choices. */
static tri_status answer_by_text(tri_question *q, const char *key, const char *text) {
  const int64_t by_text = choice_with_text(q, text), number = number_of(text);
  if (by_text >= 0 && number >= 0 && number < q->num_choices && by_text != number) {
    return tri_fail(TRI_BAD_FILE,
                    "`%s` \"%.60s\" is the text of choice %" PRId64 " and the name of choice %" PRId64
                    ": write the number, without quotes",
                    key, text, by_text, number);
  }
  if (by_text >= 0) return check_answer(q, key, by_text);
  if (number >= 0) return check_answer(q, key, number);
  return tri_fail(TRI_BAD_FILE,
                  "`%s` \"%.60s\" is not a choice's text, letter or number: write the right one's number, from 0 on",
                  key, text);
}

static tri_status set_answer(tri_question *q, const char *key, const json_t *value) {
  if (json_is_integer(value)) return check_answer(q, key, json_integer_value(value));
  if (json_is_string(value)) return answer_by_text(q, key, json_string_value(value));
  if (json_is_boolean(value) && q->num_choices == 2) return check_answer(q, key, json_is_true(value));
  return tri_fail(TRI_BAD_FILE, "`%s` is %s: write the number of the right choice, from 0 on, or its letter", key,
                  tri_json_kind(value));
}

/* Sets the right choice from the keys that may hold it. If several keys are given, they must name the same choice.
 * Fails with TRI_BAD_FILE if they do not, or if there is none. */
static tri_status find_answer(tri_question *q, const json_t *object) {
  const char *found = NULL;
  for (int64_t i = 0; i < COUNT_OF(answer_keys); i++) {
    const json_t *value = json_object_get(object, answer_keys[i]);
    const int64_t before = q->answer;
    if (value == NULL) continue;
    TRI_TRY(set_answer(q, answer_keys[i], value));
    if (found != NULL && q->answer != before) {
      return tri_fail(TRI_BAD_FILE, "`%s` means choice %" PRId64 " and `%s` choice %" PRId64 ": keep one of them",
                      found, before, answer_keys[i], q->answer);
    }
    found = answer_keys[i];
  }
  if (found != NULL) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "the right choice is missing; give its number from 0 as `answer`, `gold` or `label`");
}

/* ---- HellaSwag's own spelling ------------------------------------------------------------------------------------ */

/* Replaces all occurrences of `what` in place. `with` may not be longer than `what`. */
static void replace(char *text, const char *what, const char *with) {
  char *to = text;
  for (const char *at = text; *at != '\0';) {
    if (strncmp(at, what, strlen(what)) == 0) {
      memcpy(to, with, strlen(with));
      to += strlen(with);
      at += strlen(what);
    } else {
      *to++ = *at++;
    }
  }
  *to = '\0';
}

static void drop_brackets(char *text) {
  char *to = text;
  for (const char *at = text; *at != '\0';) {
    const char *end = *at == '[' ? strpbrk(at, "]\n") : NULL;
    if (end != NULL && *end == ']') {
      at = end + 1;
    } else {
      *to++ = *at++;
    }
  }
  *to = '\0';
}

/* Edits a text as HellaSwag does: " [title]" becomes ". ", text in brackets is removed, and two spaces become one. */
static void clean(tri_judge_text *text) {
  tri_judge_strip(text->text);
  replace(text->text, " [title]", ". ");
  drop_brackets(text->text);
  replace(text->text, "  ", " ");
  text->bytes = strlen(text->text);
}

/* Capitalises a text like Python's capitalize: the first letter in title case, all others in lower case. Release *out
 * with tri_free. */
static tri_status capitalise(const char *text, char **out) {
  const utf8proc_uint8_t *at = (const utf8proc_uint8_t *)text;
  char *to = NULL;
  TRI_TRY(tri_alloc("a question", 4 * strlen(text) + 1, 1, &to));
  *out = to;
  for (bool first = true; *at != '\0'; first = false) {
    utf8proc_int32_t code = 0;
    at += utf8proc_iterate(at, -1, &code);
    to += utf8proc_encode_char(first ? utf8proc_totitle(code) : utf8proc_tolower(code), (utf8proc_uint8_t *)to);
  }
  *to = '\0';
  return TRI_OK;
}

/* ---- forms ------------------------------------------------------------------------------------------------------- */

static tri_status read_arc(const json_t *object, tri_question *q) {
  const char *question = NULL, *right = NULL;
  const json_t *choices = json_object_get(object, "choices"), *labels = json_object_get(choices, "label");
  TRI_TRY(string_of(object, "question", &question));
  TRI_TRY(string_of(object, "answerKey", &right));
  TRI_TRY(set_choices(q, "choices.text", json_object_get(choices, "text")));
  TRI_TRY(SET_TEXT(&q->context, "Question: ", question, "\nAnswer:"));
  if ((int64_t)json_array_size(labels) != q->num_choices) {
    return tri_fail(TRI_BAD_FILE, "`choices.label` has %zu labels for %" PRId64 " texts", json_array_size(labels),
                    q->num_choices);
  }
  int64_t found = -1;
  for (int64_t i = 0; i < q->num_choices; i++) {
    const char *label = json_string_value(json_array_get(labels, (size_t)i));
    if (label == NULL || strcmp(label, right) != 0) continue;
    if (found >= 0) {
      return tri_fail(TRI_BAD_FILE, "`answerKey` \"%.60s\" is the label of choices %" PRId64 " and %" PRId64, right,
                      found, i);
    }
    found = i;
  }
  if (found >= 0) return check_answer(q, "answerKey", found);
  return tri_fail(TRI_BAD_FILE, "`answerKey` \"%.60s\" is not one of `choices.label`", right);
}

static tri_status add_text(tri_judge_text *to, const char *text) {
  tri_judge_text joined = {0};
  TRI_TRY(SET_TEXT(&joined, to->text == NULL ? "" : to->text, text));
  tri_judge_text_release(to);
  *to = joined;
  return TRI_OK;
}

tri_status tri_question_join(tri_question *q) {
  tri_judge_text context = q->context;
  if (q->description.bytes == 0) return TRI_OK;
  q->context = q->description;
  q->description = (tri_judge_text){0};
  const tri_status status = add_text(&q->context, context.text);
  tri_judge_text_release(&context);
  return status;
}

/* Reads a question of MMLU. The choices become lines "A. TEXT" of the prompt, and their letters are scored. */
static tri_status read_mmlu(const json_t *object, tri_question *q) {
  enum { LETTERS = 26 };
  const char *question = NULL, *subject = NULL;
  TRI_TRY(string_of(object, "question", &question));
  TRI_TRY(string_of(object, "subject", &subject));
  TRI_TRY(set_choices(q, "choices", json_object_get(object, "choices")));
  TRI_TRY(find_answer(q, object));
  if (q->num_choices > LETTERS) {
    return tri_fail(TRI_BAD_FILE,
                    "`choices` is an array of length %" PRId64 ", but MMLU's prompt has letters for at most %d choices",
                    q->num_choices, LETTERS);
  }
  TRI_TRY(
      SET_TEXT(&q->description, "The following are multiple choice questions (with answers) about ", subject, ".\n\n"));
  for (char *at = q->description.text; *at != '\0'; at++) *at = *at == '_' ? ' ' : *at;
  TRI_TRY(SET_TEXT(&q->context, question));
  tri_judge_strip(q->context.text);
  for (int64_t i = 0; i < q->num_choices; i++) {
    const char letter[] = {(char)('A' + i), '\0'};
    TRI_TRY(add_text(&q->context, "\n"));
    TRI_TRY(add_text(&q->context, letter));
    TRI_TRY(add_text(&q->context, ". "));
    TRI_TRY(add_text(&q->context, q->choices[i].text));
    tri_judge_text_release(&q->choices[i]);
    TRI_TRY(SET_TEXT(&q->choices[i], letter));
  }
  return add_text(&q->context, "\nAnswer:");
}

static tri_status read_piqa(const json_t *object, tri_question *q) {
  const char *goal = NULL, *first = NULL, *second = NULL;
  TRI_TRY(string_of(object, "goal", &goal));
  TRI_TRY(string_of(object, "sol1", &first));
  TRI_TRY(string_of(object, "sol2", &second));
  TRI_TRY(SET_TEXT(&q->context, "Question: ", goal, "\nAnswer:"));
  TRI_TRY(set_two_choices(q, first, second));
  return find_answer(q, object);
}

static tri_status read_boolq(const json_t *object, tri_question *q) {
  const char *passage = NULL, *question = NULL;
  TRI_TRY(string_of(object, "passage", &passage));
  TRI_TRY(string_of(object, "question", &question));
  TRI_TRY(SET_TEXT(&q->context, passage, "\nQuestion: ", question, "?\nAnswer:"));
  TRI_TRY(set_two_choices(q, "no", "yes"));
  return find_answer(q, object);
}

static tri_status read_hellaswag(const json_t *object, tri_question *q) {
  const char *activity = NULL, *first = NULL, *second = NULL;
  char *capital = NULL;
  TRI_TRY(string_of(object, "activity_label", &activity));
  TRI_TRY(string_of(object, "ctx_a", &first));
  TRI_TRY(string_of(object, "ctx_b", &second));
  tri_status status = capitalise(second, &capital);
  if (status == TRI_OK) status = SET_TEXT(&q->context, activity, ": ", first, " ", capital);
  tri_free(capital);
  TRI_TRY(status);
  clean(&q->context);
  TRI_TRY(set_choices(q, "endings", json_object_get(object, "endings")));
  for (int64_t i = 0; i < q->num_choices; i++) {
    clean(&q->choices[i]);
    if (q->choices[i].bytes > 0) continue;
    return tri_fail(TRI_BAD_FILE, "choice %" PRId64 " of `endings` is empty without what is in brackets", i);
  }
  return find_answer(q, object);
}

static tri_status read_plain(const json_t *object, tri_question *q) {
  const char *key = NULL;
  const json_t *context = NULL, *choices = NULL;
  TRI_TRY(tri_judge_find_context(object, context_keys, COUNT_OF(context_keys), &key, &context));
  if (context == NULL) return tri_fail(TRI_BAD_FILE, "the question is missing; give `question`, `context` or `query`");
  if (!json_is_string(context)) {
    return tri_fail(TRI_BAD_FILE, "`%s` is %s, not a string", key, tri_json_kind(context));
  }
  TRI_TRY(tri_judge_text_of(context, &q->context));
  TRI_TRY(tri_judge_find(object, choice_keys, COUNT_OF(choice_keys), &key, &choices));
  if (choices == NULL) return tri_fail(TRI_BAD_FILE, "`choices` is missing; give an array of at least two texts");
  TRI_TRY(set_choices(q, key, choices));
  return find_answer(q, object);
}

/* Required type of `choices` in a form. */
typedef enum choices_kind { CHOICES_ANY, CHOICES_NONE, CHOICES_OBJECT, CHOICES_ARRAY } choices_kind;

/* A form of lines: a line has this form if it has all keys, and `choices` of this kind. */
typedef struct form {
  const char *name;
  const char *keys[5];
  choices_kind choices;
  tri_status (*read)(const json_t *object, tri_question *q);
} form;

static const form forms[] = {
    {"arc", {"question", "answerKey"}, CHOICES_OBJECT, read_arc},
    {"mmlu", {"question", "subject", "answer"}, CHOICES_ARRAY, read_mmlu},
    {"piqa", {"goal", "sol1", "sol2"}, CHOICES_NONE, read_piqa},
    {"boolq", {"passage", "question"}, CHOICES_NONE, read_boolq},
    {"hellaswag", {"activity_label", "ctx_a", "ctx_b", "endings"}, CHOICES_NONE, read_hellaswag},
    {"plain", {NULL}, CHOICES_ANY, read_plain},
};

static bool has_form(const json_t *object, const form *f) {
  for (int i = 0; f->keys[i] != NULL; i++) {
    if (json_object_get(object, f->keys[i]) == NULL) return false;
  }
  const json_t *choices = json_object_get(object, "choices");
  switch (f->choices) {
    case CHOICES_ANY: return true;
    case CHOICES_NONE: return choices == NULL;
    case CHOICES_OBJECT: return json_is_object(choices);
    case CHOICES_ARRAY: return json_is_array(choices);
  }
  return false;
}

static tri_status add_question(void *context, int64_t line, const json_t *object) {
  tri_questions *all = context;
  const form *f = forms;
  TRI_TRY(tri_grow("questions", sizeof *all->list, all->count, &all->capacity, &all->list));
  tri_question *q = &all->list[all->count++];
  *q = (tri_question){.line = line};
  while (!has_form(object, f)) f++;
  q->form = f->name;
  return f->read(object, q);
}

tri_status tri_questions_read(const char *path, int64_t limit, tri_questions *out) {
  return tri_judge_lines(path, limit, add_question, out);
}
