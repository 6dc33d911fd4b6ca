/* The price of one micro-batch in a unit: a layer, the embedding or the head. Lower bounds are sums over units
 * (bounds.c). */
#ifndef TRI_PLAN_UNIT_PRICE_H
#define TRI_PLAN_UNIT_PRICE_H

#include "plan/search.h"

/* Seconds include collectives. */
typedef struct tri_unit_price {
  double forward, backward, backward_input; /* seconds; both backwards include recomputation */
  double recompute;  /* seconds of recomputation alone, for schedules that split the backward and recompute twice */
  double kept;       /* bytes of activations kept from the forward to the backward */
  double deferred;   /* bytes of gradients kept from the backward of inputs to the backward of weights */
  double recomputed; /* bytes of activations that the backward recomputes */
  double transfer;   /* bytes of the largest buffer for rows that move between ranks */
  double packed;     /* bytes of weights in packed form, which the engine keeps next to the weights */
} tri_unit_price;

/* A unit to price, in a list of operations of some layers of a model. */
typedef struct tri_wanted_unit {
  const tri_model *model;
  tri_layer_range layers; /* layers of the list */
  bool passes;            /* the backward also computes the gradient for the layers below */
  int64_t layer;          /* the layer whose calls are added; -1: embedding, num_layers: head */
  tri_unit_price *unit;   /* the sum */
} tri_wanted_unit;

/* Adds the prices of the calls of a unit in a layout to *wanted->unit. */
tri_status tri_price_unit(const tri_search_request *request, const tri_layout *of, const tri_wanted_unit *wanted);

#endif
