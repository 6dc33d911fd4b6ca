/* The price of one micro-batch in a unit: a layer, the embedding or the head. Lower bounds are sums over units
 * (bounds.c). */
#ifndef TRI_PLAN_UNIT_PRICE_H
#define TRI_PLAN_UNIT_PRICE_H

#include "plan/search.h"

/* The seconds and the memory of a unit for one micro-batch. Seconds include collectives. */
typedef struct tri_unit_price {
  double forward, backward, backward_input; /* seconds; both backwards include recomputation */
  double recompute;  /* seconds of the recomputation alone; schedules that split the backward recompute twice */
  double kept;       /* bytes of activations kept from the forward to the backward */
  double deferred;   /* bytes of gradients that a split backward keeps from the backward of inputs to the backward of
                        weights */
  double recomputed; /* bytes of activations that the backward recomputes */
  double transfer;   /* bytes of the largest buffer for rows that move between ranks */
  double packed;     /* bytes of packed copies of weights, which the engine keeps in addition to the weights */
} tri_unit_price;

/* The unit to price, and the list of operations that contains it. */
typedef struct tri_wanted_unit {
  const tri_model *model;
  tri_layer_range layers; /* layers in the list */
  bool passes;            /* the backward also computes the gradient of the input of the list */
  int64_t layer;          /* index of the layer that is the unit; -1: the embedding; num_layers: the head */
  tri_unit_price *unit;   /* the result, to which the prices of all calls of the unit are added */
} tri_wanted_unit;

/* Adds the prices of the calls of a unit in a layout to *wanted->unit. */
tri_status tri_price_unit(const tri_search_request *request, const tri_layout *of, const tri_wanted_unit *wanted);

#endif
