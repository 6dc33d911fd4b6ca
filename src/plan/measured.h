/* What a device was measured to take, as tables of a cluster's file (`measured:`). Where there is one it is asked
 * before the model: products by shape and form, attention, element-wise work, collectives, messages.
 *
 * Between shapes that were measured the seconds for each unit of work are interpolated, logarithms over logarithms;
 * beyond them they are those of the nearest edge. */
#ifndef TRI_PLAN_MEASURED_H
#define TRI_PLAN_MEASURED_H

#include "config/config.h"
#include "device/dtype.h"
#include "ops/op.h"
#include "ops/work.h"

#include <stdint.h>

enum { TRI_MEASURED_AXES = 3 };

/* Where a row lies, and what it says there: logarithms, filled in by tri_measured_complete. */
typedef struct tri_measured_point {
  double at[TRI_MEASURED_AXES], value;
} tri_measured_point;

typedef struct tri_measured_product {
  tri_product_form form;
  bool passing; /* b is not a packed weight although the device packs those that stay */
  int64_t rows, inner, columns;
  double seconds;
  tri_measured_point point;
} tri_measured_product;

/* `heads` heads, of all sequences together, causal, of that many positions each. */
typedef struct tri_measured_attention {
  tri_pass pass;
  int64_t sequence, head_dim, heads;
  double seconds;
  tri_measured_point point;
} tri_measured_attention;

typedef struct tri_measured_elements {
  tri_work work;
  tri_pass pass;
  int64_t elements;
  double seconds;
  tri_measured_point point;
} tri_measured_elements;

/* A collective of all groups of that many neighbouring ranks at once; `bytes` of the whole buffer, of an all-to-all
 * what a rank has for all, of a pass what goes to the next. */
typedef struct tri_measured_collective {
  tri_collective kind;
  bool shared; /* the buffers lie where the ranks of a node see each other's: gradients, and what ranks that share a
                  sequence pass */
  int64_t ranks, bytes;
  double seconds;
  tri_measured_point point;
} tri_measured_collective;

/* From each rank to its neighbour. */
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
  int precision; /* a tri_dtype, of activations; -1: nothing was measured */
  tri_measured_product products[TRI_MEASURED_PRODUCTS];
  tri_measured_attention attention[TRI_MEASURED_ATTENTION];
  tri_measured_elements elements[TRI_MEASURED_ELEMENTS];
  tri_measured_collective collectives[TRI_MEASURED_COLLECTIVES];
  tri_measured_message messages[TRI_MEASURED_MESSAGES];
  int64_t num_products, num_attention, num_elements, num_collectives, num_messages;
} tri_measured;

extern const tri_config_table tri_measured_table;

/* What no range of a key says: rows without a precision, the same row twice. */
tri_status tri_measured_check(const tri_measured *measured);
/* Fills in the points. Before anything is asked. */
void tri_measured_complete(tri_measured *measured);

/* The products that a pass of this cost is made of, none if it makes none or attention. A loss makes the logits and,
 * where a backward follows, from their gradient those of the hidden rows and of the weight. */
enum { TRI_MEASURED_MOST_PRODUCTS = 3 };
int tri_measured_products_of(const tri_op_call *call, const tri_cost *cost, tri_cost out[TRI_MEASURED_MOST_PRODUCTS]);

/* Seconds of `products` products. A form that was not measured is taken to be as fast as the nearest that was. False,
 * here and below: no table says. */
bool tri_measured_product_s(const tri_measured *measured, tri_dtype type, const tri_cost *product, double *seconds);
/* Seconds more that a gradient of a weight takes which is added to what is there; 0 if no table says. */
double tri_measured_added_s(const tri_measured *measured, tri_dtype type, const tri_cost *gradient);
/* Of a cost whose `scores` are not 0. */
bool tri_measured_attention_s(const tri_measured *measured, tri_dtype type, tri_pass pass, const tri_cost *cost,
                              double *seconds);
bool tri_measured_elements_s(const tri_measured *measured, tri_dtype type, tri_work work, tri_pass pass,
                             double elements, double *seconds);
/* The work of an operation of that name. */
bool tri_measured_work_of(const char *name, tri_work *out);
bool tri_measured_collective_s(const tri_measured *measured, tri_collective kind, bool shared, int64_t ranks,
                               double bytes, double *seconds);
bool tri_measured_message_s(const tri_measured *measured, double bytes, double *seconds);

#endif
