#include "base/spin.h"

#include <stdlib.h>
#include <unistd.h>

/* Threads that wait for the next loop spin, by default for milliseconds; if other programs need the same cores, each
 * wait then costs a time slice of the system. GNU's OpenMP reads the number in its own initialisation, before main and
 * before the constructors of libraries that use it. .preinit_array does not help, because the C library sets `environ`
 * after those functions. So the program sets the variable and starts itself again.
 *
 * On two threads of a virtual EPYC with two cores, 2026-11-27, medians of five rounds' ratios to what 10000 spins give
 * (docs/performance.md has the numbers): 1000 is as fast alone (5 % slower writing in bf16) and 1.9 (writing text)
 * and 1.5 times (training) as fast beside two busy processes; 100 and OMP_WAIT_POLICY=passive gain more there, and lose
 * 11 and 5 % (writing text) or 14 % (training, passive) alone. */
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
