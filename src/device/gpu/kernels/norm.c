#include "device/gpu/kernels/norm.h"

#include "device/gpu/kernels/primitives.h"
