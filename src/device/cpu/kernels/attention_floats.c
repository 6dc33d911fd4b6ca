/* Attention with GEMMs of floats, for this vector unit: of fp32 tensors, and of bf16 ones, which are widened when they
 * are packed. */
#define TRI_PAIRS 0
#include "device/cpu/kernels/attention_backward.h"
#include "device/cpu/kernels/attention_forward.h"
#include "device/cpu/kernels/attention_table.h"

const tri_attention_kernels TRI_ATTENTION_NAME(floats, TRI_ISA) = TRI_ATTENTION_TABLE;
