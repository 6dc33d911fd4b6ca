#ifndef TRI_BASE_CLOCK_H
#define TRI_BASE_CLOCK_H

/* Returns the seconds on a monotonic clock; only differences have a meaning. */
double tri_clock_s(void);

/* Sleeps; a signal may end the pause earlier. */
void tri_pause_s(double seconds);

#endif
