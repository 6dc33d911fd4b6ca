#include "run/run_length.h"

#include "base/whole_number.h"

#include <math.h>

/* Two keys for one value, and the name of the value in messages. */
static const struct {
  const char *keys[2], *value;
} pairs[TRI_LENGTH_PAIRS] = {
    {{"steps", "epochs"}, "the length of the run"},
    {{"warmup", "warmup_ratio"}, "the warm-up"},
    {{"min_lr", "min_lr_ratio"}, "the last learning rate"},
};

static tri_yaml *optimizer_of(const tri_yaml *root) {
  if (root->kind != TRI_YAML_MAPPING) return NULL; /* tri_config_read reports this */
  tri_yaml *optimizer = tri_yaml_find(root, "optimizer");
  if (optimizer == NULL || optimizer->kind != TRI_YAML_MAPPING) return NULL;
  return optimizer;
}

static const tri_yaml *given(const tri_yaml *section, const char *key) {
  const tri_yaml *value = section == NULL ? NULL : tri_yaml_find(section, key);
  return value == NULL || tri_yaml_is_null(value) ? NULL : value;
}

/* Returns a count as it is written in the file; 0 if it is missing or not a count. */
static int64_t number_in(const tri_yaml *section, const char *key) {
  enum { MOST = 1 << 30 };
  const tri_yaml *value = section == NULL ? NULL : tri_yaml_find(section, key);
  if (value == NULL || value->kind != TRI_YAML_SCALAR) return 0;
  int64_t number = 0;
  return tri_whole_number(value->text, &number) && number > 0 && number < MOST ? number : 0;
}

tri_written_length tri_run_length_written(const tri_yaml *root) {
  const tri_yaml *optimizer = optimizer_of(root);
  tri_written_length out = {.steps = number_in(optimizer, "steps"), .warmup = number_in(optimizer, "warmup")};
  for (int p = 0; p < TRI_LENGTH_PAIRS; p++) {
    for (int k = 0; k < 2; k++) out.nodes[p][k] = given(optimizer, pairs[p].keys[k]);
  }
  return out;
}

tri_status tri_run_length_choose(const tri_yaml *root, const tri_written_length *written) {
  tri_yaml *optimizer = optimizer_of(root);
  for (int p = 0; p < TRI_LENGTH_PAIRS; p++) {
    const tri_yaml *first = given(optimizer, pairs[p].keys[0]), *second = given(optimizer, pairs[p].keys[1]);
    if (first == NULL || second == NULL) continue;
    const bool first_is_old = first == written->nodes[p][0], second_is_old = second == written->nodes[p][1];
    if (first_is_old == second_is_old) {
      char subject[64];
      snprintf(subject, sizeof subject, "`optimizer.%s`", pairs[p].keys[1]);
      return tri_yaml_fail(second, subject, " and optimizer.%s both set %s; keep one of them", pairs[p].keys[0],
                           pairs[p].value);
    }
    tri_yaml_remove(optimizer, pairs[p].keys[first_is_old ? 0 : 1]);
  }
  return TRI_OK;
}

tri_status tri_run_length_check(const tri_yaml *root, const tri_run_config *c) {
  if (c->optimizer.steps > 0 || c->optimizer.epochs > 0) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`optimizer.steps` is missing from %s; add `steps:` under `optimizer:`, for example `steps: 500`, or "
                  "`epochs:`, for example `epochs: 3`",
                  root->source);
}

/* Sets warmup_share. It applies if an option or epochs make the run shorter than the warm-up in its file. It is the
 * fraction of the file's steps that are warm-up, or a tenth if the file has no steps. */
static void find_warmup_share(const tri_written_length *written, tri_run_config *c) {
  const bool shortened =
      written->nodes[0][1] != NULL || c->optimizer.epochs > 0 || written->steps != c->optimizer.steps;
  if (!shortened || written->warmup == 0 || c->optimizer.warmup != written->warmup) return;
  if (written->steps > 0 && written->warmup > written->steps) return;
  c->optimizer.warmup_share = written->steps > 0 ? (double)written->warmup / (double)written->steps : 0.1;
}

static void set_warmup(tri_run_config *c) {
  if (c->optimizer.warmup_ratio > 0)
    c->optimizer.warmup = (int64_t)ceil(c->optimizer.warmup_ratio * (double)c->optimizer.steps);
  if (c->optimizer.warmup <= c->optimizer.steps || c->optimizer.warmup_share == 0) return;
  c->optimizer.warmup_asked = c->optimizer.warmup;
  c->optimizer.warmup = (int64_t)(c->optimizer.warmup_share * (double)c->optimizer.steps);
}

void tri_run_length_finish(const tri_written_length *written, tri_run_config *c) {
  if (c->optimizer.min_lr_ratio > 0) c->optimizer.min_lr = c->optimizer.min_lr_ratio * c->optimizer.lr;
  find_warmup_share(written, c);
  if (c->optimizer.steps > 0) set_warmup(c);
}

void tri_run_length_set_steps(tri_run_config *c, int64_t steps) {
  c->optimizer.steps = steps;
  /* Undo the scaling to an earlier number of steps. */
  if (c->optimizer.warmup_asked > 0) c->optimizer.warmup = c->optimizer.warmup_asked;
  c->optimizer.warmup_asked = 0;
  set_warmup(c);
}
