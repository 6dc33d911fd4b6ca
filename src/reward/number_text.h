/* Numbers in texts that people and models write.
 *
 * A number is a decimal, a fraction of two decimals, or a decimal with a fraction after it in LaTeX (1\frac{1}{2} is
 * 1.5), and may have
 *
 *   a sign and a currency  -5, +5, U+2212 5, $5, -$5, \$5, and the signs of euro, pound, yen and rupee
 *   thousands              1,234,567 and LaTeX's 1{,}234; a comma that no three digits follow ends the number
 *   an exponent            1.5e3, 1.5 \times 10^{3}, also with \cdot, * and the sign of multiplication
 *   a fraction             1/2, 1 / 2, \frac{1}{2}, \frac12, \dfrac, \tfrac
 *   a percent sign         50%, 50 %, 50\%: a hundredth
 *
 * A hyphen after a letter, a digit or a closing bracket is not a sign: 3-5 is 3 and 5. */
#ifndef TRI_REWARD_NUMBER_TEXT_H
#define TRI_REWARD_NUMBER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tri_number {
  bool exact;          /* whether the number equals numerator / denominator; if not, only `value` has a meaning */
  int64_t numerator;   /* in lowest terms with the denominator */
  int64_t denominator; /* above 0 */
  double value;        /* always set, finite */
} tri_number;

/* Find the first and the last number of a text. Return false if the text has no number. Numbers beyond the range of a
 * double are not counted. */
bool tri_number_first(const char *text, size_t bytes, tri_number *out);
bool tri_number_last(const char *text, size_t bytes, tri_number *out);

/* Returns whether two numbers are equal: exactly if both are exact, else up to a relative difference of 1e-9. */
bool tri_number_equals(const tri_number *a, const tri_number *b);

#endif
