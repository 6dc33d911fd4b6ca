#include "base/format.h"

#include "base/other_names.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is not known, as a rate without a time, is a dash. */
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

char *tri_format_count(double count, char *buffer, size_t buffer_bytes) {
  static const char *const units[] = {"", "K", "M", "B", "T", "P", "E"};
  size_t unit = 0;
  if (is_unknown(count, buffer, buffer_bytes)) return buffer;
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

static char plain(char letter) { return letter == '_' ? '-' : (char)tolower((unsigned char)letter); }

/* Changes, insertions, removals and exchanges of neighbours that make one of the other (optimal string alignment). */
static size_t edit_distance(const char *a, const char *b) {
  size_t rows[3][65];
  size_t *before = rows[0], *above = rows[1], *row = rows[2];
  size_t length_b = strlen(b);
  if (length_b > 64) return 64;
  for (size_t j = 0; j <= length_b; j++) row[j] = j;
  for (size_t i = 0; a[i] != '\0'; i++) {
    size_t *oldest = before;
    before = above;
    above = row;
    row = oldest;
    row[0] = i + 1;
    for (size_t j = 1; j <= length_b; j++) {
      char letter = plain(a[i]), other = plain(b[j - 1]);
      size_t best = above[j - 1] + (letter != other);
      if (above[j] + 1 < best) best = above[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      bool exchanged = i > 0 && j > 1 && letter == plain(b[j - 2]) && plain(a[i - 1]) == other;
      if (exchanged && before[j - 2] + 1 < best) best = before[j - 2] + 1;
      row[j] = best;
    }
  }
  return row[length_b];
}

const char *tri_known_word(const char *word, const char *const *candidates, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (tri_is_other_name(word, candidates[i])) return candidates[i];
  }
  return NULL;
}

/* Which of a name of so many letters may be wrong: more, and it is another name. */
static size_t most_edits(size_t length) { return length < 3 ? 0 : (length + 2) / 3; }

const char *tri_nearest_word(const char *word, const char *const *candidates, size_t count) {
  const char *best = tri_known_word(word, candidates, count);
  word += strspn(word, "-");
  size_t length = strlen(word);
  size_t best_distance = most_edits(length) + 1;
  if (best != NULL) return best;
  for (size_t i = 0; i < count; i++) {
    const char *candidate = candidates[i] + strspn(candidates[i], "-");
    size_t distance = edit_distance(word, candidate);
    /* `layers` should find `num_layers`: one inside the other is near enough, and what differs by less is nearer. */
    bool inside = strstr(candidate, word) != NULL || (strlen(candidate) >= 3 && strstr(word, candidate) != NULL);
    if (length >= 3 && inside && distance > most_edits(length)) distance = most_edits(length);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidates[i];
    }
  }
  return best;
}
