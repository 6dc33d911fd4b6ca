/* Names of the operations, for messages. */
#include "comm/internal.h"

const char *tri_operation_name(tri_operation operation) {
  switch (operation) {
    case TRI_ALL_REDUCE: return "all_reduce";
    case TRI_REDUCE_SCATTER: return "reduce_scatter";
    case TRI_ALL_GATHER: return "all_gather";
    case TRI_ALL_MAXIMUM: return "all_maximum";
    case TRI_ALL_SUM_INT64: return "all_sum_int64";
    case TRI_BROADCAST: return "broadcast";
    case TRI_GATHER_BYTES: return "gather_bytes";
    case TRI_BARRIER: return "barrier";
    case TRI_ALL_TO_ALL: return "all_to_all";
    case TRI_RING_PASS: return "pass";
    case TRI_SEND: return "send";
    case TRI_RECEIVE: return "receive";
  }
  return (int)operation == 0 ? "nothing" : "nothing known"; /* a request's memory before its first use */
}
