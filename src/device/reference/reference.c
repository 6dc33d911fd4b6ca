#include "device/reference/reference.h"

#include "base/system.h"
#include "device/reference/attention.h"

const tri_device_kernels tri_reference_kernels = {
    .matmul = tri_reference_matmul,
    .grouped_matmul = tri_reference_grouped_matmul,
    .fill_zero = tri_reference_fill_zero,
    .convert = tri_reference_convert,
    .copy_rows = tri_reference_copy_rows,
    .add = tri_reference_add,
    .scale = tri_reference_scale,
    .column_sum = tri_reference_column_sum,
    .embedding_forward = tri_reference_embedding_forward,
    .embedding_backward = tri_reference_embedding_backward,
    .position_backward = tri_reference_position_backward,
    .layer_norm_forward = tri_reference_layer_norm_forward,
    .layer_norm_backward_input = tri_reference_layer_norm_backward_input,
    .layer_norm_backward_weight = tri_reference_layer_norm_backward_weight,
    .rms_norm_forward = tri_reference_rms_norm_forward,
    .rms_norm_backward_input = tri_reference_rms_norm_backward_input,
    .rms_norm_backward_weight = tri_reference_rms_norm_backward_weight,
    .activation_forward = tri_reference_activation_forward,
    .activation_backward = tri_reference_activation_backward,
    .gated_forward = tri_reference_gated_forward,
    .gated_backward = tri_reference_gated_backward,
    .weighted_gated_forward = tri_reference_weighted_gated_forward,
    .weighted_gated_backward = tri_reference_weighted_gated_backward,
    .dropout = tri_reference_dropout,
    .rope = tri_reference_rope,
    .attention_forward = tri_reference_attention_forward,
    .attention_backward = tri_reference_attention_backward,
    .router_forward = tri_reference_router_forward,
    .router_backward = tri_reference_router_backward,
    .router_loads = tri_reference_router_loads,
    .router_balance = tri_reference_router_balance,
    .router_z_loss = tri_reference_router_z_loss,
    .router_count = tri_reference_router_count,
    .group_rows = tri_reference_group_rows,
    .sum_rows = tri_reference_sum_rows,
    .softmax_logits = tri_reference_softmax_logits,
    .softmax_statistics = tri_reference_softmax_statistics,
    .softmax_loss = tri_reference_softmax_loss,
    .softmax_gradient = tri_reference_softmax_gradient,
    .adamw = tri_reference_adamw,
    .lion = tri_reference_lion,
    .sgd = tri_reference_sgd,
    .schedule_free = tri_reference_schedule_free,
    .lerp = tri_reference_lerp,
    .momentum = tri_reference_momentum,
    .matrix_normalise = tri_reference_matrix_normalise,
    .matrix_polynomial = tri_reference_matrix_polynomial,
    .matrix_step = tri_reference_matrix_step,
    .matrix_squares = tri_reference_matrix_squares,
    .adafactor_direction = tri_reference_adafactor_direction,
    .adafactor_step = tri_reference_adafactor_step,
    .low_rank_adam = tri_reference_low_rank_adam,
    .low_rank_rest = tri_reference_low_rank_rest,
    .low_rank_growth = tri_reference_low_rank_growth,
    .low_rank_step = tri_reference_low_rank_step,
    .quantise_blocks = tri_reference_quantise_blocks,
    .dequantise_blocks = tri_reference_dequantise_blocks,
    .quantise_nf4 = tri_reference_quantise_nf4,
    .dequantise_nf4 = tri_reference_dequantise_nf4,
    .softmax_rescale = tri_reference_softmax_rescale,
    .block_squares = tri_reference_block_squares,
    .sum = tri_reference_sum,
    .exact_add = tri_reference_exact_add,
};

const tri_device_description tri_reference_description = {
    .threads = 1,
    .matmul_workspace = tri_reference_matmul_workspace,
    .matmul_packed = tri_reference_matmul_packed,
    .grouped_workspace = tri_reference_grouped_workspace,
    .attention_workspace = tri_reference_attention_workspace,
};

static const tri_device_driver driver = {
    .memory_create = tri_reference_memory_create,
    .memory_destroy = tri_reference_memory_destroy,
    .copy = tri_reference_copy,
};

tri_status tri_reference_check(const char *rest) {
  if (*rest == '\0') return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG, "`reference` takes nothing more; not `:%s`", rest);
}

tri_status tri_reference_create(const char *rest, const tri_device_request *request, tri_device *out) {
  (void)rest;
  (void)request;
  unsigned types = out->info.types;
  out->info = (tri_device_info){.name = "reference",
                                .memory_bytes = tri_system_memory_available(),
                                .host_memory = true,
                                .host_access = true,
                                .types = types};
  out->driver = &driver;
  out->kernels = &tri_reference_kernels;
  out->description = tri_reference_description;
  return TRI_OK;
}
