#ifndef TRI_BASE_CLOCK_H
#define TRI_BASE_CLOCK_H

/* Seconds on a clock that never goes back; its zero means nothing. */
double tri_clock_s(void);

/* Waits; a signal may end it sooner. */
void tri_pause_s(double seconds);

#endif
