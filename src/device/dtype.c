#include "device/dtype.h"

#include <math.h>

tri_status tri_dtype_check_number(tri_dtype activations, const char *key, double value) {
  const char *becomes = NULL;
  double narrow = value;
  switch (tri_dtype_wide(activations)) {
    case TRI_FP64: return TRI_OK;
    case TRI_FP32: narrow = (double)(float)value; break;
    case TRI_BF16:
    case TRI_INT32: break; /* not wide */
  }
  if (value != 0 && narrow == 0) becomes = "0";
  if (isfinite(value) && !isfinite(narrow)) becomes = "infinite";
  if (value < 1 && narrow == 1) becomes = "1";
  if (becomes == NULL) return TRI_OK;
  return tri_fail(
      TRI_BAD_CONFIG,
      "`%s` %.17g becomes %s in fp32, in which it is used; choose a number between 1.2e-38 and 3.4e38%s, or "
      "`precision: fp64` with `device: reference`",
      key, value, becomes, value < 1 && narrow == 1 ? " that is at most 0.9999999" : "");
}

const char *tri_dtype_name(tri_dtype type) {
  switch (type) {
    case TRI_FP32: return "fp32";
    case TRI_BF16: return "bf16";
    case TRI_FP64: return "fp64";
    case TRI_INT32: return "int32";
  }
  return "?";
}
