/* `trireme simulate`: predicts one layout's speed and memory, or compares the prediction with a run's measurements. */
#include "base/format.h"
#include "base/memory.h"
#include "cli/cli.h"
#include "cli/plan_page.h"
#include "cli/running/compare_measured.h"
#include "options/device_range.h"
#include "options/json.h"
#include "options/plan_options.h"
#include "page/html.h"
#include "plan/cost.h"
#include "plan/report.h"
#include "schedule/layout_config.h"

#include <string.h>

typedef struct arguments {
  tri_plan_options plan;
  const char *layout, *timeline, *against, *html;
  bool stages;
} arguments;

#define TRI_OPTION_VALUES arguments
static const tri_option simulate_options[] = {
    {TRI_GROUP(plan, tri_plan_options, tri_plan_machine_rows)},
    {TRI_LINES(
        "  --devices A..B      a row for each number of devices that doubles from A, with as many replicas as it\n"
        "                      makes; A..B:STEP goes up by STEP: 512..2048:256; or a list: 64,128,512\n")},
    {TRI_GROUP(plan, tri_plan_options, tri_plan_batch_rows)},
    {TRI_TEXT("layout", layout),
     .help = "  --layout L          the layout, as in a run file: tensor=4,pipeline=16,zero=1,micro_batch=1\n"},
    {TRI_GROUP(plan, tri_plan_options, tri_plan_further_rows)},
    {TRI_PATH("against", against),
     .help =
         "  --against RUN       predict the run in this output folder, and print prediction and measurement side by "
         "side;\n"
         "                      with --timeline, or a timeline.json in the folder, also of each kind of instruction\n"},
    {TRI_PATH("html", html),
     .help =
         "  --html FILE         also write a page: the answer, assumptions, accuracy, memory and time as pictures\n"},
    {TRI_FLAG("stages", stages), .help = "  --stages            also print the memory of a rank of each stage\n"},
    {TRI_PATH("timeline", timeline),
     .help = "  --timeline FILE     draw one rank of every stage: FILE.svg, or FILE.json for Perfetto\n"},
    {0}};

static tri_status simulate_parse(int count, char **given, arguments *out) {
  const tri_option_table table = {"simulate", simulate_options, &tri_layout_table, "--layout"};
  int first = 0;
  TRI_TRY(tri_options_parse(&table, count, given, out, &first));
  if (first < count) return tri_fail(TRI_BAD_USAGE, "simulate: `%s` is not an option", given[first]);
  if (out->against != NULL && out->plan.cluster_name == NULL) {
    return tri_fail(TRI_BAD_USAGE,
                    "simulate: --against needs a --cluster, for example the file that `trireme calibrate` has written");
  }
  if (out->html != NULL && out->against != NULL)
    return tri_fail(TRI_BAD_USAGE, "simulate: --html is for a prediction alone; --against prints it beside a run");
  TRI_TRY(tri_page_check("--html", out->html));
  if (out->layout == NULL && out->against == NULL) {
    return tri_fail(TRI_BAD_USAGE, "simulate: --layout is missing, for example --layout tensor=4,pipeline=16,zero=1");
  }
  return TRI_OK;
}

/* Writes the timeline to `path`, a name that ends in .svg or .json. The ending decides the format. */
static tri_status simulate_draw(const tri_simulation_request *request, const tri_prediction *prediction,
                                const char *path) {
  tri_timeline *timeline = NULL;
  char title[256], layout[TRI_LAYOUT_TEXT_BYTES];
  size_t length = strlen(path);
  bool json = length > 5 && strcmp(path + length - 5, ".json") == 0;
  bool svg = length > 4 && strcmp(path + length - 4, ".svg") == 0;
  if (!json && !svg) return tri_fail(TRI_BAD_USAGE, "--timeline %s: the name must end in .svg or .json", path);
  TRI_TRY(tri_simulate_timeline(request, &timeline));
  snprintf(title, sizeof title, "%s on %s, simulated: %.3f s a step; %s", request->model->name, request->cluster->name,
           prediction->step_s, tri_layout_text(request->layout, layout, sizeof layout));
  tri_status status = json ? tri_timeline_write_json(timeline, path) : tri_timeline_write_svg(timeline, title, path);
  tri_timeline_destroy(timeline);
  return status;
}

/* Adds the list `stages` to the document: the memory of one rank of each stage, in bytes. */
static tri_status add_stages(const tri_simulation_request *request, json_t *document) {
  json_t *list = json_array();
  json_object_set_new(document, "stages", list);
  for (int64_t s = 0; s < request->layout->pipeline; s++) {
    tri_memory_parts m;
    TRI_TRY(tri_predict_memory(request, s, &m));
    json_array_append_new(list, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "parameters", (json_int_t)m.parameters,
                                          "gradients", (json_int_t)m.gradients, "optimizer", (json_int_t)m.optimizer,
                                          "activations", (json_int_t)m.activations, "buffers", (json_int_t)m.buffers,
                                          "steady", (json_int_t)m.steady, "peak", (json_int_t)m.peak));
  }
  return TRI_OK;
}

static tri_status print_stages(const tri_simulation_request *request) {
  printf(
      "MiB of a rank of each stage:\n  stage  parameters   gradients   optimizer activations     buffers      steady   "
      "     peak\n");
  for (int64_t s = 0; s < request->layout->pipeline; s++) {
    tri_memory_parts m;
    TRI_TRY(tri_predict_memory(request, s, &m));
    printf("  %5ld", (long)s);
    const double columns[] = {m.parameters, m.gradients, m.optimizer, m.activations, m.buffers, m.steady, m.peak};
    for (int i = 0; i < 7; i++) printf(" %11.1f", columns[i] / (1 << 20));
    printf("\n");
  }
  return TRI_OK;
}

static tri_status simulate(const arguments *given) {
  tri_layout layout = {0};
  tri_prediction prediction;
  tri_simulation_request request = tri_plan_options_request(&given->plan, &layout);
  TRI_TRY(tri_layout_parse(given->layout, &layout));
  TRI_TRY(tri_system_settle(request.system, given->layout, &layout));
  TRI_TRY(tri_layout_resolve(&layout, &given->plan.model, given->plan.sequence, given->plan.global_batch,
                             given->plan.devices));
  TRI_TRY(tri_simulate(&request, &prediction));
  if (given->timeline != NULL) TRI_TRY(simulate_draw(&request, &prediction, given->timeline));
  if (given->html != NULL) TRI_TRY(tri_plan_page_write(&given->plan, &request, &prediction, NULL, given->html));
  if (!given->plan.json) {
    tri_report_heading(&request, stdout);
    tri_report_speed(&request, &prediction, stdout);
    tri_report_memory_parts(&request, &prediction, stdout);
    tri_report_accuracy(&given->plan.cluster, &given->plan.system, given->plan.devices, stdout);
    TRI_TRY(tri_run_cost_text(&request, &prediction, given->plan.tokens, stdout));
    return given->stages ? print_stages(&request) : TRI_OK;
  }
  json_t *document = tri_report_json(&request, &prediction, given->plan.tokens);
  tri_status status = TRI_OK;
  if (document != NULL) status = tri_run_cost_json(&request, &prediction, given->plan.tokens, document);
  if (status == TRI_OK && given->stages && document != NULL) status = add_stages(&request, document);
  if (status == TRI_OK) return tri_print_json(document);
  json_decref(document);
  return status;
}

/* Simulates the layout on `devices` devices, which decide the number of replicas. */
static tri_status simulate_on(void *context, int64_t devices, tri_answer *out) {
  const arguments *given = context;
  const tri_plan_options *o = &given->plan;
  char peak[32], room[TRI_REPORT_MEMORY_BYTES];
  *out = (tri_answer){0};
  tri_simulation_request request = tri_plan_options_request(o, &out->layout);
  TRI_TRY(tri_layout_parse(given->layout, &out->layout));
  TRI_TRY(tri_system_settle(request.system, given->layout, &out->layout));
  TRI_TRY(tri_layout_resolve(&out->layout, &o->model, o->sequence, o->global_batch, devices));
  TRI_TRY(tri_simulate(&request, &out->prediction));
  if (out->prediction.fits) return TRI_OK;
  return tri_fail(TRI_OUT_OF_MEMORY, "a device holds %s at its fullest, and has %s",
                  tri_format_bytes(out->prediction.memory.peak, peak, sizeof peak), tri_report_memory(&request, room));
}

static tri_status simulate_range(arguments *given) {
  const tri_device_range range = {.title = "one layout on more and more devices",
                                  .nothing = "does not run",
                                  .answer = simulate_on,
                                  .context = given};
  const char *single = given->timeline != NULL ? "--timeline" : given->html != NULL ? "--html" : "--stages";
  if (given->timeline == NULL && given->html == NULL && !given->stages)
    return tri_device_range_print(&given->plan, &range);
  return tri_fail(TRI_BAD_USAGE, "simulate: %s is for one number of devices; --devices is a range", single);
}

static tri_status simulate_compare(arguments *given) {
  TRI_TRY(tri_cluster_load(given->plan.cluster_name, &given->plan.cluster));
  return tri_compare_measured(given->against, &given->plan.cluster, given->timeline, given->plan.json);
}

static tri_status simulate_run(int count, char **given) {
  arguments *parsed = NULL;
  TRI_TRY(tri_alloc("options", 1, sizeof *parsed, &parsed));
  parsed->plan = tri_plan_options_default();
  tri_status status = simulate_parse(count, given, parsed);
  if (status == TRI_OK && parsed->against != NULL) {
    status = simulate_compare(parsed);
  } else if (status == TRI_OK) {
    status = tri_plan_options_finish("simulate", &parsed->plan);
    if (status == TRI_OK) status = parsed->plan.devices_to > 0 ? simulate_range(parsed) : simulate(parsed);
    tri_plan_options_release(&parsed->plan);
  }
  tri_free(parsed);
  return status;
}

const tri_command tri_command_simulate = {
    .name = "simulate",
    .summary = "predict the speed and memory of one layout on a described machine",
    .usage =
        "usage: trireme simulate --model M --cluster C --devices N --layout KEY=VALUE,... --global-batch B\n"
        "                        [--sequence S] [--lengths L] [--packing P] [--precision P] [--system S] [--tokens T]\n"
        "                        [--optimizer O] [--set KEY=VALUE]... [--price P] [--timeline FILE] [--html FILE] "
        "[--json]\n"
        "       trireme simulate --against RUN --cluster C [--timeline RUN.json] [--json]\n"
        "\n"
        "Prices the step program that `train` executes, instruction by instruction, on a machine described in a file.\n"
        "\n",
    .examples =
        "\n"
        "example: trireme simulate --model frontier-175b --cluster frontier --devices 1024 \\\n"
        "                 --layout tensor=4,pipeline=16,zero=1,micro_batch=1,recompute=full --global-batch 10240\n",
    .options = simulate_options,
    .run = simulate_run,
};
