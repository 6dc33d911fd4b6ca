#include "device/gpu/kernels/matmul.h"

#include "device/gpu/kernels/primitives.h"
