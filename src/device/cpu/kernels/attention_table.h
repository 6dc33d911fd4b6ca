/* The table that attention_*.c export, and its name: tri_attention_floats_avx2. */
#ifndef TRI_DEVICE_CPU_KERNELS_ATTENTION_TABLE_H
#define TRI_DEVICE_CPU_KERNELS_ATTENTION_TABLE_H

#define TRI_ATTENTION_NAME(cells, isa) TRI_ATTENTION_JOIN(cells, isa)
#define TRI_ATTENTION_JOIN(cells, isa) tri_attention_##cells##_##isa

#define TRI_ATTENTION_TABLE                                                                                            \
  {                                                                                                                    \
    .forward_scratch = forward_scratch_bytes, .backward_scratch = backward_scratch_bytes, .forward = forward,          \
    .forward_rows = forward_rows, .delta = delta, .backward_whole = backward_whole,                                    \
    .backward_shared = backward_shared, .backward_keys = backward_keys, .backward_queries = backward_queries,          \
  }

#endif
