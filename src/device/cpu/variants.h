#ifndef TRI_DEVICE_CPU_VARIANTS_H
#define TRI_DEVICE_CPU_VARIANTS_H

/* The variants of kernels/: the names of the vector units that it is compiled for. */
#define TRI_CPU_VARIANTS(VARIANT) VARIANT(baseline) VARIANT(avx2) VARIANT(avx512) VARIANT(avx512bf16)

/* The files of kernels/ that set entries of the table of a variant `isa`. Files that do not round to bf16 are not
 * compiled again for each variant; `plain` is the variant whose object files `isa` uses for these
 * (cmake/cpu_kernels.cmake). */
#define TRI_CPU_FILES(FILE, isa, plain)                                                                                \
  FILE(elements, isa)                                                                                                  \
  FILE(embedding, isa)                                                                                                 \
  FILE(norm, isa)                                                                                                      \
  FILE(loss, isa)                                                                                                      \
  FILE(rows, isa)                                                                                                      \
  FILE(optimizer, isa)                                                                                                 \
  FILE(updates, isa)                                                                                                   \
  FILE(matrices, isa)                                                                                                  \
  FILE(factored, isa)                                                                                                  \
  FILE(low_rank, isa)                                                                                                  \
  FILE(quantised, plain)                                                                                               \
  FILE(nf4, plain)                                                                                                     \
  FILE(blocks, plain)                                                                                                  \
  FILE(router, plain)                                                                                                  \
  FILE(logit_query, plain)                                                                                             \
  FILE(grouping, isa)                                                                                                  \
  FILE(attention_pages, isa)                                                                                           \
  FILE(magnitude, isa)
#define TRI_CPU_DECLARE(file, isa) void tri_cpu_table_##file##_##isa(tri_device_kernels *);

#endif
