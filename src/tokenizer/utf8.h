/* UTF-8: which bytes are valid, code points, and the letters that byte-level vocabularies write bytes with. */
#ifndef TRI_TOKENIZER_UTF8_H
#define TRI_TOKENIZER_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length of the code point at text (bytes > 0) and its value; 0 if the bytes there are not valid UTF-8 (overlong
 * forms, surrogates, beyond U+10FFFF, cut short). */
size_t tri_utf8_decode(const char *text, size_t bytes, uint32_t *out);

/* Writes a code point (at most 4 bytes) and returns its length. */
size_t tri_utf8_encode(uint32_t code, char out[4]);

/* The length of the longest valid start of the text, and of the longest start where no code point begins. */
size_t tri_utf8_valid_bytes(const char *text, size_t bytes);
size_t tri_utf8_invalid_bytes(const char *text, size_t bytes);

/* Whether all bytes are below 0x80. */
bool tri_utf8_is_ascii(const char *text, size_t bytes);

/* Byte-level vocabularies write each byte as a printable letter: a byte that is printable in Latin-1 stands for itself,
 * the 68 others are U+0100, U+0101, ... in order. So a space reads U+0120. */
uint32_t tri_byte_letter(uint8_t byte);
/* The byte of a letter, or -1 if no byte is written so. */
int tri_letter_byte(uint32_t letter);

#endif
