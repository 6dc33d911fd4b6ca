/* The reference device: every kernel once more, plain, unfused and single-threaded, with all arithmetic in double. It
 * is the oracle of the others, so it is written to be read, and nothing in it is there for speed. Storage is fp64, fp32
 * or bf16. Signatures are those of the table in kernels.h. */
#ifndef TRI_DEVICE_REFERENCE_REFERENCE_H
#define TRI_DEVICE_REFERENCE_REFERENCE_H

#include "device/kernels.h"
#include "device/reference/attention.h"

/* `rest` of its name must be "". */
tri_status tri_reference_check(const char *rest);

/* Fills in a device that has its types. */
tri_status tri_reference_create(const char *rest, const tri_device_request *request, tri_device *out);

/* Its kernels and what they want, for devices that run them elsewhere. */
extern const tri_device_kernels tri_reference_kernels;
extern const tri_device_description tri_reference_description;

/* matmul.c */
tri_status tri_reference_matmul_workspace(const tri_device_description *of, const tri_matmul *product, size_t *bytes);
tri_status tri_reference_matmul_packed(const tri_device_description *of, const tri_matmul *product, size_t *bytes);
tri_status tri_reference_matmul(tri_queue *queue, const tri_matmul *product, const void *a, const void *b,
                                const void *bias, void *c, void *workspace);

/* memory.c */
tri_status tri_reference_memory_create(tri_device *device, size_t bytes, void **out);
void tri_reference_memory_destroy(tri_device *device, void *memory, size_t bytes);
tri_status tri_reference_copy(tri_queue *queue, const tri_copy *copy);
tri_status tri_reference_fill_zero(tri_queue *queue, size_t bytes, void *out);
tri_status tri_reference_convert(tri_queue *queue, int64_t count, tri_dtype from, const void *in, tri_dtype to,
                                 void *out);

/* rows.c */
tri_status tri_reference_add(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, const void *a,
                             const void *b, void *out);
tri_status tri_reference_column_sum(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, const void *in,
                                    void *out, bool accumulate);
tri_status tri_reference_embedding_forward(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width,
                                           const int32_t *ids, int64_t first_id, int64_t table_rows, const void *table,
                                           const int32_t *positions, const void *position_table, void *out);
tri_status tri_reference_embedding_backward(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width,
                                            const int32_t *ids, int64_t first_id, int64_t table_rows,
                                            const void *gradient, void *gradient_table);
tri_status tri_reference_position_backward(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width,
                                           const int32_t *positions, int64_t table_rows, const void *gradient,
                                           void *gradient_table, bool accumulate);
tri_status tri_reference_gelu_forward(tri_queue *queue, tri_dtype type, tri_gelu variant, tri_rows rows, int64_t width,
                                      const void *x, void *y);
tri_status tri_reference_gelu_backward(tri_queue *queue, tri_dtype type, tri_gelu variant, tri_rows rows, int64_t width,
                                       const void *x, const void *gradient_y, void *gradient_x);
tri_status tri_reference_swiglu_forward(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, const void *x,
                                        void *y);
tri_status tri_reference_swiglu_backward(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, const void *x,
                                         const void *gradient_y, void *gradient_x);
tri_status tri_reference_dropout(tri_queue *queue, tri_dtype type, int64_t count, const tri_dropout *options,
                                 const tri_step_values *values, const void *x, void *y);
tri_status tri_reference_rope(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t row_elements, int64_t heads,
                              int64_t head_stride, int64_t head_dim, const int32_t *positions, const void *cosine,
                              const void *sine, bool inverse, void *x);

/* norm.c */
tri_status tri_reference_layer_norm_forward(tri_queue *queue, const tri_norm *norm, const void *x, const void *branch,
                                            void *sum, const void *weight, const void *bias, void *y, void *mean,
                                            void *rstd);
tri_status tri_reference_layer_norm_backward_input(tri_queue *queue, const tri_norm *norm, const void *gradient_y,
                                                   const void *x, const void *weight, const void *mean,
                                                   const void *rstd, void *gradient_x, bool accumulate);
tri_status tri_reference_layer_norm_backward_weight(tri_queue *queue, const tri_norm *norm, const void *gradient_y,
                                                    const void *x, const void *mean, const void *rstd,
                                                    void *gradient_weight, void *gradient_bias, bool accumulate);
tri_status tri_reference_rms_norm_forward(tri_queue *queue, const tri_norm *norm, const void *x, const void *branch,
                                          void *sum, const void *weight, void *y, void *rstd);
tri_status tri_reference_rms_norm_backward_input(tri_queue *queue, const tri_norm *norm, const void *gradient_y,
                                                 const void *x, const void *weight, const void *rstd, void *gradient_x,
                                                 bool accumulate);
tri_status tri_reference_rms_norm_backward_weight(tri_queue *queue, const tri_norm *norm, const void *gradient_y,
                                                  const void *x, const void *rstd, void *gradient_weight,
                                                  bool accumulate);

/* loss.c */
tri_status tri_reference_softmax_statistics(tri_queue *queue, tri_dtype type, int64_t rows, int64_t vocabulary,
                                            int64_t ld, const void *logits, const int32_t *labels, int64_t first_id,
                                            void *maximum, void *sum, void *label_logit);
tri_status tri_reference_softmax_loss(tri_queue *queue, tri_dtype type, int64_t rows, const int32_t *labels,
                                      int32_t ignore_index, const void *maximum, const void *sum,
                                      const void *label_logit, void *losses);
tri_status tri_reference_softmax_gradient(tri_queue *queue, tri_dtype type, int64_t rows, int64_t vocabulary,
                                          int64_t ld, const void *logits, const int32_t *labels, int64_t first_id,
                                          int32_t ignore_index, const tri_step_values *values, const void *maximum,
                                          const void *sum, int64_t gradient_ld, void *gradient);

/* optimizer.c */
tri_status tri_reference_adamw(tri_queue *queue, tri_dtype type, int64_t count, const tri_adamw *options,
                               const tri_step_values *values, void *parameter, const void *gradient, void *moment1,
                               void *moment2, void *narrow);
tri_status tri_reference_softmax_rescale(tri_queue *queue, tri_dtype type, int64_t rows, const void *from,
                                         const void *to, void *sum);
tri_status tri_reference_block_squares(tri_queue *queue, tri_dtype type, int64_t count, int64_t block, const void *in,
                                       tri_exact_sum *sum);
tri_status tri_reference_sum(tri_queue *queue, tri_dtype type, int64_t count, const void *in, double *out,
                             bool accumulate);
tri_status tri_reference_exact_add(tri_queue *queue, const double *value, tri_exact_sum *sum);

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* Element i of an array of some type, as a double, and back (bf16 rounds to nearest even). */
double tri_reference_load(tri_dtype type, const void *array, int64_t i);
void tri_reference_store(tri_dtype type, void *array, int64_t i, double value);

#endif
