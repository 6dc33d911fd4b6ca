#ifndef TRI_BASE_CLOCK_H
#define TRI_BASE_CLOCK_H

/* Returns the seconds on a monotonic clock; only differences have a meaning. */
double tri_clock_s(void);

/* Writes the time of day in UTC by ISO 8601, to the millisecond: "2026-11-30T10:20:30.123Z". Returns out. */
enum { TRI_CLOCK_TEXT_BYTES = 32 };
char *tri_clock_text(char out[TRI_CLOCK_TEXT_BYTES]);

/* Sleeps for `seconds`; a signal may end the pause earlier. */
void tri_pause_s(double seconds);

#endif
