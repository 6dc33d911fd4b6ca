#include "tune/process.h"

#include <sched.h>
#include <sys/resource.h>

/* Binds this process to part `part` of `parts` equal parts of its cores, so that parallel trials share no core. Does
 * nothing if there are fewer cores than parts. */
static void bind_cores(int part, int parts) {
  cpu_set_t all, own;
  int seen = 0;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return;
  int cores = CPU_COUNT(&all);
  if (cores < parts) return;
  CPU_ZERO(&own);
  for (int c = 0; c < CPU_SETSIZE; c++) {
    if (!CPU_ISSET(c, &all)) continue;
    if ((long)seen * parts / cores == part) CPU_SET(c, &own);
    seen++;
  }
  sched_setaffinity(0, sizeof own, &own);
}

static void set_limits(const void *context) {
  const tri_process_limits *limits = context;
  if (limits->memory_bytes > 0) {
    setrlimit(RLIMIT_DATA, &(struct rlimit){limits->memory_bytes, limits->memory_bytes});
  }
  if (limits->parts > 1) bind_cores(limits->part, limits->parts);
}

tri_status tri_process_start(char *const *line, const char *log, const tri_process_limits *limits, tri_child *out) {
  return tri_child_start(&(tri_child_options){.line = line, .log = log, .prepare = set_limits, .context = limits}, out);
}
