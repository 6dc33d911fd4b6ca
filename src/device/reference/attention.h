/* The reference device's slots for attention; see device/device.h. The device itself is not looked at. */
#ifndef TRI_DEVICE_REFERENCE_ATTENTION_H
#define TRI_DEVICE_REFERENCE_ATTENTION_H

#include "device/description.h"
#include "device/device.h"

tri_status tri_reference_attention_workspace(const tri_device_description *of, const tri_attention *call,
                                             size_t *bytes);
tri_status tri_reference_attention_forward(tri_queue *queue, const tri_attention *call,
                                           const tri_attention_slice *slices, const void *q, const void *k,
                                           const void *v, void *out, void *log_sum_exp, void *workspace);
tri_status tri_reference_attention_backward(tri_queue *queue, const tri_attention *call,
                                            const tri_attention_slice *slices, const void *q, const void *k,
                                            const void *v, const void *out, const void *log_sum_exp,
                                            const void *gradient_out, void *gradient_q, void *gradient_k,
                                            void *gradient_v, void *workspace);

#endif
