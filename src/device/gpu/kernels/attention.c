#include "device/gpu/kernels/attention.h"

#include "device/gpu/kernels/primitives.h"
