/* Names of families, and the divisor nearest to a number. */
#include "model/model.h"

#define NAME_CASE(VALUE, name)                                                                                         \
  case TRI_FAMILY_##VALUE: return #name;

const char *tri_family_name(tri_family family) {
  switch (family) { TRI_FAMILIES(NAME_CASE) }
  return NULL;
}

int64_t tri_nearest_divisor(int64_t n, int64_t wanted) {
  for (int64_t away = 0; away < n; away++) {
    if (wanted > away && n % (wanted - away) == 0) return wanted - away;
    if (n % (wanted + away) == 0) return wanted + away;
  }
  return 1;
}
