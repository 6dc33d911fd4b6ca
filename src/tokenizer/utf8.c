#include "tokenizer/utf8.h"

#include <string.h>

static bool is_continuation(char byte) { return ((uint8_t)byte & 0xC0) == 0x80; }

size_t tri_utf8_decode(const char *text, size_t bytes, uint32_t *out) {
  uint8_t first = (uint8_t)text[0];
  if (first < 0x80) {
    *out = first;
    return 1;
  }
  size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || bytes < length) return 0;
  uint32_t code = first & (0x7Fu >> length);
  for (size_t i = 1; i < length; i++) {
    if (!is_continuation(text[i])) return 0;
    code = code << 6 | ((uint8_t)text[i] & 0x3F);
  }
  if (length == 3 && (code < 0x800 || (code >= 0xD800 && code < 0xE000))) return 0;
  if (length == 4 && (code < 0x10000 || code > 0x10FFFF)) return 0;
  *out = code;
  return length;
}

size_t tri_utf8_encode(uint32_t code, char out[4]) {
  if (code < 0x80) {
    out[0] = (char)code;
    return 1;
  }
  size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  for (size_t i = length - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3F));
  out[0] = (char)(uint8_t)((0xF00u >> length & 0xF0) | code);
  return length;
}

/* Returns the number of bytes before the first one that is not ASCII. Tests eight bytes at a time. */
static size_t ascii_bytes(const char *text, size_t bytes) {
  size_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    uint64_t word = 0;
    memcpy(&word, text + i, 8);
    if ((word & UINT64_C(0x8080808080808080)) != 0) break;
  }
  while (i < bytes && (uint8_t)text[i] < 0x80) i++;
  return i;
}

bool tri_utf8_is_ascii(const char *text, size_t bytes) { return ascii_bytes(text, bytes) == bytes; }

size_t tri_utf8_valid_bytes(const char *text, size_t bytes) {
  size_t i = 0;
  while (i < bytes) {
    uint32_t code = 0;
    i += ascii_bytes(text + i, bytes - i);
    while (i < bytes && (uint8_t)text[i] >= 0x80) {
      size_t length = tri_utf8_decode(text + i, bytes - i, &code);
      if (length == 0) return i;
      i += length;
    }
  }
  return i;
}

size_t tri_utf8_invalid_bytes(const char *text, size_t bytes) {
  size_t i = 0;
  uint32_t code = 0;
  while (i < bytes && tri_utf8_decode(text + i, bytes - i, &code) == 0) i++;
  return i;
}

uint32_t tri_byte_letter(uint8_t byte) {
  if (byte < 33) return 256u + byte;
  if (byte >= 127 && byte <= 160) return 256u + 33 + (byte - 127u);
  if (byte == 173) return 256u + 33 + 34;
  return byte;
}

int tri_letter_byte(uint32_t letter) {
  if (letter >= 256 && letter < 256 + 33) return (int)letter - 256;
  if (letter >= 256 + 33 && letter < 256 + 33 + 34) return (int)letter - 256 - 33 + 127;
  if (letter == 256 + 33 + 34) return 173;
  return letter < 256 && tri_byte_letter((uint8_t)letter) == letter ? (int)letter : -1;
}
