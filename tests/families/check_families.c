/* Whether every family's file says all that it must: names for what its layers have, and, for each key of a model's
 * description that it has, words of config.json that bring it back. Runs when it is built, and fails the build. */
#include "base/memory.h"
#include "checkpoint/huggingface.h"
#include "files/file.h"
#include "model/family.h"
#include "model/model_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *family_name;
static int faults;

static void fault(const char *what, const char *detail) {
  fprintf(stderr, "src/model/%s.c: %s%s\n", family_name, what, detail);
  faults++;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static void want(bool there, const char *what) {
  if (!there) fault("its `blocks` do not name ", what);
}

static void check_names(const tri_family_table *family) {
  const tri_blocks *blocks = &family->blocks;
  const tri_block_names *names = &blocks->names;
  want(blocks->embedding != NULL, "`embedding`");
  want(blocks->norm != NULL, "the last `norm`");
  want(blocks->head != NULL, "`head`, the output projection");
  want(blocks->layer != NULL && strstr(blocks->layer, "%ld") != NULL, "`layer`, with %ld for its number");
  want(names->norm1 != NULL || names->post1 != NULL, "`names.norm1` or `names.post1`");
  want(names->norm2 != NULL || names->post2 != NULL || family->usual.residual == TRI_RESIDUAL_PARALLEL_ONE_NORM,
       "`names.norm2` or `names.post2`");
  want(names->qkv != NULL || (names->q != NULL && names->k != NULL && names->v != NULL),
       "`names.qkv`, or `q`, `k` and `v`");
  want(names->out != NULL, "`names.out`");
  want(blocks->qk_norm == TRI_QK_NORM_NONE || (names->q_norm != NULL && names->k_norm != NULL),
       "`names.q_norm` and `k_norm`");
  want(names->down != NULL, "`names.down`");
  want(names->gate_up != NULL || names->up != NULL, "`names.up` or `names.gate_up`");
  want(names->router == NULL || (names->expert_gate_up[0] != NULL && names->expert_down != NULL),
       "the matrices of its experts");
  if (family->keys == NULL) fault("it has no list of `keys`; TRI_FAMILY_KEYS(...) makes one", "");
  if (family->hf_keys == NULL || family->hf_keys[0].model_type == NULL) {
    fault("it has no `hf_keys`: config.json cannot be read or written", "");
  }
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

/* A setting of a key, with a value that differs from the default of every family. Without the other settings in
 * `beside` it is refused. */
typedef struct sample {
  const char *key, *text, *beside;
} sample;

static const sample samples[] = {
    {"dropout", "dropout: 0.25\n", ""},
    {"activation", "activation: relu\n", ""},
    {"activation", "activation: silu\n", ""},
    {"attention_bias", "attention_bias: true\n", ""},
    {"output_bias", "output_bias: true\n", "attention_bias: true\n"},
    {"mlp_bias", "mlp_bias: true\n", ""},
    {"residual", "residual: sequential\n", ""},
    {"residual", "residual: parallel\n", ""},
    {"residual", "residual: parallel_one_norm\n", ""},
    {"rope_theta", "rope_theta: 5000.0\n", ""},
    {"local_rope_theta", "local_rope_theta: 300.0\n", "window: 9\n"},
    {"rope_scaling", "rope_scaling: {type: linear, factor: 4.0}\n", "rotary_fraction: 1.0\n"},
    {"rope_scaling",
     "rope_scaling: {type: longrope, original_max_sequence: 16, short_factor: [1, 1, 2, 2], long_factor: [1, 2, 3, "
     "4]}\n",
     "rotary_fraction: 1.0\n"},
    {"rotary_fraction", "rotary_fraction: 0.75\n", ""},
    {"rope_layers", "rope_layers: 3 of 4\n", ""},
    {"window", "window: 9\n", ""},
    {"window_layers", "window_layers: 1 of 2\n", "window: 9\n"},
    {"attention_scale", "attention_scale: 0.25\n", ""},
    {"embedding_scale", "embedding_scale: 3.0\n", ""},
    {"residual_scale", "residual_scale: 0.5\n", ""},
    {"logit_divisor", "logit_divisor: 4.0\n", ""},
    {"attention_soft_cap", "attention_soft_cap: 7.0\n", ""},
    {"logit_soft_cap", "logit_soft_cap: 8.0\n", ""}};

static bool has_key(const tri_family_table *family, const char *key) {
  for (const char *const *at = family->keys; *at != NULL; at++) {
    if (strcmp(*at, key) == 0) return true;
  }
  return false;
}

static void print_model(const tri_family_table *family, const sample *s, char *out, size_t bytes) {
  const bool experts = family->blocks.names.router != NULL;
  const bool fraction = strncmp(s->beside, "rotary_fraction", 15) == 0 && !has_key(family, "rotary_fraction");
  snprintf(out, bytes,
           "family: %s\nnum_layers: 8\nhidden_size: 64\nnum_heads: 8\nvocab_size: 99\nmax_sequence: 32\n%s%s%s",
           family_name,
           experts                     ? "num_experts: 4\nexperts_per_token: 2\nexpert_ffn_size: 32\n"
           : family->asks_for_ffn_size ? "ffn_size: 96\n"
                                       : "",
           s->text, fraction ? "" : s->beside);
}

typedef struct lost {
  const char *key;
  bool yes;
} lost;

static void note_difference(void *context, const tri_config_difference *difference) {
  lost *l = context;
  l->yes = l->yes || strncmp(difference->key, l->key, strlen(l->key)) == 0;
}

/* Whether a model that the family takes comes back from its config.json with the key as it was. */
static tri_status check_sample(const tri_family_table *family, const sample *s, bool *taken, bool *kept) {
  char text[1024], *config = NULL;
  tri_model model, back;
  print_model(family, s, text, sizeof text);
  TRI_TRY(tri_file_replace("check_families.yaml", text, strlen(text)));
  *taken = tri_model_load("check_families.yaml", &model) == TRI_OK;
  if (!*taken) return TRI_OK;
  TRI_TRY(tri_huggingface_print(&model, TRI_FP32, -1, NULL, &config));
  tri_status status = tri_huggingface_parse("its config.json", config, strlen(config), &back);
  tri_free(config);
  TRI_TRY(status);
  lost l = {.key = s->key};
  tri_config_differences(&tri_model_table, &model, &back, note_difference, &l);
  *kept = !l.yes;
  return TRI_OK;
}

static void check_key(const tri_family_table *family, const char *key) {
  bool any = false;
  for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
    bool taken = false, kept = false;
    if (strcmp(samples[i].key, key) != 0) continue;
    if (check_sample(family, &samples[i], &taken, &kept) != TRI_OK) {
      fault(key, " is among its `keys`, and a model that has it cannot be said:");
      fprintf(stderr, "  %s\n", tri_status_message());
      return;
    }
    any = any || taken;
    if (taken && !kept) {
      fault(key,
            " is among its `keys`, and config.json does not bring it back: a row of its hf_keys, or its `read` and "
            "`write`, forgets it");
      return;
    }
  }
  if (any || strcmp(key, "window_layers") == 0) return; /* some have the window in all layers or none */
  fault(key, " is among its `keys`, and no model with it is taken:");
  fprintf(stderr, "  %s\n", tri_status_message());
}

static void check_family(tri_family number) {
  const tri_family_table *family = tri_family_of(&(tri_model){.family = number});
  const int before = faults;
  family_name = tri_family_name(number);
  check_names(family);
  if (faults > before) return;
  for (const char *const *key = tri_family_optional_keys; *key != NULL; key++) {
    if (has_key(family, *key)) check_key(family, *key);
  }
}

int main(void) {
  static const tri_family all[] = {TRI_FAMILIES(TRI_FAMILY_VALUE)};
  char folder[] = "/tmp/check-families-XXXXXX";
  if (mkdtemp(folder) == NULL || chdir(folder) != 0) return 1;
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) check_family(all[i]);
  if (chdir("/") != 0 || tri_directory_remove(folder) != TRI_OK) faults++;
  return faults > 0;
}
