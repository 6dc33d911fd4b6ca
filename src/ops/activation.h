/* The cost of activation functions. */
#ifndef TRI_OPS_ACTIVATION_H
#define TRI_OPS_ACTIVATION_H

#include "device/activation.h"
#include "ops/op.h"

/* Returns the vector FLOPs for one element; an exponential or a division counts as several. */
double tri_activation_flops(tri_activation kind, tri_pass pass);

#endif
