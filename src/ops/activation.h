/* What activations cost, for the operations that have one. */
#ifndef TRI_OPS_ACTIVATION_H
#define TRI_OPS_ACTIVATION_H

#include "device/activation.h"
#include "ops/op.h"

/* Of one element. */
double tri_activation_flops(tri_activation kind, tri_pass pass);

#endif
