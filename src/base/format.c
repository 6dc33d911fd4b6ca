#include "base/format.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *tri_format_bytes(double bytes, char *buffer, size_t buffer_bytes) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  while (fabs(bytes) >= 1024.0 && unit + 1 < sizeof units / sizeof units[0]) {
    bytes /= 1024.0;
    unit++;
  }
  snprintf(buffer, buffer_bytes, unit == 0 ? "%.0f %s" : "%.2f %s", bytes, units[unit]);
  return buffer;
}

char *tri_format_count(double count, char *buffer, size_t buffer_bytes) {
  static const char *const units[] = {"", "K", "M", "B", "T", "P", "E"};
  size_t unit = 0;
  while (fabs(count) >= 999.95 && unit + 1 < sizeof units / sizeof units[0]) {
    count /= 1000.0;
    unit++;
  }
  snprintf(buffer, buffer_bytes, unit == 0 ? "%.0f%s" : "%.1f%s", count, units[unit]);
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
  char text[400]; /* as printf rounds, which is what is printed; the largest double has 309 digits */
  snprintf(text, sizeof text, "%.*f", decimals, value);
  return strtod(text, NULL) == 0 ? 0.0 : value;
}

/* Damerau's distance without transposition would call "warmpu" and "warmup" two apart; that is near enough. */
static size_t edit_distance(const char *a, const char *b) {
  size_t row[65];
  size_t length_b = strlen(b);
  if (length_b > 64) return 64;
  for (size_t j = 0; j <= length_b; j++) row[j] = j;
  for (size_t i = 0; a[i] != '\0'; i++) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 1; j <= length_b; j++) {
      size_t change = diagonal + (tolower((unsigned char)a[i]) != tolower((unsigned char)b[j - 1]));
      diagonal = row[j];
      size_t insert = row[j] + 1;
      size_t drop = row[j - 1] + 1;
      size_t best = insert < drop ? insert : drop;
      row[j] = change < best ? change : best;
    }
  }
  return row[length_b];
}

const char *tri_nearest_word(const char *word, const char *const *candidates, size_t count) {
  const char *best = NULL;
  size_t length = strlen(word);
  size_t best_distance = length;
  for (size_t i = 0; i < count; i++) {
    size_t distance = edit_distance(word, candidates[i]);
    /* `layers` should find `num_layers`: a whole word inside counts as close. */
    if (length >= 3 && (strstr(candidates[i], word) != NULL || strstr(word, candidates[i]) != NULL)) {
      distance = distance > 2 ? 2 : distance;
    }
    if (distance < best_distance) {
      best_distance = distance;
      best = candidates[i];
    }
  }
  return best_distance <= (length > 4 ? length / 2 : 2) ? best : NULL;
}
