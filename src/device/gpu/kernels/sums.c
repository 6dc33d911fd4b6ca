#include "device/gpu/kernels/sums.h"

#include "device/gpu/kernels/primitives.h"
