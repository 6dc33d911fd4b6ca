#include "model/model.h"

#include "model/experts.h"
#include "model/family.h"
#include "model/model_config.h"
#include "model/model_defaults.h"
#include "model/window.h"

#include <inttypes.h>
#include <stdio.h>

tri_status tri_model_assume_sequence(const tri_model *model, tri_status code, const char *how, int64_t *out) {
  if (model->max_sequence <= TRI_LONGEST_ASSUMED_SEQUENCE) {
    *out = model->max_sequence;
    return TRI_OK;
  }
  return tri_fail(
      code, "the sequence length is missing, and the maximum of %s, %" PRId64 " tokens, is too long for a default; %s",
      model->name, model->max_sequence, how);
}

tri_status tri_model_check_numbers(const tri_model *model, tri_dtype activations, const char *prefix) {
  const struct {
    const char *key;
    double value;
  } numbers[] = {{"norm_eps", model->norm_eps},
                 {"init_std", model->init_std},
                 {"dropout", model->dropout},
                 {"rope_theta", model->rope_theta},
                 {"local_rope_theta", model->local_rope_theta},
                 {"attention_scale", model->attention_scale},
                 {"attention_soft_cap", model->attention_soft_cap},
                 {"logit_soft_cap", model->logit_soft_cap},
                 {"embedding_scale", model->embedding_scale},
                 {"residual_scale", model->residual_scale},
                 {"logit_divisor", model->logit_divisor},
                 {"rope_scaling.factor", model->rope_scaling.factor},
                 {"rope_scaling.low_freq_factor", model->rope_scaling.low_freq_factor},
                 {"rope_scaling.high_freq_factor", model->rope_scaling.high_freq_factor},
                 {"rope_scaling.attention_factor", model->rope_scaling.attention_factor},
                 {"router_scale", model->router_scale},
                 {"balance_rate", model->balance_rate},
                 {"z_loss", model->z_loss}};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    char key[64];
    snprintf(key, sizeof key, "%s%s", prefix, numbers[i].key);
    TRI_TRY(tri_dtype_check_number(activations, key, numbers[i].value));
  }
  return TRI_OK;
}

tri_status tri_model_complete(tri_model *model) {
  tri_model m = *model;
  TRI_TRY(tri_model_fill_in(&m));
  TRI_TRY(tri_config_check(&tri_model_table, &m));
  TRI_TRY(tri_model_complete_layers(&m));
  TRI_TRY(tri_family_check(&m));
  TRI_TRY(tri_model_check_experts(&m));
  *model = m;
  return TRI_OK;
}
