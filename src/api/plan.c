/* The public functions that predict the speed of layouts and find the fastest layouts. */
#include "api/api.h"
#include "base/memory.h"
#include "config/nearest_word.h"
#include "options/plan_options.h"
#include "plan/report.h"
#include "plan/search.h"
#include "schedule/layout_config.h"

#include "trireme/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- questions --------------------------------------------------------------------------------------------------- */

/* Options of `trireme plan` for a question. Each option that takes a value is a key of a question, and its row parses
 * the value. */
static const tri_option rows[] = {{.kind = TRI_OPTION_GROUP, .rows = tri_plan_machine_rows},
                                  {.kind = TRI_OPTION_GROUP, .rows = tri_plan_batch_rows},
                                  {.kind = TRI_OPTION_GROUP, .rows = tri_plan_further_rows},
                                  {.kind = TRI_OPTION_GROUP, .rows = tri_plan_fixed_rows},
                                  {0}};
enum { MOST_SETTINGS = TRI_MOST_OPTIONS + TRI_PLAN_SETS };

typedef struct setting {
  tri_option_place option;
  char *value;
} setting;

struct trireme_question {
  setting settings[MOST_SETTINGS];
  int count;
};

trireme_status trireme_question_create(trireme_question **out) {
  TRI_API_WANTS(out);
  trireme_question *made = NULL;
  TRI_API_TRY(tri_alloc("a question", 1, sizeof *made, &made));
  *out = made;
  return TRIREME_OK;
}

void trireme_question_destroy(trireme_question *question) {
  if (question == NULL) return;
  for (int i = 0; i < question->count; i++) tri_free(question->settings[i].value);
  tri_free(question);
}

/* Finds the option with the name `key`. Returns false if no option that takes a value has that name. */
static bool find_option(const char *key, tri_option_place *out) {
  tri_option_place options[TRI_MOST_OPTIONS];
  const int count = tri_options_list(rows, options, NULL);
  for (int i = 0; i < count; i++) {
    if (strcmp(options[i].row->name, key) != 0 || !tri_option_has_value(options[i].row)) continue;
    *out = options[i];
    return true;
  }
  return false;
}

static tri_status unknown_key(const char *key) {
  tri_option_place options[TRI_MOST_OPTIONS];
  const char *names[TRI_MOST_OPTIONS];
  const int count = tri_options_list(rows, options, NULL);
  size_t keys = 0;
  for (int i = 0; i < count; i++) {
    if (tri_option_has_value(options[i].row)) names[keys++] = options[i].row->name;
  }
  const char *nearest = tri_nearest_word(key, names, keys);
  return tri_fail(TRI_BAD_USAGE, "a question has no key `%s`; %s%s", key,
                  nearest == NULL ? "they are the options of `trireme plan`" : "did you mean ",
                  nearest == NULL ? "" : nearest);
}

trireme_status trireme_question_set(trireme_question *question, const char *key, const char *value) {
  TRI_API_WANTS(question);
  TRI_API_WANTS(key);
  TRI_API_WANTS(value);
  char *copy = NULL;
  tri_option_place option;
  if (!find_option(key, &option)) return tri_api_status(unknown_key(key));
  const bool repeats = strcmp(key, "set") == 0;
  int at = 0;
  while (at < question->count && (repeats || question->settings[at].option.row != option.row)) at++;
  if (at == MOST_SETTINGS) return tri_api_status(tri_fail(TRI_BAD_USAGE, "more than %d keys", MOST_SETTINGS));
  TRI_API_TRY(tri_strdup(value, &copy));
  if (at < question->count) tri_free(question->settings[at].value);
  if (at == question->count) question->count++;
  question->settings[at] = (setting){.option = option, .value = copy};
  return TRIREME_OK;
}

/* Parses the settings of a question as the command parses its options. Release the contents of *out with
 * tri_plan_options_release. */
static tri_status read_question(const trireme_question *question, tri_plan_options *out) {
  *out = tri_plan_options_default();
  for (int i = 0; i < question->count; i++) {
    TRI_TRY(tri_option_set(&question->settings[i].option, question->settings[i].value, out));
  }
  return tri_plan_options_finish("question", out);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

typedef struct answer {
  tri_prediction prediction;
  char layout[TRI_LAYOUT_TEXT_BYTES];
  char *json; /* JSON text; released with free */
} answer;

struct trireme_answers {
  answer *answers;
  int64_t count;
};

static tri_status write_answer(const tri_plan_options *options, const tri_layout *layout,
                               const tri_prediction *prediction, answer *out) {
  const tri_simulation_request request = tri_plan_options_request(options, layout);
  json_t *document = tri_report_json(&request, prediction, options->tokens);
  out->json = document == NULL ? NULL : json_dumps(document, JSON_INDENT(2));
  json_decref(document);
  if (out->json == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: a report");
  out->prediction = *prediction;
  tri_layout_text(layout, out->layout, sizeof out->layout);
  return TRI_OK;
}

static tri_status answers_create(int64_t count, trireme_answers **out) {
  trireme_answers *made = NULL;
  TRI_TRY(tri_alloc("answers", 1, sizeof *made, &made));
  tri_status status = tri_alloc("answers", (size_t)count, sizeof *made->answers, &made->answers);
  if (status != TRI_OK) {
    tri_free(made);
    return status;
  }
  made->count = count;
  *out = made;
  return TRI_OK;
}

void trireme_answers_destroy(trireme_answers *answers) {
  if (answers == NULL) return;
  for (int64_t i = 0; i < answers->count; i++) free(answers->answers[i].json);
  tri_free(answers->answers);
  tri_free(answers);
}

int64_t trireme_answers_count(const trireme_answers *answers) { return answers == NULL ? 0 : answers->count; }

static const answer *answer_at(const trireme_answers *answers, int64_t index) {
  if (answers == NULL || index < 0 || index >= answers->count) return NULL;
  return &answers->answers[index];
}

double trireme_answers_figure(const trireme_answers *answers, int64_t index, trireme_figure figure) {
  const answer *at = answer_at(answers, index);
  if (at == NULL) return NAN;
  const tri_prediction *p = &at->prediction;
  switch (figure) {
    case TRIREME_STEP_SECONDS: return p->step_s;
    case TRIREME_TOKENS_PER_SECOND: return p->tokens_per_s;
    case TRIREME_TFLOPS_PER_DEVICE: return p->model_tflops_per_device;
    case TRIREME_MFU: return p->mfu;
    case TRIREME_BUBBLE: return p->bubble;
    case TRIREME_PEAK_BYTES: return p->memory.peak;
    case TRIREME_HARDWARE_TFLOPS_PER_DEVICE: return p->tflops_per_device;
    case TRIREME_HFU: return p->hfu;
    case TRIREME_FITS: return p->fits ? 1 : 0;
  }
  return NAN; /* not a value of the enumeration */
}

const char *trireme_answers_layout(const trireme_answers *answers, int64_t index) {
  const answer *at = answer_at(answers, index);
  return at == NULL ? NULL : at->layout;
}

const char *trireme_answers_json(const trireme_answers *answers, int64_t index) {
  const answer *at = answer_at(answers, index);
  return at == NULL ? NULL : at->json;
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

static tri_status search(const tri_plan_options *options, int64_t top, trireme_answers **out) {
  tri_search_result result = {0};
  tri_search_request request = tri_plan_options_search(options);
  request.top = top;
  TRI_TRY(tri_search(&request, &result));
  tri_status status = answers_create(result.num_answers, out);
  for (int64_t i = 0; status == TRI_OK && i < result.num_answers; i++) {
    status = write_answer(options, &result.answers[i].layout, &result.answers[i].prediction, &(*out)->answers[i]);
  }
  tri_search_release(&result);
  return status;
}

static tri_status simulate(const tri_plan_options *options, const char *text, trireme_answers **out) {
  tri_layout layout = {0};
  tri_prediction prediction;
  const tri_simulation_request request = tri_plan_options_request(options, &layout);
  if (options->fixed != NULL) {
    return tri_fail(TRI_BAD_USAGE, "the question has a `layout`, which is for searches; here it is an argument");
  }
  TRI_TRY(tri_layout_parse(text, &layout));
  TRI_TRY(tri_system_settle(request.system, text, &layout));
  TRI_TRY(tri_layout_resolve(&layout, &options->model, options->sequence, options->global_batch, options->devices));
  TRI_TRY(tri_simulate(&request, &prediction));
  TRI_TRY(answers_create(1, out));
  return write_answer(options, &layout, &prediction, &(*out)->answers[0]);
}

enum { MOST_ANSWERS = 1000 }; /* the command has the same limit */

/* Computes the answer for a layout; if `layout` is NULL, computes the `top` best layouts. */
static trireme_status ask(const trireme_question *question, const char *layout, int64_t top, trireme_answers **out) {
  TRI_API_PLAIN_NUMBERS;
  tri_plan_options *options = NULL;
  trireme_answers *made = NULL;
  TRI_API_TRY(tri_alloc("options", 1, sizeof *options, &options));
  tri_status status = read_question(question, options);
  if (status == TRI_OK) status = layout == NULL ? search(options, top, &made) : simulate(options, layout, &made);
  tri_plan_options_release(options);
  tri_free(options);
  if (status == TRI_OK) {
    *out = made;
  } else {
    trireme_answers_destroy(made);
  }
  return tri_api_status(status);
}

trireme_status trireme_plan(const trireme_question *question, int64_t top, trireme_answers **out) {
  TRI_API_WANTS(question);
  TRI_API_WANTS(out);
  if (top < 1 || top > MOST_ANSWERS) {
    return tri_api_status(
        tri_fail(TRI_BAD_USAGE, "the %lld best layouts; it can be 1 to %d", (long long)top, MOST_ANSWERS));
  }
  return ask(question, NULL, top, out);
}

trireme_status trireme_simulate(const trireme_question *question, const char *layout, trireme_answers **out) {
  TRI_API_WANTS(question);
  TRI_API_WANTS(layout);
  TRI_API_WANTS(out);
  return ask(question, layout, 1, out);
}
