#include "device/reference/reference.h"

static const tri_device_kernels kernels = {
    .memory_create = tri_reference_memory_create,
    .memory_destroy = tri_reference_memory_destroy,
    .copy_in = tri_reference_copy_in,
    .copy_out = tri_reference_copy_out,
    .matmul_workspace = tri_reference_matmul_workspace,
    .matmul_packed = tri_reference_matmul_packed,
    .matmul = tri_reference_matmul,
    .fill_zero = tri_reference_fill_zero,
    .convert = tri_reference_convert,
    .add = tri_reference_add,
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
    .gelu_forward = tri_reference_gelu_forward,
    .gelu_backward = tri_reference_gelu_backward,
    .swiglu_forward = tri_reference_swiglu_forward,
    .swiglu_backward = tri_reference_swiglu_backward,
    .dropout = tri_reference_dropout,
    .rope = tri_reference_rope,
    .attention_workspace = tri_reference_attention_workspace,
    .attention_forward = tri_reference_attention_forward,
    .attention_backward = tri_reference_attention_backward,
    .softmax_statistics = tri_reference_softmax_statistics,
    .softmax_loss = tri_reference_softmax_loss,
    .softmax_gradient = tri_reference_softmax_gradient,
    .adamw = tri_reference_adamw,
    .softmax_rescale = tri_reference_softmax_rescale,
    .block_squares = tri_reference_block_squares,
    .sum = tri_reference_sum,
};

tri_status tri_reference_create(tri_device *out) {
  out->name = "reference";
  out->kernels = &kernels;
  out->threads = 1;
  return TRI_OK;
}
