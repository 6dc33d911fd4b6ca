/* The reference device: every kernel in a plain, unfused, single-threaded form, with all arithmetic in double,
 * except for numbers of 8 and 4 bits, whose arithmetic is in fp32 on every device. Other devices are tested against
 * it, so it is written to be readable, not fast. Storage is fp64, fp32 or bf16. */
#ifndef TRI_DEVICE_REFERENCE_REFERENCE_H
#define TRI_DEVICE_REFERENCE_REFERENCE_H

#include "device/kernels.h"

/* Checks the options `rest` of a device's name. Fails with TRI_BAD_CONFIG unless they are "". */
tri_status tri_reference_check(const char *rest);

/* Sets the members of a device; the caller has set info.types. */
tri_status tri_reference_create(const char *rest, const tri_device_request *request, tri_device *out);

/* The kernels and their memory requirements, also for other devices that use them. */
extern const tri_device_kernels tri_reference_kernels;
extern const tri_device_description tri_reference_description;

/* Declares each kernel as tri_reference_NAME. */
#define TRI_KERNEL(name, ...)                                                                                          \
  tri_status tri_reference_##name(tri_queue *queue TRI_EACH(TRI_KERNEL_PARAMETER, __VA_ARGS__));
#define TRI_OPTIONAL_KERNEL(...)
#include "device/kernels.def"

/* Functions of the description and of the driver, also for other devices that use them. */
tri_status tri_reference_matmul_workspace(const tri_device_description *of, const tri_matmul *product, size_t *bytes);
tri_status tri_reference_matmul_packed(const tri_device_description *of, const tri_matmul *product, size_t *bytes);
tri_status tri_reference_memory_create(tri_device *device, size_t bytes, void **out);
void tri_reference_memory_destroy(tri_device *device, void *memory, size_t bytes);
tri_status tri_reference_copy(tri_queue *queue, const tri_copy *copy);
tri_status tri_reference_grouped_workspace(const tri_device_description *of, const tri_grouped_matmul *product,
                                           size_t *bytes);
tri_status tri_reference_attention_workspace(const tri_device_description *of, const tri_attention *call,
                                             size_t *bytes);

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* Load and store element i of an array of some type, as a double (bf16 rounds to nearest even). */
double tri_reference_load(tri_dtype type, const void *array, int64_t i);
void tri_reference_store(tri_dtype type, void *array, int64_t i, double value);

#endif
