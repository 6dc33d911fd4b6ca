#include "train/peak.h"
tri_status tri_peak_flops(tri_device *device, tri_dtype type, double *out) {
  (void)device; (void)type; *out = 0; return TRI_OK;
}
