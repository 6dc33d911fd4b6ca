/* Statuses, types, messages, memory and locale of libtrireme's public functions. */
#include "base/memory.h"

#include "api/api.h"

trireme_status tri_api_status(tri_status status) {
  switch (status) {
    case TRI_OK: return TRIREME_OK;
    case TRI_BAD_USAGE: return TRIREME_BAD_USAGE;
    case TRI_BAD_CONFIG: return TRIREME_BAD_CONFIG;
    case TRI_BAD_LAYOUT: return TRIREME_BAD_LAYOUT;
    case TRI_BAD_FILE: return TRIREME_BAD_FILE;
    case TRI_IO_FAILED: return TRIREME_IO_FAILED;
    case TRI_OUT_OF_MEMORY: return TRIREME_OUT_OF_MEMORY;
    case TRI_UNSUPPORTED: return TRIREME_UNSUPPORTED;
    case TRI_DIFFERENT: /* no public function can fail with the statuses from here to TRI_INTERRUPTED */
    case TRI_DIVERGED:
    case TRI_COMM:
    case TRI_BUSY:
    case TRI_DEVICE_FAILED:
    case TRI_INTERRUPTED:
    case TRI_INTERNAL: break;
  }
  return TRIREME_INTERNAL;
}

bool tri_api_type(trireme_type type, tri_dtype *out) {
  switch (type) {
    case TRIREME_FP32: *out = TRI_FP32; return true;
    case TRIREME_BF16: *out = TRI_BF16; return true;
    case TRIREME_FP64: *out = TRI_FP64; return true;
    case TRIREME_INT32: *out = TRI_INT32; return true;
  }
  return false; /* not a value of the enumeration */
}

trireme_status tri_api_missing(const char *function, const char *argument) {
  return tri_api_status(tri_fail(TRI_BAD_USAGE, "%s: `%s` is NULL", function, argument));
}

locale_t tri_api_locale_enter(void) {
  const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  return plain == (locale_t)0 ? (locale_t)0 : uselocale(plain); /* if memory is exhausted, the locale is not changed */
}

void tri_api_locale_leave(locale_t *before) {
  if (*before != (locale_t)0) freelocale(uselocale(*before));
}

const char *trireme_message(void) { return tri_status_message(); }

const char *trireme_version(void) { return TRIREME_VERSION; }

void trireme_free(void *memory) { tri_free(memory); }
