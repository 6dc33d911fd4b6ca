/* `trireme plan`: finds the fastest layouts of a model on a cluster, and prints them. */
#include "base/format.h"
#include "base/memory.h"
#include "cli/cli.h"
#include "cli/plan_csv.h"
#include "cli/plan_page.h"
#include "cli/plan_report.h"
#include "options/device_need.h"
#include "options/device_range.h"
#include "options/json.h"
#include "options/options.h"
#include "options/plan_options.h"
#include "page/html.h"
#include "plan/cost.h"
#include "plan/report.h"
#include "plan/search.h"
#include "schedule/layout_config.h"

#include <string.h>

typedef struct arguments {
  tri_plan_options plan;
  int64_t top;
  bool pareto, exhaustive;
  const char *keys; /* "clusters" or "systems": kind of keys to print in place of a plan; NULL: not given */
  const char *csv;  /* path of a table of all simulated layouts; NULL: not given */
  const char *html; /* path of a page about the best layout; NULL: not given */
  double days;      /* days in which the run must end, so that the number of devices is searched; 0: not given */
} arguments;

/* Parses a number of days, such as "30" or "30d". */
static tri_status read_days(void *values, const char *text) {
  arguments *a = values;
  char number[32];
  const size_t length = strlen(text);
  const bool unit = length > 1 && length < sizeof number && text[length - 1] == 'd';
  snprintf(number, sizeof number, "%.*s", unit ? (int)length - 1 : (int)sizeof number - 1, text);
  return tri_option_double("--days", number, 1e-3, 1e5, &a->days);
}

#define TRI_OPTION_VALUES arguments
static const tri_option plan_options[] = {
    {TRI_GROUP(plan, tri_plan_options, tri_plan_machine_rows)},
    {TRI_LINES(
        "  --devices A..B      a row for each number of devices that doubles from A, with its best layout, tokens/s,\n"
        "                      efficiency and cost; A..B:STEP goes up by STEP: 512..2048:256; or a list: "
        "64,128,512\n")},
    {TRI_READ("days", read_days),
     .help =
         "  --days D            find how many devices train the tokens of --tokens in D days, in place of --devices N; "
         "with a\n"
         "                      range or list in --devices, the first of these numbers\n"},
    {TRI_GROUP(plan, tri_plan_options, tri_plan_batch_rows)},
    {TRI_GROUP(plan, tri_plan_options, tri_plan_fixed_rows)},
    {TRI_INT("top", top, 1, 1000), .help = "  --top K             number of layouts to print (5)\n"},
    {TRI_GROUP(plan, tri_plan_options, tri_plan_further_rows)},
    {TRI_FLAG("pareto", pareto),
     .help = "  --pareto            print the fastest layout for each amount of memory instead\n"},
    {TRI_PATH("html", html),
     .help = "  --html FILE         also write a page: the answer, assumptions, accuracy, memory and time as pictures, "
             "alternatives\n"},
    {TRI_PATH("csv", csv), .help = "  --csv FILE          also write a table of all layouts that were simulated\n"},
    {TRI_FLAG("exhaustive", exhaustive),
     .help = "  --exhaustive        simulate every layout, also those that cannot be among the best\n"},
    {TRI_TEXT("keys", keys), .help = "  --keys WHAT         print every key of a cluster file or of a system file with "
                                     "its default, and plan nothing\n"},
    {0}};

static tri_status plan_parse(int count, char **given, arguments *out) {
  const tri_option_table table = {"plan", plan_options, &tri_layout_table, "--layout"};
  int first = 0;
  TRI_TRY(tri_options_parse(&table, count, given, out, &first));
  if (first < count) return tri_fail(TRI_BAD_USAGE, "plan: `%s` is not an option", given[first]);
  return TRI_OK;
}

static tri_status plan_print_json(const arguments *given, const tri_search_result *result) {
  json_t *list = json_array();
  for (int64_t i = 0; i < result->num_answers; i++) {
    const tri_answer *answer = &result->answers[i];
    tri_simulation_request request = tri_plan_options_request(&given->plan, &answer->layout);
    json_t *object = tri_report_json(&request, &answer->prediction, given->plan.tokens);
    json_array_append_new(list, object);
    tri_status status = tri_run_cost_json(&request, &answer->prediction, given->plan.tokens, object);
    if (status == TRI_OK) continue;
    json_decref(list);
    return status;
  }
  return tri_print_json(list);
}

/* Finds the fastest layout on `devices` devices. `context` is the tri_search_request whose other members are used. This
 * function is a tri_device_range.answer. */
static tri_status best_of(void *context, int64_t devices, tri_answer *out) {
  tri_search_result result = {0};
  tri_search_request request = *(const tri_search_request *)context;
  request.devices = devices;
  request.top = 1;
  TRI_TRY(tri_search(&request, &result));
  *out = result.answers[0];
  tri_search_release(&result);
  return TRI_OK;
}

/* Refuses options that are for one number of devices. several: why there are several, such as "--devices is a range".
 */
static tri_status check_range_options(const arguments *given, const char *several) {
  if (given->pareto) return tri_fail(TRI_BAD_USAGE, "plan: --pareto is for one number of devices; %s", several);
  if (given->html == NULL || given->days > 0) return TRI_OK;
  return tri_fail(TRI_BAD_USAGE, "plan: --html is for one number of devices; %s", several);
}

static tri_status plan_range(const arguments *given, tri_search_request *request) {
  const tri_device_range range = {.title = "the best layout for each number of devices",
                                  .nothing = "no layout is valid and fits",
                                  .answer = best_of,
                                  .context = request};
  TRI_TRY(check_range_options(given, "--devices is a range"));
  return tri_device_range_print(&given->plan, &range);
}

static tri_status write_page(const arguments *given, const tri_search_result *result) {
  if (given->html == NULL) return TRI_OK;
  const tri_answer *best = &result->answers[0];
  const tri_simulation_request request = tri_plan_options_request(&given->plan, &best->layout);
  return tri_plan_page_write(&given->plan, &request, &best->prediction, result, given->html);
}

static tri_status search_and_print(arguments *given, tri_search_request *request) {
  tri_search_result result = {0};
  if (given->plan.devices_to > 0) return plan_range(given, request);
  if (given->pareto && given->html != NULL)
    return tri_fail(TRI_BAD_USAGE, "plan: --html is about the fastest layout; --pareto prints others");
  TRI_TRY(given->pareto ? tri_search_pareto(request, &result) : tri_search(request, &result));
  tri_status (*print)(const tri_plan_options *, const tri_search_result *) =
      given->pareto ? tri_plan_report_front : tri_plan_report_best;
  tri_status status = write_page(given, &result);
  if (status == TRI_OK) status = given->plan.json ? plan_print_json(given, &result) : print(&given->plan, &result);
  tri_search_release(&result);
  return status;
}

/* Finds the number of devices for --days, and then reports the best layout on these devices as for --devices N. */
static tri_status plan_days(arguments *given, tri_search_request *request) {
  const tri_device_range range = {
      .title = "", .nothing = "no layout is valid and fits", .answer = best_of, .context = request};
  tri_plan_options *o = &given->plan;
  tri_search_result result = {0};
  request->no_advice = true;
  int64_t needed = 0;
  char devices[32];
  TRI_TRY(check_range_options(given, "--days tries several"));
  TRI_TRY(tri_device_need(o, &range, given->days, &needed));
  o->devices = request->devices = needed;
  o->devices_to = 0;
  request->simulated = NULL; /* --csv has the layouts of this number already */
  if (!o->json) {
    printf("\n%s devices are enough:\n", tri_format_grouped(o->devices, devices, sizeof devices));
    return search_and_print(given, request);
  }
  if (given->html == NULL) return TRI_OK;
  TRI_TRY(tri_search(request, &result));
  const tri_status status = write_page(given, &result);
  tri_search_release(&result);
  return status;
}

/* Checks the options that are given together with --days: --tokens is required, and --devices must be a range or a list
 * if it is given. If it is not, sets `devices` to 1, which is replaced later. */
static tri_status check_days(arguments *given) {
  if (given->days <= 0) return TRI_OK;
  if (given->plan.tokens <= 0) {
    return tri_fail(TRI_BAD_USAGE, "plan: --days needs --tokens, the length of the run, for example --tokens 300B");
  }
  if (given->plan.devices_to > 0) return TRI_OK;
  if (given->plan.devices > 0) {
    return tri_fail(TRI_BAD_USAGE,
                    "plan: --days asks how many devices are needed; leave --devices out, or give a range or a list, "
                    "such as --devices 64..1024");
  }
  given->plan.devices = 1;
  return TRI_OK;
}

static tri_status plan(arguments *given) {
  tri_plan_csv csv;
  tri_search_request request = tri_plan_options_search(&given->plan);
  request.top = given->top;
  request.exhaustive = given->exhaustive;
  request.explain = (!given->plan.json || given->html != NULL) && (given->plan.devices_to == 0 || given->days > 0);
  tri_status (*answer)(arguments *, tri_search_request *) = given->days > 0 ? plan_days : search_and_print;
  TRI_TRY(tri_page_check("--html", given->html));
  if (given->csv == NULL) return answer(given, &request);
  TRI_TRY(tri_plan_csv_open(&csv, given->csv, &request));
  return tri_plan_csv_close(&csv, answer(given, &request));
}

static tri_status print_keys(const char *of) {
  const bool clusters = strcmp(of, "clusters") == 0;
  if (!clusters && strcmp(of, "systems") != 0) {
    return tri_fail(TRI_BAD_USAGE, "--keys is `%s`; it can be clusters or systems", of);
  }
  tri_config_help(clusters ? &tri_cluster_table : &tri_system_table, stdout);
  return TRI_OK;
}

static tri_status plan_run(int count, char **given) {
  arguments *parsed = NULL;
  TRI_TRY(tri_alloc("options", 1, sizeof *parsed, &parsed));
  parsed->plan = tri_plan_options_default();
  parsed->top = 5;
  tri_status status = plan_parse(count, given, parsed);
  if (status == TRI_OK && parsed->keys != NULL) {
    status = print_keys(parsed->keys);
  } else if (status == TRI_OK) {
    status = check_days(parsed);
    if (status == TRI_OK) status = tri_plan_options_finish("plan", &parsed->plan);
    if (status == TRI_OK) status = plan(parsed);
  }
  tri_plan_options_release(&parsed->plan);
  tri_free(parsed);
  return status;
}

const tri_command tri_command_plan = {
    .name = "plan",
    .summary = "find the fastest layout that fits on a described machine",
    .usage =
        "usage: trireme plan --model M --cluster C --devices N --global-batch B [--top K] [--pareto]\n"
        "                    [--layout KEY=VALUE,...]\n"
        "                    [--sequence S] [--lengths L] [--packing P] [--precision P] [--system S] [--tokens T]\n"
        "                    [--optimizer O] [--set KEY=VALUE]... [--price P] [--html FILE] [--json]\n"
        "       trireme plan --model M --cluster C --days D --tokens T --global-batch B ...\n"
        "       trireme plan --keys clusters|systems\n"
        "\n"
        "Searches all valid layouts and reports the fastest that fits, with the nearest alternatives.\n"
        "\n",
    .examples =
        "\n"
        "example: trireme plan --model frontier-1t --cluster frontier --devices 3072 --global-batch 9600 --top 10\n",
    .options = plan_options,
    .run = plan_run,
};
