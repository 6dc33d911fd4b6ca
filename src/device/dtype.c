#include "device/dtype.h"

const char *tri_dtype_name(tri_dtype type) {
  switch (type) {
    case TRI_FP32: return "fp32";
    case TRI_BF16: return "bf16";
    case TRI_FP64: return "fp64";
    case TRI_INT32: return "int32";
  }
  return "?";
}
