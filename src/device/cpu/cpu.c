#include "device/cpu/cpu.h"

#include "base/memory.h"
#include "device/cpu/attention.h"
#include "device/cpu/matmul.h"

#include <omp.h>
#include <stdio.h>
#include <string.h>

/* What one vector unit's compilation of kernels/ offers. */
typedef struct variant {
  const char *isa, *device_name;
  bool (*available)(void);
  void (*fill[5])(tri_device_kernels *table);
} variant;

static bool always(void) { return true; }

#if defined(__x86_64__)
static bool has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
static bool has_avx512(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
static bool has_avx512bf16(void) { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }
#endif

#define DECLARE(isa)                                         \
  void tri_cpu_table_elements_##isa(tri_device_kernels *);   \
  void tri_cpu_table_embedding_##isa(tri_device_kernels *);  \
  void tri_cpu_table_norm_##isa(tri_device_kernels *);       \
  void tri_cpu_table_loss_##isa(tri_device_kernels *);       \
  void tri_cpu_table_optimizer_##isa(tri_device_kernels *);
#define FILL(isa)                                                                                       \
  {                                                                                                     \
    tri_cpu_table_elements_##isa, tri_cpu_table_embedding_##isa, tri_cpu_table_norm_##isa,              \
        tri_cpu_table_loss_##isa, tri_cpu_table_optimizer_##isa                                         \
  }

DECLARE(baseline)
#if defined(__x86_64__)
DECLARE(avx2)
DECLARE(avx512)
DECLARE(avx512bf16)
#endif

/* Best last. */
static const variant variants[] = {
    {"baseline", "cpu baseline", always, FILL(baseline)},
#if defined(__x86_64__)
    {"avx2", "cpu avx2", has_avx2, FILL(avx2)},
    {"avx512", "cpu avx512", has_avx512, FILL(avx512)},
    {"avx512bf16", "cpu avx512bf16", has_avx512bf16, FILL(avx512bf16)},
#endif
};
enum { NUM_VARIANTS = sizeof variants / sizeof variants[0] };

typedef struct cpu_state {
  tri_device_kernels kernels; /* the variant's own and those that choose for themselves */
} cpu_state;

static tri_status find_variant(const char *isa, const variant **out) {
  char known[128] = "";
  for (int i = NUM_VARIANTS - 1; i >= 0; i--) {
    if (!variants[i].available()) continue;
    if (isa[0] == '\0' || strcmp(variants[i].isa, isa) == 0) {
      *out = &variants[i];
      return TRI_OK;
    }
    size_t used = strlen(known);
    snprintf(known + used, sizeof known - used, "%s%s", used == 0 ? "" : ", ", variants[i].isa);
  }
  return tri_fail(TRI_UNSUPPORTED, "this CPU does not run kernels for `%s`; it runs %s", isa, known);
}
