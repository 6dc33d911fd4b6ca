#include "config/nearest_word.h"

#include "config/name_aliases.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static char plain(char letter) { return letter == '_' ? '-' : (char)tolower((unsigned char)letter); }

/* MOST_LETTERS: maximum length of a word in bytes; a longer word is not similar to any other, and no name in a file is
 * longer. SHORT_NAME: maximum length of a short name (change_cost). */
enum { MOST_LETTERS = 255 };
enum { SHORT_NAME = 5 };

static bool is_long(const char *word) { return strnlen(word, MOST_LETTERS + 1) > MOST_LETTERS; }

/* Returns the cost of changing a letter. In a short name, replacing a digit by another one makes a different name (v100
 * and h800), so it costs more. */
static size_t change_cost(char letter, char other, bool is_short) {
  if (letter == other) return 0;
  return is_short && isdigit((unsigned char)letter) && isdigit((unsigned char)other) ? 2 : 1;
}

/* Returns the number of changes, insertions, removals and exchanges of neighbours that turn one word into the other
 * (optimal string alignment), with the changes weighted by change_cost; MOST_LETTERS if a word is longer than that. */
static size_t edit_distance(const char *a, const char *b) {
  size_t rows[3][MOST_LETTERS + 1];
  size_t *before = rows[0], *above = rows[1], *row = rows[2];
  if (is_long(a) || is_long(b)) return MOST_LETTERS;
  size_t length_b = strlen(b);
  const bool is_short = length_b <= SHORT_NAME;
  for (size_t j = 0; j <= length_b; j++) row[j] = j;
  for (size_t i = 0; a[i] != '\0'; i++) {
    size_t *oldest = before;
    before = above;
    above = row;
    row = oldest;
    row[0] = i + 1;
    for (size_t j = 1; j <= length_b; j++) {
      char letter = plain(a[i]), other = plain(b[j - 1]);
      size_t best = above[j - 1] + change_cost(letter, other, is_short);
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
  if (is_long(word)) return NULL;
  for (size_t i = 0; i < count; i++) {
    if (tri_is_name_alias(word, candidates[i])) return candidates[i];
  }
  return NULL;
}

/* Returns the maximum number of wrong letters in a name of this length. A word with more of them is a different
 * name. */
static size_t most_edits(size_t length) { return length < 3 ? 0 : (length + 2) / 3; }

const char *tri_nearest_word(const char *word, const char *const *candidates, size_t count) {
  if (is_long(word)) return NULL;
  const char *best = tri_known_word(word, candidates, count);
  word += strspn(word, "-");
  size_t length = strlen(word);
  size_t best_distance = most_edits(length) + 1;
  if (best != NULL) return best;
  for (size_t i = 0; i < count; i++) {
    const char *candidate = candidates[i] + strspn(candidates[i], "-");
    size_t distance = edit_distance(word, candidate);
    /* `layers` should find `num_layers`: a word inside another counts as near enough, but a word with fewer differences
     * is nearer. */
    bool inside = strstr(candidate, word) != NULL || (strlen(candidate) >= 3 && strstr(word, candidate) != NULL);
    if (length >= 3 && inside && distance > most_edits(length)) distance = most_edits(length);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidates[i];
    }
  }
  return best;
}
