/* Whole numbers as people write them: 1000 and 1e3. */
#ifndef TRI_BASE_WHOLE_NUMBER_H
#define TRI_BASE_WHOLE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Reads all of a text: digits with or without a sign, or a number with an exponent that is whole and at most 2^53 (1e3,
 * 1.5e3). One of digits beyond int64_t is clamped. False for anything else. */
bool tri_whole_number(const char *text, int64_t *out);

#endif
