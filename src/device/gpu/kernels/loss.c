#include "device/gpu/kernels/loss.h"

#include "device/gpu/kernels/primitives.h"
