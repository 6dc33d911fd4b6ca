#ifndef TRI_BASE_CLOCK_H
#define TRI_BASE_CLOCK_H

/* Seconds on a clock that never goes back; its zero means nothing. */
double tri_clock_s(void);

#endif
