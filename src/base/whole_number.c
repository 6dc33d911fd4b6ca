#include "base/whole_number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool tri_whole_number(const char *text, int64_t *out) {
  const char *digits = text + (text[0] == '-' || text[0] == '+');
  const size_t count = strspn(digits, "0123456789");
  if (count > 0 && digits[count] == '\0') {
    *out = strtoll(text, NULL, 10);
    return true;
  }
  if (count == 0 || digits[strspn(digits, "+-.0123456789eE")] != '\0' || strpbrk(digits, "eE") == NULL) return false;
  char *end = NULL;
  const double value = strtod(text, &end);
  if (*end != '\0' || value != floor(value) || fabs(value) > 9007199254740992.0) return false;
  *out = (int64_t)value;
  return true;
}

bool tri_whole_length(const char *text, int64_t *out) {
  const size_t count = strspn(text, "0123456789");
  const bool kilo = text[count] == 'k' || text[count] == 'K', mega = text[count] == 'm' || text[count] == 'M';
  const int64_t unit = mega ? 1024 * 1024 : 1024, most = INT64_C(1) << 53;
  if (!(kilo || mega)) return tri_whole_number(text, out);
  if (count == 0 || count > 16 || text[count + 1] != '\0') return false;
  const int64_t number = strtoll(text, NULL, 10);
  if (number > most / unit) return false;
  *out = number * unit;
  return true;
}
