#include "base/format.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns whether a number is unknown (not finite), such as a rate without a time; if so, writes a dash. */
static bool is_unknown(double value, char *buffer, size_t buffer_bytes) {
  if (isfinite(value)) return false;
  snprintf(buffer, buffer_bytes, "-");
  return true;
}

char *tri_format_bytes(double bytes, char *buffer, size_t buffer_bytes) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  if (is_unknown(bytes, buffer, buffer_bytes)) return buffer;
  while (fabs(bytes) >= 1024.0 && unit + 1 < sizeof units / sizeof units[0]) {
    bytes /= 1024.0;
    unit++;
  }
  snprintf(buffer, buffer_bytes, unit == 0 ? "%.0f %s" : "%.2f %s", bytes, units[unit]);
  return buffer;
}

/* Divides a number by 1000 until it is printed with at most three digits before the point, and returns the number of
 * divisions. */
static size_t scale(double *number) {
  size_t unit = 0;
  for (; fabs(*number) >= 999.95 && unit < 6; unit++) *number /= 1000.0;
  return unit;
}

char *tri_format_flops(double flops, char *buffer, size_t buffer_bytes) {
  static const char *const units[] = {"", "K", "M", "G", "T", "P", "E"};
  if (is_unknown(flops, buffer, buffer_bytes)) return buffer;
  const size_t unit = scale(&flops);
  snprintf(buffer, buffer_bytes, "%.1f %sFLOP/s", flops, units[unit]);
  return buffer;
}

char *tri_format_count(double count, char *buffer, size_t buffer_bytes) {
  static const char *const units[] = {"", "K", "M", "B", "T", "P", "E"};
  if (is_unknown(count, buffer, buffer_bytes)) return buffer;
  const size_t unit = scale(&count);
  snprintf(buffer, buffer_bytes, unit == 0 ? "%.0f%s" : "%.1f%s", count, units[unit]);
  return buffer;
}

char *tri_format_grouped(int64_t number, char *buffer, size_t buffer_bytes) {
  char digits[32];
  const size_t length = (size_t)snprintf(digits, sizeof digits, "%lld", (long long)number);
  size_t held = 0;
  for (size_t i = 0; i < length && held + 2 < buffer_bytes; i++) {
    const bool after_digit = i > 0 && digits[i - 1] != '-';
    if (after_digit && (length - i) % 3 == 0) buffer[held++] = ',';
    buffer[held++] = digits[i];
  }
  buffer[held] = '\0';
  return buffer;
}

char *tri_format_seconds(double seconds, char *buffer, size_t buffer_bytes) {
  if (!(seconds >= 0) || seconds > 1e9) {
    snprintf(buffer, buffer_bytes, "?");
  } else if (seconds < 60) {
    snprintf(buffer, buffer_bytes, "%.1fs", seconds);
  } else if (seconds < 3600) {
    snprintf(buffer, buffer_bytes, "%dm%02ds", (int)seconds / 60, (int)seconds % 60);
  } else {
    snprintf(buffer, buffer_bytes, "%ldh%02dm", (long)seconds / 3600, (int)((long)seconds % 3600) / 60);
  }
  return buffer;
}

double tri_format_rounded(double value, int decimals) {
  char text[400]; /* rounded by printf, like the printed number; the largest double has 309 digits */
  snprintf(text, sizeof text, "%.*f", decimals, value);
  return strtod(text, NULL) == 0 ? 0.0 : value;
}
