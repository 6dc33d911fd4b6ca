#include "model/experts.h"

#include "model/family.h"

#include <inttypes.h>
#include <stdio.h>

bool tri_model_has_experts(const tri_model *model, int64_t layer) {
  return model->num_experts > 0 && layer >= model->dense_layers;
}

int64_t tri_model_expert_layers(const tri_model *model, tri_layer_range layers) {
  const int64_t first = layers.first > model->dense_layers ? layers.first : model->dense_layers;
  const int64_t end = layers.end < model->num_layers ? layers.end : model->num_layers;
  return model->num_experts > 0 && end > first ? end - first : 0;
}

/* Returns the number of best scores by which a group is ranked: two as in DeepSeek-V3; one for scores that sum to 1, as
 * in V2, for a quota per group, and for groups of one expert. */
static int64_t best_of_group(const tri_model *model) {
  if (model->router_quota) return 1;
  switch (model->router_scoring) {
    case TRI_ROUTER_SOFTMAX: return 1;
    case TRI_ROUTER_SIGMOID: break;
  }
  return model->num_experts / model->router_groups < 2 ? 1 : 2;
}

tri_expert_layer tri_model_expert_layer(const tri_model *model) {
  return (tri_expert_layer){
      .router = {.scoring = model->router_scoring,
                 .experts = model->num_experts,
                 .chosen = model->experts_per_token,
                 .groups = model->router_groups,
                 .kept_groups = model->router_kept_groups,
                 .best_of_group = best_of_group(model),
                 .quota = model->router_quota,
                 .normalised = model->router_normalised,
                 .scale = model->router_scale},
      .width = model->hidden_size,
      .ffn_size = model->expert_ffn_size,
      .shared_ffn_size = model->shared_experts * model->expert_ffn_size,
      .activation = model->activation,
      .balance = model->balance,
      .balance_rate = model->balance_rate,
      .z_loss = model->z_loss,
  };
}

static bool has_experts(const tri_blocks *blocks) { return blocks->names.router != NULL; }

/* ---- defaults ---------------------------------------------------------------------------------------------------- */

static double usual_rate(tri_balance_experts balance) {
  switch (balance) {
    case TRI_BALANCE_EXPERTS_NONE: break;
    case TRI_BALANCE_EXPERTS_SEQUENCE: return 1e-4;
    case TRI_BALANCE_EXPERTS_BIAS: return 1e-3;
  }
  return 0;
}

void tri_model_fill_in_experts(tri_model *m) {
  if (m->router_groups == 0) m->router_groups = 1;
  if (m->router_kept_groups == 0) m->router_kept_groups = m->router_groups;
  if (m->router_scale == 0) m->router_scale = 1;
  if (m->balance_rate == 0) m->balance_rate = usual_rate(m->balance);
  /* If no layer has a dense feed-forward part, ffn_size is the width of an expert. */
  const tri_family_table *family = tri_family_of(m);
  const bool experts = family != NULL && has_experts(&family->blocks);
  const bool dense = experts && family->blocks.dense_layers && m->dense_layers > 0;
  if (experts && !dense && m->ffn_size == 0) {
    m->ffn_size = m->expert_ffn_size > 0 ? m->expert_ffn_size : m->hidden_size;
  }
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

enum { FAMILIES_BYTES = 256 };

/* Lists the families with a property: "qwen3_moe and dots1". */
static void list_families(bool (*has)(const tri_blocks *blocks), char out[FAMILIES_BYTES]) {
  static const tri_family all[] = {TRI_FAMILIES(TRI_FAMILY_VALUE)};
  const char *last = NULL;
  size_t used = 0;
  out[0] = '\0';
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    if (!has(&tri_family_of(&(tri_model){.family = all[i]})->blocks)) continue;
    if (last != NULL) used += (size_t)snprintf(out + used, FAMILIES_BYTES - used, "%s%s", used > 0 ? ", " : "", last);
    last = tri_family_name(all[i]);
  }
  if (last != NULL) snprintf(out + used, FAMILIES_BYTES - used, "%s%s", used > 0 ? " and " : "", last);
}

static bool has_dense_layers(const tri_blocks *blocks) { return has_experts(blocks) && blocks->dense_layers; }
static bool has_shared(const tri_blocks *blocks) { return has_experts(blocks) && blocks->shared_experts; }

static tri_status refuse(const tri_model *m, const char *key, bool (*has)(const tri_blocks *blocks)) {
  char families[FAMILIES_BYTES];
  list_families(has, families);
  return tri_fail(TRI_BAD_CONFIG, "`%s` is for %s; %s has none, so leave it out", key, families,
                  tri_family_name(m->family));
}

/* Refuses keys of experts in a family without experts. */
static tri_status check_dense(const tri_model *m) {
  const struct {
    const char *key;
    bool given;
  } keys[] = {{"num_experts", m->num_experts != 0},
              {"experts_per_token", m->experts_per_token != 0},
              {"expert_ffn_size", m->expert_ffn_size != 0},
              {"shared_experts", m->shared_experts != 0},
              {"dense_layers", m->dense_layers != 0},
              {"router_scoring", m->router_scoring != TRI_ROUTER_SOFTMAX},
              {"router_groups", m->router_groups != 1},
              {"router_kept_groups", m->router_kept_groups != 1},
              {"router_quota", m->router_quota},
              {"router_normalised", m->router_normalised},
              {"router_scale", m->router_scale != 1},
              {"router_bias", m->router_bias},
              {"balance", m->balance != TRI_BALANCE_EXPERTS_NONE},
              {"balance_rate", m->balance_rate != 0},
              {"z_loss", m->z_loss != 0}};
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    if (keys[i].given) return refuse(m, keys[i].key, has_experts);
  }
  return TRI_OK;
}

static tri_status check_given(const tri_model *m) {
  const struct {
    const char *key;
    int64_t value, example;
  } keys[] = {{"num_experts", m->num_experts, 8},
              {"experts_per_token", m->experts_per_token, 2},
              {"expert_ffn_size", m->expert_ffn_size, (m->hidden_size + 255) / 256 * 256}};
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    if (keys[i].value != 0) continue;
    return tri_fail(TRI_BAD_CONFIG, "`%s` is missing; %s needs it, for example `%s: %" PRId64 "`", keys[i].key,
                    tri_family_name(m->family), keys[i].key, keys[i].example);
  }
  return TRI_OK;
}

static tri_status check_groups(const tri_model *m) {
  const int64_t experts = m->num_experts, groups = m->router_groups, kept = m->router_kept_groups;
  const int64_t chosen = m->experts_per_token, of_kept = experts / groups * kept;
  if (experts % groups != 0) {
    return tri_fail(TRI_BAD_CONFIG, "`router_groups` %" PRId64 " does not divide num_experts %" PRId64 "; try %" PRId64,
                    groups, experts, tri_nearest_divisor(experts, groups));
  }
  if (kept > groups) {
    return tri_fail(TRI_BAD_CONFIG, "`router_kept_groups` %" PRId64 " is above router_groups %" PRId64, kept, groups);
  }
  const int64_t above = (chosen + kept - 1) / kept * kept;
  if (m->router_quota && chosen % kept != 0) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`experts_per_token` %" PRId64 " is not a multiple of router_kept_groups %" PRId64
                    ", and router_quota takes equally many from each of these groups; try %" PRId64,
                    chosen, kept, above < of_kept ? above : of_kept);
  }
  if (chosen > of_kept) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`experts_per_token` %" PRId64 " is above the %" PRId64
                    " experts of the groups that are kept: "
                    "router_kept_groups %" PRId64 " of router_groups %" PRId64 ", of num_experts %" PRId64,
                    chosen, of_kept, kept, groups, experts);
  }
  return TRI_OK;
}

static tri_status check_layers(const tri_model *m) {
  const tri_blocks *blocks = &tri_family_of(m)->blocks;
  if (m->dense_layers > 0 && !has_dense_layers(blocks)) return refuse(m, "dense_layers", has_dense_layers);
  if (!has_dense_layers(blocks) && m->ffn_size != m->expert_ffn_size) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`ffn_size` is of layers without experts, and %s has none; leave it out (an expert's width is "
                    "expert_ffn_size)",
                    tri_family_name(m->family));
  }
  if (m->dense_layers > m->num_layers) {
    return tri_fail(TRI_BAD_CONFIG, "`dense_layers` %" PRId64 " is above num_layers %" PRId64, m->dense_layers,
                    m->num_layers);
  }
  if (m->shared_experts > 0 && !has_shared(blocks)) return refuse(m, "shared_experts", has_shared);
  /* This limit keeps all counts of parameters and bytes far below the range of int64_t. */
  const int64_t most = 1 << 22;
  if (m->expert_ffn_size <= most / (m->num_experts + m->shared_experts)) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`expert_ffn_size` is too large: %" PRId64 " x (num_experts %" PRId64 " + shared_experts %" PRId64
                  ") is above %" PRId64,
                  m->expert_ffn_size, m->num_experts, m->shared_experts, most);
}

static tri_status check_balance(const tri_model *m) {
  switch (m->balance) {
    case TRI_BALANCE_EXPERTS_NONE:
      if (m->balance_rate == 0) return TRI_OK;
      return tri_fail(TRI_BAD_CONFIG,
                      "`balance_rate` is for `balance: sequence` or `bias`, and balance is none; leave it out");
    case TRI_BALANCE_EXPERTS_SEQUENCE: return TRI_OK;
    case TRI_BALANCE_EXPERTS_BIAS: break;
  }
  if (m->router_bias) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`balance: bias` updates the bias of the router, which has none; set router_bias: true");
}

tri_status tri_model_check_experts(const tri_model *m) {
  const tri_blocks *blocks = &tri_family_of(m)->blocks;
  if (!has_experts(blocks)) return check_dense(m);
  TRI_TRY(check_given(m));
  if (m->experts_per_token > m->num_experts) {
    return tri_fail(TRI_BAD_CONFIG, "`experts_per_token` %" PRId64 " is above num_experts %" PRId64,
                    m->experts_per_token, m->num_experts);
  }
  TRI_TRY(check_groups(m));
  TRI_TRY(check_layers(m));
  return check_balance(m);
}
