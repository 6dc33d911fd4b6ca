/* The price of one micro-batch in a unit: a layer, the embedding or the head. Lower bounds are sums over units
 * (bounds.c). */
#ifndef TRI_PLAN_UNIT_PRICE_H
#define TRI_PLAN_UNIT_PRICE_H

#include "plan/search.h"

/* The seconds and the bytes of a unit for one micro-batch. Seconds include collectives. */
typedef struct tri_unit_price {
  double forward, backward, backward_input; /* seconds; both backwards include recomputation */
  double recompute;                         /* seconds of recomputation alone; a split backward recomputes twice */
  double kept;       /* bytes of activations that stay on the device from the forward to the backward */
  double deferred;   /* bytes of gradients of outputs that a split backward keeps until the backward of weights */
  double recomputed; /* bytes of activations that the backward recomputes */
  double transfer;   /* bytes of the largest buffer for rows that move between ranks */
  double packed;     /* bytes of packed copies of weights, in addition to the weights themselves */
} tri_unit_price;

/* A request: the unit to price, and the layers of the list of operations that contains it. */
typedef struct tri_wanted_unit {
  const tri_model *model;
  tri_layer_range layers; /* layers of the list */
  bool passes;            /* whether the backward also computes the gradient of the input of the list */
  int64_t layer;          /* index of the layer that is the unit; -1: the embedding; num_layers: the head */
  tri_unit_price *unit;   /* the result: prices of the calls of the unit are added to it */
} tri_wanted_unit;

/* Adds the prices of the calls of a unit in a layout to *wanted->unit, which begins as {0}. */
tri_status tri_price_unit(const tri_search_request *request, const tri_layout *of, const tri_wanted_unit *wanted);

#endif
