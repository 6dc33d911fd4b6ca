#include "files/shell_word.h"

#include <string.h>

const char *tri_shell_word(const char *word, char out[TRI_SHELL_WORD_BYTES]) {
  static const char quote[] = "'\\''"; /* ends the quotes, adds a quote, begins them again */
  const size_t length = strlen(word);
  size_t at = 0;
  const bool plain = strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%") == length;
  if ((plain && length > 0) || length > TRI_PATH_BYTES) return word;
  out[at++] = '\'';
  for (size_t i = 0; i < length; i++) {
    if (word[i] != '\'') {
      out[at++] = word[i];
      continue;
    }
    memcpy(out + at, quote, sizeof quote - 1);
    at += sizeof quote - 1;
  }
  out[at++] = '\'';
  out[at] = '\0';
  return out;
}
