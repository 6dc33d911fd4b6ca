#include "device/gpu/kernels/optimizer.h"

#include "device/gpu/kernels/primitives.h"
