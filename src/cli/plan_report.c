#include "cli/plan_report.h"

#include "base/format.h"
#include "base/log.h"
#include "plan/cost.h"
#include "plan/report.h"
#include "schedule/layout_config.h"
#include "schedule/layout_values.h"

#include <stdio.h>
#include <string.h>

/* ---- the table --------------------------------------------------------------------------------------------------- */

static void print_table(const tri_simulation_request *request, const tri_search_result *result) {
  char attention[TRI_REPORT_ATTENTION_BYTES];
  printf("%4s %10s %10s %8s %8s %12s  %s\n", "", "step s", "TFLOP/s", "MFU", "bubble", "peak memory", "layout");
  for (int64_t i = 0; i < result->num_answers; i++) {
    const tri_prediction *p = &result->answers[i].prediction;
    char bytes[32], layout[TRI_LAYOUT_TEXT_BYTES];
    printf("%4ld %10.4f %10.1f %6.1f %% %6.1f %% %12s  %s\n", (long)i + 1, p->step_s, p->model_tflops_per_device,
           tri_format_rounded(100 * p->mfu, 1), tri_format_rounded(100 * p->bubble, 1),
           tri_format_bytes(p->memory.peak, bytes, sizeof bytes),
           tri_layout_text(&result->answers[i].layout, layout, sizeof layout));
  }
  printf("TFLOP/s and MFU are per device, without recomputation; %s\n", tri_report_attention(request, attention));
}

/* ---- alternatives ------------------------------------------------------------------------------------------------ */

/* Prints a key and its value in a layout, such as "zero=1". */
static void print_key(const tri_layout *layout, const tri_config_key *key, FILE *to) {
  char text[TRI_LAYOUT_TEXT_BYTES], word[TRI_LAYOUT_WORD_BYTES];
  const char *at = tri_layout_text_of_all(layout, text, sizeof text);
  const size_t length = strlen(key->name);
  while (tri_layout_next_word(&at, word)) {
    if (strncmp(word, key->name, length) == 0 && word[length] == '=') fputs(word, to);
  }
}

static void print_keys(const tri_layout *layout, const tri_config_key *const *keys, int64_t count, FILE *to) {
  for (int64_t i = 0; i < count; i++) {
    if (i > 0) fputs(i + 1 < count ? ", " : " or ", to);
    print_key(layout, keys[i], to);
  }
}

static void print_alternative(const tri_answer *best, const tri_alternative *other, FILE *to) {
  char layout[TRI_LAYOUT_TEXT_BYTES];
  const double times = other->step_s / best->prediction.step_s;
  const double more = tri_format_rounded(100 * (times - 1), 1);
  fprintf(to, "without ");
  print_keys(&best->layout, other->keys, other->num_keys, to);
  if (more == 0) fprintf(to, ": as fast");
  if (more > 0 && times < 2) fprintf(to, ": %.1f %% slower (%s)", more, other->loss);
  if (times >= 2) fprintf(to, ": %.1f times as long (%s)", times, other->loss);
  fprintf(to, ": %s\n", tri_layout_text(&other->layout, layout, sizeof layout));
}

void tri_plan_report_alternatives(const tri_search_result *result, FILE *to) {
  const tri_answer *best = &result->answers[0];
  for (int64_t i = 0; i < result->num_alternatives && i < TRI_SEARCH_TOLD; i++) {
    print_alternative(best, &result->alternatives[i], to);
  }
  if (result->num_only == 0) return;
  fprintf(to, "nothing else fits without ");
  print_keys(&best->layout, result->only, result->num_only, to);
  fprintf(to, "\n");
}

/* Returns a batch that differs from `batch` by at most a tenth, and is a multiple of a higher power of two, such as
 * 1024 for 1000; 0 if there is none. */
static int64_t rounder_batch(int64_t batch) {
  for (int64_t unit = INT64_C(1) << 24; unit > 1 && batch % unit != 0; unit /= 2) {
    const int64_t near = (batch + unit / 2) / unit * unit, difference = near > batch ? near - batch : batch - near;
    if (near > 0 && 10 * difference <= batch) return near;
  }
  return 0;
}

/* Searches with a rounder batch, too, and suggests this batch if it is faster. The search has little choice if the
 * batch has few divisors, because layout.data divides the batch. */
static tri_status print_rounder_batch(const tri_plan_options *options, const tri_search_result *of) {
  const double worth_saying = 0.03, long_s = 2;
  const tri_answer *best = &of->answers[0];
  tri_search_request request = tri_plan_options_search(options);
  tri_search_result result = {0};
  char layout[TRI_LAYOUT_TEXT_BYTES];
  request.global_batch = rounder_batch(options->global_batch);
  if (request.global_batch == 0) return TRI_OK;
  if (of->seconds > long_s) {
    tri_log("searching with a global batch of %lld, too, since more numbers of ranks divide it",
            (long long)request.global_batch);
  }
  request.limit_s = best->prediction.step_s * (double)request.global_batch / (double)options->global_batch;
  request.limit_s /= 1 + worth_saying;
  request.prices = of->prices;
  const tri_status status = tri_search(&request, &result);
  if (status == TRI_BAD_LAYOUT || status == TRI_OUT_OF_MEMORY) return TRI_OK; /* the rounder batch is not better */
  TRI_TRY(status);
  if (result.num_answers == 0) return TRI_OK;
  const double faster = result.answers[0].prediction.tokens_per_s / best->prediction.tokens_per_s - 1;
  if (faster > worth_saying) {
    printf("--global-batch %lld would be %.0f %% faster for each sequence: %s\n", (long long)request.global_batch,
           100 * faster, tri_layout_text(&result.answers[0].layout, layout, sizeof layout));
  }
  tri_search_release(&result);
  return TRI_OK;
}

/* ---- memory and the search --------------------------------------------------------------------------------------- */

/* Reports that at least a third of the memory is idle although the layout has recompute=full, which is often a
 * mistake. */
static void print_idle(const tri_simulation_request *request, const char *fixed, const tri_answer *best) {
  const double room = tri_system_room(request->system, request->cluster), idle = room - best->prediction.memory.peak;
  char bytes[32], all[32];
  if (best->layout.recompute != TRI_RECOMPUTE_FULL || 3 * idle < room) return;
  const bool given = tri_layout_is_fixed(fixed, "recompute") || tri_layout_is_fixed(fixed, "recompute_every");
  printf("%s of %s are idle under recompute=full%s\n", tri_format_bytes(idle, bytes, sizeof bytes),
         tri_format_bytes(room, all, sizeof all),
         given ? ", which --layout fixes" : ": what recomputes less was searched, and is slower or does not fit");
}

void tri_plan_report_searched(const tri_plan_options *options, const tri_search_result *result, FILE *to) {
  char valid[32], simulated[32], keys[TRI_SEARCHED_BYTES];
  fprintf(to, "%s valid layout%s%s%s; %s simulated", tri_format_grouped(result->valid, valid, sizeof valid),
          TRI_PLURAL(result->valid), options->fixed == NULL ? "" : " with ",
          options->fixed == NULL ? "" : options->fixed,
          tri_format_grouped(result->simulated, simulated, sizeof simulated));
  if (result->simulated < result->valid) {
    fprintf(to, result->exhaustive ? ", the rest do not fit" : ", the rest ruled out by lower bounds");
  }
  fprintf(to, "\nsearched: %s; other keys have their defaults\n", tri_search_keys(options->fixed, keys));
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

tri_status tri_plan_report_best(const tri_plan_options *options, const tri_search_result *result) {
  const tri_answer *best = &result->answers[0];
  const tri_simulation_request request = tri_plan_options_request(options, &best->layout);
  tri_report_heading(&request, stdout);
  print_table(&request, result);
  printf("\nthe best of them:\n");
  tri_report_speed(&request, &best->prediction, stdout);
  tri_plan_report_alternatives(result, stdout);
  TRI_TRY(print_rounder_batch(options, result));
  tri_report_memory_parts(&request, &best->prediction, stdout);
  print_idle(&request, options->fixed, best);
  tri_report_accuracy(&options->cluster, &options->system, options->devices, stdout);
  TRI_TRY(tri_run_cost_text(&request, &best->prediction, options->tokens, stdout));
  tri_plan_report_searched(options, result, stdout);
  return TRI_OK;
}

tri_status tri_plan_report_front(const tri_plan_options *options, const tri_search_result *result) {
  const tri_simulation_request request = tri_plan_options_request(options, &result->answers[0].layout);
  tri_report_heading(&request, stdout);
  print_table(&request, result);
  tri_report_accuracy(&options->cluster, &options->system, options->devices, stdout);
  tri_plan_report_searched(options, result, stdout);
  return TRI_OK;
}
