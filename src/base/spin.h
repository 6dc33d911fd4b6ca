/* How long OpenMP's threads spin where they wait for the next loop. */
#ifndef TRI_BASE_SPIN_H
#define TRI_BASE_SPIN_H

/* Starts the program again with a short spin set, unless the environment has set something of the kind: the first thing
 * in main, with its arguments, before anything is opened or started that exec does not keep. Returns in the program
 * that was started, and where it could not be started again, which costs speed only. A library cannot do this for the
 * program that calls it (docs/installing.md says what to set). */
void tri_spin_limit(char **arguments);

#endif
