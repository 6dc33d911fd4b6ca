/* Measured times of a device, as tables of a cluster's file (`measured:`): matrix products by shape and form,
 * attention, element-wise work, collectives, messages. Work that is in a table is priced by it, and not by peaks and
 * bandwidths.
 *
 * Between measured sizes, the logarithm of a value is interpolated over the logarithms of the sizes. The value of
 * products, attention and element-wise work is the seconds per unit of work; outside of the measured sizes it is that
 * at the nearest edge. The value of collectives and messages is the seconds; above the largest measured size their rate
 * is constant. */
#ifndef TRI_PLAN_MEASURED_H
#define TRI_PLAN_MEASURED_H

#include "config/config.h"
#include "device/dtype.h"
#include "ops/op.h"
#include "ops/work.h"

#include <stdint.h>

enum { TRI_MEASURED_AXES = 3 };

/* The sizes and the value of a row of a table, as logarithms. Set by tri_measured_complete. */
typedef struct tri_measured_point {
  double at[TRI_MEASURED_AXES], value;
} tri_measured_point;

/* A matrix product a b: [rows, inner] x [inner, columns]. */
typedef struct tri_measured_product {
  tri_gemm_form form;
  bool passing; /* whether b was not packed before the product, although the device packs weights
                   (tri_matmul.b_unpacked) */
  int64_t rows, inner, columns;
  double seconds;
  tri_measured_point point;
} tri_measured_product;

/* Causal attention. sequence: positions of each sequence; heads: number of heads of all sequences together. */
typedef struct tri_measured_attention {
  tri_pass pass;
  int64_t sequence, head_dim, heads;
  double seconds;
  tri_measured_point point;
} tri_measured_attention;

/* Element-wise work: an operation, or another part of a step. */
typedef struct tri_measured_elements {
  tri_work work;
  tri_pass pass;
  int64_t elements;
  double seconds;
  tri_measured_point point;
} tri_measured_elements;

/* A collective that all groups of `ranks` adjacent ranks execute at the same time. `bytes` is counted as in
 * tri_cost_exchange: the bytes of the whole buffer; for an all-to-all the bytes that a rank sends to all ranks; for a
 * ring pass the bytes that it sends to the next rank. */
typedef struct tri_measured_collective {
  tri_collective kind;
  /* Whether the buffers are in memory that the ranks of a node share (tri_comm_share), such as gradients, and the rows
   * that context ranks exchange. */
  bool shared;
  int64_t ranks, bytes;
  double seconds;
  tri_measured_point point;
} tri_measured_collective;

/* A message from each rank to the next one, all at the same time. */
typedef struct tri_measured_message {
  int64_t bytes;
  double seconds;
  tri_measured_point point;
} tri_measured_message;

enum {
  TRI_MEASURED_PRODUCTS = 768,
  TRI_MEASURED_ATTENTION = 64,
  TRI_MEASURED_ELEMENTS = 160,
  TRI_MEASURED_COLLECTIVES = 256,
  TRI_MEASURED_MESSAGES = 32,
};

typedef struct tri_measured {
  int precision; /* tri_dtype of the activations in the tables; -1: no tables of computation */
  tri_measured_product products[TRI_MEASURED_PRODUCTS];
  tri_measured_attention attention[TRI_MEASURED_ATTENTION];
  tri_measured_elements elements[TRI_MEASURED_ELEMENTS];
  tri_measured_collective collectives[TRI_MEASURED_COLLECTIVES];
  tri_measured_message messages[TRI_MEASURED_MESSAGES];
  int64_t num_products, num_attention, num_elements, num_collectives, num_messages;
} tri_measured;

extern const tri_config_table tri_measured_table;

/* Fails if tables of computation have no precision, if a collective has no kind, or if a table has a size twice. The
 * ranges of the keys cannot check these. */
tri_status tri_measured_check(const tri_measured *measured);
/* Computes the points of all rows. Must be called once before the functions below. */
void tri_measured_complete(tri_measured *measured);

/* Writes the GEMMs of a pass with this cost to `out` and returns their number; 0 for attention and for passes
 * without a GEMM. A loss has the GEMM of the logits, and in training also those of the gradients of the hidden rows
 * and of the weight. */
enum { TRI_MEASURED_MOST_PRODUCTS = 3 };
int tri_measured_products_of(const tri_op_call *call, const tri_cost *cost, tri_cost out[TRI_MEASURED_MOST_PRODUCTS]);

/* Sets *seconds to the seconds of product->products matrix products. If their form was not measured, uses the first
 * measured form in the order of tri_gemm_form. This and the following functions of type bool return false if no
 * table has the work. */
bool tri_measured_product_s(const tri_measured *measured, tri_dtype type, const tri_cost *product, double *seconds);
/* Returns the additional seconds of a weight gradient that accumulates, compared with one that overwrites; 0 if it
 * was not measured. */
double tri_measured_added_s(const tri_measured *measured, tri_dtype type, const tri_cost *gradient);
/* Sets *seconds to the seconds of a pass of attention. cost->scores must not be 0. */
bool tri_measured_attention_s(const tri_measured *measured, tri_dtype type, tri_pass pass, const tri_cost *cost,
                              double *seconds);
bool tri_measured_elements_s(const tri_measured *measured, tri_dtype type, tri_work work, tri_pass pass,
                             double elements, double *seconds);
/* Sets *out to the work with a name (work.h). Returns false if no work has the name. */
bool tri_measured_work_of(const char *name, tri_work *out);
/* Sets *seconds to the seconds of a collective of `ranks` ranks; other numbers of ranks are not interpolated. With
 * `shared`, uses the rows without shared buffers if the table has no others. */
bool tri_measured_collective_s(const tri_measured *measured, tri_collective kind, bool shared, int64_t ranks,
                               double bytes, double *seconds);
bool tri_measured_message_s(const tri_measured *measured, double bytes, double *seconds);

#endif
