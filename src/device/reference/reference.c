#include "device/reference/reference.h"

#include "base/system.h"

const tri_device_kernels tri_reference_kernels = {
#define TRI_KERNEL(name, ...) .name = tri_reference_##name,
#define TRI_OPTIONAL_KERNEL(...)
#include "device/kernels.def"
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
