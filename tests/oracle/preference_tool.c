/* preference_tool: lines on standard input,
 *
 *   LOSS BETA LABEL_SMOOTHING SIMPO_GAMMA DESIRABLE_WEIGHT UNDESIRABLE_WEIGHT KL DISCOPOP_TAU  S R LABELS  S R LABELS
 *
 * the chosen completion's sums and the rejected one's. A loss of single completions has one completion's, and then
 * whether it is desirable, 1 or 0. Prints for each line the loss, its derivatives of each S, and each completion's
 * reward and log probability as metrics have them.
 *
 * preference_tool rules: what each loss takes.
 *
 * preference_tool samples PREFIX SEQUENCE VOCABULARY SEED LOSS COUNT: the first COUNT samples of a corpus in the order
 * of training, a line each: its answers, of each the side (0 chosen, 1 rejected), how many tokens its prompt has, and
 * the ids of both. */
#include "base/memory.h"
#include "data/preference_source.h"
#include "mesh/label.h"
#include "model/preference_losses.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tri_preference_rules rules_of(int32_t loss) { return tri_preference_rules_of((tri_preference_loss)loss); }

static void print_rules(void) {
  for (int32_t i = 0; i < TRI_NUM_PREFERENCE_LOSSES; i++) {
    const tri_preference_rules r = rules_of(i);
    printf("%s%s%s%s%s%s%s%s%s%s\n", r.name, r.paired ? " paired" : "", r.reference ? " reference" : "",
           r.label_smoothing ? " label_smoothing" : "", r.needs_label_smoothing ? " needs_label_smoothing" : "",
           r.simpo_gamma ? " simpo_gamma" : "", r.discopop_tau ? " discopop_tau" : "", r.kl ? " kl" : "",
           r.averaged ? " averaged" : "", r.averaged_rewards ? " averaged_rewards" : "");
  }
}

static int loss_named(const char *name, int32_t *out) {
  for (int32_t i = 0; i < TRI_NUM_PREFERENCE_LOSSES; i++) {
    if (strcmp(rules_of(i).name, name) != 0) continue;
    *out = i;
    return 1;
  }
  return 0;
}

static int read_settings(tri_preference_settings *s) {
  char name[32];
  return scanf("%31s %lf %lf %lf %lf %lf %lf %lf", name, &s->beta, &s->label_smoothing, &s->simpo_gamma,
               &s->desirable_weight, &s->undesirable_weight, &s->kl, &s->discopop_tau) == 8 &&
         loss_named(name, &s->loss);
}

static int read_sums(tri_completion_sums *sums) {
  return scanf("%lf %lf %lf", &sums->logp, &sums->reference, &sums->labels) == 3;
}

static void print_metrics(const tri_preference_settings *settings, const tri_completion_sums *sums) {
  printf(" %.17g %.17g", tri_preference_reward(settings, sums), tri_preference_logp(settings, sums));
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

/* Prints the answer whose text begins in row `first`, and returns the row after it. */
static int64_t print_text(const tri_sample *sample, int64_t sequence, int64_t first, bool begun) {
  int64_t end = first + 1, prompt = first;
  while (end < sequence && sample->positions[end] != 0 && sample->labels[end] != TRI_LABEL_PADDING) end++;
  while (sample->segments[prompt] < 0) prompt++;
  printf("%s[%d, %" PRId64 ", [", begun ? ", " : "[", sample->segments[prompt] % 2, prompt + 1 - first);
  for (int64_t i = first; i < end; i++) printf("%d, ", sample->ids[i]);
  printf("%d]]", sample->labels[end - 1]);
  return end;
}

static tri_status print_samples(const tri_preference_source *source, int64_t count) {
  const int64_t sequence = source->options.sequence;
  const tri_preference_at at = {.source = source};
  const tri_feed feed = tri_preference_feed(&at);
  int32_t *columns = NULL;
  TRI_TRY(tri_alloc("a sample", 4 * (size_t)sequence, sizeof *columns, &columns));
  const tri_sample sample = {.ids = columns,
                             .labels = columns + sequence,
                             .positions = columns + 2 * sequence,
                             .segments = columns + 3 * sequence};
  tri_status status = TRI_OK;
  for (int64_t s = 0; s < count && status == TRI_OK; s++) {
    status = tri_feed_read(&feed, s, &sample);
    int64_t row = 0;
    while (status == TRI_OK && row < sequence && sample.labels[row] != TRI_LABEL_PADDING)
      row = print_text(&sample, sequence, row, row > 0);
    if (status == TRI_OK) printf("]\n");
  }
  tri_free(columns);
  return status;
}

static tri_status samples(char **given) {
  int32_t loss = 0;
  tri_corpus *corpus = NULL;
  tri_preference_source source = {0};
  if (!loss_named(given[4], &loss)) return tri_fail(TRI_BAD_USAGE, "%s is no loss", given[4]);
  const tri_preference_source_options options = {.sequence = atoll(given[1]),
                                                 .vocab_size = atoll(given[2]),
                                                 .seed = (uint64_t)atoll(given[3]),
                                                 .paired = rules_of(loss).paired,
                                                 .mismatched = rules_of(loss).kl,
                                                 .too_long = TRI_TOO_LONG_REFUSE};
  TRI_TRY(tri_corpus_open(given[0], &corpus));
  tri_status status = tri_preference_source_create(corpus, &options, &source);
  if (status == TRI_OK) status = print_samples(&source, atoll(given[5]));
  tri_preference_source_destroy(&source);
  tri_corpus_close(corpus);
  return status;
}

int main(int count, char **arguments) {
  tri_preference_settings settings = {0};
  tri_completion_sums first, second;
  int desirable = 0;
  if (count == 2 && strcmp(arguments[1], "rules") == 0) {
    print_rules();
    return 0;
  }
  if (count == 8 && strcmp(arguments[1], "samples") == 0) {
    const tri_status status = samples(arguments + 2);
    if (status != TRI_OK) fprintf(stderr, "preference_tool: %s\n", tri_status_message());
    return tri_status_exit(status);
  }
  while (read_settings(&settings)) {
    const int paired = rules_of(settings.loss).paired;
    if (!read_sums(&first) || !(paired ? read_sums(&second) : scanf("%d", &desirable) == 1)) break;
    const tri_preference_value v =
        paired ? tri_preference_pair(&settings, &first, &second) : tri_preference_single(&settings, &first, desirable);
    printf("%.17g %.17g %.17g", v.loss, v.chosen, v.rejected);
    print_metrics(&settings, &first);
    if (paired) print_metrics(&settings, &second);
    printf("\n");
  }
  if (feof(stdin)) return 0;
  fprintf(stderr, "preference_tool: not a line of a loss, its settings and sums\n");
  return 2;
}
