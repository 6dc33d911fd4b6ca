/* Limits the time for which OpenMP's threads spin while they wait for the next loop. */
#ifndef TRI_BASE_SPIN_H
#define TRI_BASE_SPIN_H

/* Starts the program again with a short spin set, unless the environment already has such a setting. Call at the
 * begin of main, with its arguments, before anything is opened or started that exec does not keep. Returns in the
 * restarted program, or if the restart failed, which only costs speed. A library cannot do this for its program
 * (see docs/installing.md for the variables). */
void tri_spin_limit(char **arguments);

#endif
