/* Properties of runs that influence their steps, called effects. Errors are reported by effect: if they are large
 * only for rows with one effect, this effect is modelled badly. Whether a row shows an effect follows from its
 * model, layout and prediction, so rows are not marked by hand. */
#include "model/parameters.h"
#include "plan/published.h"

static double share_of_step(const tri_published_row *row, double seconds) { return seconds / row->predicted_s; }

static bool is_small(const tri_published_set *set, const tri_published_row *row) {
  (void)set;
  return tri_model_num_parameters(&row->model) < 3e9;
}
static bool is_large(const tri_published_set *set, const tri_published_row *row) {
  (void)set;
  return tri_model_num_parameters(&row->model) >= 1e11;
}
static bool is_inside(const tri_published_set *set, const tri_published_row *row) {
  return row->devices <= set->cluster.node_devices;
}
static bool is_across(const tri_published_set *set, const tri_published_row *row) { return !is_inside(set, row); }
static bool is_tensor_wide(const tri_published_set *set, const tri_published_row *row) {
  (void)set;
  return row->layout.tensor >= 8;
}
static bool is_tensor_across(const tri_published_set *set, const tri_published_row *row) {
  return row->layout.tensor > set->cluster.node_devices;
}
static bool is_tensor_bound(const tri_published_set *set, const tri_published_row *row) {
  (void)set;
  return share_of_step(row, row->prediction.time.along[tri_domain_axis(TRI_DOMAIN_TENSOR)]) > 0.2;
}
static bool is_data_bound(const tri_published_set *set, const tri_published_row *row) {
  (void)set;
  return share_of_step(row, row->prediction.time.along[tri_domain_axis(TRI_DOMAIN_REPLICAS)]) > 0.1;
}
static bool is_bubble_bound(const tri_published_set *set, const tri_published_row *row) {
  (void)set;
  return row->prediction.bubble > 0.2;
}
static bool is_host_bound(const tri_published_set *set, const tri_published_row *row) {
  (void)set;
  return row->host_share > 0.1;
}
static bool is_alone(const tri_published_set *set, const tri_published_row *row) {
  (void)set;
  return row->layout.micro_batch == 1;
}
static bool is_many(const tri_published_set *set, const tri_published_row *row) {
  (void)set;
  return row->layout.micro_batch >= 8;
}
static bool is_context(const tri_published_set *set, const tri_published_row *row) {
  (void)set;
  return row->layout.context > 1;
}
static bool has_experts(const tri_published_set *set, const tri_published_row *row) {
  (void)set;
  return row->model.num_experts > 0;
}
static bool is_expert_bound(const tri_published_set *set, const tri_published_row *row) {
  (void)set;
  return share_of_step(row, row->prediction.time.along[tri_domain_axis(TRI_DOMAIN_EXPERT)]) > 0.05;
}
static bool is_sharded(const tri_published_set *set, const tri_published_row *row) {
  (void)set;
  return row->layout.zero == 3;
}

const tri_published_effect tri_published_effects[] = {
    {"small model (below 3B parameters)", is_small},
    {"large model (100B and more)", is_large},
    {"one node, or a part of it", is_inside},
    {"across nodes", is_across},
    {"tensor wide (8 and more)", is_tensor_wide},
    {"tensor across nodes", is_tensor_across},
    {"tensor-bound (over 20 % of the step)", is_tensor_bound},
    {"data-bound (over 10 % of the step)", is_data_bound},
    {"bubble-bound (over 20 % of the step)", is_bubble_bound},
    {"host-bound (over 10 % of the step)", is_host_bound},
    {"micro-batches of 1", is_alone},
    {"micro-batches of 8 and more", is_many},
    {"sequences shared among ranks", is_context},
    {"layers of experts", has_experts},
    {"expert-bound (over 5 % of the step)", is_expert_bound},
    {"ZeRO 3", is_sharded},
};
const size_t tri_num_published_effects = sizeof tri_published_effects / sizeof *tri_published_effects;
