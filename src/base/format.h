/* Formats numbers for people. Each function that takes a buffer writes into it and returns it. tri_format_bytes, _flops
 * and _count write "-" for a number that is not finite. */
#ifndef TRI_BASE_FORMAT_H
#define TRI_BASE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

/* Writes 1536 as "1.50 KiB", bytes below 1024 as "N bytes". */
char *tri_format_bytes(double bytes, char *buffer, size_t buffer_bytes);

/* The plural "s" of a noun after a number: "1 step", "2 steps". */
#define TRI_PLURAL(count) ((count) == 1 ? "" : "s")

/* Writes a rate of floating-point operations: "483.2 GFLOP/s". */
char *tri_format_flops(double flops, char *buffer, size_t buffer_bytes);

/* Writes 124439808 as "124.4M", numbers below 1000 without a unit. */
char *tri_format_count(double count, char *buffer, size_t buffer_bytes);

/* Writes 16384 as "16,384". */
char *tri_format_grouped(int64_t number, char *buffer, size_t buffer_bytes);

/* Writes 3725 as "1h02m", 95 as "1m35s", 4.2 as "4.2s", and "?" for a negative time or one above 1e9 s. */
char *tri_format_seconds(double seconds, char *buffer, size_t buffer_bytes);

/* Returns the value for printing with `decimals` decimals: a value that would be printed as -0.0 becomes 0. */
double tri_format_rounded(double value, int decimals);

#endif
