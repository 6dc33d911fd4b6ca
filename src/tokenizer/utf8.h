/* UTF-8: validity, code points, and the letters with which byte-level vocabularies spell bytes. */
#ifndef TRI_TOKENIZER_UTF8_H
#define TRI_TOKENIZER_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes the code point at the beginning of text (bytes > 0). Returns its length, and sets *out. Returns 0 if the
 * bytes there are not valid UTF-8 (overlong forms, surrogates, beyond U+10FFFF, cut short). */
size_t tri_utf8_decode(const char *text, size_t bytes, uint32_t *out);

/* Writes a code point (at most 4 bytes) and returns its length. */
size_t tri_utf8_encode(uint32_t code, char out[4]);

/* Returns the length of the longest start of the text that is valid UTF-8. */
size_t tri_utf8_valid_bytes(const char *text, size_t bytes);
/* Returns the length of the longest start of the text in which no valid code point begins. */
size_t tri_utf8_invalid_bytes(const char *text, size_t bytes);

/* Returns whether all bytes are below 0x80. */
bool tri_utf8_is_ascii(const char *text, size_t bytes);

/* Byte-level vocabularies write each byte as a printable letter: a byte that is printable in Latin-1 is written as
 * itself, the 68 others as U+0100, U+0101, ... in order, so a space is U+0120. */
uint32_t tri_byte_letter(uint8_t byte);
/* Returns the byte of a letter; -1 if it is not the letter of a byte. */
int tri_letter_byte(uint32_t letter);

#endif
