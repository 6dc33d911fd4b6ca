/* Whole numbers as people write them: 1000 and 1e3. */
#ifndef TRI_BASE_WHOLE_NUMBER_H
#define TRI_BASE_WHOLE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Reads a whole text: digits with or without a sign, clamped to int64_t, or a number with an exponent (1e3, 1.5e3) that
 * is whole and of magnitude at most 2^53. Returns false for any other text. */
bool tri_whole_number(const char *text, int64_t *out);

/* Reads a length in tokens: a whole number as in tri_whole_number (a negative one, too), or digits with k (1024) or
 * m (1024 * 1024), as in 128k. Upper and lower case are equal. Returns false for any other text, and for a length
 * with k or m above 2^53. */
bool tri_whole_length(const char *text, int64_t *out);

#endif
