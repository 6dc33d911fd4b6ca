/* Attention of bf16 tensors with GEMMs of bf16 pairs, for the vector units that have them. Weights and their gradients
 * are rounded to bf16 between GEMMs; all sums and statistics are floats. */
#define TRI_PAIRS 1
#include "device/cpu/kernels/attention_backward.h"
#include "device/cpu/kernels/attention_forward.h"
#include "device/cpu/kernels/attention_table.h"

const tri_attention_kernels TRI_ATTENTION_NAME(pairs, TRI_ISA) = TRI_ATTENTION_TABLE;
