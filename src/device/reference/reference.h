/* The reference device: every kernel in a plain, unfused, single-threaded form, with all arithmetic in double. Other
 * devices are tested against it, so it is written to be read, and not for speed. Storage is fp64, fp32 or bf16.
 * Signatures are those of the table in kernels.h. */
#ifndef TRI_DEVICE_REFERENCE_REFERENCE_H
#define TRI_DEVICE_REFERENCE_REFERENCE_H

#include "device/kernels.h"

/* `rest` of its name must be "". */
tri_status tri_reference_check(const char *rest);

/* Sets the members of a device, whose info.types is set already. */
tri_status tri_reference_create(const char *rest, const tri_device_request *request, tri_device *out);

/* Its kernels and its description, for devices that use them. */
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

/* grouped.c */
tri_status tri_reference_grouped_workspace(const tri_device_description *of, const tri_grouped_matmul *product,
                                           size_t *bytes);
tri_status tri_reference_grouped_matmul(tri_queue *queue, const tri_grouped_matmul *product, const int32_t *begins,
                                        const void *a, const void *b, void *c, void *workspace);
tri_status tri_reference_group_rows(tri_queue *queue, tri_rows rows, int64_t chosen, int64_t experts_count,
                                    const int32_t *experts, int32_t *begins, int32_t *order, int32_t *sources,
                                    int32_t *places);
tri_status tri_reference_sum_rows(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t terms, int64_t width,
                                  const int32_t *places, const void *in, void *out, bool accumulate);

/* router.c */
tri_status tri_reference_router_forward(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router,
                                        const int32_t *labels, const void *logits, const void *bias, int32_t *experts,
                                        void *weights);
tri_status tri_reference_router_backward(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router,
                                         const void *logits, const int32_t *experts, const void *weights,
                                         const void *gradient_weights, const void *balance, int64_t first_row,
                                         int64_t sequence_rows, double z, const tri_step_values *values,
                                         void *gradient_logits);
tri_status tri_reference_router_loads(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router,
                                      const void *logits, const int32_t *experts, int64_t first_row,
                                      int64_t sequence_rows, int64_t sequences, void *loads);
tri_status tri_reference_router_balance(tri_queue *queue, tri_dtype type, const tri_router *router, int64_t sequences,
                                        double coefficient, const tri_step_values *values, const void *loads,
                                        void *balance, double *loss);
tri_status tri_reference_router_z_loss(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router,
                                       double z, const tri_step_values *values, const void *logits,
                                       const int32_t *experts, double *loss);
tri_status tri_reference_router_count(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router,
                                      const int32_t *experts, const void *weights, int64_t *counts);

/* rows.c */
tri_status tri_reference_add(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, const void *a,
                             const void *b, void *out);
tri_status tri_reference_scale(tri_queue *queue, tri_dtype type, int64_t count, double factor, const void *x, void *y);
tri_status tri_reference_copy_rows(tri_queue *queue, const tri_row_copy *copy, const int32_t *from_rows,
                                   const void *from, const int32_t *to_rows, void *to);
tri_status tri_reference_column_sum(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, int64_t ld,
                                    const void *in, void *out, bool accumulate);
tri_status tri_reference_embedding_forward(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width,
                                           const int32_t *ids, int64_t first_id, int64_t table_rows,
                                           tri_dtype table_type, const void *table, const int32_t *positions,
                                           const void *position_table, void *out);
tri_status tri_reference_embedding_backward(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width,
                                            const int32_t *ids, int64_t first_id, int64_t table_rows,
                                            const void *gradient, void *gradient_table);
tri_status tri_reference_position_backward(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width,
                                           const int32_t *positions, int64_t table_rows, const void *gradient,
                                           void *gradient_table, bool accumulate);
tri_status tri_reference_activation_forward(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows,
                                            int64_t width, const void *x, void *y);
tri_status tri_reference_activation_backward(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows,
                                             int64_t width, const void *x, const void *gradient_y, void *gradient_x);
tri_status tri_reference_gated_forward(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows,
                                       int64_t width, const void *x, void *y);
tri_status tri_reference_gated_backward(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows,
                                        int64_t width, const void *x, const void *gradient_y, void *gradient_x);
tri_status tri_reference_weighted_gated_forward(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows,
                                                int64_t width, const void *x, const void *weights, void *y);
tri_status tri_reference_weighted_gated_backward(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows,
                                                 int64_t width, const void *x, const void *weights,
                                                 const void *gradient_y, void *gradient_x, void *gradient_weights);
tri_status tri_reference_dropout(tri_queue *queue, tri_dtype type, int64_t count, const tri_dropout *options,
                                 const tri_step_values *values, const int32_t *rows, const void *x, void *y);
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
tri_status tri_reference_softmax_logits(tri_queue *queue, tri_dtype type, int64_t rows, int64_t vocabulary, int64_t ld,
                                        tri_logit_form form, void *logits);
tri_status tri_reference_softmax_statistics(tri_queue *queue, tri_dtype type, int64_t rows, int64_t vocabulary,
                                            int64_t ld, const void *logits, const int32_t *labels, int64_t first_id,
                                            void *maximum, void *sum, void *label_logit);
tri_status tri_reference_softmax_loss(tri_queue *queue, tri_dtype type, int64_t rows, const int32_t *labels,
                                      const float *weights, const void *maximum, const void *sum,
                                      const void *label_logit, void *losses);
tri_status tri_reference_softmax_gradient(tri_queue *queue, tri_dtype type, int64_t rows, int64_t vocabulary,
                                          int64_t ld, tri_logit_form form, const void *logits, const int32_t *labels,
                                          const float *weights, int64_t first_id, const tri_step_values *values,
                                          const void *maximum, const void *sum, int64_t gradient_ld, void *gradient);

/* optimizer.c */
tri_status tri_reference_adamw(tri_queue *queue, tri_dtype type, int64_t count, const tri_adamw *options,
                               const tri_step_values *values, void *parameter, const void *gradient, void *moment1,
                               void *moment2, void *narrow);
tri_status tri_reference_softmax_rescale(tri_queue *queue, tri_dtype type, int64_t rows, const void *from,
                                         const void *to, void *sum);
tri_status tri_reference_lion(tri_queue *queue, tri_dtype type, int64_t count, const tri_lion *options,
                              const tri_step_values *values, void *parameter, const void *gradient, void *moment,
                              void *narrow);
tri_status tri_reference_sgd(tri_queue *queue, tri_dtype type, int64_t count, const tri_sgd *options,
                             const tri_step_values *values, void *parameter, const void *gradient, void *moment,
                             void *narrow);
tri_status tri_reference_schedule_free(tri_queue *queue, tri_dtype type, int64_t count, const tri_adamw *options,
                                       const tri_step_values *values, void *y, const void *gradient, void *z,
                                       void *moment2, void *narrow);
tri_status tri_reference_lerp(tri_queue *queue, tri_dtype type, int64_t count, double weight, const void *a,
                              const void *b, void *out);
tri_status tri_reference_momentum(tri_queue *queue, tri_dtype type, int64_t count, const tri_momentum *options,
                                  const tri_step_values *values, const void *gradient, void *moment, void *out);
tri_status tri_reference_matrix_normalise(tri_queue *queue, tri_dtype type, const tri_matrix_copy *copy, const void *in,
                                          const tri_exact_sum *squares, double eps, void *out);
tri_status tri_reference_matrix_polynomial(tri_queue *queue, tri_dtype type, const tri_matrix_polynomial *polynomial,
                                           const void *a, const void *b, void *out);
tri_status tri_reference_matrix_step(tri_queue *queue, tri_dtype type, const tri_matrix_step *step,
                                     const tri_step_values *values, const void *x, void *parameter, void *narrow);
tri_status tri_reference_matrix_squares(tri_queue *queue, tri_dtype type, const tri_matrix_squares *sides,
                                        const tri_step_values *values, const void *in, void *row_sums,
                                        void *column_sums);
tri_status tri_reference_adafactor_direction(tri_queue *queue, tri_dtype type, const tri_adafactor *options,
                                             const tri_step_values *values, const void *row, const void *column,
                                             const tri_adafactor_sums *sums, void *direction);
tri_status tri_reference_adafactor_step(tri_queue *queue, tri_dtype type, const tri_adafactor *options,
                                        const tri_step_values *values, const tri_adafactor_sums *sums,
                                        const void *direction, void *parameter, void *narrow);
tri_status tri_reference_low_rank_adam(tri_queue *queue, tri_dtype type, int64_t count, const tri_adamw *options,
                                       const tri_step_values *values, const void *gradient, void *moment1,
                                       void *moment2, void *out);
tri_status tri_reference_low_rank_rest(tri_queue *queue, tri_dtype type, const tri_low_rank_rest *sides,
                                       const tri_step_values *values, const void *gradient, const void *adam,
                                       const void *projected, void *rest);
tri_status tri_reference_low_rank_growth(tri_queue *queue, tri_dtype type, const tri_step_values *values,
                                         const double *squares, void *norm, double *factor);
tri_status tri_reference_low_rank_step(tri_queue *queue, tri_dtype type, const tri_low_rank_step *step,
                                       const tri_step_values *values, const void *x, const void *rest,
                                       const double *factor, void *parameter, void *narrow);
tri_status tri_reference_block_squares(tri_queue *queue, tri_dtype type, int64_t count, int64_t block, const void *in,
                                       tri_exact_sum *sum);
tri_status tri_reference_sum(tri_queue *queue, tri_dtype type, int64_t count, const void *in, double *out,
                             bool accumulate);
tri_status tri_reference_exact_add(tri_queue *queue, const double *value, tri_exact_sum *sum);

/* quantised.c */
tri_status tri_reference_quantise_blocks(tri_queue *queue, tri_dtype type, int64_t count, bool with_sign,
                                         const void *in, uint8_t *codes, float *scales);
tri_status tri_reference_dequantise_blocks(tri_queue *queue, tri_dtype type, int64_t count, bool with_sign,
                                           const uint8_t *codes, const float *scales, void *out);

/* nf4.c */
tri_status tri_reference_quantise_nf4(tri_queue *queue, tri_dtype type, int64_t count, const void *values, void *kept);
tri_status tri_reference_dequantise_nf4(tri_queue *queue, tri_dtype type, int64_t first, int64_t count, int64_t total,
                                        const void *kept, void *values);

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* Element i of an array of some type, as a double, and back (bf16 rounds to nearest even). */
double tri_reference_load(tri_dtype type, const void *array, int64_t i);
void tri_reference_store(tri_dtype type, void *array, int64_t i, double value);

#endif
