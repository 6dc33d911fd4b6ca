#include "device/gpu/kernels/embedding.h"

#include "device/gpu/kernels/primitives.h"
