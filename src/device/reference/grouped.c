/* Rows in groups: sorting by group, GEMMs of each group's rows with its matrix, and the sum of returned rows. */
#include "device/reference/reference.h"

#define load tri_reference_load
#define store tri_reference_store

tri_status tri_reference_grouped_workspace(const tri_device_description *of, const tri_grouped_matmul *product,
                                           size_t *bytes) {
  (void)of;
  (void)product;
  *bytes = 0;
  return TRI_OK;
}

/* Returns the address of element `first` of an array. */
static const char *from_element(const void *array, tri_dtype type, int64_t first) {
  return (const char *)array + first * (int64_t)tri_dtype_bytes(type);
}

tri_status tri_reference_grouped_matmul(tri_queue *queue, const tri_grouped_matmul *product, const int32_t *begins,
                                        const void *a, const void *b, void *c, void *workspace) {
  for (int64_t g = 0; g < product->groups; g++) {
    tri_matmul one = product->product;
    const int64_t first = begins[g], rows = begins[g + 1] - first;
    const bool gradient = one.a_transposed;
    const int64_t b_first = gradient ? first * one.ldb : g * product->stride;
    const int64_t c_first = gradient ? g * product->stride : first * one.ldc;
    *(gradient ? &one.k : &one.m) = rows;
    TRI_TRY(tri_reference_matmul(queue, &one, from_element(a, one.a_type, first * one.lda),
                                 from_element(b, one.b_type, b_first), NULL,
                                 (char *)c + c_first * (int64_t)tri_dtype_bytes(one.c_type), workspace));
  }
  return TRI_OK;
}

static bool is_expert(int32_t e, int64_t experts_count) { return e >= 0 && e < experts_count; }

tri_status tri_reference_group_rows(tri_queue *queue, tri_rows rows, int64_t chosen, int64_t experts_count,
                                    const int32_t *experts, int32_t *begins, int32_t *order, int32_t *sources,
                                    int32_t *places) {
  (void)queue;
  const int64_t pairs = tri_rows_live(rows) * chosen;
  int32_t place = 0;
  for (int64_t e = 0; e <= experts_count; e++) { /* the last iteration processes the rows without an expert */
    begins[e] = place;
    for (int64_t i = 0; i < pairs; i++) {
      if (e < experts_count ? experts[i] != e : is_expert(experts[i], experts_count)) continue;
      order[place] = (int32_t)i;
      sources[place] = (int32_t)(i / chosen);
      places[i] = e < experts_count ? place : -1;
      place++;
    }
  }
  return TRI_OK;
}

tri_status tri_reference_sum_rows(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t terms, int64_t width,
                                  const int32_t *places, const void *in, void *out, bool accumulate) {
  (void)queue;
  const int64_t live = tri_rows_live(rows);
  for (int64_t r = 0; r < live; r++) {
    for (int64_t c = 0; c < width; c++) {
      double sum = accumulate ? load(type, out, r * width + c) : 0.0;
      for (int64_t j = 0; j < terms; j++) {
        const int32_t place = places[r * terms + j];
        if (place >= 0) sum += load(type, in, place * width + c);
      }
      store(type, out, r * width + c, sum);
    }
  }
  return TRI_OK;
}
