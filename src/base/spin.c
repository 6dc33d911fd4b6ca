#include "base/spin.h"

#include <stdlib.h>
#include <unistd.h>

/* Threads that wait for the next loop spin, by default for milliseconds; if other programs need the same cores, each
 * wait then costs a time slice of the system. GNU's OpenMP reads the number of spins (GOMP_SPINCOUNT) in its own
 * initialisation, before main and before the constructors of libraries that use it. .preinit_array does not help,
 * because the C library sets `environ` after those functions. So the program sets the variable and starts itself again.
 *
 * The number was chosen by measurements with two threads on a virtual EPYC with two cores, 2026-11-27 (medians of
 * five rounds; docs/performance.md has all numbers). Speeds are relative to 10000 spins. Alone on the machine, 1000
 * spins are as fast, except for writing text in bf16, which is 5 % slower. Beside two busy processes they are 1.9
 * times as fast in writing text, and 1.5 times in training. 100 spins and OMP_WAIT_POLICY=passive gain more beside
 * busy processes, but are slower alone: writing text by 11 % with 100 spins and by 5 % with passive, training by 14
 * % with passive. */
#define SPINS "1000"

void tri_spin_limit(char **arguments) {
  if (getenv("GOMP_SPINCOUNT") != NULL || getenv("OMP_WAIT_POLICY") != NULL) return;
  if (setenv("GOMP_SPINCOUNT", SPINS, 1) != 0) return;
  char path[4096]; /* path of the program's file, which process lists then show */
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return;
  path[length] = '\0';
  execv(path, arguments); /* returns only after a failure: continue without the setting */
}
