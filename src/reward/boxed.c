#include "reward/boxed.h"

#include <string.h>

static const char opening[] = "\\boxed{";

bool tri_reward_boxed(const char *text, size_t bytes, const char **content, size_t *content_bytes) {
  const size_t length = sizeof opening - 1;
  size_t at = bytes;
  int depth = 1;
  if (bytes < length) return false;
  for (at = bytes - length; memcmp(text + at, opening, length) != 0; at--) {
    if (at == 0) return false;
  }
  const size_t begin = at + length;
  size_t end = begin;
  for (; end < bytes; end++) {
    if (text[end] == '{') depth++;
    if (text[end] == '}' && --depth == 0) break;
    if (text[end] == '\\' && end + 1 < bytes) end++; /* an escaped brace does not count */
  }
  *content = text + begin;
  *content_bytes = end - begin;
  return true;
}
