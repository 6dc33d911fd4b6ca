#include "cli/options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

tri_status tri_option_int(const char *option, const char *text, int64_t low, int64_t high, int64_t *out) {
  char *end = NULL;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (end == text || *end != '\0') {
    return tri_fail(TRI_BAD_USAGE, "%s takes a whole number, not `%s`", option, text);
  }
  if (errno == ERANGE || value < low || value > high) {
    return tri_fail(TRI_BAD_USAGE, "%s must be from %" PRId64 " to %" PRId64 ", not %s", option, low, high, text);
  }
  *out = value;
  return TRI_OK;
}

tri_status tri_option_double(const char *option, const char *text, double low, double high, double *out) {
  char *end = NULL;
  double value = strtod(text, &end);
  if (end == text || *end != '\0' || !isfinite(value)) {
    return tri_fail(TRI_BAD_USAGE, "%s takes a number, not `%s`", option, text);
  }
  if (value < low || value > high) {
    return tri_fail(TRI_BAD_USAGE, "%s must be from %g to %g, not %s", option, low, high, text);
  }
  *out = value;
  return TRI_OK;
}

tri_status tri_option_fault(const char *command, int result, char **arguments) {
  const char *option = arguments[optind - 1];
  if (result == ':') {
    return tri_fail(TRI_BAD_USAGE, "%s: %s wants a value; see trireme %s --help", command, option, command);
  }
  return tri_fail(TRI_BAD_USAGE, "%s: %s is not an option; see trireme %s --help", command, option, command);
}
