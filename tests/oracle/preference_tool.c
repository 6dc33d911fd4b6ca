/* preference_tool: lines on standard input,
 *
 *   LOSS BETA LABEL_SMOOTHING SIMPO_GAMMA DESIRABLE_WEIGHT UNDESIRABLE_WEIGHT KL DISCOPOP_TAU  S R LABELS  S R LABELS
 *
 * the chosen completion's sums and the rejected one's. A loss of single completions has one completion's, and then
 * whether it is desirable, 1 or 0. Prints for each line the loss, its derivatives of each S, and each completion's
 * reward and log probability as metrics have them.
 *
 * preference_tool rules: what each loss takes. */
#include "model/preference_losses.h"

#include <stdio.h>
#include <string.h>

static tri_preference_rules rules_of(int32_t loss) { return tri_preference_rules_of((tri_preference_loss)loss); }

static void print_rules(void) {
  for (int32_t i = 0; i <= TRI_PREFERENCE_APO_ZERO_UNPAIRED; i++) {
    const tri_preference_rules r = rules_of(i);
    printf("%s%s%s%s%s%s%s%s%s%s\n", r.name, r.paired ? " paired" : "", r.reference ? " reference" : "",
           r.label_smoothing ? " label_smoothing" : "", r.needs_label_smoothing ? " needs_label_smoothing" : "",
           r.simpo_gamma ? " simpo_gamma" : "", r.discopop_tau ? " discopop_tau" : "", r.kl ? " kl" : "",
           r.averaged ? " averaged" : "", r.averaged_rewards ? " averaged_rewards" : "");
  }
}

static int loss_named(const char *name, int32_t *out) {
  for (int32_t i = 0; i <= TRI_PREFERENCE_APO_ZERO_UNPAIRED; i++) {
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

int main(int count, char **arguments) {
  tri_preference_settings settings = {0};
  tri_completion_sums first, second;
  int desirable = 0;
  if (count == 2 && strcmp(arguments[1], "rules") == 0) {
    print_rules();
    return 0;
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
