#include "device/cpu/cpu.h"

#include "base/memory.h"
#include "base/system.h"
#include "device/cpu/attention.h"
#include "device/cpu/grouped.h"
#include "device/cpu/matmul.h"
#include "device/cpu/variants.h"
#include "device/reference/reference.h"

#include <omp.h>
#include <stdio.h>
#include <string.h>

#define ONE_MORE(file, isa) +1
enum { NUM_FILES = 0 TRI_CPU_FILES(ONE_MORE, , ) };

/* The functions that the compilation of kernels/ for one vector unit provides. */
typedef struct variant {
  const char *isa;
  bool (*available)(void);
  void (*fill[NUM_FILES])(tri_device_kernels *table);
  const tri_attention_kernels *attention_fp32, *attention_bf16;
  tri_rows_copy copy_rows;
  tri_few_rows few_rows;
  tri_pack_panels pack_panels;
  tri_transpose transpose;
  tri_thin_depth thin_depth;
  tri_thin_gradient thin_gradient;
  bool has_pairs;
  size_t (*pages_scratch)(const tri_attention *call);
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

#define DECLARE(isa)                                                                                                   \
  TRI_CPU_FILES(TRI_CPU_DECLARE, isa, isa)                                                                             \
  size_t tri_cpu_attention_pages_scratch_##isa(const tri_attention *);
TRI_CPU_VARIANTS(DECLARE)

#define FILL(file, isa) tri_cpu_table_##file##_##isa,
/* `pairs`: whether the vector unit multiplies pairs of bf16. */
#define VARIANT(name, check, plain, of_bf16, pairs)                                                                    \
  {                                                                                                                    \
    .isa = #name, .available = check, .fill = {TRI_CPU_FILES(FILL, name, plain)},                                      \
    .attention_fp32 = &tri_attention_floats_##plain, .attention_bf16 = &(of_bf16),                                     \
    .copy_rows = tri_cpu_rows_copy_##name, .few_rows = tri_cpu_few_rows_##name,                                        \
    .pack_panels = tri_cpu_pack_panels_##name, .transpose = tri_cpu_transpose_##name,                                  \
    .thin_depth = tri_cpu_thin_depth_##name, .thin_gradient = tri_cpu_thin_gradient_##name, .has_pairs = pairs,        \
    .pages_scratch = tri_cpu_attention_pages_scratch_##name                                                            \
  }

/* The variants, in ascending order of preference. */
static const variant variants[] = {
    VARIANT(baseline, always, baseline, tri_attention_floats_baseline, false),
#if defined(__x86_64__)
    VARIANT(avx2, has_avx2, avx2, tri_attention_floats_avx2, false),
    VARIANT(avx512, has_avx512, avx512, tri_attention_floats_avx512, false),
    VARIANT(avx512bf16, has_avx512bf16, avx512, tri_attention_pairs_avx512bf16, true),
#endif
};
enum { NUM_VARIANTS = sizeof variants / sizeof variants[0] };

typedef struct cpu_state {
  tri_device_kernels kernels; /* the variant's kernels, and the functions here that choose one at run time */
  const variant *chosen;
  tri_cpu_matmul_state *matmul;
  tri_regions *regions;
} cpu_state;

tri_cpu_matmul_state *tri_cpu_matmul_state_of(const tri_device_description *of) {
  return ((const cpu_state *)of->facts)->matmul;
}

tri_regions *tri_cpu_regions_of(const tri_device_description *of) { return ((const cpu_state *)of->facts)->regions; }

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
  return tri_fail(TRI_UNSUPPORTED, "this CPU has no kernels for `%s`; it runs %s", isa, known);
}

/* ---- attention: the variant's kernels for the call's type -------------------------------------------------------- */

static const tri_attention_kernels *attention_of(const cpu_state *state, tri_dtype type) {
  const variant *chosen = state->chosen;
  switch (type) {
    case TRI_BF16: return chosen->attention_bf16;
    case TRI_FP32: return chosen->attention_fp32;
    case TRI_FP64:
    case TRI_INT32: break; /* attention.c rejects this type */
  }
  return chosen->attention_fp32;
}

static tri_status attention_workspace(const tri_device_description *of, const tri_attention *call, size_t *bytes) {
  if (call->paged) {
    TRI_TRY(tri_attention_check(call));
    *bytes = ((const cpu_state *)of->facts)->chosen->pages_scratch(call) * (size_t)of->threads;
    return TRI_OK;
  }
  return tri_attention_workspace_with(attention_of(of->facts, call->type), of->threads, call, bytes);
}

static tri_status attention_forward(tri_queue *queue, const tri_attention *call, const tri_attention_slice *slices,
                                    const void *q, const void *k, const void *v, void *out, void *log_sum_exp,
                                    void *workspace) {
  tri_attention_forward job = {
      .call = call, .slices = slices, .q = q, .k = k, .v = v, .out = out, .log_sum_exp = log_sum_exp};
  return tri_attention_forward_with(attention_of(queue->device->state, call->type), queue->device->description.threads,
                                    &job, workspace);
}

static tri_status attention_backward(tri_queue *queue, const tri_attention *call, const tri_attention_slice *slices,
                                     const void *q, const void *k, const void *v, const void *out,
                                     const void *log_sum_exp, const void *gradient_out, void *gradient_q,
                                     void *gradient_k, void *gradient_v, void *workspace) {
  tri_attention_backward job = {
      .call = call,
      .slices = slices,
      .q = q,
      .k = k,
      .v = v,
      .out = out,
      .gradient_out = gradient_out,
      .log_sum_exp = log_sum_exp,
      .gradient_q = gradient_q,
      .gradient_k = gradient_k,
      .gradient_v = gradient_v,
  };
  return tri_attention_backward_with(attention_of(queue->device->state, call->type), queue->device->description.threads,
                                     &job, workspace);
}

/* ---- the device -------------------------------------------------------------------------------------------------- */

/* Sets the kernels and the functions for their scratch memory. Kernels that this device does not replace are those of
 * the reference device, so a new kernel runs here as soon as its reference exists. */
static void fill_kernels(cpu_state *state, tri_device_description *description) {
  const variant *chosen = state->chosen;
  tri_device_kernels *kernels = &state->kernels;
  *kernels = tri_reference_kernels;
  *description = tri_reference_description;
  for (size_t i = 0; i < sizeof chosen->fill / sizeof chosen->fill[0]; i++) chosen->fill[i](kernels);
  kernels->fill_zero = tri_cpu_fill_zero;
  kernels->matmul_pack = tri_cpu_matmul_pack;
  kernels->matmul = tri_cpu_matmul;
  description->matmul_workspace = tri_cpu_matmul_workspace;
  description->matmul_packed = tri_cpu_matmul_packed;
  kernels->grouped_matmul = tri_cpu_grouped_matmul;
  description->grouped_workspace = tri_cpu_grouped_workspace;
  kernels->attention_forward = attention_forward;
  kernels->attention_backward = attention_backward;
  description->attention_workspace = attention_workspace;
}

static void cpu_destroy(tri_device *device) {
  cpu_state *state = device->state;
  tri_cpu_matmul_state_destroy(state->matmul);
  tri_regions_destroy(state->regions);
  tri_free(state);
}

static const tri_device_driver driver = {
    .memory_create = tri_cpu_memory_create,
    .memory_destroy = tri_cpu_memory_destroy,
    .host_create = tri_cpu_memory_create,
    .host_destroy = tri_cpu_memory_destroy,
    .copy = tri_cpu_copy,
    .destroy = cpu_destroy,
};

tri_status tri_cpu_create(const char *isa, const tri_device_request *request, tri_device *out) {
  const variant *chosen = NULL;
  cpu_state *state = NULL;
  TRI_TRY(find_variant(isa, &chosen));
  TRI_TRY(tri_alloc("a device", 1, sizeof *state, &state));
  state->chosen = chosen;
  const int threads = request->threads <= 0 ? omp_get_num_procs() : request->threads;
  tri_status status = tri_regions_create(threads, &state->regions);
  if (status != TRI_OK) goto free_state;
  tri_cpu_matmul_options options = {.threads = threads,
                                    .regions = state->regions,
                                    .copy_rows = chosen->copy_rows,
                                    .few_rows = chosen->few_rows,
                                    .pack_panels = chosen->pack_panels,
                                    .transpose = chosen->transpose,
                                    .thin_depth = chosen->thin_depth,
                                    .thin_gradient = chosen->thin_gradient,
                                    .has_pairs = chosen->has_pairs};
  status = tri_cpu_matmul_state_create(&options, &state->matmul);
  if (status != TRI_OK) goto destroy_regions;
  unsigned types = out->info.types;
  out->info = (tri_device_info){
      .memory_bytes = tri_system_memory_available(), .host_memory = true, .host_access = true, .types = types};
  snprintf(out->info.name, sizeof out->info.name, "cpu %s", chosen->isa);
  out->driver = &driver;
  out->kernels = &state->kernels;
  fill_kernels(state, &out->description);
  out->description.facts = state;
  out->description.threads = threads;
  out->state = state;
  return TRI_OK;
destroy_regions:
  tri_regions_destroy(state->regions);
free_state:
  tri_free(state);
  return status;
}
